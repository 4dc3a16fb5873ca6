//! Answers begin with the useful part, name the parts that they leave out, and give them on request; arguments that frameworks fill
//! in are absent.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

use crate::e2e::harness::{CREATE_ECOSYSTEM, TestNetwork, ecosystem_arguments, into_arguments, start_quick_network};

async fn result_of(world: &TestNetwork, tool: &str, given: Value) -> CallToolResult {
    world.client.call_tool(tool, into_arguments(given)).await.expect("a result")
}

fn data_text(result: &CallToolResult) -> &str {
    &result.content.last().and_then(ContentBlock::as_text).expect("a text").text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_begins_with_the_response_and_has_the_chains_events_on_request() {
    let world = start_quick_network().await;
    let light = result_of(&world, CREATE_ECOSYSTEM, ecosystem_arguments("light")).await;
    assert!(data_text(&light).starts_with(r#"{"response":{"ecosystem_id":"1"},"indexer_synced":true,"block_height":"#));
    let content = light.structured_content.clone().expect("structured");
    assert_eq!(serde_json::to_string(&content).expect("serialises"), data_text(&light), "both have one order");
    let lines = content["registry_events"].as_array().expect("lines");
    assert!(
        lines.iter().any(|line| line.as_str().is_some_and(|line| line.starts_with("create_ecosystem ecosystem_id=1")))
    );
    assert!(content["fee"].as_str().is_some_and(|fee| fee.ends_with("usvc")));
    assert!(content.get("events").is_none() && content.get("raw_log").is_none());
    let mut wanted = ecosystem_arguments("whole");
    wanted["include_events"] = true.into();
    let whole = world.call_ok(CREATE_ECOSYSTEM, wanted).await;
    assert!(whole["events"].as_array().is_some_and(|events| events.iter().any(|event| event["type"] == "tx")));
    let hash = whole["tx_hash"].clone();
    let found = world.call_ok("svc.cosmos.tx.getTx", json!({"hash": hash})).await;
    assert!(found.get("events").is_none() && found["registry_events"].is_array(), "{found:#}");
    let found = world.call_ok("svc.cosmos.tx.getTx", json!({"hash": hash, "include_events": true})).await;
    assert!(found["events"].is_array());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_has_twenty_rows_a_note_and_the_indexers_own_bytes_on_request() {
    let world = start_quick_network().await;
    let mut height = Value::Null;
    for number in 0..22 {
        let written = world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments(format!("n{number}"))).await;
        // The indexer has the block of a write that is answered.
        height = written["block_height"].clone();
    }
    let list = "svc.idx.es.listEcosystems";
    let light = world.call_ok(list, json!({})).await;
    let rows = light["ecosystems"].as_array().expect("rows");
    assert_eq!(rows.len(), 20);
    assert!(rows.iter().all(|row| row.get("archived").is_none() && row["did"].is_string()), "{}", rows[0]);
    let note = light["note"].as_str().expect("a note");
    assert!(note.contains("max_id 3") && note.contains("raw: true"), "{note}");
    let rest = world.call_ok(list, json!({"max_id": 3})).await;
    assert_eq!(rest["ecosystems"].as_array().map(Vec::len), Some(2));
    let chosen = world.call_ok(list, json!({"fields": ["did", "archived"], "limit": 1})).await;
    assert_eq!(chosen["ecosystems"][0], json!({"did": "did:web:n21.example", "archived": null}));
    let raw = result_of(&world, list, json!({"raw": true})).await;
    let url = format!("{}/v4/ecosystem/list", world.network.indexer_origin());
    let bytes = reqwest::get(url).await.expect("an answer").text().await.expect("text");
    assert_eq!(data_text(&raw), bytes);
    let one = result_of(&world, "svc.idx.es.getEcosystem", json!({"id": 1, "at_block_height": height})).await;
    let url = format!("{}/v4/ecosystem/get/1", world.network.indexer_origin());
    let asked = reqwest::Client::new().get(url).header("at-block-height", height.to_string());
    let bytes = asked.send().await.expect("an answer").text().await.expect("text");
    assert_eq!(data_text(&one), bytes);
    for bad in [json!({"fields": ["no"]}), json!({"fields": ["did"], "raw": true})] {
        let error = world.call_error(list, bad, "INPUT_INVALID").await;
        assert!(error["details"]["violations"][0]["pointer"].as_str().is_some_and(|at| at.starts_with("/fields")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_a_framework_fills_in_are_absent_and_others_stay_strict() {
    let world = start_quick_network().await;
    let list = "svc.idx.es.listEcosystems";
    let mut given = ecosystem_arguments("filled");
    given["dry_run"] = Value::Null;
    given["idempotency_key"] = Value::Null;
    world.call_ok(CREATE_ECOSYSTEM, given).await;
    let filled = json!({"corporation_id": null, "limit": "5", "modified_after": "", "only_active": "", "figures": null, "sort": null});
    assert_eq!(world.call_ok(list, filled).await["ecosystems"].as_array().map(Vec::len), Some(1));
    let by_figure = |bound: Value| world.call_ok(list, bound);
    assert_eq!(by_figure(json!({"figures": {"min_participants": 1}})).await["ecosystems"], json!([]));
    assert_eq!(by_figure(json!({"figures": "{\"max_participants\": 1}"})).await["ecosystems"][0]["id"], 1);
    assert_eq!(by_figure(json!({"min_participants": 1})).await["ecosystems"], json!([]), "as an argument of its own");
    for bad in [
        json!({"limit": "many"}),
        json!({"unknown": null}),
        json!({"figures": {"min_height": 1}}),
        json!({"corporation_id": -1}),
    ] {
        world.call_error(list, bad, "INPUT_INVALID").await;
    }
    let mut empty = ecosystem_arguments("empty");
    empty["idempotency_key"] = "".into();
    world.call_error(CREATE_ECOSYSTEM, empty, "INPUT_INVALID").await;
}
