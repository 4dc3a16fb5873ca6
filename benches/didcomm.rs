//! Messages of peers: opening with every check beside the bare decryption, stored messages beside durable commits of the same rows, and
//! the memory of idle sockets.

use std::{net::SocketAddr, path::Path, time::Duration};

use affinidi_crypto::jose::key_agreement::{PrivateKeyAgreement, PublicKeyAgreement};
use affinidi_messaging_didcomm::jwe::decrypt::{SenderKey, decrypt_bound};
use futures::{StreamExt, stream::FuturesUnordered};
use serde_json::json;
use sqlx::{
    AssertSqlSafe,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous},
};
use svc::{
    admin::{PublicApi, public_router},
    listener::{self, ListenerConfig, bind_listener},
};
use svc_agent::{Agent, BasicMessageFilter, MessageRole, PeerAdmission, PeerSettings, PublicLocation};
use svc_didcomm::{
    Message,
    envelope::{Envelope, KeyAgreementKey, seal},
    peer_did,
    protocol::basic_message::BasicMessage,
};
use svc_kit::wall_clock;
use svc_net::host_policy::HostPolicy;
use svc_wire::verification_method::{KeyKind, KeyRelation, method_key, methods_of, multikey};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{BenchRow, agent::launch_at, median, resident_bytes};

const ENVELOPES: usize = 2_000;
const MESSAGES: usize = 200;
/// Rounds of messages and commits, in turns: the disk of one second is not that of the next.
const ROUNDS: usize = 7;
const SOCKETS: usize = 2_000;
const QUIET_PEERS: u8 = 10;
const QUIET_MESSAGES: usize = 100;
/// A second has a thousand.
const LOUD_MESSAGES: usize = 10_000;
const NOW: i64 = 1_800_000_000;

pub async fn rows() -> Vec<BenchRow> {
    let (checked, bare) = measure_opening();
    let (stored, committed) = measure_messages().await;
    let (alone, flooded) = measure_neighbours().await;
    let (ours, theirs, sessions) = measure_sockets().await;
    vec![
        BenchRow::new(
            "opening an envelope with every check (floor: its decryption)",
            format!("{checked:.0}/s"),
            format!("{bare:.0}/s"),
            checked / bare,
        ),
        BenchRow::new(
            "messages of one agent stored by another (floor: durable commits of the same rows)",
            format!("{stored:.0}/s"),
            format!("{committed:.0}/s"),
            stored / committed,
        ),
        BenchRow::new(
            "p99 of ten peers beside one that sends 1,000 messages a second (floor: without it)",
            format!("{flooded:.1} ms"),
            format!("{alone:.1} ms"),
            flooded / alone,
        ),
        BenchRow::new(
            "memory of an idle accepted WebSocket (floor: one of the same library)",
            format!("{ours:.1} KiB"),
            format!("{theirs:.1} KiB"),
            ours / theirs,
        ),
        BenchRow::new("actors of a peer without work, after its session", format!("{sessions}"), "0".to_owned(), 1.0),
    ]
}

/// Envelopes a second: opened with every check, and decrypted by the library alone.
fn measure_opening() -> (f64, f64) {
    let (ours, theirs) = ("did:web:ours.example", "did:web:theirs.example");
    let [own, their] = [1, 2].map(|byte| KeyAgreementKey::from_bytes(&[byte; 32]));
    let method =
        json!({"id": "#ka", "type": "Multikey", "publicKeyMultibase": multikey(KeyKind::X25519, &their.public_key())});
    let document = json!({"id": theirs, "verificationMethod": [method], "keyAgreement": ["#ka"]});
    let text = BasicMessage { content: "x".repeat(500) }.to_message("1", NOW);
    let message = Message { from: Some(theirs.into()), to: vec![ours.into()], ..text };
    let (sender, recipient) = (format!("{theirs}#ka"), format!("{ours}#ka"));
    let envelope = seal(&message, (&sender, &their), (&recipient, &own.public_key())).expect("an envelope");
    let (secret, public) = (PrivateKeyAgreement::X25519([1; 32]), PublicKeyAgreement::X25519(their.public_key()));
    let (mut checked, mut bare) = (Vec::new(), Vec::new());
    // In turns, so that both have the same machine.
    for _ in 0..10 {
        let begun = Instant::now();
        for _ in 0..ENVELOPES / 10 {
            let read = Envelope::read(envelope.as_bytes()).expect("an envelope");
            read.open(&recipient, &own, ours, Some(&document), NOW).expect("it opens");
        }
        checked.push(ENVELOPES as f64 / 10.0 / begun.elapsed().as_secs_f64());
        let begun = Instant::now();
        for _ in 0..ENVELOPES / 10 {
            decrypt_bound(&envelope, &recipient, &secret, Some(SenderKey::new(&sender, &public))).expect("it decrypts");
        }
        bare.push(ENVELOPES as f64 / 10.0 / begun.elapsed().as_secs_f64());
    }
    (median(checked), median(bare))
}

/// An agent that takes messages of every peer, and its public address. One run is not to meet the rate of a peer.
async fn start(directory: &Path) -> (Agent, SocketAddr) {
    start_with(directory, PeerSettings { rate_per_peer: 10_000, ..PeerSettings::default() }).await
}

async fn start_with(directory: &Path, settings: PeerSettings) -> (Agent, SocketAddr) {
    let socket = bind_listener(([127, 0, 0, 1], 0).into()).expect("a port");
    let address = socket.local_addr().expect("an address");
    let location = PublicLocation::parse(&format!("http://localhost:{}", address.port())).expect("a location");
    let peers = PeerSettings { admission: PeerAdmission::Any, idle: Duration::from_secs(2), ..settings };
    let agent = launch_at(directory, None, location.clone(), HostPolicy::AllowPrivate, peers).await;
    let api = PublicApi {
        keeper: agent.keeper().clone(),
        location,
        peers: agent.peers().clone(),
        access: agent.access().clone(),
    };
    let front = ListenerConfig::for_local_network();
    listener::serve("public", socket, public_router(api), &front, CancellationToken::new()).expect("served");
    (agent, address)
}

/// Envelopes of one peer for an agent, each with a message of its own.
fn envelopes(agent: &Agent, peer: u8, count: usize) -> Vec<String> {
    let key = KeyAgreementKey::from_bytes(&[peer + 1; 32]);
    let method =
        json!({"id": "#ka", "type": "Multikey", "publicKeyMultibase": multikey(KeyKind::X25519, &key.public_key())});
    let did = peer_did::encode(&json!({"verificationMethod": [method], "keyAgreement": ["#ka"]})).long;
    let published = agent.keeper().published();
    let document = published.document.as_json();
    let id = methods_of(document, KeyRelation::KeyAgreement).remove(0);
    let own = method_key(document, &id, KeyRelation::KeyAgreement, KeyKind::X25519, 0).expect("a key");
    let to = vec![published.document.did().to_owned()];
    let sealed = |number: usize| {
        let text = BasicMessage { content: "x".repeat(500) }.to_message(&number.to_string(), wall_clock::now().seconds);
        let message = Message { from: Some(did.clone()), to: to.clone(), ..text };
        seal(&message, (&format!("{did}#ka"), &key), (&id, &own)).expect("an envelope")
    };
    (0..count).map(sealed).collect()
}

/// Sends envelopes of one peer at a pace; returns the milliseconds that each took.
async fn send_paced(client: &reqwest::Client, address: SocketAddr, sent: Vec<String>, pace: Duration) -> Vec<f64> {
    let mut ticks = tokio::time::interval(pace);
    let mut requests = FuturesUnordered::new();
    for envelope in sent {
        ticks.tick().await;
        let request = client.post(format!("http://localhost:{}/", address.port()));
        let request = request.header("content-type", "application/didcomm-encrypted+json").body(envelope);
        requests.push(tokio::spawn(async move {
            let begun = Instant::now();
            request.send().await.expect("answered");
            begun.elapsed().as_secs_f64() * 1_000.0
        }));
    }
    let mut times = Vec::new();
    while let Some(time) = requests.next().await {
        times.push(time.expect("a request"));
    }
    times
}

/// The 99th percentile of the time to store a message of ten peers, in milliseconds: alone, and beside one that is loud.
async fn measure_neighbours() -> (f64, f64) {
    let directory = tempfile::tempdir().expect("a directory");
    let (agent, address) = start_with(directory.path(), PeerSettings::default()).await;
    let client = reqwest::Client::new();
    let round = async |first: u8| {
        let quiet = (0..QUIET_PEERS).map(|peer| envelopes(&agent, first + peer, QUIET_MESSAGES));
        let quiet: Vec<_> = quiet.map(|sent| send_paced(&client, address, sent, Duration::from_millis(100))).collect();
        let mut times: Vec<f64> = futures::future::join_all(quiet).await.into_iter().flatten().collect();
        times.sort_by(f64::total_cmp);
        times[times.len() * 99 / 100]
    };
    let alone = round(10).await;
    let loud = envelopes(&agent, 0, LOUD_MESSAGES);
    let flood = send_paced(&client, address, loud, Duration::from_millis(1));
    let (flooded, _) = tokio::join!(round(50), flood);
    agent.shutdown(Duration::from_secs(5)).await;
    (alone, flooded)
}

/// Waits until an agent has a number of messages of peers. It asks seldom until the last ones: its questions are no part of the measure.
async fn received(agent: &Agent, after: &mut Option<String>, count: usize) {
    let filter = BasicMessageFilter { role: Some(MessageRole::Receiver), ..BasicMessageFilter::default() };
    let mut found = 0;
    while found < count {
        let page = agent.peers().basic_messages(&filter, after.as_deref(), 500, Duration::from_secs(30)).await;
        let page = page.expect("messages");
        found += page.len();
        *after = page.last().map(|last| last.id.clone()).or(after.take());
        let missing = count.saturating_sub(found);
        tokio::time::sleep(Duration::from_millis(if missing > 20 { 20 } else { 2 })).await;
    }
}

/// Messages a second from one agent into the store of another, and the same rows in two bare databases.
async fn measure_messages() -> (f64, f64) {
    let directories = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let ((one, _), (other, _)) = tokio::join!(start(directories[0].path()), start(directories[1].path()));
    let did = other.keeper().published().document.did().to_owned();
    let connection = one.peers().open_connection(&did).await.expect("a connection");
    let id = connection.connection.id;
    let content = "x".repeat(500);
    let bare = [
        database(&directories[0].path().join("one.db")).await,
        database(&directories[0].path().join("other.db")).await,
    ];
    let mut after = None;
    one.peers().send_basic_message(&id, &content).await.expect("stored");
    received(&other, &mut after, 1).await;
    let (mut stored, mut committed) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let begun = Instant::now();
        // The sender stores its messages too.
        for _ in 0..MESSAGES {
            one.peers().send_basic_message(&id, &content).await.expect("stored");
        }
        received(&other, &mut after, MESSAGES).await;
        stored.push(MESSAGES as f64 / begun.elapsed().as_secs_f64());
        committed.push(measure_commits(&bare, round * MESSAGES, &content).await);
    }
    for agent in [one, other] {
        agent.shutdown(Duration::from_secs(5)).await;
    }
    (median(stored), median(committed))
}

async fn database(path: &Path) -> SqlitePool {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full);
    let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await.expect("opens");
    let tables = "CREATE TABLE outbox (id INTEGER PRIMARY KEY, body TEXT, state INTEGER); \
                  CREATE TABLE record (id INTEGER PRIMARY KEY, content TEXT, state TEXT); \
                  CREATE TABLE seen (sender TEXT, id TEXT, at INTEGER, PRIMARY KEY (sender, id)); \
                  CREATE TABLE numbers (one INTEGER PRIMARY KEY, a INTEGER, b INTEGER); INSERT INTO numbers VALUES (1, 0, 0);";
    sqlx::raw_sql(tables).execute(&pool).await.expect("made");
    pool
}

/// The three commits of a message, one behind the other: queued, and marked as sent, by the sender; stored by the receiver; settled.
async fn measure_commits([sender, receiver]: &[SqlitePool; 2], first: usize, content: &str) -> f64 {
    let begun = Instant::now();
    for number in first..first + MESSAGES {
        let text = format!("'{content}'");
        let queued = format!(
            "INSERT INTO outbox VALUES ({number}, {text}, 0); INSERT INTO record VALUES ({number}, {text}, 'waiting'); \
             UPDATE numbers SET a = a + 1;"
        );
        let taken = format!(
            "INSERT INTO seen VALUES ('did:web:peer', '{number}', 0); INSERT INTO record VALUES ({number}, {text}, NULL); \
             UPDATE numbers SET a = a + 1, b = b + 1;"
        );
        let settled = format!(
            "DELETE FROM outbox WHERE id = {number}; UPDATE record SET state = 'delivered' WHERE id = {number}; \
             UPDATE numbers SET b = b + 1;"
        );
        for (pool, rows) in [(sender, queued), (receiver, taken), (sender, settled)] {
            let transaction = format!("BEGIN IMMEDIATE; {rows} COMMIT;");
            sqlx::raw_sql(AssertSqlSafe(transaction)).execute(pool).await.expect("durable");
        }
    }
    MESSAGES as f64 / begun.elapsed().as_secs_f64()
}

/// Opens a WebSocket without a library: its memory is that of the server alone.
async fn open(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let host = format!("localhost:{}", address.port());
    let request = format!(
        "GET / HTTP/1.1\r\nhost: {host}\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.expect("answered");
    assert!(answer.ends_with(b"101"), "{:?}", String::from_utf8_lossy(&answer));
    stream
}

/// KiB of one idle socket of the agent, and of a server of the library alone; and the sessions of the agent afterwards.
async fn measure_sockets() -> (f64, f64, usize) {
    let grow = async |address: SocketAddr| {
        // The first ones fill the caches of the process.
        let mut open_sockets = Vec::new();
        for _ in 0..100 {
            open_sockets.push(open(address).await);
        }
        let before = resident_bytes("self");
        for _ in 0..SOCKETS {
            open_sockets.push(open(address).await);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        let grown = resident_bytes("self").saturating_sub(before);
        (grown as f64 / SOCKETS as f64 / 1024.0, open_sockets)
    };
    let bare = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let bare_address = bare.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = bare.accept().await {
            tokio::spawn(async move {
                let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { return };
                while futures::StreamExt::next(&mut socket).await.is_some() {}
            });
        }
    });
    let (theirs, _theirs_open) = grow(bare_address).await;
    let directory = tempfile::tempdir().expect("a directory");
    let (agent, address) = start(directory.path()).await;
    let (ours, _ours_open) = grow(address).await;
    let sessions = agent.peers().session_count();
    agent.shutdown(Duration::from_secs(5)).await;
    (ours, theirs, sessions)
}
