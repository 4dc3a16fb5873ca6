//! Failures of the store, of the outbox, of verdicts and of documents as refusals.

use svc_agent_core::error::{AgentPart, Refusal, RefusalCode};

use super::{gate::UnknownVerdict, resolver::PeerDocumentError};
use crate::store::{AgentStoreError, QueueRefusal};

/// The refusal of a request about a DID whose document cannot be had. `member` named the DID.
pub(super) fn document_refused(member: &str, error: PeerDocumentError) -> Refusal {
    match error {
        PeerDocumentError::Passing(reason) => {
            Refusal { retry_after: Some(1), ..Refusal::new(RefusalCode::ResolverUnavailable, reason) }
        }
        PeerDocumentError::Final(reason) => Refusal::of_member(RefusalCode::InvalidInput, member, reason),
    }
}

/// The refusal of a request about a DID that nothing can be decided about.
pub(super) fn verdict_unknown(error: &UnknownVerdict) -> Refusal {
    Refusal { retry_after: Some(5), ..Refusal::new(RefusalCode::ResolverUnavailable, error.to_string()) }
}

/// The refusal of a request about a DID that the registry does not call trusted.
pub(super) fn not_trusted(did: &str) -> Refusal {
    let message = format!("{did} is no verifiable service: the registry does not call it trusted");
    Refusal::new(RefusalCode::PeerNotAuthorized, message)
}

/// The refusal of a request whose rows cannot be read or written.
pub(crate) fn store_failed(error: &AgentStoreError) -> Refusal {
    tracing::error!(%error, "the store of peers cannot be used");
    Refusal::not_ready(AgentPart::Store, "the store cannot be used now", 5)
}

/// The refusal of a message that has no room in the outbox.
pub(crate) fn queue_refused(refusal: QueueRefusal) -> Refusal {
    let reason = match refusal {
        QueueRefusal::Ended => "the peer has ended the connection",
        QueueRefusal::PeerFull => "too many messages wait for this peer",
        QueueRefusal::Full => "too many messages wait for all peers",
    };
    Refusal::new(RefusalCode::InvalidState, format!("{reason}; nothing is sent"))
}
