//! The access granter: decides about requests of peers, takes grants back, and turns the keys of tokens.
//!
//! It owns the rates of peers, and the sweeps over valid grants: a grant ends when its peer is not trusted any more, its entry is deleted or
//! moved, or its conditions become stricter. Sessions of peers ask it for decisions; the grant itself is a row that is durable before its
//! frame leaves. Operators revoke through its handle. When it dies, rates begin again, and the next incarnation sweeps at once.

mod actor;
mod core;
mod revoked_list;
mod sweep;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use svc_agent_core::{
    access::{GrantState, OfferedGrant, StoredGrant},
    error::{Refusal, RefusalCode},
    peers::PeerLimits,
};
use svc_agent_identity::keeper::{KeeperHandle, PublishedFile};
use svc_agent_store::{
    AccessGrantFilter, AgentStore, AgentStoreError, RevokedGrants, guard::StoreGuardHandle, store_failed,
};
use svc_didcomm::{
    access::Denied,
    protocol::endpoint_access::{AccessRequest, DenyCode},
};
use svc_kit::{Handle, ReplyPort, impl_actor_message, supervision::ChildSpec, wall_clock};

use self::{revoked_list::RevokedListCache, sweep::SweepEnd};
use crate::{access::AccessOwner, courier::CourierHandle, gate::TrustGate};

/// Messages of the granter.
pub(crate) enum Msg {
    /// A peer asks for access.
    Judge {
        /// The request.
        request: Box<AccessRequest>,
        /// DID by which the peer is known.
        peer: String,
        /// Whether it is a verifiable service.
        is_trusted: bool,
        /// The decision.
        reply: ReplyPort<Result<OfferedGrant, Denied>>,
    },
    /// The conditions are to be read once more.
    Reload {
        /// The number of endpoints with conditions, or the problems of the file.
        reply: ReplyPort<Result<usize, String>>,
    },
    /// Grants may have to end: a sweep begins if something has changed.
    SweepDue,
    /// A sweep has ended.
    Swept(SweepEnd),
}

impl_actor_message!(Msg { Judge, Reload, SweepDue, Swept });

/// The neighbours of the granter.
#[derive(Clone)]
pub struct GranterParts {
    /// The conditions.
    pub owner: AccessOwner,
    /// The document.
    pub keeper: KeeperHandle,
    /// The store.
    pub store: AgentStore,
    /// Hears of writes.
    pub guard: StoreGuardHandle,
    /// Decides about peers.
    pub gate: TrustGate,
    /// Has the notices in the outbox sent.
    pub outbox_changed: Arc<dyn Fn() + Send + Sync>,
    /// Delivers events.
    pub courier: Option<CourierHandle>,
    /// The bounds of the rows that peers make.
    pub limits: PeerLimits,
}

/// Requests that may wait for a decision, which takes microseconds.
const MAILBOX: usize = 1_024;
/// Longest wait for a decision.
const DECISION_TIME: Duration = Duration::from_secs(5);
/// Grants of one page of a selection that is revoked.
const PAGE: usize = 500;
/// The reason for which a grant ends when every token of before becomes void.
const VOID: &str = "every token of before is void";

/// The address of the granter.
#[derive(Clone)]
pub struct AccessGranterHandle {
    actor: Handle<Msg>,
    parts: Arc<GranterParts>,
    list: Arc<RevokedListCache>,
}

impl AccessGranterHandle {
    /// Returns the address, and the child specification that starts the actor.
    pub fn child_spec(parts: GranterParts) -> (Self, ChildSpec) {
        let actor = Handle::new("access_granter", "access_granter", MAILBOX);
        let list = Arc::new(RevokedListCache::default());
        let handle = Self { actor, parts: Arc::new(parts), list };
        let args = actor::Args { parts: Arc::clone(&handle.parts), list: Arc::clone(&handle.list) };
        let child = ChildSpec::worker::<actor::AccessGranter>(&handle.actor, args);
        (handle, child)
    }

    /// The conditions.
    pub(crate) fn owner(&self) -> &AccessOwner {
        &self.parts.owner
    }

    /// Decides about a request of a peer.
    pub(crate) async fn judge(
        &self,
        request: &AccessRequest,
        peer: &str,
        is_trusted: bool,
    ) -> Result<OfferedGrant, Denied> {
        let (request, peer) = (Box::new(request.clone()), peer.to_owned());
        let asked = self.actor.ask_within(DECISION_TIME, |reply| Msg::Judge { request, peer, is_trusted, reply }).await;
        asked.unwrap_or_else(|error| {
            tracing::warn!(%error, "no decision about a request for access");
            Err(Denied::for_now(DenyCode::Unavailable, "nothing can be decided now", 5))
        })
    }

    /// Reads the file of the conditions once more, and takes back the grants that they do not give any more. After an error the old
    /// conditions are in force. Returns the number of endpoints.
    ///
    /// # Errors
    /// The problems of the file, or the reason for which nothing was read.
    pub async fn reload(&self) -> Result<usize, String> {
        let asked = self.actor.ask_within(DECISION_TIME, |reply| Msg::Reload { reply }).await;
        asked.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Returns grants in the order of their begins, behind one of them.
    pub async fn grants(
        &self,
        filter: &AccessGrantFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredGrant>, Refusal> {
        let now = wall_clock::now().seconds;
        let found = self.parts.store.access_grants(filter, after, limit, now).await;
        found.map_err(|error| store_failed(&error))
    }

    /// Takes a grant back. It is durable, and in the list, before the answer.
    pub async fn revoke(&self, id: &str, reason: &str) -> Result<StoredGrant, Refusal> {
        let unknown = || Refusal::new(RefusalCode::UnknownId, format!("no grant has the id {id:?}"));
        let found = self.parts.store.access_grant(id).await.map_err(|error| store_failed(&error))?;
        let before = found.ok_or_else(unknown)?;
        let revoked = self.revoke_ids(&[id.to_owned()], reason).await.map_err(|error| store_failed(&error))?;
        revoked.into_iter().next().ok_or_else(|| {
            let state = match before.state(wall_clock::now().seconds) {
                GrantState::Revoked => "was revoked before",
                GrantState::Active | GrantState::Expired => "has ended by itself",
            };
            Refusal::new(RefusalCode::InvalidState, format!("the grant {state}; only an active one is revoked"))
        })
    }

    async fn revoke_ids(&self, ids: &[String], reason: &str) -> Result<Vec<StoredGrant>, AgentStoreError> {
        self.parts.revoke(&self.list, ids, reason).await
    }

    /// Makes every token of before void, and takes their grants back. Returns when that is durable.
    pub async fn void(&self) -> Result<(), Refusal> {
        let voided = self.parts.store.void_access_tokens(wall_clock::now().seconds).await;
        self.parts.guard.note_result(&voided);
        self.list.forget().await;
        let valid_from = voided.map_err(|error| store_failed(&error))?;
        // No token is valid any more. If this fails, the sweep takes the other grants back.
        let filter = AccessGrantFilter { state: Some(GrantState::Active), ..AccessGrantFilter::default() };
        let mut after: Option<String> = None;
        loop {
            let page = self.grants(&filter, after.as_deref(), PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.id.clone());
            let of_before = page.into_iter().filter(|grant| grant.issued_at < valid_from);
            let ids: Vec<String> = of_before.map(|grant| grant.id).collect();
            self.revoke_ids(&ids, VOID).await.map_err(|error| store_failed(&error))?;
        }
    }

    /// Publishes another key of tokens, which is used a minute later. Returns the id of its verification method.
    pub async fn rotate_key(&self) -> Result<String, Refusal> {
        let owner = &self.parts.owner;
        if !owner.is_published() {
            let message = "the agent has no keys of tokens: ENDPOINT_ACCESS_FILE is not set, or a backend answers";
            return Err(Refusal::new(RefusalCode::InvalidState, message));
        }
        self.parts.keeper.add_access_key(sweep::NOT_USED_YET).await?;
        sweep::use_published_keys(&self.parts).await.map_err(|error| store_failed(&error))?;
        let keys = self.parts.keeper.access_keys();
        let newest = keys.keys().first().map(|key| key.method.clone());
        newest.ok_or_else(|| Refusal::new(RefusalCode::Internal, "the new key is not there"))
    }

    /// The public file of the conditions; none while the document names no conditions.
    pub fn document_file(&self) -> Option<PublishedFile> {
        self.owner().is_published().then(|| self.owner().document_file())
    }

    /// The public file of the keys of tokens.
    pub fn jwks_file(&self) -> Option<PublishedFile> {
        self.owner().is_published().then(|| self.owner().jwks_file())
    }

    /// The public file of the revoked grants. Fails when the store cannot be read: an old list could lack the newest.
    pub async fn revoked_file(&self) -> Result<Option<PublishedFile>, AgentStoreError> {
        if !self.owner().is_published() {
            return Ok(None);
        }
        self.list.file(self.owner()).await.map(Some)
    }
}

impl GranterParts {
    /// Takes valid grants back, and has their notices sent.
    async fn revoke(
        &self,
        list: &RevokedListCache,
        ids: &[String],
        reason: &str,
    ) -> Result<Vec<StoredGrant>, AgentStoreError> {
        let now = wall_clock::now().seconds;
        let revoked = self.store.revoke_grants(ids, reason, now, &self.limits).await;
        self.guard.note_result(&revoked);
        list.forget().await;
        let RevokedGrants { grants, has_event } = revoked?;
        if !grants.is_empty() {
            (self.outbox_changed)();
        }
        if let (true, Some(courier)) = (has_event, &self.courier) {
            courier.events_stored();
        }
        svc_otel::metrics::record_access_revocations(grants.len());
        Ok(grants)
    }
}
