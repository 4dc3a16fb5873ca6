//! The servers that are compared, each a process that takes blocks to tell on standard input.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use svc_devnet::{Devnet, DevnetConfig};
use svc_indexer::{Indexer, IndexerConfig};
use svc_wire::event_stream::{BlockMessage, StreamMessage};
use tokio::{
    io::AsyncBufReadExt,
    net::TcpListener,
    sync::{broadcast, mpsc},
};
use tokio_tungstenite::{accept_async, connect_async, tungstenite::Message};

/// A server's process.
pub struct FanOutServer {
    process: Child,
    block_input: Option<ChildStdin>,
    height: u64,
    pub port: u16,
}

impl FanOutServer {
    /// Ours, with an indexer behind it.
    pub fn ours() -> Self {
        Self::start(Command::new(std::env::current_exe().expect("this program")).arg("serve-ours"))
    }

    /// A plain broadcast of the same bytes on the same WebSocket library.
    pub fn plain() -> Self {
        Self::start(Command::new(std::env::current_exe().expect("this program")).arg("serve-plain"))
    }

    /// The reference's way on the `ws` package.
    pub fn node_ws() -> Self {
        let root = env!("CARGO_MANIFEST_DIR");
        let modules = format!("{root}/target/interop/package.json");
        Self::start(Command::new("node").arg(format!("{root}/benches/fanout.mjs")).arg(modules))
    }

    fn start(command: &mut Command) -> Self {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
        let mut first = String::new();
        BufReader::new(process.stdout.take().expect("its output")).read_line(&mut first).expect("a line");
        let mut numbers = first.split_whitespace().map(|number| number.parse::<u64>().expect("a number"));
        let port = u16::try_from(numbers.next().expect("a port")).expect("a port");
        let orders = process.stdin.take();
        Self { process, block_input: orders, port, height: numbers.next().unwrap_or(0) }
    }

    pub fn next_height(&mut self) -> u64 {
        self.height += 1;
        self.height
    }

    /// Makes the server send a block.
    pub fn send_block(&mut self, block: &str) {
        let orders = self.block_input.as_mut().expect("running");
        writeln!(orders, "{block}").and_then(|()| orders.flush()).expect("taken");
    }

    /// Resident memory, in bytes.
    pub fn resident(&self) -> u64 {
        crate::resident_bytes(&self.process.id().to_string())
    }

    pub fn kill(&mut self) {
        drop(self.block_input.take());
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for FanOutServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn print_address(port: u16, height: u64) {
    println!("{port} {height}");
    std::io::stdout().flush().expect("written");
}

/// Runs as one of the servers.
pub async fn serve(which: &str) {
    let mut orders = tokio::io::BufReader::new(tokio::io::stdin()).lines();
    match which {
        "serve-ours" => {
            let config = DevnetConfig { block_time: None, scenario: "empty".into(), ..DevnetConfig::default() };
            let devnet = Devnet::launch(config).await.expect("a devnet");
            let height = *devnet.node.watch_heights().borrow();
            let indexer =
                Indexer::launch(IndexerConfig::new(devnet.node.origin(), "sqlite::memory:")).await.expect("an indexer");
            while indexer.reader.checkpoint().await.expect("a checkpoint").height < height {
                tokio::task::yield_now().await;
            }
            let listener = svc::listener::bind_listener(([127, 0, 0, 1], 0).into()).expect("a port");
            let port = listener.local_addr().expect("an address").port();
            let front = svc::indexer::IndexerApi::new(&indexer).with_connection_limit(25_000);
            tokio::spawn(svc::indexer::serve(listener, front, svc::listener::ListenerConfig::for_local_network()));
            print_address(port, height);
            while let Ok(Some(line)) = orders.next_line().await {
                let block: BlockMessage = serde_json::from_str(&line).expect("a block");
                indexer.hub.publish_block(block).expect("told");
            }
        }
        _ => {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
            let port = listener.local_addr().expect("an address").port();
            let (blocks, _) = broadcast::channel::<Arc<str>>(64);
            let sender = blocks.clone();
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let _ = stream.set_nodelay(true);
                    let mut blocks = sender.subscribe();
                    tokio::spawn(async move {
                        let Ok(mut socket) = accept_async(stream).await else { return };
                        let _ = socket.send(Message::text(r#"{"type":"ready"}"#)).await;
                        let _ = socket.next().await;
                        let _ = socket.send(Message::text(r#"{"type":"subscribed"}"#)).await;
                        while let Ok(block) = blocks.recv().await {
                            if socket.send(Message::text(&*block)).await.is_err() {
                                return;
                            }
                        }
                    });
                }
            });
            print_address(port, 0);
            while let Ok(Some(line)) = orders.next_line().await {
                let block: BlockMessage = serde_json::from_str(&line).expect("a block");
                let text = serde_json::to_string(&StreamMessage::Block(block)).expect("JSON");
                let _ = blocks.send(text.into());
            }
        }
    }
}

pub const NODE_SUBSCRIBE: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"query":"tm.event='NewBlockHeader'"}}"#;

/// Starts a server that only forwards the node's messages; returns its URL.
pub async fn forward(node: String) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let url = format!("ws://{}/", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a subscriber");
        let _ = stream.set_nodelay(true);
        let Ok(mut client) = accept_async(stream).await else { return };
        let Ok((mut node, _)) = connect_async(node).await else { return };
        if node.send(Message::text(NODE_SUBSCRIBE)).await.is_err() {
            return;
        }
        while let Some(Ok(message)) = node.next().await {
            if client.send(message).await.is_err() {
                return;
            }
        }
    });
    url
}

/// A proxy before a node that keeps the bodies of the requests for blocks and state.
pub struct RequestRecorder {
    pub origin: String,
    bodies: Arc<Mutex<Vec<Bytes>>>,
}

impl RequestRecorder {
    /// Takes the recorded bodies, in the order of the requests.
    pub fn take(&self) -> Vec<Bytes> {
        std::mem::take(&mut self.bodies.lock().expect("not poisoned"))
    }
}

/// Starts a proxy before a node, whose answers take the time of a network longer.
pub async fn record_requests(node: String, latency: Duration) -> RequestRecorder {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let origin = format!("http://{}", listener.local_addr().expect("an address"));
    let (bodies, client) = (Arc::<Mutex<Vec<Bytes>>>::default(), reqwest::Client::new());
    let kept = Arc::clone(&bodies);
    let forward = move |body: Bytes| {
        let text = String::from_utf8_lossy(&body);
        if ["\"block\"", "\"block_results\"", "\"abci_query\""].iter().any(|method| text.contains(method)) {
            kept.lock().expect("not poisoned").push(body.clone());
        }
        let request = client.post(&node).body(body);
        async move {
            tokio::time::sleep(latency).await;
            // The node may have ended meanwhile.
            let answer = async { request.send().await?.bytes().await };
            answer.await.map_err(|_| axum::http::StatusCode::BAD_GATEWAY)
        }
    };
    let router = axum::Router::new().fallback(axum::routing::post(forward));
    tokio::spawn(async move { axum::serve(listener, router).await });
    RequestRecorder { origin, bodies }
}

/// Heights as a subscriber hears of them, each with the instant.
pub async fn subscribe_heights(url: String, subscribe: Option<&'static str>) -> mpsc::Receiver<(u64, Instant)> {
    let (sender, receiver) = mpsc::channel(1_024);
    let (mut socket, _) = connect_async(url).await.expect("connects");
    if let Some(subscribe) = subscribe {
        socket.send(Message::text(subscribe)).await.expect("sent");
    }
    tokio::spawn(async move {
        while let Some(Ok(message)) = socket.next().await {
            let now = Instant::now();
            let Message::Text(text) = message else { continue };
            let message: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            let of_node =
                message["result"]["data"]["value"]["header"]["height"].as_str().and_then(|text| text.parse().ok());
            let of_ours = message["block"].as_u64().filter(|_| message["type"] == "block");
            if let Some(height) = of_node.or(of_ours)
                && sender.send((height, now)).await.is_err()
            {
                return;
            }
        }
    });
    receiver
}

/// The first so many heights of each.
pub async fn collect_heights<const N: usize>(
    receivers: [mpsc::Receiver<(u64, Instant)>; N],
    count: usize,
) -> [HashMap<u64, Instant>; N] {
    let mut collected = std::array::from_fn(|_| HashMap::new());
    for (mut receiver, into) in receivers.into_iter().zip(&mut collected) {
        while into.len() < count {
            let (height, at) = receiver.recv().await.expect("goes on");
            into.insert(height, at);
        }
    }
    collected
}
