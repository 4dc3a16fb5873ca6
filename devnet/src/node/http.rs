//! The RPC over HTTP: JSON-RPC POST, single and batch, and URI GET.

use std::{collections::HashMap, net::TcpListener, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Path, Query as UriQuery, Request, State},
    http::StatusCode,
    response::{Html, IntoResponse, Response},
    routing::{get, post},
    serve::ListenerExt,
};
use serde_json::{Map, Value, json};
use svc_kit::ws;
use svc_wire::comet::RpcError;

use super::{
    Shared, encode, garble,
    rpc::{self, Params},
    socket,
};

/// Longest body of a request, and longest frame of a WebSocket.
pub const MAX_BODY_BYTES: usize = 1_000_000;
/// How long `broadcast_tx_commit` waits for its block.
const COMMIT_PATIENCE: Duration = Duration::from_secs(10);

pub async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let router = Router::new()
        .route("/", post(json_rpc).get(|| async { Html(index()) }))
        .route("/websocket", get(websocket))
        .route("/{method}", get(uri))
        .fallback(|| async { (StatusCode::NOT_FOUND, "404 page not found\n") })
        .with_state(shared);
    match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => {
            let listener = listener.tap_io(|stream| {
                // Answers are small; without this each waits for the client's delayed acknowledgement.
                let _ = stream.set_nodelay(true);
            });
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(%error, "the node's listener has ended");
            }
        }
        Err(error) => tracing::error!(%error, "the node's listener cannot be used"),
    }
}

/// What there is to call.
fn index() -> String {
    let mut page = String::from("<html><body><br>Available endpoints:<br>");
    for (method, names) in rpc::methods() {
        let query: Vec<String> = names.iter().map(|name| format!("{name}=_")).collect();
        let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
        page.push_str(&format!("<a href=\"/{method}{query}\">/{method}{query}</a><br>"));
    }
    page.push_str("</body></html>");
    page
}

pub fn frame(id: Option<&Value>, outcome: Result<Value, RpcError>) -> Value {
    let mut answer = match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "result": result}),
        Err(error) => json!({"jsonrpc": "2.0", "error": error}),
    };
    if let Some(id) = id {
        answer["id"] = id.clone();
    }
    answer
}

pub fn parse_error(data: String) -> RpcError {
    RpcError { code: -32700, message: "Parse error. Invalid JSON".to_owned(), data }
}

fn invalid_request(data: &str) -> RpcError {
    RpcError { code: -32600, message: "Invalid Request".to_owned(), data: data.to_owned() }
}

fn json_answer(status: StatusCode, body: &Value) -> Response {
    (status, [("content-type", "application/json")], body.to_string()).into_response()
}

async fn json_rpc(State(shared): State<Arc<Shared>>, body: Body) -> Response {
    let Ok(body) = to_bytes(body, MAX_BODY_BYTES).await else {
        let error = invalid_request("error reading request body: http: request body too large");
        return json_answer(StatusCode::BAD_REQUEST, &frame(None, Err(error)));
    };
    if body.is_empty() {
        return Html(index()).into_response();
    }
    let request: Value = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => {
            let error = parse_error(error.to_string());
            return json_answer(StatusCode::INTERNAL_SERVER_ERROR, &frame(None, Err(error)));
        }
    };
    let answer = match &request {
        Value::Array(requests) => {
            let mut answers = Vec::new();
            for request in requests {
                answers.extend(one(&shared, request).await);
            }
            Value::Array(answers)
        }
        request => match one(&shared, request).await {
            Some(answer) => answer,
            None => return StatusCode::OK.into_response(),
        },
    };
    let garbling = shared.core().faults.garbling(&request);
    match garbling {
        Some(how) => garble::answer(how, answer),
        None => json_answer(StatusCode::OK, &answer),
    }
}

/// Answers one request; a notification, which has no id, gets no answer.
pub async fn one(shared: &Arc<Shared>, request: &Value) -> Option<Value> {
    let Some(object) = request.as_object() else {
        return Some(frame(None, Err(parse_error("a request is an object".to_owned()))));
    };
    let id = object.get("id").filter(|id| !id.is_null())?;
    if !id.is_string() && !id.is_number() {
        return Some(frame(None, Err(parse_error("id must be a text or a number".to_owned()))));
    }
    let Some(method) = object.get("method").and_then(Value::as_str).filter(|method| rpc::parameters(method).is_some())
    else {
        return Some(frame(Some(id), Err(rpc::not_found())));
    };
    let outcome = match Params::read(method, object.get("params")) {
        Ok(params) => answer(shared, method, &params).await,
        Err(error) => Err(error),
    };
    Some(frame(Some(id), outcome))
}

async fn answer(shared: &Arc<Shared>, method: &str, params: &Params) -> Result<Value, RpcError> {
    let delay = shared.core().faults.delay(method);
    if delay > 0 {
        tokio::time::sleep(Duration::from_millis(delay)).await;
    }
    if method == "broadcast_tx_commit" {
        return broadcast_commit(shared, params).await;
    }
    shared.gossiping(|core| rpc::call(core, method, params))
}

/// Answers when the transaction is in a block, or refused.
async fn broadcast_commit(shared: &Arc<Shared>, params: &Params) -> Result<Value, RpcError> {
    let mut heights = shared.height.subscribe();
    let hash = svc_wire::tx::hash(&params.bytes("tx")?);
    let (_, checked) = shared.gossiping(|core| rpc::broadcast(core, params))?;
    let answer = |result: Value, height: u64| {
        json!({
            "check_tx": rpc::check_result(&checked), "tx_result": result, "hash": hash, "height": height.to_string(),
        })
    };
    if checked.code != 0 {
        let nothing = json!({
            "code": 0, "data": null, "log": "", "info": "", "gas_wanted": "0", "gas_used": "0", "events": [], "codespace": "",
        });
        return Ok(answer(nothing, 0));
    }
    let included = async {
        loop {
            if let Some((block, position)) = shared.core().locate(&hash) {
                return Some((encode::tx_result(&block.outcomes[position]), block.height));
            }
            heights.changed().await.ok()?;
        }
    };
    match tokio::time::timeout(COMMIT_PATIENCE, included).await {
        Ok(Some((result, height))) => Ok(answer(result, height)),
        _ => Err(rpc::internal("timed out waiting for tx to be included in a block")),
    }
}

async fn uri(
    State(shared): State<Arc<Shared>>,
    Path(method): Path<String>,
    UriQuery(query): UriQuery<HashMap<String, String>>,
) -> Response {
    if rpc::parameters(&method).is_none() || method.contains("subscribe") {
        return (StatusCode::NOT_FOUND, "404 page not found\n").into_response();
    }
    let params: Map<String, Value> =
        query.into_iter().map(|(key, value)| (key.clone(), from_uri(&key, &value))).collect();
    let outcome = answer(&shared, &method, &Params(params)).await;
    let status = if outcome.is_ok() { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    json_answer(status, &frame(Some(&json!(-1)), outcome))
}

/// Text is quoted in a URI; quoted text for bytes means the text's own bytes.
fn from_uri(name: &str, value: &str) -> Value {
    let Some(text) = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else { return value.into() };
    if name == "tx" { format!("0x{}", hex::encode(text)).into() } else { text.into() }
}

async fn websocket(State(shared): State<Arc<Shared>>, mut request: Request) -> Response {
    ws::accept(&mut request, MAX_BODY_BYTES, move |socket| socket::session(socket, shared)).map(Body::from)
}
