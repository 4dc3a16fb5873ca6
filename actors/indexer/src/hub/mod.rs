//! Tells subscribers of every processed block: owns who is subscribed to what. There is one hub a stream; what it tells of is
//! its [`Topic`].
//!
//! Each connection has a queue bounded in messages and bytes; one that is full is closed with 1011 and touches nobody else.
//! `ready` and `subscribed` name the checkpoint of the last block told, so their promise is exact. A block the hub was not
//! told of, it reads from the store before it tells a later one. When the hub dies, its connections close, and clients catch
//! up over REST as after any loss.

mod actor;
mod control;
mod core;
#[cfg(test)]
mod tests;
mod topic;
mod trust;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use svc_kit::{AskError, Handle, supervise::ChildSpec};
use tokio::sync::mpsc;

use actor::{Args, Hub, Msg};
pub use control::{Control, MAX_CONTROL_BYTES, did_spellings, normal_did};
pub use core::Filter;
pub use topic::{BlockTopic, Topic, View};
pub use trust::{TrustSource, TrustTopic};

/// Frames for one connection, ready to be sent as they are.
#[derive(Debug)]
pub struct Queue {
    frames: mpsc::Receiver<Bytes>,
    bytes: Arc<AtomicUsize>,
}

impl Queue {
    /// The next frame. None when the queue was full at some time, after all that was in it, or when the hub has gone.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.frames.recv().await
    }

    /// A frame has left for the client.
    pub fn sent(&self, frame: &Bytes) {
        self.bytes.fetch_sub(frame.len(), Ordering::Relaxed);
    }
}

/// A place at the hub.
#[derive(Debug)]
pub struct Join {
    /// Number of this connection.
    pub id: u64,
    /// What to send; `ready` is in it already.
    pub queue: Queue,
}

/// How a hub behaves.
#[derive(Debug, Clone)]
pub struct HubSettings {
    /// Expected time between blocks, announced to subscribers.
    pub block_interval: Duration,
    /// First height there will be, when there is none yet.
    pub start: u64,
    /// Bytes that may wait for one connection.
    pub max_buffered_bytes: usize,
}

/// Joins, subscriptions and departures that may wait for a hub.
const MAILBOX: usize = 16_384;

/// Where connections join.
pub struct HubHandle<T: Topic = BlockTopic>(Handle<Msg<T>>);

impl<T: Topic> Clone for HubHandle<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Topic> HubHandle<T> {
    /// A hub that is there once its supervisor has started the child.
    pub fn child(topic: T, settings: HubSettings) -> (Self, ChildSpec) {
        let handle = Handle::new(T::KIND, T::KIND, MAILBOX);
        let child = ChildSpec::worker::<Hub<T>>(&handle, Args { topic, settings, next_id: AtomicU64::new(1) });
        (Self(handle), child)
    }

    /// Tells subscribers of a block. Blocks are told in order; one that was left out is looked for in the store.
    pub fn processed(&self, block: T::Block) -> Result<(), AskError> {
        self.0.tell(Msg::BlockProcessed(Arc::new(block)))
    }

    /// Joins; `ready` is already in the queue.
    pub async fn join(&self) -> Result<Join, AskError> {
        self.0.ask(Msg::Join).await
    }

    /// Obeys a control message; `subscribed` follows in the queue. Waiting for it keeps a client that talks too much from
    /// filling the mailbox: nobody has more than one message there.
    pub async fn control(&self, id: u64, control: Control<T::View>) -> Result<(), AskError> {
        self.0.ask(|reply| Msg::Control(id, control, reply)).await
    }

    /// Leaves.
    pub fn leave(&self, id: u64) {
        // A hub that is gone has forgotten the connection already; one that has no room forgets it with the next block.
        let _ = self.0.tell(Msg::Leave(id));
    }
}
