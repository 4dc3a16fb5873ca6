//! Refused requests: the error envelope of the admin API.

use serde_json::{Value, json};
use svc_didcomm::protocol::endpoint_access::DenyCode;

/// The code of a refusal. Each has one HTTP status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefusalCode {
    /// A body, a path or a parameter is invalid.
    InvalidInput,
    /// A body is too long.
    BodyTooLong,
    /// A body has another type than JSON.
    UnsupportedMediaType,
    /// The path has no such method.
    MethodNotAllowed,
    /// The cursor is not one of this list.
    InvalidCursor,
    /// The endpoint of a service is not one of DID Core, or leads to a forbidden place.
    InvalidServiceEndpoint,
    /// The token is absent, unknown or expired, or a login has failed.
    Unauthenticated,
    /// The caller may not use the API.
    Forbidden,
    /// Nothing has this id, or nothing is at this path.
    UnknownId,
    /// The agent's state does not allow the request.
    InvalidState,
    /// The claims of a credential do not fit its schema.
    InvalidClaims,
    /// The terms of a credential cannot be kept.
    InvalidTerms,
    /// The role of a participant has no credential.
    NoCredentialForRole,
    /// The agent has no participant that may issue the credential.
    NotAuthorized,
    /// The subject has no participant that may hold the credential.
    PeerNotAuthorized,
    /// The registry or an issuer's server does not answer, so that nothing can be decided.
    ResolverUnavailable,
    /// A peer denies access to its endpoint.
    AccessDenied,
    /// No endpoint of a peer takes messages.
    PeerUnreachable,
    /// A peer does not answer in time.
    PeerUnanswered,
    /// Another entry has this id.
    DuplicateId,
    /// The agent manages its DIDComm entry itself.
    DidCommEntry,
    /// The agent manages its linked presentations itself.
    LinkedPresentationEntry,
    /// The agent manages the entry of its admin API itself.
    AdminApiEntry,
    /// A part of the agent does not work now.
    NotReady,
    /// A failure of the agent; the log has the details.
    Internal,
}

impl RefusalCode {
    /// Returns the code on the wire, and the HTTP status.
    pub fn on_wire(self) -> (&'static str, u16) {
        match self {
            Self::InvalidInput => ("INVALID_INPUT", 400),
            Self::BodyTooLong => ("INVALID_INPUT", 413),
            Self::UnsupportedMediaType => ("INVALID_INPUT", 415),
            Self::MethodNotAllowed => ("INVALID_INPUT", 405),
            Self::InvalidCursor => ("INVALID_CURSOR", 400),
            Self::InvalidServiceEndpoint => ("INVALID_SERVICE_ENDPOINT", 400),
            Self::Unauthenticated => ("UNAUTHENTICATED", 401),
            Self::Forbidden => ("FORBIDDEN", 403),
            Self::UnknownId => ("UNKNOWN_ID", 404),
            Self::InvalidState => ("INVALID_STATE", 409),
            Self::InvalidClaims => ("INVALID_CLAIMS", 422),
            Self::InvalidTerms => ("INVALID_TERMS", 400),
            Self::NoCredentialForRole => ("NO_CREDENTIAL_FOR_ROLE", 409),
            Self::NotAuthorized => ("NOT_AUTHORIZED", 409),
            Self::PeerNotAuthorized => ("PEER_NOT_AUTHORIZED", 409),
            Self::ResolverUnavailable => ("RESOLVER_UNAVAILABLE", 503),
            Self::AccessDenied => ("ACCESS_DENIED", 409),
            Self::PeerUnreachable => ("PEER_UNREACHABLE", 502),
            Self::PeerUnanswered => ("PEER_UNANSWERED", 504),
            Self::DuplicateId => ("DUPLICATE_ID", 409),
            Self::DidCommEntry => ("DIDCOMM_ENTRY", 409),
            Self::LinkedPresentationEntry => ("LINKED_VP_ENTRY", 409),
            Self::AdminApiEntry => ("ADMIN_API_ENTRY", 409),
            Self::NotReady => ("NOT_READY", 503),
            Self::Internal => ("INTERNAL", 500),
        }
    }
}

/// One violation of a body: the place and the rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Name of the member or parameter.
    pub path: String,
    /// The rule, and the value if it is short.
    pub message: String,
}

/// A part of the agent that a request may have to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AgentPart {
    /// The database.
    Store,
    /// The DID Document.
    Document,
    /// The node.
    Node,
    /// The indexer.
    Indexer,
    /// The registry events since the last stop.
    CatchUp,
}

impl AgentPart {
    /// Returns the name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Document => "document",
            Self::Node => "node",
            Self::Indexer => "indexer",
            Self::CatchUp => "catch-up",
        }
    }
}

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Code.
    pub code: RefusalCode,
    /// The offending thing and the allowed values.
    pub message: String,
    /// Violations of the body, for the codes of invalid input.
    pub violations: Vec<Violation>,
    /// Parts that do not work, for [`RefusalCode::NotReady`].
    pub waiting: Vec<AgentPart>,
    /// Seconds after which a repetition may succeed.
    pub retry_after: Option<u64>,
    /// The denial of a peer, for [`RefusalCode::AccessDenied`].
    pub denial: Option<DenialDetails>,
}

/// The denial of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DenialDetails {
    /// Its code.
    pub code: DenyCode,
    /// Seconds after which the peer wants to be asked again.
    pub retry_after: Option<u64>,
}

impl Refusal {
    /// A refusal without details.
    pub fn new(code: RefusalCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            violations: Vec::new(),
            waiting: Vec::new(),
            retry_after: None,
            denial: None,
        }
    }

    /// A refusal of one member of a body.
    pub fn of_member(code: RefusalCode, path: &str, rule: impl Into<String>) -> Self {
        let rule = rule.into();
        let violations = vec![Violation { path: path.to_owned(), message: rule.clone() }];
        Self { violations, ..Self::new(code, format!("{path}: {rule}")) }
    }

    /// A refusal because a part of the agent does not work now.
    pub fn not_ready(part: AgentPart, message: impl Into<String>, retry_after: u64) -> Self {
        Self { waiting: vec![part], retry_after: Some(retry_after), ..Self::new(RefusalCode::NotReady, message) }
    }

    /// Returns the body of the answer.
    pub fn to_json(&self) -> Value {
        let mut error = json!({"code": self.code.on_wire().0, "message": self.message});
        if !self.violations.is_empty() {
            let violations = self.violations.iter().map(|one| json!({"path": one.path, "message": one.message}));
            error["details"]["violations"] = violations.collect();
        }
        if !self.waiting.is_empty() {
            error["details"]["waiting"] = self.waiting.iter().map(|part| part.as_str()).collect();
        }
        if let Some(denial) = &self.denial {
            error["details"]["code"] = json!(denial.code.as_str());
            if let Some(seconds) = denial.retry_after {
                error["details"]["retryAfter"] = json!(seconds);
            }
        }
        json!({"error": error})
    }
}
