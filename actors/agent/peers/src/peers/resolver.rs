//! Documents of peers: of public DIDs from their servers, of did:peer from the DID itself.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use moka::future::Cache;
use serde_json::Value;
use svc_didcomm::peer_did::{self, PeerDidError};
use svc_net::did::{DidError, DidResolver};
use svc_otel::metrics;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

/// Documents of peers that are fetched at the same time, for messages that come and for messages that go. Each is bounded in time and
/// memory.
const MAX_RESOLUTIONS: usize = 64;
/// Those of one host: a server that never answers must not stop the others.
const MAX_PER_HOST: usize = 4;

/// Time for which a document is kept whose server allows no cache: the messages of a conversation need one reading. A peer that changes
/// its key keeps the old one for longer, and a message that does not open has the document read again.
const KEPT: Duration = Duration::from_secs(10);
/// Documents that are kept so, and their longest text.
const MAX_KEPT: u64 = 1_000;
const MAX_KEPT_BYTES: usize = 32 * 1024;

/// The direction of the message that a document is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DocumentUse {
    /// A peer has sent it.
    Inbound,
    /// It is for a peer.
    Outbound,
}

/// A document cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerDocumentError {
    /// A later attempt may succeed.
    #[error("{0}")]
    Passing(String),
    /// None will.
    #[error("{0}")]
    Final(String),
}

/// Resolves DIDs of peers.
#[derive(Clone)]
pub struct PeerResolver {
    resolver: DidResolver,
    timeout: Duration,
    inbound: Arc<Semaphore>,
    outbound: Arc<Semaphore>,
    hosts: Arc<Mutex<HashMap<String, usize>>>,
    kept: Cache<String, Arc<Value>>,
}

/// The place of one fetch at its host.
struct HostPlace {
    hosts: Arc<Mutex<HashMap<String, usize>>>,
    host: String,
}

impl HostPlace {
    fn take(hosts: &Arc<Mutex<HashMap<String, usize>>>, host: &str) -> Option<Self> {
        let mut table = hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = table.entry(host.to_owned()).or_insert(0);
        if *count >= MAX_PER_HOST {
            return None;
        }
        *count += 1;
        Some(Self { hosts: Arc::clone(hosts), host: host.to_owned() })
    }
}

impl Drop for HostPlace {
    fn drop(&mut self) {
        let mut table = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = table.get_mut(&self.host) {
            *count -= 1;
            if *count == 0 {
                table.remove(&self.host);
            }
        }
    }
}

impl PeerResolver {
    /// A resolver with an empty memory. A resolution ends after `timeout`.
    pub fn new(resolver: DidResolver, timeout: Duration) -> Self {
        let permits = || Arc::new(Semaphore::new(MAX_RESOLUTIONS));
        let kept = Cache::builder().max_capacity(MAX_KEPT).time_to_live(KEPT).build();
        Self { resolver, timeout, inbound: permits(), outbound: permits(), hosts: Arc::default(), kept }
    }

    /// Returns the document of a DID; with `fresh` as its server has it now.
    pub(crate) async fn resolve(
        &self,
        did: &str,
        fresh: bool,
        purpose: DocumentUse,
    ) -> Result<Arc<Value>, PeerDocumentError> {
        let started = Instant::now();
        let resolved = self.resolve_any(did, fresh, purpose).await;
        let outcome = match &resolved {
            Ok(_) => "ok",
            Err(PeerDocumentError::Passing(_)) => "unavailable",
            Err(PeerDocumentError::Final(_)) => "refused",
        };
        metrics::record_peer_resolution(outcome, started.elapsed());
        resolved
    }

    async fn resolve_any(&self, did: &str, fresh: bool, purpose: DocumentUse) -> Result<Arc<Value>, PeerDocumentError> {
        if peer_did::is_peer_did(did) {
            let did = did.to_owned();
            // The text is up to 8 KiB of base58, whose decoding is quadratic.
            let decoded = tokio::task::spawn_blocking(move || peer_did::resolve(&did)).await;
            let decoded = decoded.map_err(|error| PeerDocumentError::Passing(error.to_string()))?;
            return decoded.map(Arc::new).map_err(|error: PeerDidError| PeerDocumentError::Final(error.to_string()));
        }
        if !fresh {
            let cached = self.resolver.cached(did).await;
            let known = if cached.is_some() { cached } else { self.kept.get(did).await };
            if let Some(document) = known {
                return Ok(document);
            }
        }
        let busy = || PeerDocumentError::Passing("too many documents are being fetched".to_owned());
        let permits = if purpose == DocumentUse::Inbound { &self.inbound } else { &self.outbound };
        let _permit = permits.try_acquire().map_err(|_| busy())?;
        let host = did
            .rsplit_once(['#', '?'])
            .map_or(did, |(did, _)| did)
            .split(':')
            .nth(if did.starts_with("did:webvh:") { 3 } else { 2 });
        let _place = HostPlace::take(&self.hosts, host.unwrap_or_default()).ok_or_else(busy)?;
        let asked =
            async { if fresh { self.resolver.resolve_fresh(did).await } else { self.resolver.resolve(did).await } };
        let asked = timeout(self.timeout, asked).await;
        if !matches!(asked, Ok(Ok(_))) {
            self.kept.invalidate(did).await;
        }
        match asked {
            Ok(Ok(document)) => {
                if document.to_string().len() <= MAX_KEPT_BYTES {
                    self.kept.insert(did.to_owned(), Arc::clone(&document)).await;
                }
                Ok(document)
            }
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
