//! The writer against a real SQLite file: full, removed, replaced, shortened.

mod group_commits;
mod whole_writes;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use sqlx::{
    AssertSqlSafe, Sqlite, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use svc_test_support::small_disk;

use crate::{ConnectionCounter, StoreError, StoreWriter};

struct TestStore {
    path: PathBuf,
    writer: StoreWriter<Sqlite>,
    /// Pages that a new connection may use.
    max_pages: Arc<AtomicU32>,
}

impl TestStore {
    async fn open(directory: &Path) -> Self {
        let (path, max_pages) = (directory.join("test.db"), Arc::new(AtomicU32::new(100_000)));
        let (connections, limit) = (ConnectionCounter::default(), Arc::clone(&max_pages));
        let options = SqliteConnectOptions::new()
            .filename(&path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full);
        let counter = connections.clone();
        let pool = SqlitePoolOptions::new().max_connections(1).after_connect(move |connection, _| {
            counter.count();
            let sql = format!("PRAGMA max_page_count = {}", limit.load(Ordering::Acquire));
            Box::pin(async move { sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.map(drop) })
        });
        let pool = pool.connect_with(options).await.expect("connects");
        sqlx::raw_sql("CREATE TABLE IF NOT EXISTS entry (number INTEGER PRIMARY KEY, body BLOB)")
            .execute(&pool)
            .await
            .expect("creates");
        let writer = StoreWriter::new(pool, connections, true, Some(&path)).await.expect("opens");
        Self { path, writer, max_pages }
    }

    async fn write(&self, number: i64, size: usize) -> Result<(), StoreError> {
        let mut transaction = self.writer.begin().await?;
        let insert = sqlx::query("INSERT INTO entry (number, body) VALUES (?, ?)").bind(number).bind(vec![7_u8; size]);
        insert.execute(&mut *transaction).await?;
        transaction.commit().await
    }

    /// The numbers that a program finds which opens the file by itself.
    async fn numbers_on_disk(&self) -> Vec<i64> {
        let pool = SqlitePool::connect_with(SqliteConnectOptions::new().filename(&self.path)).await.expect("connects");
        let numbers = sqlx::query_scalar("SELECT number FROM entry ORDER BY number").fetch_all(&pool).await;
        pool.close().await;
        numbers.expect("reads")
    }
}

#[tokio::test]
async fn a_transaction_without_commit_has_not_happened() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = TestStore::open(directory.path()).await;
    store.write(1, 10).await.expect("written");
    let mut abandoned = store.writer.begin().await.expect("begun");
    sqlx::raw_sql("INSERT INTO entry (number) VALUES (2)").execute(&mut *abandoned).await.expect("inserted");
    drop(abandoned);
    assert_eq!(store.numbers_on_disk().await, [1]);
    store.write(3, 10).await.expect("the next one has a connection of its own");
    assert_eq!((store.numbers_on_disk().await, store.writer.last_commit()), (vec![1, 3], 2));
}

#[tokio::test]
async fn every_acknowledged_commit_is_on_disk_while_the_database_is_full_and_afterwards() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = TestStore::open(directory.path()).await;
    store.max_pages.store(10, Ordering::Release);
    // A new connection has the new limit.
    drop(store.writer.begin().await.expect("begun"));
    let mut acknowledged = Vec::new();
    for number in 1..=12 {
        let size = if number % 3 == 0 { 40_000 } else { 10 };
        match store.write(number, size).await {
            Ok(()) => acknowledged.push(number),
            Err(StoreError::Database(error)) => assert!(error.to_string().contains("full"), "{error}"),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(acknowledged, [1, 2, 4, 5, 7, 8, 10, 11]);
    assert_eq!(store.numbers_on_disk().await, acknowledged);
    store.max_pages.store(100_000, Ordering::Release);
    drop(store.writer.begin().await.expect("begun"));
    store.write(13, 40_000).await.expect("there is space again");
    assert_eq!(store.numbers_on_disk().await.last(), Some(&13));
}

#[test]
fn every_acknowledged_commit_is_on_a_disk_that_fills_and_empties() {
    small_disk::run("tests::every_acknowledged_commit_is_on_a_disk_that_fills_and_empties", |directory| {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let store = TestStore::open(directory).await;
            let (mut acknowledged, mut failed, mut number) = (Vec::new(), 0, 0);
            for _ in 0..4 {
                let filler = small_disk::fill(directory);
                for _ in 0..6 {
                    number += 1;
                    match store.write(number, 20_000).await {
                        Ok(()) => acknowledged.push(number),
                        Err(StoreError::Database(_)) => failed += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
                std::fs::remove_file(filler).expect("removed");
                number += 1;
                store.write(number, 2_000).await.expect("there is space again");
                acknowledged.push(number);
            }
            let on_disk = store.numbers_on_disk().await;
            assert!(failed > 4, "{failed} commits failed");
            let lost: Vec<_> = acknowledged.iter().filter(|number| !on_disk.contains(number)).collect();
            assert!(lost.is_empty(), "acknowledged and not on disk: {lost:?}");
        });
    });
}

#[tokio::test]
async fn a_file_that_does_not_stay_as_it_was_ends_all_writing() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 6] = [
        ("removed", |path| std::fs::remove_file(path).expect("removed")),
        ("shortened", |path| std::fs::File::create(path).map(drop).expect("emptied")),
        ("replaced", |path| {
            let copy = path.with_extension("copy");
            std::fs::copy(path, &copy).expect("copied");
            std::fs::rename(copy, path).expect("renamed");
        }),
        ("removed", |path| std::fs::remove_file(wal(path)).expect("removed")),
        ("shortened", |path| std::fs::File::create(wal(path)).map(drop).expect("emptied")),
        ("replaced", |path| {
            let copy = path.with_extension("copy");
            std::fs::copy(wal(path), &copy).expect("copied");
            std::fs::rename(copy, wal(path)).expect("renamed");
        }),
    ];
    for (word, damage) in damages {
        let directory = tempfile::tempdir().expect("a directory");
        let store = TestStore::open(directory.path()).await;
        store.write(1, 10).await.expect("written");
        store.write(2, 10).await.expect("written");
        damage(&store.path);
        let reason = store.write(3, 10).await.expect_err("refused").to_string();
        assert!(reason.contains(word), "{word}: {reason}");
        for number in [4, 5] {
            // The log may have restored a database that was shortened: then nothing is lost.
            if store.write(number, 10).await.is_ok() {
                let on_disk = store.numbers_on_disk().await;
                assert!(
                    word == "shortened" && [1, 2, number].iter().all(|one| on_disk.contains(one)),
                    "{word}: {on_disk:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_database_with_fewer_commits_than_before_is_noticed() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = TestStore::open(directory.path()).await;
    for number in 1..=3 {
        store.write(number, 10).await.expect("written");
    }
    sqlx::raw_sql("UPDATE store_commit SET number = 1").execute(store.writer.pool()).await.expect("changed");
    let Err(StoreError::Lost(reason)) = store.write(4, 10).await else { panic!("was written") };
    assert_eq!(reason, "the database has lost commits: it shows 1 of 3");
}

fn wal(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

#[tokio::test]
async fn another_program_may_merge_the_log() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = TestStore::open(directory.path()).await;
    for number in [1, 2] {
        store.write(number, 10).await.expect("written");
    }
    let pool = SqlitePool::connect_with(SqliteConnectOptions::new().filename(&store.path)).await.expect("connects");
    sqlx::raw_sql("PRAGMA wal_checkpoint(TRUNCATE)").execute(&pool).await.expect("merged");
    pool.close().await;
    assert!(matches!(store.write(3, 10).await, Err(StoreError::Changed(_))));
    store.write(4, 10).await.expect("a new connection shows that nothing is lost");
    assert_eq!(store.numbers_on_disk().await, [1, 2, 4]);
}
