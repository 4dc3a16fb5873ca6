//! The keys of both agents change in the middle of a flow, which goes on to its end.

use serde_json::Value;
use svc_agent::{Agent, FlowCall, RotationKind, RotationRequest};

use crate::e2e::{
    agent::{
        credentials::identity::start_agents,
        validation::flows::{APPLICANT, VALIDATOR, claims},
    },
    harness::TestNetwork,
};

/// The key that signs for an agent, as its document has it.
fn signing_key(agent: &Agent) -> Value {
    agent.keeper().published().document.as_json()["authentication"][0].clone()
}

/// The keys to which messages for an agent are encrypted.
fn agreement_keys(agent: &Agent) -> Value {
    agent.keeper().published().document.as_json()["keyAgreement"].clone()
}

/// Changes every key of an agent, and waits until the new ones are in use.
async fn rotate(world: &TestNetwork, place: usize, is_compromised: bool) {
    let agent = world.agent(place);
    let (signing, agreement) = (signing_key(agent), agreement_keys(agent));
    let request = |kind| RotationRequest { kind, is_compromised, reissue: false };
    agent
        .rotation()
        .rotate(RotationRequest { is_compromised: false, ..request(RotationKind::Update) })
        .await
        .expect("rotated");
    agent.rotation().rotate(request(RotationKind::Document)).await.expect("begun");
    world.wait_until("the new keys are in use", async || signing_key(agent) != signing).await;
    let present = agreement_keys(agent);
    assert_ne!(present, agreement);
    // Old keys stay for the messages on their way; stolen ones have left.
    let has_old = present.as_array().is_some_and(|all| all.contains(&agreement[0]));
    assert!(!(is_compromised && has_old), "{present:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flow_goes_on_while_the_keys_of_both_agents_change() {
    let world = start_agents("peers").await;
    // The validator's old keys stay for a while. Those of the applicant are called stolen, and leave at once.
    let (_, session) = world.apply("HOLDER", "flows.license.issuer").await;
    world.await_state(&session, "VALIDATING", "VALIDATING").await;
    rotate(&world, VALIDATOR, false).await;
    rotate(&world, APPLICANT, true).await;

    let validator = world.agent(VALIDATOR).flows();
    let url = "https://agent.devnet.example/upload".to_owned();
    let link = FlowCall::SendOobLink { url, description: "Upload your certificate.".to_owned(), expires_at: None };
    validator.call(&session, &link).await.expect("sent");
    world.await_state(&session, "OOB_PENDING", "OOB_PENDING").await;
    validator.call(&session, &FlowCall::StartValidation { comment: None }).await.expect("sent");
    world.await_state(&session, "VALIDATING", "VALIDATING").await;
    validator.call(&session, &FlowCall::EditClaims(claims("A"))).await.expect("stored");
    world.validate(&session).await;
    let (held, issued) = world.await_state(&session, "COMPLETED", "COMPLETED").await;
    assert_eq!(held["credentialId"], issued["credentialId"]);
    assert_eq!(world.records_of(&session).await, 1, "paid once");
    let id = held["credentialId"].as_str().expect("an id");
    let credential = world.agent(APPLICANT).store().credential(id).await.expect("read").expect("held");
    assert_eq!(signing_key(world.agent(VALIDATOR)), credential.proof_method.as_str(), "the new key has signed");
    world.await_presentation_of(&world.agent_did(APPLICANT), &held["credentialId"]).await;
}
