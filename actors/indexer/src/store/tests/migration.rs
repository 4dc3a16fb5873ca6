//! A store of the release before: a marketplace, in the rows that it had written.

use sqlx::{Row, any::AnyPoolOptions};
use svc_store::migrate;
use svc_test_support::postgres_server::PostgresServer;

use crate::store::{EntityFilter, EntityKind, IdRange, IndexStore, index_store::MIGRATIONS};

const ROWS: &str = include_str!("../../../fixtures/store_of_schema_3.sql");

async fn write_old_store(url: &str) {
    sqlx::any::install_default_drivers();
    let pool = AnyPoolOptions::new().max_connections(1).connect(url).await.expect("connects");
    migrate(&pool, &MIGRATIONS[..3]).await.expect("migrates");
    sqlx::raw_sql(ROWS).execute(&pool).await.expect("filled");
    pool.close().await;
}

/// Every list as the statements of the release before found it: a scan of all versions.
async fn assert_same_answers(store: &IndexStore) {
    let sql = "SELECT kind, id, corporation_id, parent_id, name, did, from_height, until_height, body FROM entity ORDER BY kind, id";
    let versions =
        sqlx::query(sql).fetch_all(&mut *store.connection().await.expect("a connection")).await.expect("read");
    let newest = store.checkpoint().await.expect("read").height;
    assert_eq!((newest, versions.len()), (85, 173));
    for height in [newest, 60, 30, 5] {
        for row in &versions {
            let number =
                |index: usize| row.try_get::<Option<i64>, _>(index).expect("a number").map(|id| id.unsigned_abs());
            let text = |index: usize| row.try_get::<Option<String>, _>(index).expect("a text");
            let kind = EntityKind::parse(&text(0).expect("a kind")).expect("known");
            let is_valid = |row: &sqlx::any::AnyRow| {
                let [from, until] =
                    [6, 7].map(|index| row.try_get::<Option<i64>, _>(index).expect("a height").map(i64::unsigned_abs));
                from.is_some_and(|from| from <= height) && until.is_none_or(|until| until > height)
            };
            let filters = [
                (EntityFilter { corporation_id: number(2), ..EntityFilter::default() }, 2),
                (EntityFilter { parent_id: number(3), ..EntityFilter::default() }, 3),
                (EntityFilter { name: text(4), ..EntityFilter::default() }, 4),
                (EntityFilter { did: text(5), ..EntityFilter::default() }, 5),
            ];
            for (filter, column) in filters {
                let value = |row: &sqlx::any::AnyRow| match column {
                    2 | 3 => row.try_get::<Option<i64>, _>(column).expect("a number").map(|id| id.to_string()),
                    _ => row.try_get::<Option<String>, _>(column).expect("a text"),
                };
                let Some(wanted) = value(row) else { continue };
                let same = |other: &&sqlx::any::AnyRow| {
                    other.try_get::<String, _>(0).ok() == text(0)
                        && value(other).as_ref() == Some(&wanted)
                        && is_valid(other)
                };
                let expected: Vec<u64> = versions
                    .iter()
                    .filter(same)
                    .map(|row| row.try_get::<i64, _>(1).expect("an id").unsigned_abs())
                    .collect();
                let found = store.list_page(kind, height, &filter, IdRange::default(), 1_000).await.expect("lists");
                let found: Vec<u64> = found.into_iter().map(|stored| stored.id).collect();
                assert_eq!(found, expected, "{kind:?} {filter:?} at {height}");
            }
            let id = number(1).expect("an id");
            let body = store.entity(kind, id, height).await.expect("reads");
            if is_valid(row) {
                let stored = serde_json::from_str(&text(8).expect("a body")).expect("JSON");
                assert_eq!(body, Some(stored), "{kind:?} {id} at {height}");
            }
        }
    }
}

#[tokio::test]
async fn a_store_of_the_release_before_is_taken_over() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = format!("sqlite://{}?mode=rwc", directory.path().join("index.db").display());
    write_old_store(&url).await;
    assert_same_answers(&IndexStore::open(&url, "svc-devnet-1").await.expect("opens")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_the_release_before_is_taken_over_on_postgresql() {
    let Some(server) = PostgresServer::start(None) else { return };
    write_old_store(&server.url()).await;
    assert_same_answers(&IndexStore::open(&server.url(), "svc-devnet-1").await.expect("opens")).await;
}
