//! The refresher: reads the corporation, the operator's authorizations and its fee allowance, and publishes one immutable snapshot.
//!
//! It owns the read under way and the callers that wait for it; the newest snapshot is with the publisher. The subscription requests
//! a read for registry events, write tasks request one when the chain contradicts the snapshot, and a timer requests one each
//! period. One read runs at a time; requests during a read share the next one. While the refresher is dead, the last snapshot stays
//! published; the next incarnation reads at once.

mod actor;
mod core;
mod index_lists;
mod snapshot_reader;
#[cfg(test)]
mod tests;

use std::time::Duration;

use svc_kit::{AskError, Handle, ReplyPort, impl_actor_message};

pub use actor::Refresher;
pub use snapshot_reader::{SnapshotSources, is_unknown_corporation, read_snapshot};

use crate::{
    agent_directory::AgentReconcilerHandle,
    snapshot::{CorporationSnapshot, publisher::SnapshotPublisher},
};

/// The reason for a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefreshTrigger {
    /// A registry event of the corporation.
    Event,
    /// The period is over.
    Period,
    /// The chain contradicted the snapshot, or a session reads it after its write.
    WriteMismatch,
}

impl RefreshTrigger {
    /// Bounded label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Period => "period",
            Self::WriteMismatch => "write",
        }
    }
}

/// Messages of the refresher.
pub enum Msg {
    /// Read the snapshot.
    Refresh {
        /// The reason.
        trigger: RefreshTrigger,
    },
    /// Read the snapshot and answer once it is published.
    RefreshAndReply {
        /// The reason.
        trigger: RefreshTrigger,
        /// Whether the snapshot could be read.
        reply: ReplyPort<bool>,
    },
    /// A read has ended.
    ReadFinished {
        /// The snapshot, or the error in words.
        outcome: Box<Result<CorporationSnapshot, String>>,
    },
}

impl_actor_message!(Msg { Refresh, RefreshAndReply, ReadFinished });

/// Arguments of a refresher.
pub struct Args {
    /// Sources of the snapshot.
    pub sources: SnapshotSources,
    /// Publishes the snapshot.
    pub publisher: SnapshotPublisher,
    /// Time between two reads without another reason.
    pub period: Duration,
    /// Hears of new snapshots.
    pub agents: AgentReconcilerHandle,
}

/// The handle of the refresher.
#[derive(Clone)]
pub struct RefresherHandle(Handle<Msg>);

impl RefresherHandle {
    /// A handle for a refresher that a supervisor will start.
    pub(crate) fn new(mailbox_limit: usize) -> Self {
        Self(Handle::new("refresher", "refresher", mailbox_limit))
    }

    /// The kit's handle, for the supervisor.
    pub(crate) fn actor(&self) -> &Handle<Msg> {
        &self.0
    }

    /// Reads the snapshot and waits until it is published; `false` when it could not be read.
    pub async fn refresh(&self, trigger: RefreshTrigger, wait_limit: Duration) -> Result<bool, AskError> {
        self.0.ask_within(wait_limit, |reply| Msg::RefreshAndReply { trigger, reply }).await
    }

    /// Requests a read for a registry event.
    pub(crate) fn registry_changed(&self) {
        // A refresher that is restarting reads everything once it is back.
        self.0.notify(Msg::Refresh { trigger: RefreshTrigger::Event });
    }
}
