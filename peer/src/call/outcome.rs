//! The end of a call: an answer, or the fault of the endpoint.

use serde_json::{Value, json};

use crate::error::{PeerError, PeerFailure, PeerStep};

/// The answer of an endpoint. Its texts are those of a stranger.
#[derive(Debug, Clone, PartialEq)]
pub struct CallAnswer {
    /// The whole answer.
    pub content: Value,
    /// Its text for a person.
    pub text: String,
}

/// A call that has failed.
#[derive(Debug)]
pub(crate) enum CallFault {
    /// The endpoint has not accepted the proof (401).
    Unauthorized,
    /// Anything else.
    Failed(PeerError),
}

impl From<PeerError> for CallFault {
    fn from(error: PeerError) -> Self {
        Self::Failed(error)
    }
}

impl CallFault {
    /// The error, where no other material is asked for.
    pub fn into_error(self) -> PeerError {
        match self {
            Self::Failed(error) => error,
            Self::Unauthorized => failed(
                PeerFailure::Refused,
                "UNAUTHENTICATED",
                "the endpoint does not accept the material (HTTP status 401)",
                "its own operator can say why; `svc peer trust DID` shows what it requires",
            ),
        }
    }
}

/// A failure of this step.
pub(super) fn failed(failure: PeerFailure, code: &str, message: impl Into<String>, hint: &str) -> PeerError {
    PeerError::new((PeerStep::Call, failure), code, message, hint)
}

/// The failure of an answer that is none of the protocol.
pub(super) fn not_of_protocol(protocol: &str, problem: impl std::fmt::Display) -> CallFault {
    let message = format!("the endpoint does not answer as {protocol}: {problem}");
    let hint = "its document may name a wrong type or URL; its operator can say";
    failed(PeerFailure::Refused, "NOT_OF_PROTOCOL", message, hint).into()
}

/// Content with one text.
pub(super) fn answer_of(content: Value, text: String) -> CallAnswer {
    let content = if content.is_null() { json!({}) } else { content };
    CallAnswer { content, text }
}
