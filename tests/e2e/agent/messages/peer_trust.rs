//! Trust of peers that changes, applicants that have none yet, and a credential of a peer that is trusted.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};
use svc_agent::{Agent, BasicMessageFilter, ConnectionFilter, ExchangeFilter, ExchangeState, MessageRole, RefusalCode};
use svc_didcomm::{
    Message,
    from_prior::make_from_prior,
    protocol::{
        Attachment, AttachmentData,
        issue_credential::{ACK, FormatAttachment, IssueCredential, REQUEST},
        vt_flow::{FlowRequest, NOT_A_VERIFIABLE_SERVICE, VALIDATING, VtFlow},
    },
};

use crate::e2e::agent::{
    credentials::identity::start_marketplace,
    messages::scripted_peer::{ScriptedPeer, apply, next_message, now},
};

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
        // The branch has one, by the flow of its service credential.
        let found = world.agent(0).peers().connections(&ConnectionFilter::default(), None, 10).await;
        found.expect("connections").iter().filter(|one| one.connection.public_did != world.agent_did(1)).count()
    };
    let issuers = json!({"did": world.agent_did(0), "role": "ISSUER"});
    let listed = world.call_ok("svc.idx.pp.listParticipants", issuers).await;
    let issuer = listed["participants"][0]["id"].clone();
    // A participant of another DID, one that does not exist, and no number at all.
    for (place, participant) in [issuer.to_string().as_str(), "999999", "x"].into_iter().enumerate() {
        let id = format!("stranger {place}");
        assert_eq!(peer.post(peer.seal(&request(&id, participant))).await, 202);
    }
    let refusal = next_message(&mut peer.inbox, "an answer").await;
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
    let applied = apply(&world, &issuer, &peer.keys.did).await;
    assert_eq!(peer.post(peer.seal(&request("applicant", &applied.to_string()))).await, 202);
    let of_peer = ConnectionFilter { their_did: Some(peer.keys.did.clone()), ..ConnectionFilter::default() };
    let connections = world.agent(0).peers().connections(&of_peer, None, 10).await.expect("connections");
    assert_eq!((connections.len(), &connections[0].connection.public_did), (1, &peer.keys.did));
    assert_eq!(connections[0].verdict.map(|verdict| verdict.is_trusted), Some(false));
    // Its flow begins, and its other messages are not heard.
    let answer = next_message(&mut peer.inbox, "an answer").await;
    assert_eq!((answer.kind.as_str(), answer.thread()), (VALIDATING, "applicant"));
    assert_eq!(peer.post(peer.seal(&peer.text("u", "and now?"))).await, 202);
    assert_eq!(heard(world.agent(0)).await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_that_its_issuer_sends_is_verified_presented_and_acknowledged() {
    let world = start_marketplace().await;
    let (issuer, holder) = (world.agent(0), world.agent(1));
    let issued =
        issuer.credentials().issue(world.issue_request(&world.agent_did(1), "By message")).await.expect("issued");
    let before = holder.store().held_credentials().await.expect("read");
    assert!(before.iter().all(|one| one.id != issued.id));
    // The issuer goes on under a DID of the script, as agents of another make do.
    let mut peer = ScriptedPeer::start(&world.agent_did(1)).await;
    let keys = issuer.store().private_keys(&world.agent_did(0)).await.expect("keys");
    let signing = keys.iter().filter(|key| key.name == "signing").max_by_key(|key| key.version).expect("a key");
    let signing = ed25519_dalek::SigningKey::from_bytes(&signing.secret);
    let published = issuer.keeper().published();
    let method = published.document.as_json()["authentication"][0].as_str().expect("a method").to_owned();
    let prior = make_from_prior(&signing, &method, &world.agent_did(0), Some(&peer.keys.did), now());
    let message = |step: IssueCredential, id: &str| Message {
        from: Some(peer.keys.did.clone()),
        to: vec![world.agent_did(1)],
        from_prior: Some(prior.clone()),
        ..step.to_message(id, "exchange", None)
    };
    let attached = |format: &str, json: Value| {
        let data = AttachmentData::Json(json);
        vec![FormatAttachment { format: format.into(), attachment: Attachment { id: "a".into(), data } }]
    };
    let credential: Value = serde_json::from_str(&issued.body).expect("JSON");
    let mut unsigned = credential.clone();
    unsigned.as_object_mut().expect("an object").remove("proof");
    let offer = attached("didcomm/w3c-di-vc-offer@v0.1", json!({"credential": unsigned}));
    let offer = message(IssueCredential::Offer { attachments: offer, comment: None }, "offer");
    assert_eq!(peer.post(peer.seal(&offer)).await, 202);
    let exchange = async || {
        let found = holder.peers().exchanges(&ExchangeFilter::default(), None, 10).await.expect("exchanges");
        found.into_iter().next().expect("an exchange")
    };
    let id = exchange().await.id;
    holder.peers().accept_offer(&id).await.expect("requested");
    assert_eq!(next_message(&mut peer.inbox, "a request").await.kind, REQUEST);
    // A changed one is refused, and the exchange waits for the right one.
    let mut changed = credential.clone();
    changed["credentialSubject"]["name"] = json!("Changed");
    let deliver = |json: Value, id: &str| message(IssueCredential::Issue(attached("didcomm/w3c-di-vc@v0.1", json)), id);
    assert_eq!(peer.post(peer.seal(&deliver(json!({"credential": changed}), "changed"))).await, 202);
    let refused = holder.peers().accept_credential(&id, holder.credentials()).await.expect_err("another proof");
    assert_eq!(refused.code, RefusalCode::InvalidInput, "{}", refused.to_json());
    assert_eq!(peer.post(peer.seal(&deliver(json!({"credential": credential}), "right"))).await, 202);
    let accepted = holder.peers().accept_credential(&id, holder.credentials()).await;
    let accepted = match accepted {
        Ok(accepted) => accepted,
        Err(refusal) => panic!("{}", refusal.to_json()),
    };
    assert_eq!((accepted.state, exchange().await.state), (ExchangeState::Done, ExchangeState::Done));
    let ack = next_message(&mut peer.inbox, "an ack").await;
    assert_eq!((ack.kind.as_str(), ack.thread(), &ack.body["status"]), (ACK, "exchange", &json!("OK")));
    let held = holder.store().held_credentials().await.expect("read");
    assert_eq!(held.iter().filter(|one| one.id == issued.id).count(), 1);
    assert_eq!(world.presented(1), ["vpr-schemas-service-vtc-vp"]);
    world.await_verdict(1, |verdict| verdict["trusted"] == true).await;
}
