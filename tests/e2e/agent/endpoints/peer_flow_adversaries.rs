//! Endpoints and indexes that would lead a caller astray: no token goes to another place, no answer is without a bound, and no text
//! commands a terminal.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::Request,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use futures::stream;
use serde_json::{Value, json};

use crate::e2e::agent::{
    endpoints::peer_flow::PeerWorld, messages::scripted_peer::now, processes::two_agents::ValidatorPlace,
    validation::lying_index::LyingIndex,
};

/// A server, and the headers with credentials that it has seen.
async fn serve(router: impl FnOnce(&str) -> Router) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let origin = format!("http://{}", listener.local_addr().expect("an address"));
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let note = move |request: Request| {
        let shown = request.headers().get(header::AUTHORIZATION).map(|value| value.to_str().expect("text").to_owned());
        noted.lock().expect("not poisoned").extend(shown);
        async move { request }
    };
    let routes = router(&origin).layer(axum::middleware::map_request(note));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (origin, seen)
}

fn redirect(status: StatusCode, target: &str) -> Response {
    (status, [(header::LOCATION, target.to_owned())]).into_response()
}

/// A body that never ends.
fn endless(kind: &'static str, chunk: &'static str) -> Response {
    let chunks = stream::repeat_with(move || Ok::<_, Infallible>(Bytes::from_static(chunk.as_bytes())));
    ([(header::CONTENT_TYPE, kind)], Body::from_stream(chunks)).into_response()
}

/// Small events that have nothing to do with the call, one after another.
fn idle_events() -> Response {
    let chunks = stream::unfold((), |()| async {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        let event = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n";
        Some((Ok::<_, Infallible>(Bytes::from_static(event.as_bytes())), ()))
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(chunks)).into_response()
}

fn card(url: &str) -> Value {
    json!({"name": "a", "supportedInterfaces": [{"protocolBinding": "JSONRPC", "url": url, "protocolVersion": "1.0"}]})
}

const CARD: &str = "/.well-known/agent-card.json";

/// The endpoints: fragment, type, path.
const ENDPOINTS: [(&str, &str, &str); 12] = [
    ("agent-odd", "A2A", "/agent-odd"),
    ("site-away", "Website", "/away"),
    ("mcp-away", "MCP", "/mcp-away"),
    ("agent-away", "A2A", "/agent-away"),
    ("site-long", "Website", "/long"),
    ("site-endless", "Website", "/endless"),
    ("mcp-endless", "MCP", "/mcp-endless"),
    ("mcp-event", "MCP", "/mcp-event"),
    ("mcp-idle", "MCP", "/mcp-idle"),
    ("agent-endless", "A2A", "/agent-endless"),
    ("agent", "A2A", "/agent"),
    ("mcp-no", "MCP", "/no"),
];

fn hostile(origin: &str, thief: &str) -> Router {
    let (site_target, mcp_target, card_target) = (format!("{thief}/a"), format!("{thief}/b"), format!("{thief}/c"));
    let own = |path: &str| Json(card(&format!("{origin}{path}")));
    let (endless_card, card_of_all, odd_card) = (own("/agent-endless"), own("/agent"), own("/agent-odd"));
    let answer = async || {
        let text = "hello \u{1b}]0;owned\u{7}";
        Json(
            json!({"jsonrpc": "2.0", "id": 1, "result": {"message": {"role": "ROLE_AGENT", "parts": [{"text": text}]}}}),
        )
    };
    let length = [(header::CONTENT_LENGTH, (1_u64 << 30).to_string())];
    let long = async move || {
        (length, Body::from_stream(stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from_static(&[b'x'; 65_536])))))
    };
    Router::new()
        .route("/away", get(async move || redirect(StatusCode::FOUND, &site_target)))
        .route("/mcp-away", any(async move || redirect(StatusCode::TEMPORARY_REDIRECT, &mcp_target)))
        .route(&format!("/agent-away{CARD}"), get(async move || Json(card(&card_target))))
        .route("/long", get(long))
        .route(
            "/endless",
            get(async || endless("text/plain", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")),
        )
        .route(
            "/mcp-endless",
            any(async || {
                endless("application/json", "                                                                ")
            }),
        )
        .route(
            "/mcp-event",
            any(async || {
                endless("text/event-stream", "data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")
            }),
        )
        .route("/mcp-idle", any(async || idle_events()))
        .route(&format!("/agent-endless{CARD}"), get(async move || endless_card))
        .route("/agent-endless", post(async || endless("application/json", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[")))
        .route(&format!("/agent{CARD}"), get(async move || card_of_all))
        .route("/agent", post(answer))
        .route(&format!("/agent-odd{CARD}"), get(async move || odd_card))
        .route("/agent-odd", post(async || Json(json!([]))))
        .route("/no", any(async || StatusCode::NOT_FOUND))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_is_not_led_away_not_flooded_and_not_deceived() {
    let index = LyingIndex::default();
    let place = ValidatorPlace { index: Some(index.clone()), ..ValidatorPlace::default() };
    let world = PeerWorld::start_unknown(place).await;
    world.agents.admit().await;
    let (thief, stolen) = serve(|_| Router::new().fallback(any(async || "thanks"))).await;
    let (origin, seen) = serve(|origin| hostile(origin, &thief)).await;
    let mut conditions = String::new();
    for (fragment, kind, path) in ENDPOINTS {
        world.put_entry(fragment, kind, &format!("{origin}{path}")).await;
        conditions.push_str(&format!("[[endpoint]]\nid = \"{fragment}\"\nmaterial = \"bearer\"\nallow = \"*\"\n"));
    }
    world.set_conditions(&conditions).await;
    for (words, status, expected) in [
        (&["site-away"][..], 6, "redirects"),
        (&["mcp-away", "--list"], 6, "redirects"),
        (&["agent-away", "hello"], 6, "no secret goes to another origin"),
        (&["site-long"], 7, "longer than"),
        (&["site-endless"], 7, "longer than"),
        (&["mcp-endless", "--list"], 7, "longer than"),
        (&["mcp-event", "--list"], 7, "step call"),
        (&["mcp-idle", "--list", "--timeout", "3"], 6, "has not ended its answer within"),
        (&["agent-endless", "hello"], 7, "longer than"),
        (&["mcp-no", "--list"], 7, "step call"),
        (&["agent-odd", "hello"], 7, "neither message nor task"),
    ] {
        world.call(words).await.failed(status, expected);
    }
    assert_eq!(world.call(&["agent", "hello"]).await.done(), "hello \\u{1b}]0;owned\\u{7}\n");
    let tokens = seen.lock().expect("not poisoned").len();
    assert!(tokens >= ENDPOINTS.len() - 2, "the endpoints have got {tokens} tokens");
    assert_eq!(*stolen.lock().expect("not poisoned"), Vec::<String>::new(), "and no other place any");

    // A document whose URL has changed after the grant: the material is not sent to the old place, nor the old one to the new.
    let before = seen.lock().expect("not poisoned").len();
    let (elsewhere, found) = serve(|_| Router::new().fallback(any(async || "moved"))).await;
    let path = "/v2/vt/service-endpoints/mcp-no";
    let body = json!({"type": "Website", "serviceEndpoint": elsewhere});
    let changed = world.agents.validator.send("PATCH", path, Some(&body)).await;
    assert_eq!(changed.status, 200, "{}", changed.body);
    assert_eq!(world.call(&["mcp-no"]).await.done(), "moved\n");
    assert_eq!(seen.lock().expect("not poisoned").len(), before);
    let found = found.lock().expect("not poisoned").clone();
    assert!(found.len() == 1 && !seen.lock().expect("not poisoned").contains(&found[0]), "a token of its own");

    // An index that calls a stranger trusted, by a participant of another DID or by none: the node does not confirm it.
    let own = world.agents.world.id_of("flows.license.issuer");
    for participant in [own, 1_000_000] {
        index.vouch_for("did:web:stranger.example", participant);
        let refused = world.agents.applicant_home.peer(&["trust", "did:web:stranger.example"]).await;
        refused.failed(3, "is not trusted");
        assert!(refused.output.contains("participant_not_active"), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_go_both_ways_and_the_last_one_is_waited_for() {
    let world = PeerWorld::start_unknown(ValidatorPlace::default()).await;
    world.agents.admit().await;
    let (caller, owner) = (&world.agents.applicant_home, &world.agents.validator_home);
    let said = format!("at {}\nand \u{1b}[2J\n", now());
    caller.peer_with(&["talk", &world.owner], &said, &[]).await.done();
    let heard = world.agents.validator.send("GET", "/v2/didcomm/basic-messages?role=receiver", None).await.body;
    let texts: Vec<&str> =
        heard["items"].as_array().expect("a list").iter().map(|one| one["content"].as_str().expect("text")).collect();
    assert_eq!(texts.join("\n") + "\n", said);
    // The other side answers while it listens, and earlier lines are not shown again.
    let listens = owner.talk(&world.agents.applicant_did);
    let line = listens.read_after(async || {
        caller.peer_with(&["talk", &world.owner], "again \u{1b}[2J\n", &[]).await.done();
    });
    assert_eq!(line.await, "again \\u{1b}[2J\n");
    caller.peer_with(&["talk", "did:web:stranger.example"], "hello\n", &[]).await.failed(3, "step request");
}
