//! The agent: webhooks beside a bare client, changes that wait together beside single ones, the verification of a log beside its signatures,
//! and a lone change beside one durable commit. The rows of its credentials are in a file of their own.

pub mod access;
mod credentials;
mod flow_history;
pub mod flows;

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{Router, extract::State, http::StatusCode, routing::post};
use ed25519_dalek::{Signer, SigningKey};
use serde_json::json;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use svc_agent::{
    AccessSettings, Agent, AgentConfig, AgentStore, AnchorForm, BlockEvents, ChainConfig, CourierConfig,
    CredentialSettings, DidMethod, EventsConfig, FlowSettings, HandledEvents, Notification, PeerSettings,
    PublicLocation, RotationPauses, StoreKey, StoreKeys, StoreSettings,
    document::{DidDocument, DocumentKeys, ServiceChange, ServiceIdPath},
    log::{EntryKeys, SCID_PLACEHOLDER, encode_multikey, first_entry, next_entry},
};
use svc_net::{did::verify_own_log, host_policy::HostPolicy, webhook::WebhookClient};
use svc_pipeline::{ChainExpectation, FeePolicy, JournalPlace};
use svc_wire::{account_key::AccountKey, timestamp};
use tokio::sync::Notify;

use crate::{BenchRow, median};

const EVENTS: usize = 5_000;
const WAITING: usize = 100;
const WAITING_ROUNDS: usize = 2;
const ROUNDS: usize = 5;

fn settings(directory: &Path) -> StoreSettings {
    let url = format!("sqlite://{}?mode=rwc", directory.join("agent.db").display());
    StoreSettings { url, keys: StoreKeys { current: StoreKey::from_bytes([1; 32]), previous: None } }
}

/// An agent without node and indexer, which its document and its outbox do not need.
async fn launch(directory: &Path, receiver: Option<CourierConfig>) -> Agent {
    let location = PublicLocation::parse("http://localhost:1").expect("a location");
    launch_at(directory, receiver, location, HostPolicy::PublicOnly, PeerSettings::default()).await
}

/// Such an agent at a public URL, which talks to peers.
pub async fn launch_at(
    directory: &Path,
    receiver: Option<CourierConfig>,
    location: PublicLocation,
    hosts: HostPolicy,
    peers: PeerSettings,
) -> Agent {
    let journal = directory.join("journal").to_str().map(str::to_owned);
    let nowhere = || "http://127.0.0.1:1".to_owned();
    let config = AgentConfig {
        store: settings(directory),
        head: Some(directory.join("agent.head")),
        method: DidMethod::WebVh,
        location,
        pre_rotation: false,
        hosts,
        admin_api: None,
        logins: None,
        chain: ChainConfig {
            corporation_id: 1,
            rpc: nowhere().into(),
            allows_plaintext_node: false,
            expected: ChainExpectation {
                chain_id: None,
                denom: None,
                set_price: None,
                fees: FeePolicy::at_price(25_000),
                uses_live_descriptors: false,
            },
            key: AccountKey::from_bytes(&[9; 32]).expect("a key"),
            journal: JournalPlace { file: journal, min_free_space: 0.into() },
            tx_timeout: Duration::from_secs(30),
            gas_adjustment: 150,
            resolves_changes: true,
            anchors: AnchorForm::default(),
        },
        credentials: CredentialSettings::off(),
        rotation_pauses: RotationPauses::default(),
        events: EventsConfig {
            indexer: nowhere().into(),
            covers_corporation: true,
            handled: HandledEvents::All,
            start_height: None,
            silence: None,
            receiver,
            max_stored: 1_000_000,
        },
        peers,
        flows: FlowSettings::default(),
        access: AccessSettings::default(),
    };
    Agent::launch(config).await.expect("an agent")
}

#[derive(Clone, Default)]
struct Backend {
    taken: Arc<AtomicUsize>,
    changed: Arc<Notify>,
}

async fn receive(State(backend): State<Backend>, _: String) -> StatusCode {
    if (backend.taken.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(EVENTS) {
        backend.changed.notify_one();
    }
    StatusCode::NO_CONTENT
}

/// Webhooks a second: those of the agent, and those of a client that posts the same bodies one by one.
async fn measure_webhooks() -> (f64, f64) {
    let backend = Backend::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url: url::Url = format!("http://{}/", listener.local_addr().expect("an address")).parse().expect("a URL");
    let router = Router::new().route("/", post(receive)).with_state(backend.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let body = json!({"id": "0", "type": "vpr.notification", "data": {"payload": "x".repeat(600)}}).to_string();
    let directory = tempfile::tempdir().expect("a directory");
    let store = AgentStore::open(settings(directory.path())).await.expect("opens");
    for block in 0..EVENTS / 50 {
        let height = block as u64 + 1;
        let notification = |number: usize| {
            let id = format!("{height}-{number}");
            Notification { id, kind: "vpr.notification", height, body: body.clone() }
        };
        let notifications: Vec<Notification> = (0..50).map(notification).collect();
        let rows = BlockEvents { height, hash: None, ids: Vec::new(), notifications };
        store.store_blocks(&[rows], 0, 1_000_000).await.expect("stored");
    }
    store.close().await;
    drop(store);
    let client = WebhookClient::new(url.clone(), Duration::from_secs(10)).expect("a client");
    let receiver = CourierConfig { client, api_key: None, secrets: None, min_backoff: Duration::from_secs(1) };
    // The start of the agent counts too: its courier begins with it.
    let begun = Instant::now();
    let agent = launch(directory.path(), Some(receiver)).await;
    backend.changed.notified().await;
    let webhooks = EVENTS as f64 / begun.elapsed().as_secs_f64();
    agent.shutdown(Duration::from_secs(5)).await;
    let bare = reqwest::Client::new();
    let begun = Instant::now();
    for _ in 0..EVENTS {
        let request = bare.post(url.clone()).header("content-type", "application/json").body(body.clone());
        request.send().await.expect("answered");
    }
    (webhooks, EVENTS as f64 / begun.elapsed().as_secs_f64())
}

fn change(id: String) -> ServiceChange {
    ServiceChange::Add {
        id: Some(ServiceIdPath::new(id)),
        kind: "MCP".to_owned(),
        endpoint: json!("https://example.com"),
    }
}

/// Changes a second with a hundred waiting, changes a second one at a time, and the milliseconds of a lone change.
async fn measure_changes(agent: &Agent) -> (f64, f64, f64) {
    // More entries would exceed the bound of a document.
    let begun = Instant::now();
    for round in 0..WAITING_ROUNDS {
        let changes = (0..WAITING).map(|number| agent.keeper().change(change(format!("w{round}-{number}"))));
        assert!(futures::future::join_all(changes).await.iter().all(Result::is_ok));
    }
    let waiting = (WAITING_ROUNDS * WAITING) as f64 / begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    for round in 0..ROUNDS {
        agent.keeper().change(change(format!("s{round}"))).await.expect("changed");
    }
    let single = ROUNDS as f64 / begun.elapsed().as_secs_f64();
    let mut lone = Vec::new();
    for round in 0..ROUNDS {
        // The log takes one entry a second: a lone change comes after one without any.
        tokio::time::sleep(Duration::from_millis(2_100)).await;
        let begun = Instant::now();
        agent.keeper().change(change(format!("l{round}"))).await.expect("changed");
        lone.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    (waiting, single, median(lone))
}

/// Milliseconds of one durable commit in an SQLite file.
async fn measure_commit(directory: &Path) -> f64 {
    let options = SqliteConnectOptions::new()
        .filename(directory.join("floor.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full);
    let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await.expect("opens");
    sqlx::query("CREATE TABLE floor (content TEXT)").execute(&pool).await.expect("made");
    let mut commits = Vec::new();
    for _ in 0..50 {
        let begun = Instant::now();
        sqlx::query("INSERT INTO floor VALUES (?)").bind("x".repeat(2_000)).execute(&pool).await.expect("committed");
        commits.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    median(commits)
}

/// A log with an entry a second, by a clock of its own.
fn log(entries: u64) -> (String, Vec<u8>) {
    let key = SigningKey::from_bytes(&[7; 32]);
    let keys = || EntryKeys { update: &key, named: None, next_hashes: None };
    let time = |number: u64| {
        let seconds = 1_700_000_000 + i64::try_from(number).expect("few");
        timestamp::iso_seconds(&prost_types::Timestamp { seconds, nanos: 0 })
    };
    let public = DocumentKeys { signing: encode_multikey(&key), agreement: encode_multikey(&key) };
    let document = DidDocument::new(&format!("did:webvh:{SCID_PLACEHOLDER}:agent.example.com"), &public);
    let mut last = first_entry(document.as_json(), &keys(), &time(1)).expect("an entry");
    let mut lines = last.line.clone();
    for number in 2..=entries {
        last =
            next_entry((number - 1, &last.version_id), &last.state.clone(), &keys(), &time(number)).expect("an entry");
        lines = lines + "\n" + &last.line;
    }
    (last.state["id"].as_str().expect("a DID").to_owned(), lines.into_bytes())
}

/// Milliseconds to verify a log.
fn measure_log(entries: u64) -> f64 {
    let (did, log) = log(entries);
    let times = (0..3).map(|_| {
        let begun = Instant::now();
        verify_own_log(&did, &log).expect("verifies");
        begun.elapsed().as_secs_f64() * 1e3
    });
    median(times.collect())
}

/// Milliseconds of so many Ed25519 verifications.
fn measure_signatures(count: u64) -> f64 {
    let key = SigningKey::from_bytes(&[7; 32]);
    let messages: BTreeSet<[u8; 64]> = (0..count)
        .map(|number| {
            let mut message = [0; 64];
            message[..8].copy_from_slice(&number.to_be_bytes());
            message
        })
        .collect();
    let signed: Vec<_> = messages.iter().map(|message| (message, key.sign(message))).collect();
    let public = key.verifying_key();
    let begun = Instant::now();
    assert!(signed.iter().all(|(message, signature)| public.verify_strict(*message, signature).is_ok()));
    begun.elapsed().as_secs_f64() * 1e3
}

pub async fn rows() -> Vec<BenchRow> {
    let (webhooks, bare) = measure_webhooks().await;
    let directory = tempfile::tempdir().expect("a directory");
    let agent = launch(directory.path(), None).await;
    let (waiting, single, lone) = measure_changes(&agent).await;
    agent.shutdown(Duration::from_secs(5)).await;
    let commit = measure_commit(directory.path()).await;
    let (short, long) = (measure_log(1_000), measure_log(10_000));
    let signatures = measure_signatures(10_000);
    let row = BenchRow::new;
    let mut rows = vec![
        row(
            "webhooks of an agent",
            format!("{webhooks:.0}/s"),
            format!("{bare:.0}/s, the same bodies by a bare client"),
            webhooks / bare,
        ),
        row(
            "changes of a document, 100 waiting",
            format!("{waiting:.0}/s"),
            format!("{single:.2}/s, one at a time"),
            waiting / single,
        ),
        row(
            "a lone change of a document",
            format!("{lone:.1} ms"),
            format!("{commit:.2} ms, one durable commit"),
            lone / commit,
        ),
        row(
            "verification of a log of 10,000 entries",
            format!("{long:.0} ms"),
            format!("{short:.0} ms, one of 1,000"),
            long / short,
        ),
        row(
            "the same",
            format!("{long:.0} ms"),
            format!("{signatures:.0} ms, its signatures alone"),
            long / signatures,
        ),
    ];
    rows.extend(credentials::rows().await);
    rows
}
