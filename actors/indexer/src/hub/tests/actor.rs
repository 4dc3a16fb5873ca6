//! Tests of the hub as an actor, with a trust stream in memory.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use serde_json::{Value, json};
use svc_kit::supervision::{Supervisor, SupervisorSpec};
use svc_wire::trust_stream::{
    ListChange, MeasureFlags, RecordedDidChange, RecordedTrustBlock, TrustChannels, TrustState,
};

use crate::{
    hub::{ControlMessage, HubConnection, HubHandle, HubSettings, SubscriptionFilter, TrustTopic},
    store::{Checkpoint, IndexStoreError, TrustSource},
};

/// Evaluated blocks in memory, with faults for the next loads.
#[derive(Clone, Default)]
struct FakeTrustSource(Arc<Mutex<FakeSourceState>>);

#[derive(Default)]
struct FakeSourceState {
    blocks: Vec<RecordedTrustBlock>,
    faults: VecDeque<SourceFault>,
    loads: usize,
}

#[derive(Clone, Copy)]
enum SourceFault {
    /// The load fails.
    Failure,
    /// The first block is missing.
    MissingBlock,
}

impl FakeTrustSource {
    fn with<R>(&self, change: impl FnOnce(&mut FakeSourceState) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, blocks: impl IntoIterator<Item = RecordedTrustBlock>) {
        self.with(|state| state.blocks.extend(blocks));
    }
}

impl TrustSource for FakeTrustSource {
    fn checkpoint(&self) -> BoxFuture<'_, Result<Checkpoint, IndexStoreError>> {
        let height = self.with(|state| state.blocks.last().map_or(0, |block| block.block));
        Box::pin(async move { Ok(Checkpoint { height, time: i128::from(height) * 1_000_000_000 }) })
    }

    fn blocks(&self, first: u64, last: u64) -> BoxFuture<'_, Result<Vec<RecordedTrustBlock>, IndexStoreError>> {
        let found = self.with(|state| {
            state.loads += 1;
            let from = |first| state.blocks.iter().filter(move |block| (first..=last).contains(&block.block)).cloned();
            match state.faults.pop_front() {
                Some(SourceFault::Failure) => Err(IndexStoreError::CorruptRow("a fault of the test".into())),
                Some(SourceFault::MissingBlock) => Ok(from(first + 1).collect()),
                None => Ok(from(first).collect()),
            }
        });
        Box::pin(async move { found })
    }
}

fn block(height: u64, changes: Vec<RecordedDidChange>) -> RecordedTrustBlock {
    RecordedTrustBlock { block: height, block_time: format!("t{height}"), changes }
}

fn blocks(heights: std::ops::RangeInclusive<u64>) -> impl Iterator<Item = RecordedTrustBlock> {
    heights.map(|height| block(height, Vec::new()))
}

struct HubFixture {
    hub: HubHandle<TrustTopic>,
    supervisor: Supervisor,
}

/// Starts a hub of the blocks in memory, with `max_buffered_bytes` for each connection.
async fn hub(memory: &FakeTrustSource, start: u64, max_buffered_bytes: usize) -> HubFixture {
    let settings = HubSettings {
        block_interval: Duration::from_millis(100).into(),
        first_height: start.into(),
        max_buffered_bytes,
    };
    let (hub, child) = HubHandle::child_spec(TrustTopic::new(memory.clone()), settings);
    let supervisor = Supervisor::new("test");
    supervisor.start(SupervisorSpec::one_for_one(vec![child])).await.expect("starts");
    HubFixture { hub, supervisor }
}

async fn next(join: &mut HubConnection) -> Value {
    let frame = join.frames.next().await.expect("open");
    join.frames.mark_sent(&frame);
    let text = String::from_utf8_lossy(&frame);
    serde_json::from_str(&text[text.find('{').expect("JSON")..]).expect("JSON")
}

impl HubFixture {
    /// Joins and subscribes; returns the connection with `ready` and `subscribed`.
    async fn subscribe(&self, filter: SubscriptionFilter<TrustChannels>) -> (HubConnection, Value, Value) {
        let mut join = self.hub.join().await.expect("joins");
        let ready = next(&mut join).await;
        self.hub.send_control(join.id, ControlMessage::Subscribe(filter)).await.expect("subscribes");
        let subscribed = next(&mut join).await;
        (join, ready, subscribed)
    }
}

fn everything() -> SubscriptionFilter<TrustChannels> {
    SubscriptionFilter { view: TrustChannels::all(MeasureFlags::default()), ..SubscriptionFilter::default() }
}

#[tokio::test]
async fn ready_and_subscribed_name_the_next_block() {
    let memory = FakeTrustSource::default();
    let fixture = hub(&memory, 40, 1 << 20).await;
    let (mut join, ready, subscribed) = fixture.subscribe(everything()).await;
    let time = "1970-01-01T00:00:00.000Z";
    assert_eq!(ready, json!({"type": "ready", "block": 40, "blockTime": time, "blockIntervalMs": 100}));
    assert_eq!(subscribed, json!({"type": "subscribed", "block": 40, "blockTime": time}));
    memory.add(blocks(40..=41));
    for block in blocks(40..=41) {
        fixture.hub.publish_block(block).expect("published");
    }
    assert_eq!(next(&mut join).await, json!({"type": "block", "block": 40, "blockTime": "t40", "changes": []}));
    assert_eq!(next(&mut join).await["block"], 41);
    let (_, ready, subscribed) = fixture.subscribe(everything()).await;
    assert_eq!((&ready["block"], &ready["blockTime"]), (&json!(42), &json!("t41")));
    assert_eq!(subscribed, json!({"type": "subscribed", "block": 42, "blockTime": "t41"}));
    // The next incarnation begins at the checkpoint of the source.
    assert!(fixture.supervisor.kill("trust_hub").await);
    assert!(join.frames.next().await.is_none(), "its connections end");
    fixture.supervisor.shutdown(Duration::from_secs(1)).await;
    let (_, ready, _) = hub(&memory, 40, 1 << 20).await.subscribe(everything()).await;
    assert_eq!((&ready["block"], &ready["blockTime"]), (&json!(42), &json!("1970-01-01T00:00:41.000Z")));
}

#[tokio::test]
async fn blocks_that_the_hub_did_not_receive_come_from_the_source() {
    let memory = FakeTrustSource::default();
    memory.add(blocks(1..=5));
    let fixture = hub(&memory, 1, 1 << 20).await;
    let (mut join, ready, _) = fixture.subscribe(everything()).await;
    assert_eq!(ready["block"], 6);
    // A distance of several loads, a repeated block, and a block that is already published.
    memory.add(blocks(6..=200));
    for height in [200, 200, 3] {
        fixture.hub.publish_block(block(height, Vec::new())).expect("published");
    }
    for height in 6..=200 {
        assert_eq!(next(&mut join).await["block"], height);
    }
}

#[tokio::test]
async fn a_failed_load_is_repeated() {
    let memory = FakeTrustSource::default();
    memory.add(blocks(1..=5));
    let fixture = hub(&memory, 1, 1 << 20).await;
    let (mut join, ..) = fixture.subscribe(everything()).await;
    memory.add(blocks(6..=8));
    memory.with(|state| state.faults = [SourceFault::Failure, SourceFault::MissingBlock, SourceFault::Failure].into());
    fixture.hub.publish_block(block(8, Vec::new())).expect("published");
    for height in 6..=8 {
        assert_eq!(next(&mut join).await["block"], height);
    }
    assert_eq!(memory.with(|state| state.loads), 4, "without another block");
}

#[tokio::test]
async fn dropped_blocks_are_published_without_another_block() {
    let memory = FakeTrustSource::default();
    memory.add(blocks(1..=5));
    let fixture = hub(&memory, 1, 1 << 20).await;
    let (mut join, ..) = fixture.subscribe(everything()).await;
    memory.add(blocks(6..=200));
    for block in blocks(7..=200) {
        fixture.hub.publish_block(block).expect("published");
    }
    for height in 6..=200 {
        assert_eq!(next(&mut join).await["block"], height);
    }
}

#[tokio::test]
async fn a_subscriber_receives_the_changes_of_its_filter_and_channels() {
    let fixture = hub(&FakeTrustSource::default(), 1, 1 << 20).await;
    let trust = TrustState {
        trusted: true,
        evaluated_at_time: "t1".into(),
        evaluated_at_block: 1,
        expires_at_time: None,
        corporation_id: 11,
    };
    let figures = ListChange {
        measures: MeasureFlags { participants: true, ..MeasureFlags::default() },
        ..ListChange::default()
    };
    let change = |did: &str, corporation_id| RecordedDidChange {
        did: did.to_owned(),
        corporation_id,
        trust: (corporation_id == 11).then(|| trust.clone()),
        services: true,
        ecosystems: figures,
        ..RecordedDidChange::default()
    };
    let block = block(1, vec![change("did:web:a", 11), change("did:web:b", 12), change("did:web:c", 11)]);
    let on_trust = TrustChannels { trust: true, ..TrustChannels::default() };
    let on_services = TrustChannels { services: true, ..TrustChannels::default() };
    let counted = TrustChannels { ecosystems: Some(figures.measures), ..TrustChannels::default() };
    let uncounted = TrustChannels { ecosystems: Some(MeasureFlags::default()), ..TrustChannels::default() };
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
        joined
            .push(fixture.subscribe(SubscriptionFilter { dids, corporation_id: *corporation_id, view: *view }).await.0);
    }
    fixture.hub.publish_block(block).expect("published");
    for (join, (dids, corporation_id, view, changes)) in joined.iter_mut().zip(wanted) {
        let expected = json!({"type": "block", "block": 1, "blockTime": "t1", "changes": changes});
        assert_eq!(next(join).await, expected, "{dids:?} {corporation_id:?} {view:?}");
    }
}

/// A full queue closes its own connection; other subscribers receive every block.
#[tokio::test]
async fn a_full_queue_closes_only_its_own_connection() {
    let fixture = hub(&FakeTrustSource::default(), 1, 16_384).await;
    let (mut idle, ..) = fixture.subscribe(everything()).await;
    let (mut busy, ..) = fixture.subscribe(everything()).await;
    for height in 1..=100 {
        let block = RecordedTrustBlock { block_time: "t".repeat(1_000), ..block(height, Vec::new()) };
        fixture.hub.publish_block(block).expect("published");
        assert_eq!(next(&mut busy).await["block"], height);
    }
    let mut frames = 0;
    while idle.frames.next().await.is_some() {
        frames += 1;
    }
    // 16 KiB in frames of a kilobyte, and at most one more.
    assert!((14..=17).contains(&frames), "{frames} frames were queued");
}
