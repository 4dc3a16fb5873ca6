//! Access tokens of an OAuth issuer that is honest, lies, is slow, and rotates its keys.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Json, Router, extract::State, routing::get};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ed25519_dalek::{Signer, SigningKey};
use serde_json::{Value, json};

use crate::e2e::{
    callers::secrets::{ServerChild, spawn_server},
    harness::{network_config, start_network},
};

/// An issuer whose answers the test sets.
#[derive(Clone)]
struct Issuer {
    origin: String,
    state: Arc<Mutex<IssuerState>>,
}

struct IssuerState {
    /// `issuer` in the metadata.
    stated: String,
    keys: Vec<Value>,
    delay: Duration,
    /// Readings of the key set.
    readings: usize,
}

impl Issuer {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let origin = format!("http://{}", listener.local_addr().expect("bound"));
        let state = IssuerState { stated: origin.clone(), keys: Vec::new(), delay: Duration::ZERO, readings: 0 };
        let issuer = Self { origin, state: Arc::new(Mutex::new(state)) };
        let routes = Router::new()
            .route("/.well-known/oauth-authorization-server", get(metadata))
            .route("/keys", get(keys))
            .with_state(issuer.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        issuer
    }

    fn with<R>(&self, work: impl FnOnce(&mut IssuerState) -> R) -> R {
        work(&mut self.state.lock().expect("not poisoned"))
    }
}

async fn metadata(State(issuer): State<Issuer>) -> Json<Value> {
    let (stated, delay) = issuer.with(|state| (state.stated.clone(), state.delay));
    tokio::time::sleep(delay).await;
    Json(json!({"issuer": stated, "jwks_uri": format!("{}/keys", issuer.origin)}))
}

async fn keys(State(issuer): State<Issuer>) -> Json<Value> {
    let keys = issuer.with(|state| {
        state.readings += 1;
        state.keys.clone()
    });
    Json(json!({"keys": keys}))
}

fn public_key(name: &str, key: &SigningKey) -> Value {
    let x = URL_SAFE_NO_PAD.encode(key.verifying_key().to_bytes());
    json!({"kty": "OKP", "crv": "Ed25519", "kid": name, "x": x, "use": "sig"})
}

const AUDIENCE: &str = "https://svc.example/mcp";

fn token(issuer: &Issuer, (name, key): (&str, &SigningKey), scope: &str) -> String {
    let now = svc_kit::wall_clock::now().seconds;
    let head = json!({"alg": "EdDSA", "kid": name, "typ": "at+jwt"});
    let claims = json!({
        "iss": issuer.origin, "aud": AUDIENCE, "exp": now + 600, "iat": now, "sub": "person", "scope": scope,
    });
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", encode(&head), encode(&claims));
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes()).to_bytes()))
}

async fn initialize(server: &ServerChild, token: &str) -> reqwest::Response {
    let info = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let request = reqwest::Client::new().post(&server.url).bearer_auth(token).json(&message);
    request.header("accept", "application/json, text/event-stream").send().await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_an_issuer_are_believed_only_with_its_keys_and_as_a_principal() {
    let world = start_network(network_config(500)).await;
    let issuer = Issuer::start().await;
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("principals.toml");
    std::fs::write(&file, "[[principal]]\nname = \"people\"\noauth_scope = \"svc:read\"\nread_only = true\n")
        .expect("written");
    let (rpc, indexer) = (world.network.devnet.node.origin(), world.network.indexer_origin());
    let (file, origin) = (file.to_str().expect("text").to_owned(), issuer.origin.clone());
    let served = tokio::task::spawn_blocking(move || {
        let settings = [
            ("SVC_OAUTH_ISSUER", origin.as_str()),
            ("SVC_OAUTH_AUDIENCE", AUDIENCE),
            ("SVC_PRINCIPALS", &file),
            ("SVC_ALLOW_PRIVATE_HOSTS", "true"),
        ];
        spawn_server(&rpc, &indexer, &settings)
    });
    let server = served.await.expect("joins");
    let (first, second) = (SigningKey::from_bytes(&[1; 32]), SigningKey::from_bytes(&[2; 32]));
    let status = async |token: &str| initialize(&server, token).await.status().as_u16();
    let status = &status;

    // An issuer that lies about its name is not believed, even with the right keys.
    issuer.with(|state| {
        state.stated = "https://other.example".to_owned();
        state.keys = vec![public_key("one", &first)];
    });
    assert_eq!(status(&token(&issuer, ("one", &first), "svc:read")).await, 503);
    assert_eq!(status(server.token()).await, 200, "static tokens do not depend on the issuer");
    let metadata_url = server.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp");
    let resource: Value = reqwest::get(metadata_url).await.expect("an answer").json().await.expect("JSON");
    assert_eq!(
        (&resource["resource"], &resource["authorization_servers"][0]),
        (&json!(AUDIENCE), &json!(issuer.origin))
    );

    // After the least pause between two readings its honest answer is taken.
    issuer.with(|state| state.stated = issuer.origin.clone());
    let good = token(&issuer, ("one", &first), "openid svc:read");
    world.wait_until("the keys are read again", async || status(&good).await == 200).await;
    let refused = initialize(&server, &token(&issuer, ("one", &first), "openid")).await;
    assert_eq!(refused.status(), 403);
    let challenge = refused.headers()["www-authenticate"].to_str().expect("text").to_owned();
    assert!(challenge.contains("insufficient_scope") && challenge.contains("scope=\"svc:read\""), "{challenge}");
    let forged = initialize(&server, &token(&issuer, ("one", &second), "svc:read")).await;
    assert_eq!(forged.status(), 401);
    let challenge = forged.headers()["www-authenticate"].to_str().expect("text").to_owned();
    assert!(challenge.contains("invalid_token") && challenge.contains("resource_metadata="), "{challenge}");

    // Unknown keys make the server ask rarely, however many tokens name them.
    let before = issuer.with(|state| state.readings);
    // Each is slowed, and they come at once.
    let unknown = (0..200).map(|number| {
        let token = token(&issuer, (&format!("unknown {number}"), &second), "svc:read");
        async move { assert_ne!(status(&token).await, 200) }
    });
    futures::future::join_all(unknown).await;
    assert!(issuer.with(|state| state.readings) <= before + 3);

    // A rotated key is found; the withdrawn one is not believed any more.
    issuer.with(|state| state.keys = vec![public_key("two", &second)]);
    let of_second = token(&issuer, ("two", &second), "svc:read");
    world.wait_until("the new key is read", async || status(&of_second).await == 200).await;
    assert_eq!(status(&good).await, 401);

    // A slow issuer delays no token of a known key.
    issuer.with(|state| state.delay = Duration::from_secs(3600));
    let slow = tokio::spawn({
        let (url, unknown) = (server.url.clone(), token(&issuer, ("three", &first), "svc:read"));
        async move {
            reqwest::Client::new().post(url).bearer_auth(unknown).body("{}").send().await.map(|answer| answer.status())
        }
    });
    assert_eq!((status(&of_second).await, status(server.token()).await), (200, 200));
    assert_ne!(slow.await.expect("joins").expect("an answer"), 200);
}
