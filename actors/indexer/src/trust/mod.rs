//! The trust evaluator: decides which DIDs of the registry are trusted, from the registry and from the DIDs' own
//! evidence.
//!
//! State: the DIDs that are to be evaluated, the running evaluations, those that wait for a web server, and the trust checkpoint,
//! which follows the block checkpoint.
//!
//! Senders: the follower announces each stored block; the evaluator's own tasks return their results.
//!
//! Guarantees: the evaluator opens the heights in order, evaluates the triggered DIDs as of the last height of a round,
//! and writes the round in one transaction. Blocks never wait for it. Fetched evidence is kept, and fetched again only
//! when the registry requests it. A height is in the store before the trust hub publishes it. An evaluation whose outcome depends
//! on a web server that fails for a reason that may pass stays open, and tries again, for as long as the patience; the last finished
//! verdict stays meanwhile.
//!
//! When it dies, the next incarnation continues from the trust checkpoint, the pending DIDs and the open evaluations in the store.

mod actor;
mod config;
mod core;
mod evaluation;
mod evaluation_queue;
pub mod patience;
mod round;
#[cfg(test)]
mod tests;
mod triggers;

use std::{sync::Arc, time::Duration};

use svc_kit::{Handle, impl_actor_message, supervision::ChildSpec};
use svc_wire::trust_stream::RecordedTrustBlock;

use crate::{
    hub::{HubHandle, TrustTopic},
    pace::AnnouncedInterval,
    start_height::StartHeight,
    store::{IndexStore, IndexStoreError},
};
use actor::TrustEvaluator;
pub use config::TrustConfig;
pub use evaluation::did_evaluator::DidEvaluator;
use evaluation::did_evaluator::{DidEvaluation, EvaluationError};
use patience::open_evaluation::OpenEvaluation;
use triggers::round_triggers::RoundTriggers;

/// Announcements that may wait. The evaluator learns of a block that did not fit from the next one.
const TRUST_EVALUATOR_MAILBOX: usize = 1_024;

/// The address of the trust evaluator.
#[derive(Clone)]
pub struct TrustEvaluatorHandle(Handle<Msg>);

impl TrustEvaluatorHandle {
    /// Creates the address of an evaluator that is not started yet.
    pub fn new() -> Self {
        Self(Handle::new("trust_evaluator", "trust_evaluator", TRUST_EVALUATOR_MAILBOX))
    }

    /// Returns the child specification that starts the evaluator at this address.
    pub fn child_spec(&self, args: Args) -> ChildSpec {
        ChildSpec::worker::<TrustEvaluator>(&self.0, args)
    }

    /// Announces that a block is in the store.
    pub fn block_stored(&self, height: u64) {
        // An evaluator that restarts reads the block checkpoint, and one with a full mailbox learns of the next block.
        self.0.notify(Msg::BlockStored { height });
    }

    /// Has the evaluator and its hub begin with another first height.
    pub fn restart(&self) {
        // An evaluator that is down begins with that height anyway.
        self.0.notify(Msg::Restart);
    }
}

/// Arguments of the trust evaluator.
pub struct Args {
    pub did_evaluator: Arc<DidEvaluator>,
    /// The store on the connection that is reserved for writes.
    pub write_store: IndexStore,
    pub hub: HubHandle<TrustTopic>,
    /// How long a round waits for web servers; by default half the block interval, within bounds.
    pub wait_limit: Option<Duration>,
    /// The time between blocks.
    pub block_interval: AnnouncedInterval,
    /// First height at which DIDs are evaluated: the newest height of the node at the start.
    pub live_height: u64,
    /// First height of an empty store.
    pub start_height: StartHeight,
}

/// Messages of the follower and of the evaluator's own tasks.
pub enum Msg {
    /// A block is in the store.
    BlockStored { height: u64 },
    /// The empty store begins with another height.
    Restart,
    /// The load of the triggers of a round ended.
    TriggersLoaded { result: Result<Box<RoundTriggers>, IndexStoreError> },
    /// The evaluation of a DID ended.
    DidEvaluated { did: String, result: Result<Box<DidEvaluation>, EvaluationError> },
    /// The time of the round with this last height is over.
    WaitExpired { height: u64 },
    /// The write of a round ended; the blocks are for the trust hub.
    RoundWritten { result: Result<Vec<RecordedTrustBlock>, IndexStoreError> },
    /// The delay after a failure is over.
    Retry,
    /// The next try of an open evaluation is due.
    TriesDue,
    /// A try of an open evaluation ended.
    TryEnded { tried: Box<OpenEvaluation>, result: Result<Box<DidEvaluation>, EvaluationError> },
}

impl_actor_message!(Msg {
    BlockStored,
    Restart,
    TriggersLoaded,
    DidEvaluated,
    WaitExpired,
    RoundWritten,
    Retry,
    TriesDue,
    TryEnded,
});
