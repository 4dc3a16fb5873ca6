//! Documents of peers: of public DIDs from their servers, of did:peer from the DID itself.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use svc_didcomm::peer_did::{self, PeerDidError};
use svc_net::did::{DidError, DidResolver};
use svc_otel::metrics;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

/// Documents of peers that are fetched at the same time. Each is bounded in time and memory.
const MAX_RESOLUTIONS: usize = 64;

/// A document cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PeerDocumentError {
    /// A later attempt may succeed.
    #[error("{0}")]
    Passing(String),
    /// None will.
    #[error("{0}")]
    Final(String),
}

/// Resolves DIDs of peers.
#[derive(Clone)]
pub(crate) struct PeerResolver {
    resolver: DidResolver,
    timeout: Duration,
    permits: Arc<Semaphore>,
}

impl PeerResolver {
    pub fn new(resolver: DidResolver, timeout: Duration) -> Self {
        Self { resolver, timeout, permits: Arc::new(Semaphore::new(MAX_RESOLUTIONS)) }
    }

    /// Returns the document of a DID; with `fresh` as its server has it now.
    pub async fn resolve(&self, did: &str, fresh: bool) -> Result<Arc<Value>, PeerDocumentError> {
        let started = Instant::now();
        let resolved = self.resolve_any(did, fresh).await;
        let outcome = match &resolved {
            Ok(_) => "ok",
            Err(PeerDocumentError::Passing(_)) => "unavailable",
            Err(PeerDocumentError::Final(_)) => "refused",
        };
        metrics::record_peer_resolution(outcome, started.elapsed());
        resolved
    }

    async fn resolve_any(&self, did: &str, fresh: bool) -> Result<Arc<Value>, PeerDocumentError> {
        if peer_did::is_peer_did(did) {
            let did = did.to_owned();
            // The text is up to 8 KiB of base58, whose decoding is quadratic.
            let decoded = tokio::task::spawn_blocking(move || peer_did::resolve(&did)).await;
            let decoded = decoded.map_err(|error| PeerDocumentError::Passing(error.to_string()))?;
            return decoded.map(Arc::new).map_err(|error: PeerDidError| PeerDocumentError::Final(error.to_string()));
        }
        let busy = || PeerDocumentError::Passing("too many documents are being fetched".to_owned());
        let _permit = self.permits.try_acquire().map_err(|_| busy())?;
        let asked =
            async { if fresh { self.resolver.resolve_fresh(did).await } else { self.resolver.resolve(did).await } };
        match timeout(self.timeout, asked).await {
            Ok(Ok(document)) => Ok(document),
            Ok(Err(error)) => Err(to_error(&error)),
            Err(_) => Err(PeerDocumentError::Passing(format!("no document within {} ms", self.timeout.as_millis()))),
        }
    }
}

fn to_error(error: &DidError) -> PeerDocumentError {
    match error {
        DidError::InvalidDid { .. } | DidError::MethodNotSupported { .. } | DidError::Deactivated { .. } => {
            PeerDocumentError::Final(error.to_string())
        }
        _ => PeerDocumentError::Passing(error.to_string()),
    }
}
