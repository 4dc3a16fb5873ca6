//! Registry events of a devnet that reach a backend over HTTP.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, extract::State, http::StatusCode, routing::post};
use serde_json::{Value, json};
use svc_agent::{CourierConfig, DidMethod, EventsConfig, HandledEvents};
use svc_devnet::Devnet;
use svc_net::webhook::WebhookClient;
use svc_wire::secret::SecretString;
use tokio::sync::Notify;

use crate::e2e::{
    agent::{AgentServer, Mode, chain_config, document::login::key, sqlite_url},
    harness::{pause, poll_until},
    indexer::{MARKETPLACE_SCENARIO, read_ok, start_chain_and_indexer},
    recovery::foreign_indexers::{Disguise, IndexProxy, Passage},
};

/// A backend that keeps the bodies that it takes.
#[derive(Clone)]
struct Backend {
    status: Arc<Mutex<StatusCode>>,
    bodies: Arc<Mutex<Vec<Value>>>,
    changed: Arc<Notify>,
}

async fn receive(State(backend): State<Backend>, headers: axum::http::HeaderMap, body: String) -> StatusCode {
    assert_eq!(headers["authorization"], "Bearer backend-key");
    let status = *backend.status.lock().expect("not poisoned");
    if status == StatusCode::OK {
        backend.bodies.lock().expect("not poisoned").push(serde_json::from_str(&body).expect("JSON"));
    }
    backend.changed.notify_one();
    status
}

impl Backend {
    async fn start(status: StatusCode) -> (Self, url::Url) {
        let backend = Self { status: Arc::new(Mutex::new(status)), bodies: Arc::default(), changed: Arc::default() };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("an address")).parse().expect("a URL");
        let router = Router::new().route("/", post(receive)).with_state(backend.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (backend, url)
    }

    fn set_status(&self, status: StatusCode) {
        *self.status.lock().expect("not poisoned") = status;
    }

    async fn wait_for(&self, count: usize) -> Vec<Value> {
        loop {
            let bodies = self.bodies.lock().expect("not poisoned").clone();
            if bodies.len() >= count {
                return bodies;
            }
            self.changed.notified().await;
        }
    }
}

fn events_config(indexer: &str, url: url::Url, max_stored: u64) -> EventsConfig {
    let client = WebhookClient::new(url, Duration::from_secs(10)).expect("a client");
    let api_key = Some(SecretString::new("backend-key".to_owned()));
    EventsConfig {
        indexer: indexer.to_owned().into(),
        covers_corporation: true,
        handled: HandledEvents::All,
        start_height: Some(1),
        silence: Some(Duration::from_secs(60)),
        receiver: Some(CourierConfig { client, api_key, secrets: None, min_backoff: Duration::from_millis(10) }),
        max_stored,
    }
}

/// Changes the corporation whose events are watched.
async fn change_corporation(devnet: &Devnet) {
    let funds = json!({
        "from_address": "$member", "to_address": "$verifier_operator", "amount": [{"denom": "usvc", "amount": "500000"}],
    });
    devnet.send_messages("member", &[("/cosmos.bank.v1beta1.MsgSend", funds)]).await.expect("sent");
    let update =
        json!({"corporation": "$verifier", "operator": "$verifier_operator", "did": "did:web:moved.devnet.example"});
    devnet.send_messages("verifier_operator", &[("co.MsgUpdateCorporation", update)]).await.expect("sent");
}

/// The events of a corporation as the indexer lists them: height, transaction, message, type.
async fn listed_events(indexer: &str, corporation_id: u64) -> Vec<Value> {
    let page =
        read_ok(indexer, &format!("/v4/indexer/events?corporation_id={corporation_id}&after_block_height=0&limit=500"))
            .await;
    page["events"].as_array().expect("events").clone()
}

fn position(event: &Value) -> Value {
    let payload = &event["payload"];
    json!([
        event["block_height"],
        event["tx_hash"],
        payload["message_index"],
        event["event_type"],
        payload["entity_id"]
    ])
}

fn delivered_position(body: &Value) -> Value {
    let (data, payload) = (&body["data"], &body["data"]["payload"]);
    json!([data["blockHeight"], data["txHash"], payload["messageIndex"], data["eventType"], payload["entityId"]])
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_of_the_corporation_reaches_the_backend_once_and_in_order_across_a_restart() {
    let network = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    let indexer = network.indexer_origin();
    let corporation: u64 = network.devnet.saved_values["verifier_id"].parse().expect("a number");
    let expected: Vec<Value> = listed_events(&indexer, corporation).await.iter().map(position).collect();
    assert!(expected.len() > 3, "{expected:?}");
    let directory = tempfile::tempdir().expect("a directory");
    let (backend, url) = Backend::start(StatusCode::OK).await;
    let rpc = network.devnet.node.origin();
    let config = || {
        let chain = chain_config(&rpc, corporation, directory.path(), key(9));
        (events_config(&indexer, url.clone(), 1_000), chain)
    };
    let modes = (DidMethod::WebVh, Mode::Internal);
    let server = AgentServer::start_with(directory.path(), &sqlite_url(directory.path()), modes, config()).await;
    let bodies = backend.wait_for(expected.len()).await;
    assert_eq!(bodies.iter().map(delivered_position).collect::<Vec<_>>(), expected);
    while server.send("GET", "/v2/agent/health/ready", None).await.status != 200 {
        pause().await;
    }
    server.stop().await;

    // Events of the time between are read afterwards; those of before are not repeated.
    change_corporation(&network.devnet).await;
    let server = AgentServer::start_with(directory.path(), &sqlite_url(directory.path()), modes, config()).await;
    let bodies = backend.wait_for(expected.len() + 1).await;
    assert_eq!(bodies.len(), expected.len() + 1);
    let last = bodies.last().expect("an event");
    assert_eq!((&last["type"], &last["data"]["eventType"]), (&json!("vpr.notification"), &json!("UpdateCorporation")));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_events_are_gaps_that_a_refill_delivers_and_refused_ones_are_dead_letters() {
    let network = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    let indexer = network.indexer_origin();
    let corporation: u64 = network.devnet.saved_values["verifier_id"].parse().expect("a number");
    let expected: Vec<Value> = listed_events(&indexer, corporation).await.iter().map(position).collect();
    let directory = tempfile::tempdir().expect("a directory");
    let (backend, url) = Backend::start(StatusCode::SERVICE_UNAVAILABLE).await;
    let chain = chain_config(&network.devnet.node.origin(), corporation, directory.path(), key(9));
    let config = (events_config(&indexer, url, 2), chain);
    let modes = (DidMethod::Web, Mode::Internal);
    let server = AgentServer::start_with(directory.path(), &sqlite_url(directory.path()), modes, config).await;
    let gaps = loop {
        let gaps = server.send("GET", "/v2/events/gaps", None).await.body;
        let dropped: u64 = gaps["items"].as_array().expect("gaps").iter().filter_map(|gap| gap["count"].as_u64()).sum();
        if dropped as usize == expected.len() - 2 {
            break gaps;
        }
        pause().await;
    };
    assert_eq!(server.send("GET", "/v2/agent/info", None).await.body["events"]["stored"], 2);
    assert_eq!(gaps["nextCursor"], Value::Null);
    backend.set_status(StatusCode::OK);
    backend.wait_for(2).await;
    while server.send("GET", "/v2/events/gaps", None).await.body["items"] != json!([]) {
        let refilled = server.send("POST", "/v2/events/gaps/refill", None).await;
        assert_eq!(refilled.status, 200, "{}", refilled.body);
    }
    let mut delivered: Vec<Value> = Vec::new();
    while delivered.len() < expected.len() {
        delivered = backend.wait_for(1).await.iter().map(delivered_position).collect();
        delivered.sort_by_key(|position| expected.iter().position(|known| known == position));
        delivered.dedup();
        pause().await;
    }
    assert_eq!(delivered, expected, "the delivered ones and the refilled ones are all");

    backend.set_status(StatusCode::UNPROCESSABLE_ENTITY);
    change_corporation(&network.devnet).await;
    let letter = loop {
        let letters = server.send("GET", "/v2/events/dead-letters", None).await.body;
        if let Some(letter) = letters["items"].get(0) {
            break letter.clone();
        }
        pause().await;
    };
    assert_eq!(
        (&letter["lastStatus"], &letter["attempts"], &letter["data"]["eventType"]),
        (&json!(422), &json!(1), &json!("UpdateCorporation"))
    );
    let path = format!("/v2/events/dead-letters/{}", letter["id"].as_str().expect("an id"));
    assert_eq!(server.send("POST", &format!("{path}/retry?a=b"), None).await.error(), (400, "INVALID_INPUT"));
    backend.set_status(StatusCode::OK);
    let before = backend.wait_for(0).await.len();
    assert_eq!(server.send("POST", &format!("{path}/retry"), None).await.body["id"], letter["id"]);
    assert_eq!(backend.wait_for(before + 1).await[before]["id"], letter["id"]);
    assert_eq!(server.send("POST", &format!("{path}/retry"), None).await.error(), (404, "UNKNOWN_ID"));
    assert_eq!(server.send("DELETE", &path, None).await.error(), (404, "UNKNOWN_ID"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_the_indexer_does_not_send_reach_the_backend_and_a_quiet_chain_keeps_the_connection() {
    let network = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    let corporation: u64 = network.devnet.saved_values["verifier_id"].parse().expect("a number");
    let listed = listed_events(&network.indexer_origin(), corporation).await.len();
    let (proxy, indexer) = IndexProxy::start(network.indexer_origin(), Disguise::default()).await;
    let directory = tempfile::tempdir().expect("a directory");
    let (backend, url) = Backend::start(StatusCode::OK).await;
    let chain = chain_config(&network.devnet.node.origin(), corporation, directory.path(), key(9));
    let events = EventsConfig { silence: Some(Duration::from_secs(1)), ..events_config(&indexer, url, 1_000) };
    let modes = (DidMethod::WebVh, Mode::Internal);
    let server = AgentServer::start_with(directory.path(), &sqlite_url(directory.path()), modes, (events, chain)).await;
    assert_eq!(backend.wait_for(listed).await.len(), listed);
    // The chain makes no blocks: the indexer is asked for its height each second, and there is nothing to catch up with.
    let (connections, heights) = (proxy.connections(), proxy.height_reads());
    poll_until("the indexer is asked", async || proxy.height_reads() >= heights + 4).await;
    assert_eq!(proxy.connections(), connections);
    proxy.set_passage(Passage::None);
    change_corporation(&network.devnet).await;
    assert_eq!(backend.wait_for(listed + 1).await.len(), listed + 1);
    poll_until("it connects again", async || proxy.connections() > connections).await;
    server.stop().await;
}
