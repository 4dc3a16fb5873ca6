//! The resolver: reads the cache, joins or starts a request, fetches, and verifies.

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::Value;
use svc_otel::{metrics, trace};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::Instant,
};

use super::{
    cache::{self, CachedDocument, DocumentCache, VerifiedLog, VerifiedLogs},
    did_log::{DidLog, DidLogError, VerifiedDocument},
    document,
    error::DidError,
    in_flight_requests::{InFlightRequests, JoinedRequest},
    syntax::{DidMethod, ResolvableDid},
    version_memory::VersionMemory,
};
use crate::{
    excerpt::excerpt,
    fetch::{BoundedFetcher, FetchError, FetchLimits, FetchedBody, HttpClientError},
    host_policy::HostPolicy,
};

/// Documents and logs that are verified at the same time. Verification is CPU work of half a millisecond per log entry: more at the
/// same time would not be faster, and would hold their memory longer.
const MAX_CONCURRENT_VERIFICATIONS: usize = 4;

/// Limits of a log that exceeds those of other documents.
pub const LARGE_LOG_LIMITS: FetchLimits = FetchLimits {
    max_bytes: 16 * 1024 * 1024,
    max_json_memory: 256 * 1024 * 1024,
    timeout: Duration::from_secs(15),
    max_redirects: 3,
};

/// Resolves DIDs of the methods `did:web` and `did:webvh`. Cheap to clone.
#[derive(Clone)]
pub struct DidResolver(pub(super) Arc<DidResolverInner>);

pub(super) struct DidResolverInner {
    fetcher: BoundedFetcher,
    pub(super) document_cache: DocumentCache,
    verified_logs: VerifiedLogs,
    pub(super) in_flight_requests: InFlightRequests,
    verification_permits: Semaphore,
    versions: Option<VersionMemory>,
    /// One large log at a time: its text and its entries stay in memory until it is verified.
    large_log_permit: Semaphore,
}

impl std::fmt::Debug for DidResolver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("DidResolver").field("policy", &self.policy()).finish_non_exhaustive()
    }
}

impl DidResolver {
    /// Makes a resolver that contacts hosts under `policy`.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn new(policy: HostPolicy) -> Result<Self, HttpClientError> {
        Ok(Self::with_fetcher(BoundedFetcher::new(policy, FetchLimits::default())?))
    }

    /// Makes a resolver that remembers the versions of logs, and refuses older ones.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn with_versions(policy: HostPolicy, versions: VersionMemory) -> Result<Self, HttpClientError> {
        Ok(Self::build(BoundedFetcher::new(policy, FetchLimits::default())?, Some(versions)))
    }

    /// Makes a resolver with a given fetcher.
    pub fn with_fetcher(fetcher: BoundedFetcher) -> Self {
        Self::build(fetcher, None)
    }

    fn build(fetcher: BoundedFetcher, versions: Option<VersionMemory>) -> Self {
        Self(Arc::new(DidResolverInner {
            versions,
            fetcher,
            document_cache: cache::new_document_cache(),
            verified_logs: cache::new_verified_logs(),
            in_flight_requests: InFlightRequests::default(),
            verification_permits: Semaphore::new(MAX_CONCURRENT_VERIFICATIONS),
            large_log_permit: Semaphore::new(1),
        }))
    }

    /// Returns the policy for hosts.
    pub fn policy(&self) -> HostPolicy {
        self.0.fetcher.policy()
    }

    /// Returns the DID's document from the cache or from its server. The controller of the DID, or else the server, limits its age.
    ///
    /// # Errors
    /// Every [`DidError`].
    pub async fn resolve(&self, did: &str) -> Result<Arc<Value>, DidError> {
        let did = self.parse_did(did)?;
        if let Some(cached) = self.0.document_cache.get(&*did.text).await {
            metrics::record_did_resolution(did.method.label(), "cached", None);
            return Ok(cached.document);
        }
        self.join_or_start(&did, None)?.resolution.await
    }

    /// Returns the DID's document from the cache; nothing is asked for.
    pub async fn cached(&self, did: &str) -> Option<Arc<Value>> {
        let did = ResolvableDid::parse(did, self.policy()).ok()?;
        self.0.document_cache.get(&*did.text).await.map(|cached| cached.document)
    }

    /// Returns the DID's document as its server has it now: every request to the server starts after this call.
    ///
    /// # Errors
    /// Every [`DidError`].
    pub async fn resolve_fresh(&self, did: &str) -> Result<Arc<Value>, DidError> {
        let did = self.parse_did(did)?;
        let last_number = self.0.in_flight_requests.last_number();
        loop {
            let JoinedRequest { is_fresh_enough, resolution } = self.join_or_start(&did, Some(last_number))?;
            let outcome = resolution.await;
            if is_fresh_enough {
                return outcome;
            }
        }
    }

    fn parse_did(&self, did: &str) -> Result<ResolvableDid, DidError> {
        ResolvableDid::parse(did, self.policy())
            .inspect_err(|error| metrics::record_did_resolution("other", error.code(), None))
    }

    /// Fetches and verifies the document, and caches it when that is allowed.
    pub(super) async fn fetch_and_verify(&self, did: &ResolvableDid) -> Result<Arc<Value>, DidError> {
        let (span, started) = (tracing::Span::current(), Instant::now());
        let outcome = match &did.method {
            DidMethod::Web => self.resolve_web(did).await,
            DidMethod::WebVh { scid } => self.resolve_webvh(did, scid).await,
        };
        let result = outcome.as_ref().map(|_| ()).map_err(DidError::code);
        trace::record_resolution(&span, result);
        metrics::record_did_resolution(did.method.label(), result.err().unwrap_or("ok"), Some(started.elapsed()));
        let key: Arc<str> = did.text.as_str().into();
        match outcome {
            Ok((document, Some(cacheable))) => {
                self.0.document_cache.insert(key, cacheable).await;
                Ok(document)
            }
            // The cached document is older than this one.
            Ok((document, None)) => {
                self.0.document_cache.invalidate(&key).await;
                Ok(document)
            }
            Err(error) => {
                self.0.document_cache.invalidate(&key).await;
                Err(error)
            }
        }
    }

    async fn resolve_web(&self, did: &ResolvableDid) -> Result<(Arc<Value>, Option<CachedDocument>), DidError> {
        let FetchedBody { url, body, freshness } = self.fetch_file(did, "did.json").await?;
        let text = did.text.clone();
        let read = self.run_verification(move || {
            let document = document::parse_json(&body).map_err(DidLogError::InvalidDocument)?;
            document::check_document(&document, &text).map_err(DidLogError::InvalidDocument)?;
            Ok(Arc::new(document))
        });
        let document = read.await.map_err(|error| to_did_error(did, excerpt(url.as_str()), error))?;
        Ok((Arc::clone(&document), CachedDocument::new(document, None, freshness)))
    }

    async fn resolve_webvh(
        &self,
        did: &ResolvableDid,
        scid: &str,
    ) -> Result<(Arc<Value>, Option<CachedDocument>), DidError> {
        let (FetchedBody { url, body, freshness }, _large_log) = self.fetch_log(did).await?;
        let url = excerpt(url.as_str());
        // A log that was verified before proves the same document, with the same proofs of its witnesses.
        let verified = self.0.verified_logs.get(&*did.text).await.filter(|verified| verified.log == body);
        let mut witnesses: Option<Bytes> = None;
        if let Some(verified) = verified {
            if verified.witnesses.is_some() {
                witnesses = Some(self.fetch_file(did, "did-witness.json").await?.body);
            }
            if witnesses == verified.witnesses {
                self.accept_versions(did, &url, &verified.version_ids)?;
                let document = verified.document;
                return Ok((Arc::clone(&document), CachedDocument::new(document, verified.ttl, freshness)));
            }
        }
        let (log_body, (text, scid)) = (body.clone(), (did.text.clone(), scid.to_owned()));
        let log = self.run_verification(move || DidLog::parse(&text, &scid, &body)).await;
        let log = log.map_err(|error| to_did_error(did, url.clone(), error))?;
        if log.needs_witnesses() && witnesses.is_none() {
            witnesses = Some(self.fetch_file(did, "did-witness.json").await?.body);
        }
        let proofs = witnesses.clone();
        let version_ids: Arc<[String]> = log.version_ids().into();
        let verified = self.run_verification(move || log.verify(proofs.as_deref())).await;
        // The entry that ends a DID is a version too: no older log counts after it.
        if matches!(verified, Ok(_) | Err(DidLogError::Deactivated)) {
            self.accept_versions(did, &url, &version_ids)?;
        }
        let VerifiedDocument { document, ttl } = verified.map_err(|error| to_did_error(did, url, error))?;
        let document = Arc::new(document);
        let verified = VerifiedLog { log: log_body, version_ids, witnesses, document: Arc::clone(&document), ttl };
        self.0.verified_logs.insert(did.text.as_str().into(), verified).await;
        Ok((Arc::clone(&document), CachedDocument::new(document, ttl, freshness)))
    }

    /// Refuses a verified log that is older than one that was seen, or another history.
    fn accept_versions(&self, did: &ResolvableDid, url: &str, version_ids: &[String]) -> Result<(), DidError> {
        let Some(versions) = &self.0.versions else { return Ok(()) };
        let rolled_back = |reason| DidError::RolledBack { did: excerpt(&did.text), url: url.to_owned(), reason };
        versions.accept(&did.text, version_ids).map_err(rolled_back)
    }

    /// Fetches the log of a `did:webvh` as its server has it now, and verifies nothing.
    ///
    /// # Errors
    /// When the DID has no log, or its server does not give it.
    pub async fn fetch_published_log(&self, did: &str) -> Result<Bytes, DidError> {
        let did = self.parse_did(did)?;
        self.fetch_log(&did).await.map(|(fetched, _)| fetched.body)
    }

    /// Fetches a log. One that is too large for other documents is fetched again, with a permit that is held until it is verified.
    async fn fetch_log(&self, did: &ResolvableDid) -> Result<(FetchedBody, Option<SemaphorePermit<'_>>), DidError> {
        match self.fetch_file(did, "did.jsonl").await {
            Err(DidError::FetchFailed {
                error: FetchError::BodyTooLong { .. } | FetchError::JsonTooLarge { .. },
                ..
            }) => {
                let permit = self.0.large_log_permit.acquire().await.ok();
                let fetched = self.0.fetcher.get_within(&did.file_url("did.jsonl"), &LARGE_LOG_LIMITS).await;
                Ok((fetched.map_err(|error| DidError::FetchFailed { did: excerpt(&did.text), error })?, permit))
            }
            fetched => Ok((fetched?, None)),
        }
    }

    async fn fetch_file(&self, did: &ResolvableDid, file: &str) -> Result<FetchedBody, DidError> {
        let fetched = self.0.fetcher.get(&did.file_url(file)).await;
        fetched.map_err(|error| DidError::FetchFailed { did: excerpt(&did.text), error })
    }

    /// Runs CPU work on an untrusted document in a blocking thread.
    async fn run_verification<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, DidLogError> + Send + 'static,
    ) -> Result<T, DidLogError> {
        let stopped = || DidLogError::InvalidLog("its verification was stopped".to_owned());
        let _permit = self.0.verification_permits.acquire().await.map_err(|_| stopped())?;
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(stopped()))
    }
}

/// Checks a document that its controller is about to publish, as a resolver does: its id, and its memory.
///
/// # Errors
/// With the violated rule.
pub fn check_own_document(document: &Value, did: &str) -> Result<(), String> {
    document::check_document(document, did)
}

/// Verifies a log that its controller is about to publish, as a resolver does: returns the document that it proves, with the services
/// that the method adds. The work takes about half a millisecond per entry.
///
/// # Errors
/// [`DidError`] with the violated rule.
pub fn verify_own_log(did: &str, log: &[u8]) -> Result<Value, DidError> {
    let did = ResolvableDid::parse(did, HostPolicy::AllowPrivate)?;
    let verified = match &did.method {
        DidMethod::WebVh { scid } => DidLog::parse(&did.text, scid, log).and_then(|log| log.verify(None)),
        DidMethod::Web => Err(DidLogError::InvalidLog("did:web has no log".to_owned())),
    };
    verified.map(|verified| verified.document).map_err(|error| to_did_error(&did, "its log".to_owned(), error))
}

fn to_did_error(did: &ResolvableDid, url: String, error: DidLogError) -> DidError {
    let did = excerpt(&did.text);
    match error {
        DidLogError::TooLong(reason) => DidError::LogTooLong { did, url, reason },
        DidLogError::ScidMismatch(reason) => DidError::ScidMismatch { did, url, reason },
        DidLogError::InvalidLog(reason) => DidError::InvalidLog { did, url, reason },
        DidLogError::InvalidWitness(reason) => DidError::InvalidWitness { did, url, reason },
        DidLogError::InvalidDocument(reason) => DidError::InvalidDocument { did, url, reason },
        DidLogError::Deactivated => DidError::Deactivated { did, url },
    }
}
