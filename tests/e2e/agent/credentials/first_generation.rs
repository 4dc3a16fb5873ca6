//! Agents of this project and an agent of the first generation, which the devnet plays: trust, and flows on either side. The node demands the
//! name of a digest's algorithm, or takes the base64 alone.

use serde_json::{Value, json};
use svc_devnet::{DevnetConfig, first_generation::FirstAgent};
use svc_trust::digest::{DigestAlgorithm, anchored_digest, bare_digest};
use svc_wire::proto_registry::NodeGeneration;

use crate::e2e::{
    agent::validation::flows::{APPLICANT, VALIDATOR, claims},
    harness::{TestNetwork, network_config, start_network},
};

/// The service with the agent, and its schema.
const SERVICE: &str = "elder";
const SCHEMA: &str = "permit";

async fn start(generation: NodeGeneration) -> TestNetwork {
    let mut config = network_config(200);
    config.devnet = DevnetConfig { scenario: "generations".to_owned(), generation, ..config.devnet };
    let world = start_network(config).await;
    for place in [VALIDATOR, APPLICANT] {
        world.await_verdict(place, |verdict| verdict["trusted"] == true).await;
    }
    world
}

/// The name under which the node has the digest of a credential. The index finds it by either form.
async fn stored_digest(world: &TestNetwork, credential: &Value) -> Value {
    let digest = anchored_digest(credential, DigestAlgorithm::Sha384).expect("a digest");
    let bare = bare_digest(&digest).expect("the base64 alone").to_owned();
    let mut found = Vec::new();
    for form in [&digest, &bare] {
        found.push(world.call_ok("svc.idx.di.getDigest", json!({"digest": form})).await["digest"]["digest"].clone());
    }
    assert_eq!(found[0], found[1], "{digest}");
    found.swap_remove(0)
}

async fn meet(generation: NodeGeneration) {
    let world = start(generation).await;
    let mut elder = FirstAgent::start(&world.network.devnet, SERVICE).expect("the scenario has it");
    let did = elder.did().to_owned();
    let schema_credential = elder.publish_schema(SCHEMA).await.expect("published");
    world.await_verdict_on(&did, |verdict| verdict["trusted"] == true).await;

    // It applies, and renews without claims.
    let validator = world.agent_did(VALIDATOR);
    let issuer = world.id_of("flows.license.issuer").to_string();
    let flow = elder.apply(&validator, &issuer, claims("B")).await.expect("heard");
    let session = flow.session.clone();
    world.validate(&session).await;
    let first = elder.take_credential(&flow).await.expect("a credential in a form that it reads");
    let issued = world.await_flow(VALIDATOR, &session, |flow| flow["flowState"] == "COMPLETED").await;
    assert_eq!(issued["credentialId"], first["id"]);
    let flow = elder.renew(flow).await.expect("heard");
    let renewing = |flow: &Value| flow["flowState"] == "VALIDATING" && flow["round"] == 2;
    world.await_flow(VALIDATOR, &session, renewing).await;
    world.validate(&session).await;
    let second = elder.take_credential(&flow).await.expect("a credential in a form that it reads");
    world.await_flow(VALIDATOR, &session, |flow| flow["flowState"] == "COMPLETED").await;
    assert_eq!(second["credentialSubject"], first["credentialSubject"], "the claims of the round before");
    assert_ne!(second["id"], first["id"]);
    elder.publish_credential(&second, &flow.participant).await.expect("published");
    world.await_presentation_of(&did, &second["id"]).await;

    // The other way round.
    let (_, session) =
        world.apply_under("HOLDER", elder.saved("permit.issuer").expect("an id").parse().expect("a number")).await;
    let heard = elder.hear_applicant().await.expect("heard");
    assert_eq!((&heard.session, &heard.applicant), (&session, &world.agent_did(APPLICANT)));
    let named = (SCHEMA, schema_credential.as_str());
    let issued = elder.issue(&heard, named, claims("C")).await.expect("acknowledged");
    let held = world.await_flow(APPLICANT, &session, |flow| flow["flowState"] == "COMPLETED").await;
    assert_eq!(held["credentialId"], issued["id"]);
    world.await_presentation_of(&world.agent_did(APPLICANT), &issued["id"]).await;

    let name = stored_digest(&world, &issued).await;
    let has_algorithm = name.as_str().expect("a text").starts_with("sha384-");
    assert_eq!(has_algorithm, generation == NodeGeneration::N0, "{name}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_of_the_first_generation_is_met_on_either_side_of_a_flow() {
    meet(NodeGeneration::N0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_of_the_first_generation_anchors_digests_without_their_algorithm() {
    meet(NodeGeneration::N1).await;
}
