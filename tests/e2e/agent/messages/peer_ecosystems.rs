//! The gate relies on the ecosystems of its own settings: it reads the schemas at the node, and believes the index in no other.

use serde_json::{Value, json};

use crate::e2e::{
    agent::{
        credentials::{identity::start_agents, identity_process::ask_until_ok},
        processes::agent_process::AgentHome,
        validation::lying_index::LyingIndex,
    },
    harness::TestNetwork,
};

const RESOLUTIONS: &str = "/v2/vt/peer-resolutions";

/// Starts an agent with settings, has it decide about a DID, and stops it.
async fn decide(world: &TestNetwork, indexer: &str, settings: &[(&'static str, &str)], did: &str) -> Value {
    let mut home = AgentHome::at(&world.network.devnet, indexer.to_owned());
    home.settings.extend(settings.iter().map(|(name, value)| (*name, (*value).to_owned())));
    let agent = home.start();
    let decision = ask_until_ok(world, &agent, RESOLUTIONS, &json!({"did": did})).await;
    assert!(agent.terminate().0);
    decision
}

#[track_caller]
fn assert_not_allowed(decision: &Value, words: &[&str]) {
    let reason = &decision["reasons"][0];
    assert_eq!(
        (&decision["trusted"], &reason["code"]),
        (&json!(false), &json!("ecosystem_not_allowed")),
        "{decision:#}"
    );
    let message = reason["message"].as_str().expect("a text");
    assert!(words.iter().all(|word| message.contains(word)), "{words:?} in {message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_essential_schema_counts_for_a_peer_in_a_listed_ecosystem_alone() {
    let world = start_agents("peers").await;
    // The index relies on the ecosystem, and calls the agent trusted.
    let (peer, indexer) = (world.agent_did(0), world.network.indexer_origin());
    let ecosystem = world.network.devnet.ecosystem_did().expect("an ecosystem").to_owned();
    let other = "did:web:other.example";
    const LISTED: &str = "SVC_ESSENTIAL_ECOSYSTEMS";
    const TRUSTED: &str = "TRUSTED_ECS_ECOSYSTEM_DIDS";
    let schema = format!("schema {} is no essential schema of services here", world.id_of("service.schema"));
    for settings in [[(LISTED, other), (TRUSTED, &ecosystem)].as_slice(), &[(TRUSTED, other)], &[(LISTED, other)], &[]]
    {
        let decision = decide(&world, &indexer, settings, &peer).await;
        assert_not_allowed(&decision, &[&schema, &ecosystem, LISTED]);
        assert_eq!(decision["endpoints"], json!([]), "{decision:#}");
    }
    let mut participant = Value::Null;
    for settings in [[(LISTED, ecosystem.as_str()), (TRUSTED, other)].as_slice(), &[(TRUSTED, &ecosystem)]] {
        let decision = decide(&world, &indexer, settings, &peer).await;
        assert_eq!(decision["trusted"], true, "{decision:#}");
        participant = decision["participantId"].clone();
    }

    // The party behind the service must have a credential of such a schema, too.
    let participant = participant.as_str().and_then(|id| id.parse().ok()).expect("an id");
    let index = LyingIndex::default();
    let license = world.id_of("flows.license.schema");
    index.vouch_for_operator(&peer, participant, license);
    let origin = index.start(indexer).await;
    let decision = decide(&world, &origin, &[(LISTED, &ecosystem)], &peer).await;
    assert_not_allowed(
        &decision,
        &[&format!("schema {license} is no essential schema of organizations or persons here")],
    );
}
