//! Two agents as processes of their own, with credentials: killed at any moment, without space on the disk, and asked by hostile callers.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Map, Value, json};
use svc::network::received_claims;
use svc_devnet::DevnetConfig;
use svc_test_support::small_disk::{SmallDisk, fill};
use svc_wire::proto_registry::NodeGeneration;

use crate::e2e::{
    agent::processes::agent_process::{AgentHome, AgentProcess},
    harness::{TEST_TIMEOUT, TestNetwork, network_config, start_network},
};

pub(in crate::e2e::agent) const BRANCH_PHRASE: &str =
    "board flee heavy tunnel powder denial science ski answer betray cargo cat";
const LINKED: &str = "/v2/vt/linked-credentials";
const ISSUED: &str = "/v2/vt/issued-credentials";
const ROTATE: &str = "/v2/agent/keys/rotate";

/// The marketplace without agents of its own.
pub(in crate::e2e::agent) async fn start_without_agents() -> TestNetwork {
    start_generation_without_agents(NodeGeneration::N0).await
}

/// The same on a node of a generation.
pub(in crate::e2e::agent) async fn start_generation_without_agents(generation: NodeGeneration) -> TestNetwork {
    let mut config = network_config(200);
    config.devnet = DevnetConfig { scenario: "marketplace".to_owned(), generation, ..config.devnet };
    config.agent.is_off = true;
    start_network(config).await
}

/// The home of an agent that stands for itself.
pub(in crate::e2e::agent) fn standalone(world: &TestNetwork) -> AgentHome {
    let mut home = standalone_without_claims(world);
    home.settings.extend(service_claims(world, "Agent"));
    home
}

/// The same without claims.
pub(in crate::e2e::agent) fn standalone_without_claims(world: &TestNetwork) -> AgentHome {
    let mut home = AgentHome::at(&world.network.devnet, world.network.indexer_origin());
    let ecosystem = world.network.devnet.ecosystem_did().expect("an ecosystem").to_owned();
    home.settings =
        BTreeMap::from([("AGENT_MODE", "standalone".to_owned()), ("TRUSTED_ECS_ECOSYSTEM_DIDS", ecosystem)]);
    home
}

/// The settings with the claims of a service, whose documents the devnet serves.
pub(in crate::e2e::agent) fn service_claims(world: &TestNetwork, name: &str) -> BTreeMap<&'static str, String> {
    let claims = received_claims(&world.network.devnet, "service");
    let text = |property: &str| claims[property].as_str().expect("a text").to_owned();
    BTreeMap::from([
        ("ECS_CLAIMS_SERVICE_NAME", name.to_owned()),
        ("ECS_CLAIMS_SERVICE_TYPE", "DevnetService".to_owned()),
        ("ECS_CLAIMS_SERVICE_DESCRIPTION", "A service of a test.".to_owned()),
        ("ECS_CLAIMS_SERVICE_LOGO_URI", text("logoUri")),
        ("ECS_CLAIMS_SERVICE_LOGO_DIGEST_SRI", text("logoDigestSri")),
        ("ECS_CLAIMS_SERVICE_MINIMUM_AGE_REQUIRED", "0".to_owned()),
        ("ECS_CLAIMS_SERVICE_TERMS_AND_CONDITIONS_URI", text("termsAndConditionsUri")),
        ("ECS_CLAIMS_SERVICE_TERMS_AND_CONDITIONS_DIGEST_SRI", text("termsAndConditionsDigestSri")),
        ("ECS_CLAIMS_SERVICE_PRIVACY_POLICY_URI", text("privacyPolicyUri")),
        ("ECS_CLAIMS_SERVICE_PRIVACY_POLICY_DIGEST_SRI", text("privacyPolicyDigestSri")),
    ])
}

pub(in crate::e2e::agent) async fn did_of(agent: &AgentProcess) -> String {
    agent.info().await["did"].as_str().expect("a DID").to_owned()
}

/// Asks until an answer is 200; an agent that has just started has to find its chain first.
pub(in crate::e2e::agent) async fn ask_until_ok(
    world: &TestNetwork,
    agent: &AgentProcess,
    path: &str,
    body: &Value,
) -> Value {
    let mut heights = world.network.devnet.node.watch_heights();
    let mut last = Value::Null;
    let asked = tokio::time::timeout(TEST_TIMEOUT, async {
        loop {
            let answer = agent.send("POST", path, Some(body)).await;
            if answer.status == 200 {
                return answer.body;
            }
            last = answer.body;
            heights.changed().await.expect("blocks");
        }
    });
    asked.await.unwrap_or_else(|_| panic!("{path}: {last}"))
}

/// Imports the credential of the organisation, which the chamber issues.
pub(in crate::e2e::agent) async fn import_organisation(world: &TestNetwork, agent: &AgentProcess, did: &str) {
    let mut subject = Map::from_iter([("id".to_owned(), Value::from(did))]);
    let devnet = &world.network.devnet;
    subject.extend(received_claims(devnet, "organization"));
    let credential = devnet.issue_credential("chamber", "organization", Value::Object(subject)).await.expect("issued");
    ask_until_ok(world, agent, LINKED, &json!({"credential": credential})).await;
}

pub(in crate::e2e::agent) fn issue_body(world: &TestNetwork, did: &str, round: usize) -> Value {
    let claims = world.issue_request(did, &format!("Branch {round}")).claims;
    json!({"did": did, "schemaId": world.network.devnet.address("service.schema"), "claims": claims})
}

/// All items of a list.
pub(in crate::e2e::agent) async fn all(agent: &AgentProcess, path: &str) -> Vec<Value> {
    let mut items = Vec::new();
    let mut next = format!("{path}?limit=500");
    loop {
        let page = agent.send("GET", &next, None).await;
        assert_eq!(page.status, 200, "{}", page.body);
        items.extend(page.body["items"].as_array().expect("items").iter().cloned());
        let Some(cursor) = page.body["nextCursor"].as_str() else { return items };
        next = format!("{path}?limit=500&cursor={cursor}");
    }
}

/// Kills of one test: few in the gate, and as many as are wished otherwise.
pub(in crate::e2e::agent) fn kills() -> usize {
    std::env::var("SVC_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(16)
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_that_are_killed_at_any_moment_pay_once_for_each_credential_and_are_trusted() {
    let world = start_without_agents().await;
    let home = standalone(&world);
    let mut first = home.start();
    let did = did_of(&first).await;
    let mut second_home = AgentHome::at(&world.network.devnet, world.network.indexer_origin());
    second_home.settings = BTreeMap::from([
        ("AGENT_DELEGATED_PARENT_VS_DID", did.clone()),
        ("SVC_ACCOUNT_MNEMONIC", BRANCH_PHRASE.to_owned()),
        ("TRUSTED_ECS_ECOSYSTEM_DIDS", world.network.devnet.ecosystem_did().expect("an ecosystem").to_owned()),
    ]);
    let mut second = second_home.start();
    let branch = did_of(&second).await;
    let dids = [("agent".to_owned(), did.clone()), ("branch".to_owned(), branch.clone())];
    world.network.devnet.admit_agents(&dids).await.expect("admitted");
    import_organisation(&world, &first, &did).await;

    let mut random = fastrand::Rng::with_seed(11);
    let mut last_issued = None;
    for round in 0..kills() {
        let pause = Duration::from_millis(random.u64(0..600));
        let issuing = issue_body(&world, &branch, round);
        let update = json!({"kind": "update"});
        let document = json!({"kind": "document", "reissue": round % 2 == 0});
        let imported = json!({"credential": last_issued});
        // The kill comes before, within or behind each step towards the answer.
        let (agent, path, body) = match random.u8(0..5) {
            0 | 1 => (&first, ISSUED, &issuing),
            2 => (&first, ROTATE, &update),
            3 => (&first, ROTATE, &document),
            _ if last_issued.is_some() => (&second, LINKED, &imported),
            _ => (&first, ISSUED, &issuing),
        };
        let answered = tokio::time::timeout(pause, agent.send("POST", path, Some(body))).await;
        if let Ok(answer) = answered.as_ref().map(|answer| &answer.body["credential"])
            && path == ISSUED
            && answer.is_object()
        {
            last_issued = Some(answer.clone());
        }
        if path == LINKED {
            second.kill();
            second = second_home.start();
        } else {
            first.kill();
            first = home.start();
        }
    }
    // The indexer may have read a version of the first agent while it was killed, and reads again after the next one.
    ask_until_ok(&world, &first, ROTATE, &json!({"kind": "update"})).await;
    // At the end the branch has a credential of the present keys.
    let issued = ask_until_ok(&world, &first, ISSUED, &issue_body(&world, &branch, usize::MAX)).await;
    ask_until_ok(&world, &second, LINKED, &json!({"credential": issued["credential"]})).await;
    for (did, pattern) in [(&did, "self"), (&branch, "parent")] {
        world.await_verdict_on(did, |verdict| verdict["trusted"] == true && verdict["pattern"] == pattern).await;
    }
    // A pass has anchored each that waited; then the sessions of the chain are the credentials of the store, one record each.
    let mut heights = world.network.devnet.node.watch_heights();
    let settled = tokio::time::timeout(TEST_TIMEOUT * 2, async {
        loop {
            let rows = all(&first, ISSUED).await;
            if rows.iter().all(|row| row["state"] != "signed") {
                return rows;
            }
            heights.changed().await.expect("blocks");
        }
    });
    let rows = settled.await.expect("no credential waits at the end");
    let sessions = world.sessions().await;
    assert!(sessions.iter().all(|(_, records)| *records == 1), "{sessions:?}");
    let id_of = |row: &Value| row["id"].as_str().and_then(|id| id.rsplit_once('#')).expect("an id").1.to_owned();
    let mut paid: Vec<String> = sessions.into_iter().map(|(id, _)| id).collect();
    let never_sent = |row: &&Value| row["state"] == "withdrawn" && row["txHash"].is_null();
    let (unsent, sent): (Vec<&Value>, Vec<&Value>) = rows.iter().partition(never_sent);
    let mut stored: Vec<String> = sent.into_iter().map(id_of).collect();
    // The transaction of one that was withdrawn later may be known to the chain alone.
    stored.extend(unsent.into_iter().map(id_of).filter(|id| paid.contains(id)));
    paid.sort();
    stored.sort();
    assert_eq!(paid, stored);
    for (agent, did) in [(first, &did), (second, &branch)] {
        let presented = all(&agent, LINKED).await.into_iter().filter(|row| row["presented"] == true).count();
        let resolver =
            svc_net::did::DidResolver::new(svc_net::host_policy::HostPolicy::AllowPrivate).expect("a resolver");
        let document = resolver.resolve_fresh(did).await.expect("the public document verifies");
        let linked = document["service"].as_array().into_iter().flatten();
        let linked = linked.filter(|one| one["id"].as_str().is_some_and(|id| id.contains("#vpr-schemas-"))).count();
        assert_eq!(presented, linked, "{document}");
        assert!(agent.terminate().0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_space_on_the_disk_no_credential_is_paid_for_and_with_space_again_it_is() {
    let Some(disk) = SmallDisk::mount("size=8m") else { return };
    let world = start_without_agents().await;
    let mut home = standalone(&world);
    home.settings.insert("SVC_AGENT_DB", format!("sqlite://{}?mode=rwc", disk.path("agent.db")));
    home.settings.insert("SVC_MIN_FREE_DISK", "0".to_owned());
    let outside = disk.outside();
    home.disk = Some(disk);
    let agent = home.start();
    let did = did_of(&agent).await;
    world.network.devnet.admit_agents(&[("agent".to_owned(), did.clone())]).await.expect("admitted");
    import_organisation(&world, &agent, &did).await;
    world.await_verdict_on(&did, |verdict| verdict["trusted"] == true).await;
    let before = world.sessions().await.len();
    let filler = fill(&outside);
    let refused = agent.send("POST", ROTATE, Some(&json!({"kind": "document", "reissue": true}))).await;
    assert_eq!(refused.error(), (503, "NOT_READY"), "{}", refused.body);
    assert_eq!(world.sessions().await.len(), before);
    std::fs::remove_file(filler).expect("removed");
    ask_until_ok(&world, &agent, ROTATE, &json!({"kind": "update"})).await;
    assert!(agent.terminate().0);
}
