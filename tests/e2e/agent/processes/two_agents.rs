//! Two agents as processes of their own: a validator with an ecosystem, and an applicant that it has made trusted by a flow.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use svc_devnet::{DevnetConfig, node::Node};
use svc_test_support::small_disk::SmallDisk;
use svc_wire::proto_registry::NodeGeneration;

use crate::e2e::{
    agent::{
        credentials::identity_process::{
            BRANCH_PHRASE, all, ask_until_ok, did_of, import_organisation, service_claims, standalone,
        },
        processes::agent_process::{AgentHome, AgentProcess},
        validation::lying_index::LyingIndex,
    },
    harness::{TEST_TIMEOUT, TestNetwork, network_config, start_network},
};

const SCHEMAS: &str = "/v2/vt/schema-credentials";

/// The changes of flows that a webhook consumer has heard, by id and in order: at least once, and the same each time.
#[derive(Clone, Default)]
pub(in crate::e2e::agent) struct HeardChanges {
    flows: Arc<Mutex<Vec<(String, Value)>>>,
    bodies: Arc<Mutex<Vec<Value>>>,
}

impl HeardChanges {
    /// Starts a consumer; its URL.
    async fn start(&self) -> String {
        let hears = self.clone();
        let route = axum::routing::post(async move |axum::Json(body): axum::Json<Value>| {
            hears.bodies.lock().expect("not poisoned").push(body.clone());
            if body["type"] == "vt.flows.state-updated" {
                let id = body["id"].as_str().expect("an id").to_owned();
                let mut heard = hears.flows.lock().expect("not poisoned");
                match heard.iter().find(|(known, _)| *known == id) {
                    Some((_, before)) => assert_eq!(*before, body["data"], "one id is one change"),
                    None => heard.push((id, body["data"].clone())),
                }
            }
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, axum::Router::new().route("/", route)).await });
        url
    }

    /// Every body that was heard.
    pub(in crate::e2e::agent) fn bodies(&self) -> Vec<Value> {
        self.bodies.lock().expect("not poisoned").clone()
    }

    /// The states of a session's flow in a round, in order.
    pub(in crate::e2e::agent) fn states(&self, session: &str, round: u64) -> Vec<String> {
        let heard = self.flows.lock().expect("not poisoned");
        let of_round =
            heard.iter().filter(|(_, data)| data["participantSessionId"] == session && data["round"] == round);
        of_round.map(|(_, data)| data["flowState"].as_str().expect("a state").to_owned()).collect()
    }
}

/// Anchors the credentials of the schemas that an agent's ecosystem has, as the operator of its corporation does.
async fn anchor_schemas(world: &TestNetwork, agent: &AgentProcess) {
    let signed = async || all(agent, SCHEMAS).await;
    let wanted = world.network.devnet.schemas_of_agents();
    world.wait_until("the credentials of the schemas", async || signed().await.len() >= wanted).await;
    for one in signed().await.iter().filter(|one| one["state"] == "signed") {
        world.call_ok("svc.ledger.di.storeDigest", json!({"digest": one["digest"]})).await;
    }
}

/// A validator with an ecosystem of its own, and an applicant that it has made trusted by a flow.
pub(in crate::e2e::agent) struct TwoAgents {
    pub(in crate::e2e::agent) world: TestNetwork,
    /// The validator's own node.
    pub(in crate::e2e::agent) node: Option<Node>,
    pub(in crate::e2e::agent) validator_home: AgentHome,
    pub(in crate::e2e::agent) applicant_home: AgentHome,
    pub(in crate::e2e::agent) validator: AgentProcess,
    pub(in crate::e2e::agent) applicant: AgentProcess,
    pub(in crate::e2e::agent) applicant_did: String,
    pub(in crate::e2e::agent) heard_by_validator: HeardChanges,
    pub(in crate::e2e::agent) heard_by_applicant: HeardChanges,
}

/// The circumstances of the validator.
#[derive(Default)]
pub(in crate::e2e::agent) struct ValidatorPlace {
    /// The small disk of its store.
    pub disk: Option<SmallDisk>,
    /// Whether it reads and writes at a node of its own, which follows that of the chain.
    pub has_own_node: bool,
    /// The index that both agents ask, which stands before the true one.
    pub index: Option<LyingIndex>,
    /// Account that logs in at its admin API from outside.
    pub login: Option<String>,
    /// Other settings.
    pub settings: BTreeMap<&'static str, String>,
    /// Settings of both agents.
    pub of_both: BTreeMap<&'static str, String>,
    /// Generation of the node; the first when absent.
    pub generation: Option<NodeGeneration>,
    /// Texts of the essential schemas in the place of the devnet's own.
    pub essential_texts: Vec<String>,
}

impl TwoAgents {
    pub(in crate::e2e::agent) async fn start(place: ValidatorPlace) -> Self {
        let agents = Self::start_unknown(place).await;
        agents.admit().await;
        agents
    }

    /// Starts both agents, of which the registry knows nothing yet.
    pub(in crate::e2e::agent) async fn start_unknown(place: ValidatorPlace) -> Self {
        let ValidatorPlace { disk, has_own_node, index, login, settings, of_both, generation, essential_texts } = place;
        let mut config = network_config(200);
        config.devnet = DevnetConfig { scenario: "peers".to_owned(), essential_texts, ..config.devnet };
        config.agent.is_off = true;
        config.devnet.generation = generation.unwrap_or(config.devnet.generation);
        let world = start_network(config).await;
        let node = has_own_node.then(|| world.network.devnet.node.start_replica(([127, 0, 0, 1], 0).into()));
        let node = node.transpose().expect("a replica");
        let indexer = match &index {
            Some(index) => index.start(world.network.indexer_origin()).await,
            None => world.network.indexer_origin(),
        };
        let [heard_by_validator, heard_by_applicant] = [HeardChanges::default(), HeardChanges::default()];
        let mut validator_home = standalone(&world);
        validator_home.webhook = Some(heard_by_validator.start().await);
        if let Some(disk) = disk {
            let url = format!("sqlite://{}?mode=rwc", disk.path("agent.db"));
            validator_home.settings.extend([("SVC_AGENT_DB", url), ("SVC_MIN_FREE_DISK", "0".to_owned())]);
            validator_home.disk = Some(disk);
        }
        validator_home.settings.insert("SVC_INDEXER_BASE_URL", indexer.clone());
        if let Some(node) = &node {
            validator_home.settings.insert("SVC_RPC_ENDPOINT_URL", node.origin());
        }
        if let Some(account) = login {
            let login = validator_home.login_settings(account);
            validator_home.settings.extend(login);
        }
        validator_home.settings.extend(settings);
        validator_home.settings.extend(of_both.clone());
        let validator = validator_home.start();
        let did = did_of(&validator).await;
        let mut applicant_home = AgentHome::at(&world.network.devnet, indexer);
        applicant_home.webhook = Some(heard_by_applicant.start().await);
        applicant_home.settings = BTreeMap::from([
            ("AGENT_DELEGATED_PARENT_VS_DID", did.clone()),
            ("SVC_ACCOUNT_MNEMONIC", BRANCH_PHRASE.to_owned()),
            ("TRUSTED_ECS_ECOSYSTEM_DIDS", world.network.devnet.ecosystem_did().expect("an ecosystem").to_owned()),
        ]);
        applicant_home.settings.extend(service_claims(&world, "Branch"));
        applicant_home.settings.extend(of_both);
        let applicant = applicant_home.start();
        let applicant_did = did_of(&applicant).await;
        Self {
            world,
            node,
            validator_home,
            applicant_home,
            validator,
            applicant,
            applicant_did,
            heard_by_validator,
            heard_by_applicant,
        }
    }

    /// Makes both participants, and waits until the validator has made the applicant trusted by a flow.
    pub(in crate::e2e::agent) async fn admit(&self) {
        let (world, validator) = (&self.world, &self.validator);
        let (did, applicant_did) = (did_of(validator).await, &self.applicant_did);
        let stranger = "did:web:stranger.example".to_owned();
        let dids = [("agent", &did), ("branch", applicant_did), ("stranger", &stranger)];
        let dids = dids.map(|(name, did)| (name.to_owned(), did.clone()));
        world.network.devnet.admit_agents(&dids).await.expect("admitted");
        import_organisation(world, validator, &did).await;
        for (did, pattern) in [(&did, "self"), (applicant_did, "parent")] {
            world.await_verdict_on(did, |verdict| verdict["trusted"] == true && verdict["pattern"] == pattern).await;
        }
        anchor_schemas(world, validator).await;
    }

    /// The operator of the applicant's corporation starts the application for a license; returns the participant.
    pub(in crate::e2e::agent) async fn apply(&self) -> u64 {
        self.apply_under("HOLDER", self.world.id_of("flows.license.issuer")).await
    }

    /// The same with any role, under any participant.
    pub(in crate::e2e::agent) async fn apply_under(&self, role: &str, validator: u64) -> u64 {
        let given = json!({"role": role, "validator_participant_id": validator, "did": self.applicant_did});
        let started = self.world.call_ok("svc.ledger.pp.startParticipantOp", given).await;
        started["response"]["participant_id"].as_str().and_then(|id| id.parse().ok()).expect("an id")
    }

    /// The newest flow of a participant at an agent.
    pub(in crate::e2e::agent) async fn flow(&self, agent: &AgentProcess, participant: u64) -> Value {
        let path = format!("/v2/vt/flows?applicantParticipantId={participant}");
        let found = agent.send("GET", &path, None).await.body;
        found["items"].as_array().and_then(|all| all.last()).cloned().unwrap_or_default()
    }

    /// Waits for the flow of a participant at an agent; it changes with blocks.
    pub(in crate::e2e::agent) async fn await_flow(
        &self,
        agent: &AgentProcess,
        participant: u64,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let mut last = Value::Null;
        let mut heights = self.world.network.devnet.node.watch_heights();
        let waited = tokio::time::timeout(TEST_TIMEOUT, async {
            loop {
                last = self.flow(agent, participant).await;
                if is_wanted(&last) {
                    return;
                }
                heights.changed().await.expect("blocks");
            }
        });
        let in_time = waited.await.is_ok();
        let sides = [self.flow(&self.applicant, participant).await, self.flow(&self.validator, participant).await];
        assert!(in_time, "the flow is {last:#}, on both sides {sides:#?}");
        last
    }

    /// Validates the applicant with claims of a grade; returns the session.
    pub(in crate::e2e::agent) async fn validate(&self, participant: u64, grade: &str) -> String {
        let flow = self.await_flow(&self.validator, participant, |flow| flow["flowState"] == "VALIDATING").await;
        let session = flow["participantSessionId"].as_str().expect("a session").to_owned();
        let path = format!("/v2/vt/flows/{session}");
        let claims = json!({"claims": {"grade": grade}});
        let edited = self.validator.send("PUT", &format!("{path}/claims"), Some(&claims)).await;
        assert_eq!(edited.status, 200, "{}", edited.body);
        ask_until_ok(&self.world, &self.validator, &format!("{path}/validate"), &json!({})).await;
        session
    }

    /// Waits until both sides have completed a round. Where a message was lost with the process that it was for, its sender shows that, and
    /// the applicant's operator has it begin again.
    pub(in crate::e2e::agent) async fn await_completed(&self, participant: u64, round: u64) -> (Value, Value) {
        let mut heights = self.world.network.devnet.node.watch_heights();
        let mut handled = Value::Null;
        let completed = tokio::time::timeout(TEST_TIMEOUT, async {
            loop {
                let sides =
                    [self.flow(&self.applicant, participant).await, self.flow(&self.validator, participant).await];
                if sides.iter().all(|flow| flow["flowState"] == "COMPLETED" && flow["round"] == round) {
                    return sides;
                }
                if let Some(lost) =
                    sides.iter().map(|flow| &flow["unanswered"]).find(|one| one.is_object() && **one != handled)
                {
                    let path = format!(
                        "/v2/vt/flows/{}/resend",
                        sides[0]["participantSessionId"].as_str().expect("a session")
                    );
                    self.applicant.send("POST", &path, Some(&json!({}))).await;
                    handled = lost.clone();
                }
                heights.changed().await.expect("blocks");
            }
        });
        match completed.await {
            Ok([held, issued]) => (held, issued),
            Err(_) => {
                let sides =
                    [self.flow(&self.applicant, participant).await, self.flow(&self.validator, participant).await];
                panic!("round {round} is not completed: {sides:#?}")
            }
        }
    }
}
