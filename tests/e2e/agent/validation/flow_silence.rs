//! A peer that does not answer: its flow says so at the validator, and still does after a restart.

use std::path::Path;

use serde_json::{Value, json};
use sqlx::{Connection, SqliteConnection};

use crate::e2e::{
    agent::processes::two_agents::{TwoAgents, ValidatorPlace},
    harness::poll_until,
};

/// Changes the record of a completed flow in a store, as if the acknowledgement had not arrived in so many milliseconds since the last change.
async fn miss_acknowledgement(store: &Path, flow_id: &str, millis: i64) {
    let url = format!("sqlite://{}", store.display());
    let mut connection = SqliteConnection::connect(&url).await.expect("connects");
    let sql = "SELECT record FROM flow WHERE id = $1";
    let text: String = sqlx::query_scalar(sql).bind(flow_id).fetch_one(&mut connection).await.expect("a flow");
    let mut record: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&record["exchange"]["isDelivered"], &record["blocked"]), (&json!(true), &Value::Null), "{record:#}");
    record["state"] = "CRED_OFFERED".into();
    let changed_at = svc_kit::wall_clock::now_millis() - millis;
    record["updatedAt"] = changed_at.into();
    let sql =
        "UPDATE flow SET record = $1, state = 'CRED_OFFERED', is_live = 1, due_at = 1, updated_at = $3 WHERE id = $2";
    let changed = sqlx::query(sql).bind(record.to_string()).bind(flow_id).bind(changed_at);
    let changed = changed.execute(&mut connection).await;
    assert_eq!(changed.expect("changed").rows_affected(), 1);
    connection.close().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_peer_is_named_at_the_validator_and_a_restart_keeps_it() {
    let mut agents = TwoAgents::start(ValidatorPlace::default()).await;
    let participant = agents.apply().await;
    agents.validate(participant, "A").await;
    agents.await_completed(participant, 1).await;
    let id = agents.flow(&agents.validator, participant).await["id"].as_str().expect("an id").to_owned();

    assert!(agents.validator.terminate().0);
    // Five minutes are the bound of the page about flows.
    miss_acknowledgement(&agents.validator_home.path("agent.db"), &id, 300_000).await;
    agents.validator = agents.validator_home.start();
    let blocked = async || agents.flow(&agents.validator, participant).await["blocked"].clone();
    poll_until("the silence is named", async || blocked().await["reason"] == "PEER_SILENT").await;
    let named = blocked().await;
    assert!(named.to_string().contains("has not acknowledged its credential for 5 minutes"), "{named:#}");

    assert!(agents.validator.terminate().0);
    agents.validator = agents.validator_home.start();
    assert_eq!(agents.flow(&agents.validator, participant).await["blocked"], named, "with its first time");
}
