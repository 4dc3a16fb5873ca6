//! A devnet with blocks on request, and a minimal client.

use std::path::Path;

use futures::{SinkExt, StreamExt};
use prost_types::Any;
use serde_json::{Value, json};
use svc_devnet::{Devnet, DevnetConfig, node::Node};
use svc_wire::{
    account_key::AccountKey,
    proto::cosmos::base::v1beta1::Coin,
    tx::{SignedTx, SigningContext, UnsignedTx},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async, tungstenite::Message};

pub fn config(scenario: &str) -> DevnetConfig {
    DevnetConfig { block_time: None, scenario: scenario.into(), control_port: Some(0), ..DevnetConfig::default() }
}

pub async fn devnet(scenario: &str) -> Devnet {
    Devnet::launch(config(scenario)).await.expect("starts")
}

pub async fn devnet_at(home: &Path, scenario: &str) -> Devnet {
    let config = DevnetConfig { home: Some(home.to_owned()), ..config(scenario) };
    Devnet::launch(config).await.expect("starts")
}

/// A server of the RPC.
pub trait RpcEndpoint {
    fn origin(&self) -> String;
}

impl RpcEndpoint for Devnet {
    fn origin(&self) -> String {
        self.node.origin()
    }
}

impl RpcEndpoint for Node {
    fn origin(&self) -> String {
        Node::origin(self)
    }
}

pub async fn post(to: &impl RpcEndpoint, body: impl Into<reqwest::Body>) -> (u16, Value) {
    let answer = reqwest::Client::new().post(to.origin()).body(body).send().await.expect("answers");
    let status = answer.status().as_u16();
    let text = answer.text().await.expect("a body");
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

pub async fn get(to: &impl RpcEndpoint, path: &str) -> (u16, Value) {
    let answer = reqwest::get(format!("{}{path}", to.origin())).await.expect("answers");
    let status = answer.status().as_u16();
    let text = answer.text().await.expect("a body");
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// The same without the escapes that HTTP clients make.
pub async fn get_unescaped(to: &impl RpcEndpoint, path: &str) -> (u16, Value) {
    let authority = to.origin().trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(&authority).await.expect("connects");
    let request = format!("GET {path} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, serde_json::from_str(body).unwrap_or_else(|_| Value::String(answer.clone())))
}

pub async fn call(to: &impl RpcEndpoint, method: &str, params: Value) -> Result<Value, Value> {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let (status, answer) = post(to, request.to_string()).await;
    assert_eq!(status, 200, "{answer}");
    match answer.get("error") {
        Some(error) => Err(error.clone()),
        None => Ok(answer["result"].clone()),
    }
}

pub async fn call_ok(to: &impl RpcEndpoint, method: &str, params: Value) -> Value {
    call(to, method, params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
}

/// Posts an order to the control endpoint.
pub async fn post_control(devnet: &Devnet, path: &str, body: Value) -> (u16, Value) {
    let address = devnet.control.as_ref().expect("controlled").address;
    let answer =
        reqwest::Client::new().post(format!("http://{address}{path}")).json(&body).send().await.expect("answers");
    (answer.status().as_u16(), answer.json().await.expect("JSON"))
}

/// Returns account number and sequence of the member.
fn member_account(devnet: &Devnet) -> (u64, u64) {
    let address = devnet.address("member").to_owned();
    devnet.node.read_core(|core| {
        let request =
            core.chain.registry.encode("cosmos.auth.v1beta1.QueryAccountInfoRequest", &json!({"address": address}));
        let path = "/cosmos.auth.v1beta1.Query/AccountInfo";
        let reply =
            svc_ledger::query(core.state(), &core.chain, core.block_context(), path, &request.expect("encodes"));
        let reply = core.chain.registry.decode("cosmos.auth.v1beta1.QueryAccountInfoResponse", &reply.expect("there"));
        let number = |name: &str| {
            let info = &reply.as_ref().expect("decodes")["info"];
            info[name].as_str().expect("a text").parse().expect("a number")
        };
        (number("account_number"), number("sequence"))
    })
}

/// Signs a payment of the member to itself, `ahead` sequences in the future.
pub fn payment(devnet: &Devnet, ahead: u64, amount: u64) -> SignedTx {
    payment_with_gas_limit(devnet, ahead, amount, 200_000)
}

/// Signs such a payment with a gas limit.
pub fn payment_with_gas_limit(devnet: &Devnet, ahead: u64, amount: u64, gas_limit: u64) -> SignedTx {
    let address = devnet.address("member");
    let coins = json!([{"denom": "usvc", "amount": amount.to_string()}]);
    let value = json!({"from_address": address, "to_address": address, "amount": coins});
    let url = "/cosmos.bank.v1beta1.MsgSend";
    let packed = devnet.node.read_core(|core| core.chain.registry.encode(url, &value)).expect("encodes");
    let (account_number, sequence) = member_account(devnet);
    let unsigned = UnsignedTx {
        messages: vec![Any { type_url: url.into(), value: packed }],
        sequence: sequence + ahead,
        fee: vec![Coin { denom: "usvc".into(), amount: "50000".into() }],
        gas_limit,
        fee_granter: None,
        timeout_height: 0,
    };
    let key = AccountKey::from_mnemonic(&devnet.accounts["member"].mnemonic).expect("a key");
    unsigned.sign(&key, &SigningContext { chain_id: "svc-devnet-1".into(), account_number }).expect("signs")
}

pub fn base64(bytes: &[u8]) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    STANDARD.encode(bytes)
}

fn from_base64(text: &str) -> Vec<u8> {
    use base64::{Engine, engine::general_purpose::STANDARD};
    STANDARD.decode(text).expect("base64")
}

pub async fn broadcast(to: &impl RpcEndpoint, tx: &SignedTx) -> Value {
    call_ok(to, "broadcast_tx_sync", json!({"tx": base64(&tx.bytes)})).await
}

/// Runs `abci_query` and decodes the answer.
pub async fn query(to: &impl RpcEndpoint, devnet: &Devnet, path: &str, types: [&str; 2], request: Value) -> Value {
    let registry = devnet.node.read_core(|core| core.chain.registry.clone());
    let data = registry.encode(types[0], &request).expect("encodes");
    let answer = call_ok(to, "abci_query", json!({"path": path, "data": hex::encode(data)})).await;
    assert_eq!(answer["response"]["code"], 0, "{answer}");
    let value = from_base64(answer["response"]["value"].as_str().expect("a value"));
    registry.decode(types[1], &value).expect("decodes")
}

/// Returns the gas that a simulation reports.
pub async fn simulated_gas(to: &impl RpcEndpoint, devnet: &Devnet, tx: &SignedTx) -> u64 {
    let types = ["cosmos.tx.v1beta1.SimulateRequest", "cosmos.tx.v1beta1.SimulateResponse"];
    let request = json!({"tx_bytes": base64(&tx.bytes)});
    let answer = query(to, devnet, "/cosmos.tx.v1beta1.Service/Simulate", types, request).await;
    answer["gas_info"]["gas_used"].as_str().expect("a text").parse().expect("a number")
}

/// Returns the sequence of the member, as a node reports it.
pub async fn sequence(to: &impl RpcEndpoint, devnet: &Devnet) -> u64 {
    let types = ["cosmos.auth.v1beta1.QueryAccountInfoRequest", "cosmos.auth.v1beta1.QueryAccountInfoResponse"];
    let request = json!({"address": devnet.address("member")});
    let answer = query(to, devnet, "/cosmos.auth.v1beta1.Query/AccountInfo", types, request).await;
    answer["info"]["sequence"].as_str().expect("a text").parse().expect("a number")
}

/// A WebSocket client.
pub struct WebSocketClient(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl WebSocketClient {
    pub async fn connect(to: &impl RpcEndpoint) -> Self {
        let url = format!("{}/websocket", to.origin().replace("http", "ws"));
        Self(connect_async(url).await.expect("connects").0)
    }

    pub async fn send(&mut self, text: String) {
        self.0.send(Message::text(text)).await.expect("sends");
    }

    /// Returns the next message; `None` after the end of the connection.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            match self.0.next().await? {
                Ok(Message::Text(text)) => return Some(serde_json::from_str(text.as_str()).expect("JSON")),
                Ok(_) => {}
                Err(_) => return None,
            }
        }
    }

    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        self.send(json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string()).await;
        self.next().await.expect("answered")
    }
}
