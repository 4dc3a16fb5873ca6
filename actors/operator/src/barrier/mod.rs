//! The barrier: knows how far a reader of the chain has come, and who waits for which height. One for the indexer, one for the
//! graph.
//!
//! The height itself is retained by the tree, so a new incarnation knows it at once; its waiters ask again.

mod actor;
mod core;

use std::time::Duration;

use svc_kit::{AskError, Handle};

pub use actor::{Args, Barrier, Msg};

/// How far a reader of the chain is. Retained by the tree.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cursor {
    /// Height up to which it has taken the chain in.
    pub height: u64,
}

/// The way to the barrier.
#[derive(Clone)]
pub struct BarrierHandle(pub(crate) Handle<Msg>);

impl BarrierHandle {
    /// Waits until the reader has reached `height`; yields the height it is at.
    pub async fn reached(&self, height: u64, patience: Duration) -> Result<u64, AskError> {
        self.0.ask_within(patience, |reply| Msg::Await { height, is_write: true, reply }).await
    }

    /// The same for a read, which is not measured: it may ask for any height.
    pub async fn read_may_begin(&self, height: u64, patience: Duration) -> Result<u64, AskError> {
        self.0.ask_within(patience, |reply| Msg::Await { height, is_write: false, reply }).await
    }
}

/// The way in, for neighbours that only notify.
pub(crate) fn notify(handle: &Handle<Msg>, height: u64) {
    // A barrier that is restarting reads the cursor when it is back.
    let _ = handle.tell(Msg::Reached(height));
}
