//! A refill from an indexer without cursors, over a real socket.

use std::{collections::HashMap, time::Duration};

use axum::{Json, Router, extract::Query, routing::get};
use serde_json::{Value, json};
use svc_net::{upstream::UpstreamKind, webhook::WebhookClient};

use super::*;
use crate::{
    courier::CourierConfig,
    store::{BlockEvents, StoreKey, StoreKeys, StoreSettings},
    store_guard::StoreGuardHandle,
};

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
    let page = async move |Query(query): Query<HashMap<String, String>>| {
        let after: u64 = query["after_block_height"].parse().expect("a height");
        let is_behind = |event: &&Value| repeats || event["block_height"].as_u64() > Some(after);
        let events: Vec<&Value> = all.iter().filter(is_behind).take(PAGE_SIZE).collect();
        Json(json!({"count": events.len(), "events": events, "after_block_height": after}))
    };
    let height = get(async || Json(json!({"height": 6})));
    let router = Router::new().route("/v4/indexer/events", get(page)).route("/v4/indexer/block-height", height);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let origin = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    UpstreamEndpoints::new(UpstreamKind::Indexer, &origin.into()).expect("a client")
}

/// A handle on an outbox that has dropped the events of the blocks 5 and 6.
async fn open_delivery(indexer: UpstreamEndpoints) -> DeliveryHandle {
    let keys = StoreKeys { current: StoreKey::from_bytes([1; 32]), previous: None };
    let store = AgentStore::open(StoreSettings { url: "sqlite::memory:".to_owned(), keys }).await.expect("opens");
    let dropped = |height: u64| {
        let (id, body) = (height.to_string(), "{}".to_owned());
        let notifications = vec![Notification { id, kind: "vpr.notification", height, body }];
        BlockEvents { height, ids: Vec::new(), notifications }
    };
    store.store_blocks(&[dropped(5), dropped(6)], 0, 0).await.expect("stored, and dropped");
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
        max_stored: 10_000,
        refill: Mutex::new(()),
    })
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
