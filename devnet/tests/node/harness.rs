//! A devnet that makes blocks on order, and the plainest of clients.

use std::path::Path;

use futures::{SinkExt, StreamExt};
use prost_types::Any;
use serde_json::{Value, json};
use svc_devnet::{Devnet, DevnetConfig, node::Node};
use svc_wire::{
    key::AccountKey,
    proto::cosmos::base::v1beta1::Coin,
    tx::{SignContext, Signed, Unsigned},
};
use tokio::net::TcpStream;
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

/// Whoever answers the RPC.
pub trait Endpoint {
    fn origin(&self) -> String;
}

impl Endpoint for Devnet {
    fn origin(&self) -> String {
        self.node.origin()
    }
}

impl Endpoint for Node {
    fn origin(&self) -> String {
        Node::origin(self)
    }
}

pub async fn post(to: &impl Endpoint, body: impl Into<reqwest::Body>) -> (u16, Value) {
    let answer = reqwest::Client::new().post(to.origin()).body(body).send().await.expect("answers");
    let status = answer.status().as_u16();
    let text = answer.text().await.expect("a body");
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

pub async fn get(to: &impl Endpoint, path: &str) -> (u16, Value) {
    let answer = reqwest::get(format!("{}{path}", to.origin())).await.expect("answers");
    let status = answer.status().as_u16();
    let text = answer.text().await.expect("a body");
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

pub async fn call(to: &impl Endpoint, method: &str, params: Value) -> Result<Value, Value> {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let (status, answer) = post(to, request.to_string()).await;
    assert_eq!(status, 200, "{answer}");
    match answer.get("error") {
        Some(error) => Err(error.clone()),
        None => Ok(answer["result"].clone()),
    }
}

pub async fn ok(to: &impl Endpoint, method: &str, params: Value) -> Value {
    call(to, method, params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
}

/// An order at the control endpoint.
pub async fn order(devnet: &Devnet, path: &str, body: Value) -> (u16, Value) {
    let address = devnet.control.as_ref().expect("controlled").address;
    let answer =
        reqwest::Client::new().post(format!("http://{address}{path}")).json(&body).send().await.expect("answers");
    (answer.status().as_u16(), answer.json().await.expect("JSON"))
}

/// The member's account number and sequence.
fn member_of(devnet: &Devnet) -> (u64, u64) {
    let address = devnet.address("member").to_owned();
    devnet.node.inspect(|core| {
        let request =
            core.chain.registry.encode("cosmos.auth.v1beta1.QueryAccountInfoRequest", &json!({"address": address}));
        let path = "/cosmos.auth.v1beta1.Query/AccountInfo";
        let reply =
            svc_devnet::ledger::query(core.state(), &core.chain, core.context(), path, &request.expect("encodes"));
        let reply = core.chain.registry.decode("cosmos.auth.v1beta1.QueryAccountInfoResponse", &reply.expect("there"));
        let number = |name: &str| {
            let info = &reply.as_ref().expect("decodes")["info"];
            info[name].as_str().expect("a text").parse().expect("a number")
        };
        (number("account_number"), number("sequence"))
    })
}

/// A payment of the member to itself, `ahead` sequences in the future.
pub fn payment(devnet: &Devnet, ahead: u64, amount: u64) -> Signed {
    limited_payment(devnet, ahead, amount, 200_000)
}

/// The same, with a gas limit of its own.
pub fn limited_payment(devnet: &Devnet, ahead: u64, amount: u64, gas_limit: u64) -> Signed {
    let address = devnet.address("member");
    let coins = json!([{"denom": "usvc", "amount": amount.to_string()}]);
    let value = json!({"from_address": address, "to_address": address, "amount": coins});
    let url = "/cosmos.bank.v1beta1.MsgSend";
    let packed = devnet.node.inspect(|core| core.chain.registry.encode(url, &value)).expect("encodes");
    let (account_number, sequence) = member_of(devnet);
    let unsigned = Unsigned {
        messages: vec![Any { type_url: url.into(), value: packed }],
        sequence: sequence + ahead,
        fee: vec![Coin { denom: "usvc".into(), amount: "50000".into() }],
        gas_limit,
        granter: None,
        timeout_height: 0,
    };
    let key = AccountKey::from_mnemonic(&devnet.accounts["member"].phrase).expect("a key");
    unsigned.sign(&key, &SignContext { chain_id: "svc-devnet-1".into(), account_number }).expect("signs")
}

pub fn base64(bytes: &[u8]) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    STANDARD.encode(bytes)
}

fn from_base64(text: &str) -> Vec<u8> {
    use base64::{Engine, engine::general_purpose::STANDARD};
    STANDARD.decode(text).expect("base64")
}

pub async fn broadcast(to: &impl Endpoint, tx: &Signed) -> Value {
    ok(to, "broadcast_tx_sync", json!({"tx": base64(&tx.bytes)})).await
}

/// What `abci_query` answers, decoded.
pub async fn query(to: &impl Endpoint, devnet: &Devnet, path: &str, types: [&str; 2], request: Value) -> Value {
    let registry = devnet.node.inspect(|core| core.chain.registry.clone());
    let data = registry.encode(types[0], &request).expect("encodes");
    let answer = ok(to, "abci_query", json!({"path": path, "data": hex::encode(data)})).await;
    assert_eq!(answer["response"]["code"], 0, "{answer}");
    let value = from_base64(answer["response"]["value"].as_str().expect("a value"));
    registry.decode(types[1], &value).expect("decodes")
}

/// Gas that a simulation tells.
pub async fn simulated_gas(to: &impl Endpoint, devnet: &Devnet, tx: &Signed) -> u64 {
    let types = ["cosmos.tx.v1beta1.SimulateRequest", "cosmos.tx.v1beta1.SimulateResponse"];
    let request = json!({"tx_bytes": base64(&tx.bytes)});
    let answer = query(to, devnet, "/cosmos.tx.v1beta1.Service/Simulate", types, request).await;
    answer["gas_info"]["gas_used"].as_str().expect("a text").parse().expect("a number")
}

/// The member's sequence, as a node tells it.
pub async fn sequence(to: &impl Endpoint, devnet: &Devnet) -> u64 {
    let types = ["cosmos.auth.v1beta1.QueryAccountInfoRequest", "cosmos.auth.v1beta1.QueryAccountInfoResponse"];
    let request = json!({"address": devnet.address("member")});
    let answer = query(to, devnet, "/cosmos.auth.v1beta1.Query/AccountInfo", types, request).await;
    answer["info"]["sequence"].as_str().expect("a text").parse().expect("a number")
}

/// A WebSocket client.
pub struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Socket {
    pub async fn connect(to: &impl Endpoint) -> Self {
        let url = format!("{}/websocket", to.origin().replace("http", "ws"));
        Self(connect_async(url).await.expect("connects").0)
    }

    pub async fn send(&mut self, text: String) {
        self.0.send(Message::text(text)).await.expect("sends");
    }

    /// The next message; `None` when the connection has ended.
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
