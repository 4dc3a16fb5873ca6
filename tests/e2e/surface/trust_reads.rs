//! The six trust reads of the tool server, with an indexer that answers them and with one that does not.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use axum::{
    Json, Router,
    body::to_bytes,
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use svc::{
    listener::ListenerConfig,
    mcp::{HttpServer, HttpServerConfig, SessionLimits, ToolNames, ToolSelection, ToolServer},
    mcp_client::McpClient,
    principals::PrincipalDirectory,
};
use svc_net::{host_policy::HostPolicy, websocket::server as websocket_server};
use svc_operator::{Operator, OperatorConfig};
use svc_wire::{account_key::AccountKey, secret::SecretString};

use crate::e2e::{
    fakes::forward_websocket,
    harness::{OPERATOR_MNEMONIC, TEST_TIMEOUT, assert_output_schema, call_tool, start_quick_network},
};

/// A proxy that forwards all requests except the trust reads to an indexer.
#[derive(Clone)]
struct IndexerProxy {
    indexer: String,
    serves_trust: Arc<AtomicBool>,
    asked: Arc<Mutex<Vec<RecordedRead>>>,
}

/// A request: path with query, height, body.
type RecordedRead = (String, Option<String>, Value);

async fn answer(State(stand_in): State<IndexerProxy>, mut request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let whole = request.uri().path_and_query().map_or_else(String::new, ToString::to_string);
    if websocket_server::is_upgrade(request.headers()) {
        let url = format!("{}{whole}", stand_in.indexer.replacen("http", "ws", 1));
        return forward_websocket(&mut request, url, |message| vec![message]);
    }
    let is_trust = path.starts_with("/v4/verifiable-trust/") || path.starts_with("/v4/trqp/");
    let height = request.headers().get("at-block-height").map(|value| value.to_str().expect("text").to_owned());
    if is_trust && stand_in.serves_trust.load(Ordering::SeqCst) {
        let query = request.uri().query().map(str::to_owned);
        let body = to_bytes(request.into_body(), 1 << 20).await.expect("a body");
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        stand_in.asked.lock().expect("the list").push((
            query.map_or(path.clone(), |q| format!("{path}?{q}")),
            height,
            body,
        ));
        return Json(trust(&path)).into_response();
    }
    if is_trust {
        return StatusCode::NOT_FOUND.into_response();
    }
    let mut onward = reqwest::Client::new().get(format!("{}{whole}", stand_in.indexer));
    if let Some(height) = height {
        onward = onward.header("at-block-height", height);
    }
    match onward.send().await {
        Ok(response) => {
            let status = StatusCode::from_u16(response.status().as_u16()).expect("a status");
            (status, response.bytes().await.expect("a body")).into_response()
        }
        Err(_) => StatusCode::BAD_GATEWAY.into_response(),
    }
}

/// Answers in the shapes of the indexer's contract.
fn trust(path: &str) -> Value {
    let now = "2026-01-01T00:00:00.000Z";
    let asked = json!({
        "authority_id": "did:web:a.example", "entity_id": "did:web:b.example", "action": "issue",
        "resource": "vpr:svc:c:cs:1", "time_requested": now, "time_evaluated": now,
    });
    let with = |name: &str| {
        let mut answer = asked.clone();
        answer[name] = true.into();
        answer
    };
    match path.rsplit('/').next().unwrap_or_default() {
        "resolve" => json!({
            "did": "did:web:a.example", "trusted": true, "evaluatedAtTime": now, "evaluatedAtBlock": 5,
            "expiresAtTime": null, "corporationId": 1,
        }),
        "dids" => json!({"dids": ["did:web:a.example"], "atBlock": 5, "nextCursor": null}),
        "changes" => json!({"blocks": [], "currentBlock": 5, "fromBlock": 1, "nextFromBlock": null}),
        "authorization" => with("authorized"),
        "recognition" => with("recognized"),
        _ => json!({"name": "svc", "trqp_version": "2.0"}),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trust_reads_are_listed_while_the_indexer_answers_them_and_follow_the_contract() {
    let world = start_quick_network().await;
    let stand_in = IndexerProxy {
        indexer: world.network.indexer_origin(),
        serves_trust: Arc::new(AtomicBool::new(true)),
        asked: Arc::default(),
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let origin = format!("http://{}", listener.local_addr().expect("an address"));
    let router = Router::new().fallback(answer).with_state(stand_in.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let config = OperatorConfig {
        hosts: HostPolicy::AllowPrivate,
        tx_timeout: TEST_TIMEOUT,
        indexer_timeout: TEST_TIMEOUT,
        ..OperatorConfig::new(1, world.network.devnet.node.origin(), origin)
    };
    let key = AccountKey::from_mnemonic(OPERATOR_MNEMONIC).expect("a key");
    let operator = Operator::boot(config, key).await.expect("boots");
    let front = ToolServer::start(operator.clone(), &ToolSelection::default()).expect("a front");
    let bearer = "0123456789abcdef0123456789abcdef";
    let http = HttpServerConfig {
        principals: PrincipalDirectory::open(
            &SecretString::new(bearer.to_owned()),
            None,
            ToolNames::load().expect("tables"),
        )
        .expect("no file"),
        oauth: None,
        peers: None,
        allowed_hosts: Vec::new(),
        sessions: SessionLimits::default(),
        listener: ListenerConfig::for_local_network(),
    };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("set");
    let server = HttpServer::start(listener, Arc::clone(&front), http).expect("serves");
    let client = McpClient::connect(&format!("http://{}/mcp", server.address), bearer).await.expect("connects");
    let listed = async || -> Vec<rmcp::model::Tool> {
        let tools = client.list_tools().await.expect("listed");
        tools
            .into_iter()
            .filter(|tool| tool.name.starts_with("svc.idx.vt.") || tool.name.starts_with("svc.idx.trqp."))
            .collect()
    };
    let tools = listed().await;
    assert_eq!(tools.len(), 6);
    let question = json!({
        "authority_id": "did:web:a.example", "entity_id": "did:web:b.example", "action": "issue",
        "resource": "vpr:svc:c:cs:1", "context": {"time": "2026-01-01T00:00:00Z"},
    });
    let chosen = json!({"did": "did:web:a.example", "services": true, "ecosystems": {"includeArchived": true}});
    for (name, given, path, body) in [
        ("svc.idx.vt.resolve", chosen.clone(), "/v4/verifiable-trust/resolve", chosen),
        ("svc.idx.vt.listIndexedDids", json!({"limit": 5}), "/v4/verifiable-trust/dids?limit=5", Value::Null),
        (
            "svc.idx.vt.listChanges",
            json!({"fromBlock": 1, "channels": ["trust", "services"]}),
            "/v4/verifiable-trust/changes?fromBlock=1&channels=trust%2Cservices&limit=20",
            Value::Null,
        ),
        ("svc.idx.trqp.authorize", question.clone(), "/v4/trqp/v2/authorization", question.clone()),
        ("svc.idx.trqp.recognize", question.clone(), "/v4/trqp/v2/recognition", question),
        ("svc.idx.trqp.getProfile", json!({}), "/v4/trqp/v2/profile", Value::Null),
    ] {
        let mut given = given;
        let tool = tools.iter().find(|tool| tool.name == name).expect("listed");
        let takes_height = tool.input_schema["properties"].get("at_block_height").is_some();
        if takes_height {
            given["at_block_height"] = 5.into();
        }
        let answer = call_tool(&client, name, given).await;
        assert!(!answer.is_error, "{name}: {:#}", answer.content);
        assert_output_schema(tool, &answer.content);
        let height = takes_height.then(|| "5".to_owned());
        let asked = stand_in.asked.lock().expect("the list").pop().expect("asked");
        assert_eq!(asked, (path.to_owned(), height, body), "{name}");
    }
    // The tools disappear at the next refresh after the indexer stops answering them.
    stand_in.serves_trust.store(false, Ordering::SeqCst);
    operator.refresh_snapshot().await;
    assert!(listed().await.is_empty());
    let answer = call_tool(&client, "svc.idx.trqp.getProfile", json!({})).await;
    assert!(answer.is_error && answer.content["code"] == "TOOL_UNKNOWN", "{:#}", answer.content);
    client.close().await;
    front.drain();
    operator.shutdown(std::time::Duration::from_secs(1)).await;
}
