//! Services that start before the servers they need: each says so, waits, and serves once they are there.

use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use svc_devnet::{Devnet, DevnetConfig};
use svc_test_support::ports::free_port;

use crate::e2e::harness::{OPERATOR_MNEMONIC, TEST_TIMEOUT};

/// A process that ends with the test.
struct Service(Child);

impl Service {
    fn start(command: &str, settings: &[(&str, &str)]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_svc"));
        process.arg(command).env_clear().envs(settings.iter().copied()).env("SVC_LOG_LEVEL", "error");
        Self(process.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts"))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until the health of a service is a wanted one.
async fn await_health(port: u16, status: u16, wanted: Value) {
    let mut last = Value::Null;
    let reached = async {
        loop {
            if let Ok(answer) = reqwest::get(format!("http://127.0.0.1:{port}/healthz")).await {
                let found = answer.status().as_u16();
                last = answer.json().await.unwrap_or_default();
                let is_wanted =
                    wanted.as_object().is_some_and(|all| all.iter().all(|(name, value)| last[name] == *value));
                if found == status && is_wanted {
                    return;
                }
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let in_time = tokio::time::timeout(TEST_TIMEOUT, reached).await.is_ok();
    assert!(in_time, "the health at port {port} is {last}, not {wanted}");
}

/// A page of another origin asks whether it may read, and reads that the service starts.
async fn assert_readable_by_pages(url: &str) {
    let client = reqwest::Client::new();
    let asked = client.request(reqwest::Method::OPTIONS, url).header("origin", "https://page.example");
    let asked = asked.header("access-control-request-method", "GET").send().await.expect("an answer");
    let read = client.get(url).header("origin", "https://page.example").send().await.expect("an answer");
    assert_eq!((asked.status().as_u16(), read.status().as_u16()), (200, 503));
    for answer in [asked, read] {
        assert_eq!(answer.headers().get("access-control-allow-origin").expect("the header"), "*", "{url}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tool_server_and_the_indexer_wait_for_what_is_not_there_yet() {
    let [node, indexer, mcp] = [free_port(), free_port(), free_port()];
    let origin = |port: u16| format!("http://127.0.0.1:{port}");
    let (rpc, index) = (origin(node), origin(indexer));
    let directory = tempfile::tempdir().expect("a directory");
    let database = format!("sqlite://{}?mode=rwc", directory.path().join("index.db").display());
    let (indexer_port, mcp_port) = (indexer.to_string(), mcp.to_string());
    let _tools = Service::start(
        "serve",
        &[
            ("MCP_SVC_MNEMONIC", OPERATOR_MNEMONIC),
            ("SVC_CORPORATION", "1"),
            ("SVC_RPC", &rpc),
            ("SVC_INDEXER", &index),
            ("MCP_HTTP_PORT", &mcp_port),
            ("MCP_BEARER_TOKEN", "a-token-of-the-test-with-32-bytes"),
            ("SVC_JOURNAL", directory.path().join("journal").to_str().expect("a text")),
            ("SVC_AUDIT", directory.path().join("audit").to_str().expect("a text")),
        ],
    );
    await_health(mcp, 503, json!({"status": "starting", "waiting_for": "node"})).await;

    let devnet = DevnetConfig {
        listen: ([127, 0, 0, 1], node).into(),
        block_time: Some(std::time::Duration::from_millis(200)),
        scenario: "corporation".into(),
        ..DevnetConfig::default()
    };
    let _devnet = Devnet::launch(devnet.clone()).await.expect("starts");
    await_health(mcp, 503, json!({"status": "starting", "waiting_for": "indexer"})).await;

    // The indexer of a node that is not there yet waits too.
    let other = free_port();
    let other_node = free_port();
    let (other_rpc, other_port) = (origin(other_node), other.to_string());
    let other_store = format!("sqlite://{}?mode=rwc", directory.path().join("other.db").display());
    let _other = Service::start(
        "indexer",
        &[("SVC_RPC", &other_rpc), ("SVC_INDEXER_DB", &other_store), ("SVC_INDEXER_PORT", &other_port)],
    );
    await_health(other, 503, json!({"status": "starting", "waiting_for": "node"})).await;
    assert_readable_by_pages(&format!("{}/v4/indexer/events", origin(other))).await;
    let _node = Devnet::launch(DevnetConfig { listen: ([127, 0, 0, 1], other_node).into(), ..devnet }).await;
    await_health(other, 200, json!({"status": "ok"})).await;

    let _indexer = Service::start(
        "indexer",
        &[("SVC_RPC", &rpc), ("SVC_INDEXER_DB", &database), ("SVC_INDEXER_PORT", &indexer_port)],
    );
    await_health(mcp, 200, json!({"status": "ok"})).await;
}
