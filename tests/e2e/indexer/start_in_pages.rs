//! The first state of an index is written page by page: a start that is killed between two pages goes on, and no read sees a part of it.

use std::process::{Command, Stdio};

use sqlx::{AssertSqlSafe, Connection, Row, SqliteConnection};
use svc_devnet::Devnet;
use svc_indexer::{IndexerConfig, verify_index};
use tempfile::TempDir;

use super::{
    IndexerReplica, MARKETPLACE_SCENARIO, await_indexed, await_verdicts,
    bounded_lists::{chain_with_sessions, config_of},
    pruned_state::STATE_READS,
    read_at, read_ok, start_chain_and_indexer,
    start_height::ChildGuard,
};
use crate::e2e::harness::poll_until;

/// Sessions of the chain, beside its own: two pages.
const SESSIONS: u32 = 1_500;

/// A chain with more sessions than a list has, and some blocks. Every query takes a while, so that a start has many moments.
async fn slow_chain() -> Devnet {
    let grounds = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    let document = grounds.devnet.node.export_genesis().expect("exported");
    let chain = chain_with_sessions(&document, (0..SESSIONS).map(|index| 10 + index / 700)).await;
    for _ in 0..3 {
        chain.node.produce_block().expect("a block");
    }
    set_delay(&chain, 10);
    chain
}

fn set_delay(chain: &Devnet, milliseconds: u64) {
    chain.node.update_faults(|faults| {
        faults.delay_ms = milliseconds;
        faults.delay_method = "abci_query".to_owned();
    });
}

fn newest(chain: &Devnet) -> u64 {
    *chain.node.watch_heights().borrow()
}

/// The texts that a statement selects from a store, in order.
async fn texts(directory: &TempDir, name: &str, sql: &str) -> Result<Vec<String>, sqlx::Error> {
    let path = directory.path().join(name).display().to_string();
    let mut connection = SqliteConnection::connect(&format!("sqlite://{path}")).await?;
    let rows = sqlx::query(AssertSqlSafe(sql.to_owned())).fetch_all(&mut connection).await;
    connection.close().await?;
    let mut found = rows?.iter().map(|row| row.try_get(0)).collect::<Result<Vec<String>, _>>()?;
    found.sort();
    Ok(found)
}

/// The pages that are written of a first state; `None` before the start and after its end.
async fn written_pages(directory: &TempDir, name: &str) -> Option<u64> {
    let found = texts(directory, name, "SELECT CAST(pages AS TEXT) FROM bootstrap").await.ok()?;
    found.first().map(|pages| pages.parse().expect("a number"))
}

/// Every row of the tables that blocks fill.
const ROWS: [&str; 8] = [
    "SELECT kind || ' ' || id || ' ' || from_height || ' ' || COALESCE(until_height, -1) || ' ' || COALESCE(corporation_id, -1) \
     || ' ' || COALESCE(parent_id, -1) || ' ' || COALESCE(name, '-') || ' ' || COALESCE(did, '-') || ' ' || body FROM entity \
     WHERE kind <> 'verdict'",
    "SELECT kind || ' ' || attribute || ' ' || value || ' ' || id FROM entity_lookup WHERE kind <> 'verdict'",
    "SELECT due || ' ' || kind || ' ' || id || ' ' || height FROM schedule",
    "SELECT id || ' ' || height || ' ' || entity_type || ' ' || entity_key || ' ' || msg || ' ' || COALESCE(changes, '-') FROM activity",
    "SELECT scope || ' ' || scope_id || ' ' || height || ' ' || body FROM measure",
    "SELECT id || ' ' || granularity || ' ' || opens || ' ' || scope || ' ' || scope_id || ' ' || from_height FROM bucket",
    "SELECT height || ' ' || position || ' ' || body FROM event",
    "SELECT height || ' ' || time || ' ' || hash FROM block",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_is_killed_between_pages_goes_on_and_equals_one_that_is_not() {
    let chain = slow_chain().await;
    let directory = tempfile::tempdir().expect("a directory");
    let (start, newest) = (newest(&chain) - 1, newest(&chain));
    let config =
        |name: &str, start: u64| IndexerConfig { start_height: Some(start), ..config_of(&chain, &directory, name) };
    let killed = config("killed.db", start);
    let mut before = 0;
    for kill in 1..=3 {
        let process = Command::new(env!("CARGO_BIN_EXE_svc"))
            .arg("indexer")
            .env("SVC_RPC", chain.node.origin())
            .env("SVC_INDEXER_DB", &killed.database)
            .env("SVC_INDEXER_PORT", "0")
            .env("SVC_INDEXER_START", start.to_string())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        let process = ChildGuard(process);
        poll_until("another page", async || written_pages(&directory, "killed.db").await > Some(before)).await;
        // A drop kills the process.
        drop(process);
        let pages = written_pages(&directory, "killed.db").await.unwrap_or_else(|| panic!("kill {kill} came too late"));
        assert!(pages > before, "kill {kill}: the start went on after {before} pages and has {pages}");
        before = pages;
        let error = verify_index(&killed, None).await.expect_err("there is no height").to_string();
        assert_eq!(error, "the store has no block yet", "kill {kill}");
    }
    let replica = IndexerReplica::launch(killed.clone()).await;
    let height = read_ok(&replica.origin, "/v4/indexer/block-height").await["height"].clone();
    let list = read_ok(&replica.origin, "/v4/participant/list").await;
    if written_pages(&directory, "killed.db").await.is_some() {
        assert_eq!(
            (&height, &list["participants"]),
            (&0.into(), &serde_json::json!([])),
            "the first state is not whole"
        );
    }
    set_delay(&chain, 0);
    await_indexed(&replica.origin, newest).await;
    assert_eq!(written_pages(&directory, "killed.db").await, None);

    let whole = IndexerReplica::launch(config("whole.db", start)).await;
    await_indexed(&whole.origin, newest).await;
    for sql in ROWS {
        let of = async |name: &str| texts(&directory, name, sql).await.expect("rows");
        let (killed, whole) = (of("killed.db").await, of("whole.db").await);
        let differing = killed.iter().zip(&whole).find(|(one, other)| one != other);
        assert!(killed.len() == whole.len() && differing.is_none(), "{sql}: {differing:?}");
        assert!(!killed.is_empty() || sql.contains("FROM event") || sql.contains("FROM schedule"), "{sql}");
    }
    let first = IndexerReplica::launch(config("first.db", 1)).await;
    await_indexed(&first.origin, newest).await;
    let sessions = [0, 1_023, 1_024, SESSIONS - 1]
        .map(|index| format!("/v4/participant/participant-session/00000000-0000-4000-8000-{index:012}"));
    for path in STATE_READS.into_iter().chain(sessions.iter().map(String::as_str)) {
        assert_eq!(read_ok(&replica.origin, path).await, read_ok(&first.origin, path).await, "{path}");
    }
    for config in [killed, config("first.db", 1)] {
        let found = verify_index(&config, None).await.expect("compared");
        assert!(found.difference_count == 0 && found.entities > SESSIONS as usize, "{:#?}", found.differences);
    }
}

/// A start in the middle whose height no node has any more begins with a later one, in the running process or the next.
async fn begins_anew(is_stopped_meanwhile: bool) {
    let chain = slow_chain().await;
    let directory = tempfile::tempdir().expect("a directory");
    let config = config_of(&chain, &directory, "index.db");
    let replica = IndexerReplica::launch(config.clone()).await;
    poll_until("a page", async || written_pages(&directory, "index.db").await > Some(3)).await;
    let running = Some(replica).filter(|_| !is_stopped_meanwhile);
    chain.node.produce_block().expect("a block");
    chain.node.update_faults(|faults| faults.kept_states = 2);
    let (newest, start) = (newest(&chain), newest(&chain) - 1);
    let replica = match running {
        Some(replica) => replica,
        None => IndexerReplica::launch(config.clone()).await,
    };
    set_delay(&chain, 0);
    // The status is 503 while the follower restarts.
    poll_until("the later start", async || {
        read_at(&replica.origin, "/v4/indexer/status", None).await.body["oldest_block_height"] == start
    })
    .await;
    await_indexed(&replica.origin, newest).await;
    await_verdicts(&replica.origin, newest).await;
    let left = format!("SELECT kind || ' ' || id FROM entity WHERE from_height < {start}");
    assert_eq!(texts(&directory, "index.db", &left).await.expect("rows"), [""; 0]);
    let found = verify_index(&config, None).await.expect("compared");
    assert!(found.difference_count == 0 && found.entities > SESSIONS as usize, "{:#?}", found.differences);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_start_whose_height_is_pruned_begins_with_a_later_one() {
    begins_anew(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_whose_height_is_pruned_while_the_indexer_is_away_begins_with_a_later_one() {
    begins_anew(true).await;
}
