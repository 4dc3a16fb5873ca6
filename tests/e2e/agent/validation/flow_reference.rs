//! The recorded reference as the other side of an agent, in both formats of credentials: it says its recorded messages, and those that it
//! hears have the form of the recorded ones. The file is longer than others: both sides are played from one transcript.

use std::{collections::HashMap, sync::LazyLock};

use prost_types::Timestamp;
use serde_json::{Map, Value, json};
use svc_agent::{CredentialKind, FlowCall, FlowFormat, FlowRequest};
use svc_devnet::scenario::Scenario;
use svc_didcomm::{
    Message,
    protocol::{
        Content,
        credential_format::{CredentialFormat, issued_credential, offered_credential},
        issue_credential::{ACK, FormatAttachment, ISSUE, IssueCredential, OFFER, PROBLEM, REQUEST},
        problem_report::PROBLEM_REPORT,
        vt_flow::{CREDENTIAL_STATE_CHANGE, ISSUANCE_REQUEST, ONBOARDING_REQUEST, OOB_LINK, VALIDATING},
    },
};
use svc_trust::{
    digest::{DigestAlgorithm, anchored_digest},
    issuance::{CredentialDraft, sign_credential},
    proof::{ProofKey, ProofSuite},
};
use svc_wire::timestamp;
use uuid::Uuid;

use crate::e2e::{
    agent::{
        credentials::identity::start_agents_with,
        messages::scripted_peer::{ScriptedPeer, now, signing_key},
        validation::{
            flow_adversaries::start_applicant,
            flows::{APPLICANT, VALIDATOR, claims},
        },
    },
    harness::TestNetwork,
};

/// The messages of a run of the reference on both sides. Attachments are left out.
static TRANSCRIPT: LazyLock<Vec<Value>> =
    LazyLock::new(|| parse(include_str!("../../../../didcomm/tests/fixtures/31-flow-transcript.json")));
/// Some of them with their attachments, as they stood in their envelopes.
static RECORDED: LazyLock<HashMap<String, Value>> = LazyLock::new(|| {
    let files: [&str; 11] = [
        include_str!("../../../../didcomm/tests/fixtures/10-vtflow-onboarding-request.json"),
        include_str!("../../../../didcomm/tests/fixtures/11-vtflow-validating.json"),
        include_str!("../../../../didcomm/tests/fixtures/12-vtflow-oob-link.json"),
        include_str!("../../../../didcomm/tests/fixtures/13-issue-credential-offer.json"),
        include_str!("../../../../didcomm/tests/fixtures/14-issue-credential-request.json"),
        include_str!("../../../../didcomm/tests/fixtures/15-issue-credential-issue.json"),
        include_str!("../../../../didcomm/tests/fixtures/16-issue-credential-ack.json"),
        include_str!("../../../../didcomm/tests/fixtures/17-vtflow-credential-state-change.json"),
        include_str!("../../../../didcomm/tests/fixtures/18-vtflow-issuance-request.json"),
        include_str!("../../../../didcomm/tests/fixtures/19-vtflow-problem-report-reject.json"),
        include_str!("../../../../didcomm/tests/fixtures/20-issue-credential-problem-report.json"),
    ];
    let messages = files.map(|text| parse::<Value>(text)["plaintext"].clone());
    messages.map(|message| (text(&message["id"]).to_owned(), message)).into()
});

/// Ids in the transcript: the participants, the schema, and the sessions.
const PARTICIPANT: &str = "42";
const REJECTED_PARTICIPANT: &str = "43";
const ENDED_PARTICIPANT: &str = "44";
const SCHEMA: &str = "5";
const SESSION: &str = "7f66f5a4-3da7-47e3-a74a-22aafbcd36c9";
const REJECTED_SESSION: &str = "82e261dc-2676-4f6e-91cd-883c60cefd8b";
const ENDED_SESSION: &str = "b3dba113-ece3-4d0d-be67-862bd1002cd4";
const DIRECT_SESSION: &str = "04131f80-c0ed-4b7d-8fcc-a7948cf1d1e2";
const DECLINED_SESSION: &str = "ec05983c-cc16-40cb-94c9-3bd13a0117c2";

/// Members that a message of either side may lack: texts for people, wishes, and the end of a link, which the reference puts elsewhere.
const OPTIONAL: [&str; 6] = ["comment", "reason", "claims", "expires_time", "~please_ack", "impact"];
/// Members whose values are words of the protocol.
const WORDS: [&str; 7] =
    ["@type", "mime-type", "status", "state", "agent_participant_id", "wallet_agent_participant_id", "impact"];

fn parse<T: serde::de::DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).expect("JSON")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// The recorded messages of a kind in a scenario.
fn recorded(scenario: &str, kind: &str) -> Vec<Value> {
    let mut current = "";
    let mut found = Vec::new();
    for entry in TRANSCRIPT.iter() {
        current = entry["scenario"].as_str().unwrap_or(current);
        if current == scenario && entry["type"] == kind {
            found.push(RECORDED.get(text(&entry["id"])).unwrap_or(entry).clone());
        }
    }
    assert!(!found.is_empty(), "{scenario} has a {kind}");
    found
}

/// Whether a part of a message has the form of a recorded one.
fn assert_same_form(place: &str, recorded: &Value, heard: &Value) {
    match (recorded, heard) {
        // An attachment that was left out.
        (Value::String(recorded), _) if recorded == "[attachment]" => {}
        (Value::Object(recorded), Value::Object(heard)) => {
            for name in recorded.keys().chain(heard.keys()) {
                match (recorded.get(name), heard.get(name)) {
                    (Some(Value::String(word)), Some(value)) if WORDS.contains(&name.as_str()) => {
                        assert_eq!(value, word, "{place}/{name}");
                    }
                    (Some(_), Some(_)) if name == "claims" => {}
                    (Some(recorded), Some(heard)) => assert_same_form(&format!("{place}/{name}"), recorded, heard),
                    _ => assert!(OPTIONAL.contains(&name.as_str()), "{place}/{name} is on one side alone"),
                }
            }
        }
        (Value::Array(recorded), Value::Array(heard)) => {
            assert_eq!(recorded.len(), heard.len(), "{place}");
            recorded.iter().zip(heard).for_each(|(recorded, heard)| assert_same_form(place, recorded, heard));
        }
        _ => assert_eq!(std::mem::discriminant(recorded), std::mem::discriminant(heard), "{place}: {heard}"),
    }
}

/// The reference, whose recorded ids and threads stand for the present ones.
struct Reference {
    peer: ScriptedPeer,
    prior: Option<String>,
    present: HashMap<String, String>,
}

impl Reference {
    fn new(peer: ScriptedPeer, prior: Option<String>) -> Self {
        Self { peer, prior, present: HashMap::new() }
    }

    fn stands_for(&mut self, recorded: &str, present: impl ToString) {
        self.present.insert(recorded.to_owned(), present.to_string());
    }

    fn present_of(&self, recorded: &str) -> String {
        self.present.get(recorded).cloned().unwrap_or_else(|| recorded.to_owned())
    }

    /// Says the recorded messages of a kind in a scenario, with a changed body.
    async fn says(&mut self, scenario: &str, kind: &str, change: impl Fn(&mut Map<String, Value>)) {
        for mut message in recorded(scenario, kind) {
            let id = Uuid::new_v4().to_string();
            self.stands_for(text(&message["id"]), &id);
            for member in ["id", "thid", "pthid"] {
                if let Some(recorded) = message[member].as_str() {
                    message[member] = self.present_of(recorded).into();
                }
            }
            message["from"] = self.peer.keys.did.clone().into();
            message["to"] = json!([self.peer.agent_did()]);
            message["from_prior"] = self.prior.clone().into();
            let body = message["body"].as_object_mut().expect("a body");
            for value in body.values_mut().filter(|value| value.is_string()) {
                *value = self.present_of(text(value)).into();
            }
            change(body);
            let message = Message::parse(message.to_string().as_bytes()).expect("a message");
            assert_eq!(self.peer.post(self.peer.seal(&message)).await, 202, "{scenario}: {kind}");
        }
    }

    /// Says a step with an attachment.
    async fn gives(&mut self, scenario: &str, kind: &str, attachment: &FormatAttachment) {
        let step = |attachments| match kind {
            OFFER => IssueCredential::Offer { attachments, comment: None },
            REQUEST => IssueCredential::Request(attachments),
            _ => IssueCredential::Issue(attachments),
        };
        let body = step(vec![attachment.clone()]).to_message("id", "thread", None).body;
        self.says(scenario, kind, |said| {
            for (name, value) in &body {
                said.insert(name.clone(), value.clone());
            }
        })
        .await;
    }

    /// Hears a message, which has the form of the recorded one.
    async fn hears(&mut self, scenario: &str, kind: &str) -> Message {
        let heard = self.peer.next(kind).await;
        let recorded = recorded(scenario, kind).remove(0);
        let threads = [(&recorded["thid"], Some(heard.thread())), (&recorded["pthid"], heard.pthid.as_deref())];
        for (recorded, present) in threads {
            match (recorded.as_str(), present) {
                (Some(recorded), Some(present)) => {
                    let known = self.present.entry(recorded.to_owned()).or_insert_with(|| present.to_owned());
                    assert_eq!(known, present, "{scenario}: the thread of {kind}");
                }
                (recorded, present) => assert_eq!(recorded.is_some(), present.is_some(), "{scenario}: {kind}"),
            }
        }
        for (name, value) in &heard.body {
            if let (Some(recorded), Some(value)) = (recorded["body"][name].as_str(), value.as_str()) {
                assert!(self.present.get(recorded).is_none_or(|present| present == value), "{scenario}: {name}");
            }
        }
        assert_same_form(&format!("{scenario}: {kind}"), &recorded["body"], &Value::Object(heard.body.clone()));
        heard
    }
}

fn credential_format(format: FlowFormat) -> CredentialFormat {
    match format {
        FlowFormat::DataIntegrity => CredentialFormat::DataIntegrity,
        FlowFormat::LdProof => CredentialFormat::LdProof,
    }
}

/// The attachments of a message of issue-credential.
fn attachments(message: &Message) -> Vec<FormatAttachment> {
    match Content::read(message).expect("read") {
        Content::IssueCredential(
            IssueCredential::Offer { attachments, .. }
            | IssueCredential::Request(attachments)
            | IssueCredential::Issue(attachments),
        ) => attachments,
        other => panic!("{other:?}"),
    }
}

/// Takes an offered credential up to the acknowledgements, of which the reference sends two.
async fn take_credential(applicant: &mut Reference, scenario: &str, format: CredentialFormat) -> Value {
    let offer = applicant.hears(scenario, OFFER).await;
    let (offered_in, offered) = offered_credential(&attachments(&offer)).expect("a credential");
    assert_eq!(offered_in, format, "{scenario}");
    applicant.gives(scenario, REQUEST, &format.request("wanted", &offered)).await;
    let issued = applicant.hears(scenario, ISSUE).await;
    let (issued_in, mut credential) = issued_credential(&attachments(&issued)).expect("a credential");
    assert_eq!(issued_in, format, "{scenario}");
    applicant.says(scenario, ACK, |_| {}).await;
    let signed = credential.clone();
    credential.as_object_mut().expect("an object").remove("proof").expect("a proof");
    assert_eq!(credential, offered, "{scenario}: the credential that was offered");
    signed
}

async fn serve_the_recorded_applicant(format: FlowFormat) {
    let world = start_agents_with("peers", |agents| agents.flows.format = format).await;
    let validator = world.agent(VALIDATOR).flows();
    let (peer, participant) = start_applicant(&world).await;
    let wanted = world.issue_request(&peer.keys.did, "Recorded").claims;
    let with_claims = |body: &mut Map<String, Value>| {
        body.insert("claims".to_owned(), json!(wanted));
    };
    let mut applicant = Reference::new(peer, None);
    let sessions = [SESSION, REJECTED_SESSION, ENDED_SESSION, DIRECT_SESSION, DECLINED_SESSION]
        .map(|recorded| (recorded, Uuid::new_v4().to_string()));
    for (recorded, session) in &sessions {
        applicant.stands_for(recorded, session);
    }
    let [session, rejected, ended, direct, declined] = sessions.map(|(_, session)| session);
    for recorded in [PARTICIPANT, REJECTED_PARTICIPANT, ENDED_PARTICIPANT] {
        applicant.stands_for(recorded, &participant);
    }
    let with = credential_format(format);

    // It is refused at first, and ends its second attempt itself.
    applicant.says("rejection", ONBOARDING_REQUEST, with_claims).await;
    applicant.peer.next(VALIDATING).await;
    let reject = FlowCall::Reject { description: "not accepted".to_owned(), code: None };
    validator.call(&rejected, &reject).await.expect("rejected");
    let report = applicant.hears("rejection", PROBLEM_REPORT).await;
    assert_eq!(report.body["description"], json!({"code": "vt-flow.validation-refused", "en": "not accepted"}));
    applicant.says("applicant-terminates", ONBOARDING_REQUEST, with_claims).await;
    applicant.peer.next(VALIDATING).await;
    applicant.says("applicant-terminates", PROBLEM_REPORT, |_| {}).await;
    world.await_flow(VALIDATOR, &ended, |flow| flow["flowState"] == "TERMINATED_BY_APPLICANT").await;

    applicant.says("onboarding", ONBOARDING_REQUEST, with_claims).await;
    applicant.hears("onboarding", VALIDATING).await;
    let link = FlowCall::SendOobLink {
        url: "https://validator.svc.example/form/1".to_owned(),
        description: "Complete the form".to_owned(),
        expires_at: Some(1_798_761_600_000),
    };
    validator.call(&session, &link).await.expect("sent");
    let link = applicant.hears("oob-link", OOB_LINK).await;
    assert_eq!(
        (&link.body["url"], &link.body["description"]),
        (&json!("https://validator.svc.example/form/1"), &json!("Complete the form"))
    );
    world.validate(&session).await;
    let credential = take_credential(&mut applicant, "validated+offer", with).await;
    assert_eq!(credential["credentialSubject"]["id"], applicant.peer.keys.did);
    world.await_flow(VALIDATOR, &session, |flow| flow["flowState"] == "COMPLETED").await;
    assert_eq!(world.records_of(&session).await, 1);

    renew(&world, &participant).await;
    applicant.says("renewal", ONBOARDING_REQUEST, with_claims).await;
    let renewing = |flow: &Value| flow["flowState"] == "VALIDATING" && flow["round"] == 2;
    world.await_flow(VALIDATOR, &session, renewing).await;
    world.validate(&session).await;
    let renewed = take_credential(&mut applicant, "renewal-offer", with).await;
    assert_ne!(renewed["id"], credential["id"]);
    world.await_flow(VALIDATOR, &session, |flow| flow["flowState"] == "COMPLETED").await;
    assert_eq!(world.records_of(&session).await, 2);
    // The thread of the renewal has taken the place of the first one.
    let change = recorded("revocation", CREDENTIAL_STATE_CHANGE).remove(0);
    let [opening, offer] =
        [recorded("renewal", ONBOARDING_REQUEST).remove(0), recorded("renewal-offer", OFFER).remove(0)];
    let threads = [(&change["thid"], &opening["thid"]), (&change["body"]["subprotocol_thid"], &offer["thid"])];
    for (recorded, renewed) in threads {
        let renewed = applicant.present_of(text(renewed));
        applicant.stands_for(text(recorded), renewed);
    }
    world.call_ok("svc.ledger.pp.revokeParticipant", json!({"id": participant})).await;
    applicant.hears("revocation", CREDENTIAL_STATE_CHANGE).await;
    world.await_flow(VALIDATOR, &session, |flow| flow["flowState"] == "CRED_REVOKED").await;

    // Without an onboarding, under the trusted DID of the other agent.
    let (peer, prior) = ScriptedPeer::take_over(&world, APPLICANT, VALIDATOR).await;
    let mut applicant = Reference { peer, prior: Some(prior), present: applicant.present };
    applicant.stands_for(SCHEMA, world.id_of("flows.badge.schema"));
    let with_grade = |body: &mut Map<String, Value>| {
        body.insert("claims".to_owned(), json!({"grade": "A"}));
    };
    applicant.says("direct-issuance", ISSUANCE_REQUEST, with_grade).await;
    world.await_flow(VALIDATOR, &direct, |flow| flow["flowState"] == "VALIDATING").await;
    world.validate(&direct).await;
    take_credential(&mut applicant, "direct-issuance", with).await;
    world.await_flow(VALIDATOR, &direct, |flow| flow["flowState"] == "COMPLETED").await;
    assert_eq!(world.records_of(&direct).await, 1);
    applicant.says("credential-decline", ISSUANCE_REQUEST, with_grade).await;
    world.await_flow(VALIDATOR, &declined, |flow| flow["flowState"] == "VALIDATING").await;
    world.validate(&declined).await;
    applicant.hears("credential-decline", OFFER).await;
    applicant.says("credential-decline", PROBLEM, |_| {}).await;
    world.await_flow(VALIDATOR, &declined, |flow| flow["flowState"] == "ERROR").await;
    assert_eq!(world.records_of(&declined).await, 0);
}

/// The operator of the other corporation begins the renewal of its participant.
async fn renew(world: &TestNetwork, participant: &str) {
    let steps: Scenario = serde_json::from_value(json!({
        "description": "a renewal",
        "step": [{"name": "renew", "signer": "verifier_operator", "granter": "verifier", "messages": [{
            "type": "pp.MsgRenewParticipantOP",
            "value": {"corporation": "$verifier", "operator": "$verifier_operator", "id": participant},
        }]}],
    }))
    .expect("a scenario");
    world.network.devnet.run_steps(&steps).await.expect("renewed");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recorded_applicant_gets_its_credentials() {
    serve_the_recorded_applicant(FlowFormat::DataIntegrity).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recorded_applicant_gets_its_credentials_in_the_older_format() {
    serve_the_recorded_applicant(FlowFormat::LdProof).await;
}

/// The recorded validator, with the keys of the first agent and the account that pays its sessions.
struct Validator {
    reference: Reference,
    key: ProofKey,
    format: FlowFormat,
}

impl Validator {
    /// Offers a credential, anchors it in the session, gives it, and hears that it has arrived.
    async fn issue(
        &mut self,
        world: &TestNetwork,
        scenario: &str,
        session: &str,
        (badge, issuer): (bool, u64),
    ) -> Value {
        let format = credential_format(self.format);
        let unsigned = self.unsigned(world, badge).await;
        self.reference.gives(scenario, OFFER, &format.offer("given", &unsigned)).await;
        let wanted = self.reference.hears(scenario, REQUEST).await;
        assert_eq!(attachments(&wanted)[0].format, format.request_name());
        if self.format == FlowFormat::LdProof {
            let echo = offered_credential(&attachments(&wanted));
            assert_eq!(echo, Some((format, unsigned.clone())), "the offer comes back");
        }
        let (mut credential, at) = (unsigned, timestamp::iso_seconds(&svc_kit::wall_clock::now()));
        sign_credential(&mut credential, &self.key, self.suite(), &at).expect("signed");
        let digest = anchored_digest(&credential, DigestAlgorithm::Sha384).expect("a digest");
        let steps: Scenario = serde_json::from_value(json!({
            "description": "a session",
            "step": [{"name": "pay", "signer": "agent", "granter": "registry", "messages": [{
                "type": "pp.MsgCreateOrUpdateParticipantSession",
                "value": {"corporation": "$registry", "operator": "$agent", "id": session,
                    "issuer_participant_id": issuer, "digest": digest},
            }]}],
        }))
        .expect("a scenario");
        world.network.devnet.run_steps(&steps).await.expect("paid");
        self.reference.gives(scenario, ISSUE, &format.credential("given", &credential)).await;
        self.reference.hears(scenario, ACK).await;
        credential
    }

    /// A credential that nothing proves yet.
    async fn unsigned(&self, world: &TestNetwork, badge: bool) -> Value {
        let schema = world.id_of(if badge { "flows.badge.schema" } else { "flows.license.schema" });
        let presented = world.agent(VALIDATOR).store().held_credentials().await.expect("read");
        let named = presented.iter().find(|one| one.kind == CredentialKind::Schema && one.schema_id == schema);
        let named = &named.expect("the credential of the schema").id;
        let at = |seconds| timestamp::iso_seconds(&Timestamp { seconds: now() + seconds, nanos: 0 });
        let draft = CredentialDraft {
            id: format!("{}#{}", world.agent_did(VALIDATOR), Uuid::new_v4()),
            issuer: world.agent_did(VALIDATOR),
            kind: "VerifiableTrustCredential".to_owned(),
            subject: json!({"id": world.agent_did(APPLICANT), "grade": "A"}),
            schema: Some(json!({"id": named, "type": "JsonSchemaCredential"})),
            valid_from: at(-60),
            valid_until: Some(at(1_000_000)),
        };
        draft.into_credential(self.suite())
    }

    fn suite(&self) -> ProofSuite {
        match self.format {
            FlowFormat::DataIntegrity => ProofSuite::EddsaJcs2022,
            FlowFormat::LdProof => ProofSuite::Ed25519Signature2020,
        }
    }
}

async fn apply_to_the_recorded_validator(format: FlowFormat) {
    let world = start_agents_with("peers", |_| {}).await;
    let applicant = world.agent(APPLICANT).flows();
    let (peer, prior) = ScriptedPeer::take_over(&world, VALIDATOR, APPLICANT).await;
    let published = world.agent(VALIDATOR).keeper().published();
    let method = text(&published.document.as_json()["assertionMethod"][0]).to_owned();
    let key = ProofKey { verification_method: method, key: signing_key(world.agent(VALIDATOR)).await };
    let mut validator = Validator { reference: Reference::new(peer, Some(prior)), key, format };

    let (participant, session) = world.apply("HOLDER", "flows.license.issuer").await;
    validator.reference.stands_for(PARTICIPANT, participant);
    validator.reference.stands_for(SESSION, &session);
    validator.reference.hears("onboarding", ONBOARDING_REQUEST).await;
    validator.reference.says("onboarding", VALIDATING, |_| {}).await;
    world.await_flow(APPLICANT, &session, |flow| flow["flowState"] == "VALIDATING").await;
    validator.reference.says("oob-link", OOB_LINK, |_| {}).await;
    let linked = world.await_flow(APPLICANT, &session, |flow| flow["flowState"] == "OOB_PENDING").await;
    assert_eq!(
        (&linked["oobLink"]["description"], &linked["oobLink"]["expiresAt"]),
        (&json!("Complete the form"), &json!("2027-01-01T00:00:00.000Z")),
        "{linked:#}"
    );
    let validated = async |until: &str| {
        let given = json!({"id": participant, "effective_until": until});
        world.call_ok("svc.ledger.pp.setParticipantOpToValidated", given).await
    };
    validated("2027-01-01T00:00:00Z").await;
    let license = (false, world.id_of("flows.license.issuer"));
    let first = validator.issue(&world, "validated+offer", &session, license).await;
    let held = world.await_flow(APPLICANT, &session, |flow| flow["flowState"] == "COMPLETED").await;
    assert_eq!(held["credentialId"], first["id"]);
    validator.reference.says("revocation", CREDENTIAL_STATE_CHANGE, |_| {}).await;
    world.await_flow(APPLICANT, &session, |flow| flow["flowState"] == "CRED_REVOKED").await;
    world.call_ok("svc.ledger.pp.renewParticipantOp", json!({"id": participant})).await;
    validator.reference.hears("renewal", ONBOARDING_REQUEST).await;
    validated("2027-02-01T00:00:00Z").await;
    let second = validator.issue(&world, "renewal-offer", &session, license).await;
    let held = world.await_flow(APPLICANT, &session, |flow| flow["flowState"] == "COMPLETED").await;
    assert_eq!(held["credentialId"], second["id"]);

    // A refusal that asks to try again ends nothing.
    let (participant, session) = world.apply("ISSUER", "flows.accreditation.root").await;
    validator.reference.stands_for(REJECTED_PARTICIPANT, participant);
    validator.reference.stands_for(REJECTED_SESSION, &session);
    let opening = validator.reference.hears("rejection", ONBOARDING_REQUEST).await;
    validator.reference.says("rejection", PROBLEM_REPORT, |_| {}).await;
    let refused = world.await_flow(APPLICANT, &session, |flow| flow["refusal"].is_object()).await;
    assert_eq!(
        (&refused["flowState"], &refused["refusal"]["code"]),
        (&json!("OR_SENT"), &json!("vt-flow.validation-failed"))
    );
    let end = FlowCall::End { description: None };
    applicant.call(&session, &end).await.expect("ended");
    let ended = validator.reference.hears("applicant-terminates", PROBLEM_REPORT).await;
    assert_eq!(ended.thread(), opening.thread());
    assert_eq!(ended.body["description"]["code"], "vt-flow.session-terminated");

    validator.reference.stands_for(SCHEMA, world.id_of("flows.badge.schema"));
    let request = FlowRequest {
        did: Some(world.agent_did(VALIDATOR)),
        schema_id: Some(world.id_of("flows.badge.schema")),
        claims: Some(claims("A")),
        ..FlowRequest::default()
    };
    let badge = (true, world.id_of("flows.badge.issuer"));
    let opened = applicant.open(request.clone()).await.expect("opened").record;
    let session = text(&opened["participantSessionId"]).to_owned();
    validator.reference.stands_for(DIRECT_SESSION, &session);
    validator.reference.hears("direct-issuance", ISSUANCE_REQUEST).await;
    validator.issue(&world, "direct-issuance", &session, badge).await;
    world.await_flow(APPLICANT, &session, |flow| flow["flowState"] == "COMPLETED").await;
    // It declines a credential about another DID, and waits for its own.
    let opened = applicant.open(request).await.expect("opened").record;
    let session = text(&opened["participantSessionId"]).to_owned();
    validator.reference.hears("credential-decline", ISSUANCE_REQUEST).await;
    let mut other = validator.unsigned(&world, true).await;
    other["credentialSubject"]["id"] = "did:web:other.example".into();
    let offer = credential_format(format).offer("given", &other);
    validator.reference.gives("credential-decline", OFFER, &offer).await;
    validator.reference.hears("credential-decline", PROBLEM).await;
    world.await_flow(APPLICANT, &session, |flow| flow["flowState"] == "IR_SENT").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recorded_validator_is_believed_with_proof() {
    apply_to_the_recorded_validator(FlowFormat::DataIntegrity).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recorded_validator_is_believed_with_proof_in_the_older_format() {
    apply_to_the_recorded_validator(FlowFormat::LdProof).await;
}
