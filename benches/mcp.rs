//! The tool server's own cost: a read through it beside the same read made directly, beside a tool that does nothing, and
//! beside servers that the official SDKs for TypeScript and Python make of the same read. The indexer answers that one read
//! from memory, so that the servers are compared and not its database; one row has the database in it.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    serve::ListenerExt,
};
use futures::StreamExt;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ServerCapabilities, ServerConfig},
    service::RequestContext,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use serde_json::{Value, json};
use svc::{
    listener::ListenerConfig,
    mcp::{HttpServer, HttpServerConfig, SessionLimits, ToolNames, ToolSelection, ToolServer},
    network::{LocalNetwork, LocalNetworkConfig},
    principals::PrincipalDirectory,
};
use svc_devnet::DevnetConfig;
use svc_net::{host_policy::HostPolicy, websocket::server as websocket_server};
use svc_operator::{Operator, OperatorConfig};
use svc_wire::{account_key::AccountKey, secret::SecretString};

use super::{BenchRow, median, resident_bytes, subscription::MARKETPLACE_SCENARIO};

/// Calls of one round at one worker, and at many.
const SINGLE_CALLS: usize = 1_000;
const PARALLEL_CALLS: usize = 4_000;
const WORKERS: usize = 16;
const ROUNDS: usize = 5;
/// Sessions whose memory is measured.
const SESSIONS: usize = 1_000;

/// A server under load, and the request that it gets.
struct LoadTarget {
    url: String,
    bearer: String,
    body: Value,
    is_mcp: bool,
}

/// One client with a session of its own.
struct LoadWorker {
    client: reqwest::Client,
    session: Option<String>,
}

impl LoadTarget {
    async fn worker(&self) -> LoadWorker {
        let client = reqwest::Client::builder().tcp_nodelay(true).build().expect("a client");
        let mut worker = LoadWorker { client, session: None };
        if self.is_mcp {
            let info = json!({"name": "bench", "version": "1"});
            let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
            let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
            let response = self.request(&worker, &body).send().await.expect("an answer");
            worker.session = Some(response.headers()["mcp-session-id"].to_str().expect("text").to_owned());
            response.bytes().await.expect("a body");
            let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
            self.request(&worker, &done).send().await.expect("an answer");
        }
        worker
    }

    fn request(&self, worker: &LoadWorker, body: &Value) -> reqwest::RequestBuilder {
        if !self.is_mcp {
            return worker.client.get(&self.url);
        }
        let request = worker
            .client
            .post(&self.url)
            .bearer_auth(&self.bearer)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(body.to_string());
        match &worker.session {
            Some(id) => request.header("mcp-session-id", id).header("mcp-protocol-version", "2025-11-25"),
            None => request,
        }
    }

    /// Seconds of each call, one after the other.
    async fn calls(&self, worker: &LoadWorker, count: usize) -> Vec<f64> {
        let mut took = Vec::with_capacity(count);
        let mut body = self.body.clone();
        for number in 0..count {
            body["id"] = number.into();
            let begun = Instant::now();
            let response = self.request(worker, &body).send().await.expect("an answer");
            assert!(response.status().is_success(), "{}: {}", self.url, response.status());
            let bytes = response.bytes().await.expect("a body");
            took.push(begun.elapsed().as_secs_f64());
            assert!(!self.is_mcp || !contains(&bytes, b"\"isError\":true"), "{}", String::from_utf8_lossy(&bytes));
        }
        took
    }

    /// Median milliseconds of a call alone, and calls a second of many workers.
    async fn measure(&self) -> (f64, f64) {
        let worker = self.worker().await;
        self.calls(&worker, SINGLE_CALLS / 10).await;
        let alone = median(self.calls(&worker, SINGLE_CALLS).await) * 1_000.0;
        let workers = futures::future::join_all((0..WORKERS).map(|_| self.worker())).await;
        let begun = Instant::now();
        futures::future::join_all(workers.iter().map(|worker| self.calls(worker, PARALLEL_CALLS / WORKERS))).await;
        (alone, PARALLEL_CALLS as f64 / begun.elapsed().as_secs_f64())
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// A server of the same library with one tool that always answers with the same value.
#[derive(Clone)]
struct EchoServer(Arc<Value>);

impl ServerHandler for EchoServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let content = (*self.0).clone();
        let text = ContentBlock::text(content.to_string());
        let mut result = CallToolResult::structured(content);
        result.content = vec![ContentBlock::text("echo"), text];
        Ok(result.into())
    }
}

async fn serve_echo(answer: Value) -> String {
    let echo = EchoServer(Arc::new(answer));
    let service = StreamableHttpService::new(
        move || Ok(echo.clone()),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    format!("{}/mcp", serve(Router::new().route_service("/mcp", service)).await)
}

/// A tool server over an indexer of its own choice.
async fn serve_tool_server(network: &LocalNetwork, indexer: &str, sessions: SessionLimits) -> String {
    let config = OperatorConfig {
        hosts: HostPolicy::AllowPrivate,
        ..OperatorConfig::new(network.operator_slot.corporation_id, network.devnet.node.origin(), indexer.to_owned())
    };
    let account = &network.devnet.accounts[&network.operator_slot.operator_name];
    let key = AccountKey::from_mnemonic(&account.mnemonic).expect("a key");
    let operator = Operator::boot(config, key).await.expect("boots");
    let front = ToolServer::start(operator, &ToolSelection::default()).expect("a front");
    let bearer = SecretString::new(network.bearer_token.clone());
    let http = HttpServerConfig {
        principals: PrincipalDirectory::open(&bearer, None, ToolNames::load().expect("tables")).expect("no file"),
        oauth: None,
        peers: None,
        allowed_hosts: Vec::new(),
        sessions,
        listener: ListenerConfig::for_local_network(),
    };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("set");
    let server = HttpServer::start(listener, front, http).expect("serves");
    format!("http://{}/mcp", server.address)
}

/// A peer's process.
struct PeerServer {
    process: Child,
    url: String,
}

impl PeerServer {
    fn start(command: &mut Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("starts");
        let mut first = String::new();
        BufReader::new(process.stdout.take().expect("its output")).read_line(&mut first).expect("a line");
        let url = first.trim().rsplit(' ').next().expect("a URL").to_owned();
        Self { process, url }
    }

    fn typescript(indexer: &str) -> Self {
        let root = env!("CARGO_MANIFEST_DIR");
        // Packages are found beside the file.
        let script = format!("{root}/target/interop/proxy.mjs");
        std::fs::copy(format!("{root}/benches/peers/proxy.mjs"), &script).expect("copied");
        Self::start(Command::new("node").args([&script, "0", indexer]))
    }

    fn python(indexer: &str) -> Self {
        let root = env!("CARGO_MANIFEST_DIR");
        let script = format!("{root}/benches/peers/proxy.py");
        Self::start(Command::new(format!("{root}/target/interop/venv/bin/python")).args([&script, "0", indexer]))
    }
}

impl Drop for PeerServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// An indexer that has the answer to one read in memory, and passes everything else on.
#[derive(Clone)]
struct CachedIndexer {
    indexer: String,
    path: &'static str,
    answer: Bytes,
}

async fn answer_from_cache(State(quick): State<CachedIndexer>, mut request: Request) -> Response {
    let json = [(header::CONTENT_TYPE, "application/json")];
    if request.uri().path() == quick.path {
        return (json, quick.answer).into_response();
    }
    let whole = request.uri().path_and_query().map_or_else(String::new, ToString::to_string);
    if websocket_server::is_upgrade(request.headers()) {
        let url = format!("{}{whole}", quick.indexer.replacen("http", "ws", 1));
        let pump = move |socket: websocket_server::ServerSocket| async move {
            // The last tool server outlives the indexer.
            let Ok((upstream, _)) = tokio_tungstenite::connect_async(url).await else { return };
            let ((down, from_client), (up, from_indexer)) = (socket.split(), upstream.split());
            tokio::select! { _ = from_indexer.forward(down) => {}, _ = from_client.forward(up) => {} }
        };
        return websocket_server::accept(&mut request, 1 << 20, pump).map(Body::from);
    }
    let Ok(response) = reqwest::get(format!("{}{whole}", quick.indexer)).await else {
        return StatusCode::BAD_GATEWAY.into_response();
    };
    let status = StatusCode::from_u16(response.status().as_u16()).expect("a status");
    match response.bytes().await {
        Ok(body) => (status, json, body).into_response(),
        Err(_) => StatusCode::BAD_GATEWAY.into_response(),
    }
}

async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

pub async fn rows() -> Vec<BenchRow> {
    const PATH: &str = "/v4/ecosystem/get/1";
    let devnet =
        DevnetConfig { scenario: MARKETPLACE_SCENARIO.to_owned(), block_time: None, ..DevnetConfig::default() };
    let sessions = SessionLimits { max_sessions: 10 * SESSIONS, ..SessionLimits::default() };
    let config = LocalNetworkConfig { devnet, sessions, ..LocalNetworkConfig::default() };
    let network = LocalNetwork::launch(config).await.expect("starts");
    let stored = format!("{}{PATH}", network.indexer_origin());
    let body = reqwest::get(&stored).await.expect("an answer").bytes().await.expect("a body");
    let answer: Value = serde_json::from_slice(&body).expect("JSON");
    let in_memory = CachedIndexer { indexer: network.indexer_origin(), path: PATH, answer: body };
    let indexer = serve(Router::new().fallback(answer_from_cache).with_state(in_memory)).await;
    let direct = format!("{indexer}{PATH}");
    let ours = serve_tool_server(&network, &indexer, sessions).await;
    let call = |name: &str| {
        let params = json!({"name": name, "arguments": {"id": 1}});
        json!({"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": params})
    };
    let target =
        |url: String, body: Value, is_mcp: bool| LoadTarget { url, bearer: network.bearer_token.clone(), body, is_mcp };
    let (typescript, python) = (PeerServer::typescript(&indexer), PeerServer::python(&indexer));
    let list = json!({"jsonrpc": "2.0", "id": 0, "method": "tools/list"});
    let targets = [
        target(direct, Value::Null, false),
        target(ours.clone(), call("svc.idx.es.getEcosystem"), true),
        target(serve_echo(answer).await, call("echo"), true),
        target(typescript.url.clone(), call("getEcosystem"), true),
        target(python.url.clone(), call("getEcosystem"), true),
        target(ours, list, true),
        target(stored, Value::Null, false),
        target(network.mcp_url(), call("svc.idx.es.getEcosystem"), true),
    ];
    let mut figures = vec![(Vec::new(), Vec::new()); targets.len()];
    // In alternation, so that a busy moment of the machine meets all of them.
    for _ in 0..ROUNDS {
        for (target, (alone, together)) in targets.iter().zip(&mut figures) {
            let (milliseconds, rate) = target.measure().await;
            alone.push(milliseconds);
            together.push(rate);
        }
    }
    let figures: Vec<(f64, f64)> =
        figures.into_iter().map(|(alone, together)| (median(alone), median(together))).collect();
    let [direct, ours, echo, typescript, python, list, stored, through] = figures[..] else {
        unreachable!("eight targets")
    };
    let latency = |what: &str, other: (f64, f64)| BenchRow {
        measure: format!("a read through the tool server, alone, beside {what}"),
        value: format!("{:.2} ms", ours.0),
        baseline: format!("{:.2} ms", other.0),
        ratio: ours.0 / other.0,
    };
    let rate = |what: &str, other: (f64, f64)| BenchRow {
        measure: format!("reads a second through the tool server, {WORKERS} sessions, beside {what}"),
        value: format!("{:.0}/s", ours.1),
        baseline: format!("{:.0}/s", other.1),
        ratio: ours.1 / other.1,
    };
    let mut rows = vec![
        latency("the same GET", direct),
        latency("an echo tool of the same library", echo),
        rate("the same GET", direct),
        rate("an echo tool of the same library", echo),
        rate("the TypeScript SDK", typescript),
        rate("the Python SDK", python),
        BenchRow {
            measure: format!("tools/list of a page of 100 a second, {WORKERS} sessions, beside a read"),
            value: format!("{:.0}/s", list.1),
            baseline: format!("{:.0}/s", ours.1),
            ratio: list.1 / ours.1,
        },
    ];
    rows.push(BenchRow {
        measure: "a read of the indexer's database through the tool server, alone, beside the same GET".to_owned(),
        value: format!("{:.2} ms", through.0),
        baseline: format!("{:.2} ms", stored.0),
        ratio: through.0 / stored.0,
    });
    rows.push(measure_session_memory(&targets[1], &targets[2]).await);
    drop(network);
    rows
}

/// Resident memory of a thousand open sessions, beside those of the echo server.
async fn measure_session_memory(ours: &LoadTarget, echo: &LoadTarget) -> BenchRow {
    let mut per_session = Vec::new();
    for target in [ours, echo] {
        let before = resident_bytes("self");
        let mut held = Vec::with_capacity(SESSIONS);
        for _ in 0..SESSIONS {
            held.push(target.worker().await.session);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        per_session.push((resident_bytes("self").saturating_sub(before)) as f64 / SESSIONS as f64 / 1024.0);
    }
    BenchRow {
        measure: format!("memory of an open session, {SESSIONS} of them, beside an echo server"),
        value: format!("{:.0} KiB", per_session[0]),
        baseline: format!("{:.0} KiB", per_session[1]),
        ratio: per_session[0] / per_session[1],
    }
}
