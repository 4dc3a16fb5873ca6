//! Logins of external callers, and the callers that need none.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use svc_agent::DidMethod;
use svc_wire::{account_key::AccountKey, adr036};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::e2e::agent::{AgentServer, Mode, answer, request, sqlite_url};

pub fn key(seed: u8) -> AccountKey {
    AccountKey::from_bytes(&[seed; 32]).expect("a key")
}

pub fn account(seed: u8) -> String {
    key(seed).public_key().address("svc").expect("an address").as_str().to_owned()
}

async fn sign_challenge(server: &AgentServer, seed: u8) -> Value {
    let body = json!({"account": account(seed)}).to_string();
    let challenge = server.send("POST", "/v2/auth/challenge", Some(&body)).await;
    assert_eq!((challenge.status, &challenge.body["audience"]), (200, &json!(server.admin)));
    let nonce = challenge.body["nonce"].as_str().expect("a nonce");
    let address = key(seed).public_key().address("svc").expect("an address");
    let payload = format!("vs-agent-admin-auth:{}:{nonce}", server.admin);
    json!({
        "account": account(seed), "nonce": nonce, "pubKey": STANDARD.encode(key(seed).public_key().as_bytes()),
        "signature": adr036::sign_arbitrary(&key(seed), &payload, &address).expect("signed"),
    })
}

async fn list_with(server: &AgentServer, token: &str) -> (u16, Value) {
    let listed = request("GET", &format!("{}/v2/vt/service-endpoints", server.admin)).bearer_auth(token);
    let listed = answer(listed).await;
    (listed.status, listed.body)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_on_the_list_logs_in_and_every_other_caller_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let server =
        AgentServer::start(directory.path(), &sqlite_url(directory.path()), DidMethod::WebVh, Mode::Corporation).await;
    let unknown = server.send("GET", "/v2/vt/service-endpoints", None).await;
    assert_eq!(unknown.error(), (401, "UNAUTHENTICATED"));
    assert_eq!(server.send("GET", "/v2/nothing", None).await.error(), (401, "UNAUTHENTICATED"));
    for path in ["/metrics", "/openapi.json"] {
        assert_eq!(server.send("GET", path, None).await.error(), (403, "FORBIDDEN"), "{path}");
    }
    // Neither asks for a login. Node and indexer are not there.
    assert_eq!(server.send("GET", "/v2/agent/health/live", None).await.status, 200);
    let ready = server.send("GET", "/v2/agent/health/ready", None).await;
    assert_eq!(
        (ready.error(), &ready.body["error"]["details"]["waiting"]),
        ((503, "NOT_READY"), &json!(["node", "indexer"]))
    );

    let proof = sign_challenge(&server, 1).await;
    let granted = server.send("POST", "/v2/auth/token", Some(&proof.to_string())).await;
    let token = granted.body["token"].as_str().expect("a token").to_owned();
    let (status, listed) = list_with(&server, &token).await;
    assert_eq!(
        (status, &listed["items"][0]["type"], &listed["items"][0]["managed"]),
        (200, &json!("VsAgentAdminAPI"), &json!(true))
    );
    assert_eq!(listed["items"][0]["serviceEndpoint"], json!(server.admin));
    let path = "/v2/vt/service-endpoints/%23admin-api";
    let deleted = answer(request("DELETE", &format!("{}{path}", server.admin)).bearer_auth(&token)).await;
    assert_eq!(deleted.error(), (409, "ADMIN_API_ENTRY"));
    let replayed = server.send("POST", "/v2/auth/token", Some(&proof.to_string())).await;
    assert_eq!(replayed.error(), (401, "UNAUTHENTICATED"));

    let stranger = sign_challenge(&server, 2).await;
    let granted = server.send("POST", "/v2/auth/token", Some(&stranger.to_string())).await;
    let (status, refused) = list_with(&server, granted.body["token"].as_str().expect("a token")).await;
    assert_eq!((status, &refused["error"]["code"]), (403, &json!("FORBIDDEN")));
    assert_eq!(list_with(&server, "x").await.0, 401);

    // A wrong body does not use the nonce up.
    let proof = sign_challenge(&server, 1).await;
    let mut without = proof.clone();
    without.as_object_mut().expect("members").remove("signature");
    assert_eq!(server.send("POST", "/v2/auth/token", Some(&without.to_string())).await.error(), (400, "INVALID_INPUT"));
    assert_eq!(server.send("POST", "/v2/auth/token", Some(&proof.to_string())).await.status, 200);
    let foreign = json!({"account": "cosmos19rl4cm2hmr8afy4kldpxz3fka4jguq0auqdal4"}).to_string();
    assert_eq!(server.send("POST", "/v2/auth/challenge", Some(&foreign)).await.error(), (400, "INVALID_INPUT"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_under_way_survives_ten_thousand_challenges_of_strangers() {
    let directory = tempfile::tempdir().expect("a directory");
    let server =
        AgentServer::start(directory.path(), &sqlite_url(directory.path()), DidMethod::Web, Mode::Corporation).await;
    let proof = sign_challenge(&server, 1).await;
    for _ in 0..10_000 {
        let tokens = server.agent.tokens().expect("logins");
        tokens.challenge(account(1)).await.expect("a challenge");
    }
    assert_eq!(server.send("POST", "/v2/auth/token", Some(&proof.to_string())).await.status, 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_mode_internal_a_proxy_and_a_browser_are_refused_and_the_local_socket_is_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let server =
        AgentServer::start(directory.path(), &sqlite_url(directory.path()), DidMethod::Web, Mode::Internal).await;
    for (name, value) in [
        ("x-forwarded-for", "127.0.0.1"),
        ("forwarded", "for=127.0.0.1"),
        ("origin", "https://attacker.example"),
        ("host", "rebound.example"),
    ] {
        for path in ["/v2/agent/info", "/v2/auth/challenge", "/metrics"] {
            let refused = answer(request("GET", &format!("{}{path}", server.admin)).header(name, value)).await;
            assert_eq!(refused.error(), (403, "FORBIDDEN"), "{name}: {value} {path}");
        }
    }
    let mut socket = tokio::net::UnixStream::connect(directory.path().join("agent.sock")).await.expect("connects");
    let text =
        "GET /v2/agent/info HTTP/1.1\r\nhost: agent\r\nx-forwarded-for: 203.0.113.9\r\nconnection: close\r\n\r\n";
    socket.write_all(text.as_bytes()).await.expect("written");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.expect("answered");
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("\"did\""), "{answer}");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(directory.path().join("agent.sock")).expect("there").permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    server.stop().await;
}
