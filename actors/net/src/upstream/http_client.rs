//! The HTTP client of one upstream.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method};
use svc_otel::{metrics, trace};
use svc_wire::error_envelope::truncate_body;
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};
use tracing::Instrument;

use super::{
    circuit_breaker::CircuitBreaker,
    upstream_error::{JsonDocument, UpstreamError, UpstreamKind, UpstreamResponse},
};
use crate::host_policy::HostPolicy;

/// Client of one upstream server. Cheap to clone.
#[derive(Clone)]
pub struct HttpUpstream(Arc<HttpUpstreamInner>);

struct HttpUpstreamInner {
    kind: UpstreamKind,
    origin: String,
    client: reqwest::Client,
    permits: Semaphore,
    limit: usize,
    breaker: Mutex<CircuitBreaker>,
    /// Notified when a request succeeds after one that failed.
    recovery: Arc<Notify>,
    /// The reason for which the server is not used, although it answers.
    left_out: Mutex<Option<String>>,
}

/// Concurrent requests to one upstream.
const MAX_CONCURRENT_REQUESTS: usize = 64;
/// Time that a request waits for one of those places.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of the connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Timeout of the whole request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest URL; HTTP libraries refuse longer ones.
const MAX_URL_BYTES: usize = 60_000;

impl HttpUpstream {
    /// Makes a client of the configured server at `origin` (`http://host:port`).
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn new(kind: UpstreamKind, origin: &str) -> Result<Self, UpstreamError> {
        Self::with_recovery_signal(kind, origin, Arc::default())
    }

    /// Makes a client of the configured server at `origin` that notifies `recovery` when a request succeeds after one that failed.
    pub(super) fn with_recovery_signal(
        kind: UpstreamKind,
        origin: &str,
        recovery: Arc<Notify>,
    ) -> Result<Self, UpstreamError> {
        // A configured origin is trusted.
        Self::build(kind, origin, HostPolicy::AllowPrivate, recovery)
    }

    /// Makes a client of a server from an untrusted document.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn with_policy(kind: UpstreamKind, origin: &str, policy: HostPolicy) -> Result<Self, UpstreamError> {
        Self::build(kind, origin, policy, Arc::default())
    }

    fn build(
        kind: UpstreamKind,
        origin: &str,
        policy: HostPolicy,
        recovery: Arc<Notify>,
    ) -> Result<Self, UpstreamError> {
        let origin = origin.trim_end_matches('/').to_owned();
        let client =
            policy.client_builder().connect_timeout(CONNECT_TIMEOUT).timeout(REQUEST_TIMEOUT).build().map_err(
                |error| UpstreamError::Unreachable { kind, origin: origin.clone(), reason: error.to_string() },
            )?;
        Ok(Self(Arc::new(HttpUpstreamInner {
            kind,
            origin,
            client,
            permits: Semaphore::new(MAX_CONCURRENT_REQUESTS),
            limit: MAX_CONCURRENT_REQUESTS,
            breaker: Mutex::default(),
            recovery,
            left_out: Mutex::default(),
        })))
    }

    /// Returns the origin of the server.
    pub fn origin(&self) -> &str {
        &self.0.origin
    }

    /// Leaves the server out: until the reason is withdrawn, it counts as one that does not answer.
    pub fn leave_out(&self, reason: Option<String>) {
        *self.0.left_out.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }

    /// Returns the reason for which the server is left out.
    pub fn left_out(&self) -> Option<String> {
        self.0.left_out.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the kind of the server.
    pub fn kind(&self) -> UpstreamKind {
        self.0.kind
    }

    /// Sends a GET; `operation` is the bounded name of the request in spans.
    ///
    /// # Errors
    /// Every [`UpstreamError`].
    pub async fn get(
        &self,
        operation: &str,
        path_and_query: &str,
        headers: HeaderMap,
    ) -> Result<UpstreamResponse, UpstreamError> {
        self.request(Method::GET, operation, path_and_query, headers, None).await
    }

    /// Sends a request of any method, with an optional JSON body.
    ///
    /// # Errors
    /// Every [`UpstreamError`].
    pub async fn send(
        &self,
        method: Method,
        operation: &str,
        path_and_query: &str,
        mut headers: HeaderMap,
        body: Option<&serde_json::Value>,
    ) -> Result<UpstreamResponse, UpstreamError> {
        if body.is_some() {
            headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
        }
        self.request(method, operation, path_and_query, headers, body.map(ToString::to_string)).await
    }

    /// Sends a POST with a JSON body.
    ///
    /// # Errors
    /// Every [`UpstreamError`].
    pub async fn post(
        &self,
        operation: &str,
        path: &str,
        body: &serde_json::Value,
    ) -> Result<UpstreamResponse, UpstreamError> {
        self.send(Method::POST, operation, path, HeaderMap::new(), Some(body)).await
    }

    async fn request(
        &self,
        method: Method,
        operation: &str,
        path_and_query: &str,
        mut headers: HeaderMap,
        body: Option<String>,
    ) -> Result<UpstreamResponse, UpstreamError> {
        let inner = &self.0;
        if let Some(reason) = self.left_out() {
            let (kind, origin) = (inner.kind, inner.origin.clone());
            return Err(UpstreamError::Unreachable { kind, origin, reason: format!("it is left out: {reason}") });
        }
        let span = trace::upstream_span(inner.kind.as_str(), method.as_str(), operation);
        trace::inject_context(&span, &mut headers);
        let url = format!("{}{path_and_query}", inner.origin);
        if url.len() > MAX_URL_BYTES {
            // The request is at fault and not the server, so the breaker stays closed.
            return Err(
                self.protocol_error(format!("the URL of the request is longer than {MAX_URL_BYTES} bytes"), b"")
            );
        }
        let started = Instant::now();
        let mut request = inner.client.request(method, url).headers(headers);
        if let Some(body) = body {
            request = request.body(body);
        }
        let outcome = self.execute_guarded(request).instrument(span.clone()).await;
        let label = match &outcome {
            Ok(answer) => {
                trace::record_http_status(&span, answer.status.as_u16());
                "ok"
            }
            Err(error) => {
                let label = outcome_label(error);
                trace::record_error(&span, label);
                label
            }
        };
        metrics::record_upstream_request(inner.kind.as_str(), label, started.elapsed());
        outcome
    }

    async fn execute_guarded(&self, request: reqwest::RequestBuilder) -> Result<UpstreamResponse, UpstreamError> {
        let inner = &self.0;
        let unreachable =
            |reason: String| UpstreamError::Unreachable { kind: inner.kind, origin: inner.origin.clone(), reason };
        let permit = tokio::time::timeout(QUEUE_TIMEOUT, inner.permits.acquire()).await;
        let Ok(Ok(_permit)) = permit else {
            return Err(UpstreamError::Saturated { kind: inner.kind, limit: inner.limit });
        };
        if !self.with_breaker(|breaker| breaker.try_admit(Instant::now())) {
            return Err(UpstreamError::Paused { kind: inner.kind, origin: inner.origin.clone() });
        }
        let request = request.build().map_err(|error| self.protocol_error(innermost_cause(&error), b""))?;
        let received = async {
            let response =
                inner.client.execute(request).await.map_err(|error| BodyError::Broken(innermost_cause(&error)))?;
            let (status, headers) = (response.status(), response.headers().clone());
            read_body(response, inner.kind.max_body_bytes()).await.map(|body| (status, headers, body))
        }
        .await;
        match received {
            Ok((status, headers, body)) => {
                if self.with_breaker(CircuitBreaker::record_success) {
                    inner.recovery.notify_one();
                }
                if status.is_success() {
                    return Ok(UpstreamResponse { status, headers, body });
                }
                let body = truncate_body(&String::from_utf8_lossy(&body)).to_owned();
                Err(UpstreamError::Http { kind: inner.kind, status: status.as_u16(), body })
            }
            Err(BodyError::TooLong(limit)) => {
                // The server is there, and other answers of it may be shorter.
                self.with_breaker(CircuitBreaker::record_success);
                Err(self.protocol_error(format!("the answer is longer than {limit} bytes"), b""))
            }
            Err(BodyError::Broken(reason)) => {
                self.with_breaker(|breaker| breaker.record_failure(Instant::now()));
                Err(unreachable(reason))
            }
        }
    }

    fn with_breaker<R>(&self, change: impl FnOnce(&mut CircuitBreaker) -> R) -> R {
        change(&mut self.0.breaker.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes the error for an answer that violates the contract.
    pub fn protocol_error(&self, reason: impl Into<String>, body: &[u8]) -> UpstreamError {
        let body = truncate_body(&String::from_utf8_lossy(body)).to_owned();
        UpstreamError::Protocol { kind: self.0.kind, reason: reason.into(), body }
    }

    /// Parses a JSON answer and keeps its bytes.
    ///
    /// # Errors
    /// [`UpstreamError::Protocol`].
    pub fn parse_document(&self, answer: &UpstreamResponse) -> Result<JsonDocument, UpstreamError> {
        let value = self.parse_json(answer)?;
        // JSON that parses is UTF-8.
        Ok(JsonDocument { text: String::from_utf8_lossy(&answer.body).into_owned(), value })
    }

    /// Parses a JSON answer into a type.
    ///
    /// # Errors
    /// [`UpstreamError::Protocol`].
    pub fn parse_json<T: serde::de::DeserializeOwned>(&self, answer: &UpstreamResponse) -> Result<T, UpstreamError> {
        serde_json::from_slice(&answer.body).map_err(|error| self.protocol_error(error.to_string(), &answer.body))
    }
}

/// A body that was not received.
enum BodyError {
    /// It is longer than the limit, in bytes.
    TooLong(usize),
    /// There was no answer, or its end is missing.
    Broken(String),
}

async fn read_body(mut response: reqwest::Response, limit: usize) -> Result<Bytes, BodyError> {
    // Nothing of a body is read that announces too much.
    if response.content_length().is_some_and(|length| length > limit as u64) {
        return Err(BodyError::TooLong(limit));
    }
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| BodyError::Broken(innermost_cause(&error)))? {
        if body.len() + chunk.len() > limit {
            return Err(BodyError::TooLong(limit));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// Returns the innermost cause of an error: `Connection refused` is more helpful than `error sending request`.
pub(crate) fn innermost_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

fn outcome_label(error: &UpstreamError) -> &'static str {
    match error {
        UpstreamError::Unreachable { .. } | UpstreamError::Paused { .. } => "unreachable",
        UpstreamError::Http { .. } => "http_error",
        UpstreamError::Protocol { .. } => "protocol_error",
        UpstreamError::Saturated { .. } => "saturated",
    }
}
