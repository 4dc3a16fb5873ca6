//! Failures of the store and of the outbox as refusals of requests.

use svc_agent_core::error::{AgentPart, Refusal, RefusalCode};

use super::{
    error::AgentStoreError,
    flow_rows::{FlowRefusal, FlowWriteError},
    peer_rows::{QueueError, QueueRefusal},
};

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

/// The refusal of a message that was not put into the outbox.
pub fn queue_failed(error: QueueError) -> Refusal {
    match error {
        QueueError::Refused(refusal) => queue_refused(refusal),
        QueueError::Store(error) => store_failed(&error),
    }
}

impl From<FlowWriteError> for Refusal {
    fn from(error: FlowWriteError) -> Self {
        let refusal = match error {
            FlowWriteError::Store(error) => return store_failed(&error),
            FlowWriteError::Refused(refusal) => refusal,
        };
        let reason = match refusal {
            FlowRefusal::PeerFull => "too many flows with this peer have not ended",
            FlowRefusal::SessionTaken => "another flow has the session",
            FlowRefusal::AlreadyLive => "a flow of the participant has not ended",
            FlowRefusal::NotConnected => "the flow has no connection with its peer",
            FlowRefusal::Queue(refusal) => return queue_refused(refusal),
        };
        Self::new(RefusalCode::InvalidState, reason)
    }
}
