//! Requests of callers about credentials that peers offer outside of flows.

use svc_agent_core::{
    error::{Refusal, RefusalCode},
    peers::{ExchangeFilter, ExchangeState, PeerEvent, StoredExchange},
};
use svc_agent_identity::credentials::CredentialHandle;
use svc_agent_store::{queue_failed, store_failed};
use svc_didcomm::{
    Message,
    protocol::{
        credential_format::CredentialFormat,
        issue_credential::{IssueCredential, abandon_message},
    },
};
use svc_kit::wall_clock::now_millis;
use uuid::Uuid;

use super::service::PeerService;

/// Characters of a reason that a caller gives.
const MAX_REASON: usize = 1_024;

fn unknown_exchange(id: &str) -> Refusal {
    Refusal::new(RefusalCode::UnknownId, format!("no exchange of a credential has the id {id:?}"))
}

fn wrong_state(exchange: &StoredExchange, wanted: &str) -> Refusal {
    let state = exchange.state.as_str();
    Refusal::new(RefusalCode::InvalidState, format!("the exchange is in the state {state}, and not in {wanted}"))
}

impl PeerService {
    /// Returns exchanges in the order of their ids, behind one of them.
    pub async fn exchanges(
        &self,
        filter: &ExchangeFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredExchange>, Refusal> {
        self.0.parts.store.exchanges(filter, after, limit).await.map_err(|error| store_failed(&error))
    }

    /// Returns an exchange.
    pub async fn exchange(&self, id: &str) -> Result<StoredExchange, Refusal> {
        let found = self.0.parts.store.exchange(id).await.map_err(|error| store_failed(&error))?;
        found.ok_or_else(|| unknown_exchange(id))
    }

    /// Removes an exchange; a stored credential stays.
    pub async fn delete_exchange(&self, id: &str) -> Result<(), Refusal> {
        let removed = self.0.parts.store.remove_exchange(id).await;
        self.0.parts.guard.note_result(&removed);
        if removed.map_err(|error| store_failed(&error))? { Ok(()) } else { Err(unknown_exchange(id)) }
    }

    /// Requests the offered credential.
    pub async fn accept_offer(&self, id: &str) -> Result<StoredExchange, Refusal> {
        let exchange = self.exchange(id).await?;
        if exchange.state != ExchangeState::OfferReceived {
            return Err(wrong_state(&exchange, ExchangeState::OfferReceived.as_str()));
        }
        let connection = self.connection(&exchange.connection_id).await?;
        self.require_trust(&connection.connection.public_did).await?;
        let Some(format) = CredentialFormat::of_offer(&exchange.format) else {
            let message = format!("credentials of the format {:?} are not taken", exchange.format);
            return Err(Refusal::new(RefusalCode::InvalidState, message));
        };
        let request = IssueCredential::Request(vec![format.request(&new_id(), &exchange.offer)]);
        let message = request.to_message(&new_id(), &exchange.thread_id, exchange.parent_thread_id.as_deref());
        self.move_on(&exchange, ExchangeState::RequestSent, None, message).await
    }

    /// Verifies the received credential, presents it, and acknowledges it.
    pub async fn accept_credential(&self, id: &str, credentials: &CredentialHandle) -> Result<StoredExchange, Refusal> {
        let exchange = self.exchange(id).await?;
        let (ExchangeState::CredentialReceived, Some(credential)) = (exchange.state, exchange.credential.clone())
        else {
            return Err(wrong_state(&exchange, ExchangeState::CredentialReceived.as_str()));
        };
        let connection = self.connection(&exchange.connection_id).await?;
        let issuer = credential["issuer"].as_str().or_else(|| credential["issuer"]["id"].as_str()).unwrap_or_default();
        if !Self::is_peer(&connection, issuer) {
            let message = "the issuer of the credential is not the peer that sent it";
            return Err(Refusal::new(RefusalCode::PeerNotAuthorized, message));
        }
        let stored = credentials.import(credential).await?;
        let ack = IssueCredential::Ack { status: "OK".to_owned() };
        let message = ack.to_message(&new_id(), &exchange.thread_id, exchange.parent_thread_id.as_deref());
        let exchange = StoredExchange { schema_id: Some(stored.schema_id), ..exchange };
        self.move_on(&exchange, ExchangeState::Done, None, message).await
    }

    /// Declines an offer or a credential.
    pub async fn decline_exchange(&self, id: &str, reason: Option<String>) -> Result<StoredExchange, Refusal> {
        let exchange = self.exchange(id).await?;
        if exchange.state.is_final() {
            return Err(wrong_state(&exchange, "one that goes on"));
        }
        let reason = reason.unwrap_or_else(|| "declined".to_owned());
        if reason.chars().count() > MAX_REASON || reason.contains('\0') {
            let rule = format!("a reason has at most {MAX_REASON} characters, and not U+0000");
            return Err(Refusal::of_member(RefusalCode::InvalidInput, "reason", rule));
        }
        let message = abandon_message(&new_id(), &exchange.thread_id, exchange.parent_thread_id.as_deref(), &reason);
        self.move_on(&exchange, ExchangeState::Declined, Some(reason), message).await
    }

    async fn move_on(
        &self,
        before: &StoredExchange,
        state: ExchangeState,
        error: Option<String>,
        message: Message,
    ) -> Result<StoredExchange, Refusal> {
        let after = StoredExchange { state, error, updated_at: now_millis(), ..before.clone() };
        let event = Some(PeerEvent::exchange(&after));
        let moved = self.0.parts.store.move_exchange(before.state, &after, &message, event, &self.0.limits).await;
        self.0.parts.guard.note_result(&moved);
        match moved.map_err(queue_failed)? {
            true => {
                self.notify_courier();
                let connection = self.connection(&after.connection_id).await?;
                self.message_queued(&connection.connection.id, &connection.connection.public_did).await;
                Ok(after)
            }
            false => Err(wrong_state(&self.exchange(&before.id).await?, before.state.as_str())),
        }
    }

    /// The refusal of an offer that names a definition: this agent has none.
    pub fn refuse_definition(&self, definition: &str) -> Refusal {
        Refusal::new(RefusalCode::UnknownId, format!("no credential definition has the id {definition:?}"))
    }
}

fn new_id() -> String {
    Uuid::new_v4().to_string()
}
