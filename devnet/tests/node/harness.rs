//! A devnet that makes blocks on order, and the plainest of clients.

use std::path::Path;

use futures::{SinkExt, StreamExt};
use prost_types::Any;
use serde_json::{Value, json};
use svc_devnet::{Devnet, DevnetConfig};
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

pub async fn post(devnet: &Devnet, body: impl Into<reqwest::Body>) -> (u16, Value) {
    let answer = reqwest::Client::new().post(devnet.node.origin()).body(body).send().await.expect("answers");
    let status = answer.status().as_u16();
    let text = answer.text().await.expect("a body");
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

pub async fn get(devnet: &Devnet, path: &str) -> (u16, Value) {
    let answer = reqwest::get(format!("{}{path}", devnet.node.origin())).await.expect("answers");
    let status = answer.status().as_u16();
    let text = answer.text().await.expect("a body");
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

pub async fn call(devnet: &Devnet, method: &str, params: Value) -> Result<Value, Value> {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let (status, answer) = post(devnet, request.to_string()).await;
    assert_eq!(status, 200, "{answer}");
    match answer.get("error") {
        Some(error) => Err(error.clone()),
        None => Ok(answer["result"].clone()),
    }
}

pub async fn ok(devnet: &Devnet, method: &str, params: Value) -> Value {
    call(devnet, method, params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
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
        gas_limit: 200_000,
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

pub async fn broadcast(devnet: &Devnet, tx: &Signed) -> Value {
    ok(devnet, "broadcast_tx_sync", json!({"tx": base64(&tx.bytes)})).await
}

/// A WebSocket client.
pub struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Socket {
    pub async fn connect(devnet: &Devnet) -> Self {
        let url = format!("{}/websocket", devnet.node.origin().replace("http", "ws"));
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
