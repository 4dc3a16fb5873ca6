//! Flows under a validator that may not pay or has lost its place, a node that refuses or forgets, and calls at the wrong moment.

use std::{sync::OnceLock, time::Duration};

use serde_json::{Value, json};
use svc_agent::{FlowCall, FlowRequest, RefusalCode, ValidationTerms};
use svc_devnet::{node::CheckTxRefusal, scenario::Scenario};
use svc_kit::wall_clock;
use svc_wire::timestamp;

use crate::e2e::{
    agent::{
        credentials::identity::{start_agents, start_agents_with},
        validation::flows::{APPLICANT, VALIDATOR, claims},
    },
    harness::TestNetwork,
};

pub(in crate::e2e::agent) fn seconds_from_now(seconds: i128) -> String {
    let then = timestamp::unix_nanos(&wall_clock::now()) + seconds * 1_000_000_000;
    timestamp::iso_millis(&timestamp::from_unix_nanos(then))
}

impl TestNetwork {
    /// Orders a badge for the applicant; returns the session of its flow.
    async fn order_badge(&self) -> String {
        let request = FlowRequest {
            did: Some(self.agent_did(VALIDATOR)),
            schema_id: Some(self.id_of("flows.badge.schema")),
            claims: Some(claims("A")),
            ..FlowRequest::default()
        };
        let opened = self.agent(APPLICANT).flows().open(request).await.expect("opened").record;
        let session = opened["participantSessionId"].as_str().expect("a session").to_owned();
        self.await_state(&session, "VALIDATING", "VALIDATING").await;
        self.validate(&session).await;
        session
    }

    /// Validates the applicant of a session, as soon as the registry and the documents show all that it needs; returns the flow.
    pub(in crate::e2e::agent) async fn validate(&self, session: &str) -> Value {
        let validator = self.agent(VALIDATOR).flows();
        let decided = OnceLock::new();
        self.wait_until("the flow is validated", async || {
            match validator.validate(session, &ValidationTerms::default()).await {
                Ok(shown) => decided.set(shown.record).is_ok(),
                Err(refusal) if refusal.retry_after.is_some() || refusal.code == RefusalCode::ResolverUnavailable => {
                    false
                }
                Err(refusal) => panic!("{refusal:?}"),
            }
        })
        .await;
        decided.into_inner().expect("validated")
    }

    /// Waits until a participant that was just made is in effect; its id.
    pub(in crate::e2e::agent) async fn await_in_effect(&self, id: &Value) -> u64 {
        let id = id.as_str().and_then(|id| id.parse().ok()).expect("an id");
        self.wait_until("the issuer is in effect", async || {
            let read = json!({"id": id});
            self.call_ok("svc.idx.pp.getParticipant", read).await["participant"]["participant_state"] == "ACTIVE"
        })
        .await;
        id
    }

    pub(in crate::e2e::agent) async fn coins_of(&self, name: &str) -> u64 {
        let read = json!({"address": self.network.devnet.address(name)});
        let found = self.call_ok("svc.cosmos.bank.getBalance", read).await;
        let amount = found["balance"]["amount"].as_str().and_then(|text| text.parse().ok());
        amount.unwrap_or_else(|| panic!("an amount in {found:#}"))
    }

    /// One account of the devnet sends coins to another.
    pub(in crate::e2e::agent) async fn send(&self, from: &str, to: &str, amount: u64) {
        let coins = json!([{"denom": "$FEE", "amount": amount.to_string()}]);
        let send = json!({"from_address": format!("${from}"), "to_address": format!("${to}"), "amount": coins});
        let steps = json!({
            "description": "Coins are sent.",
            "step": [{"name": "send", "signer": from, "messages": [{"type": "/cosmos.bank.v1beta1.MsgSend", "value": send}]}],
        });
        let steps: Scenario = serde_json::from_value(steps).expect("a scenario");
        let before = self.coins_of(to).await;
        self.network.devnet.run_steps(&steps).await.expect("sent");
        self.wait_until("the coins are there", async || self.coins_of(to).await != before).await;
    }

    async fn await_blocked(&self, session: &str, reason: &str) -> Value {
        self.await_flow(VALIDATOR, session, |flow| flow["blocked"]["reason"] == reason).await
    }

    /// An application for a license whose claims are there.
    async fn apply_for_license(&self, validator: u64) -> (u64, String) {
        let (participant, session) = self.apply_under("HOLDER", validator).await;
        self.await_state(&session, "VALIDATING", "VALIDATING").await;
        let edit = FlowCall::EditClaims(claims("A"));
        self.agent(VALIDATOR).flows().call(&session, &edit).await.expect("stored");
        (participant, session)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn between_offer_and_credential_nothing_is_paid_once_cost_trust_or_issuer_forbid_it() {
    let world = start_agents_with("peers", |agents| agents.flows.session_cost = Some(1)).await;
    let issuer = world.id_of("flows.license.issuer");
    let (participant, session) = world.apply_for_license(issuer).await;
    world.validate(&session).await;
    let blocked = world.await_blocked(&session, "SESSION_COST").await;
    assert_eq!((&blocked["flowState"], &blocked["pendingAction"]), (&json!("CRED_OFFERED"), &json!("VALIDATOR")));
    assert!(
        blocked["blocked"]["text"].as_str().is_some_and(|text| text.contains("FLOW_MAX_SESSION_COST is 1")),
        "{blocked:#}"
    );
    // The applicant loses its trust.
    let holders = json!({"did": world.agent_did(APPLICANT), "role": "HOLDER"});
    let listed = world.call_ok("svc.idx.pp.listParticipants", holders).await;
    let service = listed["participants"].as_array().expect("a list").iter().find(|one| one["id"] != participant);
    let service = service.expect("that of its service credential")["id"].clone();
    world.call_ok("svc.ledger.pp.revokeParticipant", json!({"id": service})).await;
    world.await_blocked(&session, "PEER_NOT_TRUSTED").await;
    // The issuer loses its participant: both sides end, as the node shows it.
    world.call_ok("svc.ledger.pp.revokeParticipant", json!({"id": issuer})).await;
    world.await_state(&session, "PARTICIPANT_REVOKED", "PARTICIPANT_REVOKED").await;
    assert_eq!(world.records_of(&session).await, 0, "nothing was paid");
    let held = world.agent(APPLICANT).store().held_credentials().await.expect("read");
    let license = world.id_of("flows.license.schema");
    assert!(held.iter().all(|one| one.schema_id != license), "nothing was delivered");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_grant_nothing_is_sent_and_an_applicant_may_withdraw_or_be_slashed() {
    let world = start_agents("peers").await;
    // Another issuer of the same DID, whose account may validate and not issue. A part of its fees is the deposit of the applicant.
    world.call_ok("svc.ledger.pp.revokeParticipant", json!({"id": world.id_of("flows.license.issuer")})).await;
    let given = json!({
        "role": "ISSUER", "validator_participant_id": world.id_of("flows.license.root"), "did": world.agent_did(VALIDATOR),
        "effective_from": seconds_from_now(3), "effective_until": seconds_from_now(3_000_000), "validation_fees": 1_000,
        "vs_operator": world.network.devnet.address("agent"),
        "vs_operator_authz_msg_types": ["/svc.pp.v1.MsgSetParticipantOPToValidated"], "vs_operator_authz_with_feegrant": true,
    });
    let made = world.call_ok("svc.ledger.pp.selfCreateParticipant", given).await;
    let bare = world.await_in_effect(&made["response"]["id"]).await;
    let (participant, session) = world.apply_for_license(bare).await;
    world.validate(&session).await;
    let blocked = world.await_blocked(&session, "NO_GRANT").await;
    assert_eq!(blocked["flowState"], "VALIDATED");
    assert_eq!(world.records_of(&session).await, 0);
    // Its deposit is taken: the flow ends on both sides.
    let slash = json!({"id": participant, "amount": 1, "reason": "a test"});
    world.call_ok("svc.ledger.pp.slashParticipantTrustDeposit", slash).await;
    world.await_state(&session, "PARTICIPANT_SLASHED", "PARTICIPANT_SLASHED").await;

    // An applicant that takes its first application back.
    let (participant, session) = world.apply("ISSUER", "flows.accreditation.root").await;
    world.await_state(&session, "VALIDATING", "VALIDATING").await;
    world.call_ok("svc.ledger.pp.cancelParticipantOpLastRequest", json!({"id": participant})).await;
    world.await_state(&session, "TERMINATED_BY_APPLICANT", "TERMINATED_BY_APPLICANT").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn coins_that_come_later_pay_for_a_session_without_a_restart() {
    let world = start_agents("peers").await;
    // The issuer's account may issue, and pays for itself.
    world.call_ok("svc.ledger.pp.revokeParticipant", json!({"id": world.id_of("flows.badge.issuer")})).await;
    let given = json!({
        "role": "ISSUER", "validator_participant_id": world.id_of("flows.badge.root"), "did": world.agent_did(VALIDATOR),
        "effective_from": seconds_from_now(3), "effective_until": seconds_from_now(3_000_000),
        "vs_operator": world.network.devnet.address("agent"), "vs_operator_authz_with_feegrant": false,
        "vs_operator_authz_msg_types": ["/svc.pp.v1.MsgCreateOrUpdateParticipantSession"],
    });
    let made = world.call_ok("svc.ledger.pp.selfCreateParticipant", given).await;
    world.await_in_effect(&made["response"]["id"]).await;
    // Its coins go, but for some that pay no fee: the second transfer costs as much as the first.
    let (has, sent) = (world.coins_of("agent").await, 800_000);
    world.send("agent", "member", sent).await;
    let left = world.coins_of("agent").await;
    world.send("agent", "member", left - (has - sent - left) - 500).await;
    let session = world.order_badge().await;
    let blocked = world.await_blocked(&session, "NO_FEES").await;
    assert_eq!((&blocked["flowState"], world.records_of(&session).await), (&json!("CRED_OFFERED"), 0));
    world.send("member", "agent", 1_000_000).await;
    world.await_state(&session, "COMPLETED", "COMPLETED").await;
    assert_eq!(world.records_of(&session).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_refuses_or_forgets_is_paid_once_for_each_flow() {
    // That a refused transaction is in no block is known behind its last height.
    let world = start_agents_with("peers", |agents| agents.tx_timeout = Some(Duration::from_secs(2))).await;
    let node = &world.network.devnet.node;
    let refusal = || {
        let text = "insufficient fees; got: 1usvc required: 2usvc: insufficient fee";
        Some(CheckTxRefusal::sdk(1_000, 13, text))
    };
    // A validation that the node refuses has failed, with its reason; the next call sends it.
    let (_, session) = world.apply_for_license(world.id_of("flows.license.issuer")).await;
    node.update_faults(|faults| faults.refuse = refusal());
    world.validate(&session).await;
    let failed = world.await_flow(VALIDATOR, &session, |flow| flow["flowState"] == "VALIDATION_TX_FAILED").await;
    assert_eq!(failed["validation"]["tx"]["reason"], "INSUFFICIENT_FUNDS_AGENT", "{failed:#}");
    node.update_faults(|faults| faults.refuse = None);
    world.validate(&session).await;
    world.await_state(&session, "COMPLETED", "COMPLETED").await;
    assert_eq!(world.records_of(&session).await, 1);

    // A session that the node refuses waits, and goes on by itself.
    node.update_faults(|faults| faults.refuse = refusal());
    let session = world.order_badge().await;
    world.await_blocked(&session, "NO_FEES").await;
    assert_eq!(world.records_of(&session).await, 0);
    node.update_faults(|faults| faults.refuse = None);
    world.await_state(&session, "COMPLETED", "COMPLETED").await;
    assert_eq!(world.records_of(&session).await, 1);

    for fault in 0..2 {
        node.update_faults(|faults| match fault {
            0 => faults.drop_after_check = 1,
            _ => faults.unindexed_blocks = 8,
        });
        let session = world.order_badge().await;
        world.await_state(&session, "COMPLETED", "COMPLETED").await;
        node.update_faults(|faults| *faults = Default::default());
        assert_eq!(world.records_of(&session).await, 1, "fault {fault}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_that_meets_a_validation_leaves_the_way_to_the_credential() {
    let world = start_agents("peers").await;
    let validator = world.agent(VALIDATOR).flows();
    let reject = FlowCall::Reject { code: None, description: "too late".to_owned() };
    // While the agent's own transaction may be in a block nothing is rejected.
    let (_, session) = world.apply_for_license(world.id_of("flows.license.issuer")).await;
    world.network.devnet.node.update_faults(|faults| faults.drop_after_check = 1);
    world.validate(&session).await;
    let refused = validator.call(&session, &reject).await.expect_err("a transaction is on its way");
    assert_eq!(refused.code, RefusalCode::InvalidState, "{refused}");
    world.await_state(&session, "COMPLETED", "COMPLETED").await;

    // An operator's transaction comes behind the rejection. The chain's fact counts, and the applicant asks for its credential.
    let bare = world.id_of("flows.accreditation.root");
    let (participant, session) = world.apply_under("ISSUER", bare).await;
    world.await_state(&session, "VALIDATING", "VALIDATING").await;
    let decided = world.validate(&session).await;
    assert_eq!(decided["flowState"], "AWAITING_VALIDATION_TX");
    validator.call(&session, &reject).await.expect("rejected");
    world.await_state(&session, "TERMINATED_BY_VALIDATOR", "TERMINATED_BY_VALIDATOR").await;
    let given = json!({"id": participant, "effective_until": "2027-01-01T00:00:00Z"});
    world.call_ok("svc.ledger.pp.setParticipantOpToValidated", given).await;
    let validated = world.await_flow(VALIDATOR, &session, |flow| flow["flowState"] == "VALIDATED").await;
    assert_eq!(validated["pendingAction"], "NONE", "an issuer gets no credential");
}
