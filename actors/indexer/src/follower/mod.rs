//! The follower: takes each block of the node once and in order.
//!
//! State: the height up to which blocks are written, the blocks that are fetched ahead, and the WebSocket to the node.
//!
//! Senders: its own tasks only. The reads observe it. New heights come from the WebSocket and from a poll of the node's
//! status.
//!
//! A height that one node alone states counts within the pace of the chain, and only as long as the node states it. While no node answers, the
//! follower counts as stopped; a chain that makes no blocks stops nothing.
//!
//! Guarantees: a block is taken only on top of the newest one of the store. A node with another history is left out; while no node has the
//! store's, nothing is written. Blocks are fetched in parallel and written in order, several in one transaction while the follower is behind. A block
//! is in the store before the follower hands it to the block hub and announces it to the trust evaluator.
//!
//! When it dies, the next incarnation continues from the checkpoint of the store and fetches unfinished blocks again. A
//! second write of a block has no effect.

mod actor;
mod batch;
mod core;
mod fetch;
mod node_answers;
mod node_histories;
mod node_messages;
#[cfg(test)]
mod tests;

use std::time::Duration;

use svc_kit::{Handle, RetainedState, impl_actor_message, supervision::ChildSpec};
use svc_net::{
    upstream::{BlockHead, ConfirmedHeight, KeptPart, NodeClient},
    websocket::LinkEvent,
};
use svc_wire::event_stream::BlockMessage;

use crate::{
    block::KnownMessages,
    hub::HubHandle,
    ingest::{FetchedBlock, HistoryMismatch, IngestError, PrunedHeight, StartProgress},
    pace::AnnouncedInterval,
    start_height::StartHeight,
    store::IndexStore,
    trust::TrustEvaluatorHandle,
};
use actor::Follower;
pub use node_histories::NodeHistories;
pub use node_messages::NodeMessages;

/// The observed state of the follower.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FollowerState {
    /// Newest height that is written.
    pub committed: u64,
    /// Newest height that the node is known to have.
    pub tip: u64,
    /// Seconds since the newest block that is written, by the clock of this machine; `None` without a block.
    pub block_age_seconds: Option<u64>,
    /// Whether no block was taken in for a while although the node has more.
    pub is_stuck: bool,
    /// The failure of the last attempt; `None` after a success.
    pub last_error: Option<LastError>,
}

/// A failure in a text for public answers; the log has the details.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LastError {
    /// The block and the part that failed.
    pub message: String,
    /// Time of the failure, ISO-8601 UTC.
    pub timestamp: String,
}

/// Messages that may wait; other actors only observe the follower.
const FOLLOWER_MAILBOX: usize = 64;

/// The address of the follower.
#[derive(Clone)]
pub struct FollowerHandle(Handle<Msg>);

impl FollowerHandle {
    /// Creates the address of a follower that is not started yet.
    pub fn new() -> Self {
        Self(Handle::new("follower", "follower", FOLLOWER_MAILBOX))
    }

    /// Returns the child specification that starts the follower at this address.
    pub fn child_spec(&self, args: Args) -> ChildSpec {
        ChildSpec::worker::<Follower>(&self.0, args)
    }

    /// Returns the state of the follower; `None` while it is not running.
    pub async fn state(&self) -> Option<FollowerState> {
        self.0.observe().await.and_then(|value| serde_json::from_value(value).ok())
    }
}

/// Arguments of the follower.
pub struct Args {
    pub node: NodeClient,
    /// The nodes that have another history than the store.
    pub histories: NodeHistories,
    pub messages: NodeMessages,
    pub known_messages: KnownMessages,
    /// The store on the connection that is reserved for writes.
    pub store: IndexStore,
    pub hub: HubHandle,
    pub trust_evaluator: TrustEvaluatorHandle,
    /// First height to write when the store is empty.
    pub start_height: StartHeight,
    /// Whether the configuration names it: else a later one takes its place when no node has it any more.
    pub is_start_configured: bool,
    /// The time between blocks.
    pub block_interval: AnnouncedInterval,
    /// Least time without a new block, or without an answer of any node, after which the follower does not count as running.
    pub least_patience: Duration,
    /// The failure of the last attempt; reads use it while the follower restarts.
    pub last_error: RetainedState<Option<LastError>>,
}

/// Block intervals without a new block, while the node has more, after which the follower is stuck.
const STUCK_INTERVALS: u32 = 10;
/// Block intervals without an answer of any node after which the follower counts as stopped.
const AWAY_INTERVALS: u32 = 3;

impl Args {
    /// Time without a new block after which the follower is stuck, while the node has more.
    fn stuck_after(&self) -> Duration {
        (self.block_interval.get() * STUCK_INTERVALS).max(self.least_patience)
    }

    /// Time without an answer of any node after which the follower counts as stopped.
    fn away_after(&self) -> Duration {
        (self.block_interval.get() * AWAY_INTERVALS).max(self.least_patience)
    }

    /// The error of a height that no node has any more.
    async fn pruned_height(&self, height: u64) -> Result<PrunedHeight, IngestError> {
        let oldest = self.node.oldest_height(KeptPart::BlockAndState).await?;
        let is_empty = self.store.checkpoint().await?.height == 0;
        Ok(PrunedHeight { wanted: height, oldest, is_empty })
    }
}

/// Messages of the follower's own tasks.
pub enum Msg {
    /// The WebSocket to the node changed its state or announced a height.
    Link(LinkEvent<u64>),
    /// The node in use has answered with its newest block; `confirmed` is the height that the nodes have in common.
    StatusRead { head: BlockHead, confirmed: Option<ConfirmedHeight> },
    /// The node in use has not answered, with the error in words.
    StatusFailed { error: String },
    /// The nodes were compared with the store: the mismatch for which nothing can be taken in, and whether a node was left out just before.
    HistoriesCompared { stop: Option<HistoryMismatch>, is_new: bool },
    /// The fetch of a block ended.
    Fetched { height: u64, generation: u64, result: Result<Box<FetchedBlock>, IngestError> },
    /// A page of the first entities of an empty store is written.
    StartPageWritten { progress: StartProgress },
    /// The write of the current blocks ended: those that are in the store, and the failure of the next one.
    Written { blocks: Vec<BlockMessage>, error: Option<IngestError> },
    /// The next poll of the node's status is due.
    PollStatus,
    /// The delay after a failure is over.
    Retry,
}

impl_actor_message!(Msg {
    Link,
    StatusRead,
    StatusFailed,
    HistoriesCompared,
    Fetched,
    StartPageWritten,
    Written,
    PollStatus,
    Retry
});
