//! Tests of the order of deliveries, then of the actor with a receiver over HTTP.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, extract::State, http::StatusCode, routing::post};
use serde_json::Value;
use svc_agent_core::notification::Notification;
use svc_agent_store::{
    AgentStore, BlockEvents, OutboxEvent, StoreKey, StoreKeys, StoreSettings, guard::StoreGuardHandle,
};
use svc_kit::supervision::{Supervisor, SupervisorSpec};
use svc_net::webhook::WebhookClient;
use svc_wire::secret::SecretString;
use tokio::sync::Notify;

use super::{
    CourierConfig, CourierHandle, WebhookSecrets,
    core::{BATCH, CourierCore, CourierEffect, DeliveryResult},
    request::headers,
};

const NOW: i64 = 1_800_000_000;

fn event(number: i64) -> OutboxEvent {
    let (id, kind, body) = (format!("id-{number}"), "vpr.notification".to_owned(), "{}".to_owned());
    OutboxEvent { number, id, kind, height: number, stored_at: NOW, body }
}

fn status(status: u16) -> DeliveryResult {
    DeliveryResult { status: Some(status), error: None, retry_after: None }
}

fn courier_with(numbers: std::ops::RangeInclusive<i64>) -> CourierCore {
    let mut core = CourierCore::new(Duration::from_secs(1));
    assert_eq!(core.stored(), [CourierEffect::Load(0)]);
    assert_eq!(core.loaded(numbers.clone().map(event).collect()), [CourierEffect::Send(event(*numbers.start()))]);
    core
}

#[test]
fn events_are_sent_one_at_a_time_in_their_order_and_settled_together() {
    let mut core = courier_with(1..=3);
    assert_eq!(core.stored(), []);
    assert_eq!(core.sent(&status(200), NOW, 0.5), [CourierEffect::Send(event(2))]);
    assert_eq!(core.sent(&status(204), NOW, 0.5), [CourierEffect::Send(event(3))]);
    assert_eq!(
        core.sent(&status(200), NOW, 0.5),
        [CourierEffect::Settle(vec![1, 2, 3], vec![]), CourierEffect::Load(3)]
    );
    assert_eq!(core.loaded(vec![]), []);
    assert_eq!(core.settled(true), []);
    assert_eq!(core.stored(), [CourierEffect::Load(3)]);
}

#[test]
fn an_orderly_end_waits_for_the_delivery_under_way_and_settles_it() {
    let mut core = courier_with(1..=3);
    assert_eq!(core.sent(&status(200), NOW, 0.5), [CourierEffect::Send(event(2))]);
    assert_eq!(core.finish(), [CourierEffect::Settle(vec![1], vec![])]);
    assert_eq!(core.settled(true), []);
    assert_eq!(core.sent(&status(200), NOW, 0.5), [CourierEffect::Settle(vec![2], vec![])]);
    assert_eq!(core.settled(true), [CourierEffect::Finished(true)]);
    assert_eq!(core.stored(), [CourierEffect::Finished(true)]);

    let mut failing = courier_with(1..=3);
    assert_eq!(failing.finish(), []);
    assert_eq!(failing.sent(&status(500), NOW, 0.5), [CourierEffect::Finished(true)]);

    let mut without_store = courier_with(1..=3);
    assert_eq!(without_store.sent(&status(200), NOW, 0.5), [CourierEffect::Send(event(2))]);
    assert_eq!(without_store.sent(&status(500), NOW, 0.5).len(), 2);
    assert_eq!(without_store.settled(false), [CourierEffect::SettleLater(Duration::from_secs(1))]);
    assert_eq!(without_store.finish(), [CourierEffect::Settle(vec![1], vec![])], "it is tried once more");
    assert_eq!(
        without_store.settled(false),
        [CourierEffect::SettleLater(Duration::from_secs(1)), CourierEffect::Finished(false)]
    );
}

#[test]
fn while_the_store_fails_refused_events_do_not_gather_either() {
    let mut core = courier_with(1..=BATCH as i64);
    let mut under_way = VecDeque::from([CourierEffect::Send(event(1))]);
    let mut sent = 0;
    while let Some(effect) = under_way.pop_front() {
        under_way.extend(match effect {
            CourierEffect::Send(_) => {
                sent += 1;
                core.sent(&status(400), NOW, 0.5)
            }
            CourierEffect::Load(after) => core.loaded((after + 1..=after + BATCH as i64).map(event).collect()),
            CourierEffect::Settle(..) => core.settled(false),
            CourierEffect::SettleLater(_) | CourierEffect::Wake(_) | CourierEffect::Finished(_) => Vec::new(),
        });
        assert!(sent <= 2 * BATCH, "{sent} events were sent that a crash would repeat");
    }
    assert_eq!(sent, 2 * BATCH);
}

#[test]
fn a_failure_is_repeated_after_a_growing_pause_and_holds_up_the_others() {
    let mut core = courier_with(1..=2);
    let unanswered = DeliveryResult { status: None, error: Some("refused".to_owned()), retry_after: None };
    for (result, pause) in [
        (status(500), 1),
        (unanswered, 2),
        (status(302), 4),
        (status(401), 8),
        (status(403), 16),
        (status(404), 32),
        (status(429), 64),
    ] {
        assert_eq!(core.sent(&result, NOW, 0.5), [CourierEffect::Wake(Duration::from_secs(pause))], "{result:?}");
        assert_eq!(core.woken(), [CourierEffect::Send(event(1))]);
    }
    for (wanted, pause) in [(7, 7), (0, 1), (86_400, 3_600)] {
        let result = DeliveryResult { retry_after: Some(Duration::from_secs(wanted)), ..status(503) };
        assert_eq!(core.sent(&result, NOW, 0.5), [CourierEffect::Wake(Duration::from_secs(pause))]);
        assert_eq!(core.woken(), [CourierEffect::Send(event(1))]);
    }
    assert_eq!(core.sent(&status(200), NOW, 0.5), [CourierEffect::Send(event(2))]);
    assert_eq!(
        core.sent(&status(500), NOW, 0.5),
        [CourierEffect::Settle(vec![1], vec![]), CourierEffect::Wake(Duration::from_secs(1))]
    );
}

#[test]
fn a_refusal_of_the_event_and_a_day_of_failures_make_it_a_dead_letter() {
    for (refusal, now) in
        [(400, NOW), (410, NOW), (413, NOW), (415, NOW), (422, NOW), (500, NOW + 86_400), (404, NOW + 86_400)]
    {
        let mut core = courier_with(1..=2);
        let effects = core.sent(&status(refusal), now, 0.5);
        let [CourierEffect::Settle(delivered, dead), CourierEffect::Send(next)] = effects.as_slice() else {
            panic!("{effects:?}")
        };
        assert_eq!((delivered.len(), dead[0].attempts, dead[0].last_status, next), (0, 1, Some(refusal), &event(2)));
    }
    let mut core = courier_with(1..=1);
    assert_eq!(core.sent(&status(500), NOW + 86_399, 0.5), [CourierEffect::Wake(Duration::from_secs(1))]);
}

#[test]
fn while_the_store_fails_the_deliveries_that_a_crash_would_repeat_stay_few() {
    let mut core = courier_with(1..=BATCH as i64);
    let mut effects = Vec::new();
    for _ in 0..BATCH {
        effects = core.sent(&status(200), NOW, 0.5);
    }
    let [CourierEffect::Settle(..), CourierEffect::Load(64)] = effects.as_slice() else { panic!("{effects:?}") };
    let more: Vec<OutboxEvent> = (65..65 + BATCH as i64).map(event).collect();
    assert_eq!(core.loaded(more), [CourierEffect::Send(event(65))]);
    for _ in 0..BATCH - 1 {
        core.sent(&status(200), NOW, 0.5);
    }
    assert_eq!(core.sent(&status(200), NOW, 0.5), [CourierEffect::Load(128)]);
    assert_eq!(core.loaded(vec![event(129)]), [], "nothing is sent before the first deliveries are settled");
    assert_eq!(core.settled(false), [CourierEffect::SettleLater(Duration::from_secs(1))], "no loop without a pause");
    assert_eq!(core.stored(), []);
    assert_eq!(core.settle_again(), [CourierEffect::Settle((1..=128).collect(), vec![])]);
    assert_eq!(core.settled(true), [CourierEffect::Send(event(129))]);
}

#[test]
fn an_event_that_is_stored_while_the_outbox_is_read_is_not_forgotten() {
    let mut core = CourierCore::new(Duration::from_secs(1));
    assert_eq!(core.stored(), [CourierEffect::Load(0)]);
    assert_eq!(core.stored(), [], "the reading has begun");
    assert_eq!(core.loaded(vec![]), [CourierEffect::Load(0)]);
    assert_eq!(core.loaded(vec![event(1)]), [CourierEffect::Send(event(1))]);
}

#[test]
fn signatures_are_those_of_standard_webhooks() {
    let secret = |text: &str| WebhookSecrets::parse(&SecretString::new(text.to_owned()));
    let (first, second) = ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    let event = OutboxEvent {
        id: "msg_p5jXN8AQM9LWM0D4loKWxJek".to_owned(),
        body: r#"{"test": 2432232314}"#.to_owned(),
        ..event(1)
    };
    let made = headers(&event, None, secret(first).ok().as_ref(), 1_614_265_330);
    assert_eq!(made["webhook-signature"], "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    let both = headers(&event, None, secret(&format!("{first} {second}")).ok().as_ref(), 1_614_265_330);
    let signatures = both["webhook-signature"].to_str().expect("a text").split(' ').count();
    assert_eq!(signatures, 2);
    for text in ["", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAAA", "whsec_!", &format!("{first} {first} {first}")] {
        assert!(secret(text).is_err(), "{text}");
    }
}

/// A receiver that keeps the ids of the events that it takes, and refuses some attempts.
#[derive(Clone, Default)]
struct Receiver {
    taken: Arc<Mutex<Vec<String>>>,
    attempts: Arc<Mutex<usize>>,
    changed: Arc<Notify>,
}

async fn receive(State(receiver): State<Receiver>, body: String) -> StatusCode {
    let body: Value = serde_json::from_str(&body).expect("JSON");
    let mut attempts = receiver.attempts.lock().expect("not poisoned");
    *attempts += 1;
    if *attempts % 2 == 0 {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    receiver.taken.lock().expect("not poisoned").push(body["id"].as_str().expect("an id").to_owned());
    receiver.changed.notify_one();
    StatusCode::OK
}

impl Receiver {
    async fn listen(&self) -> url::Url {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/events", listener.local_addr().expect("an address")).parse().expect("a URL");
        let router = Router::new().route("/events", post(receive)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    }

    async fn wait_for(&self, count: usize) -> Vec<String> {
        loop {
            {
                let taken = self.taken.lock().expect("not poisoned");
                if taken.len() >= count && taken.iter().collect::<BTreeSet<_>>().len() >= count {
                    return taken.clone();
                }
            }
            self.changed.notified().await;
        }
    }
}

async fn open_store() -> AgentStore {
    let keys = StoreKeys { current: StoreKey::from_bytes([1; 32]), previous: None };
    AgentStore::open(StoreSettings { url: "sqlite::memory:".to_owned(), keys }).await.expect("opens")
}

fn block(height: u64, events: u64) -> BlockEvents {
    let notification = |number: u64| {
        let id = format!("{:08}", height * 1_000 + number);
        Notification { body: format!(r#"{{"id":"{id}"}}"#), id, kind: "vpr.notification", height }
    };
    let notifications: Vec<Notification> = (0..events).map(notification).collect();
    BlockEvents { height, hash: None, ids: notifications.iter().map(|one| one.id.clone()).collect(), notifications }
}

async fn start_courier(store: &AgentStore, url: url::Url) -> (CourierHandle, Supervisor) {
    let (guard, guard_child) = StoreGuardHandle::child_spec(store.clone());
    let client = WebhookClient::new(url, Duration::from_secs(10)).expect("a client");
    let config = CourierConfig { client, api_key: None, secrets: None, min_backoff: Duration::from_millis(1) };
    let (handle, child) = CourierHandle::child_spec(config, store.clone(), guard);
    let supervisor = Supervisor::new("courier");
    supervisor.start(SupervisorSpec::one_for_one(vec![guard_child, child])).await.expect("starts");
    (handle, supervisor)
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_events_reach_a_receiver_that_fails_half_of_the_time_and_few_of_them_are_in_memory() {
    let (store, receiver) = (open_store().await, Receiver::default());
    let url = receiver.listen().await;
    let blocks: Vec<BlockEvents> = (1..=20).map(|height| block(height, 500)).collect();
    store.store_blocks(&blocks, NOW, 20_000).await.expect("stored");
    let (courier, supervisor) = start_courier(&store, url).await;
    let delivered = receiver.wait_for(10_000);
    tokio::pin!(delivered);
    let mut most = 0;
    let taken = loop {
        tokio::select! {
            taken = &mut delivered => break taken,
            state = courier.observe() => {
                let queued = state.and_then(|state| state["queued"].as_u64()).unwrap_or(0);
                most = most.max(queued);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    };
    assert!(taken.is_sorted() && taken.len() == 10_000, "{}", taken.len());
    assert!(most <= 2 * BATCH as u64, "{most} events were in memory");
    supervisor.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_fails_half_of_the_time_gets_every_event_in_order() {
    let (store, receiver) = (open_store().await, Receiver::default());
    let url = receiver.listen().await;
    store.store_blocks(&[block(1, 100)], NOW, 10_000).await.expect("stored");
    let (courier, supervisor) = start_courier(&store, url.clone()).await;
    receiver.wait_for(50).await;
    for height in 2..=5 {
        store.store_blocks(&[block(height, 50)], NOW, 10_000).await.expect("stored");
        courier.events_stored();
    }
    // A crash repeats the last deliveries, and nothing else.
    supervisor.shutdown(Duration::from_secs(5)).await;
    let (courier, supervisor) = start_courier(&store, url).await;
    courier.events_stored();
    let taken = receiver.wait_for(300).await;
    let first_times: Vec<&String> =
        taken.iter().enumerate().filter(|(place, id)| !taken[..*place].contains(id)).map(|(_, id)| id).collect();
    assert!(first_times.is_sorted() && first_times.len() == 300);
    assert!(taken.len() < 300 + 2 * BATCH, "{}", taken.len());
    supervisor.shutdown(Duration::from_secs(5)).await;
    while store.outbox_sizes().await.expect("read").stored > BATCH as u64 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_after_an_orderly_end_repeats_nothing() {
    let (store, receiver) = (open_store().await, Receiver::default());
    let url = receiver.listen().await;
    store.store_blocks(&[block(1, 200)], NOW, 10_000).await.expect("stored");
    let (courier, supervisor) = start_courier(&store, url.clone()).await;
    receiver.wait_for(20).await;
    courier.finish(Duration::from_secs(60)).await;
    supervisor.shutdown(Duration::from_secs(5)).await;
    let (_, supervisor) = start_courier(&store, url).await;
    let taken = receiver.wait_for(200).await;
    assert!(taken.is_sorted() && taken.len() == 200, "{}", taken.len());
    assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), 200);
    supervisor.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn above_the_bound_the_oldest_events_become_gaps_that_name_their_heights() {
    let store = open_store().await;
    for height in 1..=50 {
        store.store_blocks(&[block(height, 20)], NOW, 100).await.expect("stored");
    }
    let left = store.next_events(0, 1_000).await.expect("read");
    assert_eq!((left.len(), left[0].height), (100, 46));
    let gaps = store.event_gaps(None, 10).await.expect("read");
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert_eq!((gaps[0].from_height, gaps[0].to_height, gaps[0].count), (1, 45, 900));
    let sizes = store.outbox_sizes().await.expect("read");
    assert_eq!((sizes.stored, sizes.dead_letters, sizes.oldest_at), (100, 0, Some(NOW)));
    assert_eq!(store.event_cursor().await.expect("read"), Some(50));
}

#[tokio::test]
async fn dead_letters_are_listed_tried_again_and_removed() {
    let store = open_store().await;
    store.store_blocks(&[block(1, 3)], NOW, 100).await.expect("stored");
    let events = store.next_events(0, 10).await.expect("read");
    let letter = |event: &OutboxEvent| svc_agent_store::DeadLetter {
        event: event.clone(),
        attempts: 2,
        last_status: Some(422),
        last_error: None,
        moved_at: NOW + 1,
    };
    store.settle_events(&[events[0].number], &[letter(&events[1]), letter(&events[2])]).await.expect("settled");
    let sizes = store.outbox_sizes().await.expect("read");
    assert_eq!((sizes.stored, sizes.dead_letters, sizes.oldest_at), (2, 2, None));
    let listed = store.dead_letters(None, 1).await.expect("read");
    assert_eq!(listed, [letter(&events[1])]);
    assert_eq!(store.dead_letters(Some(&listed[0].event.id), 10).await.expect("read"), [letter(&events[2])]);
    assert_eq!(store.retry_dead_letter(&events[1].id, NOW + 9).await.expect("queued"), Some(letter(&events[1])));
    assert_eq!(store.retry_dead_letter(&events[1].id, NOW + 9).await.expect("gone"), None);
    let queued = store.next_events(3, 10).await.expect("read");
    assert_eq!((queued[0].number, &queued[0].id, queued[0].stored_at), (4, &events[1].id, NOW + 9));
    assert!(store.remove_dead_letter(&events[2].id).await.expect("removed"));
    assert!(!store.remove_dead_letter(&events[2].id).await.expect("gone"));
    assert_eq!(store.outbox_sizes().await.expect("read").stored, 1);
}
