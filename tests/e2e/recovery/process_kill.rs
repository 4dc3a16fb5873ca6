//! Kills of the process: the next process continues from the journal.

use std::{process::Command, time::Duration};

use serde_json::{Value, json};
use svc::mcp_client::McpClient;
use svc_test_support::ports::free_port;

use crate::e2e::{
    callers::secrets::{SERVER_PROGRAM, ServerChild, spawn_server, spawn_server_by},
    harness::{
        CREATE_ECOSYSTEM, CallResult, TestNetwork, call_tool, ecosystem_arguments, network_config, start_network,
    },
};

pub(super) struct ServerFiles(tempfile::TempDir);

impl ServerFiles {
    pub(super) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("a path").to_owned()
    }
}

async fn start(world: &TestNetwork, files: &ServerFiles, timeout_ms: &str) -> (ServerChild, McpClient) {
    start_with(world, files, &[("SVC_TX_TIMEOUT_MS", timeout_ms)]).await
}

/// Starts a server with further settings.
pub(super) async fn start_with(
    world: &TestNetwork,
    files: &ServerFiles,
    extra: &[(&'static str, &str)],
) -> (ServerChild, McpClient) {
    let mut settings = vec![("SVC_JOURNAL", files.path("journal.db")), ("SVC_AUDIT", files.path("audit.jsonl"))];
    settings.extend(extra.iter().map(|(name, value)| (*name, (*value).to_owned())));
    start_by(Command::new(SERVER_PROGRAM), world, settings).await
}

/// Starts a server by a command that ends with the program.
pub(super) async fn start_by(
    command: Command,
    world: &TestNetwork,
    settings: Vec<(&'static str, String)>,
) -> (ServerChild, McpClient) {
    let (rpc, indexer) = (world.network.devnet.node.origin(), world.network.indexer_origin());
    let served = tokio::task::spawn_blocking(move || {
        let settings: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        spawn_server_by(command, &rpc, &indexer, &settings)
    });
    let served = served.await.expect("joins");
    let client = McpClient::connect(&served.url, served.token()).await.expect("connects");
    (served, client)
}

pub(super) fn kill(mut served: ServerChild) {
    served.child.kill().expect("killed");
    served.child.wait().expect("gone");
}

pub(super) fn keyed_arguments(name: &str) -> Value {
    let mut arguments = ecosystem_arguments(name);
    arguments["idempotency_key"] = format!("key of {name}").into();
    arguments
}

async fn recovered(client: &McpClient) -> Value {
    call_tool(client, "svc.wallet.getStatus", json!({})).await.content["journal"]["recovered"].clone()
}

pub(super) fn new_files() -> ServerFiles {
    ServerFiles(tempfile::tempdir().expect("a directory"))
}

/// Starts a write, kills the process once `when` resolves, starts another process, and repeats the call with the same key.
async fn write_across_kill(
    world: &TestNetwork,
    files: &ServerFiles,
    name: &str,
    when: impl AsyncFn(),
    after: impl AsyncFn(),
) -> (ServerChild, McpClient, CallResult) {
    let (served, client) = start(world, files, "30000").await;
    let kill_it = async {
        when().await;
        kill(served);
    };
    let writing = client.call_tool(CREATE_ECOSYSTEM, super::super::harness::into_arguments(keyed_arguments(name)));
    let cut = tokio::time::timeout(Duration::from_secs(2), async { tokio::join!(writing, kill_it) });
    drop(cut.await);
    let (served, client) = start(world, files, "30000").await;
    after().await;
    let answer = call_tool(&client, CREATE_ECOSYSTEM, keyed_arguments(name)).await;
    (served, client, answer)
}

/// Kills the process while the transaction waits in the mempool; a block takes it when the next process is up.
async fn write_across_kill_while_waiting(
    world: &TestNetwork,
    files: &ServerFiles,
    name: &str,
) -> (ServerChild, McpClient, CallResult) {
    let node = &world.network.devnet.node;
    node.update_faults(|faults| faults.hold_inclusion = true);
    let waits = async || world.await_mempool_size(1).await;
    let release = async || {
        node.update_faults(|faults| faults.hold_inclusion = false);
    };
    write_across_kill(world, files, name, waits, release).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_process_answers_for_a_transaction_that_waits_at_a_kill() {
    let (world, files) = (start_network(network_config(100)).await, new_files());
    let (served, client, answer) = write_across_kill_while_waiting(&world, &files, "waiting").await;
    world.assert_included_once("waiting", &answer);
    let found = recovered(&client).await;
    assert_eq!((&found["found"], &found["included"]), (&json!(1), &json!(1)), "{found}");
    assert_eq!(world.operator_txs_in_blocks(), 1);
    // A third process gives the same outcome.
    kill(served);
    let (served, client) = start(&world, &files, "30000").await;
    let again = call_tool(&client, CREATE_ECOSYSTEM, keyed_arguments("waiting")).await;
    assert_eq!(again.content["tx_hash"], answer.content["tx_hash"]);
    assert_eq!(recovered(&client).await["found"], 0, "nothing is open any more");
    kill(served);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_during_a_broadcast_executes_no_write_twice() {
    let (world, files) = (start_network(network_config(100)).await, new_files());
    let node = &world.network.devnet.node;
    for round in 0..3 {
        let name = format!("broadcast-{round}");
        node.update_faults(|faults| (faults.delay_ms, faults.delay_method) = (700, "broadcast_tx_sync".to_owned()));
        let path = files.path("journal.db");
        // The write-ahead log has grown, so the transaction is journaled and its broadcast has begun.
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
        let relief = async || node.update_faults(|faults| faults.delay_ms = 0);
        let (served, _, answer) = write_across_kill(&world, &files, &name, written, relief).await;
        world.assert_included_once(&name, &answer);
        kill(served);
    }
    assert_eq!(world.operator_txs_in_blocks(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_expired_without_a_process_is_known_at_boot() {
    let (world, files) = (start_network(network_config(100)).await, new_files());
    let node = &world.network.devnet.node;
    node.update_faults(|faults| faults.hold_inclusion = true);
    let (served, client) = start(&world, &files, "1000").await;
    let answer = call_tool(&client, CREATE_ECOSYSTEM, keyed_arguments("gone")).await;
    assert_eq!(answer.content["code"], "BCAST_TIMEOUT");
    let timeout = answer.content["details"]["timeout_height"].as_u64().expect("a height");
    kill(served);
    world.wait_until("its time is over", async || world.height() > timeout + 10).await;
    node.update_faults(|faults| faults.hold_inclusion = false);
    // The transaction in the mempool is past its timeout height and is dropped.
    let (served, client) = start(&world, &files, "1000").await;
    assert_eq!(recovered(&client).await["expired"], 1);
    let again = call_tool(&client, CREATE_ECOSYSTEM, keyed_arguments("gone")).await;
    assert_eq!(again.content["code"], "TX_EXPIRED", "{:#}", again.content);
    let answer = call_tool(&client, CREATE_ECOSYSTEM, keyed_arguments("fresh")).await;
    world.assert_included_once("fresh", &answer);
    assert_eq!(world.times_on_chain("gone"), 0);
    kill(served);
}

/// Kills a process while its transaction waits in the mempool, and lets a block take the transaction while there is no process.
/// Yields the height of the block.
async fn include_without_process(world: &TestNetwork, files: &ServerFiles, name: &str) -> u64 {
    let node = &world.network.devnet.node;
    node.update_faults(|faults| faults.hold_inclusion = true);
    let (served, client) = start(world, files, "1000").await;
    let answer = call_tool(&client, CREATE_ECOSYSTEM, keyed_arguments(name)).await;
    assert_eq!(answer.content["code"], "BCAST_TIMEOUT");
    kill(served);
    node.update_faults(|faults| faults.hold_inclusion = false);
    world.wait_until("a block has it", async || world.times_on_chain(name) == 1).await;
    let hash = answer.content["details"]["tx_hash"].as_str().expect("a hash").to_owned();
    node.read_core(|core| core.find_tx(&hash).map(|(block, _)| block.height)).expect("in a block")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_process_decides_by_blocks_when_there_is_no_index() {
    let (world, files) = (start_network(network_config(100)).await, new_files());
    world.network.devnet.node.update_faults(|faults| faults.index_off = true);
    include_without_process(&world, &files, "unindexed").await;
    let (served, client) = start(&world, &files, "1000").await;
    assert_eq!(recovered(&client).await["included"], 1);
    let again = call_tool(&client, CREATE_ECOSYSTEM, keyed_arguments("unindexed")).await;
    world.assert_included_once("unindexed", &again);
    assert_eq!(world.operator_txs_in_blocks(), 1);
    kill(served);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_block_is_pruned_stays_undecided_until_a_node_has_it() {
    let (world, files) = (start_network(network_config(100)).await, new_files());
    let node = &world.network.devnet.node;
    node.update_faults(|faults| faults.index_off = true);
    let height = include_without_process(&world, &files, "pruned").await;
    node.update_faults(|faults| faults.pruned_below = height + 1);
    let (served, client) = start(&world, &files, "1000").await;
    let repeat = async || call_tool(&client, CREATE_ECOSYSTEM, keyed_arguments("pruned")).await;
    let is_named = async || {
        let again = repeat().await.content;
        assert_eq!(again["code"], "BCAST_TIMEOUT", "{again:#}");
        again["details"]["missing_blocks"].as_str().is_some_and(|missing| missing.ends_with(&height.to_string()))
    };
    world.wait_until("the missing blocks are named", is_named).await;
    // A node that has the block joins; the key has the outcome as soon as there is one.
    node.update_faults(|faults| faults.pruned_below = 0);
    node.cut_websockets();
    world.wait_until("the key has the outcome", async || !repeat().await.is_error).await;
    world.assert_included_once("pruned", &repeat().await);
    assert_eq!(world.operator_txs_in_blocks(), 1);
    kill(served);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_boot_completes_an_audit_record_left_open_by_a_crash() {
    let (world, files) = (start_network(network_config(100)).await, new_files());
    let (served, client, answer) = write_across_kill_while_waiting(&world, &files, "audited").await;
    world.assert_included_once("audited", &answer);
    let lines = || -> Vec<Value> {
        let text = std::fs::read_to_string(files.path("audit.jsonl")).expect("readable");
        text.lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect()
    };
    world.wait_until("it is completed", async || lines().len() == 2).await;
    let lines = lines();
    assert_eq!((&lines[0]["record"], &lines[1]["record"]), (&json!("begun"), &json!("completed")));
    assert_eq!((&lines[0]["id"], &lines[1]["outcome"]), (&lines[1]["id"], &json!("included")));
    assert_eq!(lines[1]["tx_hash"], answer.content["tx_hash"]);
    client.close().await;
    kill(served);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_running_at_a_server_replacement_ends_and_its_key_has_the_outcome() {
    let (world, files) = (start_network(network_config(100)).await, new_files());
    let node = &world.network.devnet.node;
    let port = free_port().to_string();
    let serve_again = async || {
        let (rpc, indexer) = (node.origin(), world.network.indexer_origin());
        let (journal, port) = (files.path("journal.db"), port.clone());
        let served = tokio::task::spawn_blocking(move || {
            spawn_server(&rpc, &indexer, &[("SVC_JOURNAL", journal.as_str()), ("MCP_HTTP_PORT", port.as_str())])
        });
        served.await.expect("joins")
    };
    let served = serve_again().await;
    let client = McpClient::connect(&served.url, served.token()).await.expect("connects");
    node.update_faults(|faults| faults.hold_inclusion = true);
    let replaced = async {
        world.await_mempool_size(1).await;
        kill(served);
        let served = serve_again().await;
        node.update_faults(|faults| faults.hold_inclusion = false);
        served
    };
    let writing =
        client.call_tool(CREATE_ECOSYSTEM, super::super::harness::into_arguments(keyed_arguments("replaced")));
    let (answer, served) =
        tokio::time::timeout(super::super::harness::TEST_TIMEOUT, async { tokio::join!(writing, replaced) })
            .await
            .expect("ends");
    assert!(answer.is_err(), "the new process knows nothing of that stream: {answer:?}");
    let client = McpClient::connect(&served.url, served.token()).await.expect("connects");
    let answer = call_tool(&client, CREATE_ECOSYSTEM, keyed_arguments("replaced")).await;
    world.assert_included_once("replaced", &answer);
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
async fn a_refused_transaction_that_is_signed_again_is_one_write_with_one_key() {
    let (world, files) = (start_network(network_config(4_000)).await, new_files());
    let node = &world.network.devnet.node;
    let (served, client) = start(&world, &files, "30000").await;
    let refusal = svc_devnet::node::CheckTxRefusal::sdk(2, 20, "mempool is full");
    world.await_blocks(1).await;
    node.update_faults(|faults| faults.refuse = Some(refusal));
    let first = call_tool(&client, CREATE_ECOSYSTEM, keyed_arguments("again")).await;
    world.assert_included_once("again", &first);
    let second = call_tool(&client, CREATE_ECOSYSTEM, keyed_arguments("again")).await;
    assert_eq!(second.content["tx_hash"], first.content["tx_hash"], "{:#}", second.content);
    assert_eq!(world.operator_txs_in_blocks(), 1);
    kill(served);
}

/// Runs a server that is expected not to start, and yields its log.
pub(super) async fn refused_boot(world: &TestNetwork, extra: &[(&'static str, String)]) -> String {
    let (rpc, indexer) = (world.network.devnet.node.origin(), world.network.indexer_origin());
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_svc"));
    command.arg("serve").env_clear().envs([
        ("MCP_SVC_MNEMONIC", super::super::harness::OPERATOR_MNEMONIC),
        ("MCP_BEARER_TOKEN", "token-0123456789abcdef-0123456789abcdef"),
        ("SVC_CORPORATION", "1"),
        ("SVC_RPC", &rpc),
        ("SVC_INDEXER", &indexer),
        ("MCP_HTTP_PORT", "0"),
    ]);
    command.envs(extra.iter().map(|(name, value)| (*name, value)));
    let output = tokio::task::spawn_blocking(move || command.output().expect("runs")).await.expect("joins");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{stderr}");
    stderr
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unusable_record_file_fails_the_boot_with_its_name() {
    let world = start_network(network_config(100)).await;
    for variable in ["SVC_JOURNAL", "SVC_AUDIT"] {
        let stderr = refused_boot(&world, &[(variable, "/nowhere/at/all".to_owned())]).await;
        assert!(stderr.contains(variable), "{stderr}");
    }
}
