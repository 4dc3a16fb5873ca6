//! Attacks of clients without a token on a server process: it stays reachable, its memory is bounded, and its own clients notice nothing.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};
use svc::mcp_client::McpClient;
use svc_test_support::ports::free_address;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::e2e::{
    callers::secrets::{SERVER_PROGRAM, ServerChild, spawn_server},
    harness::{TEST_TIMEOUT, TestNetwork, call_tool, network_config, start_network},
};

/// Addresses of the attackers, beside that of the clients.
const ATTACKERS: u8 = 20;
const CLIENTS: usize = 10;

async fn start_server(world: &TestNetwork, settings: &[(&'static str, &'static str)]) -> ServerChild {
    let (rpc, indexer) = (world.network.devnet.node.origin(), world.network.indexer_origin());
    let settings = settings.to_vec();
    tokio::task::spawn_blocking(move || spawn_server(&rpc, &indexer, &settings)).await.expect("joins")
}

fn address_of(server: &ServerChild) -> SocketAddr {
    let url: url::Url = server.url.parse().expect("a URL");
    SocketAddr::from((Ipv4Addr::LOCALHOST, url.port().expect("a port")))
}

/// A connection from one of the attackers' addresses.
async fn connect_from(attacker: usize, server: SocketAddr) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().ok()?;
    let last = u8::try_from(attacker % usize::from(ATTACKERS)).expect("small") + 2;
    socket.bind((Ipv4Addr::new(127, 0, 0, last), 0).into()).ok()?;
    timeout(TEST_TIMEOUT, socket.connect(server)).await.ok()?.ok()
}

/// Resident memory in MiB, and the number of open files.
fn usage_of(server: &ServerChild) -> (u64, usize) {
    let process = format!("/proc/{}", server.child.id());
    let status = std::fs::read_to_string(format!("{process}/status")).expect("it runs");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    let kib: u64 = resident.trim().trim_end_matches(" kB").parse().expect("a number");
    (kib / 1024, std::fs::read_dir(format!("{process}/fd")).expect("it runs").count())
}

/// Clients that call a tool, each over connections of its own, until the attack is over. Returns the number of calls.
async fn work(server: &ServerChild, over: CancellationToken) -> usize {
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (url, token, over) = (server.url.clone(), server.token().to_owned(), over.clone());
        clients.spawn(async move {
            let mut calls = 0;
            while !over.is_cancelled() || calls < 3 {
                let client = McpClient::connect(&url, &token).await.expect("a client with its token connects");
                let answer = call_tool(&client, "svc.idx.co.getCorporation", json!({"id": "1"})).await;
                assert!(!answer.is_error, "{:#}", answer.content);
                client.close().await;
                calls += 1;
            }
            calls
        });
    }
    clients.join_all().await.into_iter().sum()
}

async fn metric(server: &ServerChild, name: &str) -> String {
    let url = server.url.replace("/mcp", "/metrics");
    let text = reqwest::get(url).await.expect("an answer").text().await.expect("text");
    text.lines().filter(|line| line.starts_with(name)).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_sockets_and_half_requests_keep_no_client_out() {
    let world = start_network(network_config(500)).await;
    let server = start_server(&world, &[]).await;
    let address = address_of(&server);
    let (before, _) = usage_of(&server);
    let over = CancellationToken::new();
    let attack = async {
        // Of 20,000 idle sockets and 2,000 half requests, so many are open at once as this process may have files.
        let mut held = Vec::new();
        for number in 0..22_000_usize {
            let Some(mut stream) = connect_from(number, address).await else { continue };
            if number % 11 == 0 {
                let head = format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\nx: {}", "x".repeat(20_000));
                let _ = timeout(Duration::from_secs(5), stream.write_all(head.as_bytes())).await;
            }
            held.push(stream);
            if held.len() > 4_000 {
                // The oldest were given up by the server long ago.
                held.drain(..1_000);
            }
        }
        let usage = usage_of(&server);
        over.cancel();
        drop(held);
        usage
    };
    let (calls, (memory, files)) = tokio::join!(work(&server, over.clone()), attack);
    assert!(calls >= CLIENTS * 3, "{calls}");
    assert!(files < 1_500, "{files} open files: connections have a limit");
    assert!(memory < before + 128, "{before} MiB before, {memory} MiB under attack");
    let refused = metric(&server, "svc_http_refused_total").await;
    assert!(refused.contains("reason=\"replaced\""), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gigabyte_of_unfinished_bodies_is_neither_kept_nor_waited_for() {
    let world = start_network(network_config(500)).await;
    // The limits are the usual ones: the clients run beside the attackers, and each has its time on a busy machine too.
    let server = start_server(&world, &[]).await;
    let address = address_of(&server);
    let (before, _) = usage_of(&server);
    let token = server.token().to_owned();
    let (over, mut bodies) = (CancellationToken::new(), JoinSet::new());
    // 1,024 bodies of 1 MiB less a byte; every second one comes with the right token, and its connection is never replaced.
    for number in 0..1_024_usize {
        let token = if number % 2 == 0 { token.clone() } else { "wrong".repeat(8) };
        bodies.spawn(async move {
            let Some(mut stream) = connect_from(number, address).await else { return };
            let head = format!(
                "POST /mcp HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n\
                 accept: application/json, text/event-stream\r\ncontent-length: 1048576\r\n\r\n"
            );
            let _ = stream.write_all(head.as_bytes()).await;
            let part = vec![b' '; 65_536];
            for _ in 0..15 {
                if stream.write_all(&part).await.is_err() {
                    return;
                }
            }
            // The server ends it.
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
        });
    }
    let attack = async {
        timeout(TEST_TIMEOUT * 20, async { while bodies.join_next().await.is_some() {} })
            .await
            .expect("each is given up");
        over.cancel();
    };
    let (calls, ()) = tokio::join!(work(&server, over.clone()), attack);
    assert!(calls >= CLIENTS * 3);
    // Bodies with the right token are read, at most as many as there are connections.
    let (memory, _) = usage_of(&server);
    assert!(memory < before + 1_024, "{before} MiB before, {memory} MiB after");
    assert!(metric(&server, "svc_http_refused_total").await.contains("reason=\"body_timeout\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_tokens_are_counted_and_slow_no_right_one() {
    let world = start_network(network_config(500)).await;
    let server = Arc::new(start_server(&world, &[]).await);
    let address = address_of(&server);
    let (over, mut guessers) = (CancellationToken::new(), JoinSet::new());
    // The guessers have the address of the clients too.
    for guesser in 0..100_usize {
        let host = address;
        guessers.spawn(async move {
            let mut refused = 0;
            for number in 0..100 {
                let stream = if guesser % 2 == 0 { TcpStream::connect(host).await.ok() } else { connect_from(guesser, host).await };
                let Some(mut stream) = stream else { continue };
                let request = format!(
                    "GET /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer guess-{guesser}-{number}-guess-guess\r\n\r\n"
                );
                if stream.write_all(request.as_bytes()).await.is_err() {
                    continue;
                }
                let mut answer = Vec::new();
                // A guesser does not wait for a delayed refusal.
                let read = timeout(Duration::from_millis(50), stream.read_to_end(&mut answer)).await;
                let is_refused = read.is_err() || answer.is_empty() || answer.starts_with(b"HTTP/1.1 401");
                assert!(is_refused, "{}", String::from_utf8_lossy(&answer));
                refused += 1;
            }
            refused
        });
    }
    let attack = async {
        let refused: usize = guessers.join_all().await.into_iter().sum();
        over.cancel();
        refused
    };
    let (calls, refused) = tokio::join!(work(&server, over.clone()), attack);
    assert!(calls >= CLIENTS * 3 && refused > 9_000, "{calls} calls, {refused} guesses");
    let counted = metric(&server, "svc_http_refused_total{listener=\"mcp\",reason=\"token\"").await;
    let count: f64 = counted.rsplit(' ').next().and_then(|number| number.parse().ok()).expect("a number");
    assert!(count >= 1_000.0, "{counted}");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_name_two_hosts_and_metrics_of_another_host_are_refused() {
    let world = start_network(network_config(500)).await;
    let server = start_server(&world, &[]).await;
    let address = address_of(&server);
    let status = async |request: &str| -> u16 {
        let mut stream = TcpStream::connect(address).await.expect("connects");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = vec![0; 12];
        timeout(TEST_TIMEOUT, stream.read_exact(&mut answer)).await.expect("in time").expect("an answer");
        String::from_utf8_lossy(&answer)[9..].parse().expect("a status")
    };
    for (request, expected) in [
        ("GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n", 200),
        ("GET /metrics HTTP/1.1\r\nhost: 127.0.0.1:1\r\n\r\n", 200),
        ("GET /metrics HTTP/1.1\r\nhost: rebound.example\r\n\r\n", 403),
        ("GET /metrics HTTP/1.1\r\nhost: localhost\r\nhost: rebound.example\r\n\r\n", 400),
        ("GET http://rebound.example/metrics HTTP/1.1\r\nhost: localhost\r\n\r\n", 400),
        ("GET http://rebound.example/metrics HTTP/1.1\r\nhost: rebound.example\r\n\r\n", 403),
        (
            "GET /mcp HTTP/1.1\r\nhost: localhost\r\norigin: http://localhost\r\norigin: http://evil.example\r\n\r\n",
            400,
        ),
        ("GET /healthz HTTP/1.1\r\nhost: any.example\r\n\r\n", 200),
        ("GET /healthz HTTP/1.0\r\n\r\n", 200),
    ] {
        assert_eq!(status(request).await, expected, "{request:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_have_an_address_of_their_own_and_every_client_speaks_tls() {
    let world = start_network(network_config(500)).await;
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let home = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: String| {
        let path = home.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("text").to_owned()
    };
    let (certificate, key) = (write("cert.pem", made.cert.pem()), write("key.pem", made.signing_key.serialize_pem()));
    let metrics = free_address().to_string();
    let (rpc, indexer) = (world.network.devnet.node.origin(), world.network.indexer_origin());
    let (bind, trusted) = (metrics.clone(), certificate.clone());
    let served = tokio::task::spawn_blocking(move || {
        let settings = [("SVC_TLS_CERT", &*certificate), ("SVC_TLS_KEY", &key), ("SVC_METRICS_BIND", &bind)];
        spawn_server(&rpc, &indexer, &settings)
    });
    let server = served.await.expect("joins");
    let root = reqwest::Certificate::from_pem(made.cert.pem().as_bytes()).expect("a certificate");
    let client = reqwest::Client::builder().tls_certs_only([root]).build().expect("a client");
    let origin = format!("https://localhost:{}", address_of(&server).port());
    let get = async |url: String| client.get(url).send().await.expect("an answer");
    assert_eq!(get(format!("{origin}/healthz")).await.status(), 200);
    assert_eq!(get(format!("{origin}/metrics")).await.status(), 401, "it has an address of its own");
    let metrics = get(format!("https://localhost:{}/metrics", metrics.rsplit(':').next().expect("a port"))).await;
    assert!(metrics.text().await.expect("text").contains("svc_http_connections"));
    let info = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info});
    let message: Value = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let request = client.post(format!("{origin}/mcp")).bearer_auth(server.token()).json(&message);
    let opened = request.header("accept", "application/json, text/event-stream").send().await.expect("an answer");
    assert_eq!(opened.status(), 200);
    // A command trusts the certificates of the machine, and no others.
    let stranger = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let stranger = write("stranger.pem", stranger.cert.pem());
    let call = async |certificates: &str| {
        let output = tokio::process::Command::new(SERVER_PROGRAM)
            .args(["call", "svc.wallet.getStatus", "--url", &format!("{origin}/mcp")])
            .env_remove("SSL_CERT_DIR")
            .envs([("SSL_CERT_FILE", certificates), ("MCP_BEARER_TOKEN", server.token())])
            .output();
        let output = output.await.expect("it runs");
        (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let (is_answered, text) = call(&trusted).await;
    assert!(is_answered, "{text}");
    let (is_answered, text) = call(&stranger).await;
    assert!(!is_answered && text.to_lowercase().contains("certificate"), "{text}");
}
