//! The process is killed where it stands; the next one begins with the journal.

use std::time::Duration;

use serde_json::{Value, json};
use svc::client::Client;

use super::super::{
    harness::{Answer, CREATE, World, call, config, ecosystem, world},
    secrets::{Served, serve},
};

struct Files(tempfile::TempDir);

impl Files {
    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("a path").to_owned()
    }
}

async fn start(world: &World, files: &Files, timeout_ms: &str) -> (Served, Client) {
    let (rpc, indexer) = (world.network.devnet.node.origin(), world.network.indexer_origin());
    let (journal, audit, timeout) = (files.path("journal.db"), files.path("audit.jsonl"), timeout_ms.to_owned());
    let served = tokio::task::spawn_blocking(move || {
        let more =
            [("SVC_JOURNAL", journal.as_str()), ("SVC_AUDIT", audit.as_str()), ("SVC_TX_TIMEOUT_MS", timeout.as_str())];
        serve(&rpc, &indexer, &more)
    });
    let served = served.await.expect("joins");
    let client = Client::connect(&served.url, served.token()).await.expect("connects");
    (served, client)
}

fn kill(mut served: Served) {
    served.child.kill().expect("killed");
    served.child.wait().expect("gone");
}

fn keyed(name: &str) -> Value {
    let mut arguments = ecosystem(name);
    arguments["idempotency_key"] = format!("key of {name}").into();
    arguments
}

async fn recovered(client: &Client) -> Value {
    call(client, "svc.wallet.getStatus", json!({})).await.content["journal"]["recovered"].clone()
}

fn new_files() -> Files {
    Files(tempfile::tempdir().expect("a directory"))
}

/// Starts a write, kills the process when `when` says so, starts another, and asks again under the same key.
async fn killed(
    world: &World,
    files: &Files,
    name: &str,
    when: impl AsyncFn(),
    after: impl AsyncFn(),
) -> (Served, Client, Answer) {
    let (served, client) = start(world, files, "30000").await;
    let kill_it = async {
        when().await;
        kill(served);
    };
    let writing = client.call(CREATE, super::super::harness::arguments(keyed(name)));
    let cut = tokio::time::timeout(Duration::from_secs(2), async { tokio::join!(writing, kill_it) });
    drop(cut.await);
    let (served, client) = start(world, files, "30000").await;
    after().await;
    let answer = call(&client, CREATE, keyed(name)).await;
    (served, client, answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_killed_while_its_transaction_waits_is_answered_for_by_the_next() {
    let (world, files) = (world(config(100)).await, new_files());
    let node = &world.network.devnet.node;
    node.faults(|faults| faults.hold_inclusion = true);
    let waits = async || world.until_waiting(1).await;
    let release = async || {
        node.faults(|faults| faults.hold_inclusion = false);
    };
    let (served, client, answer) = killed(&world, &files, "waiting", waits, release).await;
    world.assert_happened("waiting", &answer);
    let found = recovered(&client).await;
    assert_eq!((&found["found"], &found["included"]), (&json!(1), &json!(1)), "{found}");
    assert_eq!(world.operator_txs_in_blocks(), 1);
    // Asked once more, of a third process: the same outcome.
    kill(served);
    let (served, client) = start(&world, &files, "30000").await;
    let again = call(&client, CREATE, keyed("waiting")).await;
    assert_eq!(again.content["tx_hash"], answer.content["tx_hash"]);
    assert_eq!(recovered(&client).await["found"], 0, "nothing is open any more");
    kill(served);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_killed_in_the_middle_of_a_broadcast_sends_nothing_twice() {
    let (world, files) = (world(config(100)).await, new_files());
    let node = &world.network.devnet.node;
    for round in 0..3 {
        let name = format!("broadcast-{round}");
        node.faults(|faults| (faults.delay_ms, faults.delay_method) = (700, "broadcast_tx_sync".to_owned()));
        let path = files.path("journal.db");
        // Written down, and on its way: the write-ahead log has grown.
        let size = || std::fs::metadata(format!("{path}-wal")).map(|file| file.len()).unwrap_or(0);
        let before = std::cell::Cell::new(None);
        let written = async || loop {
            let now = size();
            match before.get() {
                None if now > 0 => before.set(Some(now)),
                Some(first) if now > first => return,
                _ => {}
            }
            tokio::task::yield_now().await;
        };
        let relief = async || node.faults(|faults| faults.delay_ms = 0);
        let (served, _, answer) = killed(&world, &files, &name, written, relief).await;
        world.assert_happened(&name, &answer);
        kill(served);
    }
    assert_eq!(world.operator_txs_in_blocks(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_expired_while_no_process_ran_is_known_at_boot() {
    let (world, files) = (world(config(100)).await, new_files());
    let node = &world.network.devnet.node;
    node.faults(|faults| faults.hold_inclusion = true);
    let (served, client) = start(&world, &files, "1000").await;
    let answer = call(&client, CREATE, keyed("gone")).await;
    assert_eq!(answer.content["code"], "BCAST_TIMEOUT");
    let timeout = answer.content["details"]["timeout_height"].as_u64().expect("a height");
    kill(served);
    world.until("its time is over", async || world.height() > timeout + 10).await;
    node.faults(|faults| faults.hold_inclusion = false);
    // What the mempool still held is past its timeout height and is dropped.
    let (served, client) = start(&world, &files, "1000").await;
    assert_eq!(recovered(&client).await["expired"], 1);
    let again = call(&client, CREATE, keyed("gone")).await;
    assert_eq!(again.content["code"], "TX_EXPIRED", "{:#}", again.content);
    let answer = call(&client, CREATE, keyed("fresh")).await;
    world.assert_happened("fresh", &answer);
    assert_eq!(world.times_on_chain("gone"), 0);
    kill(served);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_record_left_open_by_a_crash_is_completed_at_the_next_boot() {
    let (world, files) = (world(config(100)).await, new_files());
    let node = &world.network.devnet.node;
    node.faults(|faults| faults.hold_inclusion = true);
    let waits = async || world.until_waiting(1).await;
    let release = async || {
        node.faults(|faults| faults.hold_inclusion = false);
    };
    let (served, client, answer) = killed(&world, &files, "audited", waits, release).await;
    world.assert_happened("audited", &answer);
    let lines = || -> Vec<Value> {
        let text = std::fs::read_to_string(files.path("audit.jsonl")).expect("readable");
        text.lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect()
    };
    world.until("it is completed", async || lines().len() == 2).await;
    let lines = lines();
    assert_eq!((&lines[0]["record"], &lines[1]["record"]), (&json!("begun"), &json!("completed")));
    assert_eq!((&lines[0]["id"], &lines[1]["outcome"]), (&lines[1]["id"], &json!("included")));
    assert_eq!(lines[1]["tx_hash"], answer.content["tx_hash"]);
    client.close().await;
    kill(served);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_under_way_when_the_server_is_replaced_ends_and_its_outcome_is_there_under_its_key() {
    let (world, files) = (world(config(100)).await, new_files());
    let node = &world.network.devnet.node;
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").port().to_string();
    let serve_again = async || {
        let (rpc, indexer) = (node.origin(), world.network.indexer_origin());
        let (journal, port) = (files.path("journal.db"), port.clone());
        let served = tokio::task::spawn_blocking(move || {
            serve(&rpc, &indexer, &[("SVC_JOURNAL", journal.as_str()), ("MCP_HTTP_PORT", port.as_str())])
        });
        served.await.expect("joins")
    };
    let served = serve_again().await;
    let client = Client::connect(&served.url, served.token()).await.expect("connects");
    node.faults(|faults| faults.hold_inclusion = true);
    let replaced = async {
        world.until_waiting(1).await;
        kill(served);
        let served = serve_again().await;
        node.faults(|faults| faults.hold_inclusion = false);
        served
    };
    let writing = client.call(CREATE, super::super::harness::arguments(keyed("replaced")));
    let (answer, served) =
        tokio::time::timeout(super::super::harness::PATIENCE, async { tokio::join!(writing, replaced) })
            .await
            .expect("ends");
    assert!(answer.is_err(), "the new process knows nothing of that stream: {answer:?}");
    let client = Client::connect(&served.url, served.token()).await.expect("connects");
    let answer = call(&client, CREATE, keyed("replaced")).await;
    world.assert_happened("replaced", &answer);
    assert_eq!(world.operator_txs_in_blocks(), 1);
    let forgotten = reqwest::Client::new()
        .get(&served.url)
        .bearer_auth(served.token())
        .header("accept", "text/event-stream")
        .header("last-event-id", "1-0");
    assert_eq!(forgotten.send().await.expect("answered").status(), 404);
    kill(served);
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_refused_and_signed_again_are_one_write_under_one_key() {
    let (world, files) = (world(config(4_000)).await, new_files());
    let node = &world.network.devnet.node;
    let (served, client) = start(&world, &files, "30000").await;
    let refusal = svc_devnet::node::Refusal {
        times: 2,
        codespace: "sdk".to_owned(),
        code: 20,
        log: "mempool is full".to_owned(),
    };
    world.blocks(1).await;
    node.faults(|faults| faults.refuse = Some(refusal));
    let first = call(&client, CREATE, keyed("again")).await;
    world.assert_happened("again", &first);
    let second = call(&client, CREATE, keyed("again")).await;
    assert_eq!(second.content["tx_hash"], first.content["tx_hash"], "{:#}", second.content);
    assert_eq!(world.operator_txs_in_blocks(), 1);
    kill(served);
}

#[tokio::test(flavor = "multi_thread")]
async fn records_that_cannot_be_kept_stop_the_boot_and_are_named() {
    let world = world(config(100)).await;
    let (rpc, indexer) = (world.network.devnet.node.origin(), world.network.indexer_origin());
    for variable in ["SVC_JOURNAL", "SVC_AUDIT"] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_svc"));
        command.arg("serve").env_clear().envs([
            ("MCP_SVC_MNEMONIC", super::super::harness::OPERATOR_MNEMONIC),
            ("MCP_BEARER_TOKEN", "token-0123456789abcdef-0123456789abcdef"),
            ("SVC_CORPORATION", "1"),
            ("SVC_RPC", &rpc),
            ("SVC_INDEXER", &indexer),
            ("MCP_HTTP_PORT", "0"),
            (variable, "/nowhere/at/all"),
        ]);
        let output = tokio::task::spawn_blocking(move || command.output().expect("runs")).await.expect("joins");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && told.contains(variable), "{told}");
    }
}
