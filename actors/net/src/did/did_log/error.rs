//! Errors of the verification.

use didwebvh_rs::DIDWebVHError;

use crate::excerpt::truncate;

/// Longest reason of the `didwebvh-rs` crate that a message repeats; the crate nests its errors.
const MAX_REASON_CHARS: usize = 600;

/// The error of a log, with the violated rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::did) enum DidLogError {
    TooLong(String),
    ScidMismatch(String),
    InvalidLog(String),
    InvalidWitness(String),
    InvalidDocument(String),
    Deactivated,
}

impl DidLogError {
    /// An invalid log. Reasons quote the log, whose texts may be long.
    pub(super) fn log(reason: &str) -> Self {
        Self::InvalidLog(truncate(reason, MAX_REASON_CHARS))
    }

    /// Approvals that do not hold.
    pub(super) fn witness(reason: &str) -> Self {
        Self::InvalidWitness(truncate(reason, MAX_REASON_CHARS))
    }
}

/// Converts an error of the `didwebvh-rs` crate.
pub(super) fn to_log_error(error: DIDWebVHError) -> DidLogError {
    match error {
        // The crate reports the key of an entry inside other errors; a plain `InvalidMethodIdentifier` is about a witness.
        DIDWebVHError::WitnessProofError(reason) | DIDWebVHError::InvalidMethodIdentifier(reason) => {
            DidLogError::witness(&reason)
        }
        other => DidLogError::log(&other.to_string()),
    }
}
