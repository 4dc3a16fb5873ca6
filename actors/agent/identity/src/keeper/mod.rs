//! The document keeper: the DID Document, which it changes one version at a time and publishes whole.
//!
//! It owns the newest version and the changes that wait for the next one; readers of the published document do not ask it. A log takes
//! one entry a second, so that changes which wait go into one entry, in their order, each judged by itself. A change is answered when
//! the version with it is in the store, verified and served. When it dies, the next incarnation begins with the newest version of the
//! store; waiting callers ask again.

mod access_keys;
mod actor;
mod core;
mod document_keys;
mod loading;
mod presentations;
mod publication;
mod published;
mod recovery;
#[cfg(test)]
mod tests;
mod update_keys;

use std::{sync::Arc, time::Duration};

use svc_agent_core::error::{AgentPart, Refusal};
use svc_agent_store::{AgentStore, AgentStoreError, HeadFile, guard::StoreGuardHandle};
use svc_didcomm::envelope::KeyAgreementKey;
use svc_kit::{AskError, Handle, ReplyPort, actor::ActorStatus, impl_actor_message, supervision::ChildSpec};
use svc_net::host_policy::HostPolicy;
use svc_trust::{did_document::ProofPurpose, proof::ProofKey};

use crate::{
    document::{DocumentKeys, KeyChange, ManagedEntries, ServiceChange, ServiceEntry},
    identity::{DidMethod, PublicLocation},
    resolution::ResolutionHandle,
};

use self::core::MAX_CHANGE_WAIT;
pub use self::{
    access_keys::AccessKeyring,
    actor::DocumentKeeper,
    presentations::PresentationSet,
    published::{BoundDistance, DocumentError, PublishedDocument, PublishedFile},
    recovery::{LogRecoveryError, RecoveredLog, recover_log},
};
pub(crate) use self::{document_keys::DocumentKeyring, presentations::MAX_PRESENTED};
use publication::DocumentWriter;

/// Longest write of a version: a caller that goes earlier would be answered before it is known whether the change is published.
const MAX_WRITE: Duration = Duration::from_secs(90);
/// Messages that may wait: the keeper itself bounds the changes.
const MAILBOX: usize = 1_024;

/// The answer to a change: the entry after it, or the removed one.
pub type ChangeAnswer = Result<ServiceEntry, Refusal>;

/// The answer to changed credentials.
pub type PublishAnswer = Result<(), Refusal>;

/// The answer to a change of keys: the document that is served with it.
pub type KeysAnswer = Result<Arc<PublishedDocument>, Refusal>;

/// Messages of the document keeper.
pub enum Msg {
    /// Changes a service entry.
    Change {
        /// The change.
        change: ServiceChange,
        /// The answer.
        reply: ReplyPort<ChangeAnswer>,
    },
    /// Changes the keys of the document.
    ChangeKeys {
        /// The change.
        change: KeyChange,
        /// The answer.
        reply: ReplyPort<KeysAnswer>,
    },
    /// Gives the log another update key.
    RotateUpdateKey {
        /// The answer.
        reply: ReplyPort<KeysAnswer>,
    },
    /// The keys of tokens that the store has now.
    AccessKeysChanged {
        /// The answer.
        reply: ReplyPort<KeysAnswer>,
    },
    /// A version was written, or could not be.
    Written(Result<Arc<PublishedDocument>, DocumentError>),
    /// After a failure of the store: a version that may have been committed is gone.
    Discarded,
    /// The credentials of the store have changed.
    CredentialsChanged {
        /// The answer, once the document with them is served.
        reply: ReplyPort<PublishAnswer>,
    },
    /// Presentations were made, or could not be.
    PresentationsMade(Result<Arc<PresentationSet>, DocumentError>),
    /// The time for a version may have come.
    Wake,
}

impl_actor_message!(Msg {
    Change,
    ChangeKeys,
    RotateUpdateKey,
    AccessKeysChanged,
    Written,
    Discarded,
    CredentialsChanged,
    PresentationsMade,
    Wake,
});

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
    pub managed: ManagedEntries,
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
        let managed = args.managed.clone();
        let (hosts, guard, resolution) = (args.hosts, args.guard.clone(), args.resolution.clone());
        let writer = Arc::new(DocumentWriter::open(args).await?);
        let actor = Handle::new("document_keeper", "document_keeper", MAILBOX);
        let child_args = actor::Args { writer: Arc::clone(&writer), managed, hosts, guard, resolution };
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

    /// Returns the private key of a verification method that the published document names for messages, with its DID.
    pub fn agreement_key(&self, key_id: &str) -> Option<(String, KeyAgreementKey)> {
        let published = self.published();
        let keyring = self.writer.keyring();
        let key = keyring.agreement_key(published.document.as_json(), key_id)?;
        Some((published.document.did().to_owned(), key.clone()))
    }

    /// Returns the private key that encrypts messages, with its id.
    pub fn sending_key(&self) -> Option<(String, KeyAgreementKey)> {
        let (published, keyring) = (self.published(), self.writer.keyring());
        let (id, key) = keyring.sending_key(published.document.as_json())?;
        Some((id.to_owned(), key.clone()))
    }

    /// Returns the key that the published document uses for a purpose.
    pub fn prover(&self, purpose: ProofPurpose) -> Option<ProofKey> {
        self.writer.prover(purpose)
    }

    /// Returns the pairs of the store.
    pub(crate) fn keys(&self) -> Arc<DocumentKeyring> {
        self.writer.keyring()
    }

    /// Returns the public keys of a version, which is made if the store has none. No document names them yet.
    pub(crate) async fn prepare_keys(&self, version: u64) -> Result<DocumentKeys, Refusal> {
        self.writer.prepare_keys(version).await.map_err(|error| {
            tracing::error!(%error, version, "a pair of keys cannot be made");
            Refusal::not_ready(AgentPart::Store, "a pair of keys cannot be made now; nothing is published", 5)
        })
    }

    /// Changes the keys of the document. The presentations of that version are signed by the key that it uses.
    pub(crate) async fn change_keys(&self, change: KeyChange) -> KeysAnswer {
        self.ask_for_version(|reply| Msg::ChangeKeys { change, reply }).await
    }

    /// Gives the log another update key, by an entry that the old one signs.
    pub(crate) async fn rotate_update_key(&self) -> KeysAnswer {
        self.ask_for_version(|reply| Msg::RotateUpdateKey { reply }).await
    }

    /// Returns the keys of tokens.
    pub fn access_keys(&self) -> Arc<AccessKeyring> {
        self.writer.access_keys()
    }

    /// Makes another key of tokens, which signs from a time on, and publishes it.
    pub async fn add_access_key(&self, used_from: i64) -> KeysAnswer {
        let failed = |error: DocumentError| {
            tracing::error!(%error, "a key of tokens cannot be made");
            Refusal::not_ready(AgentPart::Store, "a key of tokens cannot be made now; nothing is published", 5)
        };
        self.writer.add_access_key(used_from).await.map_err(failed)?;
        self.ask_for_version(|reply| Msg::AccessKeysChanged { reply }).await
    }

    /// Notes the time from which a key of tokens is used, in seconds since the epoch.
    pub async fn use_access_key(&self, version: u64, used_from: i64) -> Result<(), AgentStoreError> {
        self.writer.use_access_key(version, used_from).await
    }

    /// Takes keys of tokens out of the document, and forgets them.
    pub async fn drop_access_keys(&self, versions: &[u64]) -> KeysAnswer {
        let failed = |error: DocumentError| {
            tracing::error!(%error, "old keys of tokens cannot be removed");
            Refusal::not_ready(AgentPart::Store, "old keys of tokens cannot be removed now", 5)
        };
        self.writer.drop_access_keys(versions).await.map_err(failed)?;
        self.ask_for_version(|reply| Msg::AccessKeysChanged { reply }).await
    }

    async fn ask_for_version(&self, message: impl FnOnce(ReplyPort<KeysAnswer>) -> Msg) -> KeysAnswer {
        let asked = self.actor.ask_within(MAX_CHANGE_WAIT + MAX_WRITE, message).await;
        asked.unwrap_or_else(|error| Err(keeper_is_down(&error)))
    }

    /// Presents the credentials that the store has now; the answer comes when the document with them is served.
    pub async fn publish_credentials(&self) -> PublishAnswer {
        let wait_limit = MAX_CHANGE_WAIT + MAX_WRITE;
        let asked = self.actor.ask_within(wait_limit, |reply| Msg::CredentialsChanged { reply }).await;
        asked.unwrap_or_else(|error| Err(keeper_is_down(&error)))
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
