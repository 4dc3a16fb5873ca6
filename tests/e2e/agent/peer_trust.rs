//! Trust of peers that changes, and applicants that have none yet.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};
use svc_agent::{Agent, BasicMessageFilter, ConnectionFilter, MessageRole};
use svc_didcomm::{
    Message,
    protocol::{
        problem_report::MESSAGE_PARSE_FAILURE,
        vt_flow::{FlowRequest, NOT_A_VERIFIABLE_SERVICE, VtFlow},
    },
};

use super::{identity::start_marketplace, scripted_peer::ScriptedPeer};

async fn heard(agent: &Agent) -> BTreeSet<String> {
    let filter = BasicMessageFilter { role: Some(MessageRole::Receiver), ..BasicMessageFilter::default() };
    let found = agent.peers().basic_messages(&filter, None, 1_000, Duration::ZERO).await.expect("messages");
    found.into_iter().map(|one| one.content).collect()
}

/// Messages that are sent before the test is given up: a decision that was only kept for its time would admit many more.
const MOST: usize = 60;

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_loses_its_trust_is_heard_no_more() {
    let world = start_marketplace().await;
    let (listener, speaker) = (world.agent(0), world.agent(1));
    let connection = speaker.peers().open_connection(&world.agent_did(0)).await.expect("a connection");
    let say = async |text: &str| {
        let id = &connection.connection.id;
        let record = speaker.peers().send_basic_message(id, text).await.expect("stored").id;
        let filter = BasicMessageFilter { role: Some(MessageRole::Sender), ..BasicMessageFilter::default() };
        world
            .wait_until("the message is sent", async || {
                let sent = speaker.peers().basic_messages(&filter, None, 1_000, Duration::ZERO).await;
                let sent = sent.expect("messages").into_iter().find(|one| one.id == record);
                sent.is_some_and(|one| one.to_json()["delivery"] == "delivered")
            })
            .await;
        heard(listener).await.contains(text)
    };
    assert!(say("trusted").await);
    let holders = json!({"did": world.agent_did(1), "role": "HOLDER"});
    let holder = world.call_ok("svc.idx.pp.listParticipants", holders).await["participants"][0]["id"].clone();
    world.call_ok("svc.ledger.pp.revokeParticipant", json!({"id": holder})).await;
    world.await_verdict(1, |verdict| verdict["trusted"] == false).await;
    let mut number = 0;
    while say(&format!("text {number}")).await {
        number += 1;
        assert!(number < MOST, "it is still heard");
    }
    assert!(!say("after").await, "and stays unheard");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_applicant_is_heard_before_it_is_trusted_and_another_stranger_gets_one_answer() {
    let world = start_marketplace().await;
    let mut peer = ScriptedPeer::start(&world.agent_did(0)).await;
    peer.go_public(&peer.endpoint());
    let request = |id: &str, participant: &str| {
        let request =
            FlowRequest { participant_session_id: uuid::Uuid::new_v4().to_string(), claims: None, proofs: None };
        let open = VtFlow::OnboardingRequest { participant_id: participant.to_owned(), request };
        Message {
            from: Some(peer.keys.did.clone()),
            to: vec![world.agent_did(0)],
            ..open.to_message(id, None).in_thread(id)
        }
    };
    let known = async || {
        let found = world.agent(0).peers().connections(&ConnectionFilter::default(), None, 10).await;
        found.expect("connections").len()
    };
    let issuers = json!({"did": world.agent_did(0), "role": "ISSUER"});
    let listed = world.call_ok("svc.idx.pp.listParticipants", issuers).await;
    let issuer = listed["participants"][0]["id"].clone();
    // A participant of another DID, one that does not exist, and no number at all.
    for (place, participant) in [issuer.to_string().as_str(), "999999", "x"].into_iter().enumerate() {
        let id = format!("stranger {place}");
        assert_eq!(peer.post(peer.seal(&request(&id, participant))).await, 202);
    }
    let refusal = peer.inbox.recv().await.expect("an answer");
    assert_eq!(refusal.body["description"]["code"], NOT_A_VERIFIABLE_SERVICE);
    assert_eq!((refusal.thread(), refusal.body["impact"].as_str()), ("stranger 0", Some("CONNECTION")));
    let text = peer.seal(&peer.text("t", "hello"));
    assert_eq!(peer.post(text).await, 202, "dropped without a word");
    assert_eq!(
        (known().await, peer.inbox.try_recv().is_err()),
        (0, true),
        "nothing is stored, and one answer is enough"
    );
    // Another corporation applies for it at this agent.
    let scenario: svc_devnet::scenario::Scenario = serde_json::from_value(json!({
        "description": "an application",
        "step": [{"name": "apply", "signer": "verifier_operator", "granter": "verifier", "messages": [{
            "type": "pp.MsgStartParticipantOP",
            "value": {"corporation": "$verifier", "operator": "$verifier_operator", "role": "HOLDER",
                "validator_participant_id": issuer, "did": peer.keys.did},
        }]}],
    }))
    .expect("a scenario");
    world.network.devnet.run_steps(&scenario).await.expect("applied");
    let mut applied = Value::Null;
    let applicants = json!({"did": peer.keys.did, "role": "HOLDER"});
    let mut heights = world.network.devnet.node.watch_heights();
    while applied.is_null() {
        heights.changed().await.expect("blocks");
        applied =
            world.call_ok("svc.idx.pp.listParticipants", applicants.clone()).await["participants"][0]["id"].clone();
    }
    assert_eq!(peer.post(peer.seal(&request("applicant", &applied.to_string()))).await, 202);
    let connections = world.agent(0).peers().connections(&ConnectionFilter::default(), None, 10).await;
    let connections = connections.expect("connections");
    assert_eq!((connections.len(), &connections[0].connection.public_did), (1, &peer.keys.did));
    assert_eq!(connections[0].verdict.map(|verdict| verdict.is_trusted), Some(false));
    // Flows are not served yet: the answer says so, and its other messages are not heard.
    let answer = peer.inbox.recv().await.expect("an answer");
    assert_eq!(answer.body["description"]["code"], MESSAGE_PARSE_FAILURE);
    assert_eq!(peer.post(peer.seal(&peer.text("u", "and now?"))).await, 202);
    assert_eq!(heard(world.agent(0)).await.len(), 0);
}
