//! Outcomes are decided by blocks: an index of transactions may lack a block for good, or be off.

use std::time::Duration;

use serde_json::{Value, json};

use svc_devnet::node::RpcFailure;

use super::super::harness::{
    CREATE_ECOSYSTEM, ecosystem_arguments, network_config, poll_until, start_network, start_quick_network,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_block_that_the_index_lacks_is_read_itself() {
    let world = start_quick_network().await;
    for round in 0..3 {
        let name = format!("unindexed-{round}");
        // A node killed between commit and indexing: neither its events nor its index have the block.
        world.network.devnet.node.update_faults(|faults| (faults.unindexed_blocks, faults.lose_events) = (1, 4));
        let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments(&name)).await;
        world.assert_included_once(&name, &answer);
    }
    assert_eq!(world.operator_txs_in_blocks(), 3);
    let metrics = reqwest::get(format!("{}/metrics", world.network.server_origin())).await.expect("answered");
    let metrics = metrics.text().await.expect("text");
    assert!(metrics.is_empty() || metrics.contains("svc_mcp_tx_proof_reads_total"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_that_only_events_and_the_index_state_is_not_believed() {
    let world = start_quick_network().await;
    world.network.devnet.node.update_faults(|faults| faults.lies.failed_txs = true);
    let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("said-to-have-failed")).await;
    world.assert_included_once("said-to-have-failed", &answer);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_in_a_block_before_the_stated_height_of_signing_is_found() {
    let mut settings = network_config(50);
    settings.tx_timeout = Duration::from_secs(1);
    let world = start_network(settings).await;
    let node = &world.network.devnet.node;
    node.update_faults(|faults| {
        (faults.index_off, faults.lose_events, faults.lies.height_ahead) = (true, 1_000_000, 100)
    });
    node.cut_websockets();
    let clock = async || world.call_ok("svc.wallet.getStatus", json!({})).await["rpc_ws"]["last_height"].as_u64();
    world.wait_until("the lie is believed", async || clock().await >= Some(world.height() + 50)).await;
    world.call_error(CREATE_ECOSYSTEM, ecosystem_arguments("too-early"), "BCAST_TIMEOUT").await;
    node.update_faults(|faults| (faults.lose_events, faults.lies.height_ahead) = (0, 0));
    world.wait_until("it is found", async || world.transaction_states().await == ["included"]).await;
    assert_eq!(world.times_on_chain("too-early"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_index_lost_events_and_lost_transactions_stop_nothing() {
    let mut settings = network_config(100);
    settings.tx_timeout = Duration::from_secs(3);
    let world = start_network(settings).await;
    let node = &world.network.devnet.node;
    node.update_faults(|faults| (faults.index_off, faults.lose_events) = (true, 4));
    let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("heard-of-in-a-block")).await;
    world.assert_included_once("heard-of-in-a-block", &answer);
    node.update_faults(|faults| faults.hold_inclusion = true);
    world.call_error(CREATE_ECOSYSTEM, ecosystem_arguments("never"), "BCAST_TIMEOUT").await;
    let states = async || world.transaction_states().await == ["included", "expired"];
    world.wait_until("the blocks up to its timeout height prove it", states).await;
    node.update_faults(|faults| faults.hold_inclusion = false);
    let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("next")).await;
    world.assert_included_once("next", &answer);
    let hash = answer.content["tx_hash"].clone();
    let status = world.call_ok("svc.cosmos.tx.getTx", json!({ "hash": hash })).await;
    assert_eq!((&status["found"], &status["block_height"]), (&Value::Bool(true), &answer.content["block_height"]));
}

/// An internal error of the only node is no proof that no node has a block, and does not delay the next question.
#[tokio::test(flavor = "multi_thread")]
async fn an_internal_error_of_the_node_says_nothing_of_a_block() {
    let mut settings = network_config(300);
    settings.tx_timeout = Duration::from_secs(12);
    let world = start_network(settings).await;
    let node = &world.network.devnet.node;
    const FAILURES: u32 = 1_000_000;
    let mut ready = node.watch_heights();
    ready.changed().await.expect("a block");
    for (name, method) in [("block-fails", "block"), ("results-fail", "block_results")] {
        node.update_faults(|faults| {
            (faults.index_off, faults.lose_events) = (true, FAILURES);
            let methods = vec![method.to_owned()];
            faults.fail_methods = Some(RpcFailure { times: FAILURES, methods, data: "leveldb: closed".to_owned() });
        });
        let mend = async {
            let left = || node.update_faults(|faults| faults.fail_methods.as_ref().map_or(0, |fault| fault.times));
            // A lookup reads the newest blocks at first, and others reads none after it has failed.
            poll_until("the lookup has failed", async || world.times_on_chain(name) == 1 && left() + 20 < FAILURES)
                .await;
            node.update_faults(|faults| faults.fail_methods = None);
        };
        let (answer, ()) = tokio::join!(world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments(name)), mend);
        world.assert_included_once(name, &answer);
    }
}
