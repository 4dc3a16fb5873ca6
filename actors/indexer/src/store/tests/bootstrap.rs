//! A first state in pages, with a process that dies between any two transactions.

use svc_test_support::postgres_server::PostgresServer;

use super::*;
use crate::derive::stats::{StatsMetric, StatsScope};

const HASH: &str = "A5";

/// The rows of a page at height 5: an ecosystem with a measure that every page adds to.
fn page(id: u64) -> BlockWrite {
    let body = serde_json::json!({"name": format!("{id}")});
    let mut rows = BlockWrite {
        height: 5,
        time: 5_000_000_000,
        changes: vec![EntityChange {
            corporation_id: Some(1),
            ..EntityChange::new(EntityKind::Ecosystem, Some(id), Some(body))
        }],
        ..BlockWrite::default()
    };
    rows.deltas.add(StatsScope::Global, StatsMetric::ActiveEcosystems, 1);
    rows
}

async fn begin(store: &IndexStore, block: (u64, &str)) -> Option<StoredStart> {
    store.begin_start(block, "first", |position| position != "unknown").await.expect("begins")
}

async fn ids(store: &IndexStore, height: u64) -> Vec<u64> {
    let found = store.list_all(EntityKind::Ecosystem, height, &EntityFilter::default()).await.expect("lists");
    found.into_iter().map(|stored| stored.id).collect()
}

async fn a_start_goes_on_after_any_page_and_shows_nothing_before_its_block(url: &str) {
    for pages in 0_u64..4 {
        // The process dies after each transaction.
        let open = async || IndexStore::open(url, "c").await.expect("opens").with_write_pool();
        let store = open().await;
        let stored = begin(&store, (5, HASH)).await.expect("there is no block");
        assert_eq!((stored.pages, stored.position.as_str()), (pages, if pages == 0 { "first" } else { "next" }));
        let is_last = pages == 3;
        store.write_start_page(&stored, ("next", is_last), &page(pages + 1)).await.expect("written");
        assert_eq!(store.checkpoint().await.expect("reads").height, 0);
        assert_eq!(ids(&store, 0).await, [0; 0], "without a block no read finds a row");
        // The same page of a process that has not heard of it.
        let again = store.write_start_page(&stored, ("next", is_last), &page(pages + 1)).await;
        assert!(matches!(again, Err(IndexStoreError::StartMoved)), "{again:?}");
        let block = BlockWrite { hash: Some(HASH.to_owned()), ..page(1) };
        if !is_last {
            let early = store.write_block(&block).await;
            assert!(matches!(early, Err(IndexStoreError::StartMoved)), "{early:?}");
            store.close().await;
            continue;
        }
        let other = store.write_block(&BlockWrite { hash: Some("B5".to_owned()), ..page(1) }).await;
        assert!(matches!(other, Err(IndexStoreError::StartMoved)), "{other:?}");
        // The block replaces a row of its height.
        store.write_block(&block).await.expect("written");
        assert_eq!((store.checkpoint().await.expect("reads").height, ids(&store, 5).await), (5, vec![1, 2, 3, 4]));
        let measures = store.measures(StatsScope::Global, 5).await.expect("reads");
        assert_eq!(measures.get(StatsMetric::ActiveEcosystems), 5);
        assert_eq!(store.stored_start().await.expect("reads"), None);
        assert_eq!(begin(&store, (5, HASH)).await, None);
        store.close().await;
    }
}

#[tokio::test]
async fn in_a_file_a_start_goes_on_after_any_page_and_shows_nothing_before_its_block() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = format!("sqlite://{}?mode=rwc", directory.path().join("index.db").display());
    a_start_goes_on_after_any_page_and_shows_nothing_before_its_block(&url).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_postgresql_a_start_goes_on_after_any_page_and_shows_nothing_before_its_block() {
    let Some(server) = PostgresServer::start(None) else { return };
    a_start_goes_on_after_any_page_and_shows_nothing_before_its_block(&server.url()).await;
}

#[tokio::test]
async fn the_pages_of_another_block_or_another_release_make_way() {
    let store = IndexStore::open("sqlite::memory:", "c").await.expect("opens").with_write_pool();
    for (block, position, is_kept) in [
        ((5, HASH), "next", true),
        ((5, "B5"), "next", false),
        ((6, "B5"), "next", false),
        ((6, "B5"), "unknown", true),
        // The position of the pages before is of another release.
        ((6, "B5"), "next", false),
    ] {
        let before = store.stored_start().await.expect("reads").map_or(0, |stored| stored.pages);
        let stored = begin(&store, block).await.expect("there is no block");
        assert_eq!(stored.pages, if is_kept { before } else { 0 }, "{block:?} {position}");
        let rows = BlockWrite { height: block.0, ..page(stored.pages + 1) };
        store.write_start_page(&stored, (position, false), &rows).await.expect("written");
        let expected: Vec<u64> = (1..=stored.pages + 1).collect();
        assert_eq!(ids(&store, 9).await, expected, "{block:?} {position}");
    }
}
