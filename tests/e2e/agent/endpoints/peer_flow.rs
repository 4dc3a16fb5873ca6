//! The peer flow, whole: `svc peer` of an owner of an agent, the endpoints of another one, and the websites of `examples/peer`.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    http::{HeaderMap, StatusCode},
    response::IntoResponse,
    routing::get,
};
use serde_json::{Value, json};
use svc_net::host_policy::HostPolicy;
use svc_peer::verifier::{
    AccessRejection, AccessToken, PresentationRules, PresentationVerifier, TokenRejection, TokenVerifier,
};

use self::website::Website;
use crate::e2e::{
    agent::{
        credentials::identity_process::did_of,
        endpoints::access::write_private,
        messages::scripted_peer::now,
        processes::{
            agent_process::PeerOutput,
            two_agents::{TwoAgents, ValidatorPlace},
        },
        take_port,
    },
    callers::secrets::{ServerChild, spawn_server},
    harness::TEST_TIMEOUT,
};

#[path = "../../../../examples/peer/website.rs"]
mod website;

pub(in crate::e2e::agent) const CONDITIONS: &str = r##"
    [[endpoint]]
    id = "mcp"
    material = "bearer"
    scopes = ["mcp:read", "mcp:tool:svc.idx.es.getecosystem"]
    default_scopes = ["mcp:read"]
    allow = "*"
    [[endpoint]]
    id = "read"
    material = "bearer"
    scopes = ["read"]
    default_scopes = ["read"]
    token_seconds = 60
    allow = "*"
    [[endpoint]]
    id = "turnstile"
    material = "bearer"
    scopes = []
    allow = "*"
    [[endpoint]]
    id = "members"
    material = "credential"
    schema_id = SCHEMA
    issuer = "ISSUER"
    allow = "*"
    [[endpoint]]
    id = "api"
    material = "key"
    header = "X-Api-Key"
    value_file = "api.key"
    allow = ["CALLER"]
    [[endpoint]]
    id = "closed"
    material = "bearer"
    allow = []
"##;

/// Two agents, and servers behind endpoints of the validator.
pub(in crate::e2e::agent) struct PeerWorld {
    pub(in crate::e2e::agent) agents: TwoAgents,
    /// DID of the validator, whose endpoints are called.
    pub(in crate::e2e::agent) owner: String,
    terms: tempfile::TempDir,
    /// Reserved for the tool server.
    mcp: SocketAddr,
}

impl PeerWorld {
    pub(in crate::e2e::agent) async fn start_unknown(place: ValidatorPlace) -> Self {
        let terms = tempfile::tempdir().expect("a directory");
        write_private(&terms.path().join("api.key"), "planted-key-value\n");
        write_private(&terms.path().join("access.toml"), "");
        let file = terms.path().join("access.toml").to_str().expect("a text").to_owned();
        let mut settings =
            BTreeMap::from([("ENDPOINT_ACCESS_FILE", file), ("ENDPOINT_ACCESS_RATE_PER_PEER", "600".to_owned())]);
        settings.extend(place.settings.clone());
        let agents = TwoAgents::start_unknown(ValidatorPlace { settings, ..place }).await;
        let owner = did_of(&agents.validator).await;
        let (listener, mcp) = take_port(0);
        drop(listener);
        Self { agents, owner, terms, mcp }
    }

    /// Sets the conditions of entries that the document has, and waits until they are published.
    pub(in crate::e2e::agent) async fn set_conditions(&self, text: &str) {
        let count = text.matches("[[endpoint]]").count();
        write_private(&self.terms.path().join("access.toml"), text);
        let pid = rustix::process::Pid::from_child(&self.agents.validator.child);
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("sent");
        let url = format!("http://localhost:{}/endpoint-access.json", self.agents.validator_home.public);
        let read = async || reqwest::get(&url).await.expect("served").json::<Value>().await.expect("JSON");
        let is_published = async || read().await["endpoints"].as_array().is_some_and(|all| all.len() == count);
        self.agents.world.wait_until("the conditions are published", is_published).await;
    }

    /// The conditions of the six endpoints with one.
    pub(in crate::e2e::agent) fn conditions(&self) -> String {
        let schema = self.agents.world.network.devnet.address("service.schema").to_owned();
        let text = CONDITIONS.replace("SCHEMA", &schema).replace("ISSUER", &self.owner);
        text.replace("CALLER", &self.agents.applicant_did)
    }

    /// `svc peer call` of the caller, by the fragment of the endpoint.
    pub(in crate::e2e::agent) async fn call(&self, words: &[&str]) -> PeerOutput {
        let endpoint = self.endpoint(words[0]);
        self.agents.applicant_home.peer(&[&["call", endpoint.as_str()], &words[1..]].concat()).await
    }

    pub(in crate::e2e::agent) async fn put_entry(&self, fragment: &str, kind: &str, url: &str) {
        let body = json!({"id": fragment, "type": kind, "serviceEndpoint": url});
        let added = self.agents.validator.send("POST", "/v2/vt/service-endpoints", Some(&body)).await;
        assert_eq!(added.status, 200, "{}", added.body);
    }

    pub(in crate::e2e::agent) fn endpoint(&self, fragment: &str) -> String {
        format!("{}#{fragment}", self.owner)
    }

    /// The tool server behind the entry mcp, at its own URL.
    pub(in crate::e2e::agent) async fn serve_tools(&self, more: &[(&'static str, String)]) -> ServerChild {
        let more = more.to_vec();
        let network = &self.agents.world.network;
        let (rpc, indexer, issuer) = (network.devnet.node.origin(), network.indexer_origin(), self.owner.clone());
        let (port, audience) = (self.mcp.port().to_string(), format!("http://{}/mcp", self.mcp));
        let served = tokio::task::spawn_blocking(move || {
            let own = [
                ("SVC_PEER_ISSUER", issuer.as_str()),
                ("SVC_PEER_AUDIENCE", audience.as_str()),
                ("SVC_ALLOW_PRIVATE_HOSTS", "true"),
                ("MCP_HTTP_PORT", port.as_str()),
            ];
            let settings: Vec<(&str, &str)> =
                own.into_iter().chain(more.iter().map(|(name, value)| (*name, value.as_str()))).collect();
            spawn_server(&rpc, &indexer, &settings)
        });
        served.await.expect("joins")
    }

    /// The rules of an endpoint for holders of a service credential of the owner.
    fn presentation_rules(&self, audience: String) -> PresentationRules {
        let network = &self.agents.world.network;
        PresentationRules {
            audience,
            schema_id: self.agents.world.id_of("service.schema"),
            issuer: self.owner.clone(),
            indexer: network.indexer_origin(),
            schema_prefix: format!("vpr:{}:{}:cs:", network.devnet.namespace.as_str(), network.devnet.chain_id),
            hosts: HostPolicy::AllowPrivate,
        }
    }

    /// A presentation of the caller for the endpoint `members`.
    async fn present(&self) -> String {
        let body = json!({"endpoint": self.endpoint("members")});
        let material = self.agents.applicant.send("POST", "/v2/vt/access-requests", Some(&body)).await.body;
        let body = json!({"requestId": material["requestId"]});
        let presented = self.agents.applicant.send("POST", "/v2/vt/access-presentations", Some(&body)).await.body;
        presented["presentation"].as_str().expect("a presentation").to_owned()
    }

    /// The websites of the example, and two pages of software that knows nothing of this project.
    pub(in crate::e2e::agent) async fn serve_pages(&self) -> (String, Arc<Mutex<Vec<String>>>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let origin = format!("http://{}", listener.local_addr().expect("an address"));
        let rules = self.presentation_rules(format!("{origin}/members"));
        let site = Website {
            tokens: TokenVerifier::new(&self.owner, &format!("{origin}/read"), HostPolicy::AllowPrivate)
                .expect("a verifier"),
            members: Some(PresentationVerifier::new(rules).expect("a verifier")),
        };
        let by_key = get(async |headers: HeaderMap| match headers.get("x-api-key") {
            Some(key) if key == "planted-key-value" => "hello key".into_response(),
            _ => StatusCode::UNAUTHORIZED.into_response(),
        });
        // The first token that it sees is not good enough.
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = Arc::clone(&seen);
        let turnstile = get(async move |headers: HeaderMap| {
            let token = headers.get("authorization").map(|value| value.to_str().expect("text").to_owned());
            let mut seen = noted.lock().expect("not poisoned");
            seen.extend(token);
            if seen.len() == 1 { StatusCode::UNAUTHORIZED.into_response() } else { "hello again".into_response() }
        });
        let pages = website::router(Arc::new(site))
            .route("/api", by_key)
            .route("/turnstile", turnstile)
            .route("/open", get(async || "hello \u{1b}[2Jall"));
        tokio::spawn(async move { axum::serve(listener, pages).await });
        (origin, seen)
    }

    /// Serves every endpoint that has a condition: the tool server, the pages, and the headers that the turnstile has seen.
    pub(in crate::e2e::agent) async fn serve_endpoints(&self) -> (ServerChild, String, Arc<Mutex<Vec<String>>>) {
        let tools = self.serve_tools(&[]).await;
        let (pages, seen_at_turnstile) = self.serve_pages().await;
        self.put_entry("mcp", "MCP", &tools.url).await;
        for page in ["read", "members", "api", "turnstile", "open", "closed"] {
            self.put_entry(page, "Website", &format!("{pages}/{page}")).await;
        }
        self.set_conditions(&self.conditions()).await;
        (tools, pages, seen_at_turnstile)
    }

    /// A token of the owner for the caller, by the admin API of the caller's agent.
    pub(in crate::e2e::agent) async fn token_for(&self, fragment: &str) -> String {
        let body = json!({"endpoint": self.endpoint(fragment)});
        let granted = self.agents.applicant.send("POST", "/v2/vt/access-requests", Some(&body)).await;
        granted.body["token"].as_str().unwrap_or_else(|| panic!("{}", granted.body)).to_owned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_a_flow_has_made_trusted_calls_each_kind_of_endpoint() {
    let world = PeerWorld::start_unknown(ValidatorPlace::default()).await;
    let (owner_home, caller_home) = (&world.agents.validator_home, &world.agents.applicant_home);
    // Step 1 refuses a DID that the registry does not name.
    let caller_did = world.agents.applicant_did.clone();
    for unknown in [caller_did.as_str(), "did:web:stranger.example"] {
        owner_home.peer(&["trust", unknown]).await.failed(3, "is not trusted");
        owner_home.peer(&["call", &format!("{unknown}#mcp"), "--list"]).await.failed(3, "unknown_did");
    }
    world.agents.admit().await;
    let (tools, pages, seen_at_turnstile) = world.serve_endpoints().await;
    world.put_entry("other", "LinkedDomains", &pages).await;
    let call = async |words: &[&str]| world.call(words).await;

    let trust = caller_home.peer(&["trust", &world.owner]).await;
    for expected in ["trusted   yes: participant", "over DIDComm", "requires: bearer [mcp:read", "credential of schema"]
    {
        assert!(trust.done().contains(expected), "{expected} in {trust:?}");
    }
    let resolved = caller_home.peer(&["trust", &world.owner, "--json"]).await;
    let resolved: Value = serde_json::from_str(resolved.done()).expect("JSON");
    assert_eq!((&resolved["trusted"], &resolved["canBeAsked"]), (&json!(true), &json!(true)));

    // Each material ends in a call.
    let ecosystem = call(&["mcp", "svc.idx.es.getEcosystem", "{\"id\": 1}"]).await;
    assert!(ecosystem.done().contains("did:"), "{ecosystem:?}");
    assert!(call(&["mcp", "--list"]).await.done().contains("getEcosystem"));
    assert_eq!(call(&["read"]).await.done(), format!("hello {caller_did}\n"));
    assert_eq!(call(&["members"]).await.done(), format!("hello member {caller_did}\n"));
    assert_eq!(call(&["members"]).await.done(), format!("hello member {caller_did}\n"), "a presentation for each call");
    // Each presentation opens the page once, and one that is too long never.
    let presentation = world.present().await;
    let long = format!("{presentation}{}", "x".repeat(9_000));
    for (presentation, expected) in [(&long, 401), (&presentation, 200), (&presentation, 401)] {
        let request = reqwest::Client::new().get(format!("{pages}/members")).bearer_auth(presentation);
        assert_eq!(request.send().await.expect("an answer").status(), expected);
    }
    // A server that is down decides nothing about the credential.
    let registrar = world.agents.world.network.devnet.services.as_ref().expect("services");
    for (status, is_taken) in [(Some(503), false), (None, true)] {
        registrar.refuse_pages("registrar", status);
        let rules = world.presentation_rules(format!("{pages}/members"));
        let verified = PresentationVerifier::new(rules).expect("a verifier").verify(&world.present().await).await;
        match verified {
            Ok(presented) => assert!(is_taken && presented.did == caller_did, "{presented:?}"),
            Err(error) => assert!(!is_taken && matches!(error, TokenRejection::Unavailable(_)), "{error:?}"),
        }
    }
    assert_eq!(call(&["api"]).await.done(), "hello key\n");
    // A page cannot command the terminal.
    assert_eq!(call(&["open"]).await.done(), "hello \\u{1b}[2Jall\n");
    assert_eq!(call(&["open", "--no-session"]).await.done(), "hello \\u{1b}[2Jall\n");
    // A 401 is answered by another token, once.
    assert_eq!(call(&["turnstile"]).await.done(), "hello again\n");
    {
        let seen = seen_at_turnstile.lock().expect("not poisoned");
        assert!(seen.len() == 2 && seen[0] != seen[1] && seen[0].starts_with("Bearer "), "two tokens");
    }
    // Everything that can go wrong says its step and the way on.
    call(&["mcp", "--list", "--scopes", "other"]).await.failed(5, "step request");
    let one_tool = ["mcp", "--list", "--scopes", "mcp:tool:svc.idx.es.getecosystem"];
    assert_eq!(call(&one_tool).await.done().lines().count(), 1);
    call(&["closed"]).await.failed(5, "must name the DID of this agent");
    call(&["mcp", "svc.ledger.es.createEcosystem", "{}"]).await.failed(7, "step call");
    call(&["mcp", "svc.idx.es.getEcosystem", "{}"]).await.failed(7, "step call");
    call(&["other"]).await.failed(8, "LinkedDomains");
    call(&["missing"]).await.failed(2, "has no endpoint");
    call(&["mcp"]).await.failed(2, "--list");
    call(&["read", "--no-session"]).await.failed(7, "401");
    caller_home.peer(&["call", "nonsense"]).await.failed(2, "is no DID URL");
    let away = [("SVC_PEER_AGENT", "unix:/nowhere/at/all.sock")];
    caller_home.peer_with(&["trust", &world.owner], "", &away).await.failed(6, "no agent answers");
    let private = [("SVC_ALLOW_PRIVATE_HOSTS", "false")];
    caller_home.peer_with(&["call", &world.endpoint("open")], "", &private).await.failed(6, "nothing was sent");
    let refused = call(&["closed", "--json"]).await;
    let envelope: Value = serde_json::from_str(&refused.output).expect("JSON");
    assert_eq!(
        (&envelope["error"]["stage"], &envelope["error"]["code"], &envelope["error"]["retryable"]),
        (&json!("request"), &json!("not_allowed"), &json!(false))
    );

    // A token is for one endpoint, and ends.
    let token = world.token_for("read").await;
    let verifier = |audience: &str| TokenVerifier::new(&world.owner, audience, HostPolicy::AllowPrivate).expect("one");
    let verify_token = async |token: &str, audience: &str, at: i64| {
        let token = AccessToken::read(token).expect("readable");
        verifier(audience).verify(&token, &|_| true, at).await
    };
    let verify = async |audience: &str, at: i64| verify_token(&token, audience, at).await;
    let page = format!("{pages}/read");
    assert_eq!(verify(&page, now()).await.expect("valid").subject, caller_did);
    let invalid = |reason| Err(TokenRejection::Invalid(reason));
    assert_eq!(verify(&tools.url, now()).await, invalid(AccessRejection::Audience));
    assert_eq!(verify(&page, now() + 95).await, invalid(AccessRejection::Time), "a minute and the leeway later");

    // Each endpoint refuses the token of the other.
    let client = reqwest::Client::new();
    let swapped = [
        client.get(&page).bearer_auth(world.token_for("mcp").await),
        client.post(&tools.url).bearer_auth(&token).json(&json!({})),
    ];
    for request in swapped {
        assert_eq!(request.send().await.expect("an answer").status(), 401);
    }

    // Revoked grants are replaced by the next call; those of a peer that has lost its trust are not.
    let (is_ok, revoked) = owner_home.run(&["access", "revoke", "--all"]).await;
    assert!(is_ok && revoked.contains("revoked"), "{revoked}");
    assert!(call(&["mcp", "--list"]).await.done().contains("getEcosystem"));
    let holders = json!({"did": caller_did, "role": "HOLDER"});
    let listed = world.agents.world.call_ok("svc.idx.pp.listParticipants", holders).await;
    let schema = world.agents.world.id_of("service.schema");
    let rows = listed["participants"].as_array().expect("a list");
    let holder = rows.iter().find(|one| one["schema_id"] == schema).expect("a holder")["id"].clone();
    let last = world.token_for("mcp").await;
    world.agents.world.call_ok("svc.ledger.pp.revokeParticipant", json!({"id": holder})).await;
    world.agents.world.await_verdict_on(&caller_did, |verdict| verdict["trusted"] == false).await;
    // An untrusted peer gets one answer a minute, so that the first denial counts.
    let denied = loop {
        let last = call(&["mcp", "--list"]).await;
        if last.status != Some(0) {
            break last;
        }
    };
    denied.failed(5, "`svc agent init`");
    owner_home.peer(&["trust", &caller_did]).await.failed(3, "is not trusted");
    // Its grant ends with its trust, before the token does by itself.
    let ended = async {
        while verify_token(&last, &tools.url, now()).await != invalid(AccessRejection::Revoked) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, ended).await.expect("the grant is revoked");
    let (code, log) = tokio::task::spawn_blocking(move || tools.terminate()).await.expect("joins");
    assert_eq!(code, Some(0));
    assert!(!log.contains(&token), "no log has a token");
}
