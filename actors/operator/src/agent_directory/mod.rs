//! The agents of the corporation: one session for each, started and ended as the snapshot says.
//!
//! The reconciler compares the snapshot with the directory; the directory is retained by the tree. The refresher reports new
//! snapshots. When the reconciler dies, the next incarnation compares again. When the supervisor of the sessions is restarted, the
//! directory is emptied and every session starts again.
//!
//! An agent is a DID of a participant of the corporation whose `vs_operator` holds a VS-operator authorization of the corporation.

mod actor;
mod core;
mod directory;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, time::Duration};

use svc_kit::{Handle, impl_actor_message, supervision::Supervisor};
use svc_net::did::DidResolver;
use svc_pipeline::SignerHandle;

pub use actor::AgentReconciler;
pub use directory::{AgentDirectory, AgentEndpoint};

use crate::{agent_session::AgentAuthority, snapshot::publisher::SnapshotPublisher};

/// Messages of the reconciler.
pub enum Msg {
    /// The snapshot has changed.
    SnapshotChanged,
}

impl_actor_message!(Msg { SnapshotChanged });

/// Arguments of a reconciler.
pub struct Args {
    /// Publishes the snapshot.
    pub publisher: SnapshotPublisher,
    /// Known agents.
    pub directory: AgentDirectory,
    /// Supervisor of the sessions.
    pub sessions: Supervisor,
    /// Account that logs in.
    pub account: String,
    /// Resolves the agents' DIDs.
    pub resolver: DidResolver,
    /// Asks the node about agents.
    pub authority: AgentAuthority,
    /// DIDs of agents that may ask for a signature that names no audience.
    pub unbound_logins: BTreeSet<String>,
    /// Signs the logins.
    pub signer: SignerHandle,
    /// Time between two resolutions of an agent that is not called.
    pub period: Duration,
}

/// The handle of the reconciler.
#[derive(Clone)]
pub struct AgentReconcilerHandle(Handle<Msg>);

impl AgentReconcilerHandle {
    /// A handle for a reconciler that a supervisor will start.
    pub(crate) fn new(mailbox_limit: usize) -> Self {
        Self(Handle::new("agents", "agents", mailbox_limit))
    }

    /// The kit's handle, for the supervisor.
    pub(crate) fn actor(&self) -> &Handle<Msg> {
        &self.0
    }

    /// Reports a new snapshot.
    pub(crate) fn snapshot_changed(&self) {
        // A reconciler that is restarting reads the snapshot once it is back.
        self.0.notify(Msg::SnapshotChanged);
    }
}
