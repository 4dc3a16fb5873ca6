//! A request for a credential, and the end of an issuance without one.

use serde_json::{Map, Value};
use svc_agent_core::{
    error::{Refusal, RefusalCode, Violation},
    grant::BlockedReason,
};
use svc_didcomm::flow::CredentialTerms;

use crate::account_write::{Block, WriteStop};

/// A credential that is to be issued.
#[derive(Debug, Clone, PartialEq)]
pub struct IssueRequest {
    /// DID of the subject.
    pub did: String,
    /// Schema.
    pub schema_id: u64,
    /// Claims, without the `id` of the subject.
    pub claims: Map<String, Value>,
    /// End of its validity, seconds since the epoch; the longest that is allowed when absent.
    pub valid_until: Option<i64>,
    /// Terms that a validator's operator has set.
    pub terms: CredentialTerms,
}

/// An issuance that ended without its credential.
#[derive(Debug, Clone, PartialEq)]
pub enum IssueStop {
    /// The request is refused.
    Refused(Refusal),
    /// The registry, a grant or a server does not allow it now.
    Stopped(WriteStop),
}

impl<T: Into<WriteStop>> From<T> for IssueStop {
    fn from(stop: T) -> Self {
        Self::Stopped(stop.into())
    }
}

impl IssueStop {
    /// The refusal of a request.
    pub fn into_refusal(self) -> Refusal {
        match self {
            Self::Refused(refusal) => refusal,
            Self::Stopped(WriteStop::Blocked(Block {
                reason: reason @ (BlockedReason::NoParticipant | BlockedReason::NoGrant | BlockedReason::GrantExpired),
                ..
            })) => {
                let message = format!(
                    "the agent may not issue credentials of this schema: {} (svc agent init shows the step)",
                    reason.as_str()
                );
                Refusal::new(RefusalCode::NotAuthorized, message)
            }
            Self::Stopped(stop) => {
                let message = format!("the credential was not issued: {}", stop.reason());
                Refusal { retry_after: Some(5), ..Refusal::new(RefusalCode::ResolverUnavailable, message) }
            }
        }
    }
}

/// A violation of a rule by the member at a path.
pub(super) fn violation(path: &str, message: &str) -> Violation {
    Violation { path: path.to_owned(), message: message.to_owned() }
}

/// The refusal of a request for its claims.
pub(super) fn invalid_claims(violations: Vec<Violation>) -> IssueStop {
    let first = violations.first().map(|one| format!("{}: {}", one.path, one.message)).unwrap_or_default();
    IssueStop::Refused(Refusal { violations, ..Refusal::new(RefusalCode::InvalidClaims, first) })
}
