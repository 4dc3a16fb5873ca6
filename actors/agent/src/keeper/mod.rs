//! The document keeper: the DID Document, which it changes one version at a time and publishes whole.
//!
//! It owns the newest version and the changes that wait for the next one; readers of the published document do not ask it. A log takes
//! one entry a second, so that changes which wait go into one entry, in their order, each judged by itself. A change is answered when
//! the version with it is in the store, verified and served. When it dies, the next incarnation begins with the newest version of the
//! store; waiting callers ask again.

mod actor;
mod core;
mod publication;
mod recovery;
#[cfg(test)]
mod tests;
mod update_keys;

use std::{sync::Arc, time::Duration};

use svc_kit::{ActorMessage, AskError, Handle, ReplyPort, actor::ActorStatus, supervision::ChildSpec};
use svc_net::host_policy::HostPolicy;

use crate::{
    document::{ServiceChange, ServiceEntry},
    error::{AgentPart, Refusal},
    identity::{DidMethod, PublicLocation},
    resolution::ResolutionHandle,
    store::{AgentStore, HeadFile},
    store_guard::StoreGuardHandle,
};

pub use self::{
    actor::DocumentKeeper,
    publication::{BoundDistance, DocumentError, PublishedDocument, PublishedFile},
    recovery::{LogRecoveryError, RecoveredLog, recover_log},
};
use publication::DocumentWriter;

/// Longest wait of a change for its version.
const MAX_CHANGE_WAIT: Duration = Duration::from_secs(30);
/// Longest write of a version: a caller that goes earlier would be answered before it is known whether the change is published.
const MAX_WRITE: Duration = Duration::from_secs(90);
/// Messages that may wait: the keeper itself bounds the changes.
const MAILBOX: usize = 1_024;

/// The answer to a change: the entry after it, or the removed one.
pub type ChangeAnswer = Result<ServiceEntry, Refusal>;

/// Messages of the document keeper.
pub enum Msg {
    /// Changes a service entry.
    Change {
        /// The change.
        change: ServiceChange,
        /// The answer.
        reply: ReplyPort<ChangeAnswer>,
    },
    /// A version was written, or could not be.
    Written(Result<Arc<PublishedDocument>, DocumentError>),
    /// After a failure of the store: a version that may have been committed is gone.
    Discarded,
    /// The time for a version may have come.
    Wake,
}

impl ActorMessage for Msg {
    fn name(&self) -> &'static str {
        match self {
            Self::Change { .. } => "change",
            Self::Written(_) => "written",
            Self::Discarded => "discarded",
            Self::Wake => "wake",
        }
    }
}

/// Arguments of a document keeper.
pub struct KeeperArgs {
    /// The store.
    pub store: AgentStore,
    /// Hears of writes.
    pub guard: StoreGuardHandle,
    /// Hears of published versions.
    pub resolution: ResolutionHandle,
    /// Method of a DID that is still to be made.
    pub method: DidMethod,
    /// Place of the DID's files.
    pub location: PublicLocation,
    /// Origin of the admin API in the document.
    pub admin_api: Option<String>,
    /// Whether each entry of the log names the hash of the key that signs the next one.
    pub pre_rotation: bool,
    /// Hosts that endpoints may name.
    pub hosts: HostPolicy,
    /// File of the last published version.
    pub head: Option<HeadFile>,
}

/// The address of the document keeper, and the published document.
#[derive(Clone)]
pub struct KeeperHandle {
    actor: Handle<Msg>,
    writer: Arc<DocumentWriter>,
}

impl KeeperHandle {
    /// Loads the document of the store, or makes the DID of an empty one. Returns the address, and the child specification that starts
    /// the actor.
    pub async fn prepare(args: KeeperArgs) -> Result<(Self, ChildSpec), DocumentError> {
        let admin_api = args.admin_api.clone();
        let (hosts, guard, resolution) = (args.hosts, args.guard.clone(), args.resolution.clone());
        let writer = Arc::new(DocumentWriter::open(args).await?);
        let actor = Handle::new("document_keeper", "document_keeper", MAILBOX);
        let child_args = actor::Args { writer: Arc::clone(&writer), admin_api, hosts, guard, resolution };
        let child = ChildSpec::worker::<DocumentKeeper>(&actor, child_args);
        Ok((Self { actor, writer }, child))
    }

    /// Whether changes are taken.
    pub fn is_up(&self) -> bool {
        self.actor.status() == ActorStatus::Up
    }

    /// Returns the document that is served now.
    pub fn published(&self) -> Arc<PublishedDocument> {
        self.writer.published()
    }

    /// Changes a service entry; the answer comes when the changed document is served.
    pub async fn change(&self, change: ServiceChange) -> ChangeAnswer {
        let wait_limit = MAX_CHANGE_WAIT + MAX_WRITE;
        let asked = self.actor.ask_within(wait_limit, |reply| Msg::Change { change, reply }).await;
        asked.unwrap_or_else(|error| Err(keeper_is_down(&error)))
    }
}

fn keeper_is_down(error: &AskError) -> Refusal {
    Refusal::not_ready(AgentPart::Document, format!("the document cannot be changed now: {error}"), 1)
}
