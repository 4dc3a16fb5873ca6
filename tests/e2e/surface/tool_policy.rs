//! The tool selection of a deployment: toolsets, read-only mode, patterns, and confirmations that are bound to a message.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient,
    model::{
        CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult,
        ElicitationAction, Implementation, ProtocolVersion,
    },
    service::{RequestContext, RunningService},
    transport::{StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig},
};
use serde_json::{Value, json};
use svc::{
    mcp::{CallPolicy, PolicyRule, ToolNames, ToolPattern, ToolSelection},
    mcp_client::result_content,
};

use crate::e2e::harness::{
    CREATE_ECOSYSTEM, TestNetwork, assert_envelope, ecosystem_arguments, into_arguments, network_config, start_network,
};

const ARCHIVE: &str = "svc.ledger.es.archiveEcosystem";

/// A client that answers confirmations.
#[derive(Clone)]
struct ElicitationClient {
    info: ClientConfig,
    answer: Arc<Mutex<(ElicitationAction, bool)>>,
    asked: Arc<Mutex<Vec<String>>>,
    questions: Arc<AtomicUsize>,
}

impl ClientHandler for ElicitationClient {
    fn get_info(&self) -> ClientConfig {
        self.info.clone()
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.questions.fetch_add(1, Ordering::SeqCst);
        if let ElicitRequestParams::FormElicitationParams { message, .. } = request {
            self.asked.lock().expect("the list").push(message);
        }
        let (action, confirm) = self.answer.lock().expect("the answer").clone();
        Ok(ElicitResult::new(action).with_content(json!({"confirm": confirm})))
    }
}

async fn connect_elicitation_client(
    world: &TestNetwork,
    mode: ClientLifecycleMode,
) -> (RunningService<RoleClient, ElicitationClient>, ElicitationClient) {
    let capabilities = ClientCapabilities::builder().enable_elicitation().build();
    let handler = ElicitationClient {
        info: ClientConfig::new(capabilities, Implementation::new("person", "1")),
        answer: Arc::new(Mutex::new((ElicitationAction::Accept, true))),
        asked: Arc::default(),
        questions: Arc::default(),
    };
    let transport = StreamableHttpClientTransport::from_config(
        StreamableHttpClientTransportConfig::with_uri(world.network.mcp_url())
            .auth_header(world.network.bearer_token.clone()),
    );
    let service = handler.clone().serve_with_lifecycle(transport, mode).await.expect("connects");
    (service, handler)
}

async fn ask(service: &RunningService<RoleClient, ElicitationClient>, tool: &str, given: Value) -> (bool, Value) {
    let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(into_arguments(given));
    let result = service.call_tool(request).await.expect("an answer");
    (result.is_error == Some(true), result_content(&result))
}

fn modern() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_confirms_the_exact_message_with_and_without_sessions() {
    let world = start_network(network_config(100)).await;
    let id = world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments("guild")).await["response"]["ecosystem_id"].clone();
    for (mode, archive) in [(ClientLifecycleMode::Initialize, true), (modern(), false)] {
        let (client, person) = connect_elicitation_client(&world, mode).await;
        let sent = world.operator_txs_in_blocks();
        for (action, confirm) in
            [(ElicitationAction::Decline, true), (ElicitationAction::Accept, false), (ElicitationAction::Cancel, true)]
        {
            *person.answer.lock().expect("the answer") = (action, confirm);
            let (is_error, content) = ask(&client, ARCHIVE, json!({"id": id, "archive": archive})).await;
            assert!(is_error, "{content:#}");
            assert_envelope(&content, "AUTHZ_PRECONDITION_FAILED");
        }
        assert_eq!(world.operator_txs_in_blocks(), sent, "nothing is sent without a yes");
        *person.answer.lock().expect("the answer") = (ElicitationAction::Accept, true);
        let (is_error, content) = ask(&client, ARCHIVE, json!({"id": id, "archive": archive})).await;
        assert!(!is_error, "{content:#}");
        assert_eq!(person.questions.load(Ordering::SeqCst), 4);
        let shown = person.asked.lock().expect("the list").pop().expect("a question");
        assert!(shown.contains("MsgArchiveEcosystem") && shown.contains(&format!("archive: {archive}")), "{shown}");
        // A dry run needs no confirmation, and neither does a write that is not destructive.
        let (is_error, shown) = ask(&client, ARCHIVE, json!({"id": id, "archive": !archive, "dry_run": true})).await;
        assert!(!is_error && shown["policy"] == "ask", "{shown:#}");
        ask(&client, CREATE_ECOSYSTEM, ecosystem_arguments(format!("guild-{archive}"))).await;
        assert_eq!(person.questions.load(Ordering::SeqCst), 4);
        let _ = client.cancel().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confirmation_is_valid_for_one_message_once() {
    let world = start_network(network_config(100)).await;
    let first = world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments("one")).await["response"]["ecosystem_id"].clone();
    let second = world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments("two")).await["response"]["ecosystem_id"].clone();
    let (client, _person) = connect_elicitation_client(&world, modern()).await;
    let request = |id: &Value| {
        CallToolRequestParams::new(ARCHIVE).with_arguments(into_arguments(json!({"id": id, "archive": true})))
    };
    let once = async |request: CallToolRequestParams| client.peer().call_tool_once(request).await.expect("an answer");
    let CallToolResponse::InputRequired(asked) = once(request(&first)).await else { panic!("a question") };
    let answers = std::collections::BTreeMap::from([(
        "confirmation".to_owned(),
        json!({"action": "accept", "content": {"confirm": true}}),
    )]);
    let state = asked.request_state.expect("a state");
    let answered = |id: &Value| {
        let mut request = request(id).with_input_responses(answers.clone());
        request.request_state = Some(state.clone());
        request
    };
    let refused = |response: CallToolResponse| {
        let CallToolResponse::Complete(result) = response else { panic!("an answer") };
        assert_envelope(&result_content(&result), "AUTHZ_PRECONDITION_FAILED");
    };
    refused(once(answered(&second)).await);
    let CallToolResponse::Complete(done) = once(answered(&first)).await else { panic!("an answer") };
    assert_ne!(done.is_error, Some(true), "{done:?}");
    let undo =
        CallToolRequestParams::new(ARCHIVE).with_arguments(into_arguments(json!({"id": first, "archive": false})));
    assert!(matches!(once(undo).await, CallToolResponse::InputRequired(_)));
    refused(once(answered(&first)).await);
    let _ = client.cancel().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_is_applied_at_dispatch_too() {
    let names = ToolNames::load().expect("the tables");
    let pattern = |text: &str| ToolPattern::parse(text, &names).expect("a pattern");
    let rule = |text: &str, policy: CallPolicy| PolicyRule { pattern: pattern(text), policy };
    let mut config = network_config(100);
    config.selection = ToolSelection {
        toolsets: vec!["ledger".into(), "idx.es".into()],
        deny: vec![pattern("svc.ledger.td.*")],
        policy: vec![rule("*.update*", CallPolicy::Deny), rule("svc.ledger.es.*", CallPolicy::Confirm)],
        ..ToolSelection::default()
    };
    let world = start_network(config).await;
    let names = world.tool_names().await;
    for (name, is_listed) in [
        ("svc.ledger.es.createEcosystem", true),
        ("svc.ledger.es.updateEcosystem", false),
        ("svc.ledger.td.reclaimTrustDepositYield", false),
        ("svc.idx.es.getEcosystem", true),
        ("svc.idx.co.getCorporation", false),
        ("svc.cosmos.tx.getTx", false),
        ("svc.wallet.getStatus", true),
        ("svc.wallet.findTools", true),
    ] {
        assert_eq!(names.iter().any(|listed| listed == name), is_listed, "{name}");
    }
    let error = world.call_error(CREATE_ECOSYSTEM, ecosystem_arguments("a"), "AUTHZ_PRECONDITION_FAILED").await;
    assert!(error["message"].as_str().is_some_and(|text| text.contains("cannot ask")), "{error:#}");
    let dry = json!({"dry_run": true});
    let mut given = ecosystem_arguments("a");
    given["dry_run"] = dry["dry_run"].clone();
    assert_eq!(world.call_ok(CREATE_ECOSYSTEM, given).await["policy"], "confirm");
    world
        .call_error("svc.ledger.es.updateEcosystem", json!({"id": 1, "did": "did:web:b"}), "AUTHZ_PRECONDITION_FAILED")
        .await;
    world.call_error("svc.ledger.td.reclaimTrustDepositYield", json!({}), "TOOL_UNKNOWN").await;
    let error = world.call_error("svc.idx.co.getCorporation", json!({"id": 1}), "TOOL_UNKNOWN").await;
    assert!(error["message"].as_str().is_some_and(|text| text.contains("SVC_TOOLSETS")), "{error:#}");
    let found = world.call_ok("svc.wallet.findTools", json!({"query": "get one corporation", "limit": 5})).await;
    let tools = found["tools"].as_array().expect("tools");
    let corporation = tools.iter().find(|tool| tool["name"] == "svc.idx.co.getCorporation").expect("found");
    assert!(corporation["listed"] == false && corporation["reason"].is_string());
    let (client, person) = connect_elicitation_client(&world, ClientLifecycleMode::Initialize).await;
    let (is_error, content) = ask(&client, CREATE_ECOSYSTEM, ecosystem_arguments("a")).await;
    assert!(!is_error && person.questions.load(Ordering::SeqCst) == 1, "{content:#}");
    let _ = client.cancel().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_server_lists_and_calls_no_write_tool() {
    let mut config = network_config(100);
    config.selection = ToolSelection { is_read_only: true, is_underscored: true, ..ToolSelection::default() };
    let world = start_network(config).await;
    let names = world.tool_names().await;
    assert!(!names.iter().any(|name| name.starts_with("svc_ledger_")));
    // The listed names have underscores; a call may use either form.
    assert!(names.contains(&"svc_idx_es_listEcosystems".to_owned()) && !names.iter().any(|name| name.contains('.')));
    for name in ["svc_idx_es_listEcosystems", "svc.idx.es.listEcosystems"] {
        world.call_ok(name, json!({})).await;
    }
    world.call_error(CREATE_ECOSYSTEM, ecosystem_arguments("a"), "TOOL_UNKNOWN").await;
    assert_eq!(world.operator_txs_in_blocks(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_the_core_a_read_is_called_through_another_tool_and_nothing_else_is() {
    let names = ToolNames::load().expect("the tables");
    let mut config = network_config(100);
    config.selection = ToolSelection {
        toolsets: vec!["core".into()],
        deny: vec![ToolPattern::parse("svc.idx.gr.*", &names).expect("a pattern")],
        policy: vec![PolicyRule {
            pattern: ToolPattern::parse("svc.idx.stats.*", &names).expect("a pattern"),
            policy: CallPolicy::Deny,
        }],
        ..ToolSelection::default()
    };
    let world = start_network(config).await;
    let listed = world.tool_names().await;
    assert!((35..=45).contains(&listed.len()), "{}: {listed:?}", listed.len());
    for (name, is_listed) in [
        (CREATE_ECOSYSTEM, true),
        ("svc.idx.es.getEcosystem", true),
        ("svc.wallet.readTool", true),
        ("svc.wallet.findTools", true),
        ("svc.idx.co.getCorporation", false),
    ] {
        assert_eq!(listed.iter().any(|one| one == name), is_listed, "{name}");
    }
    let found = world.call_ok("svc.wallet.findTools", json!({"query": "get one corporation"})).await;
    let tools = found["tools"].as_array().expect("tools");
    let row = tools.iter().find(|tool| tool["name"] == "svc.idx.co.getCorporation").expect("found");
    assert!(row["listed"] == false && row["input_schema"]["properties"]["id"].is_object(), "{row:#}");
    let read = async |name: &str, given: Value| {
        world.call_tool("svc.wallet.readTool", json!({"name": name, "arguments": given})).await
    };
    let answer = read("svc.idx.co.getCorporation", json!({"id": 1})).await;
    assert_eq!(answer.content["corporation"]["id"], 1, "{:#}", answer.content);
    let as_text = read("svc.idx.co.getCorporation", json!("{\"id\": \"1\"}")).await;
    assert_eq!(as_text.content["corporation"]["id"], 1, "{:#}", as_text.content);
    for (name, given, code) in [
        (CREATE_ECOSYSTEM, ecosystem_arguments("through"), "INPUT_INVALID"),
        ("svc.idx.es.getEcosystem", json!({"id": 1}), "INPUT_INVALID"),
        ("svc.wallet.readTool", json!({}), "INPUT_INVALID"),
        ("svc.idx.co.getCorporation", json!({}), "INPUT_INVALID"),
        ("svc.idx.gr.listVotes", json!({}), "TOOL_UNKNOWN"),
        ("svc.idx.stats.countParticipants", json!({}), "AUTHZ_PRECONDITION_FAILED"),
        ("svc.no.such.tool", json!({}), "TOOL_UNKNOWN"),
    ] {
        let answer = read(name, given).await;
        assert!(answer.is_error, "{name}");
        assert_envelope(&answer.content, code);
    }
    assert_eq!(world.operator_txs_in_blocks(), 0, "nothing was written");
}
