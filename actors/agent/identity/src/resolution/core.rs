//! The time of the next attempt, and the state that readers see. Pure.

use std::time::Duration;

use svc_agent_core::grant::{BlockedReason, pause_before_look};
use svc_kit::backoff::Backoff;

/// Time behind the newest change, and the longest behind the first one.
const AFTER_LAST_CHANGE: Duration = Duration::from_secs(2);
const AFTER_FIRST_CHANGE: Duration = Duration::from_secs(10);
/// Time after which a blocked resolution is looked at without an event.
pub(super) const BLOCKED_PAUSE: Duration = Duration::from_secs(600);
/// Time behind an event about grants and participants: one block often has several.
const AFTER_EVENT: Duration = Duration::from_secs(1);
/// Pauses between failures.
const FAILURE_BACKOFF: Backoff =
    Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(300), factor: 2.0, jitter: 0.2 };

/// The state of the resolution.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ResolutionPhase {
    /// No transaction is sent: SVC_AUTO_TRIGGER_RESOLVER is false.
    Off,
    /// The newest version was resolved.
    #[default]
    Idle,
    /// A transaction will be sent.
    Pending,
    /// A transaction is on its way.
    Submitted,
    /// No transaction can be sent.
    Blocked(BlockedReason),
}

impl ResolutionPhase {
    /// Returns the reason of a blocked resolution.
    pub fn reason(&self) -> Option<&BlockedReason> {
        match self {
            Self::Blocked(reason) => Some(reason),
            _ => None,
        }
    }

    /// Returns the state as the wire has it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Idle => "idle",
            Self::Pending => "pending",
            Self::Submitted => "submitted",
            Self::Blocked(_) => "blocked",
        }
    }
}

/// The end of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptEnd {
    /// A block has the transaction, with code 0.
    Done {
        /// Its hash.
        tx_hash: String,
    },
    /// No transaction was sent, and none will be before something has changed.
    Blocked {
        /// The reason.
        reason: BlockedReason,
        /// Time until the refill of the allowance that pays the fee, where that is the lack.
        refills_in: Option<Duration>,
    },
    /// A later attempt may succeed.
    Failed(String),
}

/// An action that the actor has to take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ResolutionEffect {
    /// Attempt to have this version resolved.
    Attempt { version: u64 },
    /// Wake the core after this pause.
    Wake(Duration),
}

/// The versions that wait, and the attempt that runs. Times are those of a clock that never goes back.
pub(super) struct ResolutionCore {
    /// The newest version, and the newest one that was resolved.
    wanted: u64,
    done: u64,
    /// First change that no attempt covers, and the newest change.
    first_change: Option<Duration>,
    last_change: Duration,
    has_chain: bool,
    running: Option<u64>,
    has_sent: bool,
    blocked: Option<BlockedReason>,
    /// Earliest next attempt after one that failed or was blocked.
    not_before: Option<Duration>,
    failures: u32,
    /// An event about grants and participants came while an attempt ran.
    was_told: bool,
}

impl ResolutionCore {
    /// Continues with the versions of the store. The changes that wait count from now at the latest: the clock may have been set back.
    pub fn new(wanted: u64, done: u64, age: Duration, now: Duration) -> Self {
        let first_change = (wanted > done).then(|| now.saturating_sub(age.min(AFTER_FIRST_CHANGE)));
        Self {
            wanted,
            done,
            first_change,
            last_change: first_change.unwrap_or(now),
            has_chain: false,
            running: None,
            has_sent: false,
            blocked: None,
            not_before: None,
            failures: 0,
            was_told: false,
        }
    }

    /// The state for readers.
    pub fn phase(&self) -> ResolutionPhase {
        match (self.running, &self.blocked) {
            (Some(_), _) if self.has_sent => ResolutionPhase::Submitted,
            (_, Some(reason)) => ResolutionPhase::Blocked(reason.clone()),
            (Some(_), None) => ResolutionPhase::Pending,
            (None, None) if self.wanted > self.done => ResolutionPhase::Pending,
            (None, None) => ResolutionPhase::Idle,
        }
    }

    /// A version was published.
    pub fn changed(&mut self, version: u64, now: Duration) -> Vec<ResolutionEffect> {
        if version <= self.wanted {
            return self.advance(now);
        }
        self.wanted = version;
        self.first_change.get_or_insert(now);
        self.last_change = now;
        self.advance(now)
    }

    /// The chain was found.
    pub fn chain_found(&mut self, now: Duration) -> Vec<ResolutionEffect> {
        self.has_chain = true;
        self.advance(now)
    }

    /// An event may have changed grants or participants, or the node runs another release.
    pub fn registry_changed(&mut self, now: Duration) -> Vec<ResolutionEffect> {
        if self.running.is_some() {
            self.was_told = true;
            return Vec::new();
        }
        if self.blocked.is_some() {
            let soon = now + AFTER_EVENT;
            self.not_before = Some(self.not_before.map_or(soon, |at| at.min(soon)));
        }
        self.advance(now)
    }

    /// The time for an attempt may have come.
    pub fn woken(&mut self, now: Duration) -> Vec<ResolutionEffect> {
        self.advance(now)
    }

    /// The transaction of the attempt is on its way.
    pub fn sent(&mut self) {
        self.has_sent = true;
        self.blocked = None;
    }

    /// An attempt ended; `random` is uniform in 0..1.
    pub fn ended(&mut self, end: &AttemptEnd, now: Duration, random: f64) -> Vec<ResolutionEffect> {
        let Some(version) = self.running.take() else { return Vec::new() };
        self.has_sent = false;
        (self.blocked, self.not_before) = match end {
            AttemptEnd::Done { .. } => {
                self.failures = 0;
                self.done = self.done.max(version);
                (None, None)
            }
            AttemptEnd::Blocked { reason, refills_in } => {
                self.failures = 0;
                let usual = if self.was_told { AFTER_EVENT } else { BLOCKED_PAUSE };
                let pause = pause_before_look(usual, *refills_in);
                (Some(reason.clone()), Some(now + pause))
            }
            AttemptEnd::Failed(_) => {
                let pause = FAILURE_BACKOFF.delay(self.failures, random);
                self.failures = self.failures.saturating_add(1);
                (self.blocked.take(), Some(now + pause))
            }
        };
        self.was_told = false;
        self.advance(now)
    }

    fn advance(&mut self, now: Duration) -> Vec<ResolutionEffect> {
        if self.running.is_some() || !self.has_chain || self.wanted <= self.done {
            return Vec::new();
        }
        let settled = self.last_change + AFTER_LAST_CHANGE;
        let by_changes = self.first_change.map_or(now, |first| settled.min(first + AFTER_FIRST_CHANGE));
        // An attempt that failed or was blocked covers the changes before it, and its pause counts.
        let due = self.not_before.map_or(by_changes, |at| at.max(by_changes));
        if due > now {
            return vec![ResolutionEffect::Wake(due - now)];
        }
        self.running = Some(self.wanted);
        self.first_change = None;
        self.not_before = None;
        vec![ResolutionEffect::Attempt { version: self.wanted }]
    }
}
