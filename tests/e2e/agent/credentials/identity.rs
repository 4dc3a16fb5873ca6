//! The credentials of two agents on a chain: one stands for itself, the other for it.

use std::time::Duration;

use serde_json::{Value, json};
use svc::network::LocalAgentConfig;
use svc::network::received_claims;
use svc_agent::{
    Agent, CredentialKind, CredentialState, CredentialTerms, IssueRequest, RefusalCode, RotationKind, RotationPauses,
    RotationRequest,
};
use svc_devnet::DevnetConfig;
use svc_wire::proto::svc::pp::v1::{QueryListParticipantSessionsRequest, QueryListParticipantSessionsResponse};

use crate::e2e::harness::{TEST_TIMEOUT, TestNetwork, network_config, start_network};

/// The marketplace with its agents; their keys change quickly.
pub(in crate::e2e::agent) async fn start_marketplace() -> TestNetwork {
    start_agents("marketplace").await
}

/// A scenario with the agents of the marketplace.
pub(in crate::e2e::agent) async fn start_agents(scenario: &str) -> TestNetwork {
    start_agents_with(scenario, |_| {}).await
}

/// A scenario with agents that are configured otherwise.
pub(in crate::e2e::agent) async fn start_agents_with(
    scenario: &str,
    configure: impl FnOnce(&mut LocalAgentConfig),
) -> TestNetwork {
    let mut config = network_config(200);
    configure(&mut config.agent);
    config.devnet = DevnetConfig { scenario: scenario.to_owned(), ..config.devnet };
    let second = Duration::from_secs(1);
    config.agent.rotation_pauses = RotationPauses { between_steps: second, between_looks: second };
    let world = start_network(config).await;
    for (place, pattern) in [(0, "self"), (1, "parent")] {
        world.await_verdict(place, |verdict| verdict["trusted"] == true && verdict["pattern"] == pattern).await;
    }
    world
}

impl TestNetwork {
    pub(in crate::e2e::agent) fn agent(&self, place: usize) -> &Agent {
        &self.network.agents[place].server.agent
    }

    pub(in crate::e2e::agent) fn agent_did(&self, place: usize) -> String {
        self.network.agents[place].server.did()
    }

    async fn verdict(&self, did: &str) -> Value {
        let url = format!("{}/v4/verifiable-trust/resolve", self.network.indexer_origin());
        let answer = reqwest::Client::new().post(url).json(&json!({"did": did})).send().await.expect("an answer");
        answer.json().await.expect("JSON")
    }

    /// Waits for a verdict on an agent; verdicts change with blocks.
    pub(in crate::e2e::agent) async fn await_verdict(&self, place: usize, is_wanted: impl Fn(&Value) -> bool) -> Value {
        self.await_verdict_on(&self.agent_did(place), is_wanted).await
    }

    /// Waits for a verdict on a DID.
    pub(in crate::e2e::agent) async fn await_verdict_on(&self, did: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let mut heights = self.network.devnet.node.watch_heights();
        let mut last = Value::Null;
        let waited = tokio::time::timeout(TEST_TIMEOUT, async {
            loop {
                last = self.verdict(did).await;
                if is_wanted(&last) {
                    return;
                }
                heights.changed().await.expect("blocks");
            }
        });
        assert!(waited.await.is_ok(), "the verdict on {did} is {last:#}");
        last
    }

    /// Number of records in all sessions of the chain whose account is an agent's.
    pub(in crate::e2e::agent) async fn session_records(&self) -> usize {
        self.sessions().await.iter().map(|(_, records)| records).sum()
    }

    /// The sessions of the chain whose account is an agent's, with the number of their records.
    pub(in crate::e2e::agent) async fn sessions(&self) -> Vec<(String, usize)> {
        let node = svc_net::upstream::NodeClient::new(self.network.devnet.node.origin()).expect("a client");
        let path = self.network.devnet.namespace.query_path("pp", "ListParticipantSessions");
        let request = QueryListParticipantSessionsRequest { response_max_size: 1_024, ..Default::default() };
        let found: QueryListParticipantSessionsResponse = node.query(&path, &request, 0).await.expect("sessions");
        let accounts = [self.network.devnet.address("agent"), self.network.devnet.address("branch")];
        let own = found.participant_sessions.iter().filter(|one| accounts.contains(&one.vs_operator.as_str()));
        own.map(|one| (one.id.clone(), one.session_records.len())).collect()
    }

    /// The state of an agent's parts, for the message of a failure.
    pub(in crate::e2e::agent) fn describe(&self, place: usize) -> String {
        let agent = self.agent(place);
        let (watcher, report) = (agent.watcher().state(), agent.credentials().report());
        format!("{watcher:?} {report:?} {:?} {:?}", agent.resolution().report(), agent.check_ready())
    }

    /// Ids of the entries of an agent's document that lead to presentations.
    pub(in crate::e2e::agent) fn presented(&self, place: usize) -> Vec<String> {
        let document = self.agent(place).keeper().published().document.clone();
        let linked = document.services().into_iter().filter(|entry| entry.kind == "LinkedVerifiablePresentation");
        linked.map(|entry| entry.id.rsplit_once('#').map(|(_, id)| id.to_owned()).unwrap_or_default()).collect()
    }

    pub(in crate::e2e::agent) fn issue_request(&self, did: &str, name: &str) -> IssueRequest {
        let mut claims = received_claims(&self.network.devnet, "service");
        claims.insert("name".to_owned(), name.into());
        IssueRequest {
            did: did.to_owned(),
            schema_id: self.network.devnet.address("service.schema").parse().expect("a number"),
            claims,
            valid_until: None,
            terms: CredentialTerms::default(),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_holder_presents_its_credential_no_more_and_the_others_stay_trusted() {
    let world = start_marketplace().await;
    assert_eq!(world.presented(0), ["vpr-schemas-org-vtc-vp", "vpr-schemas-service-vtc-vp"]);
    assert_eq!(world.presented(1), ["vpr-schemas-service-vtc-vp"]);
    assert_eq!(world.session_records().await, 2, "the agent's own credential, and that of the branch");

    let held = world.agent(1).store().held_credentials().await.expect("read");
    let found = world.network.devnet.address("service.schema");
    assert_eq!((held.len(), held[0].schema_id.to_string().as_str()), (1, found));
    let listed =
        world.call_ok("svc.idx.pp.listParticipants", json!({"did": world.agent_did(1), "role": "HOLDER"})).await;
    let holder = listed["participants"][0]["id"].clone();
    world.call_ok("svc.ledger.pp.revokeParticipant", json!({"id": holder})).await;
    let verdict = world.await_verdict(1, |verdict| verdict["trusted"] == false).await;
    assert_eq!(verdict["reasons"][0]["code"], "holder_revoked", "{verdict:#}");
    let mut heights = world.network.devnet.node.watch_heights();
    let is_blocked = || world.agent(1).resolution().report().phase.as_str() == "blocked";
    let gone = tokio::time::timeout(TEST_TIMEOUT, async {
        while !world.presented(1).is_empty() || !is_blocked() {
            heights.changed().await.expect("blocks");
        }
    });
    assert!(gone.await.is_ok(), "{:?} {}", world.presented(1), world.describe(1));
    assert_eq!(world.agent(1).store().held_credentials().await.expect("read"), []);
    assert_eq!(world.verdict(&world.agent_did(0)).await["trusted"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_claims_have_one_credential_that_is_paid_for_once() {
    let world = start_marketplace().await;
    let (issuer, did) = (world.agent(0).credentials(), world.agent_did(1));
    let before = world.session_records().await;
    let request = world.issue_request(&did, "Another branch");
    let issued = futures::future::join_all((0..20).map(|_| issuer.issue(request.clone()))).await;
    let ids: std::collections::BTreeSet<String> = issued.into_iter().map(|answer| answer.expect("issued").id).collect();
    assert_eq!(ids.len(), 1);
    let again = issuer.issue(request.clone()).await.expect("known");
    assert_eq!(Some(&again.id), ids.first());
    assert_eq!((again.kind, again.state), (CredentialKind::Issued, CredentialState::Anchored));
    assert_eq!(world.session_records().await, before + 1);

    let with_claim = |name: &str, value: Value| {
        let mut changed = request.clone();
        changed.claims.insert(name.to_owned(), value);
        changed
    };
    let other_schema: u64 = world.network.devnet.address("persona.schema").parse().expect("a number");
    for (request, code, named) in [
        (with_claim("minimumAgeRequired", json!("old")), RefusalCode::InvalidClaims, "minimumAgeRequired"),
        (with_claim("name", json!("right\u{202e}left")), RefusalCode::InvalidClaims, "U+202E"),
        (with_claim("name", json!("line\u{0}end")), RefusalCode::InvalidClaims, "U+0000"),
        (IssueRequest { schema_id: other_schema, ..request.clone() }, RefusalCode::NotAuthorized, "NO_PARTICIPANT"),
        (IssueRequest { schema_id: 999_999, ..request.clone() }, RefusalCode::InvalidInput, "schemaId"),
        (world.issue_request("did:web:stranger.example", "x"), RefusalCode::PeerNotAuthorized, "stranger"),
        (world.issue_request(&world.agent_did(0), "x"), RefusalCode::InvalidInput, "own DID"),
        (
            IssueRequest { valid_until: Some(1), ..with_claim("name", json!("late")) },
            RefusalCode::InvalidInput,
            "validUntil",
        ),
    ] {
        let refusal = issuer.issue(request).await.expect_err(named);
        let text = refusal.to_json().to_string();
        assert_eq!(refusal.code, code, "{text}");
        assert!(text.contains(named), "{named}: {text}");
    }
    assert_eq!(world.session_records().await, before + 1, "nothing was paid for a refused request");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_takes_what_the_verdict_takes() {
    let world = start_marketplace().await;
    let (first, second) = (world.agent(0), world.agent(1));
    let good: Value = {
        let held = second.store().held_credentials().await.expect("read");
        serde_json::from_str(&held[0].body).expect("JSON")
    };
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut credential = good.clone();
        change(&mut credential);
        credential
    };
    let of_chamber = |subject: Value| world.network.devnet.issue_credential("chamber", "organization", subject);
    let company = |did: &str| {
        let mut subject = received_claims(&world.network.devnet, "organization");
        subject.insert("id".to_owned(), did.into());
        Value::Object(subject)
    };
    let without_participant = of_chamber(company(&world.agent_did(1))).await.expect("issued");
    let misfit = of_chamber(json!({"id": world.agent_did(1), "name": 7})).await.expect("issued");
    for (credential, code) in [
        (changed(&|one| one["credentialSubject"]["name"] = "Other".into()), "proof_invalid"),
        // A definitive reason is stated before a server that may answer later.
        (changed(&|one| one["issuer"] = "did:web:localhost%3A1:nowhere".into()), "digest_not_anchored"),
        (changed(&|one| drop(one.as_object_mut().map(|members| members.shift_remove("proof")))), "proof_missing"),
        (changed(&|one| one["type"] = json!(["Letter"])), "credential_invalid"),
        (json!({}), "credential_invalid"),
        (without_participant, "holder_never_authorised"),
        (misfit, "schema_mismatch"),
    ] {
        let refusal = second.credentials().import(credential).await.expect_err(code);
        assert!(refusal.message.contains(code), "{code}: {}", refusal.message);
    }
    // The credential of another subject, and one that its own issuer would present.
    let refusal = first.credentials().import(good.clone()).await.expect_err("of another");
    assert!(refusal.message.contains("subject_differs"), "{}", refusal.message);
    assert_eq!(world.presented(1), ["vpr-schemas-service-vtc-vp"], "nothing of a refused import is presented");

    let id = good["id"].as_str().expect("an id").to_owned();
    second.credentials().remove(id.clone()).await.expect("removed");
    assert_eq!(world.presented(1), Vec::<String>::new());
    world.await_verdict(1, |verdict| verdict["trusted"] == false).await;
    second.credentials().remove(id).await.expect_err("gone");
    second.credentials().import(good).await.expect("imported again");
    world.await_verdict(1, |verdict| verdict["trusted"] == true).await;
    let own = first.store().held_credentials().await.expect("read");
    let own = own.iter().find(|one| one.kind == CredentialKind::Own).expect("an own one");
    let refusal = first.credentials().remove(own.id.clone()).await.expect_err("its own");
    assert_eq!(refusal.code, RefusalCode::InvalidState);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_change_without_a_block_of_distrust() {
    let world = start_marketplace().await;
    let (agent, did) = (world.agent(0), world.agent_did(0));
    let before = agent.keeper().published();
    let keys = |list: &str| agent.keeper().published().document.as_json()[list].clone();
    let old = keys("assertionMethod");
    let rotate = |kind, reissue| RotationRequest { kind, is_compromised: false, reissue };
    agent.rotation().rotate(rotate(RotationKind::Update, false)).await.expect("rotated");
    agent.rotation().rotate(rotate(RotationKind::Document, true)).await.expect("begun");
    let refusal = agent.rotation().rotate(rotate(RotationKind::Document, false)).await.expect_err("one at a time");
    assert_eq!(refusal.code, RefusalCode::InvalidState);

    let mut heights = world.network.devnet.node.watch_heights();
    let ended = tokio::time::timeout(TEST_TIMEOUT, async {
        loop {
            for (did, other) in [(&did, world.agent_did(1)), (&world.agent_did(1), did.clone())] {
                let verdict = world.verdict(did).await;
                assert_eq!(verdict["trusted"], true, "beside {other}: {verdict:#}");
            }
            // The branch's credential still needs the old key for its proof.
            let held = agent.store().held_credentials().await.expect("read");
            let own = held.iter().find(|one| one.kind == CredentialKind::Own).expect("an own one");
            let is_new = !old.to_string().contains(own.proof_method.as_str());
            if is_new && own.state == CredentialState::Anchored && keys("authentication")[0] != old[0] {
                return;
            }
            heights.changed().await.expect("blocks");
        }
    });
    assert!(ended.await.is_ok(), "{:?} {:#}", agent.rotation().phase(), keys("assertionMethod"));
    assert!(keys("assertionMethod").as_array().expect("a list").contains(&old[0]), "the branch's credential needs it");
    assert!(!keys("authentication").as_array().expect("a list").contains(&old[0]));
    assert!(agent.keeper().published().version.number > before.version.number + 2);
    assert_eq!(world.session_records().await, 3, "the own credential was issued once more");

    // A stolen key leaves at once, and the branch's credential with it.
    let compromised = RotationRequest { kind: RotationKind::Document, is_compromised: true, reissue: false };
    let answer = agent.rotation().rotate(compromised).await.expect("rotated");
    assert_eq!(answer.lost_credentials.len(), 1, "{answer:?}");
    assert!(!keys("assertionMethod").as_array().expect("a list").contains(&old[0]));
    world.await_verdict(0, |verdict| verdict["trusted"] == true && verdict["reasons"] == json!([])).await;
    let verdict = world.await_verdict(1, |verdict| verdict["trusted"] == false).await;
    assert_eq!(verdict["reasons"][0]["code"], "key_unknown", "{verdict:#}");
}
