//! The service: its start, its entry, its cases, and its calls at the agent.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use svc_net::{did::DidResolver, host_policy::HostPolicy};
use svc_trust::digest::{DigestAlgorithm, anchored_digest};
use svc_wire::adr036;

use crate::e2e::{
    agent::{
        AdminAnswer, answer,
        document::login,
        processes::two_agents::TwoAgents,
        request,
        validation::onboarding_service::{
            SERVICE_ACCOUNT,
            case::{Submission, status_of},
            registry::Registry,
        },
    },
    harness::{TEST_TIMEOUT, TestNetwork},
    indexer::onboarding_reader::OnboardingReader,
};

const FLOWS: &str = "/v2/vt/flows";
const ENTRIES: &str = "/v2/vt/service-endpoints";
const ENTRY_TYPE: &str = "EcosystemOnboardingService";
/// Few, so that reads have several pages.
const EVENTS_OF_A_PAGE: usize = 10;

/// The decision of the validator's corporation about a case, with all that is sent for it.
#[derive(Debug, Clone)]
pub(super) struct Decision {
    /// Claims of a holder's credential.
    pub(super) claims: Option<Value>,
    /// Inputs of the validation.
    pub(super) terms: Value,
}

/// A service for one participant of the validator.
pub(super) struct OnboardingService<'a> {
    agents: &'a TwoAgents,
    pub(super) registry: Registry,
    pub(super) validator: u64,
    /// DID of the validator.
    pub(super) did: String,
    /// Origin of the agent's admin API, and the token of the login there.
    admin: String,
    token: String,
    reader: OnboardingReader,
    /// All events that were read.
    events: Vec<Value>,
    submissions: BTreeMap<u64, Submission>,
    decisions: BTreeMap<u64, Decision>,
}

/// The public document of a DID.
async fn document_of(did: &str) -> Value {
    let resolver = DidResolver::new(HostPolicy::AllowPrivate).expect("a resolver");
    (*resolver.resolve_fresh(did).await.expect("the public document verifies")).clone()
}

fn services_of<'a>(document: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    document["service"].as_array().into_iter().flatten().filter(move |one| one["type"] == kind)
}

/// Logs in at an agent, in the form of a text that knows no audience.
async fn log_in(admin: &str) -> String {
    let (key, account) = (login::key(SERVICE_ACCOUNT), login::account(SERVICE_ACCOUNT));
    let post = |path: &str, body: &Value| request("POST", &format!("{admin}{path}")).json(body);
    let challenge = answer(post("/v2/auth/challenge", &json!({"account": account}))).await;
    assert_eq!(challenge.status, 200, "{}", challenge.body);
    assert!(challenge.body.get("audience").is_none(), "{}", challenge.body);
    let nonce = challenge.body["nonce"].as_str().expect("a nonce");
    let address = key.public_key().address("svc").expect("an address");
    let signature = adr036::sign_arbitrary(&key, &format!("vs-agent-admin-auth:{nonce}"), &address).expect("signed");
    let proof = json!({
        "account": account, "nonce": nonce, "pubKey": STANDARD.encode(key.public_key().as_bytes()), "signature": signature,
    });
    let granted = answer(post("/v2/auth/token", &proof)).await;
    assert_eq!(granted.status, 200, "{}", granted.body);
    granted.body["token"].as_str().expect("a token").to_owned()
}

impl<'a> OnboardingService<'a> {
    /// Starts for a participant of the validator, and publishes a URL.
    pub(super) async fn start(agents: &'a TwoAgents, validator: u64, url: &str) -> Self {
        let registry = Registry { origin: agents.world.network.indexer_origin() };
        let height = registry.height().await;
        let participant = registry.participant(validator).await;
        assert_eq!(participant["participant_state"], "ACTIVE", "{participant:#}");
        let schema = registry.schema(&participant["schema_id"]).await;
        assert_eq!(schema["archived"], Value::Null, "{schema:#}");
        assert_eq!((&schema["pricing_asset_type"], &schema["pricing_asset"]), (&json!("COIN"), &json!("usvc")));
        let did = participant["did"].as_str().expect("a DID").to_owned();
        let document = document_of(&did).await;
        let admin = services_of(&document, "VsAgentAdminAPI").next().expect("the admin API")["serviceEndpoint"].clone();
        let admin = admin.as_str().expect("a URL").to_owned();
        let corporation = &participant["corporation_id"];
        let filter = format!("&corporation_id={corporation}");
        let service = Self {
            agents,
            validator,
            reader: OnboardingReader::new(&registry.origin, &filter, EVENTS_OF_A_PAGE).after(height),
            registry,
            did,
            token: log_in(&admin).await,
            admin,
            events: Vec::new(),
            submissions: BTreeMap::new(),
            decisions: BTreeMap::new(),
        };
        let info = service.call("GET", "/v2/agent/info", None).await;
        assert_eq!((info.status, &info.body["did"]), (200, &json!(service.did)), "{}", info.body);
        service.write_entry(url).await;
        service
    }

    pub(super) fn agents(&self) -> &'a TwoAgents {
        self.agents
    }

    pub(super) fn world(&self) -> &'a TestNetwork {
        &self.agents.world
    }

    /// A call at the agent, from outside.
    pub(super) async fn call(&self, method: &str, path: &str, body: Option<&Value>) -> AdminAnswer {
        let call = request(method, &format!("{}{path}", self.admin)).bearer_auth(&self.token);
        answer(match body {
            Some(body) => call.json(body),
            None => call,
        })
        .await
    }

    async fn call_ok(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let answer = self.call(method, path, body).await;
        assert_eq!(answer.status, 200, "{method} {path}: {}", answer.body);
        answer.body
    }

    /// All items of a list, one a page.
    async fn list(&self, path: &str) -> Vec<Value> {
        let (mut items, mut cursor) = (Vec::new(), String::new());
        loop {
            let separator = if path.contains('?') { '&' } else { '?' };
            let page = self.call_ok("GET", &format!("{path}{separator}limit=1{cursor}"), None).await;
            items.extend(page["items"].as_array().expect("items").iter().cloned());
            let Some(next) = page["nextCursor"].as_str() else { return items };
            cursor = format!("&cursor={next}");
        }
    }

    /// Writes its entry, by which clients find it, and leaves all others alone.
    pub(super) async fn write_entry(&self, url: &str) {
        let id = format!("{}#obs-{}", self.did, self.validator);
        let entry = json!({"id": id, "type": ENTRY_TYPE, "serviceEndpoint": url});
        let before = self.list(ENTRIES).await;
        match before.iter().find(|one| one["id"] == *id) {
            None => assert_eq!(self.call_ok("POST", ENTRIES, Some(&entry)).await, entry),
            Some(own) if own["serviceEndpoint"] != url => {
                let name = percent_encoding::utf8_percent_encode(&id, percent_encoding::NON_ALPHANUMERIC);
                let change = json!({"serviceEndpoint": url});
                assert_eq!(self.call_ok("PATCH", &format!("{ENTRIES}/{name}"), Some(&change)).await, entry);
            }
            Some(_) => {}
        }
        // The agent's own entries come and go with its credentials.
        let is_other = |one: &&Value| one["id"] != *id && one["managed"] != true;
        let after = self.list(ENTRIES).await;
        assert!(before.iter().filter(is_other).eq(after.iter().filter(is_other)), "{before:#?} {after:#?}");
        let document = document_of(&self.did).await;
        assert!(services_of(&document, ENTRY_TYPE).any(|one| *one == entry), "{document:#}");
    }

    /// The flow of a case, among those of the validator.
    pub(super) async fn flow(&self, participant: u64) -> Value {
        let flows = self.list(&format!("{FLOWS}?role=validator")).await;
        let id = participant.to_string();
        flows.into_iter().rfind(|flow| flow["participantId"] == id.as_str()).unwrap_or_default()
    }

    /// The path of a case's flow.
    pub(super) async fn path(&self, participant: u64) -> String {
        let flow = self.flow(participant).await;
        format!("{FLOWS}/{}", flow["participantSessionId"].as_str().expect("a session"))
    }

    /// Polls with each block until something is there.
    async fn poll<T>(&mut self, wanted: &str, mut look: impl AsyncFnMut(&mut Self) -> Option<T>) -> T {
        let mut heights = self.agents.world.network.devnet.node.watch_heights();
        let polled = tokio::time::timeout(TEST_TIMEOUT, async {
            loop {
                if let Some(found) = look(self).await {
                    return found;
                }
                heights.changed().await.expect("blocks");
            }
        });
        polled.await.unwrap_or_else(|_| panic!("{wanted}: not within {TEST_TIMEOUT:?}"))
    }

    /// Waits for an event about a participant. Its type is compared without regard to case, as texts of services write it otherwise.
    pub(super) async fn await_event(&mut self, kind: &str, participant: u64) -> Value {
        let wanted = format!("{kind} of {participant}");
        self.poll(&wanted, async |service| {
            let read = service.reader.read().await;
            service.events.extend(read);
            service.events_of(kind, participant).pop()
        })
        .await
    }

    /// The events about a participant that were read.
    pub(super) fn events_of(&self, kind: &str, participant: u64) -> Vec<Value> {
        let id = participant.to_string();
        let is_wanted = |event: &&Value| {
            event["event_type"].as_str().is_some_and(|name| name.eq_ignore_ascii_case(kind))
                && event["payload"]["entity_id"] == id.as_str()
        };
        self.events.iter().filter(is_wanted).cloned().collect()
    }

    /// Waits for the case of an applicant, which the event of its start makes. The applicant then sends its data.
    pub(super) async fn await_case(&mut self, participant: u64) {
        self.await_event("StartParticipantOP", participant).await;
        assert!(self.registry.applicants_of(self.validator).await.contains(&participant));
        self.await_status(participant, "AWAITING_APPLICANT_DATA").await;
    }

    async fn status(&self, participant: u64) -> String {
        let (registered, flow) = (self.registry.participant(participant).await, self.flow(participant).await);
        status_of(&registered, &flow, self.submissions.get(&participant).copied().unwrap_or_default())
    }

    /// Waits for the status of a case; returns its flow.
    pub(super) async fn await_status(&mut self, participant: u64, wanted: &str) -> Value {
        self.poll(wanted, async |service| {
            let is_there = service.status(participant).await == wanted;
            is_there.then_some(())
        })
        .await;
        self.flow(participant).await
    }

    /// Waits until the flow of a case is in a state.
    pub(super) async fn await_state(&mut self, participant: u64, wanted: &str) {
        let is_there =
            async |service: &mut Self| (service.flow(participant).await["flowState"] == wanted).then_some(());
        self.poll(wanted, is_there).await;
    }

    /// The applicant's corporation submits the case.
    pub(super) async fn submit(&mut self, participant: u64) {
        self.submissions.insert(participant, Submission::Submitted);
        self.await_status(participant, "PENDING_VALIDATOR_REVIEW").await;
    }

    /// The case goes back to the applicant, with a text.
    pub(super) async fn return_case(&mut self, participant: u64, url: &str, text: &str) -> Value {
        let path = format!("{}/oob-link", self.path(participant).await);
        let link = json!({"url": url, "message": text});
        let sent = self.call_ok("POST", &path, Some(&link)).await;
        self.submissions.insert(participant, Submission::Returned);
        sent
    }

    /// The case is accepted; returns the flow.
    pub(super) async fn accept(&mut self, participant: u64, decision: Decision) -> Value {
        if let Some(claims) = &decision.claims {
            let path = format!("{}/claims", self.path(participant).await);
            let stored = self.call_ok("PUT", &path, Some(&json!({"claims": claims}))).await;
            assert_eq!(stored, *claims);
        }
        self.decisions.insert(participant, decision);
        let decided = self.validate(participant).await;
        self.submissions.insert(participant, Submission::Accepted);
        decided
    }

    /// Sends the inputs of the decision, again after a failure.
    pub(super) async fn validate(&self, participant: u64) -> Value {
        let path = format!("{}/validate", self.path(participant).await);
        self.call_ok("POST", &path, Some(&self.decisions[&participant].terms)).await
    }

    /// The case is rejected, which ends the flow.
    pub(super) async fn reject(&mut self, participant: u64, text: &str) -> Value {
        let path = format!("{}/reject", self.path(participant).await);
        let rejected = self.call_ok("POST", &path, Some(&json!({"description": text}))).await;
        self.submissions.insert(participant, Submission::Rejected);
        rejected
    }

    /// The applicant's corporation renews; the next round begins.
    pub(super) async fn await_renewal(&mut self, participant: u64, round: u64) {
        self.await_event("RenewParticipantOP", participant).await;
        self.submissions.remove(&participant);
        self.decisions.remove(&participant);
        self.poll("the round", async |service| {
            let flow = service.flow(participant).await;
            (flow["flowState"] == "VALIDATING" && flow["round"] == round).then_some(())
        })
        .await;
        self.await_status(participant, "AWAITING_APPLICANT_DATA").await;
    }

    /// The digest of a summary of a round, as the service computes it.
    pub(super) async fn summary_digest(&self, participant: u64, round: u64, decision: &Value) -> String {
        let registered = self.registry.participant(participant).await;
        let summary = json!({
            "participantId": registered["id"], "round": round, "did": registered["did"], "role": registered["role"],
            "schemaId": registered["schema_id"], "decision": decision,
        });
        anchored_digest(&summary, DigestAlgorithm::Sha384).expect("a digest")
    }
}
