//! The HTTP surface: `/mcp` behind the bearer token, `/healthz` and `/metrics`. Requests that the library would answer wrongly or
//! not at all are answered here.

use std::{
    borrow::Cow,
    net::{IpAddr, SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use subtle::ConstantTimeEq;
use svc_wire::secret::SecretString;
use tokio::task::JoinHandle;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tower_http::catch_panic::CatchPanicLayer;

use super::{
    handler::McpSession,
    server::ToolServer,
    session::{BoundedSessionManager, SessionLimits},
    startup::ServerSlot,
};
use crate::{
    listener::{ListenerConfig, serve},
    status::{HealthStatus, health_response},
};

/// Longest request body, in bytes.
const MAX_BODY_BYTES: usize = 1024 * 1024;
/// Origins of web pages that may call: pages on this machine.
const LOOPBACK_ORIGINS: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];
/// Time after which a client may retry to open a session, in seconds.
const RETRY_AFTER_SECONDS: &str = "30";

/// The configuration of the listener.
pub struct HttpServerConfig {
    /// Token that clients present.
    pub bearer_token: SecretString,
    /// Host names that clients may use, in addition to the loopback names and the bound address.
    pub allowed_hosts: Vec<String>,
    /// Limits of the sessions.
    pub sessions: SessionLimits,
    /// Limits and encryption of the listener.
    pub listener: ListenerConfig,
}

/// The listener cannot serve.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve HTTP on {address}: {cause}")]
pub struct HttpServerError {
    /// Address of the listener.
    pub address: SocketAddr,
    /// The error of the operating system.
    pub cause: std::io::Error,
}

/// A running HTTP server.
pub struct HttpServer {
    /// Address of the listener.
    pub address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl HttpServer {
    /// Serves a tool server on a bound listener. Fails when the listener cannot be used.
    pub fn start(
        listener: TcpListener,
        server: Arc<ToolServer>,
        config: HttpServerConfig,
    ) -> Result<Self, HttpServerError> {
        let unbound = SocketAddr::from(([0, 0, 0, 0], 0));
        let address = listener.local_addr().map_err(|cause| HttpServerError { address: unbound, cause })?;
        let failed = |cause| HttpServerError { address, cause };
        let stop = CancellationToken::new();
        let front = config.listener.clone();
        let router = router(server, config, address.ip(), &stop);
        let task = serve("mcp", listener, router, &front, stop.clone()).map_err(failed)?;
        Ok(Self { address, stop, task })
    }

    /// Accepts no new connection, waits at most `timeout` for running requests, and aborts the rest.
    pub async fn stop(self, timeout: Duration) {
        self.stop.cancel();
        let abort = self.task.abort_handle();
        if tokio::time::timeout(timeout, self.task).await.is_err() {
            abort.abort();
        }
    }
}

fn router(server: Arc<ToolServer>, config: HttpServerConfig, bound: IpAddr, stop: &CancellationToken) -> Router {
    let mut hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "[::1]".to_owned(), "::1".to_owned()];
    if !bound.is_unspecified() {
        hosts.push(bound.to_string());
    }
    hosts.extend(config.allowed_hosts.iter().cloned());
    let sessions = Arc::new(BoundedSessionManager::new(config.sessions));
    let settings = StreamableHttpServerConfig::default()
        .with_allowed_hosts(hosts)
        .with_allowed_origins(LOOPBACK_ORIGINS)
        .enforce_origin_validation()
        .with_max_request_body_bytes(MAX_BODY_BYTES)
        // The library would begin each stream with an event without data. The session manager sends it to the clients that read it.
        .with_sse_retry(None)
        .with_cancellation_token(stop.child_token());
    let slot = ServerSlot::ready(Arc::clone(&server));
    let service =
        StreamableHttpService::new(move || Ok(McpSession::new(slot.clone())), Arc::clone(&sessions), settings);
    let guard = BearerGuard { bearer: Arc::new(config.bearer_token), server: Arc::clone(&server) };
    let mcp = Router::new().route_service("/mcp", service);
    #[cfg(feature = "conformance")]
    let mcp = mcp.layer(middleware::from_fn(super::conformance::with_stream_cut));
    let admission = HttpAdmission { idle_cleanup: Arc::new(sessions.spawn_idle_cleanup()), sessions };
    let mcp = mcp
        .layer(middleware::from_fn_with_state(admission, admit_request))
        .layer(middleware::from_fn_with_state(guard, require_bearer_token));
    let status = Router::new().route("/healthz", get(healthz)).with_state(server);
    config.listener.with_metrics(status).merge(mcp).layer(CatchPanicLayer::new())
}

async fn healthz(State(server): State<Arc<ToolServer>>) -> Response {
    let operator = server.operator();
    health_response(match (server.is_draining(), operator.is_healthy()) {
        (true, _) => HealthStatus::Draining,
        (false, true) if operator.is_degraded() => HealthStatus::Degraded,
        (false, true) => HealthStatus::Ok,
        (false, false) => HealthStatus::Restarting,
    })
}

fn json_response(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// The token, and the server whose audit counts the requests without it.
#[derive(Clone)]
struct BearerGuard {
    bearer: Arc<SecretString>,
    server: Arc<ToolServer>,
}

/// Refuses a request without the token before any MCP handling.
async fn require_bearer_token(State(guard): State<BearerGuard>, request: Request, next: Next) -> Response {
    if has_bearer_token(request.headers(), &guard.bearer) {
        return next.run(request).await;
    }
    guard.server.operator().audit().count_unauthorized();
    let body = json!({"error": "unauthorized", "message": "a bearer token is required"});
    let mut response = json_response(StatusCode::UNAUTHORIZED, &body);
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

/// Whether the request has exactly one authorization header, with the bearer token. Compares in constant time.
fn has_bearer_token(headers: &HeaderMap, bearer: &SecretString) -> bool {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let Some((scheme, token)) = value.to_str().ok().and_then(|text| text.split_once(' ')) else { return false };
    scheme.eq_ignore_ascii_case("bearer")
        && bool::from(token.trim().as_bytes().ct_eq(bearer.expose_secret().as_bytes()))
}

/// The state of the checks that precede the library.
#[derive(Clone)]
struct HttpAdmission {
    sessions: Arc<BoundedSessionManager>,
    /// Ends idle sessions for as long as requests are served.
    #[expect(dead_code, reason = "held, not read")]
    idle_cleanup: Arc<AbortOnDropHandle<()>>,
}

/// Answers the requests that the library would answer wrongly or not at all: bodies that are not a JSON-RPC message, sessions
/// beyond the limit, unknown events, and request ids that are in use.
async fn admit_request(State(admission): State<HttpAdmission>, request: Request, next: Next) -> Response {
    if request.method() == Method::DELETE {
        let mut response = next.run(request).await;
        // The session has ended when the library answers. Clients read its 202 as a failure.
        if response.status() == StatusCode::ACCEPTED {
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        return response;
    }
    if request.method() == Method::GET
        && let Some(last) = request.headers().get("last-event-id").and_then(|value| value.to_str().ok())
        && !admission.sessions.has_event(last)
    {
        // The library would answer with a stream that ends at once, and clients would retry forever.
        let reason = "this event is not known any more: the server was restarted, or it is too long ago; svc://own/transactions \
                      has the outcome of each write";
        return json_response(StatusCode::NOT_FOUND, &rpc_error(-32001, reason));
    }
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let bytes = match to_bytes(body, MAX_BODY_BYTES).await {
        Ok(bytes) => bytes,
        Err(error) if is_length_limit_error(&error) => {
            return json_response(
                StatusCode::PAYLOAD_TOO_LARGE,
                &rpc_error(-32600, format!("the body is longer than {MAX_BODY_BYTES} bytes")),
            );
        }
        Err(error) => {
            return json_response(StatusCode::BAD_REQUEST, &rpc_error(-32700, format!("the body broke off: {error}")));
        }
    };
    let message = match serde_json::from_slice::<JsonRpcHead>(&bytes) {
        Ok(message) => message,
        Err(error) => {
            let (code, reason) = match serde_json::from_slice::<Value>(&bytes) {
                Ok(Value::Array(_)) => (-32600, "batches are not supported: send one message a request".to_owned()),
                Ok(Value::Object(_)) => (-32600, format!("not a JSON-RPC message: {error}")),
                Ok(_) => (-32600, "a JSON-RPC message is an object".to_owned()),
                Err(error) => (-32700, format!("parse error: {error}")),
            };
            return json_response(StatusCode::BAD_REQUEST, &rpc_error(code, reason));
        }
    };
    let session = parts.headers.get("mcp-session-id").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let mut reservation = None;
    if session.is_none() && message.method.as_deref() == Some("initialize") {
        reservation = admission.sessions.reserve();
        if reservation.is_none() {
            let reason =
                format!("{} sessions are open, the limit (MCP_MAX_SESSIONS)", admission.sessions.max_sessions());
            let mut response = json_response(StatusCode::SERVICE_UNAVAILABLE, &rpc_error(-32000, reason));
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS));
            return response;
        }
    }
    if let (Some(session), Some(id), Some(_)) = (session, &message.id, &message.method) {
        // The id is compared as a value: JSON can write one text in many ways.
        let id = serde_json::from_str::<Value>(id.get()).unwrap_or_default();
        match admission.sessions.register_request(&session, id.to_string()) {
            // The guard travels with the request, so the id is in use until the handler has ended, even if the client disconnects.
            Some(in_use) => {
                parts.extensions.insert(Arc::new(in_use));
            }
            None => {
                let reason = format!("request id {id} is in use in this session");
                return json_response(StatusCode::BAD_REQUEST, &rpc_error(-32600, reason));
            }
        }
    }
    let is_json = parts
        .headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.trim_start().to_ascii_lowercase().starts_with("application/json"));
    let response = next.run(Request::from_parts(parts, Body::from(bytes))).await;
    drop(reservation);
    if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE && is_json {
        let reason = "not a JSON-RPC message of this protocol: jsonrpc \"2.0\", an id that is a text or a whole number, params an object";
        return json_response(StatusCode::BAD_REQUEST, &rpc_error(-32600, reason));
    }
    response
}

/// Whether a body could not be read because it is too long, and not because the connection failed.
fn is_length_limit_error(error: &axum::Error) -> bool {
    std::error::Error::source(error).is_some_and(|cause| cause.to_string().contains("length limit"))
}

/// The members of a JSON-RPC message that admission reads.
#[derive(Deserialize)]
struct JsonRpcHead<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
}

fn rpc_error(code: i64, message: impl Into<String>) -> Value {
    json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message.into()}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_token_in_one_header_passes() {
        let bearer = SecretString::new("0123456789abcdef0123456789abcdef".into());
        let headers = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            values.iter().for_each(|value| {
                headers.append(header::AUTHORIZATION, HeaderValue::from_static(value));
            });
            headers
        };
        assert!(has_bearer_token(&headers(&["Bearer 0123456789abcdef0123456789abcdef"]), &bearer));
        assert!(has_bearer_token(&headers(&["bearer 0123456789abcdef0123456789abcdef"]), &bearer));
        for bad in [
            &[][..],
            &["Bearer"],
            &["Bearer "],
            &["Basic 0123456789abcdef0123456789abcdef"],
            &["Bearer 0123456789abcdef0123456789abcdeF"],
            &["Bearer 0123456789abcdef0123456789abcdef0"],
            &["Bearer 0123456789abcdef0123456789abcdef", "Bearer x"],
        ] {
            assert!(!has_bearer_token(&headers(bad), &bearer), "{bad:?}");
        }
    }
}
