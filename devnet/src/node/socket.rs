//! WebSocket sessions of the RPC: requests and subscriptions.

use std::sync::{Arc, atomic::Ordering};

use futures::{SinkExt, StreamExt, stream::SplitSink};
use serde_json::{Value, json};
use svc_kit::ws::ServerSocket;
use svc_wire::comet::RpcError;
use tokio_tungstenite::tungstenite::Message;

use super::{
    BlockRecord, Shared, encode,
    events::{self, Attributes, Query},
    http::{frame, one, parse_error},
    rpc::{self, Params},
};

/// Limits of a node as it comes.
const MAX_SUBSCRIPTIONS_PER_CLIENT: usize = 5;
const MAX_SUBSCRIPTION_CLIENTS: usize = 100;

struct Subscription {
    id: Value,
    text: String,
    query: Query,
}

/// A client's subscriptions. It counts against the node's limit while it has any.
struct Client {
    shared: Arc<Shared>,
    subscriptions: Vec<Subscription>,
}

impl Drop for Client {
    fn drop(&mut self) {
        if !self.subscriptions.is_empty() {
            self.shared.subscribers.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

pub async fn session(socket: ServerSocket, shared: Arc<Shared>) {
    let (mut sink, mut stream) = socket.split();
    let (mut blocks, mut cut) = (shared.blocks.subscribe(), shared.cut.subscribe());
    let mut stalled = shared.stalled.subscribe();
    let mut client = Client { shared: Arc::clone(&shared), subscriptions: Vec::new() };
    loop {
        let is_stalled = *stalled.borrow_and_update();
        tokio::select! {
            incoming = stream.next() => match incoming {
                Some(Ok(Message::Text(text))) => {
                    if let Some(answer) = client.request(text.as_str()).await
                        && send(&mut sink, &answer).await.is_err()
                    {
                        return;
                    }
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
            block = blocks.recv(), if !is_stalled => {
                // A client too slow for its buffer is closed, as a node does.
                let Ok(block) = block else { return };
                for message in client.notifications(&block) {
                    if send(&mut sink, &message).await.is_err() {
                        return;
                    }
                }
            }
            // Dropping the socket ends it without a close frame.
            _ = cut.changed() => return,
            _ = stalled.changed() => {}
        }
    }
}

async fn send(
    sink: &mut SplitSink<ServerSocket, Message>,
    value: &Value,
) -> Result<(), tokio_tungstenite::tungstenite::Error> {
    sink.send(Message::text(value.to_string())).await
}

impl Client {
    async fn request(&mut self, text: &str) -> Option<Value> {
        let request: Value = match serde_json::from_str(text) {
            Ok(request) => request,
            Err(error) => return Some(frame(None, Err(parse_error(error.to_string())))),
        };
        let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
        if !matches!(method, "subscribe" | "unsubscribe" | "unsubscribe_all") {
            return one(&self.shared, &request).await;
        }
        let id = request.get("id").filter(|id| !id.is_null())?;
        let outcome = Params::read(method, request.get("params")).and_then(|params| {
            let query = params.text("query").unwrap_or_default();
            match method {
                "subscribe" => self.subscribe(id, query),
                "unsubscribe" => self.unsubscribe(|one| one.text == query),
                _ => self.unsubscribe(|_| true),
            }
        });
        Some(frame(Some(id), outcome))
    }

    fn subscribe(&mut self, id: &Value, text: &str) -> Result<Value, RpcError> {
        let held = self.subscriptions.len();
        if held >= MAX_SUBSCRIPTIONS_PER_CLIENT {
            return Err(rpc::internal(format!("max_subscriptions_per_client {MAX_SUBSCRIPTIONS_PER_CLIENT} reached")));
        }
        let query = Query::parse(text).map_err(|error| rpc::internal(format!("failed to parse query: {error}")))?;
        if self.subscriptions.iter().any(|one| one.text == text) {
            return Err(rpc::internal("already subscribed"));
        }
        if held == 0 && !self.take_place() {
            return Err(rpc::internal(format!("max_subscription_clients {MAX_SUBSCRIPTION_CLIENTS} reached")));
        }
        self.subscriptions.push(Subscription { id: id.clone(), text: text.to_owned(), query });
        Ok(json!({}))
    }

    fn take_place(&self) -> bool {
        let next = |count| (count < MAX_SUBSCRIPTION_CLIENTS).then_some(count + 1);
        self.shared.subscribers.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok()
    }

    fn unsubscribe(&mut self, is_meant: impl Fn(&Subscription) -> bool) -> Result<Value, RpcError> {
        let before = self.subscriptions.len();
        self.subscriptions.retain(|one| !is_meant(one));
        if self.subscriptions.len() == before {
            return Err(rpc::internal("subscription not found"));
        }
        if self.subscriptions.is_empty() {
            self.shared.subscribers.fetch_sub(1, Ordering::AcqRel);
        }
        Ok(json!({}))
    }

    /// What a block tells each subscription, in CometBFT's order: the block's own events first, then its transactions.
    fn notifications(&self, block: &BlockRecord) -> Vec<Value> {
        if self.subscriptions.is_empty() {
            return Vec::new();
        }
        let core = self.shared.core();
        let of_block = ["NewBlock", "NewBlockEvents", "NewBlockHeader"]
            .into_iter()
            .map(|kind| (events::of_block(block, kind), encode::block_event(&core, block, kind)));
        let of_txs =
            (0..block.txs.len()).map(|position| (events::of_tx(block, position), encode::tx_event(block, position)));
        of_block.chain(of_txs).flat_map(|(attributes, data)| self.matching(&attributes, &data)).collect()
    }

    fn matching(&self, attributes: &Attributes, data: &Value) -> Vec<Value> {
        let wanted = self.subscriptions.iter().filter(|one| one.query.matches(attributes));
        wanted
            .map(|one| {
                let result = json!({"query": one.text, "data": data, "events": attributes});
                frame(Some(&one.id), Ok(result))
            })
            .collect()
    }
}
