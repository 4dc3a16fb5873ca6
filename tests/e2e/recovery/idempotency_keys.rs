//! Idempotency keys: one write per key.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    super::harness::{
        CREATE_ECOSYSTEM, TestNetwork, call_tool, ecosystem_arguments, into_arguments, poll_until, start_quick_network,
    },
    process_kill,
};

fn keyed_arguments(name: &str, key: &str) -> Value {
    let mut arguments = ecosystem_arguments(name);
    arguments["idempotency_key"] = key.into();
    arguments
}

async fn records(world: &TestNetwork) -> Vec<Value> {
    world.client.read_resource("svc://own/audit").await.expect("readable")["records"]
        .as_array()
        .cloned()
        .expect("a list")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_write_with_one_key_executes_once_and_has_the_same_answer() {
    let world = start_quick_network().await;
    world.network.devnet.node.update_faults(|faults| faults.hold_blocks = 2);
    let racing =
        futures::future::join_all((0..6).map(|_| world.call_tool(CREATE_ECOSYSTEM, keyed_arguments("once", "k1"))))
            .await;
    let later = world.call_tool(CREATE_ECOSYSTEM, keyed_arguments("once", "k1")).await;
    for answer in racing.iter().chain([&later]) {
        world.assert_included_once("once", answer);
        assert_eq!(answer.content["tx_hash"], racing[0].content["tx_hash"]);
        assert_eq!(answer.content["response"], racing[0].content["response"]);
    }
    assert_eq!(world.operator_txs_in_blocks(), 1);
    assert_eq!(records(&world).await.len(), 1, "one attempt");
}

/// A digest is stored once and paid once, however many keys and calls carry it.
#[tokio::test(flavor = "multi_thread")]
async fn a_digest_under_two_keys_is_paid_once_at_once_and_later() {
    let world = start_quick_network().await;
    world.network.devnet.node.update_faults(|faults| faults.hold_inclusion = true);
    let digest = format!("sha384-{}", "D".repeat(64));
    let store = async |key: Option<&str>| {
        let mut arguments = json!({"digest": digest});
        if let Some(key) = key {
            arguments["idempotency_key"] = key.into();
        }
        world.call_tool("svc.ledger.di.storeDigest", arguments).await
    };
    let store = &store;
    let keys = [Some("a"), Some("b"), Some("a"), None, Some("b"), None];
    let calls = futures::future::join_all(keys.map(|key| async move { (key, store(key).await) }));
    let release = async {
        let waits = async || world.network.devnet.node.read_core(|core| core.mempool_txs().next().is_some());
        poll_until("it is in flight", waits).await;
        world.network.devnet.node.update_faults(|faults| faults.hold_inclusion = false);
    };
    let (answers, ()) = tokio::join!(calls, release);
    let (stored, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|(_, answer)| !answer.is_error);
    let hashes: BTreeSet<_> = stored.iter().map(|(_, answer)| answer.content["tx_hash"].to_string()).collect();
    assert_eq!(hashes.len(), 1, "one transaction: {hashes:?}");
    let first = stored[0].0;
    assert!(
        stored.iter().all(|(key, _)| *key == first) && refused.iter().all(|(key, _)| key.is_none() || *key != first)
    );
    // Each key keeps its answer, and a new one finds the digest stored.
    for (key, before) in &answers {
        let again = store(*key).await;
        let is_same =
            key.is_none() || (again.is_error, &again.content["code"]) == (before.is_error, &before.content["code"]);
        assert!(is_same, "{key:?}: {:#}", again.content);
    }
    let new = [(Some("c"), store(Some("c")).await)];
    for (key, answer) in refused.into_iter().chain(&new) {
        assert_eq!(answer.content["code"], "INPUT_INVALID", "{key:?}: {:#}", answer.content);
        assert_eq!(answer.content["details"]["violations"][0]["pointer"], "/digest");
        assert!(answer.content["details"]["stored_at"].is_string(), "{:#}", answer.content);
    }
    let planned = world.call_tool("svc.ledger.di.storeDigest", json!({"digest": digest, "dry_run": true})).await;
    assert!(planned.content["details"]["stored_at"].is_string(), "{:#}", planned.content);
    assert_eq!(world.operator_txs_in_blocks(), 1);
    assert_eq!(records(&world).await.len(), 1, "one attempt");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_with_other_arguments_is_refused() {
    let world = start_quick_network().await;
    world.call_ok(CREATE_ECOSYSTEM, keyed_arguments("first", "k")).await;
    let error = world.call_error(CREATE_ECOSYSTEM, keyed_arguments("second", "k"), "INPUT_INVALID").await;
    assert_eq!(error["details"]["violations"][0]["pointer"], "/idempotency_key");
    assert_eq!((world.times_on_chain("second"), world.operator_txs_in_blocks()), (0, 1));
    for bad in [json!(""), json!(7), json!("x".repeat(129))] {
        let mut arguments = ecosystem_arguments("bad");
        arguments["idempotency_key"] = bad;
        world.call_error(CREATE_ECOSYSTEM, arguments, "INPUT_INVALID").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_was_not_sent_can_be_retried_with_its_key() {
    let world = start_quick_network().await;
    let text = "failed to execute message; message index: 0: something: broken with gas used: '1'".to_owned();
    world.network.devnet.node.update_faults(|faults| faults.fail_simulations = Some((1, text)));
    world.call_error(CREATE_ECOSYSTEM, keyed_arguments("again", "a"), "SIMULATION_FAILED").await;
    let answer = world.call_tool(CREATE_ECOSYSTEM, keyed_arguments("again", "a")).await;
    world.assert_included_once("again", &answer);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_can_join_a_write_after_its_timeout() {
    let mut settings = super::super::harness::network_config(100);
    settings.tx_timeout = std::time::Duration::from_secs(1);
    let world = super::super::harness::start_network(settings).await;
    world.network.devnet.node.update_faults(|faults| faults.hold_inclusion = true);
    let error = world.call_error(CREATE_ECOSYSTEM, keyed_arguments("patient", "p"), "BCAST_TIMEOUT").await;
    let release = async {
        world.await_blocks(2).await;
        world.network.devnet.node.update_faults(|faults| faults.hold_inclusion = false);
    };
    let (answer, ()) = tokio::join!(world.call_tool(CREATE_ECOSYSTEM, keyed_arguments("patient", "p")), release);
    world.assert_included_once("patient", &answer);
    assert_eq!(answer.content["tx_hash"], error["details"]["tx_hash"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_write_attempt_is_in_the_audit_with_its_origin_and_outcome() {
    let world = start_quick_network().await;
    let receipt = world.call_ok(CREATE_ECOSYSTEM, keyed_arguments("recorded", "r")).await;
    world
        .network
        .devnet
        .node
        .update_faults(|faults| faults.fail_simulations = Some((1, "failed to execute message".to_owned())));
    world.call_error(CREATE_ECOSYSTEM, ecosystem_arguments("refused"), "SIMULATION_FAILED").await;
    world
        .wait_until("both have ended", async || records(&world).await.iter().all(|record| record["end"].is_object()))
        .await;
    let records = records(&world).await;
    assert_eq!(records.len(), 2);
    let (refused, written) = (&records[0], &records[1]);
    assert_eq!(
        (&refused["end"]["outcome"], &refused["end"]["error_code"]),
        (&json!("not_sent"), &json!("SIMULATION_FAILED"))
    );
    assert_eq!((&written["end"]["outcome"], &written["end"]["tx_hash"]), (&json!("included"), &receipt["tx_hash"]));
    assert_eq!((&written["tool"], &written["verdict"]), (&json!(CREATE_ECOSYSTEM), &json!("allow")));
    assert_eq!((&written["idempotency_key"], &written["end"]["block_height"]), (&json!("r"), &receipt["block_height"]));
    for member in ["id", "begun_at", "session", "client", "msg_type", "message_digest"] {
        assert!(written[member].as_str().is_some_and(|text| !text.is_empty()), "{member} in {written:#}");
    }
    let rows = world.transactions().await;
    assert_eq!((rows.len(), &rows[0]["write_id"]), (1, &written["id"]));
}

/// The process dies between the block and its answer, and the node is away when the call is repeated.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_whose_transaction_the_journal_has_as_included_is_answered_while_the_node_is_away() {
    let (mut world, files) = (start_quick_network().await, process_kill::new_files());
    let (served, client) = process_kill::start_with(&world, &files, &[]).await;
    // The answer waits for the indexer.
    world.network.kill_indexer();
    let rows = async || {
        let read = client.read_resource("svc://own/transactions").await.expect("readable");
        read["transactions"].as_array().cloned().expect("a list")
    };
    let is_included = async || rows().await.first().is_some_and(|row| row["state"] == "included");
    tokio::select! {
        answer = client.call_tool(CREATE_ECOSYSTEM, into_arguments(keyed_arguments("known", "k"))) => panic!("{answer:?}"),
        () = poll_until("the journal has it in a block", is_included) => {}
    }
    let row = rows().await.remove(0);
    process_kill::kill(served);
    world.network.restart_indexer().await.expect("starts again");
    let (served, client) = process_kill::start_with(&world, &files, &[]).await;
    world.network.devnet.node.stop();
    let again = call_tool(&client, CREATE_ECOSYSTEM, keyed_arguments("known", "k")).await;
    assert!(!again.is_error, "{:#}", again.content);
    for (member, expected) in
        [("tx_hash", &row["tx_hash"]), ("block_height", &row["block_height"]), ("code", &json!(0))]
    {
        assert_eq!(&again.content[member], expected, "{:#}", again.content);
    }
    world.network.devnet.node.start().expect("starts");
    assert_eq!((world.times_on_chain("known"), world.operator_txs_in_blocks()), (1, 1));
    process_kill::kill(served);
}
