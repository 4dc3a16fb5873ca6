//! Servers that fail: the answer says what is so, and later calls work again.

use std::time::Duration;

use serde_json::json;

use super::harness::{CREATE, config, ecosystem, quick, world};

#[tokio::test(flavor = "multi_thread")]
async fn an_indexer_that_is_down_makes_the_write_unsynced_but_not_failed() {
    let mut settings = config(100);
    settings.indexer_timeout = Duration::from_millis(1500);
    let mut world = world(settings).await;
    world.network.stop_indexer();
    let receipt = world.ok(CREATE, ecosystem("unsynced")).await;
    assert_eq!(receipt["indexer_synced"], false);
    assert!(receipt["indexer_height"].as_u64() < receipt["block_height"].as_u64());
    assert_eq!(receipt["response"]["ecosystem_id"], "1");
    let error = world.fails("svc.idx.es.getEcosystem", json!({"id": 1}), "UPSTREAM_UNREACHABLE").await;
    assert_eq!((&error["details"]["kind"], &error["retryable"]), (&json!("indexer"), &json!(true)));

    world.network.start_indexer().await.expect("starts again");
    world
        .until("the indexer has caught up", async || {
            !world.call("svc.idx.es.getEcosystem", json!({"id": 1})).await.is_error
        })
        .await;
    world
        .until("writes are synced again", async || {
            let name = format!("again-{}", world.height());
            world.call(CREATE, ecosystem(name)).await.content["indexer_synced"] == true
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_down_is_told_and_found_again() {
    let world = quick().await;
    world.network.devnet.node.stop();
    let error = world.fails(CREATE, ecosystem("down"), "UPSTREAM_UNREACHABLE").await;
    assert_eq!((&error["stage"], &error["details"]["kind"]), (&json!("upstream"), &json!("rpc")));
    world.network.devnet.node.start().expect("starts again");
    world
        .until("writes work again", async || {
            !world.call(CREATE, ecosystem(format!("up-{}", world.height()))).await.is_error
        })
        .await;
    assert!(!world.ecosystems_on_chain().contains(&"did:web:down.example".to_owned()), "what failed was not sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_websocket_loses_no_inclusion() {
    let world = quick().await;
    for index in 0..5 {
        let write = world.ok(CREATE, ecosystem(format!("cut-{index}")));
        let cut = async { world.network.devnet.node.cut_websockets() };
        let (receipt, ()) = tokio::join!(write, cut);
        assert_eq!(receipt["code"], 0);
    }
    assert_eq!(world.ecosystems_on_chain().len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_vanishes_after_check_tx_is_sent_again_with_the_next_write() {
    let world = quick().await;
    world.network.devnet.node.faults(|faults| faults.drop_after_check = 1);
    let (first, second) = tokio::join!(world.call(CREATE, ecosystem("lost")), async {
        // The node's next block forgets the sequence of the lost one; a write after that shows it.
        let mut heights = world.network.devnet.node.heights();
        heights.changed().await.expect("a block");
        heights.changed().await.expect("a block");
        world.call(CREATE, ecosystem("after")).await
    });
    assert!(!first.is_error, "{:#}", first.content);
    assert!(!second.is_error, "{:#}", second.content);
    assert_eq!(world.operator_txs_in_blocks(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_never_comes_is_a_timeout_first_and_an_expiry_for_certain() {
    let mut settings = config(100);
    settings.tx_timeout = Duration::from_secs(1);
    let world = world(settings).await;
    world.network.devnet.node.faults(|faults| faults.hold_inclusion = true);
    let error = world.fails(CREATE, ecosystem("held"), "BCAST_TIMEOUT").await;
    let hash = error["details"]["tx_hash"].clone();
    assert!(error["details"]["timeout_height"].as_u64().is_some_and(|height| height > world.height()));
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("svc.cosmos.tx.getTx")));
    let pending = world.ok("svc.cosmos.tx.getTx", json!({"hash": hash})).await;
    assert_eq!((&pending["found"], &pending["state"]), (&json!(false), &json!("pending")));
    world
        .until("the transaction has expired", async || {
            world.ok("svc.cosmos.tx.getTx", json!({"hash": hash})).await["state"] == "expired"
        })
        .await;
    world.network.devnet.node.faults(|faults| faults.hold_inclusion = false);
    world
        .until("writes work on the freed sequence", async || !world.call(CREATE, ecosystem("next")).await.is_error)
        .await;
    assert!(
        !world.ecosystems_on_chain().contains(&"did:web:held.example".to_owned()),
        "an expired transaction never executes"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_simulation_sends_nothing() {
    let world = quick().await;
    let text = "failed to execute message; message index: 0: something: broken with gas used: '1'".to_owned();
    world.network.devnet.node.faults(|faults| faults.fail_simulations = Some((1, text)));
    let error = world.fails(CREATE, ecosystem("refused"), "SIMULATION_FAILED").await;
    assert_eq!((&error["details"]["codespace"], &error["stage"]), (&json!("sdk"), &json!("broadcast")));
    assert_eq!(world.operator_txs_in_blocks(), 0);
    world.ok(CREATE, ecosystem("fine")).await;
}
