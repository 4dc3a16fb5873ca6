//! Mempools that are full, lose transactions, or answer incorrectly.

use std::time::Duration;

use serde_json::{Value, json};
use svc_devnet::node::{CheckTxRefusal, GarbleFault, GarbleKind};

use super::super::harness::{
    CREATE_ECOSYSTEM, ecosystem_arguments, network_config, pause, start_network, start_quick_network,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_full_mempool_delays_writes_and_loses_none() {
    let world = start_quick_network().await;
    world.network.devnet.node.update_faults(|faults| faults.mempool_full = true);
    let writes = (0..4).map(|index| world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments(format!("full-{index}"))));
    let relief = async {
        world.await_blocks(3).await;
        let status = world.call_ok("svc.wallet.getStatus", json!({})).await;
        let signer = status["actors"].as_array().expect("a list").iter().find(|actor| actor["name"] == "signer");
        let window = signer.expect("there")["state"]["window"].as_u64();
        assert!(window.is_some_and(|window| window < 256), "the window has shrunk: {status:#}");
        world.network.devnet.node.update_faults(|faults| faults.mempool_full = false);
    };
    let (answers, ()) = tokio::join!(futures::future::join_all(writes), relief);
    for (index, answer) in answers.iter().enumerate() {
        world.assert_included_once(&format!("full-{index}"), answer);
    }
    assert_eq!(world.operator_txs_in_blocks(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_already_in_the_mempool_count_as_submitted() {
    let world = start_quick_network().await;
    let node = &world.network.devnet.node;
    // The answer of the broadcast is lost, so the bytes are resent, and the mempool already has them.
    node.update_faults(|faults| {
        faults.hold_inclusion = true;
        faults.garble =
            Some(GarbleFault { times: 1, method: "broadcast_tx_sync".to_owned(), how: GarbleKind::Malformed });
    });
    let release = async {
        world.await_mempool_size(1).await;
        world.await_blocks(3).await;
        node.update_faults(|faults| faults.hold_inclusion = false);
    };
    let (answer, ()) = tokio::join!(world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("cached")), release);
    world.assert_included_once("cached", &answer);
    assert_eq!(world.operator_txs_in_blocks(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_code_19_of_a_node_is_detected() {
    let world = start_quick_network().await;
    let refusal = CheckTxRefusal::sdk(1, 19, "tx already in mempool");
    world.network.devnet.node.update_faults(|faults| faults.refuse = Some(refusal));
    let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("nineteen")).await;
    world.assert_included_once("nineteen", &answer);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_has_just_started_refuses_no_write() {
    let world = start_network(network_config(700)).await;
    world.await_blocks(1).await;
    world.network.devnet.node.update_faults(|faults| faults.has_just_started = true);
    let writes = (0..4).map(|index| world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments(format!("early-{index}"))));
    let answers = futures::future::join_all(writes).await;
    for (index, answer) in answers.iter().enumerate() {
        world.assert_included_once(&format!("early-{index}"), answer);
    }
    assert_eq!(world.operator_txs_in_blocks(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_reports_too_much_gas_raises_no_fee() {
    let world = start_quick_network().await;
    let node = &world.network.devnet.node;
    node.update_faults(|faults| faults.understate_gas_percent = 100_000);
    let error = world.call_error(CREATE_ECOSYSTEM, ecosystem_arguments("dear"), "FEE_ABOVE_CEILING").await;
    assert_eq!((&error["stage"], &error["retryable"]), (&json!("broadcast"), &json!(false)));
    assert_eq!((&error["details"]["kind"], &error["details"]["limit"]), (&json!("gas"), &json!("20000000")));
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("SVC_MAX_GAS")), "{error:#}");
    assert_eq!(world.operator_txs_in_blocks(), 0);
    node.update_faults(|faults| faults.understate_gas_percent = 0);
    let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("cheap")).await;
    world.assert_included_once("cheap", &answer);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_dropped_by_a_recheck_is_resent() {
    let world = start_quick_network().await;
    world.network.devnet.node.update_faults(|faults| (faults.hold_blocks, faults.drop_on_recheck) = (2, 1));
    let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("rechecked")).await;
    world.assert_included_once("rechecked", &answer);
    assert_eq!(world.network.devnet.node.update_faults(|faults| faults.drop_on_recheck), 0, "it was dropped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_included_after_the_timeout_is_recorded() {
    let mut settings = network_config(100);
    settings.tx_timeout = Duration::from_secs(1);
    let world = start_network(settings).await;
    let node = &world.network.devnet.node;
    node.update_faults(|faults| faults.hold_inclusion = true);
    let error = world.call_error(CREATE_ECOSYSTEM, ecosystem_arguments("late"), "BCAST_TIMEOUT").await;
    assert_eq!(world.transaction_states().await, ["open"]);
    node.update_faults(|faults| faults.hold_inclusion = false);
    world.wait_until("it is decided", async || world.transaction_states().await == ["included"]).await;
    let row = &world.transactions().await[0];
    assert_eq!((&row["tx_hash"], &row["is_late"]), (&error["details"]["tx_hash"], &json!(true)));
    assert_eq!(world.times_on_chain("late"), 1);
    world
        .wait_until("the audit is complete", async || {
            let read = world.client.read_resource("svc://own/audit").await.expect("readable");
            read["records"][0]["end"]["outcome"] == "included"
        })
        .await;
    let metrics = reqwest::get(format!("{}/metrics", world.network.server_origin())).await.expect("answered");
    let metrics = metrics.text().await.expect("text");
    for line in ["svc_mcp_tx_timeout_total", "svc_mcp_tx_late_total", "svc_mcp_tx_outcome_total"] {
        assert!(metrics.is_empty() || metrics.contains(line), "{line} in {metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_is_not_included_expires_and_frees_its_sequence() {
    let mut settings = network_config(100);
    settings.tx_timeout = Duration::from_secs(1);
    let world = start_network(settings).await;
    let node = &world.network.devnet.node;
    node.update_faults(|faults| faults.hold_inclusion = true);
    world.call_error(CREATE_ECOSYSTEM, ecosystem_arguments("never"), "BCAST_TIMEOUT").await;
    world.wait_until("it has expired", async || world.transaction_states().await == ["expired"]).await;
    node.update_faults(|faults| faults.hold_inclusion = false);
    let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("next")).await;
    world.assert_included_once("next", &answer);
    assert_eq!(world.times_on_chain("never"), 0);
    let sequences: Vec<Value> = world.transactions().await.iter().map(|row| row["sequence"].clone()).collect();
    assert_eq!(sequences[0], sequences[1], "the sequence was used by the next");
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_block_events_lose_no_inclusion() {
    let world = start_quick_network().await;
    for index in 0..3 {
        let name = format!("unheard-{index}");
        world.network.devnet.node.update_faults(|faults| faults.lose_events = 3);
        let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments(&name)).await;
        world.assert_included_once(&name, &answer);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_cut_at_any_stage_loses_no_write() {
    let world = start_quick_network().await;
    let node = &world.network.devnet.node;
    // The cuts: before the signature, in the mempool, with the block, and during the wait for the indexer.
    for point in 0..4 {
        let name = format!("cut-{point}");
        node.update_faults(|faults| faults.hold_inclusion = point == 1);
        let cut = async {
            match point {
                0 => node.cut_websockets(),
                1 => {
                    world.await_mempool_size(1).await;
                    node.cut_websockets();
                    node.update_faults(|faults| faults.hold_inclusion = false);
                    world.await_blocks(1).await;
                    node.cut_websockets();
                }
                2 => {
                    world.await_blocks(1).await;
                    node.cut_websockets();
                }
                _ => {
                    while world.times_on_chain(&name) == 0 {
                        pause().await;
                    }
                    node.cut_websockets();
                }
            }
        };
        let (answer, ()) = tokio::join!(world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments(&name)), cut);
        world.assert_included_once(&name, &answer);
    }
    assert_eq!(world.operator_txs_in_blocks(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_answer_leaves_no_doubt_about_the_write() {
    let world = start_quick_network().await;
    let kinds = [GarbleKind::Malformed, GarbleKind::WrongId, GarbleKind::Html, GarbleKind::Empty, GarbleKind::Cut];
    for (index, how) in kinds.into_iter().enumerate() {
        let name = format!("handed-over-{index}");
        let method = "broadcast_tx_sync".to_owned();
        world.network.devnet.node.update_faults(|faults| faults.garble = Some(GarbleFault { times: 2, method, how }));
        let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments(&name)).await;
        world.assert_included_once(&name, &answer);
        world.network.devnet.node.update_faults(|faults| faults.garble = None);
        // Before the broadcast the call fails with this error, and nothing was sent.
        let name = format!("asked-{index}");
        let method = "abci_query".to_owned();
        world.network.devnet.node.update_faults(|faults| faults.garble = Some(GarbleFault { times: 1, method, how }));
        let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments(&name)).await;
        world.network.devnet.node.update_faults(|faults| faults.garble = None);
        if answer.is_error {
            assert_eq!((&answer.content["stage"], world.times_on_chain(&name)), (&json!("upstream"), 0), "{how:?}");
        } else {
            // The garbled answer was one to the refresher.
            world.assert_included_once(&name, &answer);
        }
    }
    let method = "tx".to_owned();
    let node = &world.network.devnet.node;
    node.update_faults(|faults| {
        faults.garble = Some(GarbleFault { times: 3, method, how: GarbleKind::Html });
        faults.lose_events = 4;
    });
    let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("looked-up")).await;
    world.assert_included_once("looked-up", &answer);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_node_delays_writes_and_fails_none() {
    let world = start_quick_network().await;
    world.network.devnet.node.update_faults(|faults| faults.delay_ms = 400);
    let answers = futures::future::join_all(
        ["slow-0", "slow-1"].map(|name| world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments(name))),
    )
    .await;
    world.network.devnet.node.update_faults(|faults| faults.delay_ms = 0);
    world.assert_included_once("slow-0", &answers[0]);
    world.assert_included_once("slow-1", &answers[1]);
}
