//! An agent whose DID is that of its own ecosystem: it presents the schemas, and issues the essential credentials to itself.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use svc_devnet::DevnetConfig;
use svc_indexer::{EssentialSchemas, IndexerConfig};
use svc_test_support::published_schemas::published_schemas;
use svc_trust::EssentialCredential;
use svc_wire::proto_registry::NodeGeneration;

use super::identity_process::{did_of, service_claims, start_generation_without_agents};
use crate::e2e::{
    agent::{
        document::resolution::send_coins,
        processes::agent_process::{AgentHome, own_account},
    },
    harness::{
        CREATE_ECOSYSTEM, TestNetwork, ecosystem_arguments, network_config, poll_until, schema_arguments, start_network,
    },
    indexer::{IndexerReplica, post_at},
};

/// Makes an essential schema of the ecosystem. Its root participant begins in so many seconds.
async fn create_schema(
    world: &TestNetwork,
    ecosystem: &Value,
    json_schema: &str,
    (did, begins_in): (&str, i128),
) -> Value {
    let mut arguments = schema_arguments(ecosystem);
    arguments["json_schema"] = json_schema.into();
    arguments["holder_onboarding_mode"] = "ISSUER_ONBOARDING_PROCESS".into();
    let schema = world.call_ok("svc.ledger.cs.createCredentialSchema", arguments).await["response"]["id"].clone();
    let begin = svc_wire::timestamp::unix_nanos(&svc_kit::wall_clock::now()) + begins_in * 1_000_000_000;
    let root = json!({
        "schema_id": schema, "did": did, "validation_fees": 0, "issuance_fees": 0, "verification_fees": 0,
        "effective_from": svc_wire::timestamp::iso_millis(&svc_wire::timestamp::from_unix_nanos(begin)),
        "effective_until": "2098-01-01T00:00:00Z",
    });
    world.call_ok("svc.ledger.pp.createRootParticipant", root).await;
    schema
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_with_an_ecosystem_of_its_own_becomes_trusted_without_a_pause() {
    become_trusted_at(NodeGeneration::N0, ED25519_2020, SRI).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_with_an_ecosystem_of_its_own_becomes_trusted_at_a_later_node_in_both_forms_too() {
    become_trusted_at(NodeGeneration::N3, BOTH, SRI).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_with_an_ecosystem_of_its_own_anchors_bare_digests_by_the_tool_server() {
    become_trusted_at(NodeGeneration::N1, ED25519_2020, BARE).await;
}

/// The published text of a schema. Of a title with several texts the one that is known is taken.
fn published(texts: &[String], essential: EssentialCredential) -> String {
    let known = EssentialSchemas::default();
    let found = texts.iter().find(|text| known.content(text) == Some((essential, "4")));
    found.unwrap_or_else(|| panic!("no text has the digest of the published {}", essential.as_str())).clone()
}

#[test]
fn the_published_texts_have_the_known_digests_in_each_layout() {
    let Some(texts) = published_schemas() else { return };
    let known = EssentialSchemas::default();
    for essential in EssentialCredential::ALL {
        let text = published(&texts, essential);
        let mut schema: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(schema["title"], essential.as_str());
        schema["$id"] = "vpr:svc:net:cs:7".into();
        let indented = serde_json::to_string_pretty(&schema).expect("JSON");
        assert_ne!(indented, text);
        assert_eq!(known.content(&indented), Some((essential, "4")));
        schema["description"] = "other".into();
        assert_eq!(known.content(&schema.to_string()), None);
    }
}

#[test]
fn the_longest_badge_of_the_published_schema_fits() {
    let Some(texts) = published_schemas() else { return };
    let start = "data:image/png;base64,";
    let subject = json!({
        "badgeNumber": "7", "name": "Ada", "photo": format!("{start}{}", "A".repeat(262_144 - start.len())),
        "biometricPattern": "A".repeat(262_144), "biometricPatternScheme": "x",
    });
    let credential = json!({"credentialSubject": subject});
    let length = svc_didcomm::protocol::credential_format::MAX_CREDENTIAL_BYTES;
    assert!(credential.to_string().len() < length);
    let text = published(&texts, EssentialCredential::Badge);
    let found = svc_trust::credential_violations(&text, &credential, length).expect("usable");
    assert!(found.is_empty(), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_with_an_ecosystem_of_the_published_schemas_becomes_trusted() {
    let Some(texts) = published_schemas() else { return };
    for generation in [NodeGeneration::N0, NodeGeneration::N3] {
        become_trusted_with(generation, (ED25519_2020, SRI), |essential| published(&texts, essential)).await;
    }
}

/// Heights alone are counted: a block takes a second, and its transactions wait for each other.
#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_agent_is_trusted_within_three_times_the_blocks_that_its_transactions_need() {
    let mut config = network_config(1_000);
    config.devnet = DevnetConfig { scenario: "marketplace".to_owned(), ..config.devnet };
    config.agent.is_off = true;
    let world = start_network(config).await;
    let mut home = own_home(&world);
    home.settings.insert("PUBLISHED_PROOFS", ED25519_2020.to_owned());
    let agent = home.start();
    let did = did_of(&agent).await;
    send_coins(&world.network.devnet, &own_account(), 1_000_000).await;
    let mut ecosystem = ecosystem_arguments("own");
    ecosystem["did"] = did.as_str().into();
    let ecosystem = world.call_ok(CREATE_ECOSYSTEM, ecosystem).await["response"]["ecosystem_id"].clone();
    for essential in [EssentialCredential::Service, EssentialCredential::Persona] {
        create_schema(&world, &ecosystem, essential.schema(), (&did, 60)).await;
    }
    world.network.devnet.node.advance_clock(Duration::from_secs(90));
    let replica = trusting_replica(&world, &did).await;

    let begun = world.height();
    let (is_ok, shown) = home.init(&world, &[]).await;
    assert!(is_ok, "{shown}");
    let resolve = async || post_at(&replica.origin, "/v4/verifiable-trust/resolve", &json!({"did": did}), None).await;
    poll_until("it is trusted", async || resolve().await.body["trusted"] == true).await;
    let taken = world.height() - begun;
    let needed = world.network.devnet.node.read_core(|core| {
        core.blocks().iter().filter(|block| block.height > begun && !block.txs.is_empty()).count() as u64
    });
    assert!(needed >= 4, "{needed} blocks with transactions: two digests, participants and a credential");
    assert!(taken <= 3 * needed, "{taken} blocks, where transactions are in {needed}: {shown}");
}

const ED25519_2020: &str = "ed25519-2020";
const BOTH: &str = "both";
const SRI: &str = "sri";
const BARE: &str = "bare";

async fn read_json(url: &str) -> Option<Value> {
    reqwest::get(url).await.ok()?.json().await.ok()
}

/// The linked presentations of a document, with the types of the proofs of presentation and credential, and the URL of its schema
/// credential. A document that changes meanwhile names files that are gone.
async fn presentations(home: &AgentHome) -> BTreeMap<String, [String; 3]> {
    let document =
        read_json(&format!("http://localhost:{}/.well-known/did.json", home.public)).await.unwrap_or_default();
    let mut found = BTreeMap::new();
    for service in document["service"].as_array().into_iter().flatten() {
        let id = service["id"].as_str().expect("an id");
        let (Some((_, fragment)), Some(url)) = (id.rsplit_once('#'), service["serviceEndpoint"].as_str()) else {
            continue;
        };
        if !fragment.starts_with("vpr-schemas-") {
            continue;
        }
        let Some(presentation) = read_json(url).await else { continue };
        let credential = &presentation["verifiableCredential"];
        let credential = credential.as_array().map_or(credential, |several| &several[0]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let parts =
            [&presentation["proof"]["type"], &credential["proof"]["type"], &credential["credentialSchema"]["id"]];
        found.insert(fragment.to_owned(), parts.map(text));
    }
    found
}

/// The home of an agent whose ecosystem is its own.
fn own_home(world: &TestNetwork) -> AgentHome {
    let corporation_id = world.network.operator_slot.corporation_id;
    let mut home = AgentHome::of(&world.network.devnet, world.network.indexer_origin(), corporation_id);
    home.settings.extend([("AGENT_MODE", "standalone".to_owned()), ("TRUSTED_ECS_ECOSYSTEM_DIDS", "self".to_owned())]);
    home.settings.extend(service_claims(world, "Registry"));
    home.settings.extend([
        ("ECS_CLAIMS_PERSONA_NAME", "Ada Example".to_owned()),
        ("ECS_CLAIMS_PERSONA_CONTROLLER_COUNTRY_CODE", "EE".to_owned()),
    ]);
    home
}

/// An indexer to which the ecosystem of a DID is a trusted one.
async fn trusting_replica(world: &TestNetwork, did: &str) -> IndexerReplica {
    let trust = svc_indexer::TrustConfig {
        essential_schemas: EssentialSchemas::default().in_ecosystems([did.to_owned()]),
        ..svc_indexer::TrustConfig::default()
    };
    let config = IndexerConfig { trust, ..IndexerConfig::new(world.network.devnet.node.origin(), "sqlite::memory:") };
    IndexerReplica::launch(config).await
}

/// The text about a schema that another ecosystem has to make.
const OTHER_ECOSYSTEM: &str = "no ecosystem of TRUSTED_ECS_ECOSYSTEM_DIDS";

/// Goes from nothing to a trusted DID. The network's services serve the documents that the claims name.
async fn become_trusted_at(generation: NodeGeneration, proofs: &str, anchors: &str) {
    become_trusted_with(generation, (proofs, anchors), |essential| essential.schema().to_owned()).await;
}

async fn become_trusted_with(
    generation: NodeGeneration,
    (proofs, anchors): (&str, &str),
    text_of: impl Fn(EssentialCredential) -> String,
) {
    let world = start_generation_without_agents(generation).await;
    let mut home = own_home(&world);
    home.settings.insert("PUBLISHED_PROOFS", proofs.to_owned());
    home.settings.insert("ANCHOR_DIGESTS", anchors.to_owned());
    // The default: no event of its operator's digests reaches the agent.
    home.settings.insert("SVC_INDEXER_SUBSCRIPTION_SCOPE", "did".to_owned());
    let agent = home.start();
    let did = did_of(&agent).await;
    send_coins(&world.network.devnet, &own_account(), 1_000_000).await;
    let shown = needs_first(&home, &world, "the registry has no ecosystem with this agent's DID yet").await;
    assert!(!shown.contains(OTHER_ECOSYSTEM), "{shown}");

    let mut ecosystem = ecosystem_arguments("own");
    ecosystem["did"] = did.as_str().into();
    let ecosystem = world.call_ok(CREATE_ECOSYSTEM, ecosystem).await["response"]["ecosystem_id"].clone();
    needs_first(&home, &world, "and has no schema of ServiceCredential yet").await;
    let service = create_schema(&world, &ecosystem, &text_of(EssentialCredential::Service), (&did, 60)).await;
    create_schema(&world, &ecosystem, &text_of(EssentialCredential::Persona), (&did, 60)).await;
    world.network.devnet.node.advance_clock(Duration::from_secs(90));
    // The digest of one is stored by hand: it is seen, and not paid for again.
    let path = "/v2/agent/setup";
    let digest = async || {
        let setup = agent.send("GET", path, None).await.body;
        let steps = setup["steps"].as_array().cloned().unwrap_or_default();
        let wanted = format!("schema-{}", service.as_str().map_or_else(|| service.to_string(), str::to_owned));
        let step = steps.into_iter().find(|step| step["id"] == wanted.as_str());
        step.and_then(|step| step["message"]["digest"].as_str().map(str::to_owned))
    };
    poll_until("the credential of the schema is signed", async || digest().await.is_some()).await;
    let stored = digest().await.expect("a digest");
    let is_bare = |text: &str| !text.contains("sha384-");
    assert_eq!(is_bare(&stored), anchors == BARE, "{stored}");
    let (is_ok, shown) = home.run(&["init"]).await;
    let unpresented =
        format!("the credential of its schema {service} is not presented yet: step schema-{service}").replace('"', "");
    assert!(!is_ok && shown.contains(&unpresented) && !shown.contains(OTHER_ECOSYSTEM), "{unpresented}: {shown}");
    let (_, shown) = home.run(&["check"]).await;
    assert!(!shown.contains(OTHER_ECOSYSTEM), "{shown}");
    assert!(shown.contains(&format!("essential schemas count in {did}")), "{shown}");
    world.call_ok("svc.ledger.di.storeDigest", json!({"digest": stored})).await;

    let (is_ok, shown) = home.init(&world, &[]).await;
    assert!(is_ok, "{shown}");
    let stores: Vec<&str> = shown.lines().filter(|line| line.contains("svc.ledger.di.storeDigest")).collect();
    let unstored = if proofs == BOTH { 3 } else { 1 };
    assert_eq!(stores.len(), unstored, "all but the one that is stored: {shown}");
    let anchored = world.call_ok("svc.idx.di.getDigest", json!({"digest": stored})).await["digest"]["digest"].clone();
    assert_eq!(anchored, stored.as_str(), "the chain has the form that the setting names");

    let replica = trusting_replica(&world, &did).await;
    let resolve = async || post_at(&replica.origin, "/v4/verifiable-trust/resolve", &json!({"did": did}), None).await;
    poll_until("it is trusted", async || resolve().await.body["trusted"] == true).await;

    if proofs == BOTH {
        let found = presentations(&home).await;
        let older = "Ed25519Signature2020".to_owned();
        let newer = "DataIntegrityProof".to_owned();
        for (fragment, [of_presentation, of_credential, schema]) in &found {
            let is_second = fragment.contains("-di-vt");
            let expected = if is_second { &newer } else { &older };
            assert_eq!([of_presentation, of_credential], [expected; 2], "{fragment}");
            if fragment.ends_with("-vtc-vp") {
                let named = read_json(schema).await.expect("a credential");
                assert_eq!(named["proof"]["type"], expected.as_str(), "{fragment} names {schema}");
            }
        }
        let names: Vec<&str> = found.keys().map(|one| one.trim_start_matches("vpr-schemas-")).collect();
        assert_eq!(names.len(), 8, "two forms of two credentials and of two schemas: {names:?}");
        for name in ["service-vtc-vp", "service-di-vtc-vp", "persona-vtc-vp", "persona-di-vtc-vp"] {
            assert!(names.contains(&name), "{names:?}");
        }
        // One form alone is left where the settings change.
        agent.kill();
        home.settings.insert("PUBLISHED_PROOFS", ED25519_2020.to_owned());
        let _agent = home.start();
        poll_until("the second forms of own credentials are gone, and those of schemas stay", async || {
            let found = presentations(&home).await;
            found.len() == 6 && found.keys().all(|one| !one.ends_with("-di-vtc-vp"))
        })
        .await;
        assert!(resolve().await.body["trusted"] == true);
        return;
    }

    // A schema that is added later is presented by the same command.
    let added = create_schema(&world, &ecosystem, &text_of(EssentialCredential::Organization), (&did, 180)).await;
    world.network.devnet.node.advance_clock(Duration::from_secs(120));
    let (is_ok, shown) = home.init(&world, &[]).await;
    assert!(is_ok, "{shown}");
    let fragment = format!("vpr-schemas-{added}-").replace('"', "");
    poll_until("the schema that was added is presented", async || {
        presentations(&home).await.keys().any(|one| one.starts_with(&fragment))
    })
    .await;
    drop(agent);
}

/// `svc agent init` ends with a step of the operator, and does not wait for it.
async fn needs_first(home: &AgentHome, world: &TestNetwork, needed: &str) -> String {
    let (is_ok, shown) = home.init(world, &[]).await;
    assert!(!is_ok && shown.contains(needed), "{needed}: {shown}");
    assert!(shown.contains("missing  service-credential: the agent issues it once service-issuer is done"), "{shown}");
    assert!(!shown.contains("is done; waiting for") && !shown.contains("Z; waiting for"), "{shown}");
    shown
}

/// The schemas of an own ecosystem are there, and their roots are not or begin later.
#[tokio::test(flavor = "multi_thread")]
async fn init_names_a_missing_root_and_the_time_of_one_that_begins_later() {
    let world = start_generation_without_agents(NodeGeneration::N0).await;
    let mut home = own_home(&world);
    home.settings.insert("PUBLISHED_PROOFS", ED25519_2020.to_owned());
    let agent = home.start();
    let did = did_of(&agent).await;
    send_coins(&world.network.devnet, &own_account(), 1_000_000).await;
    let mut ecosystem = ecosystem_arguments("own");
    ecosystem["did"] = did.as_str().into();
    let ecosystem = world.call_ok(CREATE_ECOSYSTEM, ecosystem).await["response"]["ecosystem_id"].clone();
    let mut arguments = schema_arguments(&ecosystem);
    arguments["json_schema"] = EssentialCredential::Service.schema().into();
    arguments["holder_onboarding_mode"] = "ISSUER_ONBOARDING_PROCESS".into();
    let schema = world.call_ok("svc.ledger.cs.createCredentialSchema", arguments).await["response"]["id"].clone();
    let of_schema = format!("its schema {schema} has no active ECOSYSTEM participant").replace('"', "");
    let (is_ok, shown) = home.init(&world, &[]).await;
    assert!(
        !is_ok
            && shown.contains(&format!("missing  service-issuer: the ecosystem is this agent's own, and {of_schema}")),
        "{shown}"
    );
    assert!(shown.contains("svc.ledger.pp.createRootParticipant"), "{shown}");

    // One that begins in a month is shown with its time, and not waited for.
    let begin = svc_wire::timestamp::unix_nanos(&svc_kit::wall_clock::now()) + 30 * 86_400 * 1_000_000_000;
    let begin = svc_wire::timestamp::iso_seconds(&svc_wire::timestamp::from_unix_nanos(begin));
    let root = json!({
        "schema_id": schema, "did": did, "validation_fees": 0, "issuance_fees": 0, "verification_fees": 0,
        "effective_from": begin, "effective_until": "2098-01-01T00:00:00Z",
    });
    world.call_ok("svc.ledger.pp.createRootParticipant", root).await;
    let (is_ok, shown) = home.init(&world, &[]).await;
    assert!(
        !is_ok
            && shown.contains("waiting  service-issuer: participant ")
            && shown.contains(&format!("begins at {begin}")),
        "{shown}"
    );
    assert!(!shown.contains("is done; waiting for") && !shown.contains("Z; waiting for"), "{shown}");
}
