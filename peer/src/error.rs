//! The failures of the peer flow: the step, the kind, and the way on.

use serde_json::{Value, json};

/// A step of the flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerStep {
    /// Deciding about the DID, and finding its endpoint.
    Trust,
    /// Asking for access in the DIDComm session of the own agent.
    Request,
    /// Calling the endpoint.
    Call,
}

impl PeerStep {
    /// The name in an error.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trust => "trust",
            Self::Request => "request",
            Self::Call => "call",
        }
    }
}

/// The kind of a failure, for callers that branch on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerFailure {
    /// The caller has asked for something that is not there, or in a form that is not allowed.
    Usage,
    /// The registry does not call the DID trusted.
    NotTrusted,
    /// Whether the DID is trusted is unknown: index or node do not say.
    VerdictUnknown,
    /// The peer denies access.
    Denied,
    /// The own agent, the peer or its endpoint does not answer, or must not be called where it says that it is.
    Unreachable,
    /// The endpoint refuses the call, or gives an answer that its protocol does not have.
    Refused,
    /// The type of the endpoint is one that this client does not speak.
    NotSpoken,
    /// Everything else: the own agent is not ready, or in another state.
    Other,
}

impl PeerFailure {
    /// Whether the same call may succeed later.
    fn may_pass(self) -> bool {
        matches!(self, Self::VerdictUnknown | Self::Unreachable)
    }
}

/// A failed step.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("step {}: {message}; {hint}", step.as_str())]
pub struct PeerError {
    /// The step.
    pub step: PeerStep,
    /// The kind.
    pub failure: PeerFailure,
    /// Code, as the own agent states it, or of this client.
    pub code: String,
    /// The offending thing, in words. It may quote a server.
    pub message: String,
    /// Details of the agent.
    pub details: Box<Value>,
    /// Seconds after which a repetition may succeed.
    pub retry_after: Option<u64>,
    /// The way on.
    pub hint: String,
}

impl PeerError {
    /// A failure without details.
    pub fn new(
        (step, failure): (PeerStep, PeerFailure),
        code: &str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        let (message, hint) = (message.into(), hint.into());
        Self { step, failure, code: code.to_owned(), message, details: Box::default(), retry_after: None, hint }
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        self.retry_after.is_some() || self.failure.may_pass()
    }

    /// The envelope of an error.
    pub fn to_json(&self) -> Value {
        let mut details = (*self.details).clone();
        if let (Some(seconds), Value::Null | Value::Object(_)) = (self.retry_after, &details) {
            details["retryAfter"] = seconds.into();
        }
        json!({"error": {"stage": self.step.as_str(), "code": self.code, "message": self.message, "details": details,
            "retryable": self.is_retryable(), "hint": self.hint}})
    }
}
