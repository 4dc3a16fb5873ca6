//! Peers that talk DIDComm with an agent: two agents of a registry, and a scripted one.

use std::{sync::atomic::Ordering, time::Duration};

use serde_json::{Value, json};
use svc_agent::{BasicMessageFilter, MessageRole, PeerAdmission, PeerSettings, RefusalCode};
use svc_didcomm::{
    Message,
    protocol::{discover_features::query_message, problem_report},
};

use crate::e2e::{
    agent::{
        AgentServer,
        credentials::identity::start_agents,
        messages::scripted_peer::{ScriptedPeer, next_message, now},
        no_events, sqlite_url,
    },
    harness::poll_until,
};

const WAIT: Duration = Duration::from_secs(30);

/// Settings for peers that no registry knows.
pub fn any_peers() -> PeerSettings {
    PeerSettings { admission: PeerAdmission::Any, ..PeerSettings::default() }
}

async fn received(agent: &svc_agent::Agent) -> Vec<svc_agent::StoredBasicMessage> {
    let filter = BasicMessageFilter { role: Some(MessageRole::Receiver), ..BasicMessageFilter::default() };
    agent.peers().basic_messages(&filter, None, 100, WAIT).await.expect("messages")
}

/// Waits until an admin route answers as wanted.
pub async fn await_answer(server: &AgentServer, path: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    let waited = tokio::time::timeout(WAIT, async {
        loop {
            last = server.send("GET", path, None).await.body;
            if is_wanted(&last) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    assert!(waited.await.is_ok(), "{path} answers {last:#}");
    last
}

#[tokio::test(flavor = "multi_thread")]
async fn two_trusted_agents_talk_and_a_stranger_is_not_heard() {
    let world = start_agents("peers").await;
    let (one, other) = (world.agent(0), world.agent(1));
    let connection = one.peers().open_connection(&world.agent_did(1)).await.expect("a connection");
    assert!(connection.verdict.is_some_and(|verdict| verdict.is_trusted));
    let again = one.peers().open_connection(&world.agent_did(1)).await.expect("the same");
    assert_eq!(again.connection.id, connection.connection.id);
    one.peers().send_basic_message(&connection.connection.id, "hello").await.expect("stored");
    let heard = received(other).await;
    assert_eq!(heard[0].content, "hello");
    other.peers().send_basic_message(&heard[0].connection_id, "hello to you").await.expect("stored");
    let answered = received(one).await;
    assert_eq!((answered[0].content.as_str(), &answered[0].connection_id), ("hello to you", &connection.connection.id));
    let sent =
        one.peers().basic_messages(&BasicMessageFilter::default(), None, 100, Duration::ZERO).await.expect("messages");
    assert!(sent.iter().all(|message| message.to_json()["delivery"] != "waiting"), "{sent:?}");
    // The registry does not know the stranger: it may ask, and its message is dropped without a word.
    let stranger = world.agent(2);
    let refused = one.peers().open_connection(&world.agent_did(2)).await.expect_err("not trusted");
    assert_eq!(refused.code, RefusalCode::PeerNotAuthorized);
    let connection = stranger.peers().open_connection(&world.agent_did(0)).await.expect("the other is trusted");
    stranger.peers().send_basic_message(&connection.connection.id, "let me in").await.expect("stored");
    let is_delivered = async || {
        let filter = BasicMessageFilter::default();
        let sent = stranger.peers().basic_messages(&filter, None, 10, Duration::ZERO).await.expect("messages");
        sent[0].to_json()["delivery"] == "delivered"
    };
    poll_until("it is delivered", is_delivered).await;
    assert_eq!(one.peers().connections(&Default::default(), None, 100).await.expect("connections").len(), 1);
    let refused = one.peers().open_connection("did:web:nobody.example").await.expect_err("not trusted");
    assert_eq!(refused.code, RefusalCode::PeerNotAuthorized);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_lives_through_its_rotations_and_its_end() {
    let directory = tempfile::tempdir().expect("a directory");
    let server =
        AgentServer::start_for_peers(directory.path(), &sqlite_url(directory.path()), any_peers(), no_events()).await;
    let did = server.agent.keeper().published().document.did().to_owned();
    let mut peer = ScriptedPeer::start(&did).await;
    let first = peer.keys.did.clone();
    // The peer asks for the protocols before it says anything else.
    let query =
        Message { from: Some(first.clone()), to: vec![did.clone()], ..query_message("q", "https://didcomm.org/*") };
    assert_eq!(peer.post(peer.seal(&query)).await, 202);
    let disclosed = next_message(&mut peer.inbox, "an answer").await;
    assert_eq!((disclosed.thread(), disclosed.body["disclosures"].as_array().map(Vec::len)), ("q", Some(7)));
    assert_eq!(peer.post(peer.seal(&peer.text("1", "one"))).await, 202);
    let records =
        await_answer(&server, "/v2/didcomm/connections", |body| body["items"][0]["lastSeenAt"].is_string()).await;
    let connection = records["items"][0].clone();
    assert_eq!(
        (&connection["role"], &connection["theirDid"], &connection["peerPublicDid"]),
        (&json!("responder"), &json!(first), &json!(first))
    );
    // It goes on under another DID, and says so until it is answered there.
    let next = peer.new_keys();
    let prior = ScriptedPeer::from_prior(&peer.keys, Some(&next.did));
    for id in ["2", "3"] {
        let message = Message { from: Some(next.did.clone()), from_prior: Some(prior.clone()), ..peer.text(id, id) };
        assert_eq!(peer.post(peer.seal_as(&next, &message)).await, 202);
    }
    let path = format!("/v2/didcomm/connections/{}", connection["id"].as_str().expect("an id"));
    let rotated = server.send("GET", &path, None).await.body;
    assert_eq!((&rotated["theirDid"], &rotated["peerPublicDid"]), (&json!(next.did), &json!(first)));
    // A message of the old DID is still one of this peer.
    assert_eq!(peer.post(peer.seal(&peer.text("4", "four"))).await, 202);
    let found = await_answer(&server, "/v2/didcomm/basic-messages?role=receiver", |body| {
        body["items"].as_array().is_some_and(|items| items.len() == 4)
    })
    .await;
    assert!(found["items"].as_array().expect("items").iter().all(|one| one["connectionId"] == connection["id"]));
    // The agent's own messages go to the new DID.
    let body = json!({"connectionId": connection["id"], "content": "to you"}).to_string();
    let sent = server.send("POST", "/v2/didcomm/basic-messages", Some(&body)).await;
    assert_eq!(sent.status, 200);
    let arrived = next_message(&mut peer.inbox, "a message").await;
    assert_eq!((arrived.body["content"].as_str(), &arrived.to), (Some("to you"), &vec![next.did.clone()]));
    assert!(arrived.from_prior.is_none() && arrived.created_time.is_some_and(|at| (at - now()).abs() < 60));
    await_answer(&server, "/v2/didcomm/basic-messages?role=sender", |body| body["items"][0]["delivery"] == "delivered")
        .await;
    // An unknown message gets a report, and a report gets nothing.
    let unknown = Message {
        from: Some(next.did.clone()),
        to: vec![did.clone()],
        ..Message::new("5", "https://didcomm.org/trust-ping/2.0/ping", json!({}))
    };
    assert_eq!(peer.post(peer.seal_as(&next, &unknown)).await, 202);
    let report = next_message(&mut peer.inbox, "a report").await;
    assert_eq!(
        (report.pthid.as_deref(), report.body["description"]["code"].as_str()),
        (Some("5"), Some(problem_report::MESSAGE_PARSE_FAILURE))
    );
    let answer = Message { from: Some(next.did.clone()), to: vec![did.clone()], id: "6".into(), ..report };
    assert_eq!(peer.post(peer.seal_as(&next, &answer)).await, 202);
    // It ends the connection without a name, by the proof of its key.
    let prior = ScriptedPeer::from_prior(&next, None);
    let end = Message {
        to: vec![did.clone()],
        from_prior: Some(prior),
        ..Message::new("7", svc_didcomm::protocol::EMPTY, json!({}))
    };
    let (key_id, key) = peer.agent_key();
    let sealed = svc_didcomm::envelope::seal_anonymously(&end, (&key_id, &key)).expect("an envelope");
    assert_eq!(peer.post(sealed).await, 202);
    assert_eq!(server.send("GET", &path, None).await.body["state"], "abandoned");
    assert_eq!(server.send("POST", "/v2/didcomm/basic-messages", Some(&body)).await.error(), (409, "INVALID_STATE"));
    assert!(peer.inbox.try_recv().is_err(), "nothing else was sent");
    assert_eq!(server.send("DELETE", &path, None).await.status, 204);
    assert_eq!(server.send("GET", &path, None).await.error(), (404, "UNKNOWN_ID"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_not_sent_twice_and_a_refused_one_is_sent_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let server =
        AgentServer::start_for_peers(directory.path(), &sqlite_url(directory.path()), any_peers(), no_events()).await;
    let did = server.agent.keeper().published().document.did().to_owned();
    let mut peer = ScriptedPeer::start(&did).await;
    assert_eq!(peer.post(peer.seal(&peer.text("1", "one"))).await, 202);
    let records = await_answer(&server, "/v2/didcomm/connections", |body| body["items"][0]["id"].is_string()).await;
    let say = async |text: &str| {
        let body = json!({"connectionId": records["items"][0]["id"], "content": text}).to_string();
        let sent = server.send("POST", "/v2/didcomm/basic-messages", Some(&body)).await.body;
        sent["id"].as_str().expect("an id").to_owned()
    };
    let delivery = async |id: &str, wanted: &str| {
        let is_wanted = |body: &Value| {
            body["items"].as_array().into_iter().flatten().any(|one| one["id"] == id && one["delivery"] == wanted)
        };
        await_answer(&server, "/v2/didcomm/basic-messages?role=sender", is_wanted).await;
    };
    // 503 says that it did not arrive.
    peer.status.store(503, Ordering::SeqCst);
    let waiting = say("again").await;
    poll_until("two attempts", async || peer.posts.load(Ordering::SeqCst) >= 2).await;
    delivery(&waiting, "waiting").await;
    peer.status.store(202, Ordering::SeqCst);
    assert_eq!(next_message(&mut peer.inbox, "a message").await.body["content"], "again");
    delivery(&waiting, "delivered").await;
    // 500 does not say whether it arrived, and a redirect is not followed.
    for status in [500, 307] {
        peer.status.store(status, Ordering::SeqCst);
        let before = peer.posts.load(Ordering::SeqCst);
        let unanswered = say("once").await;
        delivery(&unanswered, "unanswered").await;
        assert_eq!(peer.posts.load(Ordering::SeqCst), before + 1, "it may have arrived");
    }
    // 413 says that it never will.
    peer.status.store(413, Ordering::SeqCst);
    let rejected = say("too large").await;
    delivery(&rejected, "undeliverable").await;
    // None of them holds up the next.
    peer.status.store(202, Ordering::SeqCst);
    let next = say("next").await;
    assert_eq!(next_message(&mut peer.inbox, "a message").await.body["content"], "next");
    delivery(&next, "delivered").await;
    let outbox =
        await_answer(&server, "/v2/didcomm/connections", |body| body["items"][0]["outbox"]["waiting"] == 0).await;
    assert_eq!(outbox["items"][0]["outbox"]["unanswered"], 2);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offered_credential_waits_for_a_caller_and_ends_as_the_caller_says() {
    use svc_didcomm::protocol::{
        Attachment, AttachmentData,
        issue_credential::{FormatAttachment, ISSUANCE_ABANDONED, IssueCredential, PROBLEM, REQUEST},
    };
    let directory = tempfile::tempdir().expect("a directory");
    let server =
        AgentServer::start_for_peers(directory.path(), &sqlite_url(directory.path()), any_peers(), no_events()).await;
    let did = server.agent.keeper().published().document.did().to_owned();
    let mut peer = ScriptedPeer::start(&did).await;
    let from_peer = |message: Message| Message { from: Some(peer.keys.did.clone()), to: vec![did.clone()], ..message };
    let attached = |format: &str, json: Value| {
        let data = AttachmentData::Base64(json.to_string().into_bytes());
        vec![FormatAttachment { format: format.into(), attachment: Attachment { id: "a".into(), data } }]
    };
    let offer = |id: &str, thread: &str, format: &str| {
        let credential = json!({"credential": {"credentialSubject": {"id": did, "name": "n"}}});
        let step = IssueCredential::Offer { attachments: attached(format, credential), comment: None };
        from_peer(step.to_message(id, thread, Some("parent")))
    };
    let (older, newer) = ("aries/ld-proof-vc-detail@v1.0", "didcomm/w3c-di-vc-offer@v0.1");
    assert_eq!(peer.post(peer.seal(&offer("1", "x", newer))).await, 202);
    let path = "/v2/didcomm/credential-exchanges";
    let exchange =
        await_answer(&server, path, |body| body["items"][0]["state"] == "offer-received").await["items"][0].clone();
    assert_eq!(
        (&exchange["claims"], &exchange["role"], &exchange["flowId"]),
        (&json!({"name": "n"}), &json!("holder"), &Value::Null)
    );
    let one = format!("{path}/{}", exchange["credentialExchangeId"].as_str().expect("an id"));
    assert_eq!(server.send("POST", &format!("{one}/accept-credential"), None).await.error(), (409, "INVALID_STATE"));
    assert_eq!(server.send("POST", &format!("{one}/accept-request"), None).await.error(), (409, "INVALID_STATE"));
    let accepted = server.send("POST", &format!("{one}/accept-offer"), Some("{}")).await;
    assert_eq!((accepted.status, &accepted.body["state"]), (200, &json!("request-sent")));
    let request = next_message(&mut peer.inbox, "a request").await;
    assert_eq!((request.kind.as_str(), request.thread(), request.pthid.as_deref()), (REQUEST, "x", Some("parent")));
    assert_eq!(request.body["formats"][0]["format"], "didcomm/w3c-di-vc-request@v0.1");
    assert_eq!(server.send("POST", &format!("{one}/accept-offer"), Some("{}")).await.error(), (409, "INVALID_STATE"));
    let issued =
        json!({"credential": {"issuer": "did:web:another.example", "credentialSubject": {"id": did, "name": "m"}}});
    let step = IssueCredential::Issue(attached("didcomm/w3c-di-vc@v0.1", issued));
    assert_eq!(peer.post(peer.seal(&from_peer(step.to_message("2", "x", None)))).await, 202);
    let received = await_answer(&server, &one, |body| body["state"] == "credential-received").await;
    assert_eq!(received["claims"], json!({"name": "m"}));
    let refused = server.send("POST", &format!("{one}/accept-credential"), Some("{}")).await;
    assert_eq!(refused.error(), (409, "PEER_NOT_AUTHORIZED"), "another one has issued it");
    let declined = server.send("POST", &format!("{one}/decline"), Some(r#"{"reason": "not that"}"#)).await;
    assert_eq!((&declined.body["state"], &declined.body["errorMessage"]), (&json!("declined"), &json!("not that")));
    let problem = next_message(&mut peer.inbox, "a report").await;
    assert_eq!(
        (problem.kind.as_str(), problem.body["description"]["code"].as_str()),
        (PROBLEM, Some(ISSUANCE_ABANDONED))
    );
    assert_eq!(server.send("DELETE", &one, None).await.status, 204);
    assert_eq!(server.send("GET", &one, None).await.error(), (404, "UNKNOWN_ID"));
    // The older format is requested by the offer itself; one of another kind ends at once.
    assert_eq!(peer.post(peer.seal(&offer("3", "y", older))).await, 202);
    let exchange = await_answer(&server, path, |body| body["items"][0]["threadId"] == "y").await["items"][0].clone();
    let one = format!("{path}/{}", exchange["credentialExchangeId"].as_str().expect("an id"));
    assert_eq!(server.send("POST", &format!("{one}/accept-offer"), None).await.status, 200);
    assert_eq!(next_message(&mut peer.inbox, "a request").await.body["formats"][0]["format"], older);
    assert_eq!(peer.post(peer.seal(&offer("4", "z", "anoncreds/credential-offer@v1.0"))).await, 202);
    assert_eq!(next_message(&mut peer.inbox, "a report").await.thread(), "z");
    let ended = server.send("GET", &format!("{path}?state=abandoned&threadId=z"), None).await.body;
    assert_eq!(ended["items"].as_array().map(Vec::len), Some(1), "{ended}");
    for (query, count) in
        [("role=issuer", 0), ("state=credential-issued", 0), ("role=holder", 2), ("state=request-sent", 1)]
    {
        let found = server.send("GET", &format!("{path}?{query}"), None).await.body;
        assert_eq!(found["items"].as_array().map(Vec::len), Some(count), "{query}: {found}");
    }
    server.stop().await;
}
