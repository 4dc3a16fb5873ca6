//! The order of deliveries, and the consequences of an attempt. Pure.

use std::{collections::VecDeque, time::Duration};

use svc_agent_store::{DeadLetter, OutboxEvent};
use svc_kit::backoff::Backoff;

/// Events that are read ahead, and deliveries that are settled together.
pub(super) const BATCH: usize = 64;
/// Age of an event after which a failure makes it a dead letter, in seconds.
const MAX_AGE: i64 = 24 * 60 * 60;
/// Longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(60 * 60);
/// Pause after a failure of the store.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// The result of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryResult {
    /// HTTP status; `None` without an answer.
    pub status: Option<u16>,
    /// The reason of a failure without an answer.
    pub error: Option<String>,
    /// Pause that the receiver wants.
    pub retry_after: Option<Duration>,
}

/// An effect that the actor performs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CourierEffect {
    /// Reads events behind a number.
    Load(i64),
    /// Sends an event.
    Send(OutboxEvent),
    /// Removes delivered events, and moves others to the dead letters.
    Settle(Vec<i64>, Vec<DeadLetter>),
    /// Sends again after a pause.
    Wake(Duration),
    /// Settles again after a pause.
    SettleLater(Duration),
    /// Says that nothing is under way any more, and whether all deliveries are settled.
    Finished(bool),
}

/// The consequence of an attempt.
#[derive(Debug, PartialEq, Eq)]
enum Consequence {
    Delivered,
    DeadLetter,
    Retry(Duration),
}

/// The courier's state.
pub(super) struct CourierCore {
    backoff: Backoff,
    queue: VecDeque<OutboxEvent>,
    /// Attempts of the first event.
    attempts: u32,
    delivered: Vec<i64>,
    dead: Vec<DeadLetter>,
    /// Numbers of delivered events and dead letters that are being settled.
    settling: Option<(Vec<i64>, Vec<DeadLetter>)>,
    last_loaded: i64,
    is_sending: bool,
    is_loading: bool,
    is_paused: bool,
    is_settling_paused: bool,
    /// Whether the outbox may have events behind the last loaded one.
    has_more: bool,
    /// Whether events were stored since the last load began, which may not have seen them.
    is_stored_meanwhile: bool,
    /// Whether the agent ends.
    is_finishing: bool,
}

impl CourierCore {
    /// Begins with the oldest event.
    pub fn new(min_backoff: Duration) -> Self {
        Self {
            backoff: Backoff { initial: min_backoff, max: MAX_PAUSE, factor: 2.0, jitter: 0.2 },
            queue: VecDeque::new(),
            attempts: 0,
            delivered: Vec::new(),
            dead: Vec::new(),
            settling: None,
            last_loaded: 0,
            is_sending: false,
            is_loading: false,
            is_paused: false,
            is_settling_paused: false,
            has_more: true,
            is_stored_meanwhile: false,
            is_finishing: false,
        }
    }

    /// Number of events that are read ahead.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Events were stored.
    pub fn stored(&mut self) -> Vec<CourierEffect> {
        (self.has_more, self.is_stored_meanwhile) = (true, true);
        self.advance()
    }

    /// Events were read.
    pub fn loaded(&mut self, events: Vec<OutboxEvent>) -> Vec<CourierEffect> {
        self.is_loading = false;
        self.has_more = self.is_stored_meanwhile || events.len() >= BATCH;
        self.last_loaded = events.last().map_or(self.last_loaded, |last| last.number);
        self.queue.extend(events);
        self.advance()
    }

    /// The store could not be read.
    pub fn load_failed(&mut self) -> Vec<CourierEffect> {
        self.is_loading = false;
        self.pause(STORE_PAUSE)
    }

    /// An attempt has ended. `now` is in seconds since the epoch; `random` is uniform in 0..1.
    pub fn sent(&mut self, result: &DeliveryResult, now: i64, random: f64) -> Vec<CourierEffect> {
        self.is_sending = false;
        let Some(event) = self.queue.front() else { return self.advance() };
        let attempts = self.attempts + 1;
        match self.judge(event, result, now, random) {
            Consequence::Retry(pause) => {
                self.attempts = attempts;
                return self.pause(pause);
            }
            Consequence::Delivered => self.delivered.push(event.number),
            Consequence::DeadLetter => self.dead.push(DeadLetter {
                event: event.clone(),
                attempts,
                last_status: result.status,
                last_error: result.error.clone(),
                moved_at: now,
            }),
        }
        self.attempts = 0;
        self.queue.pop_front();
        self.advance()
    }

    fn judge(&self, event: &OutboxEvent, result: &DeliveryResult, now: i64, random: f64) -> Consequence {
        match result.status {
            Some(200..=299) => Consequence::Delivered,
            // These speak of the event; 401, 403 and 404 speak of the receiver.
            Some(400 | 410 | 413 | 415 | 422) => Consequence::DeadLetter,
            _ if now - event.stored_at >= MAX_AGE => Consequence::DeadLetter,
            _ => {
                let own = self.backoff.delay(self.attempts, random);
                Consequence::Retry(
                    result.retry_after.map_or(own, |wanted| wanted.min(MAX_PAUSE).max(self.backoff.initial)),
                )
            }
        }
    }

    /// The deliveries were settled, or could not be.
    pub fn settled(&mut self, is_settled: bool) -> Vec<CourierEffect> {
        let Some((delivered, dead)) = self.settling.take() else { return Vec::new() };
        if is_settled {
            return self.advance();
        }
        self.delivered.splice(..0, delivered);
        self.dead.splice(..0, dead);
        self.is_settling_paused = true;
        let mut effects = vec![CourierEffect::SettleLater(STORE_PAUSE)];
        effects.extend(self.advance());
        effects
    }

    /// The pause after a failure of the store is over.
    pub fn settle_again(&mut self) -> Vec<CourierEffect> {
        self.is_settling_paused = false;
        let mut effects = Vec::new();
        self.settle(1, &mut effects);
        effects.extend(self.advance());
        effects
    }

    /// The agent ends: nothing more is sent, and the deliveries are settled, so that the next start does not repeat them.
    pub fn finish(&mut self) -> Vec<CourierEffect> {
        self.is_finishing = true;
        // The pause after a failure of the store does not delay the end.
        self.is_settling_paused = false;
        self.advance()
    }

    /// The pause is over.
    pub fn woken(&mut self) -> Vec<CourierEffect> {
        self.is_paused = false;
        self.advance()
    }

    fn pause(&mut self, pause: Duration) -> Vec<CourierEffect> {
        if self.is_finishing {
            return self.advance();
        }
        let mut effects = Vec::new();
        // The deliveries before are settled at once: the pause may be an hour.
        self.settle(1, &mut effects);
        if !self.is_paused {
            self.is_paused = true;
            effects.push(CourierEffect::Wake(pause));
        }
        effects
    }

    fn settle(&mut self, at_least: usize, effects: &mut Vec<CourierEffect>) {
        let count = self.delivered.len() + self.dead.len();
        if self.settling.is_none() && !self.is_settling_paused && count >= at_least {
            let settling = (std::mem::take(&mut self.delivered), std::mem::take(&mut self.dead));
            self.settling = Some(settling.clone());
            effects.push(CourierEffect::Settle(settling.0, settling.1));
        }
    }

    fn advance(&mut self) -> Vec<CourierEffect> {
        let mut effects = Vec::new();
        if self.is_finishing {
            self.settle(1, &mut effects);
            // A store that fails is not waited for.
            if !self.is_sending && self.settling.is_none() {
                effects.push(CourierEffect::Finished(self.delivered.is_empty() && self.dead.is_empty()));
            }
            return effects;
        }
        if self.is_paused || self.is_sending {
            return effects;
        }
        let is_idle = self.queue.is_empty();
        self.settle(if is_idle || !self.dead.is_empty() { 1 } else { BATCH }, &mut effects);
        // While the store fails, the number of deliveries that a crash would repeat does not grow.
        let settling = self.settling.as_ref().map_or(0, |(delivered, dead)| delivered.len() + dead.len());
        let is_held_up = settling + self.delivered.len() + self.dead.len() >= 2 * BATCH;
        match self.queue.front() {
            Some(event) if !is_held_up => {
                self.is_sending = true;
                effects.push(CourierEffect::Send(event.clone()));
            }
            None if self.has_more && !self.is_loading => {
                (self.is_loading, self.is_stored_meanwhile) = (true, false);
                effects.push(CourierEffect::Load(self.last_loaded));
            }
            _ => {}
        }
        effects
    }
}
