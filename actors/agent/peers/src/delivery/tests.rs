//! A refill from an indexer without cursors, over a real socket.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use axum::{Json, Router, extract::Query, routing::get};
use serde_json::{Value, json};
use svc_agent_store::{BlockEvents, StoreKey, StoreKeys, StoreSettings, guard::StoreGuardHandle};
use svc_net::{upstream::UpstreamKind, webhook::WebhookClient};
use svc_wire::event_stream::IndexerEvent;

use super::*;
use crate::courier::CourierConfig;

const PAGE_SIZE: usize = 500;

fn event(height: u64, index: usize) -> Value {
    json!({
        "type": "indexer-event", "event_type": "X", "did": null, "block_height": height, "tx_hash": "A", "timestamp": "t",
        "payload": {
            "module": "pp", "action": "x", "message_type": "MsgX", "tx_index": 0, "message_index": index, "sender": "", "related_dids": [],
        },
    })
}

/// Starts an indexer whose pages begin after a height and have no cursor; or one that gives its first page always.
async fn start_indexer(repeats: bool) -> UpstreamEndpoints {
    let all: Vec<Value> = (0..PAGE_SIZE).map(|index| event(5, index)).chain([event(6, 0)]).collect();
    serve_events(all, 6, repeats).await
}

async fn serve_events(all: Vec<Value>, newest: u64, repeats: bool) -> UpstreamEndpoints {
    let heights: Vec<Option<u64>> = all.iter().map(|event| event["block_height"].as_u64()).collect();
    let texts: Vec<String> = all.iter().map(Value::to_string).collect();
    let page = async move |Query(query): Query<HashMap<String, String>>| {
        let after: u64 = query["after_block_height"].parse().expect("a height");
        let first = heights.partition_point(|height| !repeats && *height <= Some(after));
        let events = &texts[first..texts.len().min(first + PAGE_SIZE)];
        let body = format!(
            r#"{{"count": {}, "events": [{}], "after_block_height": {after}}}"#,
            events.len(),
            events.join(",")
        );
        ([("content-type", "application/json")], body)
    };
    let height = get(async move || Json(json!({"height": newest})));
    let router = Router::new().route("/v4/indexer/events", get(page)).route("/v4/indexer/block-height", height);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let origin = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    UpstreamEndpoints::new(UpstreamKind::Indexer, &origin.into()).expect("a client")
}

/// A handle on an outbox that has dropped the events of the blocks 5 and 6.
async fn open_delivery(indexer: UpstreamEndpoints) -> DeliveryHandle {
    let store = open_store().await;
    let dropped = |height: u64| {
        let (id, body) = (height.to_string(), "{}".to_owned());
        let notifications = vec![Notification { id, kind: "vpr.notification", height, body }];
        BlockEvents { height, hash: None, ids: Vec::new(), notifications }
    };
    store.store_blocks(&[dropped(5), dropped(6)], 0, 0).await.expect("stored, and dropped");
    delivery_of(store, indexer, 10_000)
}

async fn open_store() -> AgentStore {
    let keys = StoreKeys { current: StoreKey::from_bytes([1; 32]), previous: None };
    AgentStore::open(StoreSettings { url: "sqlite::memory:".to_owned(), keys }).await.expect("opens")
}

/// A handle whose courier is not started: the test settles the events.
fn delivery_of(store: AgentStore, indexer: UpstreamEndpoints, max_stored: u64) -> DeliveryHandle {
    let client =
        WebhookClient::new("http://127.0.0.1:1/".parse().expect("a URL"), Duration::from_secs(1)).expect("a client");
    let receiver = CourierConfig { client, api_key: None, secrets: None, min_backoff: Duration::from_secs(1) };
    let (guard, _) = StoreGuardHandle::child_spec(store.clone());
    let (courier, _) = CourierHandle::child_spec(receiver, store.clone(), guard);
    DeliveryHandle::new(Delivery {
        store,
        courier: Some(courier),
        indexer,
        scope: SubscriptionScope::Corporation(1),
        notifications: Arc::new(OnceLock::from(NotificationMaker::new("c"))),
        max_stored,
        refill: Mutex::new(()),
    })
}

/// Delivers everything that is stored, and returns the ids.
async fn deliver_all(store: &AgentStore) -> Vec<String> {
    let events = store.next_events(0, 2_000).await.expect("read");
    let numbers: Vec<i64> = events.iter().map(|event| event.number).collect();
    store.settle_events(&numbers, &[]).await.expect("settled");
    events.into_iter().map(|event| event.id).collect()
}

#[tokio::test]
async fn of_fifty_thousand_events_above_a_bound_each_arrives_or_is_in_a_gap_and_refills_deliver_the_rest() {
    let all: Vec<Value> = (0..50_000).map(|number| event(number / 400 + 1, (number % 400) as usize)).collect();
    let maker = NotificationMaker::new("c");
    let (store, bound) = (open_store().await, 1_000);
    let parsed: Vec<IndexerEvent> =
        all.iter().map(|one| serde_json::from_value(one.clone()).expect("an event")).collect();
    for block in parsed.chunks(400) {
        let notifications: Vec<Notification> = block.iter().map(|event| maker.make(event)).collect();
        let ids = notifications.iter().map(|one| one.id.clone()).collect();
        let rows = BlockEvents { height: block[0].block_height, hash: None, ids, notifications };
        store.store_blocks(&[rows], 0, bound).await.expect("stored");
    }
    let delivery = delivery_of(store.clone(), serve_events(all, 125, false).await, bound);
    let gaps = delivery.gaps(None, 10).await.expect("read");
    let dropped: u64 = gaps.iter().map(|gap| gap.count).sum();
    let mut arrived = deliver_all(&store).await;
    assert_eq!((gaps.len(), arrived.len() as u64 + dropped), (1, 50_000), "{gaps:?}");
    while !delivery.gaps(None, 10).await.expect("read").is_empty() {
        let queued = delivery.refill().await.expect("refilled");
        assert!(queued > 0 && delivery.sizes().await.expect("read").stored <= bound, "{queued}");
        arrived.extend(deliver_all(&store).await);
    }
    let expected: BTreeSet<String> = parsed.iter().map(|event| maker.id(event)).collect();
    // Of a block at the edge of the bound a part arrived before, and comes again under the same ids.
    assert!(arrived.len() <= 50_400, "{}", arrived.len());
    assert_eq!(arrived.into_iter().collect::<BTreeSet<_>>(), expected);
}

#[tokio::test]
async fn a_refill_goes_on_behind_a_block_that_fills_a_page() {
    let delivery = open_delivery(start_indexer(false).await).await;
    assert_eq!(delivery.gaps(None, 10).await.expect("read").len(), 1);
    assert_eq!(delivery.refill().await, Ok(PAGE_SIZE as u64 + 1));
    assert_eq!(delivery.gaps(None, 10).await, Ok(Vec::new()));
    assert_eq!(delivery.sizes().await.expect("read").stored, PAGE_SIZE as u64 + 1);
}

#[tokio::test]
async fn a_refill_from_an_indexer_whose_pages_repeat_ends_and_keeps_the_gap() {
    let delivery = open_delivery(start_indexer(true).await).await;
    let refused = delivery.refill().await.expect_err("refused");
    assert_eq!((refused.code, refused.waiting), (RefusalCode::NotReady, vec![AgentPart::Indexer]));
    assert_eq!(delivery.gaps(None, 10).await.expect("read").len(), 1);
}
