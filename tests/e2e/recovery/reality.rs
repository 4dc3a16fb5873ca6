//! The world changes between the simulation and the block: allowances, authorizations, gas, clocks.

use std::time::Duration;

use serde_json::json;
use svc_devnet::node::Refusal;

use super::super::harness::{CREATE, assert_envelope, config, ecosystem, quick, world};

#[tokio::test(flavor = "multi_thread")]
async fn an_allowance_that_ends_between_simulation_and_broadcast_is_done_without() {
    let world = quick().await;
    let refusal =
        Refusal { times: 1, codespace: "feegrant".to_owned(), code: 3, log: "fee allowance expired".to_owned() };
    world.network.devnet.node.faults(|faults| faults.refuse = Some(refusal));
    // The operator has no coins of its own here: without the allowance the fee cannot be paid.
    let error = world.fails(CREATE, ecosystem("unpaid"), "INSUFFICIENT_FEES").await;
    assert_eq!(error["stage"], "broadcast");
    assert_eq!((world.times_on_chain("unpaid"), world.operator_txs_in_blocks()), (0, 0));
    let answer = world.call(CREATE, ecosystem("paid")).await;
    world.assert_happened("paid", &answer);
    assert_eq!(answer.content["fee_payer"], "corporation");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authorization_revoked_in_the_same_block_fails_the_write_there() {
    let world = quick().await;
    let node = &world.network.devnet.node;
    node.faults(|faults| faults.hold_inclusion = true);
    let own = world.network.seat.operator_address.clone();
    let revoke = world.call("svc.ledger.de.revokeOperatorAuthorization", json!({"grantee": own}));
    let write = async {
        world.until_waiting(1).await;
        world.call(CREATE, ecosystem("too-late")).await
    };
    let release = async {
        world.until_waiting(2).await;
        node.faults(|faults| faults.hold_inclusion = false);
    };
    let (revoked, answer, ()) = tokio::join!(revoke, write, release);
    assert!(!revoked.is_error, "{:#}", revoked.content);
    // With the authorization its allowance went: the transaction failed before its message ran, and without the allowance the
    // chain refuses it in simulation.
    assert_envelope(&answer.content, "AUTHZ_REVOKED");
    assert_eq!(world.times_on_chain("too-late"), 0);
    assert_eq!(world.states().await, ["included", "failed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_runs_out_of_gas_is_signed_once_more_with_more() {
    let world = quick().await;
    world.network.devnet.node.faults(|faults| faults.understate_gas_percent = 60);
    let answer = world.call(CREATE, ecosystem("thirsty")).await;
    world.assert_happened("thirsty", &answer);
    let rows = world.transactions().await;
    assert_eq!(
        (&rows[1]["state"], &rows[1]["codespace"], &rows[1]["code"]),
        (&json!("failed"), &json!("sdk"), &json!(11))
    );
    assert_eq!(rows[0]["gas_wanted"].as_u64(), rows[1]["gas_wanted"].as_u64().map(|gas| 2 * gas));
    // What was learnt holds: the next one does not fall short.
    let answer = world.call(CREATE, ecosystem("wiser")).await;
    world.assert_happened("wiser", &answer);
    assert_eq!(world.operator_txs_in_blocks(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_shortage_of_gas_is_final() {
    let world = quick().await;
    world.network.devnet.node.faults(|faults| faults.understate_gas_percent = 5);
    let error = world.fails(CREATE, ecosystem("dry"), "BCAST_REJECTED").await;
    assert_eq!(error["details"]["code"], 11);
    assert_eq!((world.operator_txs_in_blocks(), world.times_on_chain("dry")), (0, 0));
    assert_eq!(world.states().await, ["refused"; 2]);
    // With somewhat less want the second is enough.
    world.network.devnet.node.faults(|faults| faults.understate_gas_percent = 40);
    let answer = world.call(CREATE, ecosystem("damp")).await;
    world.assert_happened("damp", &answer);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_whose_clock_jumps_ahead_ends_an_authorization_and_says_so() {
    let world = quick().await;
    let types = world.network.operator.snapshot().authorizations[0].msg_types.clone();
    let ends = svc_wire::instant::nanos(&svc_kit::wall::now()) + 3_600_000_000_000;
    let ends = svc_wire::instant::iso_millis(&svc_wire::instant::from_nanos(ends));
    world
        .corporation_decides(json!([{"type": "de.MsgGrantOperatorAuthorization", "value": {
            "corporation": "$corporation", "operator": "$corporation", "grantee": "$operator", "with_feegrant": true,
            "msg_types": types, "expiration": ends,
        }}]))
        .await;
    let answer = world.call(CREATE, ecosystem("in-time")).await;
    world.assert_happened("in-time", &answer);
    world.network.devnet.node.advance(Duration::from_secs(7_200));
    world.blocks(1).await;
    let answer = world.call(CREATE, ecosystem("over")).await;
    assert!(answer.is_error, "{:#}", answer.content);
    assert_eq!((world.times_on_chain("over"), world.operator_txs_in_blocks()), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_indexer_that_falls_behind_and_comes_back_makes_no_write_wrong() {
    let mut settings = config(100);
    settings.indexer_timeout = Duration::from_millis(800);
    let mut world = world(settings).await;
    world.network.stop_indexer();
    for index in 0..3 {
        let name = format!("behind-{index}");
        let answer = world.call(CREATE, ecosystem(&name)).await;
        world.assert_happened(&name, &answer);
        assert_eq!(answer.content["indexer_synced"], false);
    }
    world.network.start_indexer().await.expect("starts again");
    world
        .until("it is synced again", async || {
            let name = format!("again-{}", world.height());
            world.call(CREATE, ecosystem(name)).await.content["indexer_synced"] == true
        })
        .await;
}
