//! The store guard: shows every few seconds that the store can be written and still belongs to this process, which renews its lease.
//!
//! It owns the state of the store, which the tree retains. Its own timer sends to it, and writers whose write has failed do. When another process has taken the store
//! over, it asks the agent to end: nothing of this process may be served as the newest state any more.

mod actor;
mod core;
#[cfg(test)]
mod tests;

use svc_kit::{Handle, RetainedState, impl_actor_message, supervision::ChildSpec};
use tokio_util::sync::CancellationToken;

use crate::{AgentStore, AgentStoreError, WriteFailure};

/// The state of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreState {
    /// The last write succeeded.
    Writable,
    /// The last write failed.
    Failed(String),
    /// Another process has taken the store over.
    Lost,
}

/// Messages of the store guard.
pub enum Msg {
    /// The timer for the lease has fired.
    Tick,
    /// The lease is renewed now: a write has failed, or has succeeded after one that failed.
    RenewLease,
    /// The lease was renewed, or not.
    LeaseRenewed(Result<(), AgentStoreError>),
}

impl_actor_message!(Msg { Tick, RenewLease, LeaseRenewed });

/// Arguments of the store guard.
pub struct Args {
    store: AgentStore,
    state: RetainedState<StoreState>,
    lost: CancellationToken,
}

/// Messages that may wait.
const MAILBOX: usize = 16;

/// The address of the store guard, and the state of the store.
#[derive(Clone)]
pub struct StoreGuardHandle {
    actor: Handle<Msg>,
    state: RetainedState<StoreState>,
    lost: CancellationToken,
}

impl StoreGuardHandle {
    /// Returns the handle, and the child specification that starts the actor.
    pub fn child_spec(store: AgentStore) -> (Self, ChildSpec) {
        let actor = Handle::new("store_guard", "store_guard", MAILBOX);
        let handle = Self { actor, state: RetainedState::new(StoreState::Writable), lost: CancellationToken::new() };
        let args = Args { store, state: handle.state.clone(), lost: handle.lost.clone() };
        let child = ChildSpec::worker::<actor::StoreGuard>(&handle.actor, args);
        (handle, child)
    }

    /// Tells of the end of a write. A refused one shows that the store works.
    pub fn note_result<T, E: WriteFailure>(&self, result: &Result<T, E>) {
        self.note_write(!result.as_ref().is_err_and(WriteFailure::is_of_store));
    }

    /// Tells of a write: after a failure, and after the success that follows it, the store is looked at.
    pub fn note_write(&self, is_written: bool) {
        if core::contradicts(&self.state(), is_written) {
            self.actor.notify(Msg::RenewLease);
        }
    }

    /// Returns the state of the store.
    pub fn state(&self) -> StoreState {
        self.state.with(|state| state.clone())
    }

    /// Waits until another process has taken the store over.
    pub async fn wait_until_lost(&self) {
        self.lost.cancelled().await;
    }
}
