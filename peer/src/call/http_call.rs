//! One HTTP request to an endpoint, and its bounded answer.

use http::{HeaderMap, Method, StatusCode, header};
use serde_json::Value;
use svc_net::host_policy::{HostError, HostPolicy};
use svc_otel::trace;
use tracing::Span;
use url::Url;

use super::{
    outcome::{CallFault, failed},
    proof::CallProof,
};
use crate::error::{PeerError, PeerFailure};

/// Code of an answer 404.
pub(super) const NOT_FOUND: &str = "NOT_FOUND";
/// Longest answer, in bytes.
const MAX_ANSWER_BYTES: usize = 4 * 1024 * 1024;
const UNSAFE_HINT: &str = "nothing was sent there; SVC_ALLOW_PRIVATE_HOSTS=true allows hosts of this network";

/// Sends requests to endpoints.
#[derive(Clone)]
pub(crate) struct HttpCaller {
    pub client: reqwest::Client,
    hosts: HostPolicy,
}

/// An answer with a status of success.
pub(crate) struct HttpAnswer {
    pub status: u16,
    pub content_type: String,
    pub body: Vec<u8>,
}

impl HttpCaller {
    pub fn new(hosts: HostPolicy) -> Result<Self, PeerError> {
        let client = hosts.client().map_err(|error| {
            failed(PeerFailure::Other, "NO_HTTP_CLIENT", format!("no HTTP client: {error}"), "this machine's settings")
        })?;
        Ok(Self { client, hosts })
    }

    /// A URL that may be called.
    pub fn check(&self, url: &str) -> Result<Url, PeerError> {
        self.hosts.check_url(url).map_err(|reason| {
            let message = format!("the URL {url:?} must not be called: {reason}");
            failed(PeerFailure::Unreachable, "UNSAFE_ENDPOINT", message, UNSAFE_HINT)
        })
    }

    /// Sends a request, with a proof or none, and reads the answer.
    pub async fn send(
        &self,
        (method, url): (Method, &Url),
        proof: &CallProof,
        headers: HeaderMap,
        body: Option<&Value>,
    ) -> Result<HttpAnswer, CallFault> {
        let mut headers = headers;
        if let Some((name, value)) = proof.header()? {
            headers.insert(name, value);
        }
        trace::inject_context(&Span::current(), &mut headers);
        let mut request = self.client.request(method, url.clone()).headers(headers);
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.map_err(|error| unreachable(url, &error))?;
        let status = response.status();
        if let Some(fault) = fault_of_status(status) {
            return Err(fault);
        }
        let content_type = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default().to_owned();
        let body = read_body(response, url).await?;
        Ok(HttpAnswer { status: status.as_u16(), content_type, body })
    }
}

/// The fault of an answer that is no success.
pub(super) fn fault_of_status(status: StatusCode) -> Option<CallFault> {
    let fault = |failure, code, message: String, hint| Some(CallFault::from(failed(failure, code, message, hint)));
    match status.as_u16() {
        200..=299 => None,
        401 => Some(CallFault::Unauthorized),
        300..=399 => {
            let message = format!("the endpoint redirects (HTTP status {status}), and no secret goes to another place");
            let hint = "the operator of the endpoint should publish the URL that answers";
            fault(PeerFailure::Unreachable, "REDIRECT_REFUSED", message, hint)
        }
        404 => {
            let message = "there is nothing at the URL of the endpoint (HTTP status 404)".to_owned();
            fault(PeerFailure::Refused, NOT_FOUND, message, "its document may name a wrong URL; its operator can say")
        }
        403 => {
            let message = "the endpoint does not allow the call (HTTP status 403)".to_owned();
            let hint = "ask for other scopes with --scopes, or ask its operator";
            fault(PeerFailure::Refused, "FORBIDDEN", message, hint)
        }
        429 | 502..=504 => {
            let message = format!("the endpoint does not serve the call now (HTTP status {status})");
            fault(PeerFailure::Unreachable, "ENDPOINT_UNAVAILABLE", message, "try again later")
        }
        _ => {
            let message = format!("the endpoint refuses the call (HTTP status {status})");
            let hint = "see the documentation of the endpoint for what it takes";
            fault(PeerFailure::Refused, "ENDPOINT_REFUSED", message, hint)
        }
    }
}

/// Reads a body within its limit.
async fn read_body(mut response: reqwest::Response, url: &Url) -> Result<Vec<u8>, CallFault> {
    let too_long = || {
        let message = format!("the answer of the endpoint is longer than {MAX_ANSWER_BYTES} bytes");
        CallFault::from(failed(PeerFailure::Refused, "ANSWER_TOO_LONG", message, "it was not read to its end"))
    };
    if response.content_length().is_some_and(|length| length > MAX_ANSWER_BYTES as u64) {
        return Err(too_long());
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| unreachable(url, &error))? {
        if body.len() + chunk.len() > MAX_ANSWER_BYTES {
            return Err(too_long());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The fault of a request without an answer.
pub(super) fn unreachable(url: &Url, error: &reqwest::Error) -> CallFault {
    let host = url.host_str().unwrap_or_default();
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let mut innermost = String::new();
    while let Some(inner) = cause {
        if let Some(reason) = inner.downcast_ref::<HostError>() {
            let message = format!("the host {host} must not be called: {reason}");
            return failed(PeerFailure::Unreachable, "UNSAFE_ENDPOINT", message, UNSAFE_HINT).into();
        }
        innermost = inner.to_string();
        cause = inner.source();
    }
    let message = format!("{host} does not answer: {innermost}");
    failed(PeerFailure::Unreachable, "ENDPOINT_UNREACHABLE", message, "try again later").into()
}

/// Whether two URLs have the same scheme, host and port.
pub(super) fn is_same_origin(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}
