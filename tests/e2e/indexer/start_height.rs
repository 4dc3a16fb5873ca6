//! The start in the middle of a chain, and the command that runs an indexer.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use futures::StreamExt;
use serde_json::Value;
use svc_indexer::IndexerConfig;
use tokio_tungstenite::tungstenite::Message;

use crate::e2e::harness::TEST_TIMEOUT;

use super::{
    IndexerReplica, MARKETPLACE_SCENARIO, await_indexed, await_verdicts, pruned_state::STATE_READS, read_ok,
    start_chain_and_indexer,
};

#[tokio::test(flavor = "multi_thread")]
async fn an_indexer_that_starts_late_has_the_earlier_entities() {
    let grounds = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    let origin = grounds.indexer_origin();
    let newest = read_ok(&origin, "/v4/indexer/block-height").await["height"].as_u64().expect("a height");
    let config = IndexerConfig {
        start_height: Some(newest - 1),
        ..IndexerConfig::new(grounds.devnet.node.origin(), "sqlite::memory:")
    };
    let replica = IndexerReplica::launch(config).await;
    let late = &replica.origin;
    await_indexed(late, newest).await;
    // The verdicts begin at the first height of the store.
    await_verdicts(late, newest).await;
    // The sums over earlier blocks are missing; the current state is the same.
    for path in STATE_READS {
        assert_eq!(read_ok(late, path).await, read_ok(&origin, path).await, "{path}");
    }
    for (path, key) in [("/v4/participant/list", "participants"), ("/v4/credential-schema/list", "schemas")] {
        let [own, other] = [read_ok(&origin, path).await, read_ok(late, path).await];
        let shown = |body: &serde_json::Value| -> Vec<_> {
            let rows = body[key].as_array().expect("rows").iter();
            rows.map(|row| {
                (row["id"].clone(), row["did"].clone(), row["participant_state"].clone(), row["weight"].clone())
            })
            .collect()
        };
        assert_eq!(shown(&own), shown(&other), "{path}");
    }
}

/// A process that ends with its test.
pub struct ChildGuard(pub std::process::Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The command with its configuration from the environment, health, metrics, and an orderly shutdown.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_serves_any_node_and_shuts_down_in_order() {
    let grounds = start_chain_and_indexer("corporation").await;
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("indexer.db");
    let process = Command::new(env!("CARGO_BIN_EXE_svc"))
        .arg("indexer")
        .env("SVC_RPC", grounds.devnet.node.origin())
        .env("SVC_INDEXER_DB", format!("sqlite://{}?mode=rwc", file.display()))
        .env("SVC_INDEXER_PORT", "0")
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut process = ChildGuard(process);
    let mut lines = BufReader::new(process.0.stderr.take().expect("its log")).lines().map_while(Result::ok);
    let served = lines.find(|line| line.contains("serving reads")).expect("serves");
    let address = serde_json::from_str::<Value>(&served).expect("JSON")["address"].clone();
    let origin = format!("http://{}", address.as_str().expect("an address"));
    let height = *grounds.devnet.node.watch_heights().borrow();
    await_indexed(&origin, height).await;
    assert_eq!(read_ok(&origin, "/healthz").await["status"], "ok");
    let metrics = reqwest::get(format!("{origin}/metrics")).await.expect("answered").text().await.expect("text");
    for line in [
        format!("svc_indexer_block_height {height}"),
        "svc_indexer_block_duration_seconds_count".to_owned(),
        "svc_indexer_events_total{module=\"co\"".to_owned(),
        "svc_indexer_subscribers{".to_owned(),
        "stream=\"blocks\"".to_owned(),
    ] {
        assert!(metrics.contains(&line), "no {line} in\n{metrics}");
    }
    let mut socket = super::connect(&origin).await;
    assert_eq!(super::next_message(&mut socket).await.expect("open")["type"], "ready");
    let pid = rustix::process::Pid::from_child(&process.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("told");
    // The close frame has no code.
    let end = loop {
        match tokio::time::timeout(TEST_TIMEOUT, socket.next()).await.expect("in time") {
            Some(Ok(Message::Close(frame))) => break frame,
            Some(Ok(_)) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(end.map(|frame| u16::from(frame.code)).unwrap_or(1005), 1005);
    let status = tokio::task::spawn_blocking(move || process.0.wait()).await.expect("waited").expect("a status");
    assert!(status.success(), "{status}");
    let left: Vec<_> =
        std::fs::read_dir(home.path()).expect("readable").flatten().map(|entry| entry.file_name()).collect();
    let mut left = left;
    left.sort();
    assert_eq!(left, ["indexer.db", "indexer.db.lock"], "SQLite's log is written back");
}

#[test]
fn an_invalid_environment_is_reported_at_once_without_the_password() {
    let output = Command::new(env!("CARGO_BIN_EXE_svc"))
        .arg("indexer")
        .env("SVC_INDEXER_DB", "mysql://user:hunter2@host/db")
        .env("SVC_INDEXER_PORT", "70000")
        .env("SVC_INDEXER_START", "0")
        .output()
        .expect("runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    for variable in ["SVC_RPC", "SVC_INDEXER_DB", "SVC_INDEXER_PORT", "SVC_INDEXER_START"] {
        assert!(text.contains(variable), "{variable} in {text}");
    }
    assert!(!text.contains("hunter2"), "{text}");
}
