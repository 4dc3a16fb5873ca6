//! Calls of ten clients while strangers hold 20,000 idle sockets and 2,000 half requests, beside the same calls without them.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use serde_json::{Map, json};
use svc::{
    listener::ListenerConfig,
    mcp::{HttpServer, HttpServerConfig, SessionLimits, ToolNames, ToolSelection, ToolServer},
    mcp_client::McpClient,
    network::{LocalNetwork, LocalNetworkConfig},
    principals::PrincipalDirectory,
};
use svc_operator::{Operator, OperatorConfig};
use svc_wire::{account_key::AccountKey, secret::SecretString};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpSocket, TcpStream},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::BenchRow;

const CLIENTS: usize = 10;
const SOCKETS: usize = 22_000;
const QUIET_CALLS: usize = 2_000;
const ATTACKERS: usize = 20;
/// Sockets that are held at once: the process may have 20,000 files, and has both ends of each.
const HELD: usize = 6_000;

/// The 99th percentile of the calls, under attack and before it.
pub async fn rows() -> Vec<BenchRow> {
    let network = LocalNetwork::launch(LocalNetworkConfig::default()).await.expect("starts");
    let (server, token) = serve(&network).await;
    let url = format!("http://{}/mcp", server.address);
    let quiet = calls(&url, &token, |done| done >= QUIET_CALLS / CLIENTS).await;
    let over = CancellationToken::new();
    let attacked = over.clone();
    let (under, ()) = tokio::join!(calls(&url, &token, move |_| attacked.is_cancelled()), attack(server.address, over));
    let (quiet, under) = (percentile(quiet), percentile(under));
    vec![BenchRow::new(
        "99th percentile of a call of ten clients, each over a new connection, under 20,000 idle sockets and 2,000 half requests",
        format!("{:.1} ms", under * 1e3),
        format!("{:.1} ms, without them", quiet * 1e3),
        under / quiet,
    )]
}

/// A tool server with the limits of the default configuration.
async fn serve(network: &LocalNetwork) -> (HttpServer, String) {
    let account = &network.devnet.accounts[&network.operator_slot.operator_name];
    let key = AccountKey::from_mnemonic(&account.mnemonic).expect("a key");
    let (node, indexer) = (network.devnet.node.origin(), network.indexer_origin());
    let config = OperatorConfig::new(network.operator_slot.corporation_id, node, indexer);
    let operator = Operator::boot(config, key).await.expect("boots");
    let server = ToolServer::start(operator, &ToolSelection::default()).expect("a tool server");
    let token = "0123456789abcdef0123456789abcdef".to_owned();
    let bearer = SecretString::new(token.clone());
    let config = HttpServerConfig {
        principals: PrincipalDirectory::open(&bearer, None, ToolNames::load().expect("tables")).expect("no file"),
        oauth: None,
        peers: None,
        allowed_hosts: Vec::new(),
        sessions: SessionLimits::default(),
        listener: ListenerConfig::default(),
    };
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let socket = svc::listener::bind_listener(any_port).expect("a port");
    (HttpServer::start(socket, server, config).expect("serves"), token)
}

/// Seconds of the calls of all clients, until each has enough.
async fn calls(url: &str, token: &str, is_enough: impl Fn(usize) -> bool + Clone + Send + 'static) -> Vec<f64> {
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (url, token, is_enough) = (url.to_owned(), token.to_owned(), is_enough.clone());
        clients.spawn(async move {
            let mut took = Vec::new();
            while !is_enough(took.len()) {
                let client = McpClient::connect(&url, &token).await.expect("connects");
                let arguments: Map<_, _> = [("id".to_owned(), json!("1"))].into_iter().collect();
                let begun = Instant::now();
                client.call_tool("svc.idx.co.getCorporation", arguments).await.expect("an answer");
                took.push(begun.elapsed().as_secs_f64());
                client.close().await;
            }
            took
        });
    }
    clients.join_all().await.into_iter().flatten().collect()
}

async fn attack(server: SocketAddr, over: CancellationToken) {
    let mut held = Vec::new();
    for number in 0..SOCKETS {
        let Some(mut stream) = connect_from(number, server).await else { continue };
        if number % 11 == 0 {
            let head = format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\nx: {}", "x".repeat(20_000));
            let _ = timeout(Duration::from_secs(1), stream.write_all(head.as_bytes())).await;
        }
        held.push(stream);
        if held.len() > HELD {
            held.drain(..HELD / 4);
        }
    }
    over.cancel();
}

async fn connect_from(attacker: usize, server: SocketAddr) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().ok()?;
    let last = u8::try_from(attacker % ATTACKERS).ok()? + 2;
    socket.bind((Ipv4Addr::new(127, 0, 0, last), 0).into()).ok()?;
    timeout(Duration::from_secs(5), socket.connect(server)).await.ok()?.ok()
}

fn percentile(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() * 99 / 100]
}
