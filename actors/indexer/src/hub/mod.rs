//! Tells subscribers of every processed block: owns who is subscribed to what.
//!
//! Each connection has a bounded queue; one that is full is closed with 1011 and touches nobody else. `ready` and
//! `subscribed` name the checkpoint of the last block told, so their promise is exact. When the hub dies, its connections
//! close, and clients catch up over REST as after any loss.

mod actor;
mod core;

use tokio::sync::mpsc;

pub use actor::{Args, Hub, Msg};
pub use core::Filter;
use svc_kit::{AskError, Handle};

/// What a connection is told to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outgoing {
    /// Send this text.
    Text(std::sync::Arc<str>),
}

/// A place at the hub.
pub struct Join {
    /// Number of this connection.
    pub id: u64,
    /// What to send. Ends without warning when the queue was full or the hub has gone.
    pub queue: mpsc::Receiver<Outgoing>,
}

/// Where connections join.
#[derive(Clone)]
pub struct HubHandle(Handle<Msg>);

impl HubHandle {
    pub(crate) fn new(handle: Handle<Msg>) -> Self {
        Self(handle)
    }

    /// Joins; `ready` is already in the queue.
    pub async fn join(&self) -> Result<Join, AskError> {
        self.0.ask(Msg::Join).await
    }

    /// Sets or replaces a connection's filter; `subscribed` follows in the queue.
    pub fn subscribe(&self, id: u64, filter: Filter) -> Result<(), AskError> {
        self.0.tell(Msg::Subscribe(id, filter))
    }

    /// Ends block messages for a connection.
    pub fn unsubscribe(&self, id: u64) -> Result<(), AskError> {
        self.0.tell(Msg::Unsubscribe(id))
    }

    /// Leaves.
    pub fn leave(&self, id: u64) {
        // A hub that is gone has forgotten the connection already.
        let _ = self.0.tell(Msg::Leave(id));
    }
}
