//! A fake graph service and a fake agent, as the contract describes them, and the WebSocket of proxies before real services.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, Uri, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use svc_net::websocket::server as websocket_server;
use svc_wire::{account_key::PublicKey, address::Address, adr036, timestamp};
use tokio::sync::watch;
use tokio_tungstenite::{connect_async, tungstenite::Message};

async fn serve_router(router: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// Forwards a WebSocket to a URL; `retell` makes the messages that a client hears in the place of one of the server.
pub fn forward_websocket(
    request: &mut Request,
    url: String,
    retell: impl Fn(Message) -> Vec<Message> + Send + Sync + 'static,
) -> Response {
    forward_websocket_until(request, url, retell, std::future::pending())
}

/// Forwards a WebSocket until `cut` ends.
pub fn forward_websocket_until(
    request: &mut Request,
    url: String,
    retell: impl Fn(Message) -> Vec<Message> + Send + Sync + 'static,
    cut: impl Future<Output = ()> + Send + 'static,
) -> Response {
    let pump = move |socket: websocket_server::ServerSocket| async move {
        let (upstream, _) = connect_async(url).await.expect("the server is there");
        let ((mut to_client, mut from_client), (mut to_server, mut from_server)) = (socket.split(), upstream.split());
        let down = async {
            while let Some(Ok(message)) = from_server.next().await {
                for message in retell(message) {
                    if to_client.send(message).await.is_err() {
                        return;
                    }
                }
            }
        };
        let up = async {
            while let Some(Ok(message)) = from_client.next().await {
                if to_server.send(message).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! { () = down => {}, () = up => {}, () = cut => {} }
    };
    websocket_server::accept(request, 1 << 20, pump).map(Body::from)
}

/// A graph service: it answers per query, and its progress is set by the test.
pub struct FakeGraph {
    pub origin: String,
    pub height: watch::Sender<u64>,
    queries: Arc<Mutex<Vec<Value>>>,
}

#[derive(Clone)]
struct FakeGraphState {
    asked: Arc<Mutex<Vec<Value>>>,
    height: watch::Sender<u64>,
}

impl FakeGraph {
    pub async fn start() -> Self {
        let (height, asked) = (watch::Sender::new(0), Arc::<Mutex<Vec<Value>>>::default());
        let state = FakeGraphState { asked: Arc::clone(&asked), height: height.clone() };
        let router = Router::new()
            .route("/v4/graph/traverse", post(traverse))
            .route("/v4/graph/search", post(search))
            .route("/v4/graph/blocks/subscribe", get(progress))
            .with_state(state);
        Self { origin: format!("http://{}", serve_router(router).await), height, queries: asked }
    }

    /// All requests, in order.
    pub fn queries(&self) -> Vec<Value> {
        self.queries.lock().expect("the list").clone()
    }
}

async fn traverse(State(state): State<FakeGraphState>, Json(body): Json<Value>) -> Response {
    state.asked.lock().expect("the list").push(body.clone());
    if body["input"]["did"] == "did:web:unknown.example" {
        let error = json!({"error": {"code": "UNKNOWN_ID", "message": "did not stored"}});
        return (StatusCode::NOT_FOUND, Json(error)).into_response();
    }
    let answer = json!({
        "query": body["query"], "evaluatedAtTime": "2026-01-01T00:00:00.000Z",
        "output": sample_output(body["query"].as_str().unwrap_or_default()), "nextCursor": null,
    });
    Json(answer).into_response()
}

/// Outputs in the shapes of the graph's contract.
fn sample_output(query: &str) -> Value {
    let seen = "2026-01-01T00:00:00.000Z";
    let did = json!({"did": "did:web:a.example", "lastObservedAtTime": seen, "isTrustExpired": false});
    let corporation = json!({"id": 1, "did": "did:web:c.example", "lastObservedAtTime": seen});
    let ecosystem =
        json!({"id": 1, "did": "did:web:e.example", "corporationId": 1, "archived": false, "lastObservedAtTime": seen});
    let schema = json!({
        "id": 1, "type": "JsonSchema", "digestSri": "sha384-AAEC", "archived": false, "lastObservedAtTime": seen,
    });
    let participant = json!({
        "id": 2, "didId": "did:web:a.example", "role": "ISSUER", "state": "ACTIVE", "credentialSchemaId": 1,
        "ecosystemId": 1, "validatorParticipantId": 1, "lastObservedAtTime": seen,
    });
    let vtc = json!({
        "id": "urn:uuid:1", "credentialSchemaId": 1, "ecosystemId": 1, "participantId": 2, "issuerParticipantId": 2,
        "lastObservedAtTime": seen,
    });
    let framework = json!({"version": 1, "documents": [{"language": "en", "url": "https://e.example", "digestSri": "sha384-AAEC"}]});
    let place = json!({"participant": participant, "schema": schema, "ecosystem": ecosystem});
    let roles = json!({"ISSUER": [{"did": did, "participant": participant}]});
    match query {
        // The reference also answers without pattern and corporation.
        "A1" => json!({
            "did": "did:web:a.example", "trusted": false, "evaluatedAtTime": seen, "evaluatedAtBlock": 1,
            "expiresAtTime": null, "isTrustExpired": false, "corporationId": null, "lastObservedAtTime": seen,
        }),
        "A2" => json!({"corporation": null, "ecosystems": [ecosystem]}),
        "A3" => json!([{"id": "did:web:a.example#mcp", "type": "MCP", "serviceEndpoint": "https://a.example",
            "lastObservedAtTime": seen}]),
        "A4" => json!([{"id": "https://a.example/vp.json", "vtcs": [vtc], "lastObservedAtTime": seen}]),
        "A5" => json!([]),
        "A6" => json!({"ecsCredentials": [], "vtcs": [{"credential": vtc, "schema": schema, "ecosystem": ecosystem}]}),
        "A7" => json!([place]),
        "B1" => json!({"credential": vtc, "issuerDid": "did:web:a.example", "issuerParticipant": participant,
            "schema": schema, "ecosystem": ecosystem}),
        "B2" => json!({"credential": vtc, "subjectDid": "did:web:a.example", "holderParticipant": participant}),
        "C1" => json!([schema]),
        "C2" | "D2" => roles,
        "C3" => json!({"egf": null}),
        "D1" => json!({"ecsCredentials": [], "vtcs": [vtc]}),
        "E1" => json!([did]),
        "E2" => json!([ecosystem]),
        "E3" => json!({"cgf": framework}),
        "F1" => Value::Null,
        "G1" => json!([participant]),
        _ => json!([corporation]),
    }
}

async fn search(State(state): State<FakeGraphState>, Json(body): Json<Value>) -> Json<Value> {
    state.asked.lock().expect("the list").push(body.clone());
    Json(json!({
        "query": body, "totalCount": 1, "facets": {}, "cursor": null,
        "hits": [{"type": body["surface"], "id": 1, "score": 0.5, "snippet": {"id": 1}}],
    }))
}

async fn progress(State(state): State<FakeGraphState>, mut request: Request) -> Response {
    let serve = move |mut socket: websocket_server::ServerSocket| async move {
        let mut heights = state.height.subscribe();
        let height = *heights.borrow_and_update();
        let ready = json!({"type": "ready", "block": height, "blockTime": "t", "blockIntervalMs": 1000});
        let _ = websocket_server::send_frame(&mut socket, &websocket_server::text_frame(&ready.to_string())).await;
        while heights.changed().await.is_ok() {
            let block = json!({"type": "block", "block": *heights.borrow_and_update(), "blockTime": "t"});
            if websocket_server::send_frame(&mut socket, &websocket_server::text_frame(&block.to_string()))
                .await
                .is_err()
            {
                return;
            }
        }
    };
    websocket_server::accept(&mut request, 1024, serve).map(Body::from)
}

/// The behaviour of an agent.
#[derive(Debug, Clone)]
pub struct FakeAgentConfig {
    /// Whether its DID Document is available and names the admin API.
    pub document_mode: DidDocumentMode,
    /// Whether it accepts the login of the account.
    pub accepts_login: bool,
    /// Audience of its challenge; `None` leaves it out.
    pub audience: Option<String>,
    /// Lifetime of a token.
    pub token_lifetime: Duration,
    /// Duration of a login.
    pub login_delay: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DidDocumentMode {
    Complete,
    WithoutAdminApi,
    OtherSubject,
    Absent,
}

impl Default for FakeAgentConfig {
    fn default() -> Self {
        Self {
            document_mode: DidDocumentMode::Complete,
            accepts_login: true,
            audience: None,
            token_lifetime: Duration::from_secs(900),
            login_delay: Duration::ZERO,
        }
    }
}

/// An agent whose login fails as a test wants it: its DID Document, its login, and an echo of every other request.
pub struct FakeAgent {
    pub did: String,
    pub origin: String,
    state: Arc<Mutex<FakeAgentState>>,
}

#[derive(Default)]
struct FakeAgentState {
    config: FakeAgentConfig,
    did: String,
    origin: String,
    requests: usize,
    logins: usize,
    nonces: HashMap<String, String>,
    tokens: Vec<String>,
}

type SharedAgentState = Arc<Mutex<FakeAgentState>>;

impl FakeAgent {
    pub async fn start() -> Self {
        let state = SharedAgentState::default();
        let router = Router::new()
            .route("/.well-known/did.json", get(document))
            .route("/v2/auth/challenge", post(challenge))
            .route("/v2/auth/token", post(token))
            .route("/v2/{*rest}", any(echo))
            .layer(middleware::from_fn_with_state(Arc::clone(&state), count_request))
            .with_state(Arc::clone(&state));
        let address = serve_router(router).await;
        let (did, origin) = (format!("did:web:127.0.0.1%3A{}", address.port()), format!("http://{address}"));
        {
            let mut state = state.lock().expect("the state");
            state.did.clone_from(&did);
            state.origin.clone_from(&origin);
            state.config.audience = Some(origin.clone());
        }
        Self { did, origin, state }
    }

    pub fn configure(&self, change: impl FnOnce(&mut FakeAgentConfig)) {
        change(&mut self.state.lock().expect("the state").config);
    }

    /// Forgets all tokens, like a restart.
    pub fn forget_tokens(&self) {
        self.state.lock().expect("the state").tokens.clear();
    }

    pub fn login_count(&self) -> usize {
        self.state.lock().expect("the state").logins
    }

    pub fn request_count(&self) -> usize {
        self.state.lock().expect("the state").requests
    }
}

async fn count_request(State(state): State<SharedAgentState>, request: Request, next: Next) -> Response {
    state.lock().expect("the state").requests += 1;
    next.run(request).await
}

async fn document(State(state): State<SharedAgentState>) -> Response {
    let state = state.lock().expect("the state");
    let admin = json!([{"id": "#admin-api", "type": "VsAgentAdminAPI", "serviceEndpoint": state.origin}]);
    match state.config.document_mode {
        DidDocumentMode::Complete => Json(json!({"id": state.did, "service": admin})).into_response(),
        DidDocumentMode::WithoutAdminApi => Json(json!({"id": state.did, "service": []})).into_response(),
        DidDocumentMode::OtherSubject => Json(json!({"id": "did:web:other.example", "service": admin})).into_response(),
        DidDocumentMode::Absent => StatusCode::NOT_FOUND.into_response(),
    }
}

fn refusal(status: StatusCode, code: &str) -> Response {
    (status, Json(json!({"error": {"code": code, "message": "no"}}))).into_response()
}

async fn challenge(State(state): State<SharedAgentState>, Json(body): Json<Value>) -> Response {
    let takes = state.lock().expect("the state").config.login_delay;
    tokio::time::sleep(takes).await;
    let mut state = state.lock().expect("the state");
    let nonce = format!("nonce-{}", state.nonces.len());
    let account = body["account"].as_str().unwrap_or_default().to_owned();
    state.nonces.insert(nonce.clone(), account);
    let mut answer = json!({"nonce": nonce, "expiresAt": "2099-01-01T00:00:00Z"});
    if let Some(audience) = &state.config.audience {
        answer["audience"] = audience.as_str().into();
    }
    // The framework of the reference answers a POST with this code.
    (StatusCode::CREATED, Json(answer)).into_response()
}

async fn token(State(state): State<SharedAgentState>, Json(body): Json<Value>) -> Response {
    let mut state = state.lock().expect("the state");
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    let account = state.nonces.remove(&text("nonce"));
    let payload = match &state.config.audience {
        Some(audience) => format!("vs-agent-admin-auth:{audience}:{}", text("nonce")),
        None => format!("vs-agent-admin-auth:{}", text("nonce")),
    };
    let is_proven = (|| {
        let key = PublicKey::from_bytes(&STANDARD.decode(text("pubKey")).ok()?).ok()?;
        let address: Address = key.address("svc").ok()?;
        let signature = STANDARD.decode(text("signature")).ok()?;
        let is_own = Some(address.to_string()) == account && address.to_string() == text("account");
        (is_own && key.verify(&adr036::arbitrary_sign_bytes(&payload, &address), &signature)).then_some(())
    })();
    if is_proven.is_none() || !state.config.accepts_login {
        return refusal(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED");
    }
    state.logins += 1;
    let token = format!("token-{}", state.logins);
    state.tokens.push(token.clone());
    let until = timestamp::unix_nanos(&svc_kit::wall_clock::now())
        + i128::try_from(state.config.token_lifetime.as_nanos()).expect("fits");
    let expires = timestamp::iso_millis(&timestamp::from_unix_nanos(until));
    (StatusCode::CREATED, Json(json!({"token": token, "expiresAt": expires}))).into_response()
}

async fn echo(
    State(state): State<SharedAgentState>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_known = state.lock().expect("the state").tokens.iter().any(|token| bearer == format!("Bearer {token}"));
    if !is_known {
        return refusal(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED");
    }
    if uri.path().ends_with("/missing") {
        return refusal(StatusCode::NOT_FOUND, "UNKNOWN_ID");
    }
    let endpoint = json!({"id": "did:web:a.example#mcp", "type": "MCP", "serviceEndpoint": "https://a.example"});
    let is_list = method == Method::GET && uri.path().ends_with("service-endpoints");
    let mut answer = if is_list { json!({"items": [endpoint], "nextCursor": null}) } else { endpoint };
    // The answer repeats the request, so that a test can compare it.
    answer["asked"] = json!({
        "method": method.as_str(), "path": uri.path(), "query": uri.query(),
        "body": serde_json::from_slice::<Value>(&body).unwrap_or_default(),
    });
    Json(answer).into_response()
}
