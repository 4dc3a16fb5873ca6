//! The trust stream over a real WebSocket, with blocks in memory.

use std::time::Duration;

use futures::{SinkExt, StreamExt, future::BoxFuture};
use serde_json::{Value, json};
use svc_indexer::{
    Checkpoint, HubHandle, HubSettings, IndexStoreError, Indexer, IndexerConfig, TrustSource, TrustTopic,
};
use svc_kit::supervision::{Supervisor, SupervisorSpec};
use svc_wire::trust_stream::{RecordedDidChange, RecordedTrustBlock};
use tokio_tungstenite::{
    connect_async,
    tungstenite::{Message, protocol::frame::coding::CloseCode},
};

use super::{super::harness::TEST_TIMEOUT, SubscriptionSocket, next_message, start_chain_and_indexer};

/// Blocks 1 to 9; the hub receives only the last one and loads the others.
struct NineBlockSource;

fn block(height: u64) -> RecordedTrustBlock {
    let change = |did: &str, corporation_id| RecordedDidChange {
        did: did.to_owned(),
        corporation_id,
        services: true,
        presentations: height == 9,
        ..RecordedDidChange::default()
    };
    let changes = if height < 8 { Vec::new() } else { vec![change("did:web:a", 1), change("did:web:b", 2)] };
    RecordedTrustBlock { block: height, block_time: "2026-04-03T07:45:41.000Z".into(), changes }
}

impl TrustSource for NineBlockSource {
    fn checkpoint(&self) -> BoxFuture<'_, Result<Checkpoint, IndexStoreError>> {
        Box::pin(async { Ok(Checkpoint { height: 7, time: 0 }) })
    }

    fn blocks(&self, first: u64, last: u64) -> BoxFuture<'_, Result<Vec<RecordedTrustBlock>, IndexStoreError>> {
        Box::pin(async move { Ok((first..=last).map(block).collect()) })
    }
}

struct TrustStreamServer {
    origin: String,
    hub: HubHandle<TrustTopic>,
    _supervisor: Supervisor,
    _indexer: Supervisor,
}

async fn serve(node: &str, places: usize) -> TrustStreamServer {
    let settings = HubSettings {
        block_interval: Duration::from_millis(100).into(),
        first_height: 1.into(),
        max_buffered_bytes: 1 << 20,
    };
    let (hub, child) = HubHandle::child_spec(TrustTopic::new(NineBlockSource), settings);
    let supervisor = Supervisor::new("trust");
    supervisor.start(SupervisorSpec::one_for_one(vec![child])).await.expect("starts");
    let indexer = Indexer::launch(IndexerConfig::new(node.to_owned(), "sqlite::memory:")).await.expect("starts");
    let listener = svc::listener::bind_listener(([127, 0, 0, 1], 0).into()).expect("a port");
    let origin = format!("http://{}", listener.local_addr().expect("an address"));
    let front = svc::indexer::IndexerApi::new(&indexer).with_trust_hub(hub.clone()).with_connection_limit(places);
    tokio::spawn(svc::indexer::serve(listener, front, svc::listener::ListenerConfig::for_local_network()));
    TrustStreamServer { origin, hub, _supervisor: supervisor, _indexer: indexer.supervisor }
}

async fn connect(origin: &str) -> SubscriptionSocket {
    let url = origin.replace("http", "ws") + "/v4/verifiable-trust/subscribe?x=1";
    connect_async(url).await.expect("connects").0
}

async fn send_control(socket: &mut SubscriptionSocket, message: &Value) {
    socket.send(Message::text(message.to_string())).await.expect("sent");
}

/// Returns the code and the reason of the close frame.
async fn close_reason(socket: &mut SubscriptionSocket) -> (CloseCode, String) {
    loop {
        match tokio::time::timeout(TEST_TIMEOUT, socket.next()).await.expect("in time") {
            Some(Ok(Message::Close(Some(frame)))) => return (frame.code, frame.reason.as_str().to_owned()),
            Some(Ok(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_arrive_by_block_filter_and_channel_beside_the_block_stream() {
    let grounds = start_chain_and_indexer("empty").await;
    let served = serve(&grounds.devnet.node.origin(), 100).await;
    let mut blocks = super::connect(&served.origin).await;
    send_control(&mut blocks, &json!({"action": "subscribe"})).await;
    let mut subscribers = Vec::new();
    for subscribe in [
        json!({"action": "subscribe", "channels": {"services": true, "presentations": true}}),
        json!({"action": "subscribe", "channels": {"services": true}, "dids": ["did:web:a"]}),
        json!({"action": "subscribe", "channels": {"presentations": true}, "corporationId": 2}),
        json!({"action": "subscribe", "channels": {"trust": true, "ecosystems": {"includeIssuedCredentials": true}}}),
        // The graph of the first generation, and a client with a flag of a later version.
        json!({"action": "subscribe", "dids": ["did:web:a"], "channels": {
            "services": true, "corporation": {"includeDepositChanges": true},
            "participations": {"includeWeightChanges": true, "includeWeather": "yes"},
        }}),
    ] {
        let mut socket = connect(&served.origin).await;
        let ready = next_message(&mut socket).await.expect("open");
        assert_eq!(
            (&ready["type"], &ready["block"], &ready["blockIntervalMs"]),
            (&json!("ready"), &json!(8), &json!(100))
        );
        send_control(&mut socket, &subscribe).await;
        let subscribed = next_message(&mut socket).await.expect("open");
        assert_eq!((&subscribed["type"], &subscribed["block"]), (&json!("subscribed"), &json!(8)));
        subscribers.push(socket);
    }
    served.hub.publish_block(block(9)).expect("told");
    let both = json!({"services": true, "presentations": true});
    let (services, presentations) = (json!({"services": true}), json!({"presentations": true}));
    let of = |did: &str, seen: &Value| {
        let mut change = seen.clone();
        change["did"] = did.into();
        change
    };
    for (socket, expected) in subscribers.iter_mut().zip([
        [
            json!([of("did:web:a", &services), of("did:web:b", &services)]),
            json!([of("did:web:a", &both), of("did:web:b", &both)]),
        ],
        [json!([of("did:web:a", &services)]), json!([of("did:web:a", &services)])],
        [json!([]), json!([of("did:web:b", &presentations)])],
        [json!([]), json!([])],
        [json!([of("did:web:a", &services)]), json!([of("did:web:a", &services)])],
    ]) {
        for (height, changes) in (8..).zip(expected) {
            let expected =
                json!({"type": "block", "block": height, "blockTime": "2026-04-03T07:45:41.000Z", "changes": changes});
            assert_eq!(next_message(socket).await.expect("open"), expected);
        }
    }
    // The block stream is independent of the trust stream.
    assert_eq!(next_message(&mut blocks).await.expect("open")["type"], "ready");
    assert_eq!(next_message(&mut blocks).await.expect("open")["type"], "subscribed");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_control_message_closes_the_connection_and_each_stream_has_its_own_limit() {
    let grounds = start_chain_and_indexer("empty").await;
    let served = serve(&grounds.devnet.node.origin(), 1).await;
    let mut blocks = super::connect(&served.origin).await;
    assert_eq!(next_message(&mut blocks).await.expect("open")["type"], "ready");
    for (message, code, reason) in [
        (r#"{"action":"subscribe"}"#, CloseCode::Policy, "'channels' must enable at least one channel"),
        (
            r#"{"action":"subscribe","channels":{"trust":"yes"}}"#,
            CloseCode::Policy,
            "'channels.trust' must be true or false; got yes",
        ),
        ("[]", CloseCode::Policy, "Unknown action. Expected 'subscribe' or 'unsubscribe'"),
        (&"x".repeat(70 * 1024), CloseCode::Size, ""),
    ] {
        // The earlier connection must end before its place is free.
        let mut socket = loop {
            let mut socket = connect(&served.origin).await;
            if next_message(&mut socket).await.is_some() {
                break socket;
            }
        };
        socket.send(Message::text(message)).await.expect("sent");
        assert_eq!(close_reason(&mut socket).await, (code, reason.to_owned()));
    }
    let mut first = connect(&served.origin).await;
    while next_message(&mut first).await.is_none() {
        first = connect(&served.origin).await;
    }
    let mut refused = connect(&served.origin).await;
    assert_eq!(close_reason(&mut refused).await, (CloseCode::Again, "Server overloaded".to_owned()));
}
