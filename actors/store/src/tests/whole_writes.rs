//! Transactions that go to the database as one text.

use sqlx::{AnyConnection, Connection, Row};
use svc_test_support::postgres_server::PostgresServer;

use crate::{AnyDatabase, DatabaseSettings, Durability, StatementBatch, StoreError, TableMigration};

pub(super) const SETTINGS: DatabaseSettings = DatabaseSettings {
    durability: Durability::Machine,
    read_connections: 2,
    migrations: &[TableMigration {
        version: 1,
        name: "entry",
        sql: "CREATE TABLE entry (number BIGINT PRIMARY KEY, body TEXT)",
    }],
    postgres_settings: &[],
};

pub(super) fn insert(numbers: &[i64], size: usize) -> StatementBatch {
    let mut batch = StatementBatch::default();
    for number in numbers {
        let body = "x".repeat(size);
        batch.add("INSERT INTO entry (number, body) VALUES ($1, $2) RETURNING number", [(*number).into(), body.into()]);
    }
    batch
}

/// The numbers that another program finds.
pub(super) async fn numbers(url: &str) -> Vec<i64> {
    let mut connection = AnyConnection::connect(url).await.expect("connected");
    let rows = sqlx::query("SELECT number FROM entry ORDER BY number").fetch_all(&mut connection).await.expect("read");
    connection.close().await.expect("closed");
    rows.iter().map(|row| row.get(0)).collect()
}

async fn check(url: &str) {
    let database = AnyDatabase::open(url, &SETTINGS).await.expect("opens");
    let writer = &database.writer;
    let rows = writer.write(&mut insert(&[1, 2], 10)).await.expect("written");
    let returned: Vec<i64> = rows.iter().flatten().map(|row| row.get(0)).collect();
    assert_eq!((returned, numbers(url).await, writer.last_commit()), (vec![1, 2], vec![1, 2], 1));
    // A statement that fails undoes those before it, and those behind it do not run.
    assert!(matches!(writer.write(&mut insert(&[3, 1, 4], 10)).await, Err(StoreError::Database(_))));
    assert_eq!((numbers(url).await, writer.last_commit()), (vec![1, 2], 1));
    let (transaction, rows) = writer.begin_with(&mut insert(&[5], 10)).await.expect("begun");
    assert_eq!((rows.len(), numbers(url).await), (1, vec![1, 2]));
    assert!(matches!(transaction.commit_with(&mut insert(&[6, 2], 10)).await, Err(StoreError::Database(_))));
    let (transaction, _) = writer.begin_with(&mut insert(&[5], 10)).await.expect("begun");
    let rows = transaction.commit_with(&mut insert(&[6], 10)).await.expect("committed");
    assert_eq!(rows[0][0].get::<i64, _>(0), 6);
    assert_eq!((numbers(url).await, writer.last_commit()), (vec![1, 2, 5, 6], 2));
    // An empty one commits too.
    assert!(writer.write(&mut StatementBatch::default()).await.expect("written").is_empty());
    assert_eq!(writer.last_commit(), 3);
    sqlx::raw_sql("UPDATE store_commit SET number = 1").execute(writer.pool()).await.expect("changed");
    for _ in 0..2 {
        let Err(StoreError::Lost(reason)) = writer.write(&mut insert(&[7], 10)).await else { panic!("was written") };
        assert_eq!(reason, "the database has lost commits: it shows 1 of 3");
    }
    assert_eq!(numbers(url).await, [1, 2, 5, 6]);
    database.close().await;
}

#[tokio::test]
async fn a_transaction_in_one_text_is_whole_or_has_not_happened() {
    let directory = tempfile::tempdir().expect("a directory");
    sqlx::any::install_default_drivers();
    check(&format!("sqlite://{}?mode=rwc", directory.path().join("test.db").display())).await;
    if let Some(server) = PostgresServer::start(None) {
        check(&server.url()).await;
    }
}

#[tokio::test]
async fn a_full_database_loses_nothing_that_was_acknowledged() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = format!("sqlite://{}?mode=rwc", directory.path().join("test.db").display());
    let database = AnyDatabase::open(&url, &SETTINGS).await.expect("opens");
    let mut acknowledged = Vec::new();
    for number in 1..=12 {
        // Each failure ends the connection, and with it the limit.
        sqlx::raw_sql("PRAGMA max_page_count = 12").execute(database.writer.pool()).await.expect("limited");
        let size = if number % 3 == 0 { 40_000 } else { 10 };
        match database.writer.write(&mut insert(&[number], size)).await {
            Ok(_) => acknowledged.push(number),
            Err(StoreError::Database(error)) => assert!(error.to_string().contains("full"), "{error}"),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(acknowledged, [1, 2, 4, 5, 7, 8, 10, 11]);
    assert_eq!(numbers(&url).await, acknowledged);
    database.close().await;
}
