//! Sessions over HTTP: their limit, their idle timeout, their request ids, and the resumption of a lost stream.

use std::time::Duration;

use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use svc::mcp::SessionLimits;

use crate::e2e::harness::{
    CREATE_ECOSYSTEM, TEST_TIMEOUT, TestNetwork, ecosystem_arguments, network_config, start_network,
};

struct RawMcpClient<'a> {
    world: &'a TestNetwork,
    client: reqwest::Client,
    version: &'static str,
}

impl<'a> RawMcpClient<'a> {
    fn new(world: &'a TestNetwork) -> Self {
        Self::of_version(world, "2025-11-25")
    }

    fn of_version(world: &'a TestNetwork, version: &'static str) -> Self {
        Self { world, client: reqwest::Client::new(), version }
    }

    fn request(&self, method: reqwest::Method, session: Option<&str>) -> reqwest::RequestBuilder {
        let request = self
            .client
            .request(method, self.world.network.mcp_url())
            .bearer_auth(&self.world.network.bearer_token)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        match session {
            Some(id) => request.header("mcp-session-id", id).header("mcp-protocol-version", self.version),
            None => request,
        }
    }

    async fn post(&self, session: Option<&str>, body: Value) -> Response {
        self.request(reqwest::Method::POST, session).body(body.to_string()).send().await.expect("an answer")
    }

    async fn initialize(&self) -> Response {
        let info = json!({"name": "t", "version": "1"});
        let params = json!({"protocolVersion": self.version, "capabilities": {}, "clientInfo": info});
        self.post(None, json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})).await
    }

    /// Opens a session and returns its id.
    async fn session(&self) -> String {
        let response = self.initialize().await;
        let id = response.headers()["mcp-session-id"].to_str().expect("text").to_owned();
        let done = self.post(Some(&id), json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        assert_eq!(done.status(), StatusCode::ACCEPTED);
        id
    }
}

fn call(id: u64, name: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": CREATE_ECOSYSTEM, "arguments": ecosystem_arguments(name)}})
}

/// Reads a stream until one of its events is accepted.
async fn event<T>(response: &mut Response, wanted: impl Fn(&str) -> Option<T>) -> T {
    let mut text = String::new();
    let found = tokio::time::timeout(TEST_TIMEOUT, async {
        loop {
            let chunk = response.chunk().await.expect("the stream goes on").expect("not ended yet");
            text.push_str(&String::from_utf8_lossy(&chunk));
            if let Some(found) = text.split("\n\n").find_map(&wanted) {
                return found;
            }
        }
    });
    found.await.expect("in time")
}

fn answer(event: &str) -> Option<Value> {
    let data = event.lines().find_map(|line| line.strip_prefix("data:"))?;
    let message: Value = serde_json::from_str(data.trim()).ok()?;
    message.get("result").cloned()
}

/// Reads a stream until an event has `wanted`, and returns how many events before it had no data.
async fn count_empty_events(response: &mut Response, wanted: &str) -> usize {
    let mut text = String::new();
    let read = tokio::time::timeout(TEST_TIMEOUT, async {
        while !text.contains(wanted) {
            let chunk = response.chunk().await.expect("the stream goes on").expect("not ended yet");
            text.push_str(&String::from_utf8_lossy(&chunk));
        }
    });
    read.await.expect("in time");
    let has_data =
        |event: &&str| event.lines().any(|line| line.strip_prefix("data:").is_some_and(|data| !data.trim().is_empty()));
    let events =
        text.split("\n\n").filter(|event| event.lines().any(|line| !line.starts_with(':') && !line.is_empty()));
    events.filter(|event| !has_data(event)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_versions_that_know_events_without_data_get_them() {
    let world = start_network(network_config(200)).await;
    for (version, expects_empty) in [("2025-03-26", false), ("2025-06-18", false), ("2025-11-25", true)] {
        let http = RawMcpClient::of_version(&world, version);
        let opened = count_empty_events(&mut http.initialize().await, "protocolVersion").await;
        assert_eq!(opened, 0, "{version}: the answer of initialize");
        let session = http.session().await;
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "prompts/list"});
        let listed = count_empty_events(&mut http.post(Some(&session), list).await, "\"result\"").await;
        assert_eq!(listed > 0, expects_empty, "{version}: the answer of a request");
        let mut stream = http.request(reqwest::Method::GET, Some(&session)).send().await.expect("a stream");
        let uri = json!({"uri": "svc://own/transactions"});
        let subscribe = json!({"jsonrpc": "2.0", "id": 2, "method": "resources/subscribe", "params": uri});
        assert_eq!(
            count_empty_events(&mut http.post(Some(&session), subscribe).await, "\"result\"").await > 0,
            expects_empty
        );
        world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments(format!("v{version}"))).await;
        let notified = count_empty_events(&mut stream, "notifications/resources/updated").await;
        assert_eq!(notified > 0, expects_empty, "{version}: the stream of the session");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_stream_has_the_answer_of_an_interrupted_call() {
    let world = start_network(network_config(1_000)).await;
    let http = RawMcpClient::new(&world);
    let session = http.session().await;
    let mut stream = http.post(Some(&session), call(1, "lost")).await;
    let id = event(&mut stream, |event| {
        event.lines().find_map(|line| line.strip_prefix("id:")).map(|id| id.trim().to_owned())
    })
    .await;
    drop(stream);
    world.wait_until("the write is in a block", async || world.operator_txs_in_blocks() == 1).await;
    let resumed = http.request(reqwest::Method::GET, Some(&session)).header("last-event-id", &id);
    let mut resumed = resumed.send().await.expect("an answer");
    let result = event(&mut resumed, answer).await;
    assert_eq!(result["structuredContent"]["code"], 0, "{result:#}");
    assert_eq!(world.operator_txs_in_blocks(), 1, "written once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_id_in_use_is_refused_until_its_request_has_ended() {
    let world = start_network(network_config(1_000)).await;
    let http = RawMcpClient::new(&world);
    let session = http.session().await;
    let mut first = http.post(Some(&session), call(7, "first")).await;
    let second = http.post(Some(&session), call(7, "second")).await;
    assert_eq!(second.status(), StatusCode::BAD_REQUEST);
    let body: Value = second.json().await.expect("JSON");
    assert!(body["error"]["message"].as_str().is_some_and(|text| text.contains("7 is in use")), "{body}");
    event(&mut first, answer).await;
    drop(first);
    world
        .wait_until("it is free again", async || {
            let mut third = http.post(Some(&session), call(7, "third")).await;
            third.status() == StatusCode::OK && event(&mut third, answer).await["structuredContent"]["code"] == 0
        })
        .await;
    assert_eq!(world.operator_txs_in_blocks(), 2);
    // A lost connection does not free the id of a running request.
    drop(http.post(Some(&session), call(8, "fourth")).await);
    let replayed = http.post(Some(&session), call(8, "fifth")).await;
    assert_eq!(replayed.status(), StatusCode::BAD_REQUEST);
    world.wait_until("it is written once", async || world.operator_txs_in_blocks() == 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_limited_and_end_when_idle() {
    let mut config = network_config(100);
    config.sessions = SessionLimits { max_sessions: 2, idle_timeout: Duration::from_secs(2) };
    let world = start_network(config).await;
    let http = RawMcpClient::new(&world);
    // A session with an open stream does not end.
    let first = http.session().await;
    let listening = http.request(reqwest::Method::GET, Some(&first)).send().await.expect("a stream");
    let second = http.session().await;
    let also_listening = http.request(reqwest::Method::GET, Some(&second)).send().await.expect("a stream");
    assert_eq!([listening.status(), also_listening.status()], [StatusCode::OK; 2]);
    let full = http.initialize().await;
    assert_eq!(full.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(full.headers().contains_key("retry-after"));
    let body: Value = full.json().await.expect("JSON");
    assert!(body["error"]["message"].as_str().is_some_and(|text| text.contains("MCP_MAX_SESSIONS")), "{body}");
    drop(also_listening);
    world.wait_until("the idle one makes room", async || http.initialize().await.status() == StatusCode::OK).await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    assert_eq!(http.post(Some(&first), list.clone()).await.status(), StatusCode::OK, "still there");
    drop(listening);
    world
        .wait_until("it ends once nobody listens", async || {
            http.post(Some(&first), json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await.status()
                == StatusCode::NOT_FOUND
                || {
                    tokio::time::sleep(Duration::from_secs(3)).await;
                    false
                }
        })
        .await;
    // Requests without a session do not count.
    assert!(world.tool_names().await.len() > 50);
}
