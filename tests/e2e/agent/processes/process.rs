//! `svc agent` as a process of its own: killed at any moment, stopped, started twice, and started with a restored backup.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::Value;
use svc::network::ChainAndIndexer;
use svc_net::{did::DidResolver, host_policy::HostPolicy};

use crate::e2e::{
    agent::{
        document::resolution::{self, registry_id, send_coins, start_registry},
        processes::agent_process::{AgentHome, STORE_KEY, own_account},
    },
    callers::secrets::SERVER_PROGRAM,
    harness::{TEST_TIMEOUT, pause},
    indexer::{await_indexed, read_ok},
};

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_killed_again_and_again_agrees_with_the_chain_and_its_readers() {
    let network = start_registry().await;
    let mut home = AgentHome::new(&network);
    let (url, heard) = start_consumer().await;
    home.webhook = Some(url);
    let mut agent = home.start();
    while agent.send("GET", "/v2/agent/health/ready", None).await.status != 200 {
        pause().await;
    }
    let first_height = *network.devnet.node.watch_heights().borrow();
    let did = agent.info().await["did"].as_str().expect("a DID").to_owned();
    send_coins(&network.devnet, &own_account(), 1_000_000).await;
    admit_account(&network, &did).await;
    agent.await_idle(&network).await;
    let mut random = fastrand::Rng::with_seed(7);
    let mut acknowledged = Vec::new();
    for round in 0..8 {
        let id = format!("e{round}");
        let pause = Duration::from_millis(random.u64(0..1_500));
        // The kill comes before, within or behind the write of the version, the answer, or the transaction.
        let added = tokio::time::timeout(pause, agent.add(&id)).await;
        if added.is_ok_and(|answer| answer.status == 200) {
            acknowledged.push(id);
        }
        agent.kill();
        agent = home.start();
        let resolver = DidResolver::new(HostPolicy::AllowPrivate).expect("a resolver");
        let document = resolver.resolve_fresh(&did).await.expect("the public document verifies");
        let ids: Vec<&str> = document["service"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|one| one["id"].as_str()?.split('#').nth(1))
            .collect();
        assert!(acknowledged.iter().all(|id| ids.contains(&id.as_str())), "{acknowledged:?} and {ids:?}");
    }
    let info = agent.await_idle(&network).await;
    // The chain has the transaction that the agent names, and no more of them than versions.
    let sent = resolution::triggers_of(&network, &own_account()).await;
    assert!(sent.iter().any(|event| event["tx_hash"] == info["resolution"]["txHash"]), "{info} {sent:?}");
    // Every event of the registry since the start has reached the consumer, each under one id.
    let expected = listed_since(&network, first_height).await;
    let mut heights = network.devnet.node.watch_heights();
    loop {
        let heard = heard.lock().expect("not poisoned").clone();
        if expected.iter().all(|event| heard.values().any(|known| known == event)) {
            break;
        }
        heights.changed().await.expect("blocks");
    }
    let entries = info["document"]["entries"].as_u64().expect("entries");
    assert!(sent.len() as u64 <= entries, "{} transactions for {entries} versions", sent.len());
    let (is_ok, log) = agent.terminate();
    assert!(is_ok && log.contains("\"stopped\""), "{log}");
    for secret in ["jelly better", STORE_KEY] {
        assert!(!log.contains(secret));
    }
}

/// The events that a webhook consumer has heard, by id.
pub(super) type HeardEvents = Arc<Mutex<BTreeMap<String, (u64, String, String)>>>;

/// Starts a webhook consumer; its URL, and the height, transaction and type of each event that it hears.
pub(super) async fn start_consumer() -> (String, HeardEvents) {
    let heard = HeardEvents::default();
    let hears = Arc::clone(&heard);
    let route = axum::routing::post(async move |axum::Json(body): axum::Json<Value>| {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let data = &body["data"];
        // The events of flows and peers belong to no block.
        let Some(height) = data["blockHeight"].as_u64() else { return };
        let event = (height, text(&data["txHash"]), text(&data["eventType"]));
        // A failure here is that of the test, whose next look finds the lock poisoned.
        let mut heard = hears.lock().expect("not poisoned");
        let before = heard.insert(text(&body["id"]), event.clone());
        assert!(before.is_none_or(|before| before == event), "one id is one event");
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, axum::Router::new().route("/", route)).await });
    (url, heard)
}

/// The events of the corporation behind a height, as the indexer lists them.
pub(super) async fn listed_since(network: &ChainAndIndexer, height: u64) -> Vec<(u64, String, String)> {
    let newest = *network.devnet.node.watch_heights().borrow();
    await_indexed(&network.indexer_origin(), newest).await;
    let id = registry_id(&network.devnet);
    let path = format!("/v4/indexer/events?corporation_id={id}&after_block_height={height}&limit=500");
    let page = read_ok(&network.indexer_origin(), &path).await;
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let listed = page["events"].as_array().expect("events").iter().map(|event| {
        (event["block_height"].as_u64().expect("a height"), text(&event["tx_hash"]), text(&event["event_type"]))
    });
    listed.collect()
}

/// Makes the DID a participant with the account of the process.
pub(super) async fn admit_account(network: &ChainAndIndexer, did: &str) {
    resolution::admit_account(&network.devnet, did, &own_account(), false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_speak_with_the_running_agent_and_a_second_one_names_the_first() {
    let network = start_registry().await;
    let mut home = AgentHome::new(&network);
    let agent = home.start();
    let (is_ok, shown) = home.run(&["did", "--json"]).await;
    let did: Value = serde_json::from_str(&shown).expect("JSON");
    assert!(is_ok && did["did"].as_str().is_some_and(|did| did.starts_with("did:webvh:")), "{shown}");
    let (is_ok, shown) = home.run(&["webhooks", "gaps"]).await;
    assert!(is_ok && shown == "none\n", "{shown}");
    let (is_ok, shown) = home.run(&["webhooks", "retry", "no/such"]).await;
    assert!(!is_ok && shown.contains("UNKNOWN_ID"), "{shown}");

    let (is_ok, shown) = home.run(&["check"]).await;
    assert!(!is_ok, "{shown}");
    for line in [
        "ok   configuration",
        "ok   SVC_INDEXER_BASE_URL",
        "ok   PUBLIC_API_BASE_URL",
        "ok   SVC_RPC_ENDPOINT_URL",
        "FAIL SVC_ESSENTIAL_ECOSYSTEMS",
        "FAIL grant",
        "FAIL fees",
    ] {
        assert!(shown.contains(line), "{line} in {shown}");
    }
    assert!(shown.contains("NO_PARTICIPANT"), "{shown}");
    send_coins(&network.devnet, &own_account(), 1_000_000).await;
    admit_account(&network, did["did"].as_str().expect("a DID")).await;
    agent.await_idle(&network).await;
    home.settings.insert("SVC_ESSENTIAL_ECOSYSTEMS", "did:web:ecosystem.example".to_owned());
    let (is_ok, shown) = home.run(&["check", "--json"]).await;
    assert!(is_ok, "{shown}");

    // The first one is named, also where the ports are its own.
    for ports in [[("ADMIN_API_PORT", "0"), ("PUBLIC_API_PORT", "0")].as_slice(), &[]] {
        let mut second = home.command(&[]);
        second.envs(ports.iter().copied());
        let output = second.output().expect("it ends");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(&format!("process {}", agent.child.id())), "{text}");
    }
    let (is_ok, _) = agent.terminate();
    assert!(is_ok);
    let (is_ok, shown) = home.run(&["did"]).await;
    assert!(!is_ok && shown.contains("no agent answers"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_backup_is_refused_in_each_of_four_ways_and_recovers_with_the_published_log() {
    let network = start_registry().await;
    let home = AgentHome::new(&network);
    let agent = home.start();
    let did = agent.info().await["did"].as_str().expect("a DID").to_owned();
    send_coins(&network.devnet, &own_account(), 1_000_000).await;
    assert!(agent.terminate().0);
    // The backup is older than everything below.
    home.keep("agent.db", "backup.db");
    let agent = home.start();
    admit_account(&network, &did).await;
    assert_eq!(agent.add("one").await.status, 200);
    agent.await_idle(&network).await;
    let log = home.published_log().await;
    std::fs::write(home.path("published.jsonl"), &log).expect("written");
    assert!(agent.terminate().0);

    // 1. The head file names a later version.
    home.restore("backup.db");
    let (is_ok, shown) = home.run(&[]).await;
    assert!(!is_ok && shown.contains("older than the head file") && shown.contains("2-"), "{shown}");

    // 2. The log at the public URL is longer.
    std::fs::remove_file(home.path("agent.head")).expect("removed");
    let server = serve_log(home.public, log.clone()).await;
    let mut command = home.command(&[]);
    command.env("PUBLIC_API_PORT", "0");
    let output = tokio::process::Command::from(command).output().await.expect("it ends");
    let shown = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && shown.contains("2 entries and continues the store's"), "{shown}");
    server.abort();
    let _ = server.await;

    // 3. The journal has a transaction that the store does not know.
    let (is_ok, shown) = home.run(&[]).await;
    assert!(!is_ok && shown.contains("the journal has the transaction"), "{shown}");

    // 4. The registry has one, and the journal is gone: its transactions are taken from their blocks.
    for file in std::fs::read_dir(home.directory.path()).expect("readable").flatten() {
        if file.file_name().to_string_lossy().starts_with("agent.journal") {
            std::fs::remove_file(file.path()).expect("removed");
        }
    }
    let (is_ok, shown) = home.run(&[]).await;
    assert!(!is_ok && shown.contains("which this store did not send"), "{shown}");

    // With the published log the store goes on, by its own key.
    let path = home.path("published.jsonl");
    let (is_ok, shown) = home.run(&["recover", "--json", "--log", path.to_str().expect("a text")]).await;
    assert!(is_ok && shown.contains("\"versions\": 2"), "{shown}");
    let agent = home.start();
    assert_eq!(agent.add("two").await.status, 200);
    assert_eq!(agent.info().await["document"]["entries"], 4, "the recovery has made another key for messages");
    agent.await_idle(&network).await;
    assert!(agent.terminate().0);
}

/// Serves a log at the well-known path of a port.
async fn serve_log(port: u16, log: Vec<u8>) -> tokio::task::JoinHandle<()> {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.expect("a port");
    let router = axum::Router::new()
        .route("/.well-known/did.jsonl", axum::routing::get(async move || ([("content-type", "text/jsonl")], log)));
    tokio::spawn(async move { drop(axum::serve(listener, router).await) })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_follows_a_service_entry_from_an_mcp_client_to_a_webhook_consumer() {
    let mut command = tokio::process::Command::new(SERVER_PROGRAM);
    command.args(["devnet", "--demo-agent"]).env_clear().kill_on_drop(true);
    let output = tokio::time::timeout(TEST_TIMEOUT, command.output()).await.expect("in time").expect("it runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out} {err}");
    for step in ["1. svc.vsa.se.addServiceEndpoint", "2. The document", "3. Block", "4. The indexer", "5. The webhook"]
    {
        assert!(out.contains(step), "{step} in {out}");
    }
    assert!(out.ends_with("Every step shows the same entry.\n"), "{out}");
}
