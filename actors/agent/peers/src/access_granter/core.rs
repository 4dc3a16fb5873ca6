//! The times of sweeps, and the rates of peers. Pure.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// Time between two sweeps while nothing has changed: a verdict that turned unseen is noticed by the next one.
const SWEEP_INTERVAL: Duration = Duration::from_secs(15);
/// Time between two sweeps while much changes: each looks at every valid grant.
const MIN_PAUSE: Duration = Duration::from_secs(3);
/// Peers whose rate is remembered.
const MAX_PEERS: usize = 20_000;
const MINUTE: Duration = Duration::from_secs(60);

/// The changes that a sweep depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SweepCause {
    /// Number of the document's version.
    pub document: u64,
    /// Number of the forgotten verdicts.
    pub verdicts: u64,
    /// Number of readings of the file.
    pub readings: u64,
}

/// The times of sweeps.
#[derive(Debug, Default)]
pub(super) struct SweepTimes {
    swept: Option<(SweepCause, Instant)>,
    is_sweeping: bool,
}

impl SweepTimes {
    /// Whether a sweep begins now.
    pub fn begins(&mut self, cause: SweepCause, now: Instant) -> bool {
        let is_due =
            self.swept.is_none_or(|(before, at)| now >= at + if before == cause { SWEEP_INTERVAL } else { MIN_PAUSE });
        let begins = is_due && !self.is_sweeping;
        if begins {
            self.is_sweeping = true;
            self.swept = Some((cause, now));
        }
        begins
    }

    /// A sweep has ended. One that failed is repeated at the next comparison.
    pub fn ended(&mut self, is_complete: bool) {
        self.is_sweeping = false;
        if !is_complete {
            self.swept = None;
        }
    }
}

/// The requests of each peer in the minute that runs for it.
#[derive(Debug, Default)]
pub(super) struct RequestRates {
    minutes: HashMap<String, (Instant, u32)>,
}

impl RequestRates {
    /// Counts a request; returns the seconds after which the peer may ask again when it has asked too often.
    pub fn take(&mut self, peer: &str, per_minute: u32, now: Instant) -> Option<u64> {
        if self.minutes.len() >= MAX_PEERS && !self.minutes.contains_key(peer) {
            self.minutes.retain(|_, (began, _)| now.saturating_duration_since(*began) < MINUTE);
            // So many at once have a reason: each begins again, which locks none out.
            if self.minutes.len() >= MAX_PEERS {
                self.minutes.clear();
            }
        }
        let (began, count) = self.minutes.entry(peer.to_owned()).or_insert((now, 0));
        if now.saturating_duration_since(*began) >= MINUTE {
            (*began, *count) = (now, 0);
        }
        if *count >= per_minute {
            let left = (*began + MINUTE).saturating_duration_since(now);
            return Some(left.as_secs().max(1));
        }
        *count += 1;
        None
    }
}
