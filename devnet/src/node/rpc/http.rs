//! The HTTP listener: JSON-RPC POST, single and batch, URI GET, and the WebSocket upgrade.

use std::{collections::HashMap, net::TcpListener, sync::Arc};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Path, Query as UriQuery, Request, State},
    http::StatusCode,
    response::{Html, IntoResponse, Response},
    routing::{any, get},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};
use svc_net::{
    listener::{ClientStream, HttpListener, ListenerSettings, TowerService},
    websocket::server as websocket_server,
};
use svc_wire::comet_rpc::RpcError;
use tokio_util::sync::CancellationToken;

use super::{
    call::{answer_request, call_method, parse_error, rpc_response},
    params::{self, RpcParams, method_not_found},
    target_escape::EscapedStream,
    websocket,
};
use crate::node::{cross_origin::cross_origin, faults::garble, shared::SharedChain};

/// Maximum size of a request body and of a WebSocket frame.
pub const MAX_BODY_BYTES: usize = 1_000_000;
/// Maximum size of a head, as CometBFT has it: a URI may hold a transaction.
const MAX_HEAD_BYTES: usize = 1 << 20;

pub async fn serve(listener: TcpListener, shared: Arc<SharedChain>) {
    let router = Router::new()
        .route("/", any(json_rpc).get(|| async { Html(render_index()) }))
        .route("/websocket", get(websocket))
        .route("/{method}", any(call_by_uri))
        .fallback(|| async { (StatusCode::NOT_FOUND, "404 page not found\n") })
        // As the configuration of public nodes has it.
        .layer(cross_origin(["origin", "accept", "content-type", "x-requested-with", "x-server-time"]))
        .with_state(shared);
    let settings = ListenerSettings { max_head_bytes: MAX_HEAD_BYTES, ..ListenerSettings::for_one_machine() };
    match HttpListener::tcp("node", listener, settings) {
        Ok(listener) => {
            listener.with_stream_change(escape_targets).serve(TowerService::new(router), CancellationToken::new()).await
        }
        Err(error) => tracing::error!(%error, "the listener of the node cannot be used"),
    }
}

fn escape_targets(stream: Box<dyn ClientStream>) -> Box<dyn ClientStream> {
    Box::new(EscapedStream::new(stream, MAX_HEAD_BYTES))
}

/// Renders the index page with all methods.
fn render_index() -> String {
    let mut page = String::from("<html><body><br>Available endpoints:<br>");
    for (method, names) in params::methods() {
        let query: Vec<String> = names.iter().map(|name| format!("{name}=_")).collect();
        let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
        page.push_str(&format!("<a href=\"/{method}{query}\">/{method}{query}</a><br>"));
    }
    page.push_str("</body></html>");
    page
}

fn invalid_request(data: &str) -> RpcError {
    RpcError { code: -32600, message: "Invalid Request".to_owned(), data: data.to_owned() }
}

fn json_response(status: StatusCode, body: &Value) -> Response {
    (status, [("content-type", "application/json")], body.to_string()).into_response()
}

async fn json_rpc(State(shared): State<Arc<SharedChain>>, body: Body) -> Response {
    let Ok(body) = to_bytes(body, MAX_BODY_BYTES).await else {
        let error = invalid_request("error reading request body: http: request body too large");
        return json_response(StatusCode::BAD_REQUEST, &rpc_response(None, Err(error)));
    };
    if body.is_empty() {
        return Html(render_index()).into_response();
    }
    let request: Value = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => {
            let error = parse_error(error.to_string());
            return json_response(StatusCode::INTERNAL_SERVER_ERROR, &rpc_response(None, Err(error)));
        }
    };
    let answer = match &request {
        Value::Array(requests) => {
            let mut answers = Vec::new();
            for request in requests {
                answers.extend(answer_request(&shared, request).await);
            }
            Value::Array(answers)
        }
        request => match answer_request(&shared, request).await {
            Some(answer) => answer,
            None => return StatusCode::OK.into_response(),
        },
    };
    let garbling = shared.core().faults.take_garble(&request);
    match garbling {
        Some(how) => garble::garble_response(how, answer),
        None => json_response(StatusCode::OK, &answer),
    }
}

async fn call_by_uri(
    State(shared): State<Arc<SharedChain>>,
    Path(method): Path<String>,
    UriQuery(query): UriQuery<HashMap<String, String>>,
) -> Response {
    let id = json!(-1);
    if params::parameter_names(&method).is_none() {
        return (StatusCode::NOT_FOUND, "404 page not found\n").into_response();
    }
    if method.contains("subscribe") {
        return json_response(StatusCode::NOT_FOUND, &rpc_response(Some(&id), Err(method_not_found())));
    }
    let outcome = match parse_uri_params(&method, query) {
        Ok(params) => call_method(&shared, &method, &params).await,
        Err(error) => Err(error),
    };
    let status = if outcome.is_ok() { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    json_response(status, &rpc_response(Some(&id), outcome))
}

/// Parses the parameters of a URI, in the forms that a node takes. Parameters that the method does not have are ignored.
fn parse_uri_params(method: &str, query: HashMap<String, String>) -> Result<RpcParams, RpcError> {
    let names = params::parameter_names(method).unwrap_or_default();
    let known = query.into_iter().filter(|(name, value)| names.contains(&name.as_str()) && !value.is_empty());
    let parsed = known.map(|(name, value)| parse_uri_value(&name, &value).map(|value| (name, value)));
    Ok(RpcParams(parsed.collect::<Result<Map<String, Value>, RpcError>>()?))
}

/// Parses a parameter of a URI: bytes are hex behind `0x`, or those of a quoted text; a text is quoted, or hex; others are JSON.
fn parse_uri_value(name: &str, value: &str) -> Result<Value, RpcError> {
    let refused =
        |reason: String| params::invalid_params(format!("error converting http params to arguments: {reason}"));
    let is_quoted = value.len() > 1 && value.starts_with('"') && value.ends_with('"');
    let digits = value.strip_prefix("0x").or_else(|| value.strip_prefix("0X"));
    let (takes_bytes, takes_hex) = (params::BYTES.contains(&name), name == "data");
    let bytes = match digits {
        Some(digits) => Some(hex::decode(digits).map_err(|error| refused(format!("encoding/hex: {error}")))?),
        None if is_quoted && (takes_bytes || takes_hex) => {
            let text: String = serde_json::from_str(value).map_err(|error| refused(error.to_string()))?;
            Some(text.into_bytes())
        }
        None => None,
    };
    match bytes {
        Some(bytes) if takes_bytes => Ok(STANDARD.encode(bytes).into()),
        Some(bytes) if takes_hex => Ok(hex::encode(bytes).into()),
        Some(bytes) if params::TEXTS.contains(&name) => Ok(String::from_utf8_lossy(&bytes).into_owned().into()),
        Some(_) => Err(refused("got a hex string arg, but expected another".to_owned())),
        None => serde_json::from_str(value).map_err(|error| refused(error.to_string())),
    }
}

async fn websocket(State(shared): State<Arc<SharedChain>>, mut request: Request) -> Response {
    websocket_server::accept(&mut request, MAX_BODY_BYTES, move |socket| websocket::serve_websocket(socket, shared))
        .map(Body::from)
}
