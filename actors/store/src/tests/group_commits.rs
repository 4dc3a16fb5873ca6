//! Parts of several callers in one transaction.

use std::{path::Path, sync::Arc, time::Duration};

use sqlx::AnyConnection;
use tokio::task::JoinSet;

use super::whole_writes::{SETTINGS, insert, numbers};
use svc_test_support::{postgres_server::PostgresServer, small_disk};

use crate::{AnyDatabase, GroupWriter, StatementBatch, StoreError};

async fn open(url: &str) -> (AnyDatabase, GroupWriter) {
    let database = AnyDatabase::open(url, &SETTINGS).await.expect("opens");
    let group = GroupWriter::new(database.writer.clone());
    (database, group)
}

fn file_url(directory: &Path) -> String {
    format!("sqlite://{}?mode=rwc", directory.join("test.db").display())
}

async fn add(connection: &mut AnyConnection, number: i64) {
    insert(&[number], 10).run(connection).await.expect("inserted");
}

/// Callers that come while another one has the turn.
async fn queue<T: Send + 'static>(callers: &mut JoinSet<T>, caller: impl Future<Output = T> + Send + 'static) {
    callers.spawn(caller);
    tokio::task::yield_now().await;
}

async fn check(url: &str) {
    let (database, group) = open(url).await;
    let (mut first, _) = group.begin_with(&mut insert(&[1], 10)).await.expect("begun");
    let mut callers = JoinSet::new();
    for number in 2..=9 {
        let group = group.clone();
        let caller = async move {
            match number {
                // Number 1 is there already.
                3 => assert!(matches!(group.write(&mut insert(&[30, 1], 10)).await, Err(StoreError::Database(_)))),
                // It goes away without a commit.
                4 => drop(group.begin_with(&mut insert(&[40], 10)).await.expect("begun")),
                5 | 6 => {
                    let (mut part, rows) = group.begin_with(&mut insert(&[number], 10)).await.expect("begun");
                    assert_eq!(rows.len(), 1);
                    add(&mut part, number * 10).await;
                    let rows = part.commit_with(&mut insert(&[number * 100], 10)).await.expect("committed");
                    assert_eq!(rows.len(), 1);
                }
                number => {
                    assert_eq!(group.write(&mut insert(&[number], 10)).await.expect("written").len(), 1);
                }
            }
        };
        queue(&mut callers, caller).await;
    }
    add(&mut first, 10).await;
    first.commit().await.expect("committed");
    while let Some(ended) = callers.join_next().await {
        ended.expect("as expected");
    }
    assert_eq!(numbers(url).await, [1, 2, 5, 6, 7, 8, 9, 10, 50, 60, 500, 600]);
    group.write(&mut insert(&[11], 10)).await.expect("a lone one follows");
    database.close().await;
}

#[tokio::test]
async fn a_part_that_fails_or_is_left_takes_nothing_else_with_it() {
    let directory = tempfile::tempdir().expect("a directory");
    check(&file_url(directory.path())).await;
    if let Some(server) = PostgresServer::start(None) {
        check(&server.url()).await;
    }
}

#[tokio::test]
async fn callers_that_wait_share_one_commit_and_a_lone_one_does_not_wait() {
    let directory = tempfile::tempdir().expect("a directory");
    let (database, group) = open(&file_url(directory.path())).await;
    group.write(&mut insert(&[1], 10)).await.expect("written");
    let (part, _) = group.begin_with(&mut insert(&[2], 10)).await.expect("begun");
    part.commit().await.expect("committed");
    assert_eq!(database.writer.last_commit(), 2);
    let (first, _) = group.begin_with(&mut insert(&[3], 10)).await.expect("begun");
    let mut callers = JoinSet::new();
    for number in 4..=40 {
        let group = group.clone();
        let caller = async move { group.write(&mut insert(&[number], 10)).await.expect("written") };
        queue(&mut callers, caller).await;
    }
    first.commit().await.expect("committed");
    callers.join_all().await;
    assert_eq!((numbers(&file_url(directory.path())).await.len(), database.writer.last_commit()), (40, 3));
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_the_commits_of_the_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = file_url(directory.path());
    let (_database, group) = open(&url).await;
    for round in 0..40_i64 {
        let (first, _) = group.begin_with(&mut insert(&[round * 100], 10)).await.expect("begun");
        let mut callers = JoinSet::new();
        let mut leaving = Vec::new();
        for number in 1..=9 {
            let group = group.clone();
            let number = round * 100 + number;
            let caller = async move {
                let (mut part, _) = group.begin_with(&mut StatementBatch::default()).await.expect("begun");
                add(&mut part, number).await;
                part.commit().await.expect("committed");
                number
            };
            let handle = callers.spawn(caller);
            tokio::task::yield_now().await;
            if number % 3 == 0 {
                leaving.push(handle);
            }
        }
        let kept = tokio::spawn(first.commit());
        // They end in the queue, in their parts, or in the wait for the commit.
        for handle in leaving {
            tokio::time::sleep(Duration::from_micros(fastrand::u64(..600))).await;
            handle.abort();
        }
        kept.await.expect("ends").expect("committed");
        let mut acknowledged = vec![round * 100];
        while let Some(ended) = callers.join_next().await {
            acknowledged.extend(ended.ok());
        }
        assert!(acknowledged.len() >= 7, "{acknowledged:?}");
        let found = numbers(&url).await;
        assert!(acknowledged.iter().all(|number| found.contains(number)), "{acknowledged:?}, found {found:?}");
    }
    group.write(&mut insert(&[1_000_000], 10)).await.expect("nothing keeps the turn");
}

#[tokio::test]
async fn reads_of_a_database_in_memory_find_its_only_connection_free() {
    let (database, group) = open("sqlite::memory:").await;
    let group = Arc::new(group);
    drop(group.begin_with(&mut insert(&[1], 10)).await.expect("begun"));
    assert!(group.begin_with(&mut insert(&[2, 2], 10)).await.is_err());
    let writes = (3..20).map(|number| {
        let group = Arc::clone(&group);
        async move { group.write(&mut insert(&[number], 10)).await.expect("written") }
    });
    futures::future::join_all(writes).await;
    let count: i64 =
        sqlx::query_scalar("SELECT COUNT(*) FROM entry").fetch_one(&database.reader).await.expect("counted");
    assert_eq!(count, 17);
}

#[test]
fn every_acknowledged_part_is_on_a_disk_that_fills_and_empties() {
    small_disk::run("tests::group_commits::every_acknowledged_part_is_on_a_disk_that_fills_and_empties", |directory| {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let url = file_url(directory);
            let (_database, group) = open(&url).await;
            let (mut acknowledged, mut failed, mut number) = (Vec::new(), 0, 0);
            for round in 0..8 {
                let filler = (round % 2 == 0).then(|| small_disk::fill(directory));
                let writes = (0..12).map(|_| {
                    number += 1;
                    let (group, number) = (group.clone(), number);
                    async move { (number, group.write(&mut insert(&[number], 20_000)).await) }
                });
                for (number, written) in futures::future::join_all(writes).await {
                    match written {
                        Ok(_) => acknowledged.push(number),
                        Err(StoreError::Database(_)) => failed += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
                if let Some(filler) = filler {
                    std::fs::remove_file(filler).expect("removed");
                    number += 1;
                    group.write(&mut insert(&[number], 2_000)).await.expect("there is space again");
                    acknowledged.push(number);
                }
            }
            let found = numbers(&url).await;
            assert!(failed > 4 && acknowledged.len() > 20, "{failed} failed, {} did not", acknowledged.len());
            let lost: Vec<_> = acknowledged.iter().filter(|number| !found.contains(number)).collect();
            assert!(lost.is_empty(), "acknowledged and not on disk: {lost:?}");
        });
    });
}

#[tokio::test]
async fn a_commit_that_fails_is_told_to_all_whose_it_was() {
    let directory = tempfile::tempdir().expect("a directory");
    let (database, group) = open(&file_url(directory.path())).await;
    let (first, _) = group.begin_with(&mut insert(&[1], 10)).await.expect("begun");
    let mut callers = JoinSet::new();
    for number in 2..=9 {
        let group = group.clone();
        queue(&mut callers, async move { group.write(&mut insert(&[number], 10)).await }).await;
    }
    std::fs::remove_file(directory.path().join("test.db")).expect("removed");
    assert!(matches!(first.commit().await, Err(StoreError::Lost(_))));
    while let Some(ended) = callers.join_next().await {
        assert!(matches!(ended.expect("ends"), Err(StoreError::Lost(_))));
    }
    assert_eq!(database.writer.last_commit(), 0);
}

/// A caller runs a statement in its part, and goes away, while the part before it waits for the commit of both.
async fn leave_behind(statement: &'static str) -> (Result<(), StoreError>, Vec<i64>) {
    let directory = tempfile::tempdir().expect("a directory");
    let url = file_url(directory.path());
    let (_database, group) = open(&url).await;
    let (first, _) = group.begin_with(&mut insert(&[1], 10)).await.expect("begun");
    let mut callers = JoinSet::new();
    let other = group.clone();
    let caller = async move {
        let (mut part, _) = other.begin_with(&mut insert(&[2], 10)).await.expect("begun");
        sqlx::raw_sql(statement).execute(&mut *part).await.expect("runs");
    };
    queue(&mut callers, caller).await;
    let committed = first.commit().await;
    callers.join_all().await;
    let found = numbers(&url).await;
    group.write(&mut insert(&[3], 10)).await.expect("goes on");
    (committed, found)
}

#[tokio::test]
async fn a_savepoint_that_is_gone_says_nothing_and_the_commit_decides() {
    // The caller went away when its part was kept, and before it knew.
    let (committed, found) = leave_behind("RELEASE part").await;
    committed.expect("the part of the other is in the same transaction");
    assert_eq!(found, [1, 2]);
    // SQLite does this by itself on some errors.
    let (committed, found) = leave_behind("ROLLBACK").await;
    assert!(matches!(committed, Err(StoreError::Database(_))), "{committed:?}");
    assert!(found.is_empty(), "{found:?}");
}
