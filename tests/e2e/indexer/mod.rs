//! The indexer and its subscription, against the devnet.

mod another_history;
mod bad_input;
mod below_the_start;
mod block_changes;
mod bounded_lists;
mod council;
mod cross_origin;
mod event_coverage;
mod far_back;
mod gapless_catch_up;
mod genesis;
mod no_beginning;
pub mod onboarding_reader;
mod past_heights;
mod postgres;
mod pruned_state;
mod read_shapes;
mod request_bodies;
mod silent_nodes;
mod start_height;
mod start_in_pages;
mod subscription;
mod trqp;
mod trust_patience;
mod trust_stream;
mod verdicts;
mod verification;

use std::time::Duration;

use futures::StreamExt;
use serde_json::Value;
use svc::network::{ChainAndIndexer, LocalNetworkConfig};
use svc_devnet::DevnetConfig;
use svc_test_support::ports::free_address;
use tokio::net::TcpStream;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async, tungstenite::Message};

use super::harness::TEST_TIMEOUT;

/// A client's end of the subscription.
pub type SubscriptionSocket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// The marketplace without its services.
pub const MARKETPLACE_SCENARIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/devnet/scenarios/marketplace.toml");

pub fn config(scenario: &str, block_time: Option<Duration>) -> LocalNetworkConfig {
    LocalNetworkConfig {
        devnet: DevnetConfig {
            scenario: scenario.to_owned(),
            block_time,
            listen: free_address(),
            ..DevnetConfig::default()
        },
        indexer_listen: free_address(),
        ..LocalNetworkConfig::default()
    }
}

/// Starts a chain that produces blocks on request, and its indexer.
pub async fn start_chain_and_indexer(scenario: &str) -> ChainAndIndexer {
    ChainAndIndexer::launch(&config(scenario, None)).await.expect("chain and indexer start")
}

/// Status, headers and body of a read.
pub struct ReadResponse {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub body: Value,
}

static CLIENT: std::sync::LazyLock<reqwest::Client> = std::sync::LazyLock::new(reqwest::Client::new);

pub async fn read_at(origin: &str, path: &str, at: Option<u64>) -> ReadResponse {
    send_read(CLIENT.get(format!("{origin}{path}")), at).await
}

/// Sends a read with a JSON body.
pub async fn post_at(origin: &str, path: &str, body: &Value, at: Option<u64>) -> ReadResponse {
    send_read(CLIENT.post(format!("{origin}{path}")).json(body), at).await
}

pub async fn send_read(request: reqwest::RequestBuilder, at: Option<u64>) -> ReadResponse {
    // Connections are not reused: each test has its own runtime, and its connections end with it.
    let mut request = request.header("connection", "close");
    if let Some(height) = at {
        request = request.header("At-Block-Height", height);
    }
    let response = request.send().await.expect("answered");
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let (url, text) = (response.url().clone(), response.text().await.expect("a text"));
    let body = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{url}: {error}: {text}"));
    ReadResponse { status, headers, body }
}

/// Sends a read that must succeed.
pub async fn read_ok(origin: &str, path: &str) -> Value {
    read_ok_at(origin, path, None).await
}

pub async fn read_ok_at(origin: &str, path: &str, at: Option<u64>) -> Value {
    let read = read_at(origin, path, at).await;
    assert_eq!(read.status, 200, "{path} at {at:?}: {}", read.body);
    read.body
}

pub async fn connect(origin: &str) -> SubscriptionSocket {
    // The query of the URL is ignored.
    let url = origin.replace("http", "ws") + "/v4/indexer/subscribe?x=1";
    connect_async(url).await.expect("connects").0
}

/// Returns the next message of a subscription; `None` when the connection is closed.
pub async fn next_message(socket: &mut SubscriptionSocket) -> Option<Value> {
    loop {
        match tokio::time::timeout(TEST_TIMEOUT, socket.next()).await.expect("in time") {
            Some(Ok(Message::Text(text))) => return Some(serde_json::from_str(&text).expect("JSON")),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(_) | Err(_)) | None => return None,
        }
    }
}

/// Returns the key that distinguishes events.
pub fn event_key(event: &Value) -> String {
    let payload = &event["payload"];
    serde_json::json!([
        event["tx_hash"],
        payload["tx_index"],
        payload["message_index"],
        event["event_type"],
        payload["entity_type"],
        payload["entity_id"]
    ])
    .to_string()
}

/// Produces blocks and waits until the indexer has them.
pub async fn produce_blocks(grounds: &ChainAndIndexer, blocks: usize) -> u64 {
    for _ in 0..blocks {
        grounds.devnet.node.produce_block().expect("a block");
    }
    let height = *grounds.devnet.node.watch_heights().borrow();
    await_indexed(&grounds.indexer_origin(), height).await;
    height
}

/// Waits with a subscription until the indexer has a height.
pub async fn await_indexed(origin: &str, height: u64) {
    let socket = connect(origin).await;
    await_stream_height(socket, r#"{"action":"subscribe"}"#, height).await;
}

/// Waits until the indexer has evaluated a height.
pub async fn await_verdicts(origin: &str, height: u64) {
    let url = origin.replace("http", "ws") + "/v4/verifiable-trust/subscribe";
    let socket = connect_async(url).await.expect("connects").0;
    await_stream_height(socket, r#"{"action":"subscribe","channels":{"trust":true}}"#, height).await;
}

async fn await_stream_height(mut socket: SubscriptionSocket, control: &str, height: u64) {
    use futures::SinkExt;
    socket.send(Message::text(control)).await.expect("sent");
    while let Some(message) = next_message(&mut socket).await {
        let reached = match message["type"].as_str() {
            Some("ready" | "subscribed") => message["block"].as_u64().expect("a height") - 1,
            _ => message["block"].as_u64().expect("a height"),
        };
        if reached >= height {
            return;
        }
    }
    panic!("the subscription ended before height {height}");
}

/// Another indexer of the same node, on its own runtime.
pub struct IndexerReplica {
    pub origin: String,
    _process: svc::network::IsolatedRuntime,
}

impl IndexerReplica {
    pub async fn launch(config: svc_indexer::IndexerConfig) -> Self {
        Self::launch_with_connection_limit(config, 100).await
    }

    /// Starts an indexer with a limit of `places` subscribers.
    pub async fn launch_with_connection_limit(mut config: svc_indexer::IndexerConfig, places: usize) -> Self {
        config.trust.hosts = svc_net::host_policy::HostPolicy::AllowPrivate;
        let listener = svc::listener::bind_listener(([127, 0, 0, 1], 0).into()).expect("a port");
        let origin = format!("http://{}", listener.local_addr().expect("an address"));
        let (process, ()) = svc::network::IsolatedRuntime::launch("replica", async move {
            let indexer = svc_indexer::Indexer::launch(config).await.expect("the replica starts");
            let front = svc::indexer::IndexerApi::new(&indexer).with_connection_limit(places);
            tokio::spawn(svc::indexer::serve(listener, front, svc::listener::ListenerConfig::for_local_network()));
        })
        .await
        .expect("a runtime");
        Self { origin, _process: process }
    }
}
