//! State that changes between the simulation and the block: allowances, authorizations, gas, clocks.

use std::time::Duration;

use serde_json::json;
use svc_devnet::node::CheckTxRefusal;

use super::super::harness::{
    CREATE_ECOSYSTEM, assert_envelope, ecosystem_arguments, network_config, start_network, start_penniless_network,
    start_quick_network,
};

#[tokio::test(flavor = "multi_thread")]
async fn an_allowance_that_ends_after_the_simulation_is_left_out() {
    let world = start_penniless_network().await;
    let refusal =
        CheckTxRefusal { codespace: "feegrant".to_owned(), ..CheckTxRefusal::sdk(1, 3, "fee allowance expired") };
    world.network.devnet.node.update_faults(|faults| faults.refuse = Some(refusal));
    // The operator has no coins: it cannot pay the fee without the allowance.
    let error = world.call_error(CREATE_ECOSYSTEM, ecosystem_arguments("unpaid"), "INSUFFICIENT_FEES").await;
    assert_eq!(error["stage"], "broadcast");
    assert_eq!((world.times_on_chain("unpaid"), world.operator_txs_in_blocks()), (0, 0));
    let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("paid")).await;
    world.assert_included_once("paid", &answer);
    assert_eq!(answer.content["fee_payer"], "corporation");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authorization_revoked_in_the_same_block_fails_the_write_there() {
    let world = start_quick_network().await;
    let node = &world.network.devnet.node;
    node.update_faults(|faults| faults.hold_inclusion = true);
    let own = world.network.operator_slot.operator_address.clone();
    let revoke = world.call_tool("svc.ledger.de.revokeOperatorAuthorization", json!({"grantee": own}));
    let write = async {
        world.await_mempool_size(1).await;
        world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("too-late")).await
    };
    let release = async {
        world.await_mempool_size(2).await;
        node.update_faults(|faults| faults.hold_inclusion = false);
    };
    let (revoked, answer, ()) = tokio::join!(revoke, write, release);
    assert!(!revoked.is_error, "{:#}", revoked.content);
    // The allowance ended with the authorization: the transaction failed before its message ran, and the chain refuses a
    // simulation without the allowance.
    assert_envelope(&answer.content, "AUTHZ_REVOKED");
    assert_eq!(world.times_on_chain("too-late"), 0);
    assert_eq!(world.transaction_states().await, ["included", "open_refused"], "its bytes may come back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_out_of_gas_is_signed_once_more_with_more_gas() {
    let world = start_quick_network().await;
    world.network.devnet.node.update_faults(|faults| faults.understate_gas_percent = 60);
    let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("thirsty")).await;
    world.assert_included_once("thirsty", &answer);
    let rows = world.transactions().await;
    assert_eq!(
        (&rows[1]["state"], &rows[1]["codespace"], &rows[1]["code"]),
        (&json!("failed"), &json!("sdk"), &json!(11))
    );
    assert_eq!(rows[0]["gas_wanted"].as_u64(), rows[1]["gas_wanted"].as_u64().map(|gas| 2 * gas));
    // The gas estimate has adapted: the next transaction has enough.
    let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("wiser")).await;
    world.assert_included_once("wiser", &answer);
    assert_eq!(world.operator_txs_in_blocks(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_shortage_of_gas_is_final() {
    let world = start_quick_network().await;
    world.network.devnet.node.update_faults(|faults| faults.understate_gas_percent = 5);
    let error = world.call_error(CREATE_ECOSYSTEM, ecosystem_arguments("dry"), "BCAST_REJECTED").await;
    assert_eq!(error["details"]["code"], 11);
    assert_eq!((world.operator_txs_in_blocks(), world.times_on_chain("dry")), (0, 0));
    assert_eq!(world.transaction_states().await, ["open_refused"; 2]);
    // When less gas is missing, the second transaction has enough.
    world.network.devnet.node.update_faults(|faults| faults.understate_gas_percent = 40);
    let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("damp")).await;
    world.assert_included_once("damp", &answer);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jump_of_the_chain_s_clock_expires_an_authorization_and_the_error_names_it() {
    let world = start_quick_network().await;
    let types = world.network.operator.snapshot().authorizations[0].msg_types.clone();
    let ends = svc_wire::timestamp::unix_nanos(&svc_kit::wall_clock::now()) + 3_600_000_000_000;
    let ends = svc_wire::timestamp::iso_millis(&svc_wire::timestamp::from_unix_nanos(ends));
    world
        .pass_proposal(json!([{"type": "de.MsgGrantOperatorAuthorization", "value": {
            "corporation": "$corporation", "operator": "$corporation", "grantee": "$operator", "with_feegrant": true,
            "msg_types": types, "expiration": ends,
        }}]))
        .await;
    let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("in-time")).await;
    world.assert_included_once("in-time", &answer);
    world.network.devnet.node.advance_clock(Duration::from_secs(7_200));
    world.await_blocks(1).await;
    let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("over")).await;
    assert!(answer.is_error, "{:#}", answer.content);
    assert_eq!((world.times_on_chain("over"), world.operator_txs_in_blocks()), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_are_correct_while_the_indexer_lags_and_recovers() {
    let mut settings = network_config(100);
    settings.indexer_timeout = Duration::from_millis(800);
    let mut world = start_network(settings).await;
    world.network.kill_indexer();
    for index in 0..3 {
        let name = format!("behind-{index}");
        let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments(&name)).await;
        world.assert_included_once(&name, &answer);
        assert_eq!(answer.content["indexer_synced"], false);
    }
    world.network.restart_indexer().await.expect("starts again");
    world
        .wait_until("it is synced again", async || {
            let name = format!("again-{}", world.height());
            world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments(name)).await.content["indexer_synced"] == true
        })
        .await;
}
