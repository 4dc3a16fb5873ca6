//! Requests of callers for access to endpoints of peers: trust, session, request, grant.

use std::time::Duration;

use svc_agent_core::{
    error::{AgentPart, DenialDetails, Refusal, RefusalCode},
    peer_tag::peer_tag,
};
use svc_agent_store::{queue_failed, store_failed};
use svc_didcomm::{
    access::{HeardAnswer, OpenRequest},
    endpoint::endpoints,
    protocol::endpoint_access::{AccessGrant, AccessRequest, DenyCode, frame_message},
};
use svc_kit::{AskError, CallError, wall_clock};
use svc_otel::{metrics, trace};
use svc_wire::{
    endpoint_access::{MAX_SCOPES, Material, endpoint_url, is_scope},
    verification_method::{absolute_did_url, did_of_url},
};
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;
use uuid::Uuid;

use super::{
    refusals::{document_refused, not_trusted, verdict_unknown},
    resolver::DocumentUse,
    service::PeerService,
    settings::allows_clear_text,
};
use crate::access_asker::AccessQuestion;

/// Seconds after which a request is void for its receiver.
const REQUEST_SECONDS: i64 = 60;
/// Seconds for which an answer is taken beyond the wait of the caller: clocks tick in whole seconds.
const DEADLINE_SLACK: i64 = 1;

/// A request for access to an endpoint of a peer.
#[derive(Debug, Clone, Default)]
pub struct PeerAccessRequest {
    /// DID URL of the service entry.
    pub endpoint: String,
    /// The scopes; those of the endpoint by default.
    pub scopes: Option<Vec<String>>,
    /// The materials that the caller can use; all by default.
    pub accept: Option<Vec<Material>>,
    /// Wait for the answer of the peer; that of the settings by default.
    pub timeout: Option<Duration>,
    /// Id of an earlier request whose material the endpoint has refused: it is not used again.
    pub replaces: Option<String>,
}

impl PeerService {
    /// Obtains the material that an endpoint of a peer needs: decides about the peer, asks it over its session, and checks the grant against
    /// the document as it is then. A grant that is held is used until a minute before its end.
    ///
    /// # Errors
    /// With the code of the step that failed.
    pub async fn request_access(&self, request: PeerAccessRequest) -> Result<Box<AccessGrant>, Refusal> {
        let started = Instant::now();
        let span = trace::access_request_span(&peer_tag(did_of_url(&request.endpoint)));
        let asked = self.ask_for_access(request).instrument(span.clone()).await;
        let outcome = match &asked {
            Ok(_) => "granted",
            Err(refusal) => refusal.code.on_wire().0,
        };
        trace::record_peer_outcome(&span, outcome);
        metrics::record_access_request(outcome, started.elapsed());
        asked
    }

    async fn ask_for_access(&self, request: PeerAccessRequest) -> Result<Box<AccessGrant>, Refusal> {
        check(&request)?;
        let asker = &self.0.parts.asker;
        if let Some(id) = &request.replaces {
            asker.forget(id);
        }
        let peer = did_of_url(&request.endpoint).to_owned();
        if peer == self.0.parts.keeper.published().document.did() {
            return Err(wrong("endpoint", "it is an endpoint of this agent"));
        }
        self.require_verifiable(&peer).await?;
        let url = self.endpoint_now(&peer, &request.endpoint).await?;
        let url = url.ok_or_else(|| {
            let message = format!("the document of {peer} has no service entry {:?} with a URL", request.endpoint);
            Refusal::new(RefusalCode::UnknownId, message)
        })?;
        let question: AccessQuestion = (request.scopes.clone(), request.accept.clone());
        if let Some(held) = asker.held(&request.endpoint, &question, &url).await.map_err(asker_down)? {
            return Ok(held);
        }
        let deadline =
            Instant::now() + request.timeout.unwrap_or(self.0.parts.access.owner().settings().answer_timeout);
        let connection = self.connection_for_access(&peer).await?;
        let id = Uuid::new_v4().to_string();
        let granted = self.send_and_wait(&id, request, &connection, deadline).await;
        if granted.is_err() {
            asker.forget(&id);
        }
        granted
    }

    /// The peer is a verifiable service. The decision is not older than the call: a grant must not outlive the trust.
    async fn require_verifiable(&self, did: &str) -> Result<(), Refusal> {
        if !(did.starts_with("did:web:") || did.starts_with("did:webvh:")) {
            return Err(wrong("endpoint", "its DID is none of the methods web and webvh"));
        }
        match self.0.parts.gate.fresh_verdict(did).await {
            Ok(verdict) if verdict.is_trusted => Ok(()),
            Ok(_) => {
                self.0.parts.asker.forget_peer(did);
                Err(not_trusted(did))
            }
            Err(error) => Err(verdict_unknown(&error)),
        }
    }

    /// The URL of an entry in the document as its server has it now.
    pub(super) async fn endpoint_now(&self, peer: &str, endpoint: &str) -> Result<Option<String>, Refusal> {
        let resolved = self.0.parts.resolver.resolve(peer, true, DocumentUse::Outbound).await;
        let document = resolved.map_err(|error| document_refused("endpoint", error))?;
        let mut services = document["service"].as_array().into_iter().flatten();
        let is_entry = |id: &str| absolute_did_url(peer, id) == endpoint;
        let entry = services.find(|entry| entry["id"].as_str().is_some_and(is_entry));
        Ok(entry.and_then(|entry| endpoint_url(&entry["serviceEndpoint"])).map(str::to_owned))
    }

    /// The connection with a peer, which can be asked.
    async fn connection_for_access(&self, peer: &str) -> Result<String, Refusal> {
        let document = self.0.parts.resolver.resolve(peer, false, DocumentUse::Outbound).await;
        let clear_text = allows_clear_text(self.0.parts.client.policy());
        if document.is_ok_and(|document| endpoints(&document, clear_text).is_empty()) {
            let message = format!("the document of {peer} has no endpoint for DIDComm v2, so that it cannot be asked");
            return Err(Refusal::new(RefusalCode::PeerUnreachable, message));
        }
        let known = self.0.parts.store.connection_with_peer(peer).await.map_err(|error| store_failed(&error))?;
        match known.filter(|known| !known.connection.has_ended) {
            Some(known) => Ok(known.connection.id),
            None => Ok(self.open_connection(peer).await?.connection.id),
        }
    }

    async fn send_and_wait(
        &self,
        id: &str,
        request: PeerAccessRequest,
        connection_id: &str,
        deadline: Instant,
    ) -> Result<Box<AccessGrant>, Refusal> {
        let PeerAccessRequest { endpoint, scopes, accept, .. } = request;
        let peer = did_of_url(&endpoint).to_owned();
        let now = wall_clock::now().seconds;
        let wait = i64::try_from(deadline.saturating_duration_since(Instant::now()).as_secs()).unwrap_or(i64::MAX);
        let frame = AccessRequest { id: id.to_owned(), endpoint, scopes, accept };
        let content = frame.to_content();
        let endpoint = frame.endpoint.clone();
        let open = OpenRequest { request: frame, deadline: now.saturating_add(wait) + DEADLINE_SLACK };
        let mut answer = self.0.parts.asker.ask(open).await.map_err(|error| match error {
            CallError::Unanswered(error) => asker_down(error),
            CallError::Refused(full) => {
                Refusal { retry_after: Some(5), ..Refusal::new(RefusalCode::InvalidState, full.to_string()) }
            }
        })?;
        let message_id = Uuid::new_v4().to_string();
        let message = frame_message(&message_id, &content, None, now, Some(now + REQUEST_SECONDS));
        let queued = self.0.parts.store.queue_message(connection_id, &message, now, &self.0.limits).await;
        self.0.parts.guard.note_result(&queued);
        queued.map_err(queue_failed)?;
        self.message_queued(connection_id, &peer).await;
        loop {
            let heard = match timeout_at(deadline, answer).await {
                Ok(Ok(heard)) => heard,
                Ok(Err(_)) => return Err(lost()),
                Err(_) => return Err(self.unanswered(&peer, connection_id, &message_id).await),
            };
            match heard {
                HeardAnswer::Granted { id, .. } => {
                    let url = self.endpoint_now(&peer, &endpoint).await?;
                    let (taken, again) = self.0.parts.asker.settle(&id, url).await.map_err(asker_down)?;
                    match taken {
                        Ok(grant) => return Ok(grant),
                        Err(reason) => tracing::warn!(
                            reason = reason.as_str(),
                            "a grant of a peer is dropped: it does not fit the endpoint as its document has it now"
                        ),
                    }
                    answer = again;
                }
                HeardAnswer::Denied(denial) => {
                    let message = match denial.message.as_str() {
                        "" => format!("{peer} denies access: {}", denial.code.as_str()),
                        text => format!("{peer} denies access ({}): {}", denial.code.as_str(), shown(text)),
                    };
                    let details = DenialDetails { code: denial.code, retry_after: denial.retry_after };
                    let refusal = Refusal::new(RefusalCode::AccessDenied, message);
                    return Err(Refusal { denial: Some(details), ..refusal });
                }
                HeardAnswer::Revoked { .. } => {
                    let message = format!("{peer} has taken the grant back before it came");
                    let details = DenialDetails { code: DenyCode::NotAllowed, retry_after: None };
                    let refusal = Refusal::new(RefusalCode::AccessDenied, message);
                    return Err(Refusal { denial: Some(details), ..refusal });
                }
                HeardAnswer::Dropped(_) => return Err(lost()),
            }
        }
    }

    /// The refusal for a peer that has not answered in time: it was not reached, or it is silent.
    async fn unanswered(&self, peer: &str, connection_id: &str, message_id: &str) -> Refusal {
        match self.0.parts.store.was_never_sent(connection_id, message_id).await {
            Ok(true) => {
                let message = format!("no endpoint of {peer} has taken the message; nothing was asked");
                Refusal::new(RefusalCode::PeerUnreachable, message)
            }
            Ok(false) => {
                let message = format!("{peer} has not answered in time; whether it has granted access is unknown");
                Refusal::new(RefusalCode::PeerUnanswered, message)
            }
            Err(error) => store_failed(&error),
        }
    }
}

fn wrong(member: &str, rule: &str) -> Refusal {
    Refusal::of_member(RefusalCode::InvalidInput, member, rule)
}

pub(super) fn asker_down(error: AskError) -> Refusal {
    Refusal::not_ready(AgentPart::Store, format!("requests for access do not work now: {error}"), 1)
}

fn lost() -> Refusal {
    Refusal::not_ready(AgentPart::Store, "the answer was lost with a part of the agent; ask again", 1)
}

/// A text of a peer, in one line and cut: it may hold anything.
fn shown(text: &str) -> String {
    text.chars().filter(|one| !one.is_control()).take(200).collect()
}

fn check(request: &PeerAccessRequest) -> Result<(), Refusal> {
    let fragment = request.endpoint.split_once('#').filter(|(did, _)| did.starts_with("did:"));
    if request.endpoint.len() > 2048 || fragment.is_none_or(|(_, fragment)| fragment.is_empty()) {
        return Err(wrong("endpoint", "allowed is a DID URL with a fragment, such as did:web:peer.example#mcp"));
    }
    let scopes = request.scopes.as_deref().unwrap_or_default();
    if scopes.len() > MAX_SCOPES || !scopes.iter().all(|scope| is_scope(scope)) {
        return Err(wrong("scopes", "allowed are at most 16 scopes of [a-z0-9:._-]{1,64}"));
    }
    let is_allowed = |timeout: Duration| (1..=120).contains(&timeout.as_secs());
    if !request.timeout.is_none_or(is_allowed) {
        return Err(wrong("timeoutMs", "allowed are 1000 to 120000"));
    }
    Ok(())
}
