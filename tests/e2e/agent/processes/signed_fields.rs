//! Nodes that lack, renumber, retype or rename a field of a message that the agent signs: that step alone is blocked, the reason names the
//! field, and the block ends with the release that is right again.

use serde_json::{Value, json};
use svc_devnet::node::{ChangedField, FieldChange};
use svc_wire::{proto_registry::NodeGeneration, tx::decode_tx_body};

use crate::e2e::{
    agent::{
        credentials::{
            identity::start_agents,
            identity_process::{
                all, ask_until_ok, did_of, import_organisation, issue_body, standalone, start_without_agents,
            },
        },
        processes::agent_process::{AgentHome, AgentProcess, own_account},
        validation::flows::{APPLICANT, VALIDATOR, claims},
    },
    harness::TestNetwork,
};

const CODE: &str = "SIGNED_FIELD_DIFFERS";
const TRIGGER: &str = "MsgTriggerResolver";
const SESSION: &str = "MsgCreateOrUpdateParticipantSession";
const VALIDATED: &str = "MsgSetParticipantOPToValidated";
const ISSUED: &str = "/v2/vt/issued-credentials";
/// Subject of the agent's credentials. It is a participant, and no agent.
const BRANCH: &str = "did:web:branch.example";

/// A changed field of a message that the agent signs, and its path in a reason.
fn changed(message: &str, field: &str, change: FieldChange) -> ([ChangedField; 1], String) {
    ([ChangedField::new(message, field, change)], format!("pp.v1.{message}.{field}"))
}

fn names(text: &Value, path: &str) -> bool {
    text.as_str().is_some_and(|text| text.contains(path))
}

/// Whether a flow or a resolution is blocked by the field with this path.
fn is_blocked_by(blocked: &Value, path: &str) -> bool {
    blocked["reason"] == CODE && names(&blocked["text"], path)
}

impl TestNetwork {
    /// Waits until the resolution of an agent is blocked by a field.
    async fn await_blocked_trigger(&self, agent: &AgentProcess, path: &str) {
        self.wait_until(path, async || {
            let resolution = &agent.info().await["resolution"];
            resolution["state"] == "blocked" && is_blocked_by(resolution, path)
        })
        .await;
    }

    async fn await_resolved(&self, agent: &AgentProcess) {
        self.wait_until("the document is resolved", async || agent.info().await["resolution"]["state"] == "idle").await;
    }

    /// Makes an agent a participant, and imports its credential of the organisation.
    async fn admit_agent(&self, agent: &AgentProcess) -> String {
        let did = did_of(agent).await;
        let dids = [("agent".to_owned(), did.clone()), ("branch".to_owned(), BRANCH.to_owned())];
        self.network.devnet.admit_agents(&dids).await.expect("admitted");
        import_organisation(self, agent, &did).await;
        did
    }

    /// Number of messages in blocks that the agent's account has signed.
    fn signed(&self, message: &str) -> usize {
        let account = own_account();
        let (type_url, account) = (self.network.devnet.namespace.type_url("pp", message), account.as_bytes());
        let is_one = |one: &prost_types::Any| {
            one.type_url == type_url && one.value.windows(account.len()).any(|part| part == account)
        };
        self.network.devnet.node.read_core(|core| {
            let transactions = core.blocks().iter().flat_map(|block| &block.txs);
            let messages = transactions.filter_map(|bytes| decode_tx_body(bytes)).flat_map(|body| body.messages);
            messages.filter(is_one).count()
        })
    }
}

/// Asserts that a command of the agent does not succeed, and shows all of these.
async fn assert_shows(home: &AgentHome, command: &str, shown: &[&str]) {
    let (is_ok, output) = home.run(&[command]).await;
    assert!(!is_ok, "{output}");
    for one in shown {
        assert!(output.contains(one), "{one} in {output}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_starts_at_a_node_that_reads_a_field_of_its_message_otherwise_and_says_which() {
    let world = start_without_agents().await;
    let node = &world.network.devnet.node;
    let home = standalone(&world);
    let changes = [FieldChange::Renumbered, FieldChange::Lacking, FieldChange::Retyped, FieldChange::Renamed];
    for (start, change) in changes.into_iter().enumerate() {
        let (fields, path) = changed(TRIGGER, "id", change);
        node.update_faults(|faults| faults.lies.changed_fields = fields.to_vec());
        let agent = home.start();
        if start == 0 {
            world.admit_agent(&agent).await;
        }
        world.await_blocked_trigger(&agent, &path).await;
        assert_shows(&home, "check", &["FAIL release of the node", "FAIL resolution", CODE, TRIGGER, &path]).await;
        assert_shows(&home, "init", &["waiting  message-MsgTriggerResolver (another party)", &path]).await;
        if start == 0 {
            // The other messages are signed.
            ask_until_ok(&world, &agent, ISSUED, &issue_body(&world, BRANCH, 1)).await;
            assert!(world.signed(SESSION) > 0);
        }
        assert_eq!(world.signed(TRIGGER), 0, "{change:?}");
        assert!(agent.terminate().0);
    }
    let agent = home.start();
    let (_, path) = changed(TRIGGER, "id", FieldChange::Renamed);
    world.await_blocked_trigger(&agent, &path).await;
    world.upgrade_node(NodeGeneration::N1, &[]);
    world.await_resolved(&agent).await;
    assert_eq!(world.signed(TRIGGER), 1);
    assert!(agent.terminate().0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_agent_blocks_what_the_next_release_reads_otherwise_and_goes_on_with_the_one_after() {
    let world = start_without_agents().await;
    let home = standalone(&world);
    let agent = home.start();
    let did = world.admit_agent(&agent).await;
    world.await_verdict_on(&did, |verdict| verdict["trusted"] == true).await;
    world.await_resolved(&agent).await;
    let (triggers, sessions) = (world.signed(TRIGGER), world.signed(SESSION));

    let (fields, path) = changed(TRIGGER, "id", FieldChange::Lacking);
    world.upgrade_node(NodeGeneration::N1, &fields);
    world.wait_until("an endpoint is added", async || agent.add("one").await.status == 200).await;
    world.await_blocked_trigger(&agent, &path).await;
    assert_eq!(world.signed(TRIGGER), triggers);

    // The next release takes the trigger, and refuses the session that anchors a digest.
    let (fields, path) = changed(SESSION, "digest", FieldChange::Retyped);
    world.upgrade_node(NodeGeneration::N2, &fields);
    world.await_resolved(&agent).await;
    assert!(world.signed(TRIGGER) > triggers);
    let body = issue_body(&world, BRANCH, 1);
    let is_refused = async || {
        let answer = agent.send("POST", ISSUED, Some(&body)).await;
        assert_ne!(answer.status, 200, "{}", answer.body);
        answer.body.to_string().contains(&path)
    };
    world.wait_until("the answer names the field", is_refused).await;
    assert_shows(&home, "check", &["FAIL release of the node", SESSION, &path]).await;
    assert_shows(&home, "init", &["waiting  message-MsgCreateOrUpdateParticipantSession (another party)", &path]).await;
    let issued = async || {
        let rows = all(&agent, ISSUED).await;
        let mut of_branch = rows.into_iter().filter(|row| row["subject"] == BRANCH);
        let only = of_branch.next().expect("a credential");
        assert!(of_branch.next().is_none(), "one request has one credential");
        only
    };
    let waits_for = |row: &Value, path: &str| row["state"] == "signed" && names(&row["reason"], path);
    let row = issued().await;
    assert!(waits_for(&row, &path) && names(&row["reason"], CODE), "{row}");
    // Another release, another field.
    let (fields, path) = changed(SESSION, "id", FieldChange::Renamed);
    world.upgrade_node(NodeGeneration::N3, &fields);
    world.wait_until("it waits for the other field", async || waits_for(&issued().await, &path)).await;
    assert_eq!(world.signed(SESSION), sessions);

    world.upgrade_node(NodeGeneration::N4, &[]);
    world.wait_until("the digest is anchored", async || issued().await["state"] == "anchored").await;
    assert_eq!(world.signed(SESSION), sessions + 1);
    world.await_resolved(&agent).await;
    let check = home.run(&["check"]).await.1;
    assert!(check.contains("ok   release of the node") && !check.contains(CODE), "{check}");
    assert!(agent.terminate().0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_steps_of_a_flow_wait_with_the_field_and_are_taken_with_the_release_that_is_right() {
    let world = start_agents("peers").await;
    let validator = || world.agent(VALIDATOR).chain().access().expect("the chain is found").pipeline;
    let upgrade = async |generation: NodeGeneration, fields: &[ChangedField]| {
        world.upgrade_node(generation, fields);
        let is_seen = async || validator().release().generation == Some(generation);
        world.wait_until("the upgrade is noticed", is_seen).await;
    };
    let (fields, path) = changed(VALIDATED, "op_summary_digest", FieldChange::Renumbered);
    upgrade(NodeGeneration::N1, &fields).await;
    let (_, session) = world.apply("HOLDER", "flows.license.issuer").await;
    world.await_state(&session, "VALIDATING", "VALIDATING").await;
    let edit = svc_agent::FlowCall::EditClaims(claims("A"));
    world.agent(VALIDATOR).flows().call(&session, &edit).await.expect("stored");
    // The decision of the operator stands, and its message waits.
    world.validate(&session).await;
    let flow = world.await_flow(VALIDATOR, &session, |flow| is_blocked_by(&flow["blocked"], &path)).await;
    assert_eq!(flow["flowState"], "VALIDATION_TX_SUBMITTED", "{flow:#}");

    let (fields, path) = changed(SESSION, "digest", FieldChange::Lacking);
    upgrade(NodeGeneration::N2, &fields).await;
    let flow = world.await_flow(VALIDATOR, &session, |flow| is_blocked_by(&flow["blocked"], &path)).await;
    assert_eq!((&flow["flowState"], world.records_of(&session).await), (&json!("CRED_OFFERED"), 0), "{flow:#}");

    upgrade(NodeGeneration::N3, &[]).await;
    world.await_state(&session, "COMPLETED", "COMPLETED").await;
    let flow = world.await_flow(APPLICANT, &session, |flow| flow["flowState"] == "COMPLETED").await;
    assert!(flow["blocked"].is_null(), "{flow:#}");
    assert_eq!(world.records_of(&session).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn at_a_node_that_describes_the_parts_under_every_signature_otherwise_the_agent_does_not_start() {
    let world = start_without_agents().await;
    world.network.devnet.node.update_faults(|faults| faults.lies.swapped_envelope = true);
    let home = standalone(&world);
    let (is_ok, shown) = home.run(&[]).await;
    assert!(!is_ok, "{shown}");
    for name in ["cosmos.tx.v1beta1.SignDoc.body_bytes", "cosmos.tx.v1beta1.SignDoc.auth_info_bytes"] {
        assert!(shown.contains(name), "{name} in {shown}");
    }
}
