//! The RPC over HTTP (JSON-RPC POST, URI GET) and WebSocket.

use std::{collections::HashMap, net::TcpListener, sync::Arc};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Path, Query as UriQuery, Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
    serve::ListenerExt,
};
use futures::{SinkExt, StreamExt};
use serde_json::{Map, Value, json};
use svc_kit::ws::{self, ServerSocket};
use svc_wire::comet::RpcError;
use tokio::sync::broadcast::error::RecvError;
use tokio_tungstenite::tungstenite::Message;

use super::{
    BlockRecord, Shared, encode,
    events::{self, Attributes, Query},
    rpc::{self, Params},
};

/// Limits of a node as it comes.
const MAX_BODY_BYTES: usize = 1_000_000;
const MAX_SUBSCRIPTIONS_PER_CLIENT: usize = 5;

pub async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let router = Router::new()
        .route("/", post(json_rpc).get(|| async { "devnet node: POST JSON-RPC here, or GET /status" }))
        .route("/websocket", get(websocket))
        .route("/{method}", get(uri))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
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

fn frame(id: &Value, outcome: Result<Value, RpcError>) -> Value {
    match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
    }
}

fn json_answer(status: StatusCode, body: &Value) -> Response {
    (status, [("content-type", "application/json")], body.to_string()).into_response()
}

async fn json_rpc(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let parsed: Result<Value, _> = serde_json::from_slice(&body);
    match parsed {
        Ok(Value::Array(requests)) => {
            let answers: Vec<Value> = requests.iter().map(|request| one(&shared, request)).collect();
            json_answer(StatusCode::OK, &Value::Array(answers))
        }
        Ok(request) => json_answer(StatusCode::OK, &one(&shared, &request)),
        Err(error) => {
            let error =
                RpcError { code: -32700, message: "Parse error. Invalid JSON".to_owned(), data: error.to_string() };
            json_answer(StatusCode::INTERNAL_SERVER_ERROR, &frame(&json!(-1), Err(error)))
        }
    }
}

fn one(shared: &Shared, request: &Value) -> Value {
    let id = request.get("id").cloned().unwrap_or(Value::Null);
    let Some(method) = request.get("method").and_then(Value::as_str) else {
        let error =
            RpcError { code: -32600, message: "Invalid Request".to_owned(), data: "method is missing".to_owned() };
        return frame(&id, Err(error));
    };
    let params = request.get("params").and_then(Value::as_object).cloned().unwrap_or_default();
    frame(&id, rpc::call(&mut shared.core(), method, &Params(params)))
}

async fn uri(
    State(shared): State<Arc<Shared>>,
    Path(method): Path<String>,
    UriQuery(query): UriQuery<HashMap<String, String>>,
) -> Response {
    // Text is quoted in a URI.
    let unquote = |text: &str| Value::from(text.trim_matches('"'));
    let params: Map<String, Value> = query.iter().map(|(key, value)| (key.clone(), unquote(value))).collect();
    let outcome = rpc::call(&mut shared.core(), &method, &Params(params));
    let status = if outcome.is_ok() { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    json_answer(status, &frame(&json!(-1), outcome))
}

async fn websocket(State(shared): State<Arc<Shared>>, mut request: Request) -> Response {
    ws::accept(&mut request, MAX_BODY_BYTES, move |socket| session(socket, shared)).map(axum::body::Body::from)
}

struct Subscription {
    id: Value,
    text: String,
    query: Query,
}

async fn session(socket: ServerSocket, shared: Arc<Shared>) {
    let (mut sink, mut stream) = socket.split();
    let (mut blocks, mut cut) = (shared.blocks.subscribe(), shared.cut.subscribe());
    let mut subscriptions: Vec<Subscription> = Vec::new();
    loop {
        tokio::select! {
            incoming = stream.next() => match incoming {
                Some(Ok(Message::Text(text))) => {
                    let answer = request(&shared, &mut subscriptions, text.as_str());
                    if sink.send(Message::text(answer.to_string())).await.is_err() {
                        return;
                    }
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
            block = blocks.recv() => match block {
                Ok(block) => {
                    for message in notifications(&shared, &subscriptions, &block) {
                        if sink.send(Message::text(message.to_string())).await.is_err() {
                            return;
                        }
                    }
                }
                Err(RecvError::Lagged(_) | RecvError::Closed) => return,
            },
            // Dropping the socket ends it without a close frame.
            _ = cut.changed() => return,
        }
    }
}

fn request(shared: &Shared, subscriptions: &mut Vec<Subscription>, text: &str) -> Value {
    let Ok(request) = serde_json::from_str::<Value>(text) else {
        let error = RpcError { code: -32700, message: "Parse error. Invalid JSON".to_owned(), data: String::new() };
        return frame(&json!(-1), Err(error));
    };
    let id = request.get("id").cloned().unwrap_or(Value::Null);
    let query = request.pointer("/params/query").and_then(Value::as_str).unwrap_or_default();
    let outcome = match request.get("method").and_then(Value::as_str) {
        Some("subscribe") => subscribe(subscriptions, &id, query),
        Some("unsubscribe") => {
            let before = subscriptions.len();
            subscriptions.retain(|subscription| subscription.text != query);
            if subscriptions.len() < before { Ok(json!({})) } else { Err(rpc::internal("subscription not found")) }
        }
        Some("unsubscribe_all") => {
            subscriptions.clear();
            Ok(json!({}))
        }
        _ => return one(shared, &request),
    };
    frame(&id, outcome)
}

fn subscribe(subscriptions: &mut Vec<Subscription>, id: &Value, text: &str) -> Result<Value, RpcError> {
    if subscriptions.len() >= MAX_SUBSCRIPTIONS_PER_CLIENT {
        return Err(rpc::internal(format!("max_subscriptions_per_client {MAX_SUBSCRIPTIONS_PER_CLIENT} reached")));
    }
    if subscriptions.iter().any(|subscription| subscription.text == text) {
        return Err(rpc::internal("already subscribed"));
    }
    let query = Query::parse(text).map_err(|error| rpc::internal(format!("failed to parse query: {error}")))?;
    subscriptions.push(Subscription { id: id.clone(), text: text.to_owned(), query });
    Ok(json!({}))
}

/// What a block tells each subscription, in CometBFT's order: the block's own events first, then its transactions.
fn notifications(shared: &Shared, subscriptions: &[Subscription], block: &BlockRecord) -> Vec<Value> {
    if subscriptions.is_empty() {
        return Vec::new();
    }
    let mut sources: Vec<(Attributes, Value)> = Vec::new();
    {
        let core = shared.core();
        let new_block = json!({"type": "tendermint/event/NewBlock", "value": {
            "block": encode::block_body(&core, block),
            "block_id": {"hash": block.hash},
            "result_finalize_block": {"events": [], "tx_results": block.outcomes.iter().map(encode::tx_result).collect::<Vec<_>>()},
        }});
        sources.push((events::of_block(block, "NewBlock"), new_block));
        let header =
            json!({"type": "tendermint/event/NewBlockHeader", "value": {"header": encode::header(&core, block)}});
        sources.push((events::of_block(block, "NewBlockHeader"), header));
    }
    for position in 0..block.txs.len() {
        sources.push((events::of_tx(block, position), encode::tx_event(block, position)));
    }
    let mut messages = Vec::new();
    for (attributes, data) in &sources {
        for subscription in subscriptions.iter().filter(|subscription| subscription.query.matches(attributes)) {
            let result = json!({"query": subscription.text, "data": data, "events": attributes});
            messages.push(frame(&subscription.id, Ok(result)));
        }
    }
    messages
}
