//! A changed document that the indexers resolve again: the reasons for which nothing is sent, and the events that lift them.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use svc::network::ChainAndIndexer;
use svc_agent::{ChainConfig, DidMethod, EventsConfig, HandledEvents};
use svc_devnet::Devnet;
use svc_net::upstream::NodeClient;
use svc_pipeline::{FeeBudget, FeePolicy, query_fee_allowance};
use svc_wire::proto_registry::NodeGeneration;

use crate::e2e::{
    agent::{AgentServer, Mode, chain_config, document::login::key, sqlite_url},
    harness::TEST_TIMEOUT,
    indexer::{MARKETPLACE_SCENARIO, await_indexed, config, read_ok},
};

const ACCOUNT: u8 = 9;

/// A chain with its indexer, whose blocks come quickly.
pub async fn start_registry() -> ChainAndIndexer {
    let config = config(MARKETPLACE_SCENARIO, Some(Duration::from_millis(50)));
    ChainAndIndexer::launch(&config).await.expect("chain and indexer start")
}

pub fn registry_id(devnet: &Devnet) -> u64 {
    devnet.saved_values["registry_id"].parse().expect("a number")
}

/// Address of the agent's account.
pub fn account() -> String {
    key(ACCOUNT).public_key().address("svc").expect("an address").to_string()
}

pub async fn send_coins(devnet: &Devnet, to: &str, amount: u64) {
    let coins = json!({"from_address": "$member", "to_address": to, "amount": [{"denom": "usvc", "amount": amount.to_string()}]});
    devnet.send_messages("member", &[("/cosmos.bank.v1beta1.MsgSend", coins)]).await.expect("sent");
}

/// Makes a DID a holder of the corporation; its record has an end as the participant has one. Returns the id of the participant.
pub async fn admit(devnet: &Devnet, did: &str, with_feegrant: bool) -> u64 {
    admit_account(devnet, did, &account(), with_feegrant).await
}

/// Like [`admit`], with another account.
pub async fn admit_account(devnet: &Devnet, did: &str, account: &str, with_feegrant: bool) -> u64 {
    admit_with(devnet, did, account, &json!({"vs_operator_authz_with_feegrant": with_feegrant})).await
}

/// Like [`admit_account`], with members of the message about the fees.
async fn admit_with(devnet: &Devnet, did: &str, account: &str, fees: &Value) -> u64 {
    for operator in ["$operator", "$issuing_service", "$issuer_operator"] {
        send_coins(devnet, operator, 1_000_000).await;
    }
    let mut apply = json!({
        "corporation": "$registry", "operator": "$operator", "role": "HOLDER", "validator_participant_id": "$diploma_issuer", "did": did,
        "vs_operator": account, "vs_operator_authz_msg_types": ["$type:pp.MsgTriggerResolver"],
    });
    apply.as_object_mut().expect("members").extend(fees.as_object().expect("members").clone());
    let applied = devnet.send_messages("operator", &[("pp.MsgStartParticipantOP", apply)]).await.expect("applied");
    let id = applied[0]["participant_id"].as_str().expect("an id").to_owned();
    let validate = json!({"corporation": "$issuer", "operator": "$issuing_service", "id": id});
    devnet
        .send_messages("issuing_service", &[("pp.MsgSetParticipantOPToValidated", validate)])
        .await
        .expect("validated");
    id.parse().expect("a number")
}

pub fn events(indexer: &str) -> EventsConfig {
    EventsConfig {
        indexer: indexer.to_owned().into(),
        covers_corporation: true,
        handled: HandledEvents::All,
        start_height: None,
        silence: Some(Duration::from_secs(60)),
        receiver: None,
        max_stored: 1_000,
    }
}

impl AgentServer {
    async fn resolution(&self) -> Value {
        self.send("GET", "/v2/agent/info", None).await.body["resolution"].clone()
    }

    /// Waits until the resolution has a state, and a reason if it is blocked; both change with blocks.
    async fn await_resolution(&self, devnet: &Devnet, state: &str, reason: Option<&str>) -> Value {
        let mut heights = devnet.node.watch_heights();
        let mut last = Value::Null;
        let waited = tokio::time::timeout(TEST_TIMEOUT, async {
            loop {
                last = self.resolution().await;
                if last["state"] == state && last["reason"].as_str() == reason {
                    return;
                }
                heights.changed().await.expect("blocks");
            }
        });
        let is_there = waited.await.is_ok();
        assert!(is_there, "{state} {reason:?}, and it is {last}");
        last
    }

    async fn add_entry(&self, id: &str) {
        let body = json!({"id": id, "type": "MCP", "serviceEndpoint": "https://example.com/mcp"}).to_string();
        let added = self.send("POST", "/v2/vt/service-endpoints", Some(&body)).await;
        assert_eq!(added.status, 200, "{}", added.body);
    }
}

/// The transactions of the agent's account that have a DID resolved again, as the indexer lists them.
pub async fn triggers(network: &ChainAndIndexer) -> Vec<Value> {
    triggers_of(network, &account()).await
}

/// Those of another account.
pub async fn triggers_of(network: &ChainAndIndexer, account: &str) -> Vec<Value> {
    // The indexer follows the node, which the agent has heard.
    let height = *network.devnet.node.watch_heights().borrow();
    await_indexed(&network.indexer_origin(), height).await;
    let path =
        format!("/v4/indexer/events?corporation_id={}&after_block_height=0&limit=500", registry_id(&network.devnet));
    let page = read_ok(&network.indexer_origin(), &path).await;
    let is_own = |event: &&Value| event["event_type"] == "TriggerResolver" && event["payload"]["sender"] == account;
    page["events"].as_array().expect("events").iter().filter(is_own).cloned().collect()
}

async fn start(network: &ChainAndIndexer, directory: &std::path::Path, fees: FeePolicy) -> AgentServer {
    let origin = network.devnet.node.origin();
    let mut chain: ChainConfig = chain_config(&origin, registry_id(&network.devnet), directory, key(ACCOUNT));
    chain.expected.fees = fees;
    let setup = (events(&network.indexer_origin()), chain);
    AgentServer::start_with(directory, &sqlite_url(directory), (DidMethod::Web, Mode::Internal), setup).await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_participant_record_or_money_nothing_is_sent_until_the_chain_gives_them() {
    let network = Arc::new(start_registry().await);
    let devnet = &network.devnet;
    let directory = tempfile::tempdir().expect("a directory");
    let server = start(&network, directory.path(), FeePolicy::at_price(25_000)).await;
    let did = server.agent.keeper().published().document.did().to_owned();
    server.await_resolution(devnet, "blocked", Some("NO_PARTICIPANT")).await;

    let id = admit(devnet, &did, false).await;
    server.await_resolution(devnet, "blocked", Some("NO_FEES")).await;
    assert!(triggers(&network).await.is_empty());

    // Coins alone are no event of the registry; the next one about the participant is.
    send_coins(devnet, &account(), 1_000_000).await;
    let end = |seconds: i64| json!({"corporation": "$issuer", "operator": "$issuer_operator", "id": id, "effective_until": format!("$now+{seconds}s")});
    let set_end = async |seconds| {
        let message = ("pp.MsgSetParticipantEffectiveUntil", end(seconds));
        devnet.send_messages("issuer_operator", &[message]).await.expect("the end is set");
    };
    set_end(1_000).await;
    let idle = server.await_resolution(devnet, "idle", None).await;
    let sent = triggers(&network).await;
    assert_eq!((sent.len(), &sent[0]["tx_hash"]), (1, &idle["txHash"]));

    // Eight changes at once are one transaction.
    futures::future::join_all(["a", "b", "c", "d", "e", "f", "g", "h"].map(|id| server.add_entry(id))).await;
    server.await_resolution(devnet, "pending", None).await;
    server.await_resolution(devnet, "idle", None).await;
    assert_eq!(triggers(&network).await.len(), 2);

    // A participant that has ended is not used any more.
    set_end(2).await;
    let mut heights = devnet.node.watch_heights();
    let over = std::time::Instant::now() + Duration::from_secs(3);
    while std::time::Instant::now() < over {
        heights.changed().await.expect("blocks");
    }
    server.add_entry("late").await;
    server.await_resolution(devnet, "blocked", Some("NO_PARTICIPANT")).await;
    assert_eq!(triggers(&network).await.len(), 2);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn right_after_its_refill_an_allowance_pays_again_without_any_event() {
    let mut config = config(MARKETPLACE_SCENARIO, Some(Duration::from_millis(50)));
    config.devnet.generation = NodeGeneration::N3;
    let network = ChainAndIndexer::launch(&config).await.expect("chain and indexer start");
    let devnet = &network.devnet;
    send_coins(devnet, &account(), 1).await;
    let directory = tempfile::tempdir().expect("a directory");
    let server = start(&network, directory.path(), FeePolicy::at_price(25_000)).await;
    let did = server.agent.keeper().published().document.did().to_owned();
    // The fee of one transaction and a part of another one.
    let limit = 5_000;
    let coins = json!([{"denom": "usvc", "amount": limit.to_string()}]);
    let fees = json!({"vs_operator_authz_with_feegrant": true, "vs_operator_authz_fee_spend_limit": coins});
    admit_with(devnet, &did, &account(), &fees).await;
    server.await_resolution(devnet, "idle", None).await;
    let node = NodeClient::new(devnet.node.origin()).expect("a client");
    let granter = &devnet.saved_values["registry"];
    let allowance = query_fee_allowance(&node, granter, &account(), "usvc").await.expect("read").expect("an allowance");
    let FeeBudget::UpTo(left) = allowance.budget else { panic!("{allowance:?}") };
    assert!(left < limit - left, "{left} of {limit} pay no second transaction");

    // A few seconds before the refill a changed document is not paid for; the next look comes by itself, and not after ten minutes.
    let refill = allowance.refill_for("/svc.pp.v1.MsgTriggerResolver").expect("a refill");
    let now = devnet.node.read_core(|core| core.latest().map(|block| block.time)).expect("a block");
    let ahead = u64::try_from(refill.seconds - now.seconds).expect("it is ahead");
    assert!(ahead > 80_000, "{ahead} s are left of a day");
    let mut heights = devnet.node.watch_heights();
    devnet.node.advance_clock(Duration::from_secs(ahead - 8));
    heights.changed().await.expect("blocks");
    server.add_entry("one").await;
    server.await_resolution(devnet, "blocked", Some("NO_FEES")).await;
    server.await_resolution(devnet, "idle", None).await;
    assert_eq!(triggers(&network).await.len(), 2);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_node_of_every_generation_an_agent_reads_its_participant_and_writes_by_its_record() {
    for generation in NodeGeneration::ALL {
        let mut config = config(MARKETPLACE_SCENARIO, Some(Duration::from_millis(50)));
        config.devnet.generation = generation;
        let network = ChainAndIndexer::launch(&config).await.expect("chain and indexer start");
        let devnet = &network.devnet;
        let directory = tempfile::tempdir().expect("a directory");
        let server = start(&network, directory.path(), FeePolicy::at_price(25_000)).await;
        let did = server.agent.keeper().published().document.did().to_owned();
        server.await_resolution(devnet, "blocked", Some("NO_PARTICIPANT")).await;
        let found = server.agent.chain().access().expect("the chain is found").pipeline.release().generation;
        assert_eq!(found, Some(generation));
        send_coins(devnet, &account(), 1_000_000).await;
        admit(devnet, &did, false).await;
        let idle = server.await_resolution(devnet, "idle", None).await;
        let sent = triggers(&network).await;
        assert_eq!((sent.len(), &sent[0]["tx_hash"]), (1, &idle["txHash"]), "{generation}");
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_corporation_s_allowance_pays_and_a_ceiling_blocks() {
    let network = start_registry().await;
    let devnet = &network.devnet;
    // A grant with an allowance to an account without state panics.
    send_coins(devnet, &account(), 1).await;
    let directory = tempfile::tempdir().expect("a directory");
    let low = FeePolicy { max_fee: 1, ..FeePolicy::at_price(25_000) };
    let server = start(&network, directory.path(), low).await;
    let did = server.agent.keeper().published().document.did().to_owned();
    admit(devnet, &did, true).await;
    server.await_resolution(devnet, "blocked", Some("FEE_ABOVE_CEILING")).await;
    assert!(triggers(&network).await.is_empty());
    server.stop().await;

    // The next process looks at once.
    let server = start(&network, directory.path(), FeePolicy::at_price(25_000)).await;
    server.await_resolution(devnet, "idle", None).await;
    assert_eq!(triggers(&network).await.len(), 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_indexer_of_another_chain_ends_the_agent_and_nothing_of_it_is_stored() {
    // The heights of the node are those of both chains.
    let network = start_registry().await;
    let other = start_registry().await;
    let directory = tempfile::tempdir().expect("a directory");
    let chain =
        chain_config(&network.devnet.node.origin(), registry_id(&network.devnet), directory.path(), key(ACCOUNT));
    let setup = (events(&other.indexer_origin()), chain);
    let modes = (DidMethod::Web, Mode::Internal);
    let server = AgentServer::start_with(directory.path(), &sqlite_url(directory.path()), modes, setup).await;
    let reason = tokio::time::timeout(TEST_TIMEOUT, server.agent.wait_until_ended()).await.expect("in time");
    assert!(reason.contains("they are of two chains"), "{reason}");
    assert_eq!(server.agent.watcher().state().stored_height, None);
    server.stop().await;
}
