//! Failing upstreams: the answer is correct, and later calls succeed.

use std::time::Duration;

use serde_json::json;
use svc_devnet::node::QueryRefusal;
use svc_operator::{BootSubject, FeePolicy, Operator, OperatorConfig, SetGasPrice, preflight};
use svc_wire::account_key::AccountKey;

use crate::e2e::harness::{CREATE_ECOSYSTEM, ecosystem_arguments, network_config, start_network, start_quick_network};

#[tokio::test(flavor = "multi_thread")]
async fn a_write_without_an_indexer_succeeds_and_is_reported_as_not_indexed() {
    let mut settings = network_config(100);
    settings.indexer_timeout = Duration::from_millis(1500);
    let mut world = start_network(settings).await;
    world.network.kill_indexer();
    let receipt = world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments("unsynced")).await;
    assert_eq!(receipt["indexer_synced"], false);
    assert!(receipt["indexer_height"].as_u64() < receipt["block_height"].as_u64());
    assert_eq!(receipt["response"]["ecosystem_id"], "1");
    let error = world.call_error("svc.idx.es.getEcosystem", json!({"id": 1}), "UPSTREAM_UNREACHABLE").await;
    assert_eq!((&error["details"]["kind"], &error["retryable"]), (&json!("indexer"), &json!(true)));

    world.network.restart_indexer().await.expect("starts again");
    world
        .wait_until("the indexer has caught up", async || {
            !world.call_tool("svc.idx.es.getEcosystem", json!({"id": 1})).await.is_error
        })
        .await;
    world
        .wait_until("writes are synced again", async || {
            let name = format!("again-{}", world.height());
            world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments(name)).await.content["indexer_synced"] == true
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_outage_is_reported_and_its_recovery_detected() {
    let world = start_quick_network().await;
    world.network.devnet.node.stop();
    let error = world.call_error(CREATE_ECOSYSTEM, ecosystem_arguments("down"), "UPSTREAM_UNREACHABLE").await;
    assert_eq!((&error["stage"], &error["details"]["kind"]), (&json!("upstream"), &json!("rpc")));
    let health = reqwest::get(format!("{}/healthz", world.network.server_origin())).await.expect("answers");
    assert_eq!(health.status(), 200, "a restart of this server would not mend the node");
    world.network.devnet.node.start().expect("starts again");
    world
        .wait_until("writes work again", async || {
            !world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments(format!("up-{}", world.height()))).await.is_error
        })
        .await;
    assert!(!world.ecosystems_on_chain().contains(&"did:web:down.example".to_owned()), "what failed was not sent");
}

/// The node answers pings and requests, and sends no header.
#[tokio::test(flavor = "multi_thread")]
async fn headers_that_stop_are_noticed_by_the_status_of_the_node() {
    let world = start_quick_network().await;
    let node = &world.network.devnet.node;
    node.update_faults(|faults| faults.stall_websockets = true);
    let receipt = world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments("unheard")).await;
    assert_eq!(receipt["code"], 0);
    let height = world.height();
    let status = async || world.call_ok("svc.wallet.getStatus", json!({})).await["rpc_ws"]["last_height"].as_u64();
    world.wait_until("the height goes on", async || status().await.is_some_and(|heard| heard > height)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_headers_changes_no_timeout_height() {
    let world = start_network(network_config(100)).await;
    let node = &world.network.devnet.node;
    world.await_blocks(20).await;
    node.update_faults(|faults| faults.stall_websockets = true);
    world.await_blocks(25).await;
    node.update_faults(|faults| faults.stall_websockets = false);
    world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments("after-the-burst")).await;
    let row = world.transactions().await[0].clone();
    let timeout = row["timeout_height"].as_u64().expect("a height") - row["block_height"].as_u64().expect("a height");
    // Twice the wait limit of 30 s; with arrival times a burst of headers made thousands of blocks of it.
    assert!((300..=610).contains(&timeout), "{timeout} blocks");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_websocket_loses_no_inclusion() {
    let world = start_quick_network().await;
    for index in 0..5 {
        let write = world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments(format!("cut-{index}")));
        let cut = async { world.network.devnet.node.cut_websockets() };
        let (receipt, ()) = tokio::join!(write, cut);
        assert_eq!(receipt["code"], 0);
    }
    assert_eq!(world.ecosystems_on_chain().len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_lost_after_check_tx_is_resent_with_the_next_write() {
    let world = start_quick_network().await;
    world.network.devnet.node.update_faults(|faults| faults.drop_after_check = 1);
    let (first, second) = tokio::join!(world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("lost")), async {
        // After the next block the node's check state lacks the sequence of the lost transaction; the next write finds this.
        let mut heights = world.network.devnet.node.watch_heights();
        heights.changed().await.expect("a block");
        heights.changed().await.expect("a block");
        world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("after")).await
    });
    assert!(!first.is_error, "{:#}", first.content);
    assert!(!second.is_error, "{:#}", second.content);
    assert_eq!(world.operator_txs_in_blocks(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_is_not_included_times_out_and_then_expires() {
    let mut settings = network_config(100);
    settings.tx_timeout = Duration::from_secs(1);
    let world = start_network(settings).await;
    world.network.devnet.node.update_faults(|faults| faults.hold_inclusion = true);
    let error = world.call_error(CREATE_ECOSYSTEM, ecosystem_arguments("held"), "BCAST_TIMEOUT").await;
    let hash = error["details"]["tx_hash"].clone();
    assert!(error["details"]["timeout_height"].as_u64().is_some_and(|height| height > world.height()));
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("svc.cosmos.tx.getTx")));
    let pending = world.call_ok("svc.cosmos.tx.getTx", json!({"hash": hash})).await;
    assert_eq!((&pending["found"], &pending["state"]), (&json!(false), &json!("pending")));
    world
        .wait_until("the transaction has expired", async || {
            world.call_ok("svc.cosmos.tx.getTx", json!({"hash": hash})).await["state"] == "expired"
        })
        .await;
    world.network.devnet.node.update_faults(|faults| faults.hold_inclusion = false);
    world
        .wait_until("writes work on the freed sequence", async || {
            !world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("next")).await.is_error
        })
        .await;
    assert!(
        !world.ecosystems_on_chain().contains(&"did:web:held.example".to_owned()),
        "an expired transaction never executes"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_simulation_sends_nothing() {
    let world = start_quick_network().await;
    let text = "failed to execute message; message index: 0: something: broken with gas used: '1'".to_owned();
    world.network.devnet.node.update_faults(|faults| faults.fail_simulations = Some((1, text)));
    let error = world.call_error(CREATE_ECOSYSTEM, ecosystem_arguments("refused"), "SIMULATION_FAILED").await;
    assert_eq!((&error["details"]["codespace"], &error["stage"]), (&json!("sdk"), &json!("broadcast")));
    assert_eq!(world.operator_txs_in_blocks(), 0);
    // The sentences of other failures, as a message quotes them that is refused for its name.
    let known: serde_json::Value =
        serde_json::from_str(include_str!("../../../wire/tests/fixtures/error-sentences.json")).expect("JSON");
    for sentence in known["sentences"].as_array().expect("a list") {
        for text in [
            format!(
                "failed to execute message; message index: 0: no name: {sentence}: invalid name [a.go:1] with gas used: '1'"
            ),
            format!("invalid name {sentence}: invalid name [a.go:1] with gas used: '1'"),
        ] {
            world.network.devnet.node.update_faults(|faults| faults.fail_simulations = Some((1, text)));
            let error = world.call_error(CREATE_ECOSYSTEM, ecosystem_arguments("quoted"), "SIMULATION_FAILED").await;
            assert!(error["message"].as_str().is_some_and(|text| text.contains("invalid name")), "{error:#}");
        }
    }
    world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments("fine")).await;
    assert_eq!(world.operator_txs_in_blocks(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allowance_that_cannot_be_read_stops_the_write_and_changes_no_payer() {
    let world = start_quick_network().await;
    let node = &world.network.devnet.node;
    let fail = |failure: Option<(u32, &str)>| {
        let path = "feegrant.v1beta1.Query/Allowance".to_owned();
        let refusal = failure.map(|(code, log)| QueryRefusal { path, code, log: log.to_owned() });
        node.update_faults(|faults| faults.fail_queries = refusal);
    };
    let grant = async || world.read_resource("svc://own/fee-grant").await;
    let pruned = "failed to load state at height 9; version does not exist: not found";
    for (index, failure) in [(6, "nil pointer dereference"), (38, pruned)].into_iter().enumerate() {
        fail(Some(failure));
        // The events of the write make the server read its snapshot again.
        let paid = world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments(format!("paid{index}"))).await;
        assert_eq!(paid["fee_payer"], "corporation");
        world.wait_until("the allowance is not known", async || grant().await["unknown"].is_string()).await;
        let sent = world.operator_txs_in_blocks();
        let error = world.call_error(CREATE_ECOSYSTEM, ecosystem_arguments("unpaid"), "NOT_READY").await;
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains("whether the corporation pays") && message.contains(failure.1), "{message}");
        assert_eq!((&error["retryable"], world.operator_txs_in_blocks()), (&json!(true), sent));
        fail(None);
        world.wait_until("the allowance is known again", async || grant().await["granter"].is_string()).await;
    }
    // Absence is an answer.
    fail(Some((6, "fee-grant not found: not found")));
    let paid = world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments("last")).await;
    assert_eq!(paid["fee_payer"], "corporation");
    world.wait_until("there is no allowance", async || grant().await.is_null()).await;
    let paid = world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments("own")).await;
    assert_eq!(paid["fee_payer"], "operator");
    let audit = world.read_resource("svc://own/audit").await.to_string();
    for payer in ["corporation", "operator"] {
        assert!(audit.contains(&format!("\"fee_payer\":\"{payer}\"")), "{payer}: {audit}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_price_that_is_not_set_is_that_of_the_node_at_the_start() {
    let world = start_quick_network().await;
    let node = &world.network.devnet.node;
    node.update_faults(|faults| faults.gas_price_micros = Some(250_000));
    // Without a configured price the node's own is taken at the start, below the ceiling of a fee.
    let operator = |set_price, fees| OperatorConfig {
        set_price,
        fees,
        ..OperatorConfig::new(1, node.origin(), world.network.indexer_origin())
    };
    let key = || AccountKey::from_mnemonic(crate::e2e::harness::OPERATOR_MNEMONIC).expect("a key");
    let usual = FeePolicy::at_price(25_000);
    let price = async |config: OperatorConfig| {
        let found = preflight(&config, &key()).await;
        let finding = found.into_iter().find(|one| one.subject == BootSubject::GasPrice).expect("a finding");
        (finding.has_passed, finding.detail)
    };
    let raised = "0.25 per gas; the node takes no fee below 0.25".to_owned();
    assert_eq!(price(operator(None, usual)).await, (true, raised));
    let (has_passed, reason) = price(operator(Some(SetGasPrice::default()), usual)).await;
    assert!(!has_passed && reason.contains("0.25usvc per gas") && reason.contains("set to 0.025usvc"), "{reason}");
    let dearer = "0.5 per gas; the node takes no fee below 0.25".to_owned();
    assert_eq!(price(operator(Some(SetGasPrice::default()), FeePolicy::at_price(500_000))).await, (true, dearer));
    let booted = Operator::boot(operator(None, usual), key()).await.expect("boots");
    assert_eq!(booted.chain().params.fees, usual.at_least(250_000));
    booted.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_frame_of_a_node_does_not_reach_the_model() {
    let world = start_quick_network().await;
    let unknown = json!({"id": 77, "archive": true});
    let error = world.call_error("svc.ledger.es.archiveEcosystem", unknown, "SIMULATION_FAILED").await;
    let message = error["message"].as_str().expect("a message");
    assert!(!message.contains("rpc error") && !message.contains(".go:") && !message.contains("gas used"), "{message}");
    assert!(error["details"]["gas_used"].as_u64().is_some_and(|gas| gas > 0), "{error:#}");
    let raw = error["details"]["raw_log"].as_str().expect("a text");
    assert!(raw.contains("failed to execute message") && !raw.contains(".go:"), "{raw}");
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_belong_together_are_checked_before_the_indexer_is_asked() {
    let world = start_quick_network().await;
    for (tool, given, named) in [
        ("svc.idx.gf.listGovernanceFrameworkVersions", json!({}), "either ecosystem_id or corporation_id"),
        ("svc.idx.gf.listGovernanceFrameworkVersions", json!({"ecosystem_id": 1, "corporation_id": 1}), "either"),
        ("svc.idx.pp.findBeneficiaries", json!({}), "issuer_participant_id or verifier_participant_id"),
        ("svc.idx.gr.listVotes", json!({}), "proposal_id or voter"),
        ("svc.idx.xr.getExchangeRate", json!({}), "either id or base_asset_type"),
        ("svc.idx.stats.getStats", json!({}), "either id or granularity"),
        ("svc.idx.stats.getStatsSnapshot", json!({"entity_type": "ECOSYSTEM"}), "entity_id is required"),
        ("svc.idx.stats.countParticipants", json!({"entity_kind": 1, "role_type": 0}), "entity_id is required"),
    ] {
        let error = world.call_error(tool, given, "INPUT_INVALID").await;
        assert!(error["message"].as_str().is_some_and(|text| text.contains(named)), "{tool}: {error:#}");
    }
    world.call_ok("svc.idx.gf.listGovernanceFrameworkVersions", json!({"corporation_id": 1})).await;
}
