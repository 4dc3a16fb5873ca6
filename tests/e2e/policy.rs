//! What a deployment chooses: toolsets, read-only, patterns, and confirmation by a person bound to the exact message.

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
use svc::mcp::{Pattern, Selection, Verdict};

use super::harness::{CREATE, World, arguments, assert_envelope, config, ecosystem, world};

const ARCHIVE: &str = "svc.ledger.es.archiveEcosystem";

/// A client with a person in front of it.
#[derive(Clone)]
struct Person {
    info: ClientConfig,
    says: Arc<Mutex<(ElicitationAction, bool)>>,
    asked: Arc<Mutex<Vec<String>>>,
    questions: Arc<AtomicUsize>,
}

impl ClientHandler for Person {
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
        let (action, confirm) = self.says.lock().expect("the answer").clone();
        Ok(ElicitResult::new(action).with_content(json!({"confirm": confirm})))
    }
}

async fn person(world: &World, mode: ClientLifecycleMode) -> (RunningService<RoleClient, Person>, Person) {
    let capabilities = ClientCapabilities::builder().enable_elicitation().build();
    let handler = Person {
        info: ClientConfig::new(capabilities, Implementation::new("person", "1")),
        says: Arc::new(Mutex::new((ElicitationAction::Accept, true))),
        asked: Arc::default(),
        questions: Arc::default(),
    };
    let transport = StreamableHttpClientTransport::from_config(
        StreamableHttpClientTransportConfig::with_uri(world.network.mcp_url())
            .auth_header(world.network.bearer.clone()),
    );
    let service = handler.clone().serve_with_lifecycle(transport, mode).await.expect("connects");
    (service, handler)
}

async fn ask(service: &RunningService<RoleClient, Person>, tool: &str, given: Value) -> (bool, Value) {
    let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments(given));
    let result = service.call_tool(request).await.expect("an answer");
    (result.is_error == Some(true), result.structured_content.unwrap_or_default())
}

fn modern() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_confirms_the_exact_message_in_both_protocol_generations() {
    let world = world(config(100)).await;
    let id = world.ok(CREATE, ecosystem("guild")).await["response"]["ecosystem_id"].clone();
    for (mode, archive) in [(ClientLifecycleMode::Initialize, true), (modern(), false)] {
        let (client, person) = person(&world, mode).await;
        let sent = world.operator_txs_in_blocks();
        for (action, confirm) in
            [(ElicitationAction::Decline, true), (ElicitationAction::Accept, false), (ElicitationAction::Cancel, true)]
        {
            *person.says.lock().expect("the answer") = (action, confirm);
            let (is_error, content) = ask(&client, ARCHIVE, json!({"id": id, "archive": archive})).await;
            assert!(is_error, "{content:#}");
            assert_envelope(&content, "AUTHZ_PRECONDITION_FAILED");
        }
        assert_eq!(world.operator_txs_in_blocks(), sent, "nothing is sent without a yes");
        *person.says.lock().expect("the answer") = (ElicitationAction::Accept, true);
        let (is_error, content) = ask(&client, ARCHIVE, json!({"id": id, "archive": archive})).await;
        assert!(!is_error, "{content:#}");
        assert_eq!(person.questions.load(Ordering::SeqCst), 4);
        let shown = person.asked.lock().expect("the list").pop().expect("a question");
        assert!(shown.contains("MsgArchiveEcosystem") && shown.contains(&format!("\"archive\": {archive}")), "{shown}");
        // What only shows is not asked for, nor what ends nothing.
        let (is_error, shown) = ask(&client, ARCHIVE, json!({"id": id, "archive": !archive, "dry_run": true})).await;
        assert!(!is_error && shown["policy"] == "ask", "{shown:#}");
        ask(&client, CREATE, ecosystem(format!("guild-{archive}"))).await;
        assert_eq!(person.questions.load(Ordering::SeqCst), 4);
        let _ = client.cancel().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confirmation_serves_one_message_once() {
    let world = world(config(100)).await;
    let first = world.ok(CREATE, ecosystem("one")).await["response"]["ecosystem_id"].clone();
    let second = world.ok(CREATE, ecosystem("two")).await["response"]["ecosystem_id"].clone();
    let (client, _person) = person(&world, modern()).await;
    let request =
        |id: &Value| CallToolRequestParams::new(ARCHIVE).with_arguments(arguments(json!({"id": id, "archive": true})));
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
        assert_envelope(&result.structured_content.expect("structured"), "AUTHZ_PRECONDITION_FAILED");
    };
    refused(once(answered(&second)).await);
    let CallToolResponse::Complete(done) = once(answered(&first)).await else { panic!("an answer") };
    assert_ne!(done.is_error, Some(true), "{done:?}");
    let undo = CallToolRequestParams::new(ARCHIVE).with_arguments(arguments(json!({"id": first, "archive": false})));
    assert!(matches!(once(undo).await, CallToolResponse::InputRequired(_)));
    refused(once(answered(&first)).await);
    let _ = client.cancel().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_denies_and_insists_at_dispatch_too() {
    let pattern = |text: &str| Pattern::parse(text).expect("a pattern");
    let mut config = config(100);
    config.selection = Selection {
        toolsets: vec!["ledger".into(), "idx.es".into()],
        deny: vec![pattern("svc.ledger.td.*")],
        policy: vec![(pattern("*.update*"), Verdict::Deny), (pattern("svc.ledger.es.*"), Verdict::Confirm)],
        ..Selection::default()
    };
    let world = world(config).await;
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
    let error = world.fails(CREATE, ecosystem("a"), "AUTHZ_PRECONDITION_FAILED").await;
    assert!(error["message"].as_str().is_some_and(|text| text.contains("cannot ask")), "{error:#}");
    let dry = json!({"dry_run": true});
    let mut given = ecosystem("a");
    given["dry_run"] = dry["dry_run"].clone();
    assert_eq!(world.ok(CREATE, given).await["policy"], "confirm");
    world
        .fails("svc.ledger.es.updateEcosystem", json!({"id": 1, "did": "did:web:b"}), "AUTHZ_PRECONDITION_FAILED")
        .await;
    world.fails("svc.ledger.td.reclaimTrustDepositYield", json!({}), "TOOL_UNKNOWN").await;
    let error = world.fails("svc.idx.co.getCorporation", json!({"id": 1}), "TOOL_UNKNOWN").await;
    assert!(error["message"].as_str().is_some_and(|text| text.contains("SVC_TOOLSETS")), "{error:#}");
    let found = world.ok("svc.wallet.findTools", json!({"query": "get one corporation", "limit": 5})).await;
    let tools = found["tools"].as_array().expect("tools");
    let corporation = tools.iter().find(|tool| tool["name"] == "svc.idx.co.getCorporation").expect("found");
    assert!(corporation["listed"] == false && corporation["reason"].is_string());
    let (client, person) = person(&world, ClientLifecycleMode::Initialize).await;
    let (is_error, content) = ask(&client, CREATE, ecosystem("a")).await;
    assert!(!is_error && person.questions.load(Ordering::SeqCst) == 1, "{content:#}");
    let _ = client.cancel().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_server_lists_and_does_nothing_that_changes() {
    let mut config = config(100);
    config.selection = Selection { is_read_only: true, is_underscored: true, ..Selection::default() };
    let world = world(config).await;
    let names = world.tool_names().await;
    assert!(!names.iter().any(|name| name.starts_with("svc_ledger_")));
    // Hosts that refuse dots get underscores, and both are understood.
    assert!(names.contains(&"svc_idx_es_listEcosystems".to_owned()) && !names.iter().any(|name| name.contains('.')));
    for name in ["svc_idx_es_listEcosystems", "svc.idx.es.listEcosystems"] {
        world.ok(name, json!({})).await;
    }
    world.fails(CREATE, ecosystem("a"), "TOOL_UNKNOWN").await;
    assert_eq!(world.operator_txs_in_blocks(), 0);
}
