//! The indexer and its subscription, against the devnet.

mod bad_input;
mod bodies;
mod gapless;
mod history;
mod messages;
mod postgres;
mod rows;
mod start;
mod subscription;
mod trqp;
mod trust_stream;
mod verdicts;

use std::time::Duration;

use futures::StreamExt;
use serde_json::Value;
use svc::network::{Grounds, NetworkConfig};
use svc_devnet::DevnetConfig;
use tokio::net::TcpStream;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async, tungstenite::Message};

use super::harness::PATIENCE;

/// A client's end of the subscription.
pub type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// The marketplace without its services.
pub const MARKET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/devnet/scenarios/marketplace.toml");

pub fn config(scenario: &str, block_time: Option<Duration>) -> NetworkConfig {
    NetworkConfig {
        devnet: DevnetConfig { scenario: scenario.to_owned(), block_time, ..DevnetConfig::default() },
        ..NetworkConfig::default()
    }
}

/// A chain that makes blocks on order, and its indexer.
pub async fn grounds(scenario: &str) -> Grounds {
    Grounds::launch(&config(scenario, None)).await.expect("chain and indexer start")
}

/// A read's status, headers and body.
pub struct Read {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub body: Value,
}

static CLIENT: std::sync::LazyLock<reqwest::Client> = std::sync::LazyLock::new(reqwest::Client::new);

pub async fn read_at(origin: &str, path: &str, at: Option<u64>) -> Read {
    answered(CLIENT.get(format!("{origin}{path}")), at).await
}

/// A read that is asked with a JSON body.
pub async fn post_at(origin: &str, path: &str, body: &Value, at: Option<u64>) -> Read {
    answered(CLIENT.post(format!("{origin}{path}")).json(body), at).await
}

pub async fn answered(request: reqwest::RequestBuilder, at: Option<u64>) -> Read {
    // Connections are not kept: each test has a runtime of its own, which takes them along when it ends.
    let mut request = request.header("connection", "close");
    if let Some(height) = at {
        request = request.header("At-Block-Height", height);
    }
    let response = request.send().await.expect("answered");
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let (url, text) = (response.url().clone(), response.text().await.expect("a text"));
    let body = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{url}: {error}: {text}"));
    Read { status, headers, body }
}

/// A read that must succeed.
pub async fn ok(origin: &str, path: &str) -> Value {
    ok_at(origin, path, None).await
}

pub async fn ok_at(origin: &str, path: &str, at: Option<u64>) -> Value {
    let read = read_at(origin, path, at).await;
    assert_eq!(read.status, 200, "{path} at {at:?}: {}", read.body);
    read.body
}

pub async fn connect(origin: &str) -> Socket {
    // A query is ignored.
    let url = origin.replace("http", "ws") + "/v4/indexer/subscribe?x=1";
    connect_async(url).await.expect("connects").0
}

/// The next message of a subscription; none when the connection has ended.
pub async fn next(socket: &mut Socket) -> Option<Value> {
    loop {
        match tokio::time::timeout(PATIENCE, socket.next()).await.expect("in time") {
            Some(Ok(Message::Text(text))) => return Some(serde_json::from_str(&text).expect("JSON")),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(_) | Err(_)) | None => return None,
        }
    }
}

/// What tells events apart: the whole key of the contract.
pub fn key(event: &Value) -> String {
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

/// Makes blocks until the indexer has all of them.
pub async fn produce(grounds: &Grounds, blocks: usize) -> u64 {
    for _ in 0..blocks {
        grounds.devnet.node.produce().expect("a block");
    }
    let height = *grounds.devnet.node.heights().borrow();
    wait_for(&grounds.indexer_origin(), height).await;
    height
}

/// Waits until the indexer has a height, by its own subscription.
pub async fn wait_for(origin: &str, height: u64) {
    let socket = connect(origin).await;
    wait_on(socket, r#"{"action":"subscribe"}"#, height).await;
}

/// Waits until the indexer has judged a height.
pub async fn wait_for_verdicts(origin: &str, height: u64) {
    let url = origin.replace("http", "ws") + "/v4/verifiable-trust/subscribe";
    let socket = connect_async(url).await.expect("connects").0;
    wait_on(socket, r#"{"action":"subscribe","channels":{"trust":true}}"#, height).await;
}

async fn wait_on(mut socket: Socket, control: &str, height: u64) {
    use futures::SinkExt;
    socket.send(Message::text(control)).await.expect("sent");
    while let Some(message) = next(&mut socket).await {
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

/// Another indexer of the same node, on a runtime of its own.
pub struct Replica {
    pub origin: String,
    _process: svc::process::Process,
}

impl Replica {
    pub async fn launch(config: svc_indexer::IndexerConfig) -> Self {
        Self::with_places(config, 100).await
    }

    /// One that has room for so many subscribers.
    pub async fn with_places(mut config: svc_indexer::IndexerConfig, places: usize) -> Self {
        config.trust.hosts = svc_kit::hosts::HostPolicy::AllowPrivate;
        let listener = svc::process::bind(([127, 0, 0, 1], 0).into()).expect("a port");
        let origin = format!("http://{}", listener.local_addr().expect("an address"));
        let (process, ()) = svc::process::Process::launch("replica", async move {
            let indexer = svc_indexer::Indexer::launch(config).await.expect("the replica starts");
            let front = svc::blocks::Front::new(&indexer).with_places(places);
            tokio::spawn(svc::blocks::serve(listener, front));
        })
        .await
        .expect("a runtime");
        Self { origin, _process: process }
    }
}
