//! Peers, servers and an index with faults.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{Json, Router, extract::State, routing::post};
use serde_json::{Value, json};
use svc_agent::{ConnectionFilter, EventsConfig, PeerSettings};
use svc_test_support::small_disk::{self, fill};

use crate::e2e::agent::{
    AgentServer, chain_config,
    credentials::identity::start_marketplace,
    document::login,
    messages::{
        peers::{any_peers, await_answer},
        scripted_peer::{ScriptedPeer, next_message},
    },
    no_events, sqlite_url,
};

async fn start(peers: PeerSettings) -> (tempfile::TempDir, AgentServer, ScriptedPeer) {
    let directory = tempfile::tempdir().expect("a directory");
    let server =
        AgentServer::start_for_peers(directory.path(), &sqlite_url(directory.path()), peers, no_events()).await;
    let did = server.agent.keeper().published().document.did().to_owned();
    let peer = ScriptedPeer::start(&did).await;
    (directory, server, peer)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_with_another_key_is_read_again_and_one_with_another_endpoint_too() {
    let (_directory, server, mut peer) = start(any_peers()).await;
    // The first document names an endpoint that nothing answers, and may be kept for minutes.
    peer.go_public("http://127.0.0.1:1/");
    assert_eq!(peer.post(peer.seal(&peer.text("1", "one"))).await, 202);
    let before = peer.keys.clone();
    peer.go_public(&peer.endpoint());
    assert_eq!(peer.post(peer.seal(&peer.text("2", "two"))).await, 202, "the key of the new document");
    assert_eq!(peer.post(peer.seal_as(&before, &peer.text("3", "three"))).await, 400, "the key of the old one");
    let connections = server.send("GET", "/v2/didcomm/connections", None).await.body;
    assert_eq!(connections["items"].as_array().map(Vec::len), Some(1), "{connections}");
    let body = json!({"connectionId": connections["items"][0]["id"], "content": "to you"}).to_string();
    assert_eq!(server.send("POST", "/v2/didcomm/basic-messages", Some(&body)).await.status, 200);
    assert_eq!(next_message(&mut peer.inbox, "a message").await.body["content"], "to you");
    // It moves. The message finds it, because a document that leads nowhere is read again.
    peer.status.store(503, Ordering::SeqCst);
    let mut moved = ScriptedPeer::start(&peer.agent_did()).await;
    moved.keys = peer.keys.clone();
    moved.know(&peer.keys);
    let mut document = peer.document.lock().expect("a lock").clone();
    document["service"][0]["serviceEndpoint"]["uri"] = json!(moved.endpoint());
    *peer.document.lock().expect("a lock") = document;
    let body = body.replace("to you", "to the new place");
    assert_eq!(server.send("POST", "/v2/didcomm/basic-messages", Some(&body)).await.status, 200);
    assert_eq!(next_message(&mut moved.inbox, "a message").await.body["content"], "to the new place");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_that_hangs_or_is_huge_costs_its_sender_alone() {
    let settings = PeerSettings { resolve_timeout: Duration::from_millis(700), ..any_peers() };
    let (_directory, server, mut peer) = start(settings).await;
    let quick = peer.keys.clone();
    peer.go_public("http://127.0.0.1:1/");
    peer.pause.store(30, Ordering::SeqCst);
    let slow = peer.seal(&peer.text("1", "slow"));
    let begun = Instant::now();
    let (hung, other) = tokio::join!(peer.post(slow), async {
        let text = svc_didcomm::Message { from: Some(quick.did.clone()), ..peer.text("2", "quick") };
        let status = peer.post(peer.seal_as(&quick, &text)).await;
        (status, begun.elapsed())
    });
    assert_eq!(hung, 503, "the sender may come back");
    assert!(other.0 == 202 && other.1 < begun.elapsed(), "another peer is not delayed");
    peer.pause.store(0, Ordering::SeqCst);
    peer.document.lock().expect("a lock")["x"] = json!("x".repeat(8 * 1024 * 1024));
    let status = peer.post(peer.seal(&peer.text("3", "huge"))).await;
    assert!([400, 503].contains(&status), "{status}");
    let found = server.agent.peers().connections(&ConnectionFilter::default(), None, 10).await.expect("connections");
    assert_eq!(found.len(), 1, "of the quick one");
    server.stop().await;
}

/// An index that gives the answer of the test, and then hangs.
#[derive(Clone)]
struct Index {
    answer: Value,
    pause: Arc<AtomicU16>,
}

async fn serve_index(index: Index) -> String {
    async fn resolve(State(index): State<Index>, Json(asked): Json<Value>) -> Json<Value> {
        tokio::time::sleep(Duration::from_secs(index.pause.load(Ordering::SeqCst).into())).await;
        let mut answer = index.answer.clone();
        answer["did"] = asked["did"].clone();
        Json(answer)
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let origin = format!("http://{}", listener.local_addr().expect("an address"));
    let routes = Router::new().route("/v4/verifiable-trust/resolve", post(resolve)).with_state(index);
    tokio::spawn(async move { axum::serve(listener, routes).await });
    origin
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_lies_is_not_believed_and_one_that_is_silent_stores_nothing() {
    let world = start_marketplace().await;
    // The participants of an agent are active, and none of them is the peer's.
    let url = format!("{}/v4/verifiable-trust/resolve", world.network.indexer_origin());
    let asked = json!({"did": world.agent_did(0), "ecsCredentials": true});
    let told = reqwest::Client::new().post(url).json(&asked).send().await.expect("an answer");
    let told: Value = told.json().await.expect("JSON");
    let answer = json!({"trusted": true, "expiresAtTime": null, "ecsCredentials": told["ecsCredentials"]});
    assert!(told["trusted"] == true && told["ecsCredentials"].as_array().is_some_and(|all| !all.is_empty()), "{told}");
    let pause = Arc::new(AtomicU16::new(0));
    let index = serve_index(Index { answer, pause: Arc::clone(&pause) }).await;
    let directory = tempfile::tempdir().expect("a directory");
    let chain = chain_config(&world.network.devnet.node.origin(), 1, directory.path(), login::key(9));
    let events = EventsConfig { indexer: index.into(), ..no_events() };
    let settings = PeerSettings { trust_ttl: Duration::from_secs(1), ..PeerSettings::default() };
    let url = sqlite_url(directory.path());
    let server = AgentServer::start_on_chain(directory.path(), &url, settings, (events, chain)).await;
    let did = server.agent.keeper().published().document.did().to_owned();
    let mut peer = ScriptedPeer::start(&did).await;
    peer.go_public(&peer.endpoint());
    assert_eq!(peer.post(peer.seal(&peer.text("1", "believe me"))).await, 202, "dropped on purpose");
    let body = json!({"did": peer.keys.did}).to_string();
    let refused = server.send("POST", "/v2/didcomm/connections", Some(&body)).await;
    assert_eq!(refused.error(), (409, "PEER_NOT_AUTHORIZED"));
    pause.store(30, Ordering::SeqCst);
    let refused = server.send("POST", "/v2/didcomm/connections", Some(&body)).await;
    assert_eq!(refused.error(), (503, "RESOLVER_UNAVAILABLE"));
    assert_eq!(peer.post(peer.seal(&peer.text("2", "hello?"))).await, 503);
    assert_eq!(server.send("GET", "/v2/didcomm/connections", None).await.body["items"], json!([]));
    server.stop().await;
}

/// Full name of the test, for its own process.
const FULL_DISK: &str = "e2e::agent::messages::peer_faults::on_a_full_disk_nothing_is_acknowledged_and_nothing_is_lost";

#[test]
fn on_a_full_disk_nothing_is_acknowledged_and_nothing_is_lost() {
    small_disk::run(FULL_DISK, |directory| {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let url = sqlite_url(directory);
            let server = AgentServer::start_for_peers(directory, &url, any_peers(), no_events()).await;
            let did = server.agent.keeper().published().document.did().to_owned();
            let mut peer = ScriptedPeer::start(&did).await;
            assert_eq!(peer.post(peer.seal(&peer.text("1", "one"))).await, 202);
            let filler = fill(directory);
            let large = "x".repeat(60_000);
            let text = peer.seal(&peer.text("2", &large));
            let status = peer.post(text.clone()).await;
            assert_eq!(status, 503, "it is not stored");
            let connection = server.send("GET", "/v2/didcomm/connections", None).await.body["items"][0]["id"].clone();
            let body = json!({"connectionId": connection, "content": large}).to_string();
            let refused = server.send("POST", "/v2/didcomm/basic-messages", Some(&body)).await;
            assert_eq!(refused.error(), (503, "NOT_READY"));
            std::fs::remove_file(filler).expect("removed");
            let mut status = 503;
            for _ in 0..100 {
                status = peer.post(text.clone()).await;
                if status == 202 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            assert_eq!(status, 202, "with space it goes on");
            let sent = server.send("POST", "/v2/didcomm/basic-messages", Some(&body)).await;
            assert_eq!(sent.status, 200, "{}", sent.body);
            let arrived = next_message(&mut peer.inbox, "a message").await;
            assert_eq!(arrived.body["content"].as_str(), Some(large.as_str()));
            let path = "/v2/didcomm/basic-messages?role=receiver";
            let stored = await_answer(&server, path, |body| body["items"].as_array().is_some_and(|all| all.len() == 2));
            assert_eq!(stored.await["items"][1]["content"].as_str().map(str::len), Some(60_000));
            server.stop().await;
        });
    });
}
