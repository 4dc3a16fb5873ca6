//! Rules that differ by the generation of the node: local checks leave them to the node, and plans name the rules that hold there.

use rmcp::model::GetPromptRequestParams;
use serde_json::{Value, json};
use svc_wire::proto_registry::NodeGeneration;

use crate::e2e::harness::{
    CREATE_ECOSYSTEM, TestNetwork, ecosystem_arguments, into_arguments, network_config, schema_arguments, start_network,
};

const CREATE_ROOT: &str = "svc.ledger.pp.createRootParticipant";
const SELF_CREATE: &str = "svc.ledger.pp.selfCreateParticipant";
const STORE_DIGEST: &str = "svc.ledger.di.storeDigest";
/// A digest without the name of its algorithm.
const BARE_DIGEST: &str = "Ly4tLCsqKSgnJiUkIyIhIB8eHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgEA";

async fn start_as(generation: NodeGeneration) -> TestNetwork {
    let mut config = network_config(100);
    config.devnet.generation = generation;
    start_network(config).await
}

fn bare_ecosystem(name: &str) -> Value {
    let mut arguments = ecosystem_arguments(name);
    arguments["doc_digest_sri"] = BARE_DIGEST.into();
    arguments
}

/// A schema of an ecosystem, whose roles are open.
async fn create_schema(world: &TestNetwork, ecosystem: Value) -> Value {
    let made = world.call_ok(CREATE_ECOSYSTEM, ecosystem).await["response"]["ecosystem_id"].clone();
    world.call_ok("svc.ledger.cs.createCredentialSchema", schema_arguments(&made)).await["response"]["id"].clone()
}

fn root_arguments(schema: &Value) -> Value {
    json!({"schema_id": schema, "did": "did:web:root.example"})
}

fn issuer_arguments(root: &Value) -> Value {
    json!({"role": "ISSUER", "validator_participant_id": root, "did": "did:web:issuer.example"})
}

/// The instant from which a participant is effective, as the chain has stored it.
async fn beginning_of(world: &TestNetwork, participant: &Value) -> Value {
    let read = world.call_ok("svc.idx.pp.getParticipant", json!({"id": participant})).await;
    read["participant"]["effective_from"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_node_takes_participants_without_a_beginning_and_digests_of_any_shape() {
    let world = start_as(NodeGeneration::N3).await;
    let schema = create_schema(&world, bare_ecosystem("bare")).await;
    let root = world.call_ok(CREATE_ROOT, root_arguments(&schema)).await["response"]["id"].clone();
    let issuer = world.call_ok(SELF_CREATE, issuer_arguments(&root)).await["response"]["id"].clone();
    for participant in [&root, &issuer] {
        assert!(beginning_of(&world, participant).await.is_string(), "it begins with its block");
    }
    world.call_ok(STORE_DIGEST, json!({"digest": BARE_DIGEST})).await;
    let stored = world.call_ok("svc.idx.di.getDigest", json!({"digest": BARE_DIGEST})).await;
    assert_eq!(stored["digest"]["digest"], BARE_DIGEST);
    // A rule of this node is not checked locally either.
    let mut again = root_arguments(&schema);
    again["effective_until"] = world.near_future().into();
    let refused = world.call_error(CREATE_ROOT, again, "SIMULATION_FAILED").await;
    let text = refused["message"].as_str().expect("a message");
    assert!(text.contains("never expires") && text.contains("MsgSetParticipantEffectiveUntil"), "{refused:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_node_refuses_them_in_its_own_words() {
    let world = start_as(NodeGeneration::N0).await;
    let schema = create_schema(&world, ecosystem_arguments("named")).await;
    for (tool, arguments, words) in [
        (CREATE_ECOSYSTEM, bare_ecosystem("bare"), "digest"),
        (STORE_DIGEST, json!({"digest": BARE_DIGEST}), "digest"),
        (CREATE_ROOT, root_arguments(&schema), "effective_from is required"),
    ] {
        let refused = world.call_error(tool, arguments, "SIMULATION_FAILED").await;
        assert!(refused["message"].as_str().is_some_and(|text| text.contains(words)), "{refused:#}");
    }
    // A participant of the other kind is made there, and never begins.
    let mut root = root_arguments(&schema);
    root["effective_from"] = world.near_future().into();
    let root = world.call_ok(CREATE_ROOT, root).await["response"]["id"].clone();
    let issuer = world.call_ok(SELF_CREATE, issuer_arguments(&root)).await["response"]["id"].clone();
    assert!(beginning_of(&world, &root).await.is_string());
    assert!(beginning_of(&world, &issuer).await.is_null());
}

/// A plan for a root participant with an agent.
async fn root_plan(world: &TestNetwork) -> String {
    let given = json!({"schema_id": "1", "did": "did:web:a.example", "vs_operator": "an account"});
    let request = GetPromptRequestParams::new("create-root-participant").with_arguments(into_arguments(given));
    let plan = world.client.service().get_prompt(request).await.expect("rendered");
    serde_json::to_string(&plan).expect("serialises")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_names_the_rules_of_its_node_also_after_an_upgrade() {
    const OLD: [&str; 3] = ["(required, in the future)", "without one it is unusable", "even an ended one blocks it"];
    const NEW: [&str; 3] = ["left out to begin with the block", "if and only if", "that is ACTIVE or FUTURE"];
    const GOVERNANCE: &str = "a governance proposal";
    const COUNCIL: &str = "a proposal of the council of validators";
    let assert_plan = async |world: &TestNetwork, (there, gone): ([&str; 3], [&str; 3]), authority: [&str; 2]| {
        let plan = root_plan(world).await;
        for text in there.into_iter().chain([authority[0]]) {
            assert!(plan.contains(text), "{text:?} is missing: {plan}");
        }
        for text in gone.into_iter().chain([authority[1]]) {
            assert!(!plan.contains(text), "{text:?} is there: {plan}");
        }
    };
    let world = start_as(NodeGeneration::N0).await;
    assert_plan(&world, (OLD, NEW), [GOVERNANCE, COUNCIL]).await;
    let node = &world.network.devnet.node;
    node.stop();
    node.upgrade(NodeGeneration::N3).expect("upgrades");
    node.start().expect("starts");
    let release = || world.network.operator.node_release();
    world.wait_until("the upgrade is noticed", async || release().generation == Some(NodeGeneration::N3)).await;
    assert_plan(&world, (NEW, OLD), [GOVERNANCE, COUNCIL]).await;
    let world = start_as(NodeGeneration::N4).await;
    assert_plan(&world, (NEW, OLD), [COUNCIL, GOVERNANCE]).await;
}
