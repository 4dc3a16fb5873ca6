//! `svc indexer verify` and `check`, and stores that lack a part of the registry.

use std::process::{Command, Output};

use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, SqliteConnection};
use svc::network::ChainAndIndexer;
use svc_indexer::{Indexer, IndexerConfig};
use svc_wire::proto_registry::NodeGeneration;
use tempfile::TempDir;

use super::{
    IndexerReplica, MARKETPLACE_SCENARIO, await_indexed, produce_blocks, pruned_state::store_digests, read_at, read_ok,
    start_chain_and_indexer,
};
use crate::e2e::harness::poll_until;

/// A store in a file, of a chain.
struct StoreFile {
    directory: TempDir,
    rpc: String,
}

impl StoreFile {
    fn new(grounds: &ChainAndIndexer) -> Self {
        Self { directory: tempfile::tempdir().expect("a directory"), rpc: grounds.devnet.node.origin() }
    }

    fn path(&self) -> String {
        self.directory.path().join("index.db").display().to_string()
    }

    fn config(&self) -> IndexerConfig {
        IndexerConfig::new(self.rpc.clone(), format!("sqlite://{}?mode=rwc", self.path()))
    }

    async fn change(&self, sql: &str) {
        let mut connection = SqliteConnection::connect(&format!("sqlite://{}", self.path())).await.expect("connects");
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.expect("changed");
        connection.close().await.expect("closed");
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_svc"));
        command.env_clear().arg("indexer").args(arguments).arg("--json");
        command.env("SVC_RPC", &self.rpc).env("SVC_INDEXER_DB", self.config().database);
        command.output().expect("runs")
    }
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_entity_is_compared_with_the_node_at_any_height() {
    let grounds = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    let store = StoreFile::new(&grounds);
    let newest = *grounds.devnet.node.watch_heights().borrow();
    let replica = IndexerReplica::launch(store.config()).await;
    await_indexed(&replica.origin, newest).await;
    for height in [None, Some(newest / 2), Some(3)] {
        let height = height.map(|height: u64| height.to_string());
        let arguments: Vec<&str> =
            ["verify"].into_iter().chain(height.iter().flat_map(|height| ["--height", height])).collect();
        let output = store.run(&arguments);
        let found = report(&output);
        assert!(output.status.success(), "{found:#}");
        assert!(found["entities"].as_u64() > Some(8), "{found}");
    }
    let check = report(&store.run(&["check"]));
    assert_eq!((&check["start"], &check["missing"]), (&1.into(), &Value::Array(Vec::new())), "{check}");
    assert!(check["free_disk"].as_u64() > Some(0), "{check}");
    drop(replica);

    store.change("UPDATE entity SET body = replace(body, '\"language\":\"', '\"language\":\"x') WHERE kind = 'ecosystem' AND id = 1").await;
    store.change("DELETE FROM entity WHERE kind = 'participant' AND id = 2").await;
    store.change("UPDATE entity SET until_height = NULL WHERE kind = 'operator_authorization'").await;
    let output = store.run(&["verify"]);
    let found = report(&output);
    assert!(!output.status.success(), "{found:#}");
    let differs = |entity: &str, member: Option<&str>| {
        let all = found["differences"].as_array().expect("a list");
        all.iter().any(|one| one["entity"] == entity && one["member"].as_str() == member)
    };
    assert!(differs("Ecosystem 1", Some("language")) && differs("Participant 2", None), "{found:#}");
    let unknown = store.run(&["verify", "--height", "100000"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("the store has the heights 1 to"), "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_took_pruned_state_for_an_empty_registry_is_refused() {
    let grounds = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    let store = StoreFile::new(&grounds);
    let newest = *grounds.devnet.node.watch_heights().borrow();
    let replica = IndexerReplica::launch(store.config()).await;
    await_indexed(&replica.origin, newest).await;
    drop(replica);
    // An earlier release does not note that its stores are complete.
    store.change("DELETE FROM meta WHERE name = 'complete'").await;
    let replica = IndexerReplica::launch(store.config()).await;
    await_indexed(&replica.origin, newest).await;
    drop(replica);
    store
        .change("DELETE FROM meta WHERE name = 'complete'; DELETE FROM entity WHERE kind = 'corporation' AND id = 2")
        .await;
    let error = Indexer::launch(store.config()).await.err().expect("refused").to_string();
    assert!(error.starts_with("the store lacks corporation 2,") && error.contains("use a new database"), "{error}");
}

/// An index equals the chain, or names its oldest height, at any horizon of the node and any start of its own.
#[tokio::test(flavor = "multi_thread")]
async fn at_random_horizons_and_starts_an_index_equals_the_chain_or_names_its_oldest_height() {
    let seed = fastrand::u64(..1_000_000);
    let mut random = fastrand::Rng::with_seed(seed);
    let grounds = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    for round in 0..8_u8 {
        // The network's own indexer reads the new blocks: on a slow machine it would fall behind the horizon for good.
        grounds.devnet.node.update_faults(|faults| faults.kept_states = 0);
        store_digests(&grounds.devnet, 3 * round + 1..3 * round + 4).await;
        let newest = produce_blocks(&grounds, random.usize(1..4)).await;
        let kept = if random.bool() { 0 } else { random.u64(1..newest + 20) };
        grounds.devnet.node.update_faults(|faults| faults.kept_states = kept);
        let start = random.bool().then(|| random.u64(1..=newest));
        let words = format!("seed {seed}, round {round}: newest {newest}, kept {kept}, start {start:?}");
        let store = StoreFile::new(&grounds);
        let config = IndexerConfig { start_height: start, ..store.config() };
        let oldest_state = if kept == 0 { 1 } else { (newest + 1).saturating_sub(kept).max(1) };
        if let Some(start) = start.filter(|start| *start < oldest_state) {
            let error = Indexer::launch(config).await.err().unwrap_or_else(|| panic!("{words}: launched")).to_string();
            assert!(error.starts_with(&format!("no node has block {start} with its state")), "{words}: {error}");
            continue;
        }
        let replica = IndexerReplica::launch(config).await;
        await_indexed(&replica.origin, newest).await;
        let oldest = read_ok(&replica.origin, "/v4/indexer/status").await["oldest_block_height"].as_u64();
        let oldest = oldest.unwrap_or_else(|| panic!("{words}: no oldest height"));
        assert!(oldest >= oldest_state && start.is_none_or(|start| start == oldest), "{words}: {oldest}");
        if oldest > 1 {
            let below = read_at(&replica.origin, "/v4/corporation/list", Some(oldest - 1)).await;
            assert_eq!((below.status, &below.body["oldest_block_height"]), (410, &oldest.into()), "{words}");
        }
        for height in [oldest, newest] {
            let found = svc_indexer::verify_index(&store.config(), Some(height))
                .await
                .unwrap_or_else(|error| panic!("{words}: {error}"));
            assert_eq!(found.difference_count, 0, "{words}: {:#?}", found.differences);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_the_list_of_the_node_hides_is_found_by_its_transaction() {
    let grounds = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    let (store, node) = (StoreFile::new(&grounds), &grounds.devnet.node);
    node.update_faults(|faults| faults.lies.hidden_sessions = true);
    let newest = *node.watch_heights().borrow();
    let replica = IndexerReplica::launch(IndexerConfig { start_height: Some(newest), ..store.config() }).await;
    await_indexed(&replica.origin, newest).await;
    let found = svc_indexer::verify_index(&store.config(), None).await.expect("compared");
    let missing: Vec<&str> = found.differences.iter().map(|one| one.entity.as_str()).collect();
    let sessions = ["6ba7b810", "6ba7b811"].map(|id| format!("ParticipantSession {id}-9dad-41d1-80b4-00c04fd430c8"));
    assert_eq!(missing, sessions);
    assert!(found.not_compared.is_empty(), "{:?}", found.not_compared);
    // Without an index of transactions the report says so.
    node.update_faults(|faults| faults.index_off = true);
    let found = svc_indexer::verify_index(&store.config(), None).await.expect("compared");
    let words = found.not_compared.join(" ");
    assert!(found.difference_count == 0 && words.contains("transaction indexing is disabled"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_equals_the_chain_after_an_upgrade_that_no_event_announces() {
    let grounds = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    let (store, node) = (StoreFile::new(&grounds), &grounds.devnet.node);
    let replica = IndexerReplica::launch(store.config()).await;
    await_indexed(&replica.origin, *node.watch_heights().borrow()).await;
    const RECORDS: &str = "/v4/delegation/vs-operator-authorizations?limit=1024";
    let older = read_ok(&replica.origin, RECORDS).await.to_string();
    assert!(older.contains("remaining_fee_spend"), "the records have caps of fees: {older}");

    node.stop();
    node.upgrade(NodeGeneration::N3).expect("upgrades");
    node.start().expect("starts");
    // The replica notices the release by and by, and reads with the next block.
    poll_until("the records are read again", async || {
        node.produce_block().expect("a block");
        await_indexed(&replica.origin, *node.watch_heights().borrow()).await;
        !read_ok(&replica.origin, RECORDS).await.to_string().contains("remaining_fee_spend")
    })
    .await;
    let found = svc_indexer::verify_index(&store.config(), None).await.expect("compared");
    assert_eq!(found.difference_count, 0, "{:#?}", found.differences);
}
