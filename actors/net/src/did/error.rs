//! Errors of DID resolution.

use crate::fetch::FetchError;

/// Methods that the resolver supports.
const SUPPORTED_METHODS: [&str; 2] = ["did:web", "did:webvh"];

/// The error of a resolution. Each variant is one step that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DidError {
    /// The text is no DID, or a DID without a location of its document.
    #[error("{did:?} is not a DID that can be resolved: {reason}")]
    InvalidDid {
        /// The text.
        did: String,
        /// The violated rule.
        reason: String,
    },
    /// The resolver does not support the method.
    #[error("DID method {method:?} is not supported; supported: {}", SUPPORTED_METHODS.join(", "))]
    MethodNotSupported {
        /// The method.
        method: String,
    },
    /// The fetch of the document, its log or the proofs of its witnesses failed.
    #[error("{did} could not be resolved: {error}")]
    FetchFailed {
        /// The DID.
        did: String,
        /// Error of the fetch.
        error: FetchError,
    },
    /// The fetched document is not the DID's document.
    #[error("{url} is not the DID Document of {did}: {reason}")]
    InvalidDocument {
        /// The DID.
        did: String,
        /// URL of the document.
        url: String,
        /// The violated rule.
        reason: String,
    },
    /// The log has more entries, or needs more checks, than allowed.
    #[error("{url}, the log of {did}, is too long: {reason}")]
    LogTooLong {
        /// The DID.
        did: String,
        /// URL of the log.
        url: String,
        /// The exceeded limit.
        reason: String,
    },
    /// The log is that of another DID: the SCID is not the hash of its first entry.
    #[error("{url} is not the log of {did}: {reason}")]
    ScidMismatch {
        /// The DID.
        did: String,
        /// URL of the log.
        url: String,
        /// The violated rule.
        reason: String,
    },
    /// The log violates the rules of its method for form, hashes, keys, proofs or times.
    #[error("{url}, the log of {did}, does not verify: {reason}")]
    InvalidLog {
        /// The DID.
        did: String,
        /// URL of the log.
        url: String,
        /// The violated rule.
        reason: String,
    },
    /// The witnesses of the log have not approved it.
    #[error("{url}, the log of {did}, is not witnessed: {reason}")]
    InvalidWitness {
        /// The DID.
        did: String,
        /// URL of the log.
        url: String,
        /// The violated rule.
        reason: String,
    },
    /// The log is older than one that was seen before, or has another history.
    #[error("{url}, the log of {did}, goes back: {reason}")]
    RolledBack {
        /// The DID.
        did: String,
        /// URL of the log.
        url: String,
        /// The violated rule.
        reason: String,
    },
    /// The controller has deactivated the DID.
    #[error("{did} is deactivated by its log {url}")]
    Deactivated {
        /// The DID.
        did: String,
        /// URL of the log.
        url: String,
    },
    /// Too many resolutions are in flight.
    #[error("{limit} DIDs are being resolved already")]
    ResolverBusy {
        /// The limit.
        limit: usize,
    },
    /// The task of the resolution ended without an answer, as all tasks do at the end of the process.
    #[error("the resolution was stopped")]
    ResolverStopped,
}

impl DidError {
    /// Returns the kind of the error as a bounded label.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidDid { .. } => "did_syntax",
            Self::MethodNotSupported { .. } => "did_method_not_supported",
            // A refused URL has a code of its own: nothing was sent.
            Self::FetchFailed { error, .. } => match error {
                FetchError::NotAUrl { .. } | FetchError::HostRefused { .. } | FetchError::RedirectRefused { .. } => {
                    error.code()
                }
                _ => "did_fetch_failed",
            },
            Self::InvalidDocument { .. } => "did_document_invalid",
            Self::LogTooLong { .. } => "did_log_too_long",
            Self::ScidMismatch { .. } => "did_scid_mismatch",
            Self::InvalidLog { .. } => "did_log_invalid",
            Self::InvalidWitness { .. } => "did_witness_invalid",
            Self::RolledBack { .. } => "did_rolled_back",
            Self::Deactivated { .. } => "did_deactivated",
            Self::ResolverBusy { .. } => "did_resolver_busy",
            Self::ResolverStopped => "did_resolver_stopped",
        }
    }
}
