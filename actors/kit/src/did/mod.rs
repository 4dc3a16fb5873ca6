//! DID Documents, fetched, verified and kept for a while.

mod cache;
mod document;
mod error;
mod flights;
#[cfg(test)]
mod forge;
mod log;
mod syntax;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use svc_otel::{metrics, trace};
use tokio::{sync::Semaphore, time::Instant};

pub use document::service_origin;
pub use error::DidError;

pub use crate::fetch::ClientError as DidClientError;
use crate::{
    fetch::{Fetched, Fetcher, Limits, shown},
    hosts::HostPolicy,
};
use cache::{Documents, Kept};
use flights::Flights;
use log::{Log, LogError, Verified};
use syntax::{Did, Method};

/// Methods that can be resolved.
pub const METHODS: [&str; 2] = ["did:web", "did:webvh"];

/// Documents and logs read and verified at once: it is work for a processor, half a millisecond for each entry of a log; more at once
/// would only take turns and hold their memory meanwhile.
const VERIFIERS: usize = 4;

/// Resolves DIDs. Cheap to clone.
#[derive(Clone)]
pub struct DidResolver(Arc<Inner>);

struct Inner {
    fetcher: Fetcher,
    documents: Documents,
    flights: Flights,
    verifiers: Semaphore,
}

impl std::fmt::Debug for DidResolver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("DidResolver").field("policy", &self.policy()).finish_non_exhaustive()
    }
}

impl DidResolver {
    /// A resolver that contacts hosts under `policy`.
    pub fn new(policy: HostPolicy) -> Result<Self, DidClientError> {
        Ok(Self::with(Fetcher::new(policy, Limits::default())?))
    }

    /// A resolver that fetches with a given fetcher.
    pub fn with(fetcher: Fetcher) -> Self {
        let (documents, flights) = (cache::documents(), Flights::default());
        Self(Arc::new(Inner { fetcher, documents, flights, verifiers: Semaphore::new(VERIFIERS) }))
    }

    /// Hosts it may contact.
    pub fn policy(&self) -> HostPolicy {
        self.0.fetcher.policy()
    }

    /// The DID's document, at most as old as its controller, or else its server, allows.
    pub async fn resolve(&self, did: &str) -> Result<Arc<Value>, DidError> {
        let did = self.read(did)?;
        if let Some(kept) = self.0.documents.get(&*did.text).await {
            metrics::did_resolved(did.method.label(), "cached", None);
            return Ok(kept.document);
        }
        self.board(&did, None)?.1.await
    }

    /// The DID's document as it is now: all of it is fetched after this call.
    pub async fn resolve_fresh(&self, did: &str) -> Result<Arc<Value>, DidError> {
        let did = self.read(did)?;
        let asked = self.0.flights.now();
        loop {
            let (serves, outcome) = self.board(&did, Some(asked))?;
            let outcome = outcome.await;
            if serves {
                return outcome;
            }
        }
    }

    fn read(&self, did: &str) -> Result<Did, DidError> {
        Did::parse(did, self.policy()).inspect_err(|error| metrics::did_resolved("other", error.code(), None))
    }

    /// Fetches and verifies, and leaves in the cache what may be kept.
    async fn load(&self, did: &Did) -> Result<Arc<Value>, DidError> {
        let (span, started) = (tracing::Span::current(), Instant::now());
        let outcome = match &did.method {
            Method::Web => self.web(did).await,
            Method::WebVh { scid } => self.webvh(did, scid).await,
        };
        let told = outcome.as_ref().map(|_| ()).map_err(DidError::code);
        trace::record_resolution(&span, told);
        metrics::did_resolved(did.method.label(), told.err().unwrap_or("ok"), Some(started.elapsed()));
        let key: Arc<str> = did.text.as_str().into();
        match outcome {
            Ok((document, Some(kept))) => {
                self.0.documents.insert(key, kept).await;
                Ok(document)
            }
            // What was kept is not what stands there now.
            Ok((document, None)) => {
                self.0.documents.invalidate(&key).await;
                Ok(document)
            }
            Err(error) => {
                self.0.documents.invalidate(&key).await;
                Err(error)
            }
        }
    }

    async fn web(&self, did: &Did) -> Result<(Arc<Value>, Option<Kept>), DidError> {
        let Fetched { url, body, freshness } = self.fetch(did, "did.json").await?;
        let text = did.text.clone();
        let read = self.verifier(move || {
            let document = document::parse(&body).map_err(LogError::Document)?;
            document::is_of(&document, &text).map_err(LogError::Document)?;
            Ok(Arc::new(document))
        });
        let document = read.await.map_err(|error| refused(did, shown(url.as_str()), error))?;
        Ok((Arc::clone(&document), Kept::new(document, None, freshness)))
    }

    async fn webvh(&self, did: &Did, scid: &str) -> Result<(Arc<Value>, Option<Kept>), DidError> {
        let Fetched { url, body, freshness } = self.fetch(did, "did.jsonl").await?;
        let url = shown(url.as_str());
        let (text, scid) = (did.text.clone(), scid.to_owned());
        let log = self.verifier(move || Log::read(&text, &scid, &body)).await;
        let log = log.map_err(|error| refused(did, url.clone(), error))?;
        let witnesses: Option<Bytes> = match log.needs_witnesses() {
            true => Some(self.fetch(did, "did-witness.json").await?.body),
            false => None,
        };
        let verified = self.verifier(move || log.verify(witnesses.as_deref())).await;
        let Verified { document, ttl } = verified.map_err(|error| refused(did, url, error))?;
        let document = Arc::new(document);
        Ok((Arc::clone(&document), Kept::new(document, ttl, freshness)))
    }

    async fn fetch(&self, did: &Did, file: &str) -> Result<Fetched, DidError> {
        let fetched = self.0.fetcher.get(&did.file(file)).await;
        fetched.map_err(|error| DidError::Fetch { did: shown(&did.text), error })
    }

    /// Work on what somebody else has written, which may take a processor for a while.
    async fn verifier<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, LogError> {
        let stopped = || LogError::Invalid("the verifier gave up on it".to_owned());
        let _permit = self.0.verifiers.acquire().await.map_err(|_| stopped())?;
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(stopped()))
    }
}

fn refused(did: &Did, url: String, error: LogError) -> DidError {
    let did = shown(&did.text);
    match error {
        LogError::TooLong(reason) => DidError::LogTooLong { did, url, reason },
        LogError::Scid(reason) => DidError::Scid { did, url, reason },
        LogError::Invalid(reason) => DidError::Log { did, url, reason },
        LogError::Witness(reason) => DidError::Witness { did, url, reason },
        LogError::Document(reason) => DidError::Document { did, url, reason },
        LogError::Deactivated => DidError::Deactivated { did, url },
    }
}
