//! The HTTP surface: `/mcp` behind the bearer token, `/healthz`, `/metrics`.

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
    serve::ListenerExt,
};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use subtle::ConstantTimeEq;
use svc_wire::secret::Secret;
use tokio::task::JoinHandle;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tower_http::catch_panic::CatchPanicLayer;

use super::{
    Front, Readiness,
    session::Session,
    sessions::{SessionLimits, Sessions},
};

/// Longest request body.
const MAX_BODY_BYTES: usize = 1024 * 1024;
/// Pages on this machine may call; pages of any other origin may not.
const LOOPBACK_ORIGINS: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];
/// When a client that found no room should come again, in seconds.
const RETRY_AFTER: &str = "30";

/// How the listener is set up.
pub struct HttpServerConfig {
    /// Token clients present.
    pub bearer: Secret,
    /// Host names clients may use besides loopback names and the bound address.
    pub allowed_hosts: Vec<String>,
    /// Bounds of the sessions.
    pub sessions: SessionLimits,
}

/// The listener cannot serve.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve HTTP on {address}: {cause}")]
pub struct ServeError {
    /// Where.
    pub address: SocketAddr,
    /// Why.
    pub cause: std::io::Error,
}

/// A running HTTP server.
pub struct HttpServer {
    /// Where it listens.
    pub address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl HttpServer {
    /// Serves `front` on a bound listener.
    pub fn start(listener: TcpListener, front: Arc<Front>, config: HttpServerConfig) -> Result<Self, ServeError> {
        let unbound = SocketAddr::from(([0, 0, 0, 0], 0));
        let address = listener.local_addr().map_err(|cause| ServeError { address: unbound, cause })?;
        let failed = |cause| ServeError { address, cause };
        let listener = tokio::net::TcpListener::from_std(listener).map_err(failed)?.tap_io(|stream| {
            // Without this each small answer waits for the client's delayed acknowledgement.
            let _ = stream.set_nodelay(true);
        });
        let stop = CancellationToken::new();
        let router = router(front, config, address.ip(), &stop);
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let served = axum::serve(listener, router).with_graceful_shutdown(stopped.cancelled_owned()).await;
            if let Err(error) = served {
                tracing::error!(%error, "the HTTP listener has ended");
            }
        });
        Ok(Self { address, stop, task })
    }

    /// Takes no new connection, lets running requests end for at most `patience`.
    pub async fn stop(self, patience: Duration) {
        self.stop.cancel();
        let abort = self.task.abort_handle();
        if tokio::time::timeout(patience, self.task).await.is_err() {
            abort.abort();
        }
    }
}

fn router(front: Arc<Front>, config: HttpServerConfig, bound: IpAddr, stop: &CancellationToken) -> Router {
    let mut hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "[::1]".to_owned(), "::1".to_owned()];
    if !bound.is_unspecified() {
        hosts.push(bound.to_string());
    }
    hosts.extend(config.allowed_hosts);
    let sessions = Arc::new(Sessions::new(config.sessions));
    let settings = StreamableHttpServerConfig::default()
        .with_allowed_hosts(hosts)
        .with_allowed_origins(LOOPBACK_ORIGINS)
        .enforce_origin_validation()
        .with_max_request_body_bytes(MAX_BODY_BYTES)
        .with_cancellation_token(stop.child_token());
    let factory_front = Arc::clone(&front);
    let service = StreamableHttpService::new(
        move || Ok(Session::new(Arc::clone(&factory_front))),
        Arc::clone(&sessions),
        settings,
    );
    let bearer = Arc::new(config.bearer);
    let mcp = Router::new().route_service("/mcp", service);
    #[cfg(feature = "conformance")]
    let mcp = mcp.layer(middleware::from_fn(super::conformance::cuttable));
    let entry = Entry { tidying: Arc::new(sessions.tidy()), sessions };
    let mcp = mcp
        .layer(middleware::from_fn_with_state(entry, admitted))
        .layer(middleware::from_fn_with_state(bearer, authorized));
    Router::new()
        .route("/healthz", get(healthz))
        .route("/metrics", get(crate::exposition::metrics))
        .with_state(front)
        .merge(mcp)
        .layer(CatchPanicLayer::new())
}

async fn healthz(State(front): State<Arc<Front>>) -> Response {
    let (status, text) = match front.readiness() {
        Readiness::Starting => (StatusCode::SERVICE_UNAVAILABLE, "starting"),
        Readiness::Draining => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
        Readiness::Serving if front.operator.is_healthy() => (StatusCode::OK, "ok"),
        Readiness::Serving => (StatusCode::SERVICE_UNAVAILABLE, "degraded"),
    };
    json_response(status, &json!({ "status": text }))
}

fn json_response(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// Refuses everybody without the token before any MCP handling.
async fn authorized(State(bearer): State<Arc<Secret>>, request: Request, next: Next) -> Response {
    if presents(request.headers(), &bearer) {
        return next.run(request).await;
    }
    let body = json!({"error": "unauthorized", "message": "a bearer token is required"});
    let mut response = json_response(StatusCode::UNAUTHORIZED, &body);
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

/// Compares in constant time.
fn presents(headers: &HeaderMap, bearer: &Secret) -> bool {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let Some((scheme, token)) = value.to_str().ok().and_then(|text| text.split_once(' ')) else { return false };
    scheme.eq_ignore_ascii_case("bearer") && bool::from(token.trim().as_bytes().ct_eq(bearer.expose().as_bytes()))
}

/// What is looked at before the library sees a request.
#[derive(Clone)]
struct Entry {
    sessions: Arc<Sessions>,
    /// Ends idle sessions for as long as requests are served.
    #[expect(dead_code, reason = "held, not read")]
    tidying: Arc<AbortOnDropHandle<()>>,
}

/// Answers what the library would answer in another protocol's words, or not at all: bodies that are no JSON-RPC message,
/// sessions beyond the limit, a request id that is in use.
async fn admitted(State(entry): State<Entry>, request: Request, next: Next) -> Response {
    if request.method() == Method::DELETE {
        let mut response = next.run(request).await;
        // The session has ended when the library answers; clients take 202 for a failure.
        if response.status() == StatusCode::ACCEPTED {
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        return response;
    }
    if request.method() == Method::GET
        && let Some(last) = request.headers().get("last-event-id").and_then(|value| value.to_str().ok())
        && !entry.sessions.remembers(last)
    {
        // The library answers with a stream that ends at once, after which clients ask again without end.
        let reason = "this event is not known any more: the server was restarted, or it is too long ago; svc://own/transactions \
                      has what became of a write";
        return json_response(StatusCode::NOT_FOUND, &rpc_error(-32001, reason));
    }
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let bytes = match to_bytes(body, MAX_BODY_BYTES).await {
        Ok(bytes) => bytes,
        Err(error) if is_too_long(&error) => {
            return json_response(
                StatusCode::PAYLOAD_TOO_LARGE,
                &rpc_error(-32600, format!("the body is longer than {MAX_BODY_BYTES} bytes")),
            );
        }
        Err(error) => {
            return json_response(StatusCode::BAD_REQUEST, &rpc_error(-32700, format!("the body broke off: {error}")));
        }
    };
    let message = match serde_json::from_slice::<Head>(&bytes) {
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
    let mut place = None;
    if session.is_none() && message.method.as_deref() == Some("initialize") {
        place = entry.sessions.reserve();
        if place.is_none() {
            let reason = format!("{} sessions are open, the limit (MCP_MAX_SESSIONS)", entry.sessions.limit());
            let mut response = json_response(StatusCode::SERVICE_UNAVAILABLE, &rpc_error(-32000, reason));
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
            return response;
        }
    }
    if let (Some(session), Some(id), Some(_)) = (session, &message.id, &message.method) {
        // As a value: one id can be written in many ways.
        let id = serde_json::from_str::<Value>(id.get()).unwrap_or_default();
        match entry.sessions.begin(&session, id.to_string()) {
            // Travels with the request to its handler: the id is free when the handler has ended, not when the client is gone.
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
    drop(place);
    if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE && is_json {
        let reason = "not a JSON-RPC message of this protocol: jsonrpc \"2.0\", an id that is a text or a whole number, params an object";
        return json_response(StatusCode::BAD_REQUEST, &rpc_error(-32600, reason));
    }
    response
}

/// Whether a body could not be read because it is too long, and not because it broke off.
fn is_too_long(error: &axum::Error) -> bool {
    std::error::Error::source(error).is_some_and(|cause| cause.to_string().contains("length limit"))
}

/// What is looked at of a message.
#[derive(Deserialize)]
struct Head<'a> {
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
    fn only_the_exact_token_under_one_header_passes() {
        let bearer = Secret::new("0123456789abcdef0123456789abcdef".into());
        let headers = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            values.iter().for_each(|value| {
                headers.append(header::AUTHORIZATION, HeaderValue::from_static(value));
            });
            headers
        };
        assert!(presents(&headers(&["Bearer 0123456789abcdef0123456789abcdef"]), &bearer));
        assert!(presents(&headers(&["bearer 0123456789abcdef0123456789abcdef"]), &bearer));
        for bad in [
            &[][..],
            &["Bearer"],
            &["Bearer "],
            &["Basic 0123456789abcdef0123456789abcdef"],
            &["Bearer 0123456789abcdef0123456789abcdeF"],
            &["Bearer 0123456789abcdef0123456789abcdef0"],
            &["Bearer 0123456789abcdef0123456789abcdef", "Bearer x"],
        ] {
            assert!(!presents(&headers(bad), &bearer), "{bad:?}");
        }
    }
}
