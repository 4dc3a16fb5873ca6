//! WebSocket sessions: requests and subscriptions.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::{SinkExt, StreamExt, stream::SplitSink};
use serde_json::{Value, json};
use svc_net::websocket::server::ServerSocket;
use svc_wire::comet_rpc::RpcError;
use tokio_tungstenite::tungstenite::Message;

use super::{
    call::{answer_request, parse_error, rpc_response},
    encode,
    params::{RpcParams, internal_error},
};
use crate::node::{
    chain::{
        BlockRecord,
        pubsub_query::{self, EventAttributes, PubsubQuery},
    },
    shared::SharedChain,
};

/// Default limits of CometBFT.
const MAX_SUBSCRIPTIONS_PER_CLIENT: usize = 5;
const MAX_SUBSCRIPTION_CLIENTS: usize = 100;

struct QuerySubscription {
    request_id: Value,
    query_text: String,
    query: PubsubQuery,
}

/// The subscriptions of a client. A client with subscriptions counts against the limit of the node.
struct SubscriptionClient {
    shared: Arc<SharedChain>,
    subscriptions: Vec<QuerySubscription>,
}

impl Drop for SubscriptionClient {
    fn drop(&mut self) {
        if !self.subscriptions.is_empty() {
            self.shared.subscribers.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

pub async fn serve_websocket(socket: ServerSocket, shared: Arc<SharedChain>) {
    let (mut sink, mut stream) = socket.split();
    let (mut blocks, mut cut) = (shared.blocks.subscribe(), shared.cut_signal.subscribe());
    let mut stalled = shared.stalled.subscribe();
    let mut client = SubscriptionClient { shared: Arc::clone(&shared), subscriptions: Vec::new() };
    loop {
        let is_stalled = *stalled.borrow_and_update();
        tokio::select! {
            // A fault that was ordered before a block is seen before it.
            biased;
            // A drop of the socket ends the connection without a close frame.
            _ = cut.changed() => return,
            _ = stalled.changed() => {}
            incoming = stream.next() => match incoming {
                Some(Ok(Message::Text(text))) => {
                    if let Some(answer) = client.handle_request(text.as_str()).await
                        && send(&mut sink, &answer).await.is_err()
                    {
                        return;
                    }
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
            block = blocks.recv(), if !is_stalled => {
                // CometBFT closes a client that is too slow for its buffer.
                let Ok(block) = block else { return };
                let late = client.shared.core().faults.late_results_ms;
                if late > 0 {
                    tokio::time::sleep(Duration::from_millis(late)).await;
                }
                for message in client.notifications(&block) {
                    if send(&mut sink, &message).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

async fn send(
    sink: &mut SplitSink<ServerSocket, Message>,
    value: &Value,
) -> Result<(), tokio_tungstenite::tungstenite::Error> {
    sink.send(Message::text(value.to_string())).await
}

impl SubscriptionClient {
    async fn handle_request(&mut self, text: &str) -> Option<Value> {
        let request: Value = match serde_json::from_str(text) {
            Ok(request) => request,
            Err(error) => return Some(rpc_response(None, Err(parse_error(error.to_string())))),
        };
        let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
        if !matches!(method, "subscribe" | "unsubscribe" | "unsubscribe_all") {
            return answer_request(&self.shared, &request).await;
        }
        let id = request.get("id").filter(|id| !id.is_null())?;
        let outcome = RpcParams::parse(method, request.get("params")).and_then(|params| {
            let query = params.text("query").unwrap_or_default();
            match method {
                "subscribe" => self.subscribe(id, query),
                "unsubscribe" => self.unsubscribe(|one| one.query_text == query),
                _ => self.unsubscribe(|_| true),
            }
        });
        Some(rpc_response(Some(id), outcome))
    }

    fn subscribe(&mut self, id: &Value, text: &str) -> Result<Value, RpcError> {
        let held = self.subscriptions.len();
        if held >= MAX_SUBSCRIPTIONS_PER_CLIENT {
            return Err(internal_error(format!("max_subscriptions_per_client {MAX_SUBSCRIPTIONS_PER_CLIENT} reached")));
        }
        let query =
            PubsubQuery::parse(text).map_err(|error| internal_error(format!("failed to parse query: {error}")))?;
        if self.subscriptions.iter().any(|one| one.query_text == text) {
            return Err(internal_error("already subscribed"));
        }
        if held == 0 && !self.claim_client_slot() {
            return Err(internal_error(format!("max_subscription_clients {MAX_SUBSCRIPTION_CLIENTS} reached")));
        }
        self.subscriptions.push(QuerySubscription { request_id: id.clone(), query_text: text.to_owned(), query });
        Ok(json!({}))
    }

    fn claim_client_slot(&self) -> bool {
        let next = |count| (count < MAX_SUBSCRIPTION_CLIENTS).then_some(count + 1);
        self.shared.subscribers.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok()
    }

    fn unsubscribe(&mut self, is_wanted: impl Fn(&QuerySubscription) -> bool) -> Result<Value, RpcError> {
        let before = self.subscriptions.len();
        self.subscriptions.retain(|one| !is_wanted(one));
        if self.subscriptions.len() == before {
            return Err(internal_error("subscription not found"));
        }
        if self.subscriptions.is_empty() {
            self.shared.subscribers.fetch_sub(1, Ordering::AcqRel);
        }
        Ok(json!({}))
    }

    /// Returns the notifications of a block in CometBFT's order: the events of the block first, then its transactions.
    fn notifications(&self, block: &BlockRecord) -> Vec<Value> {
        if self.subscriptions.is_empty() {
            return Vec::new();
        }
        let core = self.shared.core();
        let of_block = ["NewBlock", "NewBlockEvents", "NewBlockHeader"]
            .into_iter()
            .map(|kind| (pubsub_query::block_attributes(block, kind), encode::block_event(&core, block, kind)));
        let of_txs = (0..block.txs.len()).map(|position| {
            let mut event = encode::tx_event(block, position);
            core.faults.lies.change_tx_result(&mut event["value"]["TxResult"]["result"]);
            (pubsub_query::tx_attributes(block, position), event)
        });
        of_block.chain(of_txs).flat_map(|(attributes, data)| self.matching_notifications(&attributes, &data)).collect()
    }

    fn matching_notifications(&self, attributes: &EventAttributes, data: &Value) -> Vec<Value> {
        let wanted = self.subscriptions.iter().filter(|one| one.query.matches(attributes));
        wanted
            .map(|one| {
                let result = json!({"query": one.query_text, "data": data, "events": attributes});
                rpc_response(Some(&one.request_id), Ok(result))
            })
            .collect()
    }
}
