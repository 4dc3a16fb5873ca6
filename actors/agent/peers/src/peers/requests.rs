//! Requests of callers about peers: connections, basic messages, invitations.

use std::time::Duration;

use serde_json::json;
use svc_agent_core::{
    error::{AgentPart, Refusal, RefusalCode},
    peers::{
        BasicMessageFilter, ConnectionFilter, ConnectionRole, MessageRole, OwnPeerDid, StoredBasicMessage,
        StoredConnection, Verdict,
    },
};
use svc_agent_store::{PrivateKey, QueueError, QueueRefusal, queue_failed, queue_refused, store_failed};
use svc_didcomm::{
    connection::Connection,
    delivery::DeliveryState,
    envelope::KeyAgreementKey,
    limits,
    peer_did::{self, is_same_did},
    protocol::out_of_band::Invitation,
};
use svc_kit::wall_clock::{self, now_millis};
use svc_wire::verification_method::{KeyKind, multikey};
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;
use zeroize::Zeroizing;

use super::{
    refusals::{document_refused, not_trusted, verdict_unknown},
    resolver::DocumentUse,
    sending::OWN_PEER_KEY,
    service::PeerService,
    settings::PeerAdmission,
};

/// An invitation that a caller sends over a connection.
#[derive(Debug, Clone, Default)]
pub struct InvitationRequest {
    /// The connection.
    pub connection_id: String,
    /// The DID to talk to; one of this agent, made for it, when absent.
    pub did: Option<String>,
    /// Why, for people.
    pub goal: Option<String>,
    /// Why, for programs.
    pub goal_code: Option<String>,
}

/// An invitation in the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentInvitation {
    /// Id of the message.
    pub id: String,
    /// Id of the invitation, for the connection that comes of it.
    pub out_of_band_id: Option<String>,
}

pub(super) fn unknown_connection(id: &str) -> Refusal {
    Refusal::new(RefusalCode::UnknownId, format!("no connection has the id {id:?}"))
}

impl PeerService {
    /// Returns connections in the order of their ids, behind one of them.
    pub async fn connections(
        &self,
        filter: &ConnectionFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredConnection>, Refusal> {
        self.0.parts.store.connections(filter, after, limit).await.map_err(|error| store_failed(&error))
    }

    /// Returns a connection.
    pub async fn connection(&self, id: &str) -> Result<StoredConnection, Refusal> {
        let found = self.0.parts.store.connection(id).await.map_err(|error| store_failed(&error))?;
        found.ok_or_else(|| unknown_connection(id))
    }

    /// Opens a connection with a public DID. One that is there is returned as it is. Nothing is sent.
    pub async fn open_connection(&self, did: &str) -> Result<StoredConnection, Refusal> {
        let wrong = |rule: &str| Refusal::of_member(RefusalCode::InvalidInput, "did", rule);
        if did.len() > limits::MAX_DID_BYTES || !(did.starts_with("did:web:") || did.starts_with("did:webvh:")) {
            return Err(wrong("it is no DID of the methods web and webvh"));
        }
        let own_did = self.0.parts.keeper.published().document.did().to_owned();
        if did == own_did {
            return Err(wrong("it is the DID of this agent"));
        }
        let verdict = self.require_trust(did).await?;
        let document = self.0.parts.resolver.resolve(did, true, DocumentUse::Outbound).await;
        let document = document.map_err(|error| document_refused("did", error))?;
        let known = self.0.parts.store.connection_with_peer(did).await.map_err(|error| store_failed(&error))?;
        if let Some(known) = known {
            return Ok(StoredConnection { verdict: verdict.or(known.verdict), ..known });
        }
        let clear_text = super::settings::allows_clear_text(self.0.parts.client.policy());
        if svc_didcomm::endpoint::endpoints(&document, clear_text).is_empty() {
            return Err(wrong("its document has no endpoint for DIDComm v2"));
        }
        let now = now_millis();
        let added = StoredConnection {
            connection: Connection::begin(&Uuid::new_v4().to_string(), &own_did, did),
            role: ConnectionRole::Requester,
            thread_id: None,
            out_of_band_id: None,
            parent_id: None,
            verdict,
            last_seen_at: None,
            waiting: 0,
            unanswered: 0,
            created_at: now,
            updated_at: now,
        };
        let stored = self.0.parts.store.add_connection_with_event(&added, &self.0.limits).await;
        self.0.parts.guard.note_result(&stored);
        let stored = stored.map_err(|error| store_failed(&error))?;
        self.notify_courier();
        Ok(stored)
    }

    /// The decision about a peer; a refusal where it is needed and does not admit the peer.
    pub(super) async fn require_trust(&self, did: &str) -> Result<Option<Verdict>, Refusal> {
        match self.0.parts.gate.fresh_verdict(did).await {
            Ok(verdict) if verdict.is_trusted || self.0.parts.settings.admission == PeerAdmission::Any => {
                Ok(Some(verdict))
            }
            Ok(_) => Err(not_trusted(did)),
            Err(_) if self.0.parts.settings.admission == PeerAdmission::Any => Ok(None),
            Err(error) => Err(verdict_unknown(&error)),
        }
    }

    /// Removes a connection with its messages and exchanges. The peer hears nothing of it.
    pub async fn delete_connection(&self, id: &str) -> Result<(), Refusal> {
        let removed = self.0.parts.store.remove_connection(id).await;
        self.0.known_peers.note_change();
        self.0.parts.guard.note_result(&removed);
        let removed = removed.map_err(|error| store_failed(&error))?;
        if removed { Ok(()) } else { Err(unknown_connection(id)) }
    }

    /// Stores a basic message for a peer, and has it sent.
    pub async fn send_basic_message(&self, connection_id: &str, content: &str) -> Result<StoredBasicMessage, Refusal> {
        let allowed = 1..=limits::MAX_BASIC_MESSAGE_BYTES;
        if !allowed.contains(&content.len()) {
            let rule = format!("a text has 1 to {} bytes", limits::MAX_BASIC_MESSAGE_BYTES);
            return Err(Refusal::of_member(RefusalCode::InvalidInput, "content", rule));
        }
        if content.contains('\0') {
            return Err(Refusal::of_member(RefusalCode::InvalidInput, "content", "it has the character U+0000"));
        }
        let now = now_millis();
        let record = StoredBasicMessage {
            id: Uuid::now_v7().to_string(),
            connection_id: connection_id.to_owned(),
            role: MessageRole::Sender,
            content: content.to_owned(),
            sent_at: now,
            created_at: now,
            delivery: Some(DeliveryState::Waiting),
        };
        let queued = self.0.parts.store.queue_basic_message(&record, &self.0.limits).await;
        self.0.parts.guard.note_result(&queued);
        let public_did = match queued {
            Ok(public_did) => public_did,
            // A connection that is not there has not ended either.
            Err(QueueError::Refused(refusal)) => {
                return Err(self.connection(connection_id).await.err().unwrap_or(queue_refused(refusal)));
            }
            Err(QueueError::Store(error)) => return Err(store_failed(&error)),
        };
        self.note_record();
        self.message_queued(connection_id, &public_did).await;
        Ok(record)
    }

    /// Returns basic messages in the order of their ids, behind one of them. Without any, waits for one, at most `wait`.
    pub async fn basic_messages(
        &self,
        filter: &BasicMessageFilter,
        after: Option<&str>,
        limit: usize,
        wait: Duration,
    ) -> Result<Vec<StoredBasicMessage>, Refusal> {
        let deadline = Instant::now() + wait;
        let mut records = self.0.records.subscribe();
        loop {
            records.mark_unchanged();
            let found =
                self.0.parts.store.basic_messages(filter, after, limit).await.map_err(|error| store_failed(&error))?;
            if !found.is_empty() || wait.is_zero() {
                return Ok(found);
            }
            if !matches!(timeout_at(deadline, records.changed()).await, Ok(Ok(()))) {
                return Ok(Vec::new());
            }
        }
    }

    /// Sends an invitation over a connection. Without a DID one is made for it: the peer's first message to it begins a connection.
    pub async fn send_invitation(&self, request: InvitationRequest) -> Result<SentInvitation, Refusal> {
        let connection = self.connection(&request.connection_id).await?;
        if connection.connection.has_ended {
            return Err(queue_refused(QueueRefusal::Ended));
        }
        if let Some(did) = &request.did
            && (!did.starts_with("did:") || did.len() > limits::MAX_DID_BYTES)
        {
            return Err(Refusal::of_member(RefusalCode::InvalidInput, "did", "it is no DID"));
        }
        let own = match &request.did {
            Some(_) => None,
            None => Some(self.make_own_peer_did(&connection).await?),
        };
        let from = own.as_ref().map(|own| own.long.clone()).or(request.did).unwrap_or_default();
        let invitation = Invitation { from, goal_code: request.goal_code, goal: request.goal };
        let out_of_band_id = own.map(|own| own.out_of_band_id);
        let id = out_of_band_id.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
        let (message, now) = (invitation.to_message(&id), wall_clock::now().seconds);
        let queued = self.0.parts.store.queue_message(&request.connection_id, &message, now, &self.0.limits).await;
        self.0.parts.guard.note_result(&queued);
        queued.map_err(queue_failed)?;
        self.message_queued(&connection.connection.id, &connection.connection.public_did).await;
        Ok(SentInvitation { id, out_of_band_id })
    }

    async fn make_own_peer_did(&self, connection: &StoredConnection) -> Result<OwnPeerDid, Refusal> {
        let published = self.0.parts.keeper.published();
        let mut secret = Zeroizing::new([0; 32]);
        getrandom::fill(secret.as_mut_slice()).map_err(|error| {
            tracing::error!(%error, "no random bytes");
            Refusal::not_ready(AgentPart::Store, "no key can be made now", 5)
        })?;
        let public = KeyAgreementKey::from_bytes(&secret).public_key();
        let endpoints: Vec<_> = published
            .document
            .services()
            .into_iter()
            .filter(|service| service.kind == "DIDCommMessaging")
            .enumerate()
            .map(|(index, service)| {
                json!({"id": format!("#didcommmessaging-{index}"), "type": service.kind, "serviceEndpoint": service.endpoint})
            })
            .collect();
        let document = json!({
            "@context": ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/multikey/v1"],
            "verificationMethod": [{"id": OWN_PEER_KEY, "type": "Multikey",
                "publicKeyMultibase": multikey(KeyKind::X25519, &public)}],
            "keyAgreement": [OWN_PEER_KEY],
            "service": endpoints,
        });
        let peer = peer_did::encode(&document);
        let own = OwnPeerDid {
            short: peer.short.clone(),
            long: peer.long,
            out_of_band_id: Uuid::new_v4().to_string(),
            parent_id: connection.connection.id.clone(),
        };
        let key = PrivateKey { name: peer.short, version: 1, secret };
        let stored = self.0.parts.store.add_own_peer_did(published.document.did(), &own, &key, now_millis()).await;
        self.0.parts.guard.note_result(&stored);
        stored.map_err(|error| store_failed(&error))?;
        Ok(own)
    }

    /// Has the session of a connection look at the outbox. Where it cannot be started now, the directory does so later.
    pub async fn message_queued(&self, connection_id: &str, public_did: &str) {
        match self.session(public_did).await {
            Ok(session) => session.message_due(connection_id),
            Err(error) => {
                tracing::warn!(%error, "a session with a peer cannot be started");
                self.outbox_changed();
            }
        }
    }

    /// Whether a connection is one with a DID.
    pub(super) fn is_peer(connection: &StoredConnection, did: &str) -> bool {
        is_same_did(&connection.connection.public_did, did)
    }
}
