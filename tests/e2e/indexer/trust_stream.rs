//! The trust stream over a real WebSocket, of blocks that stand ready in memory.

use std::time::Duration;

use futures::{SinkExt, StreamExt, future::BoxFuture};
use serde_json::{Value, json};
use svc_indexer::{Checkpoint, HubHandle, HubSettings, Indexer, IndexerConfig, StoreError, TrustSource, TrustTopic};
use svc_kit::supervise::{Supervisor, SupervisorSpec};
use svc_wire::trust::{RecordedBlock, RecordedChange};
use tokio_tungstenite::{
    connect_async,
    tungstenite::{Message, protocol::frame::coding::CloseCode},
};

use super::{super::harness::PATIENCE, Socket, grounds, next};

/// Blocks 1 to 9, of which the hub is told the last only.
struct Nine;

fn block(height: u64) -> RecordedBlock {
    let change = |did: &str, corporation_id| RecordedChange {
        did: did.to_owned(),
        corporation_id,
        services: true,
        presentations: height == 9,
        ..RecordedChange::default()
    };
    let changes = if height < 8 { Vec::new() } else { vec![change("did:web:a", 1), change("did:web:b", 2)] };
    RecordedBlock { block: height, block_time: "2026-04-03T07:45:41.000Z".into(), changes }
}

impl TrustSource for Nine {
    fn checkpoint(&self) -> BoxFuture<'_, Result<Checkpoint, StoreError>> {
        Box::pin(async { Ok(Checkpoint { height: 7, time: 0 }) })
    }

    fn blocks(&self, first: u64, last: u64) -> BoxFuture<'_, Result<Vec<RecordedBlock>, StoreError>> {
        Box::pin(async move { Ok((first..=last).map(block).collect()) })
    }
}

struct Served {
    origin: String,
    hub: HubHandle<TrustTopic>,
    _supervisor: Supervisor,
    _indexer: Supervisor,
}

async fn serve(node: &str, places: usize) -> Served {
    let settings = HubSettings { block_interval: Duration::from_millis(100), start: 1, max_buffered_bytes: 1 << 20 };
    let (hub, child) = HubHandle::child(TrustTopic::new(Nine), settings);
    let supervisor = Supervisor::new("trust");
    supervisor.start(SupervisorSpec::one_for_one(vec![child])).await.expect("starts");
    let indexer = Indexer::launch(IndexerConfig::new(node, "sqlite::memory:")).await.expect("starts");
    let listener = svc::process::bind(([127, 0, 0, 1], 0).into()).expect("a port");
    let origin = format!("http://{}", listener.local_addr().expect("an address"));
    let front = svc::blocks::Front::new(&indexer).with_trust(hub.clone()).with_places(places);
    tokio::spawn(svc::blocks::serve(listener, front));
    Served { origin, hub, _supervisor: supervisor, _indexer: indexer.supervisor }
}

async fn connect(origin: &str) -> Socket {
    let url = origin.replace("http", "ws") + "/v4/verifiable-trust/subscribe?x=1";
    connect_async(url).await.expect("connects").0
}

async fn say(socket: &mut Socket, message: &Value) {
    socket.send(Message::text(message.to_string())).await.expect("sent");
}

/// Code and reason a connection is closed with.
async fn end(socket: &mut Socket) -> (CloseCode, String) {
    loop {
        match tokio::time::timeout(PATIENCE, socket.next()).await.expect("in time") {
            Some(Ok(Message::Close(Some(frame)))) => return (frame.code, frame.reason.as_str().to_owned()),
            Some(Ok(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_come_by_block_filter_and_channel_beside_the_block_stream() {
    let grounds = grounds("empty").await;
    let served = serve(&grounds.devnet.node.origin(), 100).await;
    let mut blocks = super::connect(&served.origin).await;
    say(&mut blocks, &json!({"action": "subscribe"})).await;
    let mut subscribers = Vec::new();
    for subscribe in [
        json!({"action": "subscribe", "channels": {"services": true, "presentations": true}}),
        json!({"action": "subscribe", "channels": {"services": true}, "dids": ["did:web:a"]}),
        json!({"action": "subscribe", "channels": {"presentations": true}, "corporationId": 2}),
        json!({"action": "subscribe", "channels": {"trust": true, "ecosystems": {"includeIssuedCredentials": true}}}),
    ] {
        let mut socket = connect(&served.origin).await;
        let ready = next(&mut socket).await.expect("open");
        assert_eq!(
            (&ready["type"], &ready["block"], &ready["blockIntervalMs"]),
            (&json!("ready"), &json!(8), &json!(100))
        );
        say(&mut socket, &subscribe).await;
        let subscribed = next(&mut socket).await.expect("open");
        assert_eq!((&subscribed["type"], &subscribed["block"]), (&json!("subscribed"), &json!(8)));
        subscribers.push(socket);
    }
    served.hub.processed(block(9)).expect("told");
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
    ]) {
        for (height, changes) in (8..).zip(expected) {
            let expected =
                json!({"type": "block", "block": height, "blockTime": "2026-04-03T07:45:41.000Z", "changes": changes});
            assert_eq!(next(socket).await.expect("open"), expected);
        }
    }
    // The block stream goes its own way.
    assert_eq!(next(&mut blocks).await.expect("open")["type"], "ready");
    assert_eq!(next(&mut blocks).await.expect("open")["type"], "subscribed");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_obeyed_ends_the_connection_and_each_stream_has_its_places() {
    let grounds = grounds("empty").await;
    let served = serve(&grounds.devnet.node.origin(), 1).await;
    let mut blocks = super::connect(&served.origin).await;
    assert_eq!(next(&mut blocks).await.expect("open")["type"], "ready");
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
        // The place of the one before is free when its connection has ended.
        let mut socket = loop {
            let mut socket = connect(&served.origin).await;
            if next(&mut socket).await.is_some() {
                break socket;
            }
        };
        socket.send(Message::text(message)).await.expect("sent");
        assert_eq!(end(&mut socket).await, (code, reason.to_owned()));
    }
    let mut first = connect(&served.origin).await;
    while next(&mut first).await.is_none() {
        first = connect(&served.origin).await;
    }
    let mut refused = connect(&served.origin).await;
    assert_eq!(end(&mut refused).await, (CloseCode::Again, "Server overloaded".to_owned()));
}
