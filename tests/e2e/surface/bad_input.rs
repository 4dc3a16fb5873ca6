//! Bad input of every kind is refused with an error that names the problem and the allowed values.

use std::collections::HashMap;

use rmcp::model::{CallToolRequestParams, ReadResourceRequestParams};
use serde_json::{Value, json};
use svc::{
    config,
    mcp_client::{McpClient, result_content},
    secrets::ProcessSecrets,
};
use svc_indexer::IndexerConfig;
use svc_operator::{BootError, Operator};
use svc_wire::error_envelope::{ErrorEnvelope, FailureStage, NextStep};

use crate::e2e::{
    harness::{CREATE_ECOSYSTEM, ecosystem_arguments, into_arguments, start_quick_network},
    indexer::{IndexerReplica, await_indexed},
};

fn with(mut value: Value, key: &str, to: Value) -> Value {
    value[key] = to;
    value
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_names_bad_arguments_and_unknown_tools_and_nothing_is_sent() {
    let world = start_quick_network().await;
    for (given, pointer, named) in [
        (with(ecosystem_arguments("a"), "color", json!("red")), "/color", "color"),
        (with(ecosystem_arguments("a"), "language", json!(7)), "/language", "string"),
        (with(ecosystem_arguments("a"), "did", json!("web:a.example")), "/did", "did:"),
        (with(ecosystem_arguments("a"), "doc_url", json!("ftp://a")), "/doc_url", "https?"),
        (json!({"language": "en"}), "/did", "did: is required"),
    ] {
        let error = world.call_error(CREATE_ECOSYSTEM, given, "INPUT_INVALID").await;
        let violations = error["details"]["violations"].as_array().expect("violations").clone();
        assert!(violations.iter().any(|violation| violation["pointer"] == pointer), "{error:#}");
        assert!(error["message"].as_str().is_some_and(|message| message.contains(named)), "{named}: {error:#}");
    }
    let error = world.call_error("svc.ledger.es.destroyEcosystem", json!({}), "TOOL_UNKNOWN").await;
    assert_eq!(error["details"]["tool"], "svc.ledger.es.destroyEcosystem");
    // A call cannot name another corporation: the server fills the field in.
    world
        .call_error(
            CREATE_ECOSYSTEM,
            with(ecosystem_arguments("a"), "corporation", json!("svc1other")),
            "INPUT_INVALID",
        )
        .await;
    world.call_error("svc.ledger.es.archiveEcosystem", json!({"id": 99, "archive": true}), "SIMULATION_FAILED").await;
    let error = world.call_error("svc.idx.es.getEcosystem", json!({"id": 99}), "NOT_FOUND").await;
    assert_eq!((&error["details"]["status"], &error["retryable"]), (&json!(404), &json!(false)));
    world
        .call_error("svc.idx.es.getEcosystem", json!({"id": 1, "at_block_height": 1_000_000}), "UPSTREAM_HTTP_ERROR")
        .await;
    world.call_error("svc.cosmos.tx.getTx", json!({"hash": "xyz"}), "INPUT_INVALID").await;
    assert_eq!(world.operator_txs_in_blocks(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_requests_get_errors_of_http_and_json_rpc() {
    let world = start_quick_network().await;
    let url = world.network.mcp_url();
    let http = reqwest::Client::new();
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let post = |token: Option<&str>, body: String| {
        let mut request = http
            .post(&url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        if let Some(token) = token {
            request = request.header("authorization", token);
        }
        request.body(body).send()
    };
    let wrong = format!("Bearer {}", "x".repeat(32));
    for token in [None, Some(wrong.as_str()), Some("Basic abc"), Some("Bearer")] {
        for body in [initialize.to_string(), "{".to_owned()] {
            let response = post(token, body).await.expect("answered");
            assert_eq!(response.status(), 401, "{token:?}");
            assert_eq!(response.headers()["www-authenticate"], "Bearer");
        }
    }
    let bearer = format!("Bearer {}", world.network.bearer_token);
    let response = post(Some(&bearer), "{not json".to_owned()).await.expect("answered");
    assert_eq!(response.status(), 400);
    let body: Value = response.json().await.expect("JSON");
    assert_eq!((&body["error"]["code"], &body["id"]), (&json!(-32700), &Value::Null));
    let body: Value = post(Some(&bearer), "[]".to_owned()).await.expect("answered").json().await.expect("JSON");
    assert_eq!(body["error"]["code"], -32600);
    let long =
        json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "y".repeat(1024 * 1024)}}).to_string();
    assert_eq!(post(Some(&bearer), long).await.expect("answered").status(), 413);

    let rebound = http
        .post(&url)
        .header("host", "evil.example")
        .header("authorization", &bearer)
        .header("content-type", "application/json");
    let rebound = rebound.header("accept", "application/json, text/event-stream").body(initialize.to_string()).send();
    assert_eq!(rebound.await.expect("answered").status(), 403);
    let foreign = http.post(&url).header("origin", "https://evil.example").header("authorization", &bearer);
    let foreign =
        foreign.header("content-type", "application/json").header("accept", "application/json, text/event-stream");
    assert_eq!(foreign.body(initialize.to_string()).send().await.expect("answered").status(), 403);

    let origin = world.network.server_origin();
    let healthy = http.get(format!("{origin}/healthz")).send().await.expect("answered");
    assert_eq!(healthy.status(), 200);
    assert_eq!(healthy.json::<Value>().await.expect("JSON"), json!({"status": "ok"}));
    assert_eq!(http.get(format!("{origin}/metrics")).send().await.expect("answered").status(), 200);
    assert!(McpClient::connect(&url, &"x".repeat(32)).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_resources_are_protocol_errors() {
    let world = start_quick_network().await;
    let service = world.client.service();
    assert!(service.read_resource(ReadResourceRequestParams::new("svc://own/secrets")).await.is_err());
    // Omitted arguments are an empty object.
    let status = service.call_tool(CallToolRequestParams::new("svc.wallet.getStatus")).await.expect("answered");
    assert_eq!(status.is_error, Some(false));
    let unknown = world
        .client
        .call_tool("svc.wallet.getStatus", into_arguments(json!({"verbose": true})))
        .await
        .expect("answered");
    assert_eq!(result_content(&unknown)["code"], "INPUT_INVALID");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_boot_names_the_reason() {
    let world = start_quick_network().await;
    let (rpc, indexer) = (world.network.devnet.node.origin(), world.network.indexer_origin());
    let boot = async |corporation: &str, chain_id: &str| {
        let environment = HashMap::from([
            ("SVC_CORPORATION", corporation),
            ("SVC_RPC", rpc.as_str()),
            ("SVC_INDEXER", indexer.as_str()),
            ("SVC_CHAIN_ID", chain_id),
            ("MCP_TRANSPORT", "stdio"),
        ]);
        let mut secrets = ProcessSecrets::from_pairs([("MCP_SVC_MNEMONIC", crate::e2e::harness::OPERATOR_MNEMONIC)]);
        let config = config::read_serve(&environment, &mut secrets).unwrap_or_else(|error| panic!("{error}"));
        Operator::boot(config.operator, config.key).await.map(|_| ())
    };
    let error = boot("77", "").await.expect_err("refused");
    assert!(matches!(&error, BootError::UnknownCorporation { id: 77, .. }), "{error}");
    let error = boot("1", "other-1").await.expect_err("refused");
    assert!(error.to_string().contains("other-1") && error.to_string().contains("svc-devnet-1"), "{error}");
    boot("1", "svc-devnet-1").await.expect("boots");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_below_the_oldest_block_of_the_indexer_has_an_error_of_its_own() {
    let world = start_quick_network().await;
    let rpc = world.network.devnet.node.origin();
    let oldest = world.height();
    let late = IndexerConfig { start_height: Some(oldest), ..IndexerConfig::new(rpc.clone(), "sqlite::memory:") };
    let late = IndexerReplica::launch(late).await;
    await_indexed(&late.origin, oldest).await;
    let environment = HashMap::from([
        ("SVC_CORPORATION", "1"),
        ("SVC_RPC", rpc.as_str()),
        ("SVC_INDEXER", late.origin.as_str()),
        ("MCP_TRANSPORT", "stdio"),
    ]);
    let mut secrets = ProcessSecrets::from_pairs([("MCP_SVC_MNEMONIC", crate::e2e::harness::OPERATOR_MNEMONIC)]);
    let config = config::read_serve(&environment, &mut secrets).unwrap_or_else(|error| panic!("{error}"));
    let operator = Operator::boot(config.operator, config.key).await.expect("boots");
    let read = async |path: &str, query: &[(String, String)], at: Option<u64>| {
        operator.indexer_get("test", path, query, at).await.map(|document| document.value)
    };
    let error = read("/v4/corporation/get/1", &[], Some(1)).await.expect_err("not known");
    assert_eq!((error.code.as_str(), error.stage), ("HEIGHT_NOT_INDEXED", FailureStage::Indexer));
    assert!(!error.retryable && error.next_step == Some(NextStep::ConfigureIndexer), "{error:?}");
    let heights = |error: &ErrorEnvelope| {
        (error.details["at_block_height"].as_u64(), error.details["oldest_block_height"].as_u64())
    };
    assert_eq!(heights(&error), (Some(1), Some(oldest)), "{error:?}");
    for height in [1, oldest] {
        assert!(error.message.contains(&height.to_string()), "{error}");
    }
    let after = [("after_block_height".to_owned(), "1".to_owned())];
    if oldest > 2 {
        let error = read("/v4/indexer/events", &after, None).await.expect_err("not known");
        assert_eq!((error.code.as_str(), heights(&error)), ("HEIGHT_NOT_INDEXED", (None, Some(oldest))));
    }
    let absent = read("/v4/corporation/get/99", &[], Some(oldest)).await.expect_err("absent");
    assert_eq!(absent.code.as_str(), "NOT_FOUND");
}
