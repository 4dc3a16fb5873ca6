//! Tests of WebSocket subscriptions: notifications, their order, limits.

use serde_json::{Value, json};

use super::harness::{WebSocketClient, broadcast, devnet, payment};

fn kind(message: &Value) -> &str {
    message["result"]["data"]["type"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn a_block_causes_notifications_of_its_events_and_transactions() {
    let devnet = devnet("empty").await;
    let mut socket = WebSocketClient::connect(&devnet).await;
    for query in ["tm.event='NewBlock'", "tm.event='NewBlockHeader'", "tm.event='NewBlockEvents'", "tm.event='Tx'"] {
        assert_eq!(socket.call("subscribe", json!({"query": query})).await["result"], json!({}));
    }
    let member = devnet.address("member").to_owned();
    let query = format!(
        "tm.event='Tx' AND transfer.recipient='{member}' AND transfer.amount CONTAINS 'usvc' AND tx.height EXISTS"
    );
    assert_eq!(socket.call("subscribe", json!([query])).await["result"], json!({}));
    let tx = payment(&devnet, 0, 5);
    broadcast(&devnet, &tx).await;
    devnet.node.produce_block().expect("made");
    let mut told = Vec::new();
    for _ in 0..5 {
        told.push(socket.next().await.expect("told"));
    }
    let kinds: Vec<_> = told.iter().map(kind).collect();
    let event = |name: &str| format!("tendermint/event/{name}");
    assert_eq!(kinds, ["NewBlock", "NewBlockEvents", "NewBlockHeader", "Tx", "Tx"].map(event));
    assert_eq!(told[4]["result"]["query"], query);
    assert_eq!(told[3]["result"]["events"]["tx.hash"], json!([tx.hash]));
    let value = &told[0]["result"]["data"]["value"];
    assert_eq!(value["block"]["header"], told[2]["result"]["data"]["value"]["header"]);
    assert_eq!(value["result_finalize_block"]["tx_results"][0]["code"], 0);
    assert_eq!(told[1]["result"]["data"]["value"]["num_txs"], "1");
}

#[tokio::test]
async fn clients_and_their_subscriptions_are_limited() {
    let devnet = devnet("empty").await;
    let mut sockets = Vec::new();
    for _ in 0..100 {
        let mut socket = WebSocketClient::connect(&devnet).await;
        assert_eq!(socket.call("subscribe", json!({"query": "tm.event='Tx'"})).await["result"], json!({}));
        sockets.push(socket);
    }
    let mut late = WebSocketClient::connect(&devnet).await;
    let refused = late.call("subscribe", json!({"query": "tm.event='Tx'"})).await;
    assert_eq!(refused["error"]["data"], "max_subscription_clients 100 reached");
    let mut first = sockets.remove(0);
    for index in 1..5 {
        assert_eq!(first.call("subscribe", json!({"query": format!("a='{index}'")})).await["result"], json!({}));
    }
    for (method, query, text) in [
        ("subscribe", "a='9'", "max_subscriptions_per_client 5 reached"),
        ("unsubscribe", "a='9'", "subscription not found"),
    ] {
        assert_eq!(first.call(method, json!({"query": query})).await["error"]["data"], text);
    }
    assert_eq!(first.call("unsubscribe", json!({"query": "a='4'"})).await["result"], json!({}));
    assert_eq!(first.call("subscribe", json!({"query": "a='3'"})).await["error"]["data"], "already subscribed");
    let parse = first.call("subscribe", json!({"query": "a="})).await["error"]["data"].clone();
    assert!(parse.as_str().is_some_and(|text| text.starts_with("failed to parse query")), "{parse}");
    assert_eq!(first.call("unsubscribe_all", json!({})).await["result"], json!({}));
    assert_eq!(first.call("unsubscribe_all", json!({})).await["error"]["data"], "subscription not found");
    // The slot of the client is free again.
    assert_eq!(late.call("subscribe", json!({"query": "tm.event='Tx'"})).await["result"], json!({}));
}
