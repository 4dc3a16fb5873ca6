//! Flows of two agents on a chain: one validates and issues, the other applies.

use serde_json::{Map, Value, json};
use svc_agent::{FlowCall, FlowFilter, FlowFormat, FlowRequest, FlowSide, RefusalCode};

use crate::e2e::{
    agent::credentials::identity::{start_agents, start_agents_with},
    harness::{TEST_TIMEOUT, TestNetwork, assert_output_schema},
};

pub(in crate::e2e::agent) const VALIDATOR: usize = 0;
pub(in crate::e2e::agent) const APPLICANT: usize = 1;

pub(in crate::e2e::agent) fn claims(grade: &str) -> Map<String, Value> {
    json!({"grade": grade}).as_object().cloned().expect("an object")
}

impl TestNetwork {
    pub(in crate::e2e::agent) fn id_of(&self, name: &str) -> u64 {
        self.network.devnet.address(name).parse().expect("a number")
    }

    /// The newest flow of an agent on a side.
    async fn flows_of(&self, place: usize, filter: &FlowFilter) -> Vec<Value> {
        let found = self.agent(place).flows().list(filter, None, 100).await.expect("flows");
        found.into_iter().map(|flow| flow.record).collect()
    }

    /// Waits for the newest of some flows at an agent.
    async fn await_newest(&self, place: usize, filter: &FlowFilter, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let mut heights = self.network.devnet.node.watch_heights();
        let waited = tokio::time::timeout(TEST_TIMEOUT, async {
            loop {
                last = self.flows_of(place, filter).await.pop().unwrap_or_default();
                if is_wanted(&last) {
                    return;
                }
                heights.changed().await.expect("blocks");
            }
        });
        let in_time = waited.await.is_ok();
        assert!(in_time, "the flow of agent {place} is {last:#}");
        last
    }

    /// Waits for the flow of a session at an agent.
    pub(in crate::e2e::agent) async fn await_flow(
        &self,
        place: usize,
        session: &str,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let filter = FlowFilter { session_id: Some(session.to_owned()), ..FlowFilter::default() };
        self.await_newest(place, &filter, is_wanted).await
    }

    pub(in crate::e2e::agent) async fn await_state(
        &self,
        session: &str,
        applicant: &str,
        validator: &str,
    ) -> (Value, Value) {
        let applicant = self.await_flow(APPLICANT, session, |flow| flow["flowState"] == applicant).await;
        (applicant, self.await_flow(VALIDATOR, session, |flow| flow["flowState"] == validator).await)
    }

    /// The applicant's operator starts an application; returns the participant, and the session of the flow that follows.
    pub(in crate::e2e::agent) async fn apply(&self, role: &str, validator: &str) -> (u64, String) {
        self.apply_under(role, self.id_of(validator)).await
    }

    /// The same under any participant.
    pub(in crate::e2e::agent) async fn apply_under(&self, role: &str, validator: u64) -> (u64, String) {
        let given = json!({"role": role, "validator_participant_id": validator, "did": self.agent_did(APPLICANT)});
        let started = self.call_ok("svc.ledger.pp.startParticipantOp", given).await;
        let id = started["response"]["participant_id"].as_str().and_then(|id| id.parse().ok()).expect("an id");
        let filter =
            FlowFilter { side: Some(FlowSide::Applicant), applicant_participant_id: Some(id), ..FlowFilter::default() };
        let begun = self.await_newest(APPLICANT, &filter, |flow| flow["participantSessionId"].is_string()).await;
        (id, begun["participantSessionId"].as_str().unwrap_or_default().to_owned())
    }

    /// Waits until the index shows a credential among the presentations of the applicant, which it has verified.
    async fn await_presentation(&self, credential: &Value) {
        self.await_presentation_of(&self.agent_did(APPLICANT), credential).await;
    }

    /// The same for any DID.
    pub(in crate::e2e::agent) async fn await_presentation_of(&self, did: &str, credential: &Value) {
        let url = format!("{}/v4/verifiable-trust/resolve", self.network.indexer_origin());
        let wanted = json!({"did": did, "presentations": true});
        self.wait_until("the index has it among the presentations", async || {
            let answer = reqwest::Client::new().post(&url).json(&wanted).send().await.expect("an answer");
            let shown: Value = answer.json().await.expect("JSON");
            shown["presentations"].to_string().contains(credential.as_str().expect("an id"))
        })
        .await;
    }

    pub(in crate::e2e::agent) async fn records_of(&self, session: &str) -> usize {
        self.sessions().await.iter().filter(|(id, _)| id == session).map(|(_, records)| records).sum()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_is_validated_by_the_agent_gets_its_credential_and_loses_it_with_its_participant() {
    let world = start_agents("peers").await;
    // The branch has got its service credential by a flow of the same kind.
    let applying = FlowFilter { side: Some(FlowSide::Applicant), ..FlowFilter::default() };
    assert_eq!(world.flows_of(APPLICANT, &applying).await[0]["flowState"], "COMPLETED");

    let (participant, session) = world.apply("HOLDER", "flows.license.issuer").await;
    world.await_state(&session, "VALIDATING", "VALIDATING").await;
    let applicant = world.agent(APPLICANT).flows();
    // The corporation's operator drives its agents through the tool server.
    let of = |place: usize, mut given: Value| {
        given["agent_did"] = world.agent_did(place).into();
        given["participantSessionId"] = session.as_str().into();
        given
    };
    let listed = json!({"role": "validator", "flowState": "VALIDATING"});
    let listed = world.call_ok("svc.vsa.flow.listFlows", of(VALIDATOR, listed)).await;
    assert_eq!(listed["items"][0]["participantSessionId"], session);
    let shown = world.call_ok("svc.vsa.flow.getFlow", of(VALIDATOR, json!({}))).await;
    assert_eq!((&shown["peerDid"], &shown["flowState"]), (&json!(world.agent_did(APPLICANT)), &json!("VALIDATING")));
    let tools = world.client.list_tools().await.expect("listed");
    for (name, answer) in [("svc.vsa.flow.listFlows", &listed), ("svc.vsa.flow.getFlow", &shown)] {
        assert_output_schema(tools.iter().find(|tool| tool.name == name).expect("listed"), answer);
    }
    // Without claims that fit nothing is decided.
    let refused = world.call_error("svc.vsa.flow.validateFlow", of(VALIDATOR, json!({})), "UPSTREAM_HTTP_ERROR").await;
    assert!(refused.to_string().contains("INVALID_CLAIMS"), "{refused:#}");
    let link = json!({"url": "https://agent.devnet.example/upload", "description": "Upload your certificate."});
    world.call_ok("svc.vsa.flow.sendOobLink", of(VALIDATOR, link.clone())).await;
    let (waiting, _) = world.await_state(&session, "OOB_PENDING", "OOB_PENDING").await;
    assert_eq!(
        (&waiting["oobLink"]["description"], &waiting["pendingAction"]),
        (&json!("Upload your certificate."), &json!("APPLICANT"))
    );
    let wrong = world.call_error("svc.vsa.flow.sendOobLink", of(APPLICANT, link), "UPSTREAM_HTTP_ERROR").await;
    assert!(wrong.to_string().contains("INVALID_STATE"), "{wrong:#}");
    world.call_ok("svc.vsa.flow.startValidation", of(VALIDATOR, json!({"comment": "Thank you."}))).await;
    world.await_state(&session, "VALIDATING", "VALIDATING").await;
    let stored =
        world.call_ok("svc.vsa.flow.editCredentialClaims", of(VALIDATOR, json!({"claims": claims("A")}))).await;
    assert_eq!(stored, json!({"grade": "A"}));
    let decided = world.call_ok("svc.vsa.flow.validateFlow", of(VALIDATOR, json!({}))).await;
    assert_eq!(decided["validation"]["submission"], "AGENT", "{decided:#}");
    let (held, issued) = world.await_state(&session, "COMPLETED", "COMPLETED").await;
    assert_eq!(held["credentialId"], issued["credentialId"]);
    assert_eq!(issued["issuance"]["tx"]["status"], "SUCCEEDED");
    assert_eq!(issued["validation"]["tx"]["status"], "SUCCEEDED");
    assert_eq!(world.records_of(&session).await, 1, "paid once");
    let shown = format!("vpr-schemas-{}-vtc-vp", world.id_of("flows.license.schema"));
    let is_presented = async || world.presented(APPLICANT).contains(&shown);
    world.wait_until("the document presents it", async || is_presented().await).await;
    world.await_presentation(&held["credentialId"]).await;

    // It asks once more: the same credential comes again, and nothing is paid.
    applicant.call(&session, &FlowCall::Resend { claims: None }).await.expect("sent again");
    world.await_flow(VALIDATOR, &session, |flow| flow["subprotocolThid"] != issued["subprotocolThid"]).await;
    let (again, _) = world.await_state(&session, "COMPLETED", "COMPLETED").await;
    assert_eq!(again["credentialId"], held["credentialId"]);
    assert_eq!(world.records_of(&session).await, 1, "still paid once");

    world.call_ok("svc.ledger.pp.revokeParticipant", json!({"id": participant})).await;
    world.await_state(&session, "CRED_REVOKED", "CRED_REVOKED").await;
    world.wait_until("the document presents it no more", async || !is_presented().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_is_validated_by_an_operator_and_a_rejected_one_begins_anew() {
    let world = start_agents("peers").await;
    let (participant, session) = world.apply("ISSUER", "flows.accreditation.root").await;
    world.await_state(&session, "VALIDATING", "VALIDATING").await;
    let validator = world.agent(VALIDATOR).flows();
    let decided = world.validate(&session).await;
    assert_eq!(
        (&decided["flowState"], &decided["validation"]["submission"]),
        (&json!("AWAITING_VALIDATION_TX"), &json!("OPERATOR"))
    );
    let refused = validator.call(&session, &FlowCall::EditClaims(claims("A"))).await.expect_err("no credential");
    assert_eq!(refused.code, RefusalCode::NoCredentialForRole);
    let given = json!({"id": participant, "effective_until": "2027-01-01T00:00:00Z"});
    world.call_ok("svc.ledger.pp.setParticipantOpToValidated", given).await;
    let (applicant, validated) = world.await_state(&session, "VALIDATED", "VALIDATED").await;
    assert_eq!((&applicant["pendingAction"], &validated["pendingAction"]), (&json!("NONE"), &json!("NONE")));

    let (_, session) = world.apply("HOLDER", "flows.license.issuer").await;
    world.await_state(&session, "VALIDATING", "VALIDATING").await;
    let reject = json!({
        "agent_did": world.agent_did(VALIDATOR), "participantSessionId": session,
        "description": "The certificate is not readable.",
    });
    world.call_ok("svc.vsa.flow.rejectFlow", reject).await;
    let (rejected, _) = world.await_state(&session, "TERMINATED_BY_VALIDATOR", "TERMINATED_BY_VALIDATOR").await;
    assert!(rejected["errorMessage"].as_str().is_some_and(|text| text.contains("not readable")), "{rejected:#}");
    let participant = rejected["applicantParticipantId"].as_str().and_then(|id| id.parse().ok());
    let request = FlowRequest { participant_id: participant, claims: Some(claims("B")), ..FlowRequest::default() };
    let opened = world.agent(APPLICANT).flows().open(request).await.expect("another flow").record;
    let session = opened["participantSessionId"].as_str().expect("a session").to_owned();
    let (_, validating) = world.await_state(&session, "VALIDATING", "VALIDATING").await;
    assert_eq!(validating["claims"], json!({"grade": "B"}));
    let end = FlowCall::End { description: Some("not wanted any more".to_owned()) };
    world.agent(APPLICANT).flows().call(&session, &end).await.expect("ended");
    world.await_state(&session, "TERMINATED_BY_APPLICANT", "TERMINATED_BY_APPLICANT").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_without_an_onboarding_and_a_renewal_are_paid_once_each() {
    let world = start_agents("peers").await;
    let (validator, applicant) = (world.agent(VALIDATOR).flows(), world.agent(APPLICANT).flows());
    let request = FlowRequest {
        did: Some(world.agent_did(VALIDATOR)),
        schema_id: Some(world.id_of("flows.badge.schema")),
        claims: Some(claims("A")),
        ..FlowRequest::default()
    };
    let opened = applicant.open(request.clone()).await.expect("opened").record;
    assert_eq!((&opened["flowState"], &opened["variant"]), (&json!("IR_SENT"), &json!("direct-issuance")));
    let session = opened["participantSessionId"].as_str().expect("a session").to_owned();
    world.await_state(&session, "VALIDATING", "VALIDATING").await;
    // The document of the ecosystem may not present the credential of its new schema yet.
    world.validate(&session).await;
    world.await_state(&session, "COMPLETED", "COMPLETED").await;
    assert_eq!(world.records_of(&session).await, 1);
    let needs_onboarding = FlowRequest { schema_id: Some(world.id_of("flows.license.schema")), ..request };
    let refused = applicant.open(needs_onboarding).await.expect_err("an onboarding is needed");
    assert_eq!(refused.code, RefusalCode::InvalidState);

    let (participant, session) = world.apply("HOLDER", "flows.license.issuer").await;
    world.await_state(&session, "VALIDATING", "VALIDATING").await;
    validator.call(&session, &FlowCall::EditClaims(claims("A"))).await.expect("stored");
    world.validate(&session).await;
    let (first, _) = world.await_state(&session, "COMPLETED", "COMPLETED").await;
    world.call_ok("svc.ledger.pp.renewParticipantOp", json!({"id": participant})).await;
    let (renewing, _) = world.await_state(&session, "VALIDATING", "VALIDATING").await;
    assert_eq!(renewing["round"], 2);
    validator.call(&session, &FlowCall::EditClaims(claims("B"))).await.expect("stored");
    world.validate(&session).await;
    let (second, _) = world.await_state(&session, "COMPLETED", "COMPLETED").await;
    assert_ne!(first["credentialId"], second["credentialId"]);
    assert_eq!(world.records_of(&session).await, 2, "one for each validation");
    // A renewal that is cancelled leaves the credential as it is.
    world.call_ok("svc.ledger.pp.renewParticipantOp", json!({"id": participant})).await;
    world.await_state(&session, "VALIDATING", "VALIDATING").await;
    world.call_ok("svc.ledger.pp.cancelParticipantOpLastRequest", json!({"id": participant})).await;
    let (kept, _) = world.await_state(&session, "COMPLETED", "COMPLETED").await;
    assert_eq!(kept["credentialId"], second["credentialId"]);
    assert_eq!(world.records_of(&session).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_in_the_older_format_are_issued_believed_and_presented() {
    let world = start_agents_with("peers", |agents| agents.flows.format = FlowFormat::LdProof).await;
    // The branch is trusted by a credential of this format already: the index has verified it.
    let held = world.agent(APPLICANT).store().held_credentials().await.expect("read");
    let service = held.iter().find(|one| one.schema_id == world.id_of("service.schema")).expect("a service credential");
    let service: Value = serde_json::from_str(&service.body).expect("JSON");
    assert_eq!(service["proof"]["type"], "Ed25519Signature2020");
    assert_eq!(service["@context"][0], "https://www.w3.org/2018/credentials/v1");

    let (_, session) = world.apply("HOLDER", "flows.license.issuer").await;
    world.await_state(&session, "VALIDATING", "VALIDATING").await;
    let validator = world.agent(VALIDATOR).flows();
    validator.call(&session, &FlowCall::EditClaims(claims("A"))).await.expect("stored");
    world.validate(&session).await;
    let (license, _) = world.await_state(&session, "COMPLETED", "COMPLETED").await;
    assert_eq!(world.records_of(&session).await, 1);
    world.await_presentation(&license["credentialId"]).await;
}
