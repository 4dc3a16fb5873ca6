//! A message of a peer for the store, and its end there.

use svc_agent_core::{
    access::{AccessOutcome, AccessPart},
    flows::HeardFacts,
    peers::{OwnPeerDid, Verdict},
};
use svc_didcomm::{
    Message, Refusal,
    from_prior::FromPrior,
    protocol::{Content, ContentError},
};

use crate::{
    error::{AgentStoreError, WriteFailure},
    flow_rows::WrittenFlow,
    sealing::ContentKey,
};

/// A message whose sender and recipient are proven.
pub struct ArrivedMessage<'a> {
    /// The message.
    pub message: &'a Message,
    /// As its protocol reads it.
    pub content: &'a Result<Content, ContentError>,
    /// DID of the sender.
    pub sender: &'a str,
    /// Our DID that it was encrypted for.
    pub recipient: &'a str,
    /// The invitation of that DID.
    pub invitation: Option<&'a OwnPeerDid>,
    /// Its `from_prior`, whose signature was verified.
    pub prior: Option<&'a FromPrior>,
    /// The decision about the peer.
    pub verdict: Option<Verdict>,
    /// The part of flows.
    pub flows: FlowPart<'a>,
    /// The part of access, in a request for it.
    pub access: Option<&'a AccessPart>,
    /// Milliseconds since the epoch.
    pub now: i64,
}

/// The part of flows in a message.
pub struct FlowPart<'a> {
    /// The key of their credentials.
    pub key: &'a ContentKey,
    /// The conditions that the node shows.
    pub heard: HeardFacts,
    /// Flows of one peer that may run.
    pub max_per_peer: u64,
    /// Whether a message about no flow is answered.
    pub answers_unknown: bool,
}

/// The end of a message that has arrived.
#[derive(Debug, Clone, PartialEq)]
pub enum TakenMessage {
    /// It was handled.
    New {
        /// Its connection.
        connection_id: String,
        /// Whether a message for the peer was queued.
        has_answer: bool,
        /// Whether an event was queued.
        has_event: bool,
        /// Whether a record was stored.
        has_record: bool,
        /// Flows that have changed.
        flows: Vec<WrittenFlow>,
        /// The decision about a request for access.
        access: Option<AccessOutcome>,
    },
    /// It was handled before.
    Repeated {
        /// Its connection.
        connection_id: String,
        /// Whether the stored answer was queued again.
        has_answer: bool,
    },
    /// The memory against repetition is full, and this sender has filled most of it.
    MemoryFull,
    /// Too many flows of the peer have not ended, or too many messages wait for it.
    FlowsFull,
}

/// Why nothing of a message is stored.
#[derive(Debug, thiserror::Error)]
pub enum ArrivalError {
    /// It fails a check.
    #[error("the message is refused: {0}")]
    Refused(Refusal),
    /// The store failed.
    #[error(transparent)]
    Store(AgentStoreError),
}

impl<E: Into<AgentStoreError>> From<E> for ArrivalError {
    fn from(error: E) -> Self {
        Self::Store(error.into())
    }
}

impl WriteFailure for ArrivalError {
    fn is_of_store(&self) -> bool {
        matches!(self, Self::Store(_))
    }
}
