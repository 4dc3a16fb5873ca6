//! Refused transactions: a node that refuses one may have passed it on, and a call still executes at most once.

use std::time::Duration;

use serde_json::{Value, json};
use svc_devnet::node::CheckTxRefusal;
use svc_net::upstream::{BroadcastOutcome, NodeClient};
use svc_wire::tx::tx_hash;

use super::super::harness::{
    CREATE_ECOSYSTEM, TestNetwork, assert_envelope, ecosystem_arguments, network_config, start_network,
    start_penniless_network, start_quick_network,
};

fn keyed_arguments(name: &str) -> Value {
    let mut arguments = ecosystem_arguments(name);
    arguments["idempotency_key"] = name.into();
    arguments
}

/// A network whose transactions expire after 20 blocks of 100 ms.
async fn start_short_network() -> TestNetwork {
    let mut settings = network_config(100);
    settings.tx_timeout = Duration::from_secs(1);
    start_network(settings).await
}

/// Blocks stay empty, so that the refusal is answered before a relayed transaction can be in one.
fn hold_blocks(world: &TestNetwork, is_held: bool) {
    world.network.devnet.node.update_faults(|faults| faults.hold_inclusion = is_held);
}

fn refuse(world: &TestNetwork, refusal: CheckTxRefusal) {
    world.network.devnet.node.update_faults(|faults| faults.refuse = Some(refusal));
}

const TOO_LITTLE_FEE: &str = "insufficient fees; got: 1usvc required: 2usvc: insufficient fee";

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_names_its_transaction_and_binds_its_key_until_the_timeout_height() {
    let world = start_short_network().await;
    refuse(&world, CheckTxRefusal::sdk(1, 13, TOO_LITTLE_FEE));
    let first = world.call_error(CREATE_ECOSYSTEM, keyed_arguments("bound"), "INSUFFICIENT_FEES").await;
    let rows = world.transactions().await;
    let details = &first["details"];
    assert_eq!(
        (&details["tx_hash"], &details["timeout_height"]),
        (&rows[0]["tx_hash"], &rows[0]["timeout_height"]),
        "{first:#}"
    );
    assert!(first["hint"].as_str().is_some_and(|hint| hint.contains("idempotency_key")), "{first:#}");
    let second = world.call_error(CREATE_ECOSYSTEM, keyed_arguments("bound"), "INSUFFICIENT_FEES").await;
    assert_eq!(second["details"], first["details"], "nothing else was signed");
    let status = world.call_ok("svc.cosmos.tx.getTx", json!({"hash": details["tx_hash"]})).await;
    assert_eq!((&status["state"], &status["journal_state"]), (&json!("pending"), &json!("open_refused")));
    world.wait_until("it can never execute", async || world.transaction_states().await == ["refused"]).await;
    let answer = world.call_tool(CREATE_ECOSYSTEM, keyed_arguments("bound")).await;
    world.assert_included_once("bound", &answer);
    assert_eq!(world.operator_txs_in_blocks(), 1);
    let audit = world.client.read_resource("svc://own/audit").await.expect("readable");
    let outcomes: Vec<&Value> =
        audit["records"].as_array().expect("a list").iter().map(|record| &record["end"]["outcome"]).collect();
    assert_eq!(outcomes, ["included", "refused"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_transaction_that_was_passed_on_executes_once_and_its_key_has_the_receipt() {
    let world = start_quick_network().await;
    hold_blocks(&world, true);
    refuse(&world, CheckTxRefusal::sdk(1, 13, TOO_LITTLE_FEE).relayed());
    let error = world.call_error(CREATE_ECOSYSTEM, keyed_arguments("relayed"), "INSUFFICIENT_FEES").await;
    hold_blocks(&world, false);
    world.wait_until("its block has come", async || world.transaction_states().await == ["included"]).await;
    let answer = world.call_tool(CREATE_ECOSYSTEM, keyed_arguments("relayed")).await;
    world.assert_included_once("relayed", &answer);
    assert_eq!(answer.content["tx_hash"], error["details"]["tx_hash"]);
    assert_eq!(world.operator_txs_in_blocks(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_is_refused_as_too_late_has_expired_and_its_key_says_so() {
    let world = start_short_network().await;
    // The node accepts and loses it. The bytes are sent again, and now the node refuses them.
    world.network.devnet.node.update_faults(|faults| faults.drop_after_check = 1);
    let too_late = CheckTxRefusal::sdk(1_000, 30, "block height: 90, timeout height: 80: tx timeout height");
    let call = world.call_error(CREATE_ECOSYSTEM, keyed_arguments("late"), "BCAST_TIMEOUT");
    let lose = async {
        world.wait_until("it was sent", async || world.transaction_states().await == ["open"]).await;
        refuse(&world, too_late);
    };
    tokio::join!(call, lose);
    world.wait_until("it has expired", async || world.transaction_states().await == ["expired"]).await;
    world.network.devnet.node.update_faults(|faults| faults.refuse = None);
    for _ in 0..2 {
        world.call_error(CREATE_ECOSYSTEM, keyed_arguments("late"), "TX_EXPIRED").await;
    }
    assert_eq!((world.times_on_chain("late"), world.operator_txs_in_blocks()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_writes_use_the_sequence_of_a_refused_one() {
    let world = start_quick_network().await;
    refuse(&world, CheckTxRefusal::sdk(1, 13, TOO_LITTLE_FEE));
    world.call_error(CREATE_ECOSYSTEM, keyed_arguments("refused"), "INSUFFICIENT_FEES").await;
    let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("next")).await;
    world.assert_included_once("next", &answer);
    let rows = world.transactions().await;
    assert_eq!(rows[0]["sequence"], rows[1]["sequence"]);
    // A block shows another transaction at its sequence, long before its timeout height: its key is free.
    world.wait_until("it is decided", async || world.transaction_states().await == ["refused", "included"]).await;
    let answer = world.call_tool(CREATE_ECOSYSTEM, keyed_arguments("refused")).await;
    world.assert_included_once("refused", &answer);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_lies_about_sequences_and_passes_everything_on_executes_a_call_once() {
    let world = start_quick_network().await;
    let log = "account sequence mismatch, expected 99, got 1: incorrect account sequence";
    refuse(&world, CheckTxRefusal::sdk(13, 32, log).relayed());
    let answers = futures::future::join_all(
        (0..3).map(|index| world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments(format!("lie-{index}")))),
    );
    let answers = answers.await;
    for (index, answer) in answers.iter().enumerate() {
        world.assert_included_once(&format!("lie-{index}"), answer);
    }
    assert_eq!(world.operator_txs_in_blocks(), 3);
    // The state of the account is a lie too.
    world.network.devnet.node.update_faults(|faults| {
        faults.refuse = None;
        (faults.lies.sequence_ahead, faults.drop_after_check) = (2, 1);
    });
    let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("believed")).await;
    world.assert_included_once("believed", &answer);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_allowance_a_write_that_was_passed_on_is_not_paid_for_twice() {
    let world = start_penniless_network().await;
    let ended =
        CheckTxRefusal { codespace: "feegrant".to_owned(), ..CheckTxRefusal::sdk(1, 3, "fee allowance expired") };
    hold_blocks(&world, true);
    refuse(&world, ended.relayed());
    // The operator has no coins, so that the node refuses the second transaction too, which has the same sequence.
    world.call_error(CREATE_ECOSYSTEM, keyed_arguments("allowed"), "INSUFFICIENT_FEES").await;
    hold_blocks(&world, false);
    world.wait_until("both are decided", async || world.transaction_states().await == ["included", "refused"]).await;
    let answer = world.call_tool(CREATE_ECOSYSTEM, keyed_arguments("allowed")).await;
    world.assert_included_once("allowed", &answer);
    let rows = world.transactions().await;
    assert_eq!((&answer.content["tx_hash"], &rows[0]["sequence"]), (&rows[1]["tx_hash"], &rows[1]["sequence"]));
    assert_eq!(world.operator_txs_in_blocks(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_failed_before_their_message_and_come_back_execute_once() {
    let world = start_quick_network().await;
    let node = &world.network.devnet.node;
    let types = world.network.operator.snapshot().authorizations[0].msg_types.clone();
    node.update_faults(|faults| faults.hold_inclusion = true);
    let own = world.network.operator_slot.operator_address.clone();
    let revoke = world.call_tool("svc.ledger.de.revokeOperatorAuthorization", json!({"grantee": own}));
    let write = async {
        world.await_mempool_size(1).await;
        world.call_tool(CREATE_ECOSYSTEM, keyed_arguments("returned")).await
    };
    let release = async {
        world.await_mempool_size(2).await;
        let bytes = node.read_core(|core| core.mempool_txs().last().cloned()).expect("it waits");
        node.update_faults(|faults| faults.hold_inclusion = false);
        bytes
    };
    let (revoked, answer, bytes) = tokio::join!(revoke, write, release);
    assert!(!revoked.is_error, "{:#}", revoked.content);
    // The allowance ended in the same block, so that the ante handler refused the write, which is answered and not decided.
    assert_envelope(&answer.content, "AUTHZ_REVOKED");
    let details = &answer.content["details"];
    assert_eq!(
        (&details["tx_hash"], details["timeout_height"].is_u64()),
        (&json!(tx_hash(&bytes)), true),
        "{details:#}"
    );
    assert_eq!((world.times_on_chain("returned"), world.transaction_states().await.len()), (0, 2));
    world
        .pass_proposal(json!([{"type": "de.MsgGrantOperatorAuthorization", "value": {
            "corporation": "$corporation", "operator": "$corporation", "grantee": "$operator", "with_feegrant": true,
            "msg_types": types,
        }}]))
        .await;
    let client = NodeClient::new(node.origin()).expect("a client");
    assert_eq!(client.broadcast(&bytes).await, Ok(BroadcastOutcome::Accepted));
    world.wait_until("a block contains it", async || world.transaction_states().await == ["included"; 2]).await;
    let answer = world.call_tool(CREATE_ECOSYSTEM, keyed_arguments("returned")).await;
    world.assert_included_once("returned", &answer);
    assert_eq!(answer.content["tx_hash"], tx_hash(&bytes));
}
