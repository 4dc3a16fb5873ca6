//! Hubs: each publishes the blocks of one stream, its [topic](HubTopic), to its subscribers. There is a block hub and a
//! trust hub.
//!
//! State: the connections with their queues, the subscriptions by filter, and the height of the last published block.
//!
//! Senders: the follower or the trust evaluator publishes blocks; front ends join, subscribe and leave.
//!
//! Guarantees: every subscriber receives every block in order. `ready` and `subscribed` name the next block that the
//! connection receives. A queue is bounded in frames and bytes; a full one closes its own connection and has no effect
//! on the others. The hub reads a block that it did not receive from the store.
//!
//! When a hub dies, its connections close, and clients catch up over REST. The next incarnation begins at the
//! checkpoint.

mod actor;
mod connection;
mod control_message;
mod core;
mod filter;
mod message_json;
#[cfg(test)]
mod tests;
mod topics;

use std::sync::{Arc, atomic::AtomicU64};

use svc_kit::{AskError, Handle, ReplyPort, impl_actor_message, supervision::ChildSpec};

use crate::{pace::AnnouncedInterval, start_height::StartHeight};
use actor::Hub;
pub use connection::{FrameReceiver, HubConnection};
pub use control_message::{ControlMessage, MAX_CONTROL_MESSAGE_BYTES};
pub use filter::SubscriptionFilter;
pub use topics::{HubTopic, View, block_topic::BlockTopic, trust_topic::TrustTopic};

/// Settings of a hub.
#[derive(Debug, Clone)]
pub struct HubSettings {
    /// Time between blocks, which `ready` announces to subscribers.
    pub block_interval: AnnouncedInterval,
    /// First height of the stream while the store is empty.
    pub first_height: StartHeight,
    /// Bytes that may wait for one connection.
    pub max_buffered_bytes: usize,
}

/// Messages that may wait for a hub.
const HUB_MAILBOX: usize = 16_384;

/// The address of a hub.
pub struct HubHandle<T: HubTopic = BlockTopic>(Handle<Msg<T>>);

impl<T: HubTopic> Clone for HubHandle<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: HubTopic> HubHandle<T> {
    /// Creates the address of a hub, and the child specification that starts the hub.
    pub fn child_spec(topic: T, settings: HubSettings) -> (Self, ChildSpec) {
        let handle = Handle::new(T::KIND, T::KIND, HUB_MAILBOX);
        let child = ChildSpec::worker::<Hub<T>>(&handle, Args { topic, settings, next_connection: AtomicU64::new(1) });
        (Self(handle), child)
    }

    /// Publishes a block that is in the store. Fails when the hub is not running or its mailbox is full.
    pub fn publish_block(&self, block: T::Block) -> Result<(), AskError> {
        self.publish_blocks(vec![block])
    }

    /// Publishes blocks that are in the store, in order. Fails when the hub is not running or its mailbox is full.
    pub fn publish_blocks(&self, blocks: Vec<T::Block>) -> Result<(), AskError> {
        self.0.tell(Msg::BlocksStored { blocks: blocks.into_iter().map(Arc::new).collect() })
    }

    /// Has the hub begin with another first height. It closes every connection: `ready` has promised the height of before.
    pub fn restart(&self) {
        // A hub that is down begins with that height anyway.
        self.0.notify(Msg::Restart);
    }

    /// Opens a connection, with `ready` in its queue. Fails when the hub does not answer.
    pub async fn join(&self) -> Result<HubConnection, AskError> {
        self.0.ask(|reply| Msg::Join { reply }).await
    }

    /// Applies a control message; `subscribed` follows in the queue. Fails when the hub does not answer. A front end
    /// that awaits the result has at most one control message of each connection in the mailbox.
    pub async fn send_control(&self, connection: u64, control: ControlMessage<T::TopicView>) -> Result<(), AskError> {
        self.0.ask(|reply| Msg::Control { connection, control, reply }).await
    }

    /// Closes a connection.
    pub fn leave(&self, connection: u64) {
        // A hub that restarted does not have the connection, and one with a full mailbox removes it with the next
        // block.
        self.0.notify(Msg::Leave { connection });
    }
}

/// Arguments of a hub.
pub struct Args<T> {
    pub topic: T,
    pub settings: HubSettings,
    /// Number of the next connection. All incarnations share it, so a late `leave` cannot close a connection of a
    /// successor.
    pub next_connection: AtomicU64,
}

/// Messages of a hub.
pub enum Msg<T: HubTopic> {
    /// Blocks are in the store.
    BlocksStored { blocks: Vec<Arc<T::Block>> },
    /// The load of missing blocks from the store ended.
    BlocksLoaded { result: Result<Vec<T::Block>, String> },
    /// The empty store begins with another height.
    Restart,
    /// The delay after a failed load is over.
    RetryLoad,
    /// A client opens a connection.
    Join { reply: ReplyPort<HubConnection> },
    /// A connection subscribes or unsubscribes.
    Control { connection: u64, control: ControlMessage<T::TopicView>, reply: ReplyPort<()> },
    /// A client has closed its connection.
    Leave { connection: u64 },
}

impl_actor_message!(Msg<T: HubTopic> { BlocksStored, BlocksLoaded, Restart, RetryLoad, Join, Control, Leave });
