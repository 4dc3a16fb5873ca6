//! A tool server whose issuer of tokens for peers is silent, lies, or is too much: nothing is accepted by an old or foreign list.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};
use svc_trust::access::{AccessClaims, sign_access_token};
use svc_wire::{
    endpoint_access::{AccessDocument, RevocationList},
    verification_method::{KeyKind, multikey},
};

use crate::e2e::{
    callers::secrets::{ServerChild, spawn_server},
    harness::{network_config, start_network},
};

const AUDIENCE: &str = "https://svc.example/mcp";

/// The list that the issuer serves.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ServedList {
    Good,
    Gone,
    Stale,
    OfAnother,
    WithAWrongRow,
    Huge,
    Redirected,
}

/// An issuer with a did:web, whose list the test sets.
#[derive(Clone)]
struct Issuer {
    origin: String,
    did: String,
    key: SigningKey,
    list: Arc<Mutex<ServedList>>,
    /// Readings of the list.
    readings: Arc<AtomicUsize>,
}

fn now() -> i64 {
    svc_kit::wall_clock::now().seconds
}

impl Issuer {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let issuer = Self {
            origin: format!("http://localhost:{port}"),
            did: format!("did:web:localhost%3A{port}"),
            key: SigningKey::from_bytes(&[7; 32]),
            list: Arc::new(Mutex::new(ServedList::Gone)),
            readings: Arc::default(),
        };
        let routes = Router::new()
            .route("/.well-known/did.json", get(document))
            .route("/endpoint-access.json", get(conditions))
            .route("/endpoint-access-revoked.json", get(revoked))
            .with_state(issuer.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        issuer
    }

    fn key_id(&self) -> String {
        format!("{}#{}", self.did, multikey(KeyKind::Ed25519, self.key.verifying_key().as_bytes()))
    }

    fn token(&self, id: &str) -> String {
        let claims = AccessClaims {
            issuer: self.did.clone(),
            subject: "did:web:peer.example".to_owned(),
            audience: AUDIENCE.to_owned(),
            endpoint: format!("{}#mcp", self.did),
            scopes: vec!["mcp:read".to_owned()],
            issued_at: now(),
            expires_at: now() + 600,
            id: id.to_owned(),
        };
        sign_access_token(&claims, &self.key_id(), &self.key)
    }

    fn serve(&self, list: ServedList) {
        *self.list.lock().expect("not poisoned") = list;
    }
}

async fn document(State(issuer): State<Issuer>) -> Response {
    let id = issuer.key_id();
    let public = id.rsplit_once('#').expect("a fragment").1;
    let document = json!({
        "@context": ["https://www.w3.org/ns/did/v1"],
        "id": issuer.did,
        "verificationMethod": [{"id": id, "type": "Multikey", "controller": issuer.did, "publicKeyMultibase": public}],
        "capabilityDelegation": [id],
        "service": [{"id": format!("{}#endpoint-access", issuer.did), "type": "EndpointAccess",
            "serviceEndpoint": format!("{}/endpoint-access.json", issuer.origin)}],
    });
    ([(header::CONTENT_TYPE, "application/did+json")], document.to_string()).into_response()
}

async fn conditions(State(issuer): State<Issuer>) -> String {
    AccessDocument::new(&issuer.did, &issuer.origin, 600, Vec::new()).to_json().to_string()
}

async fn revoked(State(issuer): State<Issuer>) -> Response {
    let served = *issuer.list.lock().expect("not poisoned");
    issuer.readings.fetch_add(1, Ordering::SeqCst);
    let good = |did: &str, at: i64| RevocationList::new(did, at, 0, Vec::new()).to_json();
    let text = |list: Value| list.to_string().into_response();
    match served {
        ServedList::Good => text(good(&issuer.did, now())),
        ServedList::Gone => StatusCode::NOT_FOUND.into_response(),
        ServedList::Stale => text(good(&issuer.did, now() - 300)),
        ServedList::OfAnother => text(good("did:web:other.example", now())),
        ServedList::WithAWrongRow => {
            let mut list = good(&issuer.did, now());
            list["revoked"] = json!([{"jti": 7}]);
            text(list)
        }
        // Made while it is read: the reader stops long before its end.
        ServedList::Huge => {
            let part = axum::body::Bytes::from(vec![b' '; 1 << 20]);
            let parts = futures::stream::iter((0..100).map(move |_| Ok::<_, std::io::Error>(part.clone())));
            axum::body::Body::from_stream(parts).into_response()
        }
        ServedList::Redirected => {
            let place = format!("{}/endpoint-access.json", issuer.origin);
            (StatusCode::FOUND, [(header::LOCATION, place)]).into_response()
        }
    }
}

async fn status(server: &ServerChild, token: &str) -> u16 {
    let info = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let request = reqwest::Client::new().post(&server.url).bearer_auth(token).json(&message);
    let request = request.header("accept", "application/json, text/event-stream");
    request.send().await.expect("an answer").status().as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_list_that_is_fresh_and_the_issuers_no_token_is_accepted() {
    let world = start_network(network_config(500)).await;
    let issuer = Issuer::start().await;
    let (rpc, indexer, did) = (world.network.devnet.node.origin(), world.network.indexer_origin(), issuer.did.clone());
    let served = tokio::task::spawn_blocking(move || {
        let settings =
            [("SVC_PEER_ISSUER", did.as_str()), ("SVC_PEER_AUDIENCE", AUDIENCE), ("SVC_ALLOW_PRIVATE_HOSTS", "true")];
        spawn_server(&rpc, &indexer, &settings)
    });
    let server = served.await.expect("joins");
    let token = issuer.token("g");
    for list in [
        ServedList::Gone,
        ServedList::Stale,
        ServedList::OfAnother,
        ServedList::WithAWrongRow,
        ServedList::Huge,
        ServedList::Redirected,
    ] {
        issuer.serve(list);
        let before = issuer.readings.load(Ordering::SeqCst);
        // A failed reading is not repeated for some seconds.
        world
            .wait_until("the list is read", async || {
                assert_eq!(status(&server, &token).await, 503, "{list:?}");
                issuer.readings.load(Ordering::SeqCst) > before
            })
            .await;
        assert_eq!(status(&server, &token).await, 503, "{list:?} after it was read");
        assert_eq!(status(&server, server.token()).await, 200, "{list:?}: the operator's own token is untouched");
    }
    issuer.serve(ServedList::Good);
    world.wait_until("the list is read", async || status(&server, &token).await == 200).await;
    // It is kept for two minutes at most; a token that breaks a rule is refused meanwhile, and not by the missing list.
    issuer.serve(ServedList::Gone);
    assert_eq!(status(&server, &token).await, 200);
    let forged = {
        let (signed, _) = token.rsplit_once('.').expect("a token");
        format!("{signed}.{}", "A".repeat(86))
    };
    assert_eq!(status(&server, &forged).await, 401);
    let (code, log) = tokio::task::spawn_blocking(move || server.terminate()).await.expect("joins");
    assert_eq!(code, Some(0));
    assert!(!log.contains(&token), "no log has a token");
}
