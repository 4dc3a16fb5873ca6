//! Answers of the node to a broadcast that come long after the bytes have left.

use std::time::{Duration, Instant};

use serde_json::json;
use svc_devnet::node::Node;

use crate::e2e::harness::{CREATE_ECOSYSTEM, ecosystem_arguments, network_config, start_network};

/// Far above the wait limit of a caller, and below the time limit of a request.
const DELAY: Duration = Duration::from_secs(12);

fn delay_broadcasts(node: &Node) {
    node.update_faults(|faults| {
        (faults.delay_ms, faults.delay_after) = (12_000, true);
        faults.delay_method = "broadcast_tx_sync".to_owned();
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_in_a_block_is_answered_before_the_node_answers_its_broadcast() {
    let mut settings = network_config(200);
    settings.tx_timeout = Duration::from_secs(8);
    let world = start_network(settings).await;
    delay_broadcasts(&world.network.devnet.node);
    let began = Instant::now();
    let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("included")).await;
    assert!(began.elapsed() < DELAY, "{:?}", began.elapsed());
    world.assert_included_once("included", &answer);
    world.network.devnet.node.update_faults(|faults| faults.delay_ms = 0);
    let next = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("next")).await;
    world.assert_included_once("next", &next);
    assert_eq!(world.operator_txs_in_blocks(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wait_of_a_caller_begins_when_the_bytes_leave() {
    let mut settings = network_config(200);
    settings.tx_timeout = Duration::from_secs(2);
    let world = start_network(settings).await;
    let node = &world.network.devnet.node;
    delay_broadcasts(node);
    node.update_faults(|faults| faults.hold_inclusion = true);
    let began = Instant::now();
    let error = world.call_error(CREATE_ECOSYSTEM, ecosystem_arguments("held"), "BCAST_TIMEOUT").await;
    assert!(began.elapsed() < DELAY, "{:?}", began.elapsed());
    let hash = error["details"]["tx_hash"].clone();
    assert!(hash.as_str().is_some_and(|hash| !hash.is_empty()), "{error:#}");
    let states = world.transactions().await;
    assert_eq!((&states[0]["tx_hash"], &states[0]["state"]), (&hash, &json!("open")));
    // The write goes on.
    node.update_faults(|faults| faults.hold_inclusion = false);
    world.wait_until("a block has it", async || world.transaction_states().await == ["included"]).await;
    assert_eq!((world.times_on_chain("held"), world.operator_txs_in_blocks()), (1, 1));
}

/// The node refuses the bytes, and says so only when the caller was answered with their hash.
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_knows_a_hash_gets_no_second_transaction() {
    let mut settings = network_config(200);
    settings.tx_timeout = Duration::from_secs(2);
    let world = start_network(settings).await;
    let node = &world.network.devnet.node;
    delay_broadcasts(node);
    // Out of gas: without a waiting caller that knows the hash, the signer signs once more with twice the gas.
    node.update_faults(|faults| faults.refuse = Some(svc_devnet::node::CheckTxRefusal::sdk(1, 11, "out of gas")));
    let error = world.call_error(CREATE_ECOSYSTEM, ecosystem_arguments("refused"), "BCAST_TIMEOUT").await;
    let hash = error["details"]["tx_hash"].clone();
    node.update_faults(|faults| (faults.refuse, faults.delay_ms) = (None, 0));
    // The next write is signed behind the answer about the first one.
    let next = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("next")).await;
    world.assert_included_once("next", &next);
    let rows = world.transactions().await;
    let refused: Vec<_> = rows.iter().filter(|row| row["state"] != "included").collect();
    assert_eq!((rows.len(), refused.len(), &refused[0]["tx_hash"]), (2, 1, &hash), "{rows:#?}");
    assert_eq!((world.times_on_chain("refused"), world.operator_txs_in_blocks()), (0, 1));
}
