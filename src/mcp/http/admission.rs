//! The checks of a request that precede the library: it answers some requests wrongly or not at all.

use std::{borrow::Cow, sync::Arc};

use axum::{
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{MAX_BODY_BYTES, json_response};
use crate::{
    mcp::session::BoundedSessionManager,
    principals::{Principal, PrincipalDirectory},
};

/// Time after which a client may retry to open a session, in seconds.
const RETRY_AFTER_SECONDS: &str = "30";

/// The state of the checks that precede the library.
#[derive(Clone)]
pub(super) struct HttpAdmission {
    pub sessions: Arc<BoundedSessionManager>,
    pub principals: Arc<PrincipalDirectory>,
}

/// Answers the requests that the library would answer wrongly or not at all: bodies that are not a JSON-RPC message, sessions
/// beyond the limit, unknown events, and request ids that are in use.
pub(super) async fn admit_request(State(admission): State<HttpAdmission>, request: Request, next: Next) -> Response {
    let principal = request.extensions().get::<Arc<Principal>>().cloned();
    let session = request.headers().get("mcp-session-id").and_then(|value| value.to_str().ok()).map(str::to_owned);
    if let Some(session) = &session
        && admission.sessions.is_of_another(session, principal.as_ref().map_or("", |principal| &principal.id))
    {
        // The same answer as for a session that does not exist.
        return (StatusCode::NOT_FOUND, "Not Found: Session not found").into_response();
    }
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
    // A body may take minutes, and the rights of before are no rights.
    if principal.as_ref().is_some_and(|principal| !admission.principals.is_current(principal)) {
        let body = json!({"error": "unauthorized", "message": "the rights of this token have changed; send the request again"});
        return json_response(StatusCode::UNAUTHORIZED, &body);
    }
    let message = match read_head(&bytes) {
        Ok(message) => message,
        Err((code, reason)) => return json_response(StatusCode::BAD_REQUEST, &rpc_error(code, reason)),
    };
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
    let opened = response.headers().get("mcp-session-id").and_then(|value| value.to_str().ok());
    if let (Some(opened), Some(principal), true) = (opened, principal, reservation.is_some()) {
        admission.sessions.set_owner(opened, principal);
    }
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

/// Reads the head of a JSON-RPC message. Fails with the code of JSON-RPC and the reason.
fn read_head(bytes: &[u8]) -> Result<JsonRpcHead<'_>, (i64, String)> {
    serde_json::from_slice::<JsonRpcHead<'_>>(bytes).map_err(|error| match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Array(_)) => (-32600, "batches are not supported: send one message a request".to_owned()),
        Ok(Value::Object(_)) => (-32600, format!("not a JSON-RPC message: {error}")),
        Ok(_) => (-32600, "a JSON-RPC message is an object".to_owned()),
        Err(error) => (-32700, format!("parse error: {error}")),
    })
}

/// Checks the body of a request as admission does: one JSON-RPC message. Fails with the code of JSON-RPC and the reason.
pub fn check_message(bytes: &[u8]) -> Result<(), (i64, String)> {
    read_head(bytes).map(drop)
}

/// The members of a JSON-RPC message that admission reads.
#[derive(Deserialize)]
struct JsonRpcHead<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
}

pub(super) fn rpc_error(code: i64, message: impl Into<String>) -> Value {
    json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message.into()}})
}
