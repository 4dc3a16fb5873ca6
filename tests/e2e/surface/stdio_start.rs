//! Over stdio, `initialize` is answered at once, with or without a node, and the tools follow when the chain is known.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::e2e::harness::{OPERATOR_MNEMONIC, TEST_TIMEOUT, start_quick_network};

/// A server process with a host on its standard input and output.
struct StdioHost {
    child: Child,
    lines: mpsc::Receiver<Value>,
    next_id: u64,
    /// Notifications that came between answers.
    notified: Vec<String>,
}

impl StdioHost {
    fn start(rpc: &str, indexer: &str, more: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_svc"));
        command.arg("serve").env_clear().envs([
            ("MCP_TRANSPORT", "stdio"),
            ("MCP_SVC_MNEMONIC", OPERATOR_MNEMONIC),
            ("SVC_CORPORATION", "1"),
            ("SVC_RPC", rpc),
            ("SVC_INDEXER", indexer),
            ("SVC_LOG_LEVEL", "error"),
        ]);
        command.envs(more.iter().copied());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("starts");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = sender.send(serde_json::from_str(&line).expect("a JSON line"));
            }
        });
        let mut host = Self { child, lines, next_id: 0, notified: Vec::new() };
        let info = json!({"name": "t", "version": "1"});
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info});
        assert_eq!(host.ask("initialize", params)["protocolVersion"], "2025-06-18");
        host.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        host
    }

    fn send(&mut self, message: Value) {
        writeln!(self.child.stdin.as_mut().expect("piped"), "{message}").expect("written");
    }

    fn next(&mut self) -> Value {
        let message = self.lines.recv_timeout(TEST_TIMEOUT).expect("a line in time");
        if let Some(method) = message["method"].as_str() {
            self.notified.push(method.to_owned());
        }
        message
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let message = self.next();
            if message["id"] == id {
                return message["result"].clone();
            }
        }
    }

    fn tools(&mut self) -> Vec<String> {
        let listed = self.ask("tools/list", json!({}));
        let tools = listed["tools"].as_array().expect("tools");
        tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
    }

    fn call(&mut self, tool: &str) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": {}}))
    }

    fn await_list_change(&mut self) {
        while !self.notified.iter().any(|method| method == "notifications/tools/list_changed") {
            self.next();
        }
    }

    /// Closes standard input, as a host does, and returns the exit code.
    fn close(mut self) -> Option<i32> {
        drop(self.child.stdin.take());
        self.child.wait().expect("ended").code()
    }
}

fn envelope(result: &Value) -> Value {
    assert_eq!(result["isError"], true, "{result:#}");
    serde_json::from_str(result["content"][1]["text"].as_str().expect("a text")).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_is_answered_before_the_node_is_there_and_gets_the_tools_later() {
    let world = start_quick_network().await;
    let (rpc, indexer) = (world.network.devnet.node.origin(), world.network.indexer_origin());
    // A port without a listener: the node comes up there later.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = closed.local_addr().expect("an address");
    drop(closed);
    let late = format!("http://{address}");
    tokio::task::spawn_blocking(move || {
        let started = Instant::now();
        let mut host = StdioHost::start(&late, &indexer, &[]);
        assert!(started.elapsed() < Duration::from_secs(30), "answered while the node is not there");
        assert_eq!(host.tools(), ["svc.wallet.getStatus"]);
        let schema = host.ask("tools/list", json!({}))["tools"][0]["outputSchema"].clone();
        let status = host.call("svc.wallet.getStatus");
        assert_eq!(status["structuredContent"]["status"], "degraded");
        assert!(jsonschema::is_valid(&schema, &status["structuredContent"]), "{status:#}");
        let error = envelope(&host.call("svc.wallet.getAddress"));
        assert_eq!((&error["code"], &error["retryable"]), (&json!("NOT_READY"), &json!(true)));
        let prompts = host.ask("prompts/list", json!({}));
        assert_eq!(prompts["prompts"].as_array().map(Vec::len), Some(15));
        let upstream = rpc.trim_start_matches("http://").to_owned();
        let listener = std::net::TcpListener::bind(address).expect("the port again");
        std::thread::spawn(move || forward(listener, &upstream));
        host.await_list_change();
        assert!(host.tools().len() > 90);
        assert_eq!(host.call("svc.wallet.getStatus")["structuredContent"]["bootstrap_complete"], true);
        assert_eq!(host.close(), Some(0));
    })
    .await
    .expect("ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_list_of_a_healthy_start_is_whole_and_underscored_names_begin_so() {
    let world = start_quick_network().await;
    let (rpc, indexer) = (world.network.devnet.node.origin(), world.network.indexer_origin());
    tokio::task::spawn_blocking(move || {
        let mut host = StdioHost::start(&rpc, &indexer, &[("SVC_TOOL_NAMES", "underscored")]);
        let tools = host.tools();
        assert!(tools.len() > 90 && tools.iter().all(|name| !name.contains('.')), "{tools:?}");
        assert_eq!(host.close(), Some(0));
        let nowhere = "http://127.0.0.1:9";
        let mut host = StdioHost::start(nowhere, nowhere, &[("SVC_TOOL_NAMES", "underscored")]);
        assert_eq!(host.tools(), ["svc_wallet_getStatus"]);
        assert_eq!(host.call("svc_wallet_getStatus")["structuredContent"]["status"], "degraded");
        assert_eq!(host.close(), Some(0));
        let mut host = StdioHost::start(nowhere, nowhere, &[("SVC_TOOLS_DENY", "svc.wallet.getStatus")]);
        assert_eq!(host.tools(), Vec::<String>::new());
        assert_eq!(envelope(&host.call("svc.wallet.getStatus"))["code"], "NOT_READY");
        assert_eq!(host.close(), Some(0));
    })
    .await
    .expect("ended");
}

/// Forwards each connection to another address.
fn forward(listener: std::net::TcpListener, upstream: &str) {
    for client in listener.incoming().map_while(Result::ok) {
        let server = std::net::TcpStream::connect(upstream).expect("the node");
        let (mut from_client, mut from_server) =
            (client.try_clone().expect("a handle"), server.try_clone().expect("a handle"));
        let (mut to_client, mut to_server) = (client, server);
        std::thread::spawn(move || std::io::copy(&mut from_client, &mut to_server));
        std::thread::spawn(move || std::io::copy(&mut from_server, &mut to_client));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_chain_or_corporation_is_the_error_of_every_call_and_of_the_exit() {
    let world = start_quick_network().await;
    for (more, named) in
        [(("SVC_CHAIN_ID", "another-chain"), "SVC_CHAIN_ID"), (("SVC_CORPORATION", "77"), "SVC_CORPORATION")]
    {
        let (rpc, indexer) = (world.network.devnet.node.origin(), world.network.indexer_origin());
        tokio::task::spawn_blocking(move || {
            let mut host = StdioHost::start(&rpc, &indexer, &[more]);
            host.await_list_change();
            assert_eq!(host.tools(), ["svc.wallet.getStatus"]);
            let error = envelope(&host.call("svc.idx.es.listEcosystems"));
            assert_eq!((&error["code"], &error["retryable"]), (&json!("NOT_READY"), &json!(false)));
            assert!(error["message"].as_str().is_some_and(|message| message.contains(named)), "{error:#}");
            let status = host.call("svc.wallet.getStatus");
            assert_eq!(status["structuredContent"]["status"], "failed");
            assert_eq!(host.close(), Some(1));
        })
        .await
        .expect("ended");
    }
}
