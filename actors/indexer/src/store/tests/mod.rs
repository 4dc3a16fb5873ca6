use svc_test_support::postgres_server::PostgresServer;

use super::*;

mod bootstrap;
mod curves;
mod migration;
mod plans;
mod rollback;

async fn every_height_keeps_its_own_version(url: &str) {
    let store = IndexStore::open(url, "c").await.expect("opens");
    for height in [1, 2, 3, 3, 2] {
        store.write_block(&block(height)).await.expect("writes; a repeated write has no effect");
    }
    for height in 1..=3 {
        let body = store.entity(EntityKind::Ecosystem, 1, height).await.expect("reads").expect("there");
        assert_eq!(body["height"], height);
    }
    assert_eq!(store.entity(EntityKind::Ecosystem, 1, 0).await.expect("reads"), None);
    assert_eq!(store.checkpoint().await.expect("reads").height, 3);
    assert_eq!(store.oldest_and_newest_block().await.expect("reads").len(), 2);
    // The time of a block is its height in seconds.
    for (instant, height, expected) in [
        (i128::MIN, 3, 0),
        (1_000_000_000, 3, 0),
        (1_000_000_001, 3, 1),
        (2_999_999_999, 3, 2),
        (i128::MAX, 3, 3),
        (i128::MAX, 2, 2),
    ] {
        let found = store.block_before(instant, height).await.expect("reads");
        assert_eq!(found.map_or(0, |block| block.height), expected, "before {instant}, up to {height}");
    }
    assert!(
        matches!(IndexStore::open(url, "other").await, Err(IndexStoreError::ChainMismatch { .. }))
            != url.contains(":memory:")
    );
}

fn block(height: u64) -> BlockWrite {
    let change = EntityChange {
        corporation_id: Some(1),
        ..EntityChange::new(EntityKind::Ecosystem, Some(1), Some(serde_json::json!({"height": height})))
    };
    BlockWrite { height, time: i128::from(height) * 1_000_000_000, changes: vec![change], ..BlockWrite::default() }
}

#[tokio::test]
async fn other_rules_have_every_verdict_made_again() {
    let store = IndexStore::open("sqlite::memory:", "c").await.expect("opens");
    assert!(store.adopt_trust_rules("first").await.expect("adopts"));
    store.write_block(&block(1)).await.expect("writes");
    let verdict = |did: &str| VerdictWrite {
        did: did.to_owned(),
        corporation_id: 1,
        body: Some(serde_json::json!({"trusted": true})),
        evidence_keys: vec!["a".to_owned(), "b".to_owned()],
        fetched_keys: Vec::new(),
    };
    let verdicts = vec![verdict("did:web:a"), verdict("did:web:b")];
    let pending = [("did:web:b".to_owned(), true)];
    let round = TrustWrite { height: 1, verdicts, pending_dids: pending.clone().into(), ..TrustWrite::default() };
    store.write_trust(&round).await.expect("writes");
    assert!(!store.adopt_trust_rules("first").await.expect("knows them"));
    assert_eq!(store.list_pending_dids().await.expect("reads"), pending.clone().into());
    assert!(store.adopt_trust_rules("second").await.expect("adopts"));
    // A DID whose evidence is to be fetched again stays one.
    let all = [("did:web:a".to_owned(), false), pending[0].clone()];
    assert_eq!(store.list_pending_dids().await.expect("reads"), all.into());
}

#[tokio::test]
async fn an_in_memory_database_keeps_every_version() {
    every_height_keeps_its_own_version("sqlite::memory:").await;
}

#[tokio::test]
async fn a_database_file_keeps_every_version() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("index.db");
    every_height_keeps_its_own_version(&format!("sqlite://{}?mode=rwc", path.display())).await;
}

/// A front end drops its query at any point when its client disconnects.
#[tokio::test(flavor = "multi_thread")]
async fn cancelled_reads_lose_no_data() {
    let store = IndexStore::open("sqlite::memory:", "c").await.expect("opens");
    for height in 1..200 {
        let limit = std::time::Duration::from_micros(height * 5 % 300);
        let _ = tokio::time::timeout(limit, store.entity(EntityKind::Ecosystem, 1, height)).await;
        store.write_block(&block(height)).await.expect("writes");
        let _ = tokio::time::timeout(limit, store.checkpoint()).await;
    }
    assert_eq!(store.checkpoint().await.expect("reads").height, 199);
}

#[test]
fn on_a_disk_that_fills_and_empties_every_block_that_was_acknowledged_is_there() {
    let name = "store::tests::on_a_disk_that_fills_and_empties_every_block_that_was_acknowledged_is_there";
    svc_test_support::small_disk::run(name, |directory| {
        tokio::runtime::Runtime::new().expect("a runtime").block_on(fill_and_empty(directory));
    });
}

/// A follower repeats a block until it is written, and goes on with the next.
async fn fill_and_empty(directory: &std::path::Path) {
    let url = format!("sqlite://{}?mode=rwc", directory.join("index.db").display());
    let store = IndexStore::open(&url, "c").await.expect("opens").with_write_pool();
    let (mut height, mut failed) = (0, 0);
    for _ in 0..4 {
        let filler = svc_test_support::small_disk::fill(directory);
        for _ in 0..10 {
            match store.write_block(&block(height + 1)).await {
                Ok(()) => height += 1,
                Err(_) => failed += 1,
            }
        }
        assert_eq!(store.checkpoint().await.expect("reads go on").height, height);
        std::fs::remove_file(filler).expect("removed");
        store.write_block(&block(height + 1)).await.expect("there is space again");
        height += 1;
    }
    assert!(failed > 0, "the disk was never full");
    store.close().await;
    let store = IndexStore::open(&url, "c").await.expect("opens again");
    for height in 1..=height {
        let body = store.entity(EntityKind::Ecosystem, 1, height).await.expect("reads").expect("there");
        assert_eq!(body["height"], height);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_postgresql_keeps_every_block_that_was_acknowledged() {
    let Some(disk) = svc_test_support::small_disk::SmallDisk::mount("size=64m").map(std::sync::Arc::new) else {
        return;
    };
    let Some(mut postgres) = PostgresServer::start(Some(std::sync::Arc::clone(&disk))) else { return };
    let store = IndexStore::open(&postgres.url(), "c").await.expect("opens").with_write_pool();
    let mut height = 0;
    for _ in 0..2 {
        let filler = svc_test_support::small_disk::fill(&disk.outside());
        let mut failed = 0;
        while failed < 3 {
            match store.write_block(&block(height + 1)).await {
                Ok(()) => height += 1,
                Err(_) => failed += 1,
            }
            assert!(height < 20_000, "the disk was never full");
        }
        std::fs::remove_file(filler).expect("removed");
        // PostgreSQL ends when its log cannot be written, and knows after its start which transactions were committed.
        postgres.start_if_ended();
        let found = store.checkpoint().await.expect("reads").height;
        assert!(found == height || found == height + 1, "{height} blocks were acknowledged, {found} are there");
        height = found;
        store.write_block(&block(height + 1)).await.expect("there is space again");
        height += 1;
    }
    store.close().await;
    let store = IndexStore::open(&postgres.url(), "c").await.expect("opens again");
    for height in 1..=height {
        let body = store.entity(EntityKind::Ecosystem, 1, height).await.expect("reads").expect("there");
        assert_eq!(body["height"], height);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_postgresql_server_at_the_same_address_is_not_written_to() {
    let Some(first) = PostgresServer::start(None) else { return };
    let store = IndexStore::open(&first.url(), "c").await.expect("opens").with_write_pool();
    store.write_block(&block(1)).await.expect("writes");
    let second = first.replace();
    let other = IndexStore::open(&second.url(), "c").await.expect("opens");
    for height in 1..=3 {
        other.with_write_pool().write_block(&block(height)).await.expect("writes");
    }
    let mut refusals = Vec::new();
    for _ in 0..3 {
        refusals.push(store.write_block(&block(2)).await.expect_err("refused").to_string());
    }
    assert!(refusals.last().is_some_and(|last| last.contains("is on server")), "{refusals:?}");
}
