//! The barrier: callers wait here until a reader of the chain has reached a height. One barrier serves the indexer, one the graph.
//!
//! It owns the waiting callers; the height is retained by the tree. The subscription (or the graph watch) advances it, writes and
//! reads wait for it. When it dies, the next incarnation knows the height at once, and the waiting callers ask again.

mod actor;
mod core;
#[cfg(test)]
mod tests;

use svc_kit::{AskError, Handle, ReplyPort, RetainedState, impl_actor_message};
use tokio::time::Instant;

pub use actor::Barrier;

/// Height up to which a reader has processed the chain. The supervision tree retains it.
#[derive(Debug, Clone, Copy, Default)]
pub struct IndexedHeight {
    /// The height.
    pub height: u64,
}

/// Messages of a barrier.
pub enum Msg {
    /// Answer when the reader has reached the height.
    Await {
        /// Height to wait for.
        height: u64,
        /// Whether a write waits. The lag of waiting writes is measured.
        is_write: bool,
        /// The answer: the height of the reader.
        reply: ReplyPort<u64>,
    },
    /// The reader has reached a height.
    Reached {
        /// The height.
        height: u64,
    },
    /// The reader is below the height that it had reached: its index was rolled back, or is a new one.
    FellBack {
        /// The height.
        height: u64,
    },
}

impl_actor_message!(Msg { Await, Reached, FellBack });

/// Arguments of a barrier.
pub struct Args {
    /// Height of the reader.
    pub height: RetainedState<IndexedHeight>,
    /// Whether the lag of waiting writes is measured. Writes wait for the indexer only.
    pub is_measured: bool,
}

/// The handle of a barrier.
#[derive(Clone)]
pub struct BarrierHandle {
    actor: Handle<Msg>,
    height: RetainedState<IndexedHeight>,
}

impl BarrierHandle {
    /// A handle for a barrier that a supervisor will start under `name`.
    pub(crate) fn new(name: &str, mailbox_limit: usize, height: RetainedState<IndexedHeight>) -> Self {
        Self { actor: Handle::new("barrier", name, mailbox_limit), height }
    }

    /// The kit's handle, for the supervisor.
    pub(crate) fn actor(&self) -> &Handle<Msg> {
        &self.actor
    }

    /// Arguments of the barrier behind this handle.
    pub(crate) fn args(&self, is_measured: bool) -> Args {
        Args { height: self.height.clone(), is_measured }
    }

    /// Height of the reader.
    pub fn height(&self) -> u64 {
        self.height.with(|reader| reader.height)
    }

    /// Waits for a height on behalf of a write, through restarts of the barrier, until `deadline`; yields the height of the reader.
    pub async fn await_write_height(&self, height: u64, deadline: Instant) -> Result<u64, AskError> {
        self.await_height(height, true, deadline).await
    }

    /// Waits for a height on behalf of a read, which may ask for any height and is therefore not measured.
    pub async fn await_read_height(&self, height: u64, deadline: Instant) -> Result<u64, AskError> {
        self.await_height(height, false, deadline).await
    }

    async fn await_height(&self, height: u64, is_write: bool, deadline: Instant) -> Result<u64, AskError> {
        self.actor
            .ask_through_restarts(deadline, |wait_limit| {
                self.actor.ask_within(wait_limit, |reply| Msg::Await { height, is_write, reply })
            })
            .await
    }

    /// The reader is at this height, below the one that it had reached.
    pub(crate) fn fall_back(&self, height: u64) {
        self.height.with(|reader| reader.height = reader.height.min(height));
        self.actor.notify(Msg::FellBack { height });
    }

    /// Advances the reader to a height. A lower one changes nothing.
    pub(crate) fn advance(&self, height: u64) {
        self.height.with(|reader| reader.height = reader.height.max(height));
        // A barrier that is restarting reads the retained height once it is back.
        self.actor.notify(Msg::Reached { height });
    }
}
