//! Mempools that are full, forget, or say what is not so.

use std::time::Duration;

use serde_json::{Value, json};
use svc_devnet::node::{Garble, GarbleKind, Refusal};

use super::super::harness::{CREATE, config, ecosystem, quick, world};

#[tokio::test(flavor = "multi_thread")]
async fn a_full_mempool_holds_writes_up_and_loses_none() {
    let world = quick().await;
    world.network.devnet.node.faults(|faults| faults.mempool_full = true);
    let writes = (0..4).map(|index| world.call(CREATE, ecosystem(format!("full-{index}"))));
    let relief = async {
        world.blocks(3).await;
        let status = world.ok("svc.wallet.getStatus", json!({})).await;
        let signer = status["actors"].as_array().expect("a list").iter().find(|actor| actor["name"] == "signer");
        let window = signer.expect("there")["state"]["window"].as_u64();
        assert!(window.is_some_and(|window| window < 256), "the window has shrunk: {status:#}");
        world.network.devnet.node.faults(|faults| faults.mempool_full = false);
    };
    let (answers, ()) = tokio::join!(futures::future::join_all(writes), relief);
    for (index, answer) in answers.iter().enumerate() {
        world.assert_happened(&format!("full-{index}"), answer);
    }
    assert_eq!(world.operator_txs_in_blocks(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_in_the_mempool_already_count_as_submitted() {
    let world = quick().await;
    let node = &world.network.devnet.node;
    // The answer of the hand-over is lost, so it is handed over again, and the mempool remembers.
    node.faults(|faults| {
        faults.hold_inclusion = true;
        faults.garble = Some(Garble { times: 1, method: "broadcast_tx_sync".to_owned(), how: GarbleKind::Malformed });
    });
    let release = async {
        world.until_waiting(1).await;
        world.blocks(3).await;
        node.faults(|faults| faults.hold_inclusion = false);
    };
    let (answer, ()) = tokio::join!(world.call(CREATE, ecosystem("cached")), release);
    world.assert_happened("cached", &answer);
    assert_eq!(world.operator_txs_in_blocks(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_wrongly_says_code_19_is_found_out() {
    let world = quick().await;
    let refusal = Refusal { times: 1, codespace: "sdk".to_owned(), code: 19, log: "tx already in mempool".to_owned() };
    world.network.devnet.node.faults(|faults| faults.refuse = Some(refusal));
    let answer = world.call(CREATE, ecosystem("nineteen")).await;
    world.assert_happened("nineteen", &answer);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_recheck_drops_is_sent_again() {
    let world = quick().await;
    world.network.devnet.node.faults(|faults| (faults.hold_blocks, faults.drop_on_recheck) = (2, 1));
    let answer = world.call(CREATE, ecosystem("rechecked")).await;
    world.assert_happened("rechecked", &answer);
    assert_eq!(world.network.devnet.node.faults(|faults| faults.drop_on_recheck), 0, "it was dropped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_comes_after_the_caller_was_told_is_on_record() {
    let mut settings = config(100);
    settings.tx_timeout = Duration::from_secs(1);
    let world = world(settings).await;
    let node = &world.network.devnet.node;
    node.faults(|faults| faults.hold_inclusion = true);
    let error = world.fails(CREATE, ecosystem("late"), "BCAST_TIMEOUT").await;
    assert_eq!(world.states().await, ["open"]);
    node.faults(|faults| faults.hold_inclusion = false);
    world.until("it is decided", async || world.states().await == ["included"]).await;
    let row = &world.transactions().await[0];
    assert_eq!((&row["tx_hash"], &row["is_late"]), (&error["details"]["tx_hash"], &json!(true)));
    assert_eq!(world.times_on_chain("late"), 1);
    world
        .until("the audit is complete", async || {
            let read = world.client.read("svc://own/audit").await.expect("readable");
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
async fn a_transaction_that_is_never_included_expires_for_certain_and_frees_its_sequence() {
    let mut settings = config(100);
    settings.tx_timeout = Duration::from_secs(1);
    let world = world(settings).await;
    let node = &world.network.devnet.node;
    node.faults(|faults| faults.hold_inclusion = true);
    world.fails(CREATE, ecosystem("never"), "BCAST_TIMEOUT").await;
    world.until("it has expired", async || world.states().await == ["expired"]).await;
    node.faults(|faults| faults.hold_inclusion = false);
    let answer = world.call(CREATE, ecosystem("next")).await;
    world.assert_happened("next", &answer);
    assert_eq!(world.times_on_chain("never"), 0);
    let sequences: Vec<Value> = world.transactions().await.iter().map(|row| row["sequence"].clone()).collect();
    assert_eq!(sequences[0], sequences[1], "the sequence was used by the next");
}

#[tokio::test(flavor = "multi_thread")]
async fn block_events_that_are_lost_lose_no_inclusion() {
    let world = quick().await;
    for index in 0..3 {
        let name = format!("unheard-{index}");
        world.network.devnet.node.faults(|faults| faults.lose_events = 3);
        let answer = world.call(CREATE, ecosystem(&name)).await;
        world.assert_happened(&name, &answer);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_that_is_cut_at_any_point_of_the_flow_loses_nothing() {
    let world = quick().await;
    let node = &world.network.devnet.node;
    // Before it is signed; when it waits in the mempool; with its block; when the indexer is waited for.
    for point in 0..4 {
        let name = format!("cut-{point}");
        node.faults(|faults| faults.hold_inclusion = point == 1);
        let cut = async {
            match point {
                0 => node.cut_websockets(),
                1 => {
                    world.until_waiting(1).await;
                    node.cut_websockets();
                    node.faults(|faults| faults.hold_inclusion = false);
                    world.blocks(1).await;
                    node.cut_websockets();
                }
                2 => {
                    world.blocks(1).await;
                    node.cut_websockets();
                }
                _ => {
                    while world.times_on_chain(&name) == 0 {
                        tokio::task::yield_now().await;
                    }
                    node.cut_websockets();
                }
            }
        };
        let (answer, ()) = tokio::join!(world.call(CREATE, ecosystem(&name)), cut);
        world.assert_happened(&name, &answer);
    }
    assert_eq!(world.operator_txs_in_blocks(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_cannot_be_read_leaves_no_doubt_about_the_write() {
    let world = quick().await;
    let kinds = [GarbleKind::Malformed, GarbleKind::WrongId, GarbleKind::Html, GarbleKind::Empty, GarbleKind::Cut];
    for (index, how) in kinds.into_iter().enumerate() {
        let name = format!("handed-over-{index}");
        let method = "broadcast_tx_sync".to_owned();
        world.network.devnet.node.faults(|faults| faults.garble = Some(Garble { times: 2, method, how }));
        let answer = world.call(CREATE, ecosystem(&name)).await;
        world.assert_happened(&name, &answer);
        world.network.devnet.node.faults(|faults| faults.garble = None);
        // Before anything is handed over, the failure itself is the answer, and nothing was sent.
        let name = format!("asked-{index}");
        let method = "abci_query".to_owned();
        world.network.devnet.node.faults(|faults| faults.garble = Some(Garble { times: 1, method, how }));
        let answer = world.call(CREATE, ecosystem(&name)).await;
        world.network.devnet.node.faults(|faults| faults.garble = None);
        if answer.is_error {
            assert_eq!((&answer.content["stage"], world.times_on_chain(&name)), (&json!("upstream"), 0), "{how:?}");
        } else {
            // The refresher's question was the one that was garbled.
            world.assert_happened(&name, &answer);
        }
    }
    let method = "tx".to_owned();
    let node = &world.network.devnet.node;
    node.faults(|faults| {
        faults.garble = Some(Garble { times: 3, method, how: GarbleKind::Html });
        faults.lose_events = 4;
    });
    let answer = world.call(CREATE, ecosystem("looked-up")).await;
    world.assert_happened("looked-up", &answer);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_node_makes_slow_writes() {
    let world = quick().await;
    world.network.devnet.node.faults(|faults| faults.delay_ms = 400);
    let answers = futures::future::join_all(["slow-0", "slow-1"].map(|name| world.call(CREATE, ecosystem(name)))).await;
    world.network.devnet.node.faults(|faults| faults.delay_ms = 0);
    world.assert_happened("slow-0", &answers[0]);
    world.assert_happened("slow-1", &answers[1]);
}
