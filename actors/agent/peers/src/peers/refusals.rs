//! Failures of verdicts and of documents as refusals.

use svc_agent_core::error::{Refusal, RefusalCode};

use super::resolver::PeerDocumentError;
use crate::gate::UnknownVerdict;

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
