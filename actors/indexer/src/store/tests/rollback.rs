//! Rollbacks of random histories: the store is then that of an index which was given the kept blocks alone.

use serde_json::json;
use svc_test_support::postgres_server::PostgresServer;
use svc_wire::event_stream::{EventPayload, IndexerEvent, IndexerEventTag};

use crate::{
    boot::roll_back,
    derive::stats::{StatsDeltas, StatsMetric, StatsScope},
    store::{
        BlockWrite, EntityActivity, EntityChange, EntityKind, IndexStore, ScheduledChange, TrustWrite, VerdictWrite,
    },
};

/// Every table with versions, a row in a text. Verdicts are entities.
const DUMPS: [&str; 9] = [
    "SELECT 'block ' || height || ' ' || time || ' ' || COALESCE(hash, '-') FROM block",
    "SELECT 'entity ' || kind || ' ' || id || ' ' || from_height || ' ' || COALESCE(CAST(until_height AS TEXT), '-') || ' ' \
     || COALESCE(CAST(corporation_id AS TEXT), '-') || ' ' || COALESCE(CAST(parent_id AS TEXT), '-') || ' ' || COALESCE(name, '-') || ' ' \
     || COALESCE(did, '-') || ' ' || body FROM entity",
    "SELECT 'lookup ' || kind || ' ' || attribute || ' ' || value || ' ' || id FROM entity_lookup",
    "SELECT 'schedule ' || due || ' ' || kind || ' ' || id || ' ' || height FROM schedule",
    "SELECT 'event ' || height || ' ' || position || ' ' || body FROM event",
    "SELECT 'route ' || route || ' ' || height || ' ' || position FROM event_route",
    "SELECT 'activity ' || id || ' ' || height || ' ' || time || ' ' || entity_key || ' ' || msg FROM activity",
    "SELECT 'measure ' || scope || ' ' || scope_id || ' ' || height || ' ' || time || ' ' || body FROM measure",
    "SELECT 'bucket ' || id || ' ' || granularity || ' ' || opens || ' ' || scope || ' ' || scope_id || ' ' || from_height FROM bucket",
];

async fn dump(store: &IndexStore) -> Vec<String> {
    let mut rows = Vec::new();
    for statement in DUMPS {
        rows.extend(store.texts(statement).await);
    }
    rows
}

/// A sequence of numbers that look like chance.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn body(&mut self, height: u64) -> Option<serde_json::Value> {
        (self.below(6) > 0).then(|| json!({"height": height, "branch": self.0}))
    }

    fn did(&mut self) -> String {
        format!("did:web:{}.example", self.below(3))
    }
}

enum Write {
    Block(BlockWrite),
    Trust(TrustWrite),
}

/// Time between blocks: a third of an hour, so that buckets open.
const BLOCK_NANOS: i128 = 1_200_000_000_000;

fn block(chance: &mut Chance, branch: &str, height: u64) -> BlockWrite {
    let time = i128::from(height) * BLOCK_NANOS;
    let mut block = BlockWrite { height, time, hash: Some(format!("{branch}{height}")), ..BlockWrite::default() };
    for id in 1..=4 {
        if chance.below(4) == 0 {
            block.changes.push(EntityChange {
                corporation_id: Some(chance.below(3) + 1),
                parent_id: Some(chance.below(2) + 1),
                did: Some(chance.did()),
                ..EntityChange::new(EntityKind::Participant, Some(id), chance.body(height))
            });
        }
    }
    // The store assigns the ids of grants.
    for name in ["a", "b", "c"] {
        if chance.below(5) == 0 {
            block.changes.push(EntityChange {
                corporation_id: Some(1),
                name: Some(name.to_owned()),
                ..EntityChange::new(EntityKind::FeeGrant, None, chance.body(height))
            });
        }
    }
    for _ in 0..chance.below(3) {
        let due = time + i128::from(chance.below(9)) * BLOCK_NANOS;
        block.schedule.push(ScheduledChange { due, kind: EntityKind::Participant, id: chance.below(4) + 1 });
        block.activity.push(EntityActivity {
            entity_type: "Participant",
            entity_key: chance.below(4).to_string(),
            message: format!("Message{}", chance.below(9)),
            account: None,
            changes: None,
        });
        let payload = EventPayload { corporation_id: Some(chance.below(3)), ..EventPayload::default() };
        block.events.push(IndexerEvent {
            type_tag: IndexerEventTag::IndexerEvent,
            event_type: "Event".to_owned(),
            did: Some(chance.did()),
            block_height: height,
            tx_hash: format!("{branch}{}", chance.below(99)),
            timestamp: String::new(),
            payload,
        });
        let mut deltas = StatsDeltas::default();
        deltas.add(StatsScope::Corporation(chance.below(2)), StatsMetric::Weight, 1);
        deltas.add(StatsScope::Ecosystem(chance.below(2)), StatsMetric::Issued, 1);
        block.deltas = deltas;
    }
    block
}

fn round(chance: &mut Chance, height: u64) -> TrustWrite {
    let verdict = |chance: &mut Chance| VerdictWrite {
        did: chance.did(),
        corporation_id: chance.below(3),
        body: chance.body(height),
        evidence_keys: vec![format!("evidence {}", chance.below(3))],
        fetched_keys: Vec::new(),
    };
    TrustWrite { height, verdicts: vec![verdict(chance)], ..TrustWrite::default() }
}

fn history(chance: &mut Chance, branch: &str, heights: std::ops::RangeInclusive<u64>) -> Vec<Write> {
    let mut writes = Vec::new();
    for height in heights {
        writes.push(Write::Block(block(chance, branch, height)));
        if chance.below(2) == 0 {
            writes.push(Write::Trust(round(chance, height)));
        }
    }
    writes
}

async fn apply(store: &IndexStore, writes: &[Write], newest: u64) {
    for write in writes {
        match write {
            Write::Block(block) if block.height <= newest => store.write_block(block).await.expect("writes"),
            Write::Trust(round) if round.height <= newest => store.write_trust(round).await.expect("writes"),
            Write::Block(_) | Write::Trust(_) => {}
        }
    }
}

/// A database of each kind of URL, and one that is given the kept blocks alone.
async fn assert_rollback_is_exact(url: &str, seed: u64) {
    let chance = &mut Chance(seed);
    let (newest, kept) = (13 + chance.below(12), 1 + chance.below(12));
    let before = history(chance, "A", 1..=newest);
    let fresh = IndexStore::open("sqlite::memory:", "c").await.expect("opens");
    apply(&fresh, &before, kept).await;
    let store = IndexStore::open(url, "c").await.expect("opens");
    apply(&store, &before, newest).await;
    let judged = store.trust_checkpoint().await.expect("reads").height;
    if chance.below(2) == 0 && !url.contains(":memory:") {
        // A kill between two steps.
        store.remove_blocks_above(newest - (newest - kept) / 2).await.expect("removed");
        store.close().await;
    }
    let store = if url.contains(":memory:") { store } else { IndexStore::open(url, "c").await.expect("opens again") };
    let mut heights = Vec::new();
    let done =
        roll_back(&store, kept, 1 + chance.below(5), &mut |height| heights.push(height)).await.expect("rolls back");
    assert_eq!((done.to, heights.last().copied().unwrap_or(kept)), (kept, kept));
    assert_eq!(dump(&store).await, dump(&fresh).await, "seed {seed}, {newest} to {kept}");
    assert_eq!(store.trust_checkpoint().await.expect("reads").height, judged.min(kept));
    let pending = store.list_pending_dids().await.expect("reads");
    for did in (0..3).map(|number| format!("did:web:{number}.example")) {
        let has_verdict = store.verdict(&did, kept).await.expect("reads").is_some();
        assert!(!has_verdict || pending.contains_key(&did), "{did} is judged again, seed {seed}");
    }
    assert_eq!(store.list_open_evaluations().await.expect("reads"), []);
    // Another history follows, with the ids that a fresh index assigns.
    let after = history(chance, "B", kept + 1..=newest + 5);
    for store in [&store, &fresh] {
        apply(store, &after, u64::MAX).await;
    }
    assert_eq!(dump(&store).await, dump(&fresh).await, "seed {seed}, {newest} to {kept}, with another history");
    store.close().await;
}

#[tokio::test]
async fn after_a_rollback_the_store_is_that_of_a_fresh_index() {
    for seed in 0..60 {
        assert_rollback_is_exact("sqlite::memory:", seed).await;
    }
    for seed in 60..80 {
        let directory = tempfile::tempdir().expect("a directory");
        let url = format!("sqlite://{}?mode=rwc", directory.path().join("index.db").display());
        assert_rollback_is_exact(&url, seed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_rollback_a_postgresql_store_is_that_of_a_fresh_index() {
    for seed in 80..84 {
        let Some(server) = PostgresServer::start(None) else { return };
        assert_rollback_is_exact(&server.url(), seed).await;
    }
}

#[tokio::test]
async fn a_rollback_below_the_oldest_hash_is_refused() {
    let store = IndexStore::open("sqlite::memory:", "c").await.expect("opens");
    let none = roll_back(&store, 1, 1, &mut |_| {}).await.expect_err("refused").to_string();
    assert_eq!(none, "the store has no block yet");
    for height in 1..=6 {
        let hash = (height > 3).then(|| format!("A{height}"));
        let block = BlockWrite { height, time: i128::from(height), hash, ..BlockWrite::default() };
        store.write_block(&block).await.expect("writes");
    }
    for (height, words) in [
        (
            3,
            "the store has no hash of block 3: its oldest one is of block 4; roll back to that height at most, or use a new database",
        ),
        (7, "the store has the heights 1 to 6, not 7"),
        (0, "the store has the heights 1 to 6, not 0"),
    ] {
        assert_eq!(roll_back(&store, height, 1, &mut |_| {}).await.expect_err("refused").to_string(), words);
    }
    assert_eq!(store.checkpoint().await.expect("reads").height, 6, "nothing was removed");
    roll_back(&store, 4, 1, &mut |_| {}).await.expect("rolls back");
    assert_eq!(store.newest_block().await.expect("reads").hash.as_deref(), Some("A4"));
}
