//! One key, one write.

use serde_json::{Value, json};

use super::super::harness::{CREATE, World, ecosystem, quick};

fn keyed(name: &str, key: &str) -> Value {
    let mut arguments = ecosystem(name);
    arguments["idempotency_key"] = key.into();
    arguments
}

async fn records(world: &World) -> Vec<Value> {
    world.client.read("svc://own/audit").await.expect("readable")["records"].as_array().cloned().expect("a list")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_write_under_one_key_happens_once_and_is_answered_alike() {
    let world = quick().await;
    world.network.devnet.node.faults(|faults| faults.hold_blocks = 2);
    let racing = futures::future::join_all((0..6).map(|_| world.call(CREATE, keyed("once", "k1")))).await;
    let later = world.call(CREATE, keyed("once", "k1")).await;
    for answer in racing.iter().chain([&later]) {
        world.assert_happened("once", answer);
        assert_eq!(answer.content["tx_hash"], racing[0].content["tx_hash"]);
        assert_eq!(answer.content["response"], racing[0].content["response"]);
    }
    assert_eq!(world.operator_txs_in_blocks(), 1);
    assert_eq!(records(&world).await.len(), 1, "one attempt");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_with_other_arguments_is_refused_by_name() {
    let world = quick().await;
    world.ok(CREATE, keyed("first", "k")).await;
    let error = world.fails(CREATE, keyed("second", "k"), "INPUT_INVALID").await;
    assert_eq!(error["details"]["violations"][0]["pointer"], "/idempotency_key");
    assert_eq!((world.times_on_chain("second"), world.operator_txs_in_blocks()), (0, 1));
    for bad in [json!(""), json!(7), json!("x".repeat(129)), json!(null)] {
        let mut arguments = ecosystem("bad");
        arguments["idempotency_key"] = bad;
        world.fails(CREATE, arguments, "INPUT_INVALID").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_never_sent_can_be_tried_again_under_its_key() {
    let world = quick().await;
    let text = "failed to execute message; message index: 0: something: broken with gas used: '1'".to_owned();
    world.network.devnet.node.faults(|faults| faults.fail_simulations = Some((1, text)));
    world.fails(CREATE, keyed("again", "a"), "SIMULATION_FAILED").await;
    let answer = world.call(CREATE, keyed("again", "a")).await;
    world.assert_happened("again", &answer);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_joined_write_is_joined_to_its_end_also_after_a_timeout() {
    let mut settings = super::super::harness::config(100);
    settings.tx_timeout = std::time::Duration::from_secs(1);
    let world = super::super::harness::world(settings).await;
    world.network.devnet.node.faults(|faults| faults.hold_inclusion = true);
    let error = world.fails(CREATE, keyed("patient", "p"), "BCAST_TIMEOUT").await;
    let release = async {
        world.blocks(2).await;
        world.network.devnet.node.faults(|faults| faults.hold_inclusion = false);
    };
    let (answer, ()) = tokio::join!(world.call(CREATE, keyed("patient", "p")), release);
    world.assert_happened("patient", &answer);
    assert_eq!(answer.content["tx_hash"], error["details"]["tx_hash"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_attempt_is_on_record_with_who_asked_and_how_it_ended() {
    let world = quick().await;
    let receipt = world.ok(CREATE, keyed("recorded", "r")).await;
    world
        .network
        .devnet
        .node
        .faults(|faults| faults.fail_simulations = Some((1, "failed to execute message".to_owned())));
    world.fails(CREATE, ecosystem("refused"), "SIMULATION_FAILED").await;
    world.until("both have ended", async || records(&world).await.iter().all(|record| record["end"].is_object())).await;
    let records = records(&world).await;
    assert_eq!(records.len(), 2);
    let (refused, written) = (&records[0], &records[1]);
    assert_eq!(
        (&refused["end"]["outcome"], &refused["end"]["error_code"]),
        (&json!("not_sent"), &json!("SIMULATION_FAILED"))
    );
    assert_eq!((&written["end"]["outcome"], &written["end"]["tx_hash"]), (&json!("included"), &receipt["tx_hash"]));
    assert_eq!((&written["tool"], &written["verdict"]), (&json!(CREATE), &json!("allow")));
    assert_eq!((&written["idempotency_key"], &written["end"]["block_height"]), (&json!("r"), &receipt["block_height"]));
    for member in ["id", "begun_at", "session", "client", "msg_type", "message_digest"] {
        assert!(written[member].as_str().is_some_and(|text| !text.is_empty()), "{member} in {written:#}");
    }
    let rows = world.transactions().await;
    assert_eq!((rows.len(), &rows[0]["write_id"]), (1, &written["id"]));
}
