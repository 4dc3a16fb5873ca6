//! Exports beside writes, and exports that do not end.

// The measurement prints its numbers.
#![allow(clippy::print_stdout)]

use svc_agent_core::notification::Notification;
use svc_test_support::postgres_server::PostgresServer;

use super::*;

fn block(height: u64) -> BlockEvents {
    let body = format!("{{\"text\": \"{}\"}}", "x".repeat(2_000));
    let notification =
        |number: u64| Notification { id: format!("{height}-{number}"), kind: "registry", height, body: body.clone() };
    let notifications: Vec<Notification> = (0..100).map(notification).collect();
    BlockEvents { height, hash: None, ids: vec![format!("{height}-0")], notifications }
}

async fn write_did(url: &str) -> AgentStore {
    let store = AgentStore::open(settings(url, 1, None)).await.expect("opens");
    let identity = StoredIdentity { did: DID.to_owned(), base_url: "https://agent.example.com".to_owned() };
    store.write_identity(&identity, &[private_key("signing", 1, 1)], &version(1)).await.expect("written");
    store
}

/// The file has the state of one moment, although blocks are stored while it is read slowly.
async fn check_export_under_load(home: &Home, url: &str, copy: &str) {
    let store = write_did(url).await;
    for height in 1..=20 {
        store.store_blocks(&[block(height)], 5, 1_000_000).await.expect("stored");
    }
    // More than waits for a reader, in a table before those that are written meanwhile.
    let content = "x".repeat(10_000);
    for number in 2..=100 {
        let version = DocumentVersion { content: content.clone(), ..version(number) };
        store.write_version(DID, &version, &[]).await.expect("written");
    }
    let mut export = store.export().expect("no other runs");
    assert!(matches!(store.export(), Err(ExportError::Busy)));
    let first = export.next_chunk().await.expect("a chunk").expect("read");
    for height in 21..=30 {
        store.store_blocks(&[block(height)], 5, 1_000_000).await.expect("an export delays no write");
    }
    store.settle_events(&(1..=500).collect::<Vec<_>>(), &[]).await.expect("removed");
    store.write_version(DID, &version(101), &[]).await.expect("written");
    let content = [first.to_vec(), collect(export).await.expect("ends")].concat();
    let report = home.import(&home.url(copy), &content).await.expect("imported");
    assert_eq!((report.rows["outbox"], report.versions), (2_000, 100), "the state at the begin");
    let copied = AgentStore::open(settings(&home.url(copy), 1, None)).await.expect("opens");
    assert_eq!(copied.event_cursor().await.expect("read"), Some(20));
    assert_eq!(copied.outbox_sizes().await.expect("read").stored, 2_000);
    copied.close().await;
    // The slot is free again.
    collect(store.export().expect("no other runs")).await.expect("ends");
    store.close().await;
    std::fs::remove_file(home.path("agent.head")).expect("removed");
}

#[tokio::test]
async fn an_export_is_one_moment_of_a_busy_store_on_both_databases() {
    let home = Home::new();
    check_export_under_load(&home, &home.url("busy.db"), "copy.db").await;
    if let Some(server) = PostgresServer::start(None) {
        check_export_under_load(&home, &server.url(), "copy-of-postgres.db").await;
    }
}

#[tokio::test]
async fn an_export_without_a_reader_ends_and_a_closed_store_ends_it() {
    let home = Home::new();
    let store = AgentStore::open(settings(&home.url("agent.db"), 1, None)).await.expect("opens");
    let refused = collect(store.export().expect("no other runs")).await.expect_err("empty");
    assert!(matches!(refused, ExportError::Empty), "{refused}");
    store.close().await;
    drop(store);
    let store = write_did(&home.url("other.db")).await;
    for height in 1..=20 {
        store.store_blocks(&[block(height)], 5, 1_000_000).await.expect("stored");
    }
    let mut abandoned = store.export().expect("no other runs");
    abandoned.next_chunk().await.expect("a chunk").expect("read");
    drop(abandoned);
    let mut export = loop {
        match store.export() {
            Ok(export) => break export,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    let mut content = export.next_chunk().await.expect("a chunk").expect("read").to_vec();
    let closing = tokio::spawn({
        let store = store.clone();
        async move { store.close().await }
    });
    let ended = loop {
        match export.next_chunk().await.expect("an error") {
            Ok(chunk) => content.extend_from_slice(&chunk),
            Err(error) => break error,
        }
    };
    closing.await.expect("closed");
    assert!(matches!(ended, ExportError::Closed), "{ended}");
    assert!(!has_export_end(&content));
    assert!(home.refusal(&content).await.contains("incomplete"));
}

/// A store of 4 MB does not fit; its rows go, and a small one fits into the same store afterwards.
async fn check_full_disk(disk: &Path) {
    let home = Home::new();
    let store = write_did(&home.url("large.db")).await;
    for height in 1..=20 {
        store.store_blocks(&[block(height)], 5, 1_000_000).await.expect("stored");
    }
    store.close().await;
    drop(store);
    let large = export(&home.url("large.db")).await;
    let target = format!("sqlite://{}?mode=rwc", disk.join("agent.db").display());
    let refused = home.import(&target, &large).await.expect_err("full").to_string();
    assert!(refused.contains("the rows of outbox up to line") && refused.contains("full"), "{refused}");
    let store = AgentStore::open(settings(&target, 1, None)).await.expect("opens");
    assert_eq!(store.identity().await.expect("read"), None);
    store.close().await;
    drop(store);
    let few: Vec<_> = lines(&large).into_iter().filter(|line| !line.starts_with(b"{\"table\":\"outbox")).collect();
    let text = String::from_utf8(authenticated(&few)).expect("a text");
    let few = lines(text.replace("\"outbox\":2000", "\"outbox\":0").as_bytes());
    home.import(&target, &authenticated(&few)).await.expect("a smaller one fits");
}

#[test]
fn an_import_on_a_full_disk_leaves_an_empty_store() {
    let name = "portable::tests::running_exports::an_import_on_a_full_disk_leaves_an_empty_store";
    svc_test_support::small_disk::run(name, |disk| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(check_full_disk(disk));
    });
}

/// Bytes of memory that the process has used at most.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("readable");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a line");
    line.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok()).expect("a number") * 1_024
}

async fn check_a_million_rows(home: &Home, url: &str, target: &str) {
    use std::io::Write;
    let before = peak_memory();
    let started = std::time::Instant::now();
    let store = AgentStore::open(settings(url, 1, None)).await.expect("opens");
    let mut export = store.export().expect("no other runs");
    let mut file = File::create(home.path("million.jsonl")).expect("created");
    while let Some(chunk) = export.next_chunk().await {
        file.write_all(&chunk.expect("read")).expect("written");
    }
    store.close().await;
    let (exported, size) = (started.elapsed(), file.metadata().expect("its size").len());
    let head = home.path(&format!("{}.head", target.len()));
    let file = File::open(home.path("million.jsonl")).expect("opens");
    let report = import_store(settings(target, 1, None), &head, file).await.expect("imported");
    assert_eq!(report.rows["outbox"], 1_000_000);
    let (imported, used) = (started.elapsed() - exported, peak_memory() - before);
    println!("{size} bytes: exported in {exported:?}, imported in {imported:?}, {used} bytes of memory more");
    assert!(used < 200 * 1_024 * 1_024, "{used}");
}

#[tokio::test]
#[ignore = "takes minutes: run it alone, for the memory of the process is measured"]
async fn a_million_rows_need_no_more_memory_than_a_few() {
    let home = Home::new();
    let url = home.url("large.db");
    write_did(&url).await.close().await;
    run_sql(
        &url,
        "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1000000)
         INSERT INTO outbox SELECT n, 'e' || n, 'k', n, n, '{\"text\": \"' || hex(randomblob(400)) || '\"}' FROM numbers;
         UPDATE event_cursor SET height = 1000000, stored = 1000000, next_number = 1000001;",
    )
    .await;
    check_a_million_rows(&home, &url, &home.url("copy.db")).await;
    if let Some(server) = PostgresServer::start(None) {
        check_a_million_rows(&home, &url, &server.url()).await;
        check_a_million_rows(&home, &server.url(), &home.url("copy-of-postgres.db")).await;
    }
}
