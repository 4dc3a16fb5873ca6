//! The HTTP client behind every upstream.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, StatusCode};
use svc_otel::{metrics, trace};
use svc_wire::envelope::cut_body;
use tokio::{sync::Semaphore, time::Instant};
use tracing::Instrument;

use super::breaker::Breaker;
use crate::hosts::HostPolicy;

/// What an upstream is; a bounded label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A node's RPC.
    Rpc,
    /// An indexer.
    Indexer,
    /// A graph service.
    Graph,
    /// An agent's admin API.
    VsAgent,
}

impl Kind {
    /// The label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rpc => "rpc",
            Self::Indexer => "indexer",
            Self::Graph => "graph",
            Self::VsAgent => "vs-agent",
        }
    }

    /// Longest body that is taken: an agent is found through somebody else's document.
    fn max_body_bytes(self) -> usize {
        match self {
            Self::Rpc | Self::Indexer | Self::Graph => MAX_BODY_BYTES,
            Self::VsAgent => MAX_BODY_BYTES / 64,
        }
    }
}

/// An answer with status 2xx.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
}

/// A request to an upstream failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// No connection, or no answer in time.
    #[error("{} at {origin} is not reachable: {reason}", kind.as_str())]
    Unreachable {
        /// Which upstream.
        kind: Kind,
        /// Where it should be.
        origin: String,
        /// What the connection says.
        reason: String,
    },
    /// A status other than 2xx.
    #[error("{} answered with HTTP status {status}", kind.as_str())]
    Http {
        /// Which upstream.
        kind: Kind,
        /// Status.
        status: u16,
        /// Body, cut at 8 KiB.
        body: String,
    },
    /// The answer is not what the contract says.
    #[error("{} answered something else than its contract: {reason}", kind.as_str())]
    Protocol {
        /// Which upstream.
        kind: Kind,
        /// What is wrong.
        reason: String,
        /// Body, cut at 8 KiB.
        body: String,
    },
    /// Too many requests of ours are under way.
    #[error("{limit} requests to {} are already under way", kind.as_str())]
    Saturated {
        /// Which upstream.
        kind: Kind,
        /// The bound.
        limit: usize,
    },
}

/// One upstream server.
#[derive(Clone)]
pub struct Upstream(Arc<Inner>);

struct Inner {
    kind: Kind,
    origin: String,
    client: reqwest::Client,
    permits: Semaphore,
    limit: usize,
    breaker: Mutex<Breaker>,
}

/// Requests under way at once to one upstream.
const CONCURRENCY: usize = 64;
/// How long a request may wait for one of those places.
const QUEUE_PATIENCE: Duration = Duration::from_secs(5);
/// Time to connect, and time for a whole request.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest URL; what is longer no HTTP library takes.
const MAX_URL_BYTES: usize = 60_000;
/// Longest body taken from an upstream: descriptors of a live node are the largest, at a few MiB.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

impl Upstream {
    /// A client for the server at `origin` (`http://host:port`, without a trailing slash).
    pub fn new(kind: Kind, origin: &str) -> Result<Self, UpstreamError> {
        // Somebody configured it, so it may be anywhere.
        Self::under(kind, origin, HostPolicy::AllowPrivate)
    }

    /// A client for a server that somebody else's document names.
    pub fn under(kind: Kind, origin: &str, policy: HostPolicy) -> Result<Self, UpstreamError> {
        let origin = origin.trim_end_matches('/').to_owned();
        let client =
            policy.client().connect_timeout(CONNECT_TIMEOUT).timeout(REQUEST_TIMEOUT).build().map_err(|error| {
                UpstreamError::Unreachable { kind, origin: origin.clone(), reason: error.to_string() }
            })?;
        Ok(Self(Arc::new(Inner {
            kind,
            origin,
            client,
            permits: Semaphore::new(CONCURRENCY),
            limit: CONCURRENCY,
            breaker: Mutex::default(),
        })))
    }

    /// Where the server is.
    pub fn origin(&self) -> &str {
        &self.0.origin
    }

    /// What the server is.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// GET `path_and_query`; `operation` is its bounded name for spans.
    pub async fn get(
        &self,
        operation: &str,
        path_and_query: &str,
        headers: HeaderMap,
    ) -> Result<Answer, UpstreamError> {
        self.request(Method::GET, operation, path_and_query, headers, None).await
    }

    /// Any other request, with a JSON body if there is one.
    pub async fn send(
        &self,
        method: Method,
        operation: &str,
        path_and_query: &str,
        mut headers: HeaderMap,
        body: Option<&serde_json::Value>,
    ) -> Result<Answer, UpstreamError> {
        if body.is_some() {
            headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
        }
        self.request(method, operation, path_and_query, headers, body.map(ToString::to_string)).await
    }

    /// POST of a JSON body.
    pub async fn post(&self, operation: &str, path: &str, body: &serde_json::Value) -> Result<Answer, UpstreamError> {
        self.send(Method::POST, operation, path, HeaderMap::new(), Some(body)).await
    }

    async fn request(
        &self,
        method: Method,
        operation: &str,
        path_and_query: &str,
        mut headers: HeaderMap,
        body: Option<String>,
    ) -> Result<Answer, UpstreamError> {
        let inner = &self.0;
        let span = trace::upstream_span(inner.kind.as_str(), method.as_str(), operation);
        trace::inject(&span, &mut headers);
        let url = format!("{}{path_and_query}", inner.origin);
        if url.len() > MAX_URL_BYTES {
            // The fault of the question, not of the server: it must not open the breaker.
            return Err(self.protocol_error(format!("the question is longer than {MAX_URL_BYTES} bytes"), b""));
        }
        let started = Instant::now();
        let mut request = inner.client.request(method, url).headers(headers);
        if let Some(body) = body {
            request = request.body(body);
        }
        let outcome = self.guarded(request).instrument(span.clone()).await;
        let label = match &outcome {
            Ok(answer) => {
                trace::record_status(&span, answer.status.as_u16());
                "ok"
            }
            Err(error) => {
                let label = outcome_label(error);
                trace::record_error(&span, label);
                label
            }
        };
        metrics::upstream_request(inner.kind.as_str(), label, started.elapsed());
        outcome
    }

    async fn guarded(&self, request: reqwest::RequestBuilder) -> Result<Answer, UpstreamError> {
        let inner = &self.0;
        let unreachable =
            |reason: String| UpstreamError::Unreachable { kind: inner.kind, origin: inner.origin.clone(), reason };
        let permit = tokio::time::timeout(QUEUE_PATIENCE, inner.permits.acquire()).await;
        let Ok(Ok(_permit)) = permit else {
            return Err(UpstreamError::Saturated { kind: inner.kind, limit: inner.limit });
        };
        if !self.breaker(|breaker| breaker.admits(Instant::now())) {
            return Err(unreachable("the last requests all failed, trying again in a moment".to_owned()));
        }
        let request = request.build().map_err(|error| self.protocol_error(innermost(&error), b""))?;
        let received = async {
            let response = inner.client.execute(request).await.map_err(|error| innermost(&error))?;
            let (status, headers) = (response.status(), response.headers().clone());
            read_body(response, inner.kind.max_body_bytes()).await.map(|body| (status, headers, body))
        }
        .await;
        match received {
            Ok((status, headers, body)) => {
                self.breaker(Breaker::succeeded);
                if status.is_success() {
                    return Ok(Answer { status, headers, body });
                }
                let body = cut_body(&String::from_utf8_lossy(&body)).to_owned();
                Err(UpstreamError::Http { kind: inner.kind, status: status.as_u16(), body })
            }
            Err(reason) => {
                self.breaker(|breaker| breaker.failed(Instant::now()));
                Err(unreachable(reason))
            }
        }
    }

    fn breaker<R>(&self, change: impl FnOnce(&mut Breaker) -> R) -> R {
        change(&mut self.0.breaker.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A complaint about a body that is not what the contract says.
    pub fn protocol_error(&self, reason: impl Into<String>, body: &[u8]) -> UpstreamError {
        let body = cut_body(&String::from_utf8_lossy(body)).to_owned();
        UpstreamError::Protocol { kind: self.0.kind, reason: reason.into(), body }
    }

    /// Parses a JSON answer.
    pub fn json<T: serde::de::DeserializeOwned>(&self, answer: &Answer) -> Result<T, UpstreamError> {
        serde_json::from_slice(&answer.body).map_err(|error| self.protocol_error(error.to_string(), &answer.body))
    }
}

async fn read_body(mut response: reqwest::Response, limit: usize) -> Result<Bytes, String> {
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| innermost(&error))? {
        if body.len() + chunk.len() > limit {
            return Err(format!("the answer is longer than {limit} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// The innermost cause: `Connection refused` says more than `error sending request`.
pub(crate) fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

fn outcome_label(error: &UpstreamError) -> &'static str {
    match error {
        UpstreamError::Unreachable { .. } => "unreachable",
        UpstreamError::Http { .. } => "http_error",
        UpstreamError::Protocol { .. } => "protocol_error",
        UpstreamError::Saturated { .. } => "saturated",
    }
}
