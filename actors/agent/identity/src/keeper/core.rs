//! The order and time of versions. Pure.

use std::{collections::VecDeque, time::Duration};

use svc_agent_core::error::{AgentPart, Refusal, RefusalCode};
use svc_net::host_policy::HostPolicy;

use crate::document::{DidDocument, KeyChange, ManagedEntries, ServiceChange, ServiceEntry};

/// Longest wait of a change for its version.
pub(super) const MAX_CHANGE_WAIT: Duration = Duration::from_secs(30);
/// Changes that may wait.
pub(super) const MAX_WAITING: usize = 256;
/// Longest pause before the clock is looked at again: it may have been set.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// A change of the document.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum DocumentChange {
    /// A caller's change of a service entry.
    Service(ServiceChange),
    /// The entry of the admin API, as the settings have it.
    Managed(ManagedEntries),
    /// The entries of the presentations.
    Presentations(Vec<ServiceEntry>),
    /// The keys of the document.
    Keys(KeyChange),
    /// The update key of the log, which the document does not name.
    UpdateKey,
}

/// The two clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clocks {
    /// Time since the start of the process.
    pub running: Duration,
    /// Nanoseconds since the epoch.
    pub wall: i128,
}

impl Clocks {
    /// Whole seconds since the epoch.
    pub fn wall_seconds(self) -> i64 {
        i64::try_from(self.wall.div_euclid(1_000_000_000)).unwrap_or(i64::MAX)
    }
}

/// An effect that the actor performs. `R` is the place for an answer; `None` for a change without a caller.
#[derive(Debug, PartialEq)]
pub(super) enum KeeperEffect<R> {
    /// Refuses a change.
    Refuse(R, Refusal),
    /// Writes a version with these changes.
    Write(Vec<WaitingChange<R>>),
    /// Looks again after a pause.
    Wake(Duration),
}

/// A change that waits for its version.
#[derive(Debug, PartialEq)]
pub(super) struct WaitingChange<R> {
    pub change: DocumentChange,
    pub reply: Option<R>,
    arrived: Duration,
}

/// The changes that wait.
pub(super) struct KeeperCore<R> {
    waiting: VecDeque<WaitingChange<R>>,
    is_writing: bool,
    is_wake_scheduled: bool,
    /// Time of the newest version, seconds since the epoch.
    last_version_at: i64,
}

impl<R> KeeperCore<R> {
    /// Begins behind a version.
    pub fn new(last_version_at: i64) -> Self {
        Self { waiting: VecDeque::new(), is_writing: false, is_wake_scheduled: false, last_version_at }
    }

    /// Number of changes that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Takes a change. One that no document would take is refused at once.
    pub fn submit(
        &mut self,
        change: ServiceChange,
        reply: R,
        (document, hosts): (&DidDocument, HostPolicy),
        now: Clocks,
    ) -> Vec<KeeperEffect<R>> {
        let is_idle = self.waiting.is_empty() && !self.is_writing;
        let judged = change.apply(&mut document.clone(), hosts);
        match judged {
            Err(refusal) if is_idle || !depends_on_others(refusal.code) => {
                return vec![KeeperEffect::Refuse(reply, refusal)];
            }
            _ => {}
        }
        if self.waiting.len() >= MAX_WAITING {
            let message = format!("{MAX_WAITING} changes of the document are waiting");
            return vec![KeeperEffect::Refuse(reply, Refusal::not_ready(AgentPart::Document, message, 2))];
        }
        let change = DocumentChange::Service(change);
        self.waiting.push_back(WaitingChange { change, reply: Some(reply), arrived: now.running });
        self.advance(now)
    }

    /// Takes a change of keys. The changes of others never push it out: a rotation asks for one at a time.
    pub fn submit_keys(&mut self, change: DocumentChange, reply: R, now: Clocks) -> Vec<KeeperEffect<R>> {
        self.waiting.push_back(WaitingChange { change, reply: Some(reply), arrived: now.running });
        self.advance(now)
    }

    /// Takes a change of the settings.
    pub fn submit_own(&mut self, change: DocumentChange, now: Clocks) -> Vec<KeeperEffect<R>> {
        self.waiting.push_back(WaitingChange { change, reply: None, arrived: now.running });
        self.advance(now)
    }

    /// The pause is over.
    pub fn woken(&mut self, now: Clocks) -> Vec<KeeperEffect<R>> {
        self.is_wake_scheduled = false;
        self.advance(now)
    }

    /// A version was written at an instant, or could not be.
    pub fn written(&mut self, last_version_at: i64, now: Clocks) -> Vec<KeeperEffect<R>> {
        self.is_writing = false;
        self.last_version_at = last_version_at;
        self.advance(now)
    }

    fn advance(&mut self, now: Clocks) -> Vec<KeeperEffect<R>> {
        let mut effects = self.refuse_late(now);
        if self.waiting.is_empty() {
            return effects;
        }
        // No version has the second of its predecessor, nor a time in the future.
        if !self.is_writing && now.wall_seconds() > self.last_version_at {
            self.is_writing = true;
            effects.push(KeeperEffect::Write(self.waiting.drain(..).collect()));
        } else if !self.is_wake_scheduled {
            self.is_wake_scheduled = true;
            // While a version is written, the look is for changes that have waited too long.
            let next = if self.is_writing { now.wall_seconds() } else { self.last_version_at };
            let pause = (i128::from(next) + 1) * 1_000_000_000 - now.wall;
            let pause = Duration::from_nanos(u64::try_from(pause).unwrap_or(0));
            effects.push(KeeperEffect::Wake(pause.min(MAX_PAUSE)));
        }
        effects
    }

    fn refuse_late(&mut self, now: Clocks) -> Vec<KeeperEffect<R>> {
        let mut refused = Vec::new();
        let is_late = |change: &WaitingChange<R>| now.running.saturating_sub(change.arrived) >= MAX_CHANGE_WAIT;
        // A change of the settings waits as long as it takes.
        let (late, waiting) = self.waiting.drain(..).partition(|change| change.reply.is_some() && is_late(change));
        self.waiting = waiting;
        let late: VecDeque<WaitingChange<R>> = late;
        for reply in late.into_iter().filter_map(|change| change.reply) {
            let message = "no version of the document could be written in time; nothing of the change is published";
            refused.push(KeeperEffect::Refuse(reply, Refusal::not_ready(AgentPart::Document, message, 5)));
        }
        refused
    }
}

/// Whether changes that wait can make a refused change acceptable.
fn depends_on_others(code: RefusalCode) -> bool {
    matches!(code, RefusalCode::UnknownId | RefusalCode::DuplicateId | RefusalCode::InvalidServiceEndpoint)
}
