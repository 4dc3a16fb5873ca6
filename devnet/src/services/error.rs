//! Errors of services.

use std::net::SocketAddr;

use svc_trust::RejectionReason;

use super::did_log::DidLogWriteError;

/// Error of services.
#[derive(Debug, thiserror::Error)]
pub enum ServicesError {
    /// The address cannot be used. It is fixed, because the DIDs contain it.
    #[error("cannot listen on {address} for the services: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        cause: std::io::Error,
    },
    /// There is no service of this name, or it has no document.
    #[error("there is no service {0:?} with a document")]
    Unknown(String),
    /// The did:webvh log cannot be written.
    #[error(transparent)]
    Log(#[from] DidLogWriteError),
    /// A document cannot be signed.
    #[error("{0}")]
    Proof(String),
}

impl From<RejectionReason> for ServicesError {
    fn from(reason: RejectionReason) -> Self {
        Self::Proof(reason.message)
    }
}
