//! A tool server that takes the tokens of an agent's peers: each reads the registry, and nothing of the operator.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use svc::mcp_client::McpClient;
use svc_agent::PeerAccessRequest;
use svc_trust::access::{AccessClaims, sign_access_token};

use crate::e2e::{
    agent::{
        endpoints::access::{AccessWorld, URL, token_of},
        messages::scripted_peer::{now, signing_key},
    },
    callers::secrets::{ServerChild, spawn_server},
    harness::call_tool,
};

/// A tool server behind the entry of the first agent.
async fn serve(access: &AccessWorld) -> ServerChild {
    let network = &access.world.network;
    let (rpc, indexer, issuer) = (network.devnet.node.origin(), network.indexer_origin(), access.world.agent_did(0));
    let served = tokio::task::spawn_blocking(move || {
        let settings = [
            ("SVC_PEER_ISSUER", issuer.as_str()),
            // It may sit behind a proxy: tokens name the entry's URL and not the address of the process.
            ("SVC_PEER_AUDIENCE", URL),
            ("SVC_ALLOW_PRIVATE_HOSTS", "true"),
        ];
        spawn_server(&rpc, &indexer, &settings)
    });
    served.await.expect("joins")
}

/// The answer to a request with a token: its status, its challenge and its body.
async fn request(server: &ServerChild, path: &str, token: &str) -> (u16, String, String) {
    let info = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let url = server.url.replace("/mcp", path);
    let request = match path {
        "/mcp" => reqwest::Client::new().post(url).json(&message),
        _ => reqwest::Client::new().get(url),
    };
    let request = request.bearer_auth(token).header("accept", "application/json, text/event-stream");
    let answer = request.send().await.expect("an answer");
    let challenge = answer.headers().get("www-authenticate").map(|value| value.to_str().expect("text").to_owned());
    (answer.status().as_u16(), challenge.unwrap_or_default(), answer.text().await.unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_reads_the_registry_by_its_token_and_sees_nothing_else() {
    let access = AccessWorld::start().await;
    let server = serve(&access).await;
    let granted = access.ask("mcp").await.expect("granted");
    let client = McpClient::connect(&server.url, token_of(&granted)).await.expect("connects");
    let tools = client.list_tools().await.expect("a list");
    let mut surfaces: Vec<&str> =
        tools.iter().map(|tool| tool.name.split(['.', '_']).nth(1).unwrap_or_default()).collect();
    surfaces.dedup();
    surfaces.sort_unstable();
    surfaces.dedup();
    // Without a graph its tools are not listed.
    assert_eq!(surfaces, ["cosmos", "idx"], "of {} tools", tools.len());
    let read = call_tool(&client, "svc.idx.es.getEcosystem", json!({"id": 1})).await;
    assert!(!read.is_error && read.content.to_string().contains("did:"), "{:#}", read.content);
    for refused in ["svc.ledger.es.createEcosystem", "svc.wallet.getStatus", "svc.vsa.getAgentInfo"] {
        let answer = call_tool(&client, refused, json!({})).await;
        assert!(answer.is_error, "{refused}: {:#}", answer.content);
    }
    assert!(client.read_resource("svc://own/status").await.is_err(), "no resource of the operator");
    assert_eq!(request(&server, "/approvals", token_of(&granted)).await.0, 403);
    assert_eq!(request(&server, "/approvals", server.token()).await.0, 200, "the operator's own token is untouched");
    // One tool.
    let scopes = Some(vec!["mcp:tool:svc.idx.es.getecosystem".to_owned()]);
    let asked = PeerAccessRequest { endpoint: access.endpoint("mcp"), scopes, ..PeerAccessRequest::default() };
    let narrow = access.ask_with(asked).await.expect("granted");
    let one = McpClient::connect(&server.url, token_of(&narrow)).await.expect("connects");
    let names: Vec<String> =
        one.list_tools().await.expect("a list").iter().map(|tool| tool.name.replace('_', ".")).collect();
    assert_eq!(names, ["svc.idx.es.getEcosystem"]);
    assert!(call_tool(&one, "svc.idx.pp.getParticipant", json!({"id": 1})).await.is_error);
    let (code, log) = tokio::task::spawn_blocking(move || server.terminate()).await.expect("joins");
    assert_eq!(code, Some(0));
    assert!(!log.contains(token_of(&granted)) && !log.contains(token_of(&narrow)), "no log has a token");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_break_a_rule_get_one_answer_and_revoked_ones_are_out() {
    let access = AccessWorld::start().await;
    let server = serve(&access).await;
    let granted = access.ask("mcp").await.expect("granted");
    let good = token_of(&granted).to_owned();
    assert_eq!(request(&server, "/mcp", &good).await.0, 200);
    let owner = access.world.agent(0);
    let did = access.world.agent_did(0);
    let keys = owner.store().private_keys(&did).await.expect("keys");
    let key = keys.iter().find(|key| key.name == "access").expect("a key of tokens");
    let key = ed25519_dalek::SigningKey::from_bytes(&key.secret);
    let published = owner.keeper().published();
    let key_id = published.document.token_keys()[0].to_owned();
    let assertion = published.document.as_json()["assertionMethod"][0].as_str().expect("a key").to_owned();
    let claims = AccessClaims {
        issuer: did.clone(),
        subject: access.world.agent_did(1),
        audience: URL.to_owned(),
        endpoint: access.endpoint("mcp"),
        scopes: vec!["mcp:read".to_owned()],
        issued_at: now(),
        expires_at: now() + 600,
        id: "forged".to_owned(),
    };
    let sign = |change: &dyn Fn(&mut AccessClaims)| {
        let mut claims = claims.clone();
        change(&mut claims);
        sign_access_token(&claims, &key_id, &key)
    };
    assert_eq!(request(&server, "/mcp", &sign(&|_| {})).await.0, 200, "the forms of the table are good otherwise");
    let by_assertion_key = sign_access_token(&claims, &assertion, &signing_key(owner).await);
    let unsigned = {
        let header = URL_SAFE_NO_PAD.encode(json!({"alg": "none", "typ": "at+jwt", "kid": key_id}).to_string());
        let (_, rest) = good.split_once('.').expect("a token");
        format!("{header}.{rest}")
    };
    let mut answers = Vec::new();
    for (name, token) in [
        ("another audience", sign(&|claims| claims.audience = "https://other.example/mcp".to_owned())),
        ("another issuer", sign(&|claims| claims.issuer = access.world.agent_did(1))),
        ("expired", sign(&|claims| (claims.issued_at, claims.expires_at) = (now() - 700, now() - 100))),
        ("of the future", sign(&|claims| (claims.issued_at, claims.expires_at) = (now() + 100, now() + 700))),
        ("16 minutes long", sign(&|claims| claims.expires_at = claims.issued_at + 960)),
        ("no DID", sign(&|claims| claims.subject = "peer".to_owned())),
        (
            "a scope for writes",
            sign(&|claims| claims.scopes = vec!["mcp:tool:svc.ledger.es.createecosystem".to_owned()]),
        ),
        ("another scope", sign(&|claims| claims.scopes = vec!["ledger".to_owned()])),
        ("a key for assertions only", by_assertion_key),
        ("unsigned", unsigned),
        ("9 KB", sign(&|claims| claims.id = "x".repeat(9_000))),
        ("two signatures", format!("{good}.{}", good.rsplit_once('.').expect("a part").1)),
    ] {
        let answer = request(&server, "/mcp", &token).await;
        assert_eq!(answer.0, 401, "{name}: {answer:?}");
        answers.push(answer);
    }
    let first = answers[0].clone();
    assert!(first.1.contains("error=\"invalid_token\""), "{first:?}");
    assert!(answers.iter().all(|answer| *answer == first), "one text for all");
    // A revoked grant is out when the list is read again.
    let id = {
        let (_, rest) = good.split_once('.').expect("a token");
        let claims = URL_SAFE_NO_PAD.decode(rest.split('.').next().expect("claims")).expect("base64");
        serde_json::from_slice::<Value>(&claims).expect("JSON")["jti"].as_str().expect("an id").to_owned()
    };
    owner.access().revoke(&id, "by hand").await.expect("revoked");
    access.world.wait_until("the list is read again", async || request(&server, "/mcp", &good).await.0 == 401).await;
    // A peer that has turned to another token goes on.
    let next = access.ask_again("mcp", &granted).await.expect("granted");
    assert_eq!(request(&server, "/mcp", token_of(&next)).await.0, 200);
}
