//! A peer whose document does not tell its generation: it is asked for its protocols, and the format of the offer follows its answer.

use serde_json::json;
use svc_didcomm::{
    Message,
    protocol::{
        Content,
        credential_format::{CredentialFormat, offered_credential},
        discover_features::QUERIES,
        issue_credential::{IssueCredential, OFFER},
        vt_flow::{FlowRequest, VALIDATING, VtFlow},
    },
};
use uuid::Uuid;

use crate::e2e::{
    agent::{
        credentials::identity::start_agents,
        messages::scripted_peer::ScriptedPeer,
        validation::{flow_adversaries::start_applicant, flows::VALIDATOR},
    },
    harness::TestNetwork,
};

/// The recorded answer of an agent of the first generation.
const RECORDED_ANSWER: &str = include_str!("../../../../didcomm/tests/fixtures/51-discover-features-disclosures.json");

/// Begins a flow as an applicant with this participant, whose document names no version of DIDComm.
async fn begin(world: &TestNetwork, peer: &mut ScriptedPeer, participant: &str) -> String {
    let mut document = peer.document.lock().expect("a lock").clone();
    document["service"][0]["serviceEndpoint"] = json!({"uri": peer.endpoint()});
    *peer.document.lock().expect("a lock") = document;
    let session = Uuid::new_v4().to_string();
    let claims = world.issue_request(&peer.keys.did, "Scripted").claims;
    let request = FlowRequest { participant_session_id: session.clone(), claims: Some(claims), proofs: None };
    let opening = VtFlow::OnboardingRequest { participant_id: participant.to_owned(), request };
    let message = opening.to_message(&session, Some(&session));
    let message = Message { from: Some(peer.keys.did.clone()), to: vec![world.agent_did(VALIDATOR)], ..message };
    assert_eq!(peer.post(peer.seal(&message)).await, 202);
    peer.next(VALIDATING).await;
    session
}

/// The format of the next offer.
async fn next_offer(peer: &mut ScriptedPeer) -> CredentialFormat {
    let offer = peer.next(OFFER).await;
    let Ok(Content::IssueCredential(IssueCredential::Offer { attachments, .. })) = Content::read(&offer) else {
        panic!("an offer")
    };
    offered_credential(&attachments).expect("a credential").0
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offer_follows_the_protocols_that_the_peer_serves() {
    let world = start_agents("peers").await;
    let (mut peer, participant) = start_applicant(&world).await;
    let session = begin(&world, &mut peer, &participant).await;
    let answers = async {
        let asked = peer.next(QUERIES).await;
        assert_eq!(asked.body["queries"], json!([{"feature-type": "protocol", "match": "https://didcomm.org/*"}]));
        assert!(asked.expires_time.is_some(), "the question ends with its caller");
        let recorded = Message::parse(RECORDED_ANSWER.as_bytes()).expect("a message");
        let answer = |thread: &str| Message {
            id: Uuid::new_v4().to_string(),
            from: Some(peer.keys.did.clone()),
            to: vec![world.agent_did(VALIDATOR)],
            ..recorded.clone().in_thread(thread)
        };
        // An answer to nothing decides nothing.
        for thread in ["of another", asked.id.as_str()] {
            assert_eq!(peer.post(peer.seal(&answer(thread))).await, 202);
        }
        next_offer(&mut peer).await
    };
    let (_, offered) = tokio::join!(world.validate(&session), answers);
    assert_eq!(offered, CredentialFormat::LdProof, "the settings name the newer format");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_does_not_say_its_protocols_gets_the_format_of_the_settings() {
    let world = start_agents("peers").await;
    let (mut peer, participant) = start_applicant(&world).await;
    let session = begin(&world, &mut peer, &participant).await;
    let (_, offered) = tokio::join!(world.validate(&session), next_offer(&mut peer));
    assert_eq!(offered, CredentialFormat::DataIntegrity);
}
