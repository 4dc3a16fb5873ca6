//! The hub as an actor, on a trust stream whose blocks are in memory.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use serde_json::{Value, json};
use svc_kit::supervise::{Supervisor, SupervisorSpec};
use svc_wire::trust::{Channels, Counts, ListChange, RecordedBlock, RecordedChange, TrustState};

use super::{Control, Filter, HubHandle, HubSettings, Join, TrustSource, TrustTopic};
use crate::store::{Checkpoint, StoreError};

/// Evaluated blocks in memory. The next searches go wrong as ordered.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    blocks: Vec<RecordedBlock>,
    troubles: VecDeque<Trouble>,
    searches: usize,
}

#[derive(Clone, Copy)]
enum Trouble {
    /// The search fails.
    Fails,
    /// The first block is not there.
    Lacks,
}

impl Memory {
    fn with<R>(&self, change: impl FnOnce(&mut Kept) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn keep(&self, blocks: impl IntoIterator<Item = RecordedBlock>) {
        self.with(|kept| kept.blocks.extend(blocks));
    }
}

impl TrustSource for Memory {
    fn checkpoint(&self) -> BoxFuture<'_, Result<Checkpoint, StoreError>> {
        let height = self.with(|kept| kept.blocks.last().map_or(0, |block| block.block));
        Box::pin(async move { Ok(Checkpoint { height, time: i128::from(height) * 1_000_000_000 }) })
    }

    fn blocks(&self, first: u64, last: u64) -> BoxFuture<'_, Result<Vec<RecordedBlock>, StoreError>> {
        let found = self.with(|kept| {
            kept.searches += 1;
            let there = |first| kept.blocks.iter().filter(move |block| (first..=last).contains(&block.block)).cloned();
            match kept.troubles.pop_front() {
                Some(Trouble::Fails) => Err(StoreError::Corrupt("on order".into())),
                Some(Trouble::Lacks) => Ok(there(first + 1).collect()),
                None => Ok(there(first).collect()),
            }
        });
        Box::pin(async move { found })
    }
}

fn block(height: u64, changes: Vec<RecordedChange>) -> RecordedBlock {
    RecordedBlock { block: height, block_time: format!("t{height}"), changes }
}

fn blocks(heights: std::ops::RangeInclusive<u64>) -> impl Iterator<Item = RecordedBlock> {
    heights.map(|height| block(height, Vec::new()))
}

struct Grounds {
    hub: HubHandle<TrustTopic>,
    supervisor: Supervisor,
}

/// A hub of what is in memory, with room for so many bytes a connection.
async fn hub(memory: &Memory, start: u64, max_buffered_bytes: usize) -> Grounds {
    let settings = HubSettings { block_interval: Duration::from_millis(100), start, max_buffered_bytes };
    let (hub, child) = HubHandle::child(TrustTopic::new(memory.clone()), settings);
    let supervisor = Supervisor::new("test");
    supervisor.start(SupervisorSpec::one_for_one(vec![child])).await.expect("starts");
    Grounds { hub, supervisor }
}

async fn next(join: &mut Join) -> Value {
    let frame = join.queue.next().await.expect("open");
    join.queue.sent(&frame);
    let text = String::from_utf8_lossy(&frame);
    serde_json::from_str(&text[text.find('{').expect("JSON")..]).expect("JSON")
}

impl Grounds {
    /// Joins and subscribes; the answers to both.
    async fn subscribe(&self, filter: Filter<Channels>) -> (Join, Value, Value) {
        let mut join = self.hub.join().await.expect("joins");
        let ready = next(&mut join).await;
        self.hub.control(join.id, Control::Subscribe(filter)).await.expect("subscribes");
        let subscribed = next(&mut join).await;
        (join, ready, subscribed)
    }
}

fn everything() -> Filter<Channels> {
    Filter { view: Channels::all(Counts::default()), ..Filter::default() }
}

#[tokio::test]
async fn ready_and_subscribed_name_the_block_that_comes_next() {
    let memory = Memory::default();
    let grounds = hub(&memory, 40, 1 << 20).await;
    let (mut join, ready, subscribed) = grounds.subscribe(everything()).await;
    let time = "1970-01-01T00:00:00.000Z";
    assert_eq!(ready, json!({"type": "ready", "block": 40, "blockTime": time, "blockIntervalMs": 100}));
    assert_eq!(subscribed, json!({"type": "subscribed", "block": 40, "blockTime": time}));
    memory.keep(blocks(40..=41));
    for told in blocks(40..=41) {
        grounds.hub.processed(told).expect("told");
    }
    assert_eq!(next(&mut join).await, json!({"type": "block", "block": 40, "blockTime": "t40", "changes": []}));
    assert_eq!(next(&mut join).await["block"], 41);
    let (_, ready, subscribed) = grounds.subscribe(everything()).await;
    assert_eq!((&ready["block"], &ready["blockTime"]), (&json!(42), &json!("t41")));
    assert_eq!(subscribed, json!({"type": "subscribed", "block": 42, "blockTime": "t41"}));
    // A successor begins where the source is.
    assert!(grounds.supervisor.kill("trust_hub").await);
    assert!(join.queue.next().await.is_none(), "its connections end");
    grounds.supervisor.shutdown(Duration::from_secs(1)).await;
    let (_, ready, _) = hub(&memory, 40, 1 << 20).await.subscribe(everything()).await;
    assert_eq!((&ready["block"], &ready["blockTime"]), (&json!(42), &json!("1970-01-01T00:00:41.000Z")));
}

#[tokio::test]
async fn blocks_the_hub_was_not_told_of_come_from_the_source() {
    let memory = Memory::default();
    memory.keep(blocks(1..=5));
    let grounds = hub(&memory, 1, 1 << 20).await;
    let (mut join, ready, _) = grounds.subscribe(everything()).await;
    assert_eq!(ready["block"], 6);
    // Further than one search goes, told twice, and one that is known already.
    memory.keep(blocks(6..=200));
    for height in [200, 200, 3] {
        grounds.hub.processed(block(height, Vec::new())).expect("told");
    }
    for height in 6..=200 {
        assert_eq!(next(&mut join).await["block"], height);
    }
}

#[tokio::test]
async fn a_search_that_finds_nothing_is_made_again_later() {
    let memory = Memory::default();
    memory.keep(blocks(1..=5));
    let grounds = hub(&memory, 1, 1 << 20).await;
    let (mut join, ..) = grounds.subscribe(everything()).await;
    memory.keep(blocks(6..=8));
    memory.with(|kept| kept.troubles = [Trouble::Fails, Trouble::Lacks, Trouble::Fails].into());
    grounds.hub.processed(block(8, Vec::new())).expect("told");
    for height in 6..=8 {
        assert_eq!(next(&mut join).await["block"], height);
    }
    assert_eq!(memory.with(|kept| kept.searches), 4, "without a further block");
}

#[tokio::test]
async fn blocks_that_found_no_room_to_wait_are_told_without_a_further_one() {
    let memory = Memory::default();
    memory.keep(blocks(1..=5));
    let grounds = hub(&memory, 1, 1 << 20).await;
    let (mut join, ..) = grounds.subscribe(everything()).await;
    memory.keep(blocks(6..=200));
    for told in blocks(7..=200) {
        grounds.hub.processed(told).expect("told");
    }
    for height in 6..=200 {
        assert_eq!(next(&mut join).await["block"], height);
    }
}

#[tokio::test]
async fn a_subscriber_hears_what_is_about_it_on_its_channels() {
    let grounds = hub(&Memory::default(), 1, 1 << 20).await;
    let trust = TrustState {
        trusted: true,
        evaluated_at_time: "t1".into(),
        evaluated_at_block: 1,
        expires_at_time: None,
        corporation_id: 11,
    };
    let figures = ListChange { counts: Counts { participants: true, ..Counts::default() }, ..ListChange::default() };
    let change = |did: &str, corporation_id| RecordedChange {
        did: did.to_owned(),
        corporation_id,
        trust: (corporation_id == 11).then(|| trust.clone()),
        services: true,
        ecosystems: figures,
        ..RecordedChange::default()
    };
    let told = block(1, vec![change("did:web:a", 11), change("did:web:b", 12), change("did:web:c", 11)]);
    let on_trust = Channels { trust: true, ..Channels::default() };
    let on_services = Channels { services: true, ..Channels::default() };
    let counted = Channels { ecosystems: Some(figures.counts), ..Channels::default() };
    let uncounted = Channels { ecosystems: Some(Counts::default()), ..Channels::default() };
    let verdict = json!({
        "trusted": true, "evaluatedAtTime": "t1", "evaluatedAtBlock": 1, "expiresAtTime": null, "corporationId": 11,
    });
    let wanted = [
        (
            &[][..],
            None,
            on_trust,
            json!([{"did": "did:web:a", "trust": verdict}, {"did": "did:web:c", "trust": verdict}]),
        ),
        (&["did:web:a", "did:web:b"], None, on_trust, json!([{"did": "did:web:a", "trust": verdict}])),
        (&[], Some(12), on_services, json!([{"did": "did:web:b", "services": true}])),
        (&["did:web:c"], Some(12), on_services, json!([])),
        (&["did:web:c"], Some(11), counted, json!([{"did": "did:web:c", "ecosystems": true}])),
        (&[], None, uncounted, json!([])),
    ];
    let mut joined = Vec::new();
    for (dids, corporation_id, view, _) in &wanted {
        let dids = dids.iter().map(|did| (*did).to_owned()).collect();
        joined.push(grounds.subscribe(Filter { dids, corporation_id: *corporation_id, view: *view }).await.0);
    }
    grounds.hub.processed(told).expect("told");
    for (join, (dids, corporation_id, view, changes)) in joined.iter_mut().zip(wanted) {
        let expected = json!({"type": "block", "block": 1, "blockTime": "t1", "changes": changes});
        assert_eq!(next(join).await, expected, "{dids:?} {corporation_id:?} {view:?}");
    }
}

/// One that takes nothing is given up when its queue is full, by itself; the others hear every block.
#[tokio::test]
async fn a_subscriber_that_takes_nothing_is_given_up_alone() {
    let grounds = hub(&Memory::default(), 1, 16_384).await;
    let (mut idle, ..) = grounds.subscribe(everything()).await;
    let (mut busy, ..) = grounds.subscribe(everything()).await;
    for height in 1..=100 {
        let told = RecordedBlock { block_time: "t".repeat(1_000), ..block(height, Vec::new()) };
        grounds.hub.processed(told).expect("told");
        assert_eq!(next(&mut busy).await["block"], height);
    }
    let mut left = 0;
    while idle.queue.next().await.is_some() {
        left += 1;
    }
    // 16 KiB of frames of a kilobyte, and at most one more.
    assert!((14..=17).contains(&left), "{left} frames were kept");
}
