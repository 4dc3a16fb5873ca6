//! The list of tools follows the chain: what is revoked disappears, is refused at dispatch, and clients are told.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use rmcp::{
    ClientHandler, RoleClient, ServiceExt,
    model::{
        CallToolRequestParams, ClientCapabilities, ClientConfig, Implementation, ProtocolVersion,
        ResourceUpdatedNotificationParam, SubscribeRequestParams,
    },
    service::NotificationContext,
    transport::{StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig},
};
use serde_json::json;

use super::harness::{CREATE, arguments, assert_envelope, ecosystem, quick};

#[derive(Clone)]
struct Listener {
    info: ClientConfig,
    lists: Arc<AtomicUsize>,
    updates: Arc<AtomicUsize>,
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        self.info.clone()
    }
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.lists.fetch_add(1, Ordering::SeqCst);
    }
    async fn on_resource_updated(&self, update: ResourceUpdatedNotificationParam, _: NotificationContext<RoleClient>) {
        assert_eq!(update.uri, "svc://own/authorizations");
        self.updates.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_grant_takes_the_tools_away_and_tells_the_clients() {
    let world = quick().await;
    assert!(world.tool_names().await.iter().any(|name| name == CREATE));
    let info = ClientConfig::new(ClientCapabilities::default(), Implementation::new("listener", "1"))
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE);
    let listener = Listener { info, lists: Arc::default(), updates: Arc::default() };
    let transport = StreamableHttpClientTransport::from_config(
        StreamableHttpClientTransportConfig::with_uri(world.network.mcp_url())
            .auth_header(world.network.bearer.clone()),
    );
    let legacy = listener.clone().serve(transport).await.expect("a client of the generation with sessions connects");
    #[allow(deprecated)]
    legacy.subscribe(SubscribeRequestParams::new("svc://own/authorizations")).await.expect("subscribes");

    let own = world.network.seat.operator_address.clone();
    world.ok("svc.ledger.de.revokeOperatorAuthorization", json!({"grantee": own})).await;
    world.until("the tools are gone", async || !world.tool_names().await.iter().any(|name| name == CREATE)).await;
    let left = world.tool_names().await;
    assert!(left.contains(&"svc.ledger.co.createCorporation".to_owned()), "open to any account");
    world
        .until("clients are told", async || {
            listener.lists.load(Ordering::SeqCst) > 0 && listener.updates.load(Ordering::SeqCst) > 0
        })
        .await;

    let sent = world.operator_txs_in_blocks();
    let error = world.fails(CREATE, ecosystem("revoked"), "AUTHZ_NOT_GRANTED").await;
    assert_eq!((&error["stage"], &error["retryable"]), (&json!("authorization"), &json!(false)));
    let request = CallToolRequestParams::new(CREATE).with_arguments(arguments(ecosystem("revoked")));
    let answer = legacy.call_tool(request).await.expect("a result").structured_content.expect("structured");
    assert_envelope(&answer, "AUTHZ_NOT_GRANTED");
    assert_eq!(world.operator_txs_in_blocks(), sent, "refused without a broadcast");
    let _ = legacy.cancel().await;
}

/// All types an operator can hold, but one.
fn all_but(world: &super::harness::World, without: &str) -> serde_json::Value {
    let types = world.network.operator.snapshot().authorizations[0].msg_types.clone();
    types.into_iter().filter(|one| !one.ends_with(without)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_revoked_type_takes_one_tool_from_two_clients_within_two_blocks_and_a_new_grant_brings_it_back() {
    let world = super::harness::world(super::harness::config(1_000)).await;
    let grant = |types: serde_json::Value| {
        json!([{"type": "de.MsgGrantOperatorAuthorization", "value": {
            "corporation": "$corporation", "operator": "$corporation", "grantee": "$operator", "with_feegrant": true,
            "msg_types": types,
        }}])
    };
    let (all, fewer) = (all_but(&world, "nothing"), all_but(&world, "MsgCreateEcosystem"));
    let other = svc::client::Client::listen(&world.network.mcp_url(), &world.network.bearer).await.expect("connects").0;
    let lists = async |client: &svc::client::Client| {
        client.tools().await.expect("listed").iter().any(|tool| tool.name == CREATE)
    };
    assert!(lists(&world.client).await && lists(&other).await);
    let sent = world.operator_txs_in_blocks();
    world.corporation_decides(grant(fewer)).await;
    let decided = world.height();
    // Calls race the news: each is refused, by the gate or by the simulation, and none is sent.
    let race = (0..8).map(|n| world.call(CREATE, ecosystem(format!("race-{n}"))));
    for answer in futures::future::join_all(race).await {
        let code = answer.content["code"].as_str().unwrap_or_default().to_owned();
        assert!(answer.is_error && code.starts_with("AUTHZ_"), "{:#}", answer.content);
    }
    assert_eq!(world.operator_txs_in_blocks(), sent, "refused without a broadcast");
    world.until("both lists are without it", async || !lists(&world.client).await && !lists(&other).await).await;
    assert!(world.height() <= decided + 2, "within two blocks: {decided}, {}", world.height());
    assert!(world.tool_names().await.contains(&"svc.ledger.es.updateEcosystem".to_owned()), "only this one");
    world.corporation_decides(grant(all)).await;
    world.until("both lists have it again", async || lists(&world.client).await && lists(&other).await).await;
    world.ok(CREATE, ecosystem("again")).await;
    other.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_to_another_operator_shows_in_the_reads() {
    let world = quick().await;
    let grantee = world.network.devnet.address("member").to_owned();
    world
        .ok(
            "svc.ledger.de.grantOperatorAuthorization",
            json!({
                "grantee": grantee, "msg_types": ["/svc.ec.v1.MsgCreateEcosystem"], "expiration": "2099-01-01T00:00:00Z",
                "with_feegrant": true, "feegrant_spend_limit": [{"denom": "usvc", "amount": "1000000"}],
            }),
        )
        .await;
    let listed =
        world.ok("svc.idx.de.listOperatorAuthorizations", json!({"operator": grantee, "only_active": true})).await;
    let authorization = &listed["authorizations"][0];
    assert_eq!(authorization["expiration"], "2099-01-01T00:00:00.000Z");
    assert!(authorization.get("spend_limit").is_none(), "absent, not null");
    let one = world.ok("svc.idx.de.getOperatorAuthorization", json!({"id": authorization["id"]})).await;
    assert_eq!(&one["authorization"], authorization);
    let grants = world.ok("svc.idx.de.listFeeGrants", json!({"grantee": grantee})).await;
    assert_eq!(grants["fee_grants"][0]["spend_limit"], json!([{"denom": "usvc", "amount": "1000000"}]));
    world.ok("svc.ledger.de.revokeOperatorAuthorization", json!({"grantee": grantee})).await;
    let listed = world.ok("svc.idx.de.listFeeGrants", json!({"grantee": grantee})).await;
    assert_eq!(listed, json!({"fee_grants": []}));
    world.fails("svc.idx.de.getOperatorAuthorization", json!({"id": authorization["id"]}), "UPSTREAM_HTTP_ERROR").await;
    let missing = json!({"grantee": grantee});
    let error = world.fails("svc.ledger.de.revokeOperatorAuthorization", missing, "SIMULATION_FAILED").await;
    assert!(
        error["message"].as_str().is_some_and(|text| text.contains("operator authorization not found")),
        "{error:#}"
    );
}
