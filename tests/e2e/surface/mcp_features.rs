//! Features of MCP: dry runs, progress, cancellation, reads that wait, prompts, completion, resource subscriptions.

// Log messages and subscriptions of the older protocol versions are tested too.
#![allow(deprecated)]

use std::sync::{Arc, Mutex};

use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt, RoleClient,
    model::{
        ArgumentInfo, CallToolRequestParams, CancelledNotificationParam, ClientCapabilities, ClientConfig,
        ClientRequest, CompleteRequestParams, GetPromptRequestParams, Implementation, LoggingLevel,
        LoggingMessageNotificationParam, ProgressNotificationParam, Reference, Request,
        ResourceUpdatedNotificationParam, SetLevelRequestParams, SubscribeRequestParams,
    },
    service::{NotificationContext, PeerRequestOptions, RunningService},
    transport::{StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig},
};
use serde_json::{Value, json};

use crate::e2e::harness::{
    CREATE_ECOSYSTEM, TestNetwork, ecosystem_arguments, into_arguments, network_config, start_network,
    start_quick_network,
};

/// A client that records its notifications.
#[derive(Clone, Default)]
pub(in crate::e2e::surface) struct NotificationRecorder {
    progress: Arc<Mutex<Vec<ProgressNotificationParam>>>,
    logs: Arc<Mutex<Vec<LoggingMessageNotificationParam>>>,
    updates: Arc<Mutex<Vec<String>>>,
}

impl ClientHandler for NotificationRecorder {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(ClientCapabilities::default(), Implementation::new("ear", "1"))
    }
    async fn on_progress(&self, param: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.progress.lock().expect("the list").push(param);
    }
    async fn on_logging_message(&self, param: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        self.logs.lock().expect("the list").push(param);
    }
    async fn on_resource_updated(&self, param: ResourceUpdatedNotificationParam, _: NotificationContext<RoleClient>) {
        self.updates.lock().expect("the list").push(param.uri);
    }
}

/// A client with a session, and its notifications.
pub(in crate::e2e::surface) async fn connect_recorder(
    world: &TestNetwork,
) -> (RunningService<RoleClient, NotificationRecorder>, NotificationRecorder) {
    let transport = StreamableHttpClientTransport::from_config(
        StreamableHttpClientTransportConfig::with_uri(world.network.mcp_url())
            .auth_header(world.network.bearer_token.clone()),
    );
    let ear = NotificationRecorder::default();
    let service = ear.clone().serve_with_lifecycle(transport, ClientLifecycleMode::Initialize).await.expect("connects");
    (service, ear)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_shows_the_message_and_the_fee_and_changes_nothing() {
    let world = start_quick_network().await;
    let mut given = ecosystem_arguments("dry");
    given["dry_run"] = true.into();
    let shown = world.call_ok(CREATE_ECOSYSTEM, given.clone()).await;
    assert_eq!(
        (&shown["dry_run"], &shown["policy"], &shown["fee_payer"]),
        (&json!(true), &json!("allow"), &json!("corporation"))
    );
    assert_eq!(shown["message"]["did"], "did:web:dry.example");
    assert_eq!(shown["message"]["corporation"], world.network.operator_slot.policy_address);
    assert!(shown["gas_wanted"].as_u64() > shown["gas_used"].as_u64());
    assert_eq!(world.operator_txs_in_blocks(), 0);
    // Many dry runs run concurrently with writes: the sequence changes, and the estimates still succeed.
    let writes = (0..10).map(|n| world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments(format!("real-{n}"))));
    let dry = (0..10).map(|_| world.call_ok(CREATE_ECOSYSTEM, given.clone()));
    let (written, estimates) = tokio::join!(futures::future::join_all(writes), futures::future::join_all(dry));
    assert!(estimates.iter().all(|one| one["gas_used"].as_u64() > Some(0)));
    assert_eq!((written.len(), world.operator_txs_in_blocks()), (10, 10));
    // A message that the chain would refuse is refused with the error text of the chain.
    let error = world
        .call_error(
            "svc.ledger.es.archiveEcosystem",
            json!({"id": 999, "archive": true, "dry_run": true}),
            "SIMULATION_FAILED",
        )
        .await;
    assert!(error["message"].as_str().is_some_and(|text| text.contains("not found")), "{error:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_reports_its_steps_as_progress_and_as_log_messages() {
    let world = start_network(network_config(300)).await;
    let (client, ear) = connect_recorder(&world).await;
    client.set_level(SetLevelRequestParams::new(LoggingLevel::Info)).await.expect("set");
    let mut arguments = ecosystem_arguments("steps");
    arguments["idempotency_key"] = "steps".into();
    let request = CallToolRequestParams::new(CREATE_ECOSYSTEM).with_arguments(into_arguments(arguments));
    client.call_tool(request.clone()).await.expect("an answer");
    // The order of notifications and the answer is undefined.
    world.wait_until("all steps are heard", async || ear.progress.lock().expect("the list").len() >= 4).await;
    let heard = || {
        let mut steps: Vec<(f64, Option<f64>)> =
            ear.progress.lock().expect("the list").drain(..).map(|one| (one.progress, one.total)).collect();
        steps.sort_by(|one, other| one.0.total_cmp(&other.0));
        steps
    };
    let all = [(1.0, Some(4.0)), (2.0, Some(4.0)), (3.0, Some(4.0)), (4.0, Some(4.0))];
    assert_eq!(heard(), all);
    // Each of the four steps is a log message too; the next level excludes the warning of a failure.
    world.wait_until("all steps are logged", async || ear.logs.lock().expect("the list").len() == 4).await;
    let logged = |name: &str| ear.logs.lock().expect("the list").iter().any(|one| one.data.get(name).is_some());
    assert!(logged("tx_hash") && logged("block_height"));
    let refused = || CallToolRequestParams::new(CREATE_ECOSYSTEM).with_arguments(into_arguments(json!({})));
    client.set_level(SetLevelRequestParams::new(LoggingLevel::Error)).await.expect("set");
    // The same write again has ended before its first status is looked at.
    client.call_tool(request).await.expect("an answer");
    world.wait_until("all steps are heard", async || ear.progress.lock().expect("the list").len() >= 4).await;
    assert_eq!(heard(), all);
    client.call_tool(refused()).await.expect("an answer");
    client.set_level(SetLevelRequestParams::new(LoggingLevel::Warning)).await.expect("set");
    client.call_tool(refused()).await.expect("an answer");
    world.wait_until("the second failure is logged", async || ear.logs.lock().expect("the list").len() >= 5).await;
    assert_eq!(ear.logs.lock().expect("the list").len(), 5, "the first one was below its level");
    let _ = client.cancel().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_write_still_executes() {
    let world = start_network(network_config(1_000)).await;
    let (client, ear) = connect_recorder(&world).await;
    let request =
        CallToolRequestParams::new(CREATE_ECOSYSTEM).with_arguments(into_arguments(ecosystem_arguments("cancelled")));
    let request = ClientRequest::CallToolRequest(Request::new(request));
    let handle = client.send_cancellable_request(request, PeerRequestOptions::no_options()).await.expect("sent");
    world
        .wait_until("it is submitted", async || {
            world.network.operator.recent_hashes().len() == 1 || ear.progress.lock().expect("the list").len() > 1
        })
        .await;
    let cancelled = CancelledNotificationParam::new(Some(handle.id.clone()), Some("enough".to_owned()));
    client.notify_cancelled(cancelled).await.expect("told");
    world.wait_until("it is in a block all the same", async || world.operator_txs_in_blocks() == 1).await;
    world
        .wait_until("and indexed", async || {
            let listed = world.call_ok("svc.idx.es.listEcosystems", json!({})).await;
            listed["ecosystems"][0]["did"] == "did:web:cancelled.example"
        })
        .await;
    let _ = client.cancel().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_wait_for_min_height_and_for_the_writes_of_the_session() {
    let mut config = network_config(200);
    config.indexer_timeout = std::time::Duration::from_secs(3);
    let mut world = start_network(config).await;
    let soon = world.height() + 3;
    for tool in ["svc.idx.indexer.getBlockHeight", "svc.cosmos.tendermint.getStatus"] {
        world.call_ok(tool, json!({"min_height": soon})).await;
        assert!(world.height() >= soon);
    }
    let never = json!({"min_height": 1_000_000});
    let error = world.call_error("svc.idx.es.listEcosystems", never.clone(), "INDEXER_BEHIND").await;
    assert_eq!((&error["details"]["reader"], &error["details"]["min_height"]), (&json!("indexer"), &json!(1_000_000)));
    world.call_error("svc.cosmos.tendermint.getBlock", never, "INDEXER_BEHIND").await;

    // In a session a read shows the session's last write, or says that it does not.
    let (client, _) = connect_recorder(&world).await;
    let ask = async |tool: &'static str, given: Value| {
        let request = CallToolRequestParams::new(tool).with_arguments(into_arguments(given));
        client.call_tool(request).await.expect("an answer")
    };
    ask(CREATE_ECOSYSTEM, ecosystem_arguments("seen")).await;
    world.network.kill_indexer();
    let written = ask(CREATE_ECOSYSTEM, ecosystem_arguments("unseen")).await.structured_content.expect("structured");
    assert_eq!(written["indexer_synced"], false, "{written:#}");
    world.network.restart_indexer().await.expect("starts");
    let read = ask("svc.idx.es.listEcosystems", json!({})).await;
    let text = read.content[0].as_text().expect("a line").text.clone();
    let shows = read.structured_content.expect("structured")["ecosystems"][0]["did"] == "did:web:unseen.example";
    assert!(shows || text.contains("does not show this session's last write"), "{text}");
    let _ = client.cancel().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_render_and_arguments_complete_from_live_data() {
    let world = start_quick_network().await;
    world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments("first")).await;
    world.wait_until("it is in the snapshot", async || !world.network.operator.snapshot().ecosystems.is_empty()).await;
    let service = world.client.service();
    let prompts = service.list_all_prompts().await.expect("listed");
    assert_eq!(prompts.len(), 15);
    for prompt in &prompts {
        let required = prompt.arguments.iter().flatten().filter(|one| one.required == Some(true));
        let given = required.map(|one| (one.name.clone(), json!("1"))).collect();
        let request = GetPromptRequestParams::new(prompt.name.clone()).with_arguments(given);
        let text = serde_json::to_string(&service.get_prompt(request).await.expect("rendered")).expect("serialises");
        assert!(text.contains("svc.") && !text.contains("{{"), "{}", prompt.name);
    }
    // The plan names the tools that are unavailable now.
    let request =
        GetPromptRequestParams::new("check-trust-status").with_arguments(into_arguments(json!({"did": "did:web:x"})));
    let text = serde_json::to_string(&service.get_prompt(request).await.expect("rendered")).expect("serialises");
    assert!(text.contains("Not there now"), "{text}");
    for (name, given) in [("no-such-prompt", json!({})), ("onboard-participant", json!({"color": "red"}))] {
        let request = GetPromptRequestParams::new(name).with_arguments(into_arguments(given));
        assert!(service.get_prompt(request).await.is_err(), "{name}");
    }
    for (reference, argument, typed, expected) in [
        ("update-governance-framework", "ecosystem_id", "", "1"),
        ("delegate-operator", "msg_types", "/svc.ec", "/svc.ec.v1.MsgCreateEcosystem"),
        ("svc.idx.es.getEcosystem", "id", "", "1"),
        ("svc.idx.es.getEcosystem", "gf_data", "only", "only_active"),
        ("svc.ledger.de.grantOperatorAuthorization", "msg_types", "Schema", "/svc.cs.v1.MsgCreateCredentialSchema"),
        ("svc.ledger.es.archiveEcosystem", "archive", "t", "true"),
        ("svc.idx.es.listEcosystems", "corporation_id", "", "1"),
    ] {
        let request = CompleteRequestParams::new(Reference::for_prompt(reference), ArgumentInfo::new(argument, typed));
        let values = service.complete(request).await.expect("completed").completion.values;
        assert!(values.iter().any(|value| value == expected), "{reference} {argument}: {values:?}");
    }
    let nothing = CompleteRequestParams::new(Reference::for_prompt("no.such"), ArgumentInfo::new("x", ""));
    assert!(service.complete(nothing).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribers_are_notified_of_chain_changes_and_of_a_lost_link() {
    let mut world = start_quick_network().await;
    let (client, ear) = connect_recorder(&world).await;
    for uri in ["svc://own/corporation", "svc://own/status", "svc://own/vs-agents"] {
        client.subscribe(SubscribeRequestParams::new(uri)).await.expect("subscribed");
    }
    let heard = |uri: &str| ear.updates.lock().expect("the list").iter().any(|one| one == uri);
    world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments("news")).await;
    world.wait_until("the corporation has changed", async || heard("svc://own/corporation")).await;
    world.create_vs_participant("did:web:agent.invalid").await;
    world.wait_until("an agent is there", async || heard("svc://own/vs-agents")).await;
    assert!(!heard("svc://own/status"));
    world.network.kill_indexer();
    world.wait_until("a link is down", async || heard("svc://own/status")).await;
    world.network.restart_indexer().await.expect("starts");
    let _ = client.cancel().await;
}
