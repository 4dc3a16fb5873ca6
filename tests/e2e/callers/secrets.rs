//! The mnemonic, the token and the private key appear in no output and in no environment block.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};
use svc::mcp_client::McpClient;
use svc_wire::account_key::AccountKey;

use crate::e2e::harness::{
    CREATE_ECOSYSTEM, OPERATOR_MNEMONIC, ecosystem_arguments, into_arguments, start_quick_network,
};

const TOKEN: &str = "token-0123456789abcdef-0123456789abcdef";

/// A server that ends with its test.
pub struct ServerChild {
    pub child: Child,
    pub url: String,
    log: Option<std::thread::JoinHandle<String>>,
}

/// The program under test.
pub const SERVER_PROGRAM: &str = env!("CARGO_BIN_EXE_svc");

/// Starts `svc serve` as a process of its own, against the node and the indexer of a network.
pub fn spawn_server(rpc: &str, indexer: &str, more: &[(&str, &str)]) -> ServerChild {
    spawn_server_by(Command::new(SERVER_PROGRAM), rpc, indexer, more)
}

/// Starts the server by a command that ends with the program.
pub fn spawn_server_by(mut command: Command, rpc: &str, indexer: &str, more: &[(&str, &str)]) -> ServerChild {
    command
        .arg("serve")
        .env_clear()
        .envs([("MCP_SVC_MNEMONIC", OPERATOR_MNEMONIC), ("MCP_BEARER_TOKEN", TOKEN), ("SVC_CORPORATION", "1")])
        .envs([("SVC_RPC", rpc), ("SVC_INDEXER", indexer), ("MCP_HTTP_PORT", "0"), ("MCP_HTTP_BIND", "127.0.0.1")])
        .envs(more.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("svc starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped"));
    let mut log = String::new();
    let address = loop {
        let mut line = String::new();
        assert!(lines.read_line(&mut line).expect("readable") > 0, "svc ended: {log}");
        log.push_str(&line);
        let parsed: Value = serde_json::from_str(&line).unwrap_or_default();
        if parsed["msg"] == "serving MCP over HTTP" {
            break parsed["address"].as_str().expect("an address").to_owned();
        }
    };
    let log = std::thread::spawn(move || {
        let _ = lines.read_to_string(&mut log);
        log
    });
    ServerChild { child, url: format!("http://{address}/mcp"), log: Some(log) }
}

impl ServerChild {
    pub fn token(&self) -> &'static str {
        TOKEN
    }

    /// Stops the process with SIGTERM; returns its exit code and its log.
    pub fn terminate(mut self) -> (Option<i32>, String) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).expect("small")).expect("positive");
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("signalled");
        let status = self.child.wait().expect("ends");
        (status.code(), self.log.take().expect("not taken before").join().expect("joins"))
    }
}

impl Drop for ServerChild {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_in_no_log_metric_error_or_environment_block() {
    let world = start_quick_network().await;
    let (rpc, indexer) = (world.network.devnet.node.origin(), world.network.indexer_origin());
    let served = tokio::task::spawn_blocking(move || spawn_server(&rpc, &indexer, &[("SVC_LOG_LEVEL", "trace")]))
        .await
        .expect("joins");
    let environment =
        std::fs::read(format!("/proc/{}/environ", served.child.id())).expect("readable by the owner or root");
    let environment = String::from_utf8_lossy(&environment).into_owned();

    let client = McpClient::connect(&served.url, TOKEN).await.expect("connects");
    let mut answers = String::new();
    for (tool, given) in [
        (CREATE_ECOSYSTEM, ecosystem_arguments("secret")),
        (CREATE_ECOSYSTEM, json!({"did": "broken"})),
        ("svc.wallet.getStatus", json!({})),
        ("svc.wallet.getAddress", json!({})),
        ("svc.no.such.tool", json!({})),
    ] {
        let result = client.call_tool(tool, into_arguments(given)).await.expect("answered");
        answers.push_str(&serde_json::to_string(&result).expect("serialises"));
    }
    let origin = served.url.trim_end_matches("/mcp").to_owned();
    let http = reqwest::Client::new();
    let metrics = http.get(format!("{origin}/metrics")).send().await.expect("answered").text().await.expect("text");
    let refused =
        http.post(&served.url).bearer_auth("wrong").send().await.expect("answered").text().await.expect("text");
    client.close().await;
    let (code, log) = tokio::task::spawn_blocking(move || served.terminate()).await.expect("joins");
    assert_eq!(code, Some(0), "a drained server ends well");

    for expected in [
        "svc_mcp_tool_calls_total{",
        "svc_mcp_bootstrap_complete 1",
        "svc_actor_message_duration_seconds_bucket",
        "svc_mcp_tx_broadcast_total",
    ] {
        assert!(metrics.contains(expected), "{expected} in {metrics}");
    }
    assert!(
        log.lines().any(|line| line.contains("\"level\":\"trace\"") || line.contains("\"level\":\"debug\"")),
        "the level was on"
    );
    let broadcast =
        log.lines().find(|line| line.contains("transaction is broadcast")).expect("a line for each broadcast");
    let broadcast: Value = serde_json::from_str(broadcast).expect("JSON");
    for field in ["time", "level", "msg", "component", "request_id", "tool", "tx_hash"] {
        assert!(broadcast.get(field).is_some(), "{field} in {broadcast}");
    }

    let everything =
        [("log", log), ("metrics", metrics), ("answers", answers), ("refusal", refused), ("environment", environment)];
    for (place, text) in &everything {
        assert_no_secret(place, text);
    }
}

/// Asserts that `text` contains neither the token nor the mnemonic nor the private key.
pub fn assert_no_secret(place: &str, text: &str) {
    assert!(!text.contains(TOKEN), "the token is in the {place}");
    assert!(!text.contains("winner thank"), "the mnemonic is in the {place}");
    assert!(!text.to_lowercase().contains(&private_key_hex()), "the private key is in the {place}");
}

/// The private key of the operator in hex, derived by another implementation.
fn private_key_hex() -> String {
    use cosmrs::bip32::{self, XPrv};
    let mnemonic = bip39::Mnemonic::parse(OPERATOR_MNEMONIC).expect("valid");
    let path: bip32::DerivationPath = "m/44'/118'/0'/0/0".parse().expect("valid");
    let key = XPrv::derive_from_path(mnemonic.to_seed(""), &path).expect("derives");
    let bytes: [u8; 32] = key.private_key().to_bytes().into();
    let same = AccountKey::from_bytes(&bytes).expect("a key").public_key();
    assert_eq!(same, AccountKey::from_mnemonic(OPERATOR_MNEMONIC).expect("a key").public_key());
    hex::encode(bytes)
}

#[test]
fn a_node_without_encryption_at_a_public_address_stops_the_boot() {
    let output = Command::new(env!("CARGO_BIN_EXE_svc"))
        .arg("serve")
        .env_clear()
        .envs([
            ("MCP_SVC_MNEMONIC", OPERATOR_MNEMONIC),
            ("MCP_BEARER_TOKEN", "token-0123456789abcdef-0123456789abcdef"),
            ("SVC_CORPORATION", "1"),
            ("SVC_RPC", "https://127.0.0.1:1,http://8.8.8.8:26657"),
            ("SVC_INDEXER", "http://127.0.0.1:1"),
            ("MCP_HTTP_PORT", "0"),
        ])
        .output()
        .expect("runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("SVC_ALLOW_PLAINTEXT_NODE") && text.contains("http://8.8.8.8:26657"), "{text}");
}

#[test]
fn a_bad_environment_stops_the_boot_with_one_message_that_shows_no_secret() {
    let output = Command::new(env!("CARGO_BIN_EXE_svc"))
        .arg("serve")
        .env_clear()
        .envs([("MCP_SVC_MNEMONIC", "legal winner thank"), ("MCP_BEARER_TOKEN", "short-token"), ("SVC_RPC", "node")])
        .output()
        .expect("runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for variable in ["MCP_SVC_MNEMONIC", "MCP_BEARER_TOKEN", "SVC_RPC", "SVC_CORPORATION", "SVC_INDEXER"] {
        assert!(text.contains(variable), "{variable} in {text}");
    }
    assert!(!text.contains("winner") && !text.contains("short-token"), "{text}");
}
