//! Failures of the store and of the outbox as refusals of requests.

use svc_agent_core::error::{AgentPart, Refusal, RefusalCode};

use super::{error::AgentStoreError, peer_rows::QueueRefusal};

/// The refusal of a request whose rows cannot be read or written.
pub fn store_failed(error: &AgentStoreError) -> Refusal {
    tracing::error!(%error, "the store of peers cannot be used");
    Refusal::not_ready(AgentPart::Store, "the store cannot be used now", 5)
}

/// The refusal of a message that has no room in the outbox.
pub fn queue_refused(refusal: QueueRefusal) -> Refusal {
    let reason = match refusal {
        QueueRefusal::Ended => "the peer has ended the connection",
        QueueRefusal::PeerFull => "too many messages wait for this peer",
        QueueRefusal::Full => "too many messages wait for all peers",
    };
    Refusal::new(RefusalCode::InvalidState, format!("{reason}; nothing is sent"))
}
