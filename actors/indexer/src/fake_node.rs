//! A node for tests: CometBFT RPC over HTTP with empty blocks and an empty registry.

use std::sync::{Arc, Mutex, PoisonError};

use base64::{Engine, engine::general_purpose::STANDARD};
use prost::Message;
use serde_json::{Value, json};
use svc_wire::{
    proto::cosmos::staking::v1beta1::{Params, QueryParamsResponse},
    proto_registry::{Namespace, ProtoRegistry},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// The state of the node, which a test changes.
#[derive(Debug, Default)]
pub struct FakeChain {
    pub height: u64,
    /// Blocks that the node refuses to return.
    pub refused_blocks: Vec<u64>,
    /// Whether the node answers nothing.
    pub is_silent: bool,
    /// Blocks that the status states beyond the newest one.
    pub lead: u64,
    /// Blocks from this height on are those of another history.
    pub forked_from: Option<u64>,
}

impl FakeChain {
    fn hash(&self, height: u64) -> String {
        match self.forked_from {
            _ if height == 0 => String::new(),
            Some(first) if height >= first => format!("B{height}"),
            _ => format!("A{height}"),
        }
    }
}

/// A node that answers until the end of the runtime.
pub struct FakeNode {
    pub origin: String,
    chain: Arc<Mutex<FakeChain>>,
}

impl FakeNode {
    pub async fn start(height: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let origin = format!("http://{}", listener.local_addr().expect("an address"));
        let chain = Arc::new(Mutex::new(FakeChain { height, ..FakeChain::default() }));
        let shared = Arc::clone(&chain);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self { origin, chain }
    }

    pub fn change(&self, change: impl FnOnce(&mut FakeChain)) {
        change(&mut self.chain.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Answers one request and closes the connection. A request without a JSON body, such as a WebSocket handshake, has no
/// answer.
async fn serve(mut stream: TcpStream, chain: Arc<Mutex<FakeChain>>) {
    let mut request = Vec::new();
    let body = loop {
        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return;
        }
        let Some(end) = request.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        if let Ok(body) = serde_json::from_slice::<Value>(&request[end + 4..]) {
            break body;
        }
        if !request.starts_with(b"POST") {
            return;
        }
    };
    if chain.lock().unwrap_or_else(PoisonError::into_inner).is_silent {
        return;
    }
    let result = answer(&body, &chain.lock().unwrap_or_else(PoisonError::into_inner));
    let mut response = match result {
        Some(result) => json!({"jsonrpc": "2.0", "result": result}),
        None => json!({"jsonrpc": "2.0", "error": {"code": -32603, "message": "Internal error", "data": "refused"}}),
    };
    response["id"] = body["id"].clone();
    let response = response.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        response.len()
    );
    let _ = stream.write_all((head + &response).as_bytes()).await;
}

fn answer(request: &Value, chain: &FakeChain) -> Option<Value> {
    let params = &request["params"];
    let height = || params["height"].as_str().and_then(|text| text.parse::<u64>().ok());
    Some(match request["method"].as_str()? {
        "status" => json!({
            "node_info": {"network": "c", "version": "1"},
            "sync_info": {
                "latest_block_height": (chain.height + chain.lead).to_string(), "latest_block_time": block_time(chain.height),
                "latest_block_hash": chain.hash(chain.height),
                "earliest_block_height": "1", "catching_up": false,
            },
        }),
        "abci_query" => {
            let response = match query(params["path"].as_str()?) {
                Some(value) => json!({"code": 0, "value": STANDARD.encode(value)}),
                None => json!({"code": 22, "codespace": "sdk", "log": "not found"}),
            };
            json!({"response": response})
        }
        "block" => {
            let height = height().filter(|height| *height <= chain.height && !chain.refused_blocks.contains(height))?;
            json!({
                "block_id": {"hash": chain.hash(height)},
                "block": {
                    "header": {
                        "chain_id": "c", "height": height.to_string(), "time": block_time(height),
                        "last_block_id": {"hash": chain.hash(height - 1)},
                    },
                    "data": {"txs": []},
                },
            })
        }
        "block_results" => json!({"height": height()?.to_string(), "txs_results": [], "finalize_block_events": []}),
        _ => return None,
    })
}

fn query(path: &str) -> Option<Vec<u8>> {
    match path {
        "/cosmos.reflection.v1.ReflectionService/FileDescriptors" => {
            Some(ProtoRegistry::compiled(&Namespace::compiled()).expect("the compiled schema").file_descriptors())
        }
        "/cosmos.staking.v1beta1.Query/Params" => {
            let params = Params { bond_denom: "usvc".to_owned(), ..Params::default() };
            Some(QueryParamsResponse { params: Some(params) }.encode_to_vec())
        }
        _ => None,
    }
}

fn block_time(height: u64) -> String {
    format!("1970-01-01T00:00:{height:02}Z")
}
