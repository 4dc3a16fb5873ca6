//! Why a DID could not be resolved.

use super::METHODS;
use crate::fetch::FetchError;

/// A DID that could not be resolved. Each says which step failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DidError {
    /// Not a DID, or none whose document could be anywhere.
    #[error("{did:?} is not a DID that can be resolved: {reason}")]
    Syntax {
        /// What was given.
        did: String,
        /// What is wrong.
        reason: String,
    },
    /// A method this resolver does not speak.
    #[error("DID method {method:?} is not supported; supported: {}", METHODS.join(", "))]
    Method {
        /// The method.
        method: String,
    },
    /// The document, its log or the proofs of its witnesses could not be fetched.
    #[error("{did} could not be resolved: {error}")]
    Fetch {
        /// The DID.
        did: String,
        /// Why not.
        error: FetchError,
    },
    /// What was fetched is not the DID's document.
    #[error("{url} is not the DID Document of {did}: {reason}")]
    Document {
        /// The DID.
        did: String,
        /// Where it was fetched.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// The log is longer, or asks for more work, than is taken.
    #[error("{url}, the log of {did}, is too long: {reason}")]
    LogTooLong {
        /// The DID.
        did: String,
        /// Where the log is.
        url: String,
        /// Which limit it exceeds.
        reason: String,
    },
    /// The log is another DID's: its first entry is not what the SCID was made from.
    #[error("{url} is not the log of {did}: {reason}")]
    Scid {
        /// The DID.
        did: String,
        /// Where the log is.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// The log breaks its method's rules: form, hashes, keys, proofs or times.
    #[error("{url}, the log of {did}, does not verify: {reason}")]
    Log {
        /// The DID.
        did: String,
        /// Where the log is.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// The log's witnesses have not approved it.
    #[error("{url}, the log of {did}, is not witnessed: {reason}")]
    Witness {
        /// The DID.
        did: String,
        /// Where the log is.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// Its controller has ended it.
    #[error("{did} is deactivated, says its log {url}")]
    Deactivated {
        /// The DID.
        did: String,
        /// Where the log is.
        url: String,
    },
    /// Too many DIDs are being resolved.
    #[error("{limit} DIDs are being resolved already")]
    Busy {
        /// The bound.
        limit: usize,
    },
    /// The task that did it has ended without an answer, as all do when the process ends.
    #[error("the resolution was stopped")]
    Stopped,
}

impl DidError {
    /// What happened, as a bounded label.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Syntax { .. } => "did_syntax",
            Self::Method { .. } => "did_method_not_supported",
            // That nothing was sent, by rule, is another answer than a server that does not serve.
            Self::Fetch { error, .. } => match error {
                FetchError::NotAUrl { .. } | FetchError::HostRefused { .. } | FetchError::RedirectRefused { .. } => {
                    error.code()
                }
                _ => "did_fetch_failed",
            },
            Self::Document { .. } => "did_document_invalid",
            Self::LogTooLong { .. } => "did_log_too_long",
            Self::Scid { .. } => "did_scid_mismatch",
            Self::Log { .. } => "did_log_invalid",
            Self::Witness { .. } => "did_witness_invalid",
            Self::Deactivated { .. } => "did_deactivated",
            Self::Busy { .. } => "did_resolver_busy",
            Self::Stopped => "did_resolver_stopped",
        }
    }
}
