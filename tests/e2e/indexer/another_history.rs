//! Chains that go back and make other blocks: the indexer stops and names both, and reads go on.

use std::sync::Arc;

use axum::{Router, body::Bytes, extract::State, http::header::CONTENT_TYPE, routing::post};
use serde_json::Value;
use sqlx::{Connection, Row, SqliteConnection};
use svc::network::ChainAndIndexer;
use svc_devnet::{Devnet, DevnetConfig, node::Node};
use svc_indexer::{IndexerConfig, read_endpoints, verify_index};
use svc_net::upstream::UpstreamOrigins;
use tempfile::TempDir;

use super::{
    IndexerReplica, MARKETPLACE_SCENARIO, await_indexed, config, produce_blocks, pruned_state::store_digests, read_at,
    read_ok, read_ok_at, read_shapes::send_sample, start_chain_and_indexer,
};
use crate::e2e::harness::poll_until;

const PAST_READ: &str = "/v4/corporation/list?gf_data=all";

pub(super) fn hash_at(node: &Node, height: u64) -> String {
    node.read_core(|core| core.block(height).expect("a block").hash.clone())
}

pub(super) fn make_blocks(node: &Node, count: u64) {
    for _ in 0..count {
        node.produce_block().expect("a block");
    }
}

pub(super) fn newest(node: &Node) -> u64 {
    *node.watch_heights().borrow()
}

pub(super) async fn indexed_height(origin: &str) -> u64 {
    read_ok(origin, "/v4/indexer/block-height").await["height"].as_u64().expect("a height")
}

pub(super) async fn health(origin: &str) -> u16 {
    reqwest::get(format!("{origin}/healthz")).await.expect("answered").status().as_u16()
}

/// Waits until the indexer has stopped. Returns its words.
pub(super) async fn await_stop(origin: &str) -> String {
    poll_until("the indexer has stopped", async || health(origin).await == 503).await;
    let status = read_at(origin, "/v4/indexer/status", None).await;
    assert_eq!(
        (status.status, &status.body["is_running"], &status.body["is_crawling"]),
        (200, &true.into(), &false.into())
    );
    assert_eq!(status.headers["x-crawling-status"], "stopped");
    status.body["last_error"]["message"].as_str().expect("words").to_owned()
}

/// The words of a stop name the height and both blocks.
pub(super) fn assert_names_both(words: &str, height: u64, stored: &str, found: &str) {
    let both = format!("block {height} of the index is {stored}, and the node's is {found}");
    assert!(words.contains(&both), "{words}\nlacks: {both}");
}

/// A store in a file, of a chain.
pub(super) struct Grounds {
    pub(super) chain: ChainAndIndexer,
    directory: TempDir,
}

impl Grounds {
    pub(super) async fn new() -> Self {
        Self::with_scenario("corporation").await
    }

    pub(super) async fn with_scenario(scenario: &str) -> Self {
        let chain = start_chain_and_indexer(scenario).await;
        produce_blocks(&chain, 60).await;
        Self { chain, directory: tempfile::tempdir().expect("a directory") }
    }

    pub(super) fn node(&self) -> &Node {
        &self.chain.devnet.node
    }

    pub(super) fn config(&self, rpc: impl Into<UpstreamOrigins>) -> IndexerConfig {
        let file = self.directory.path().join("index.db");
        IndexerConfig::new(rpc, format!("sqlite://{}?mode=rwc", file.display()))
    }

    pub(super) async fn index(&self) -> IndexerReplica {
        let replica = IndexerReplica::launch(self.config(self.node().origin())).await;
        await_indexed(&replica.origin, newest(self.node())).await;
        replica
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_goes_back_stops_a_running_indexer_and_reads_go_on() {
    for back in [1, 50] {
        let grounds = Grounds::new().await;
        let replica = grounds.index().await;
        let (node, top) = (grounds.node(), newest(grounds.node()));
        let (stored, answer) = (hash_at(node, top - back + 1), read_ok_at(&replica.origin, PAST_READ, Some(top)).await);
        node.go_back(top - back).expect("goes back");
        make_blocks(node, 1);
        let words = await_stop(&replica.origin).await;
        assert_names_both(&words, top - back + 1, &stored, &hash_at(node, top - back + 1));
        // It does not go on with the other blocks.
        make_blocks(node, back + 5);
        assert_eq!(await_stop(&replica.origin).await, words);
        assert_eq!(indexed_height(&replica.origin).await, top);
        assert_eq!(read_ok_at(&replica.origin, PAST_READ, Some(top)).await, answer);
        let read = read_at(&replica.origin, PAST_READ, None).await;
        assert_eq!((read.status, read.headers["x-crawling-status"].as_bytes()), (200, b"stopped".as_slice()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_only_behind_stops_nothing() {
    let grounds = Grounds::new().await;
    let behind = Devnet::launch(config("corporation", None).devnet).await.expect("starts");
    assert!(newest(&behind.node) < newest(grounds.node()));
    let both = UpstreamOrigins::from(behind.node.origin()).with_origin(grounds.node().origin());
    let replica = IndexerReplica::launch(grounds.config(both)).await;
    await_indexed(&replica.origin, newest(grounds.node())).await;
    drop(replica);
    let replica = IndexerReplica::launch(grounds.config(behind.node.origin())).await;
    assert_eq!(read_ok(&replica.origin, "/v4/indexer/status").await["is_crawling"], true);
    make_blocks(&behind.node, newest(grounds.node()) + 3 - newest(&behind.node));
    await_indexed(&replica.origin, newest(&behind.node)).await;
    assert_eq!(health(&replica.origin).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_went_back_meanwhile_is_noticed_at_the_start() {
    for back in [1, 50] {
        let grounds = Grounds::new().await;
        drop(grounds.index().await);
        let (node, top) = (grounds.node(), newest(grounds.node()));
        let stored: Vec<String> = (1..=top).map(|height| hash_at(node, height)).collect();
        node.go_back(top - back).expect("goes back");
        // The chain is at the height of the store again, then above it.
        for blocks in [back, 2 * back] {
            make_blocks(node, blocks);
            let replica = IndexerReplica::launch(grounds.config(node.origin())).await;
            let words = await_stop(&replica.origin).await;
            assert_names_both(&words, top, &stored[stored.len() - 1], &hash_at(node, top));
            assert_eq!(indexed_height(&replica.origin).await, top);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_begun_once_more_under_the_same_id_is_noticed() {
    let grounds = Grounds::new().await;
    let replica = grounds.index().await;
    let (node, top) = (grounds.node(), newest(grounds.node()));
    let stored = hash_at(node, 3);
    node.go_back(0).expect("begins once more");
    make_blocks(node, 3);
    let words = await_stop(&replica.origin).await;
    assert!(words.contains("the node has another history"), "{words}");
    drop(replica);
    // The genesis and its time are the same.
    let replica = IndexerReplica::launch(grounds.config(node.origin())).await;
    assert_names_both(&await_stop(&replica.origin).await, 3, &stored, &hash_at(node, 3));
    assert_eq!(indexed_height(&replica.origin).await, top);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_without_hashes_learns_the_newest_one_where_times_agree() {
    let grounds = Grounds::new().await;
    drop(grounds.index().await);
    let (node, top) = (grounds.node(), newest(grounds.node()));
    let file = grounds.directory.path().join("index.db");
    let mut store = SqliteConnection::connect(&format!("sqlite://{}", file.display())).await.expect("connects");
    sqlx::raw_sql("UPDATE block SET hash = NULL").execute(&mut store).await.expect("as the last release wrote it");
    make_blocks(node, 2);
    drop(grounds.index().await);
    let known = sqlx::query("SELECT hash FROM block WHERE hash IS NOT NULL ORDER BY height");
    let known = known.fetch_all(&mut store).await.expect("read");
    let known: Vec<String> = known.iter().map(|row| row.try_get(0).expect("a hash")).collect();
    assert_eq!(known, [top, top + 1, top + 2].map(|height| hash_at(node, height)), "and those of the blocks after it");
    // The times of another history differ.
    sqlx::raw_sql("UPDATE block SET hash = NULL").execute(&mut store).await.expect("as the last release wrote it");
    node.go_back(top - 5).expect("goes back");
    make_blocks(node, 10);
    let replica = IndexerReplica::launch(grounds.config(node.origin())).await;
    let words = await_stop(&replica.origin).await;
    assert!(words.contains(&format!("block {} of the index is of 2026-", top + 2)), "{words}");
    assert_eq!(indexed_height(&replica.origin).await, top + 2);
}

/// A second devnet with the same blocks.
async fn twin(grounds: &Grounds) -> Devnet {
    let twin = Devnet::launch(DevnetConfig { control_port: None, ..config("corporation", None).devnet });
    let twin = twin.await.expect("starts");
    make_blocks(&twin.node, newest(grounds.node()) - newest(&twin.node));
    assert_eq!(hash_at(&twin.node, newest(grounds.node())), hash_at(grounds.node(), newest(grounds.node())));
    twin
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_whose_blocks_follow_is_read_though_the_other_one_is_taller() {
    for is_fork_first in [true, false] {
        let grounds = Grounds::new().await;
        drop(grounds.index().await);
        let fork = twin(&grounds).await;
        let (node, top) = (grounds.node(), newest(grounds.node()));
        fork.node.go_back(top - 5).expect("goes back");
        make_blocks(&fork.node, 30);
        let origins = [fork.node.origin(), node.origin()];
        let [first, second] = if is_fork_first { [0, 1] } else { [1, 0] }.map(|index: usize| origins[index].clone());
        let both = UpstreamOrigins::from(first).with_origin(second);
        let replica = IndexerReplica::launch(grounds.config(both)).await;
        make_blocks(node, 3);
        await_indexed(&replica.origin, top + 3).await;
        poll_until("it is healthy", async || health(&replica.origin).await == 200).await;
        assert_eq!(indexed_height(&replica.origin).await, top + 3);
        // The good one is away: the other one is not taken instead.
        node.stop();
        make_blocks(&fork.node, 3);
        let words = await_stop(&replica.origin).await;
        assert!(words.contains(&hash_at(node, top)) || words.contains("does not answer"), "{words}");
        node.start().expect("starts");
        make_blocks(node, 2);
        await_indexed(&replica.origin, top + 5).await;
    }
}

/// Without the verdicts in an answer: an indexer judges no height before its own start.
fn without_verdicts(mut body: Value) -> Value {
    if let Some(object) = body.as_object_mut() {
        object.remove("trust_data");
        object.values_mut().for_each(|value| *value = without_verdicts(value.take()));
    }
    if let Some(rows) = body.as_array_mut() {
        rows.iter_mut().for_each(|value| *value = without_verdicts(value.take()));
    }
    body
}

pub(super) fn rollback(grounds: &Grounds, to: u64) -> std::process::Command {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_svc"));
    command.env_clear().args(["indexer", "rollback", "--json", "--to", &to.to_string()]);
    command.env("SVC_RPC", grounds.node().origin()).env("SVC_INDEXER_DB", grounds.config("http://unused").database);
    command
}

/// Rolls back a store of which an indexer has just ended: it lets go of the store once its last task has ended.
pub(super) fn roll_back_when_free(grounds: &Grounds, to: u64) -> std::process::Output {
    loop {
        let output = rollback(grounds, to).output().expect("runs");
        if !String::from_utf8_lossy(&output.stderr).contains("stop the indexer first") {
            return output;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_rollback_every_answer_is_that_of_a_fresh_index() {
    let grounds = Grounds::with_scenario(MARKETPLACE_SCENARIO).await;
    let common = newest(grounds.node());
    store_digests(&grounds.chain.devnet, 1..21).await;
    let replica = grounds.index().await;
    let (node, top) = (grounds.node(), newest(grounds.node()));
    node.go_back(common).expect("goes back");
    store_digests(&grounds.chain.devnet, 15..30).await;
    make_blocks(node, 20);
    await_stop(&replica.origin).await;
    let refused = rollback(&grounds, common).output().expect("runs");
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && words.contains("stop the indexer first"), "{words}");
    drop(replica);
    let done = roll_back_when_free(&grounds, common);
    assert!(done.status.success(), "{done:?}");
    let report: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!((&report["from"], &report["to"]), (&top.into(), &common.into()), "{report}");
    assert!(String::from_utf8_lossy(&done.stderr).contains(&format!("the index is at block {common}")), "{done:?}");

    let replica = grounds.index().await;
    assert_eq!(health(&replica.origin).await, 200);
    let fresh = IndexerReplica::launch(IndexerConfig::new(node.origin(), "sqlite::memory:")).await;
    await_indexed(&fresh.origin, newest(node)).await;
    for endpoint in read_endpoints().expect("the table of reads") {
        // The state of the indexer is of the moment.
        let operation = endpoint.operation.as_str();
        if operation.starts_with("vt.") || operation.starts_with("indexer.get") {
            continue;
        }
        for at in [newest(node), common + 1, common, common / 2] {
            let [rolled, fresh] = [
                send_sample(&replica.origin, endpoint, &grounds.chain, Some(at)).await,
                send_sample(&fresh.origin, endpoint, &grounds.chain, Some(at)).await,
            ];
            let [rolled, fresh] = [rolled, fresh].map(|answer| (answer.status, without_verdicts(answer.body)));
            assert_eq!(rolled, fresh, "{} at {at}", endpoint.path);
        }
    }
    for height in common - 2..=newest(node) {
        for path in ["/v4/indexer/changes", "/v4/indexer/block-height"] {
            let read = async |origin: &str| read_ok_at(origin, path, Some(height)).await;
            assert_eq!(read(&replica.origin).await, read(&fresh.origin).await, "{path} at {height}");
        }
    }
    let events = "/v4/indexer/events?after_block_height=1&limit=500";
    assert_eq!(read_ok(&replica.origin, events).await, read_ok(&fresh.origin, events).await);
    let found = verify_index(&grounds.config(node.origin()), None).await.expect("compared");
    assert_eq!(found.difference_count, 0, "{:#?}", found.differences);
}

/// Chooses the node for a request by the height that it names.
type Choice = fn(Option<u64>) -> usize;

#[derive(Clone)]
struct Balancer {
    nodes: Arc<[String; 2]>,
    choice: Choice,
    client: reqwest::Client,
}

async fn forward(State(balancer): State<Balancer>, body: Bytes) -> impl axum::response::IntoResponse {
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let height = request["params"]["height"].as_str().and_then(|text| text.parse().ok());
    let node = &balancer.nodes[(balancer.choice)(height)];
    let answer = balancer.client.post(node).body(body).send().await.expect("the node answers");
    ([(CONTENT_TYPE, "application/json")], answer.bytes().await.expect("its answer"))
}

/// A balancer before two nodes, which forwards requests over POST.
async fn balance(nodes: [&Node; 2], choice: Choice) -> String {
    let nodes = Arc::new(nodes.map(Node::origin));
    let client = reqwest::Client::new();
    let state = Balancer { nodes, choice, client };
    let router = Router::new().route("/", post(forward)).with_state(state);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let origin = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    origin
}

#[tokio::test(flavor = "multi_thread")]
async fn a_balancer_that_alternates_between_two_histories_stops_the_indexer() {
    let grounds = Grounds::new().await;
    drop(grounds.index().await);
    let fork = twin(&grounds).await;
    let (node, top) = (grounds.node(), newest(grounds.node()));
    fork.node.go_back(top - 2).expect("goes back");
    make_blocks(&fork.node, 12);
    make_blocks(node, 10);
    let origin = balance([node, &fork.node], |height| usize::from(height.is_some_and(|height| height % 2 == 0))).await;
    let replica = IndexerReplica::launch(grounds.config(origin)).await;
    let words = await_stop(&replica.origin).await;
    assert!(words.contains("the node has another history"), "{words}");
    let height = indexed_height(&replica.origin).await;
    make_blocks(node, 3);
    make_blocks(&fork.node, 3);
    assert_eq!(await_stop(&replica.origin).await, words);
    assert_eq!(indexed_height(&replica.origin).await, height);
}

/// Blocks up to this height come from the first node, later ones from the second.
const LAST_OF_FIRST: u64 = 40;

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_the_catch_up_ends_with_the_last_block_that_follows() {
    let grounds = Grounds::new().await;
    let fork = twin(&grounds).await;
    let (node, top) = (grounds.node(), newest(grounds.node()));
    fork.node.go_back(LAST_OF_FIRST - 1).expect("goes back");
    make_blocks(&fork.node, top - LAST_OF_FIRST + 1);
    let origin = balance([node, &fork.node], |height| usize::from(height.is_none_or(|height| height > LAST_OF_FIRST)));
    let replica = IndexerReplica::launch(grounds.config(origin.await)).await;
    let words = await_stop(&replica.origin).await;
    assert_names_both(&words, LAST_OF_FIRST, &hash_at(node, LAST_OF_FIRST), &hash_at(&fork.node, LAST_OF_FIRST));
    assert_eq!(indexed_height(&replica.origin).await, LAST_OF_FIRST);
}
