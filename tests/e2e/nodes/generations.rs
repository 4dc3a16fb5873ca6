//! Nodes of every generation, nodes that are upgraded while they are used, and nodes whose descriptors cannot be used.

use std::{collections::BTreeSet, process::Output};

use prost::Message;
use serde_json::{Value, json};
use svc::mcp_client::McpClient;
use svc_agent::{DidMethod, EventsConfig};
use svc_devnet::node::{ChangedField, FieldChange};
use svc_net::upstream::{NodeClient, read_node_descriptors};
use svc_wire::{
    proto::svc::co::v1::{QueryGetCorporationRequest, QueryGetCorporationResponse},
    proto_registry::NodeGeneration,
};

use crate::e2e::{
    agent::{AgentServer, Mode, chain_config, document::login::key, no_events, sqlite_url},
    callers::secrets::{SERVER_PROGRAM, spawn_server},
    harness::{
        CREATE_ECOSYSTEM, TEST_TIMEOUT, TestNetwork, call_tool, ecosystem_arguments, network_config, start_network,
    },
};

async fn start_as(generation: NodeGeneration) -> TestNetwork {
    let mut config = network_config(100);
    config.devnet.generation = generation;
    start_network(config).await
}

/// The settings of a program beside the tool server of the network, for the same operator.
fn settings_of(world: &TestNetwork) -> Vec<(&'static str, String)> {
    vec![
        ("MCP_SVC_MNEMONIC", crate::e2e::harness::OPERATOR_MNEMONIC.to_owned()),
        ("MCP_BEARER_TOKEN", "token-0123456789abcdef-0123456789abcdef".to_owned()),
        ("SVC_CORPORATION", "1".to_owned()),
        ("SVC_RPC", world.network.devnet.node.origin()),
        ("SVC_INDEXER", world.network.indexer_origin()),
        ("MCP_HTTP_PORT", "0".to_owned()),
    ]
}

/// Runs a command of the program until it ends.
async fn run_to_end(world: &TestNetwork, words: &[&str]) -> Output {
    let mut command = tokio::process::Command::new(SERVER_PROGRAM);
    command.args(words).env_clear().envs(settings_of(world)).kill_on_drop(true);
    tokio::time::timeout(TEST_TIMEOUT, command.output()).await.expect("it ends in time").expect("it runs")
}

/// Whether `svc check` passes, and its finding about a part.
async fn check(world: &TestNetwork, part: &str) -> (bool, Value) {
    let output = run_to_end(world, &["check", "--json"]).await;
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let row = rows.iter().rfind(|row| row["what"] == part).cloned();
    let row = row.unwrap_or_else(|| panic!("{rows:?} {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.success(), row)
}

/// The finding of `svc check` about the release of the node.
async fn check_release(world: &TestNetwork) -> Value {
    check(world, "release of the node").await.1
}

/// Starts `svc serve` beside the network, has it write once, and stops it.
async fn serve_and_write_once(world: &TestNetwork, name: &str) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("a text").to_owned();
    let (rpc, indexer) = (world.network.devnet.node.origin(), world.network.indexer_origin());
    let (journal, audit) = (path("journal.db"), path("audit.jsonl"));
    let started = tokio::task::spawn_blocking(move || {
        spawn_server(&rpc, &indexer, &[("SVC_JOURNAL", &journal), ("SVC_AUDIT", &audit)])
    });
    let server = started.await.expect("joins");
    let client = McpClient::connect(&server.url, server.token()).await.expect("connects");
    let before = world.ecosystems_on_chain();
    let answer = call_tool(&client, CREATE_ECOSYSTEM, ecosystem_arguments(name)).await;
    assert!(!answer.is_error, "{:#}", answer.content);
    assert_eq!(world.ecosystems_on_chain().len(), before.len() + 1);
    client.close().await;
    let (code, log) = tokio::task::spawn_blocking(move || server.terminate()).await.expect("joins");
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("its messages are signed without a comparison"), "{log}");
}

/// Starts an agent that finds the chain, and reads there that its DID has no participant.
async fn boot_agent(world: &TestNetwork) {
    let directory = tempfile::tempdir().expect("a directory");
    let chain = chain_config(&world.network.devnet.node.origin(), 1, directory.path(), key(9));
    let events = EventsConfig { indexer: world.network.indexer_origin().into(), ..no_events() };
    let parts = (events, chain);
    let url = sqlite_url(directory.path());
    let agent = AgentServer::start_with(directory.path(), &url, (DidMethod::Web, Mode::Internal), parts).await;
    let resolution = async || agent.send("GET", "/v2/agent/info", None).await.body["resolution"].clone();
    world.wait_until("the agent has read the chain", async || resolution().await["reason"] == "NO_PARTICIPANT").await;
    agent.stop().await;
}

/// The parameters of trust deposits, as the indexer has read them.
async fn trust_deposit_params(world: &TestNetwork) -> Value {
    world.call_ok("svc.idx.td.getTrustDepositParams", json!({})).await["params"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_every_generation_is_served_written_to_and_indexed() {
    let (mut listed, mut share_values) = (BTreeSet::new(), BTreeSet::new());
    // A new chain stakes a smaller part of the fees from the second generation on.
    let deposit_rate = |generation: NodeGeneration| if generation == NodeGeneration::N0 { 0.2 } else { 0.05 };
    for generation in NodeGeneration::ALL {
        let world = start_as(generation).await;
        world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments(generation.as_str().to_lowercase())).await;
        let names = world.tool_names().await;
        listed.insert(names.iter().filter(|name| name.starts_with("svc.ledger.")).count());
        let found = check_release(&world).await;
        let text = found["found"].as_str().expect("a text");
        assert!(text.contains(&format!("generation {generation}, by its descriptors")), "{found}");
        assert!(found["ok"] == true && found["warning"].is_null(), "{found}");
        let lacks_policies = text.contains("it has no MsgCreateSchemaAuthorizationPolicy");
        assert_eq!(lacks_policies, generation > NodeGeneration::N0, "{found}");
        let typed =
            world.client.complete_argument("svc.ledger.de.grantOperatorAuthorization", "msg_types", "Policy").await;
        assert_eq!(typed.is_ok_and(|found| !found.is_empty()), generation == NodeGeneration::N0, "{generation}");
        // The parameters are those of the generation, under their own names.
        let params = trust_deposit_params(&world).await;
        share_values.insert(params["trust_deposit_share_value"].to_string());
        assert_eq!(params["trust_deposit_rate"], deposit_rate(generation), "{generation}");
        let has_burn_rate = params.get("trust_deposit_reclaim_burn_rate").is_some();
        assert_eq!(has_burn_rate, generation < NodeGeneration::N2, "{generation}: {params}");
    }
    assert_eq!(listed.len(), 1, "every generation takes the messages of the same tools");
    assert!(share_values.len() == 1 && !share_values.contains("null"), "{share_values:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_in_place_is_noticed_without_a_restart_and_each_key_writes_once() {
    let world = start_as(NodeGeneration::N0).await;
    let keyed = |name: &str| {
        let mut arguments = ecosystem_arguments(name);
        arguments["idempotency_key"] = name.into();
        arguments
    };
    let first = world.call_ok(CREATE_ECOSYSTEM, keyed("before")).await;
    let node = &world.network.devnet.node;
    let replace = |change: &dyn Fn()| {
        node.stop();
        change();
        node.start().expect("starts");
    };
    replace(&|| node.upgrade(NodeGeneration::N3).expect("upgrades"));
    let release = || world.network.operator.node_release();
    world.wait_until("the upgrade is noticed", async || release().generation == Some(NodeGeneration::N3)).await;
    let again = world.call_ok(CREATE_ECOSYSTEM, keyed("before")).await;
    assert_eq!(again["tx_hash"], first["tx_hash"]);
    world.call_ok(CREATE_ECOSYSTEM, keyed("after")).await;
    world
        .wait_until("the indexer reads the messages of the new release", async || {
            let params = trust_deposit_params(&world).await;
            params.get("trust_deposit_reclaim_burn_rate").is_none()
        })
        .await;
    assert_eq!(trust_deposit_params(&world).await["trust_deposit_rate"], 0.2, "the chain keeps its value");

    // The next release reads the fields of a message otherwise.
    replace(&|| {
        node.update_faults(|faults| faults.lies.swapped_fields = true);
        node.upgrade(NodeGeneration::N4).expect("upgrades");
    });
    world
        .wait_until("the tool is gone", async || !world.tool_names().await.iter().any(|name| name == CREATE_ECOSYSTEM))
        .await;
    let sent = world.operator_txs_in_blocks();
    // A call with a key may be the repetition of one that was executed: the signer refuses it where it is not.
    for (arguments, code) in
        [(ecosystem_arguments("later"), "TOOL_UNKNOWN"), (keyed("later"), "UPSTREAM_PROTOCOL_ERROR")]
    {
        let refused = world.call_error(CREATE_ECOSYSTEM, arguments, code).await;
        assert!(refused["message"].as_str().is_some_and(|text| text.contains("MsgCreateEcosystem.did")), "{refused}");
    }
    let again = world.call_ok(CREATE_ECOSYSTEM, keyed("before")).await;
    assert_eq!(again["tx_hash"], first["tx_hash"]);
    assert_eq!(world.operator_txs_in_blocks(), sent, "nothing is signed by old meanings");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_server_has_no_tool_for_a_message_whose_field_the_node_lacks_retypes_or_renames() {
    let world = start_as(NodeGeneration::N0).await;
    let is_listed = async || world.tool_names().await.iter().any(|name| name == CREATE_ECOSYSTEM);
    let path = "ec.v1.MsgCreateEcosystem.did";
    let sent = world.operator_txs_in_blocks();
    for (generation, change, live) in [
        (NodeGeneration::N1, FieldChange::Lacking, "missing at the node"),
        (NodeGeneration::N2, FieldChange::Retyped, "did = 3: sfixed32 at the node"),
        (NodeGeneration::N3, FieldChange::Renamed, "another_name = 3: string at the node"),
    ] {
        world.upgrade_node(generation, &[ChangedField::new("MsgCreateEcosystem", "did", change)]);
        let release = || world.network.operator.node_release();
        world.wait_until("the upgrade is noticed", async || release().generation == Some(generation)).await;
        world.wait_until("the tool is gone", async || !is_listed().await).await;
        let names = world.tool_names().await;
        assert!(names.iter().any(|name| name == "svc.ledger.es.updateEcosystem"), "{change:?}");
        let refused = world.call_error(CREATE_ECOSYSTEM, ecosystem_arguments("later"), "TOOL_UNKNOWN").await;
        let (has_passed, finding) = check(&world, "release of the node").await;
        assert!(has_passed && finding["warning"] == true, "{finding}");
        for text in [&refused["message"], &finding["found"]] {
            let text = text.as_str().unwrap_or_default();
            assert!(text.contains(path) && text.contains(live), "{change:?}: {text}");
        }
    }
    assert_eq!(world.operator_txs_in_blocks(), sent, "nothing is signed by old meanings");
    world.upgrade_node(NodeGeneration::N4, &[]);
    world.wait_until("the tool is back", is_listed).await;
    world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments("right")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_build_under_the_same_version_is_noticed_behind_its_restart() {
    let world = start_as(NodeGeneration::N3).await;
    let is_listed = async || world.tool_names().await.iter().any(|name| name == CREATE_ECOSYSTEM);
    let node = &world.network.devnet.node;
    let replace = |is_other: bool| {
        node.stop();
        node.update_faults(|faults| faults.lies.swapped_fields = is_other);
        node.start().expect("starts");
    };
    let version = world.network.operator.node_release().version.clone();
    replace(true);
    world.wait_until("the tool is gone", async || !is_listed().await).await;
    let keyed = |name: &str| {
        let mut arguments = ecosystem_arguments(name);
        arguments["idempotency_key"] = name.into();
        arguments
    };
    let refused = world.call_error(CREATE_ECOSYSTEM, keyed("other"), "UPSTREAM_PROTOCOL_ERROR").await;
    assert!(refused["message"].as_str().is_some_and(|text| text.contains("MsgCreateEcosystem.did")), "{refused}");
    assert_eq!(world.operator_txs_in_blocks(), 0, "nothing is signed by old meanings");
    assert_eq!(world.network.operator.node_release().version, version, "the node says that it is as before");
    replace(false);
    world.wait_until("the tool is back", is_listed).await;
    world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments("right")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_the_node_describes_otherwise_is_an_error_and_no_value() {
    let world = start_as(NodeGeneration::N0).await;
    let node = &world.network.devnet.node;
    let client = NodeClient::new(node.origin()).expect("a client");
    let path = world.network.devnet.namespace.query_path("co", "GetCorporation");
    let request = QueryGetCorporationRequest { corporation_id: 1, ..QueryGetCorporationRequest::default() };
    let read = async || {
        read_node_descriptors(&client).await.expect("read");
        client.query::<_, QueryGetCorporationResponse>(&path, &request, 0).await
    };
    assert!(read().await.expect("read").corporation.is_some());
    let lie = |changed: &[ChangedField]| node.update_faults(|faults| faults.lies.changed_fields = changed.to_vec());
    lie(&[ChangedField::new("CorporationWithGF", "did", FieldChange::Renumbered)]);
    let error = read().await.expect_err("an error").to_string();
    assert!(error.contains(&path) && error.contains("co.v1.CorporationWithGF.did"), "{error}");
    let bytes = client.query_bytes(&path, &request.encode_to_vec(), 0).await;
    assert!(bytes.is_ok_and(|bytes| !bytes.is_empty()), "its bytes can be read as the node describes them");

    // The account of the corporation is not taken from such an answer.
    lie(&[ChangedField::new("CorporationWithGF", "policy_address", FieldChange::Retyped)]);
    let output = run_to_end(&world, &["check"]).await;
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && printed.contains("CorporationWithGF.policy_address"), "{printed}");
    lie(&[]);
    assert!(read().await.expect("read").corporation.is_some(), "as soon as the descriptors are right again");
    assert!(run_to_end(&world, &["check"]).await.status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_usable_descriptors_the_generation_is_found_by_answers_and_said() {
    for (generation, is_endless) in [
        (NodeGeneration::N0, true),
        (NodeGeneration::N1, false),
        (NodeGeneration::N2, false),
        (NodeGeneration::N3, true),
        (NodeGeneration::N4, false),
    ] {
        let world = start_as(generation).await;
        let node = &world.network.devnet.node;
        node.update_faults(|faults| {
            (faults.lies.no_descriptors, faults.lies.endless_descriptors) = (!is_endless, is_endless);
        });
        let found = check_release(&world).await;
        let text = found["found"].as_str().expect("a text");
        assert!(text.contains(&format!("generation {generation}, by its answers")), "{found}");
        assert!(text.contains("without a comparison") && found["warning"] == true, "{found}");
        // Server, agent and indexer start so, too.
        serve_and_write_once(&world, &generation.as_str().to_lowercase()).await;
        boot_agent(&world).await;
        let config = svc_indexer::IndexerConfig::new(node.origin(), "sqlite::memory:");
        let replica = crate::e2e::indexer::IndexerReplica::launch(config).await;
        let status = crate::e2e::indexer::read_ok(&replica.origin, "/v4/indexer/status").await;
        assert_eq!(status["is_running"], true, "{status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_ends_with_the_name_of_the_thing_where_the_envelope_or_every_tool_is_another() {
    let world = start_as(NodeGeneration::N0).await;
    let node = &world.network.devnet.node;
    for (is_envelope, part, names) in [
        (true, "SVC_RPC", ["cosmos.tx.v1beta1.SignDoc.body_bytes", "cosmos.tx.v1beta1.SignDoc.auth_info_bytes"]),
        (false, "release of the node", ["takes no message of any tool", "co.v1.Msg"]),
    ] {
        node.update_faults(|faults| {
            (faults.lies.swapped_envelope, faults.lies.renumbered_messages) = (is_envelope, !is_envelope);
        });
        let (has_passed, finding) = check(&world, part).await;
        assert!(!has_passed && finding["ok"] == false, "{finding}");
        let ended = run_to_end(&world, &["serve"]).await;
        let (error, finding) = (String::from_utf8_lossy(&ended.stderr), finding["found"].to_string());
        assert_eq!(ended.status.code(), Some(1), "{error}");
        for name in names {
            assert!(finding.contains(name), "{name} in {finding}");
            assert!(error.contains(name), "{name} in {error}");
        }
    }
    assert_eq!(world.operator_txs_in_blocks(), 0, "nothing was signed");
}
