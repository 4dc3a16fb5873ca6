//! Nodes that answer nothing, chains without blocks, and nodes that state heights which nothing supports.

use std::time::Duration;

use serde_json::{Value, json};
use svc_devnet::node::Node;
use svc_indexer::IndexerConfig;
use svc_net::upstream::UpstreamOrigins;

use super::{IndexerReplica, await_indexed, produce_blocks, read_at, read_ok, start_chain_and_indexer};
use crate::e2e::harness::poll_until;

async fn health(origin: &str) -> (u16, Value) {
    let answer = reqwest::get(format!("{origin}/healthz")).await.expect("answered");
    (answer.status().as_u16(), answer.json().await.expect("JSON"))
}

fn in_memory(rpc: impl Into<UpstreamOrigins>) -> IndexerConfig {
    // Three of these intervals are less than the 15 s that a silence lasts at least.
    IndexerConfig { block_interval: Some(Duration::from_millis(200)), ..IndexerConfig::new(rpc, "sqlite::memory:") }
}

fn newest(node: &Node) -> u64 {
    *node.watch_heights().borrow()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_indexer_whose_node_is_away_is_stopped_and_reads_go_on() {
    let chain = start_chain_and_indexer("corporation").await;
    let top = produce_blocks(&chain, 3).await;
    let node = &chain.devnet.node;
    let replica = IndexerReplica::launch(in_memory(node.origin())).await;
    await_indexed(&replica.origin, top).await;
    let (status, before) = health(&replica.origin).await;
    assert_eq!((status, &before["status"]), (200, &json!("ok")));
    node.stop();
    poll_until("it has stopped", async || health(&replica.origin).await.0 == 503).await;
    let status = read_at(&replica.origin, "/v4/indexer/status", None).await;
    assert_eq!((status.status, status.headers["x-crawling-status"].as_bytes()), (200, b"stopped".as_slice()));
    assert_eq!((&status.body["is_running"], &status.body["is_crawling"]), (&json!(true), &json!(false)));
    assert_eq!(status.body["last_error"]["message"], "no node has answered for 15 s");
    let age = |body: &Value| body["block_age_seconds"].as_u64().expect("an age");
    assert!(age(&status.body) >= age(&before) + 14, "{before} {}", status.body);
    node.start().expect("starts again");
    poll_until("it goes on", async || health(&replica.origin).await.0 == 200).await;
    assert_eq!(read_ok(&replica.origin, "/v4/indexer/status").await["is_crawling"], true);
    let top = produce_blocks(&chain, 2).await;
    await_indexed(&replica.origin, top).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_height_that_one_node_alone_states_stops_nothing() {
    let chain = start_chain_and_indexer("corporation").await;
    let first = &chain.devnet.node;
    let second = &first.start_replica(([127, 0, 0, 1], 0).into()).expect("starts");
    for liar in [second, first] {
        liar.update_faults(|faults| faults.lies.height_ahead = 100_000);
        let both = UpstreamOrigins::from(first.origin()).with_origin(second.origin());
        let replica = IndexerReplica::launch(in_memory(both)).await;
        for _ in 0..5 {
            first.produce_block().expect("a block");
            await_indexed(&replica.origin, newest(first)).await;
            let status = read_ok(&replica.origin, "/v4/indexer/status").await;
            assert_eq!((&status["is_crawling"], health(&replica.origin).await.0), (&json!(true), 200), "{status}");
        }
        liar.update_faults(|faults| faults.lies.height_ahead = 0);
    }
}
