//! Participants that the oldest nodes store without `effective_from`: they never begin there, nor after an upgrade of the chain. Setup, gate
//! and flows of an agent agree on it. A later node stores the time of its block, and then all count the participant.

use serde_json::{Value, json};
use svc_wire::proto_registry::NodeGeneration;

use crate::e2e::{
    agent::{
        credentials::identity_process::{did_of, standalone, start_without_agents},
        processes::{
            agent_process::AgentProcess,
            two_agents::{TwoAgents, ValidatorPlace},
        },
        validation::{flow_faults::seconds_from_now, lying_index::LyingIndex},
    },
    harness::{TestNetwork, poll_until},
};

const SELF_CREATE: &str = "svc.ledger.pp.selfCreateParticipant";

/// Goes on as a later generation, as after an upgrade of the chain.
fn upgrade(world: &TestNetwork) {
    let node = &world.network.devnet.node;
    node.stop();
    node.upgrade(NodeGeneration::N3).expect("upgrades");
    node.start().expect("starts");
}

/// A message for an ISSUER participant without `effective_from`, whose rights an account of an agent has.
fn without_beginning(world: &TestNetwork, root: &str, did: &str) -> Value {
    let fees = json!([{"denom": world.network.devnet.denom, "amount": "10000000"}]);
    json!({
        "role": "ISSUER", "validator_participant_id": world.id_of(root), "did": did,
        "effective_until": seconds_from_now(3_000_000), "vs_operator": world.network.devnet.address("agent"),
        "vs_operator_authz_msg_types":
            ["/svc.pp.v1.MsgCreateOrUpdateParticipantSession", "/svc.pp.v1.MsgSetParticipantOPToValidated"],
        "vs_operator_authz_spend_limit": fees, "vs_operator_authz_with_feegrant": true,
        "vs_operator_authz_fee_spend_limit": fees,
    })
}

/// Sends such a message, and asserts whether the node stores a beginning; returns the participant.
async fn create(world: &TestNetwork, message: Value, is_begun: bool) -> u64 {
    let made = world.call_ok(SELF_CREATE, message).await["response"]["id"].clone();
    let read = world.call_ok("svc.idx.pp.getParticipant", json!({"id": made})).await;
    assert_eq!(read["participant"]["effective_from"].is_string(), is_begun, "{read:#}");
    // The reads of the index follow its own text, which knows no such participant.
    assert_eq!(read["participant"]["participant_state"], "ACTIVE", "{read:#}");
    made.as_str().and_then(|id| id.parse().ok()).expect("an id")
}

/// The step of the setup for the ISSUER participant of the service credential.
async fn issuer_step(agent: &AgentProcess) -> Value {
    let setup = agent.send("GET", "/v2/agent/setup", None).await.body;
    let steps = setup["steps"].as_array().cloned().unwrap_or_default();
    steps.into_iter().find(|step| step["id"] == "service-issuer").unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_setup_counts_no_participant_without_a_beginning_before_and_after_an_upgrade() {
    let world = start_without_agents().await;
    let home = standalone(&world);
    let agent = home.start();
    let did = did_of(&agent).await;
    poll_until("the setup is read", async || issuer_step(&agent).await["state"] == "missing").await;
    let unset = create(&world, without_beginning(&world, "service.root", &did), false).await;
    let stands = format!("participant {unset} (Inactive");
    poll_until("the participant stands in the way of another one", async || {
        let step = issuer_step(&agent).await;
        step["state"] == "missing" && step["reason"].as_str().is_some_and(|reason| reason.contains(&stands))
    })
    .await;

    upgrade(&world);
    poll_until("the plan of the later generation names the next participant", async || {
        let step = issuer_step(&agent).await;
        assert_ne!(step["state"], "done", "{step:#}");
        step["tool"] == SELF_CREATE
    })
    .await;
    let mut message = issuer_step(&agent).await["message"].clone();
    message.as_object_mut().expect("an object").remove("effective_from");
    create(&world, message, true).await;
    poll_until("it counts", async || issuer_step(&agent).await["state"] == "done").await;
    assert!(agent.terminate().0);
}

impl TwoAgents {
    /// The error of an order of a badge, which the validator issues without an onboarding.
    async fn order_badge(&self) -> (u16, Value) {
        let order = json!({
            "did": did_of(&self.validator).await, "schemaId": self.world.id_of("flows.badge.schema").to_string(),
            "claims": {"grade": "A"},
        });
        let answer = self.applicant.send("POST", "/v2/vt/flows", Some(&order)).await;
        (answer.status, answer.body)
    }

    /// Asserts that neither the flows nor the gate count the participants of the validator's badge and of a stranger.
    async fn assert_uncounted(&self, index: &LyingIndex, (did, participant): (&str, u64)) {
        let (status, body) = self.order_badge().await;
        assert_eq!((status, &body["error"]["code"]), (409, &json!("PEER_NOT_AUTHORIZED")), "{body}");
        index.vouch_for(did, participant);
        let refused = self.applicant_home.peer(&["trust", did]).await;
        refused.failed(3, "is not trusted");
        assert!(refused.output.contains("participant_not_active"), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gate_and_flows_count_no_participant_without_a_beginning_before_and_after_an_upgrade() {
    let index = LyingIndex::default();
    let agents = TwoAgents::start(ValidatorPlace { index: Some(index.clone()), ..ValidatorPlace::default() }).await;
    let world = &agents.world;
    let did = did_of(&agents.validator).await;
    world.call_ok("svc.ledger.pp.revokeParticipant", json!({"id": world.id_of("flows.badge.issuer")})).await;
    create(world, without_beginning(world, "flows.badge.root", &did), false).await;
    // A stranger that the index calls trusted, by a participant of its own.
    let devnet = &world.network.devnet;
    let services = devnet.services.as_ref().expect("services");
    let stranger = services.get("bureau-unlisted").expect("a service").identity.did.clone();
    let as_stranger = async || {
        let message = json!({
            "corporation": "$bureau-unlisted.corporation", "operator": "$clerk", "role": "ISSUER",
            "validator_participant_id": "$service.root", "did": stranger,
        });
        let made = devnet.send_messages("clerk", &[("pp.MsgSelfCreateParticipant", message)]).await.expect("made");
        made[0]["id"].as_str().and_then(|id| id.parse().ok()).expect("an id")
    };
    let participant = as_stranger().await;
    agents.assert_uncounted(&index, (&stranger, participant)).await;

    upgrade(world);
    let release = || world.network.operator.node_release();
    world.wait_until("the upgrade is noticed", async || release().generation == Some(NodeGeneration::N3)).await;
    agents.assert_uncounted(&index, (&stranger, participant)).await;

    create(world, without_beginning(world, "flows.badge.root", &did), true).await;
    let (status, body) = agents.order_badge().await;
    assert_eq!(status, 200, "{body}");
    index.vouch_for(&stranger, as_stranger().await);
    agents.applicant_home.peer(&["trust", &stranger]).await.done();
    assert!(agents.validator.terminate().0 && agents.applicant.terminate().0);
}
