//! The HTTP listener: JSON-RPC POST, single and batch, URI GET, and the WebSocket upgrade.

use std::{collections::HashMap, net::TcpListener, sync::Arc};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Path, Query as UriQuery, Request, State},
    http::StatusCode,
    response::{Html, IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Map, Value, json};
use svc_net::{
    listener::{HttpListener, ListenerSettings, TowerService},
    websocket::server as websocket_server,
};
use svc_wire::comet_rpc::RpcError;
use tokio_util::sync::CancellationToken;

use super::{
    call::{answer_request, call_method, parse_error, rpc_response},
    params::{self, RpcParams},
    websocket,
};
use crate::node::{faults::garble, shared::SharedChain};

/// Maximum size of a request body and of a WebSocket frame.
pub const MAX_BODY_BYTES: usize = 1_000_000;
/// Maximum size of a head, as CometBFT has it: a URI may hold a transaction.
const MAX_HEAD_BYTES: usize = 1 << 20;

pub async fn serve(listener: TcpListener, shared: Arc<SharedChain>) {
    let router = Router::new()
        .route("/", post(json_rpc).get(|| async { Html(render_index()) }))
        .route("/websocket", get(websocket))
        .route("/{method}", get(call_by_uri))
        .fallback(|| async { (StatusCode::NOT_FOUND, "404 page not found\n") })
        .with_state(shared);
    let settings = ListenerSettings { max_head_bytes: MAX_HEAD_BYTES, ..ListenerSettings::for_one_machine() };
    match HttpListener::tcp("node", listener, settings) {
        Ok(listener) => listener.serve(TowerService::new(router), CancellationToken::new()).await,
        Err(error) => tracing::error!(%error, "the listener of the node cannot be used"),
    }
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
    if params::parameter_names(&method).is_none() || method.contains("subscribe") {
        return (StatusCode::NOT_FOUND, "404 page not found\n").into_response();
    }
    let params: Map<String, Value> =
        query.into_iter().map(|(key, value)| (key.clone(), parse_uri_value(&key, &value))).collect();
    let outcome = call_method(&shared, &method, &RpcParams(params)).await;
    let status = if outcome.is_ok() { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    json_response(status, &rpc_response(Some(&json!(-1)), outcome))
}

/// Parses a parameter of a URI: text is quoted; a quoted text for bytes means the bytes of the text.
fn parse_uri_value(name: &str, value: &str) -> Value {
    let Some(text) = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else { return value.into() };
    if name == "tx" { format!("0x{}", hex::encode(text)).into() } else { text.into() }
}

async fn websocket(State(shared): State<Arc<SharedChain>>, mut request: Request) -> Response {
    websocket_server::accept(&mut request, MAX_BODY_BYTES, move |socket| websocket::serve_websocket(socket, shared))
        .map(Body::from)
}
