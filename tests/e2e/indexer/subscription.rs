//! The block subscription, over a real WebSocket.

use std::time::Duration;

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use svc::network::ChainAndIndexer;
use svc_indexer::IndexerConfig;
use tokio_tungstenite::{
    connect_async,
    tungstenite::{Message, protocol::frame::coding::CloseCode},
};

use super::{
    super::harness::{
        CREATE_ECOSYSTEM, TEST_TIMEOUT, TestNetwork, ecosystem_arguments, poll_until, start_quick_network,
    },
    SubscriptionSocket,
};

async fn connect(world: &TestNetwork) -> SubscriptionSocket {
    super::connect(&world.network.indexer_origin()).await
}

async fn next(socket: &mut SubscriptionSocket) -> Value {
    super::next_message(socket).await.expect("open")
}

async fn send(socket: &mut SubscriptionSocket, message: Value) {
    socket.send(Message::text(message.to_string())).await.expect("sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_block_comes_once_in_order_with_the_events_that_match() {
    let world = start_quick_network().await;
    let (mut all, mut own, mut other) = (connect(&world).await, connect(&world).await, connect(&world).await);
    let ready = next(&mut all).await;
    assert_eq!((&ready["type"], &ready["blockIntervalMs"]), (&json!("ready"), &json!(100)));
    for (socket, filter) in [
        (&mut own, json!({"action": "subscribe", "corporationId": 1})),
        (&mut other, json!({"action": "subscribe", "dids": ["did:web:stranger.example"]})),
    ] {
        assert_eq!(next(socket).await["type"], "ready");
        send(socket, filter).await;
        assert_eq!(next(socket).await["type"], "subscribed");
    }
    send(&mut all, json!({"action": "subscribe"})).await;
    let subscribed = next(&mut all).await;
    assert_eq!(subscribed["type"], "subscribed");

    let receipt = world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments("guild")).await;
    let height = receipt["block_height"].as_u64().expect("a height");
    let mut expected = subscribed["block"].as_u64().expect("a height");
    let event = loop {
        let block = next(&mut all).await;
        assert_eq!(
            (&block["type"], block["block"].as_u64()),
            (&json!("block"), Some(expected)),
            "exact from `subscribed` on"
        );
        if expected == height {
            break block["events"][0].clone();
        }
        assert_eq!(block["events"], json!([]));
        expected += 1;
    };
    assert_eq!((&event["event_type"], &event["did"]), (&json!("CreateNewEcosystem"), &json!("did:web:guild.example")));
    assert_eq!(event["tx_hash"], receipt["tx_hash"]);
    for (socket, count) in [(&mut own, 1), (&mut other, 0)] {
        loop {
            let block = next(socket).await;
            if block["block"] == height {
                assert_eq!(block["events"].as_array().map(Vec::len), Some(count));
                break;
            }
        }
    }
    // A received block can be read, from its height on.
    let url = format!(
        "{}/v4/indexer/events?corporation_id=1&after_block_height={}",
        world.network.indexer_origin(),
        height - 1
    );
    let page: Value = reqwest::get(url).await.expect("answered").json().await.expect("JSON");
    assert_eq!(page["events"][0], event);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_subscribe_replaces_the_first_and_unsubscribe_is_silent() {
    let world = start_quick_network().await;
    let mut socket = connect(&world).await;
    send(&mut socket, json!({"action": "subscribe", "corporationId": 77})).await;
    assert_eq!(next(&mut socket).await["type"], "ready");
    assert_eq!(next(&mut socket).await["type"], "subscribed");
    send(&mut socket, json!({"action": "subscribe", "corporationId": 1})).await;
    let again = loop {
        let message = next(&mut socket).await;
        if message["type"] == "subscribed" {
            break message["block"].as_u64();
        }
        assert_eq!(message["events"], json!([]), "corporation 77 has no events");
    };
    assert_eq!(next(&mut socket).await["block"].as_u64(), again);
    send(&mut socket, json!({"action": "unsubscribe"})).await;
    // The answer to a ping says that the server has read the message before it; blocks may have been on their way.
    socket.send(Message::Ping(Vec::new().into())).await.expect("sent");
    while !matches!(socket.next().await.expect("open").expect("a frame"), Message::Pong(_)) {}
    send(&mut socket, json!({"action": "subscribe"})).await;
    let mut blocks = 0;
    while next(&mut socket).await["type"] != "subscribed" {
        blocks += 1;
    }
    assert!(blocks <= 2, "{blocks} blocks after unsubscribe");
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_control_messages_close_with_1008_and_long_ones_with_1009() {
    let world = start_quick_network().await;
    let long_did = format!("x{}", "é".repeat(200));
    for (message, code, reason) in [
        ("{".to_owned(), CloseCode::Policy, "Invalid JSON".to_owned()),
        (
            json!({"action": "pause"}).to_string(),
            CloseCode::Policy,
            "Unknown action. Expected 'subscribe' or 'unsubscribe'".to_owned(),
        ),
        (
            json!({"action": "subscribe", "dids": [long_did]}).to_string(),
            CloseCode::Policy,
            format!("Invalid DID in 'dids': x{}", "é".repeat(49)),
        ),
        ("x".repeat(70 * 1024), CloseCode::Size, String::new()),
    ] {
        let mut socket = connect(&world).await;
        socket.send(Message::text(message)).await.expect("sent");
        let frame = loop {
            match tokio::time::timeout(TEST_TIMEOUT, socket.next()).await.expect("in time") {
                Some(Ok(Message::Close(frame))) => break frame.expect("with a code"),
                Some(Ok(_)) => {}
                other => panic!("{reason}: {other:?}"),
            }
        };
        assert_eq!((frame.code, frame.reason.as_str()), (code, reason.as_str()));
    }
    let url = world.network.indexer_origin().replace("http", "ws") + "/v4/other/subscribe";
    assert!(connect_async(url).await.expect_err("refused").to_string().contains("404"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_indexer_without_a_setting_announces_the_interval_of_its_chain() {
    let config = super::config("corporation", Some(Duration::from_millis(200)));
    let chain = ChainAndIndexer::launch(&config).await.expect("starts");
    let rpc = chain.devnet.node.origin();
    let replica = super::IndexerReplica::launch(IndexerConfig::new(rpc, "sqlite::memory:")).await;
    poll_until("it announces the interval", async || {
        let ready = next(&mut super::connect(&replica.origin).await).await;
        ready["blockIntervalMs"].as_u64().is_some_and(|interval| (150..400).contains(&interval))
    })
    .await;
}
