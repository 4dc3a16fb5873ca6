//! Peers that mean harm.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::body::Bytes;
use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use sqlx::{Connection, SqliteConnection};
use svc_agent::{ConnectionFilter, PeerAdmission, PeerSettings, PeerTransport};
use svc_didcomm::{Message, envelope::seal_anonymously, from_prior::make_from_prior, limits, protocol::basic_message};
use tokio_tungstenite::tungstenite::{Message as Frame, protocol::frame::coding::CloseCode};

use super::{
    peers::{any_peers, await_answer},
    scripted_peer::{ScriptedPeer, next_message, now},
};
use crate::e2e::{
    agent::{AgentServer, no_events, sqlite_url},
    harness::poll_until,
};

async fn start(peers: PeerSettings) -> (tempfile::TempDir, AgentServer, ScriptedPeer) {
    let directory = tempfile::tempdir().expect("a directory");
    let server =
        AgentServer::start_for_peers(directory.path(), &sqlite_url(directory.path()), peers, no_events()).await;
    let did = server.agent.keeper().published().document.did().to_owned();
    let peer = ScriptedPeer::start(&did).await;
    (directory, server, peer)
}

async fn connections(server: &AgentServer) -> usize {
    server.agent.peers().connections(&ConnectionFilter::default(), None, 500).await.expect("connections").len()
}

async fn texts(server: &AgentServer) -> Vec<String> {
    let body = server.send("GET", "/v2/didcomm/basic-messages?role=receiver&limit=500", None).await.body;
    let items = body["items"].as_array().expect("items");
    items.iter().map(|one| one["content"].as_str().expect("a text").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_fails_a_check_is_refused_and_leaves_nothing() {
    let (_directory, server, peer) = start(any_peers()).await;
    let (key_id, key) = peer.agent_key();
    let other = peer.new_keys();
    let text = peer.text("1", "harm");
    let anonymous = |message: &Message| seal_anonymously(message, (&key_id, &key)).expect("an envelope");
    let with_prior = |prior: String| {
        let message = Message { from: Some(other.did.clone()), from_prior: Some(prior), ..text.clone() };
        peer.seal_as(&other, &message)
    };
    let forged =
        make_from_prior(&other.signing, &format!("{}#key-1", peer.keys.did), &peer.keys.did, Some(&other.did), now());
    let old = make_from_prior(
        &peer.keys.signing,
        &format!("{}#key-1", peer.keys.did),
        &peer.keys.did,
        Some(&other.did),
        now() - 700,
    );
    let foreign = make_from_prior(
        &peer.keys.signing,
        &format!("{}#key-1", peer.keys.did),
        &peer.keys.did,
        Some("did:web:z"),
        now(),
    );
    let mut damaged: Value = serde_json::from_str(&peer.seal(&text)).expect("JSON");
    damaged["tag"] = json!("A".repeat(43));
    for (what, envelope) in [
        ("from of another", peer.seal_as(&other, &text)),
        ("no from", peer.seal(&Message { from: None, ..text.clone() })),
        ("a text without a sender", anonymous(&Message { from: None, ..text.clone() })),
        ("a text with a claimed sender", anonymous(&text)),
        ("to of another", peer.seal(&Message { to: vec![other.did.clone()], ..text.clone() })),
        ("expired", peer.seal(&Message { expires_time: Some(now() - 1), ..text.clone() })),
        ("a forged from_prior", with_prior(forged)),
        ("an old from_prior", with_prior(old)),
        ("a from_prior for another", with_prior(foreign)),
        ("a from_prior that is none", with_prior("x".to_owned())),
        ("a forward", peer.seal(&Message { kind: svc_didcomm::protocol::FORWARD.into(), ..text.clone() })),
        ("a changed tag", damaged.to_string()),
        ("a message in the clear", text.to_json().to_string()),
        ("a signed one", json!({"payload": "e30", "signatures": []}).to_string()),
        (
            "an envelope in an envelope",
            peer.seal(&Message {
                kind: String::new(),
                other: serde_json::from_str(&peer.seal(&text)).expect("members"),
                ..text.clone()
            }),
        ),
        ("33 levels", format!("{}{}", "[".repeat(33), "]".repeat(33))),
        ("a thousand recipients", json!({"protected": "", "iv": "", "ciphertext": "", "tag": "", "recipients": vec![json!({"header": {"kid": "did:x:y#z"}, "encrypted_key": ""}); 1_000]}).to_string()),
        ("no JSON", "x".to_owned()),
    ] {
        assert_eq!(peer.post(envelope).await, 400, "{what}");
    }
    assert_eq!((connections(&server).await, texts(&server).await.len()), (0, 0));
    let answers = peer
        .send_frames(vec![
            Frame::Binary(peer.seal_as(&other, &text).into()),
            Frame::Text("x".into()),
            Frame::Binary(peer.seal(&text).into()),
        ])
        .await;
    assert!(
        answers.iter().all(Frame::is_pong) && answers.len() == 3,
        "a refused frame does not end the socket: {answers:?}"
    );
    assert_eq!(texts(&server).await, ["harm"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_is_handled_once_on_every_transport_and_after_a_restart() {
    let (directory, server, mut peer) = start(any_peers()).await;
    let unknown = Message::new("2", "https://didcomm.org/trust-ping/2.0/ping", json!({}));
    let unknown = Message { from: Some(peer.keys.did.clone()), to: vec![peer.agent_did()], ..unknown };
    let (envelope, asked) = (peer.seal(&peer.text("1", "once")), peer.seal(&unknown));
    assert_eq!((peer.post(envelope.clone()).await, peer.post(envelope.clone()).await), (202, 202));
    let answers =
        peer.send_frames(vec![Frame::Binary(envelope.clone().into()), Frame::Text(envelope.clone().into())]).await;
    assert!(answers.len() == 2 && answers.iter().all(Frame::is_pong), "{answers:?}");
    assert_eq!(peer.post(asked.clone()).await, 202);
    let first = next_message(&mut peer.inbox, "an answer").await;
    await_answer(&server, "/v2/didcomm/connections", |body| body["items"][0]["outbox"]["waiting"] == 0).await;
    server.stop().await;
    let server =
        AgentServer::start_for_peers(directory.path(), &sqlite_url(directory.path()), any_peers(), no_events()).await;
    assert_eq!((peer.post(envelope).await, peer.post(asked).await), (202, 202));
    let again = next_message(&mut peer.inbox, "the answer once more").await;
    assert_eq!(again, first, "with its own id");
    assert_eq!(texts(&server).await, ["once"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sizes_and_content_types_are_refused_before_anything_is_opened() {
    let settings = PeerSettings { message_bytes: 64 * 1024, inflight_bytes: 5_242_880, ..any_peers() };
    let (_directory, server, peer) = start(settings).await;
    assert_eq!(peer.post("x".repeat(64 * 1024 + 1)).await, 413);
    // In chunks, without a length: it is read up to the limit and no further.
    let chunk = Bytes::from(vec![b'x'; 16 * 1024]);
    let taken = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&taken);
    let next = move || {
        counter.fetch_add(1, Ordering::Relaxed);
        Ok::<_, std::io::Error>(chunk.clone())
    };
    let endless = reqwest::Body::wrap_stream(futures::stream::repeat_with(next).take(64 * 1024));
    let request =
        crate::e2e::agent::request("POST", &server.public).header("content-type", "application/didcomm-encrypted+json");
    // A client that writes on may see the connection end before it sees the answer.
    if let Ok(answer) = request.body(endless).send().await {
        assert_eq!(answer.status().as_u16(), 413);
    }
    let taken = taken.load(Ordering::Relaxed);
    assert!(taken < 4_096, "{taken} chunks of 16 KiB, which is more than the buffers of sockets hold");
    for (content_type, expected) in [
        ("application/didcomm-encrypted+json; charset=utf-8", 202),
        ("application/didcomm-envelope-enc", 202),
        ("application/ssi-agent-wire", 202),
        ("application/json", 415),
        ("text/plain", 415),
    ] {
        let text = peer.text(content_type, "taken");
        let request = crate::e2e::agent::request("POST", &server.public).header("content-type", content_type);
        let answer = request.body(peer.seal(&text)).send().await.expect("answered");
        assert_eq!(answer.status().as_u16(), expected, "{content_type}");
        assert_eq!(answer.text().await.expect("a body"), "");
    }
    let answers = peer.send_frames(vec![Frame::Binary(vec![b'x'; 64 * 1024 + 1].into())]).await;
    assert!(matches!(&answers[..], [Frame::Close(Some(frame))] if frame.code == CloseCode::Size), "{answers:?}");
    // A GET that is no upgrade is none for messages.
    assert_eq!(crate::e2e::agent::answer(crate::e2e::agent::request("GET", &server.public)).await.status, 404);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transport_that_is_not_served_is_neither_published_nor_answered() {
    let settings = PeerSettings { transports: vec![PeerTransport::WebSocket], ..any_peers() };
    let (_directory, server, peer) = start(settings).await;
    let published = server.agent.keeper().published().document.services();
    let endpoints: Vec<_> =
        published.iter().map(|service| (service.id.rsplit('#').next(), service.endpoint["uri"].clone())).collect();
    let uri = server.public.replacen("http", "ws", 1);
    assert_eq!(endpoints, [(Some("didcomm-messaging-0"), json!(uri))]);
    let request =
        crate::e2e::agent::request("POST", &server.public).header("content-type", "application/didcomm-encrypted+json");
    assert_eq!(request.body("x").send().await.expect("answered").status().as_u16(), 404);
    let answers = peer.send_frames(vec![Frame::Binary(peer.seal(&peer.text("1", "heard")).into())]).await;
    assert!(answers[0].is_pong());
    assert_eq!(texts(&server).await, ["heard"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loud_peer_and_a_crowd_of_strangers_are_slowed_and_others_go_on() {
    let settings = PeerSettings { rate_per_peer: 2, new_peers_per_minute: 3, ..any_peers() };
    let (_directory, server, peer) = start(settings).await;
    let mut statuses = Vec::new();
    for number in 0..30 {
        statuses.push(peer.post(peer.seal(&peer.text(&number.to_string(), "loud"))).await);
    }
    assert!(statuses[..20].iter().all(|status| *status == 202), "{statuses:?}");
    assert!(statuses[22..].contains(&429), "{statuses:?}");
    let crowd: BTreeSet<u16> = {
        let mut found = BTreeSet::new();
        for number in 0..5 {
            let stranger = peer.new_keys();
            let text = Message { from: Some(stranger.did.clone()), ..peer.text(&format!("s{number}"), "crowd") };
            found.insert(peer.post(peer.seal_as(&stranger, &text)).await);
        }
        found
    };
    assert_eq!(crowd, [202, 429].into());
    assert_eq!(connections(&server).await, 3, "the loud peer and two strangers");
    let ended = peer
        .send_frames(
            (0..30).map(|number| Frame::Binary(peer.seal(&peer.text(&format!("w{number}"), "loud")).into())).collect(),
        )
        .await;
    assert!(matches!(ended.last(), Some(Frame::Close(Some(frame))) if frame.code == CloseCode::Again), "{ended:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fragments_and_silent_sockets_cost_little_and_the_caps_hold() {
    let settings = PeerSettings { sockets: 20, inflight_bytes: 5_242_880, ..any_peers() };
    let (_directory, server, peer) = start(settings).await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(peer.connect().await);
    }
    let url = server.public.replacen("http", "ws", 1);
    assert!(tokio_tungstenite::connect_async(&url).await.is_err(), "the table is full");
    drop(silent);
    // As soon as one is gone, there is room again.
    let mut socket = loop {
        match tokio_tungstenite::connect_async(&url).await {
            Ok((socket, _)) => break socket,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    // A message in many fragments is one message.
    let envelope = peer.seal(&peer.text("1", "in pieces")).into_bytes();
    let last = envelope.len() - 1;
    for (place, byte) in envelope.into_iter().enumerate() {
        use tokio_tungstenite::tungstenite::protocol::frame::{
            Frame as Raw,
            coding::{Data, OpCode},
        };
        let code = if place == 0 { OpCode::Data(Data::Binary) } else { OpCode::Data(Data::Continue) };
        socket.feed(Frame::Frame(Raw::message(vec![byte], code, place == last))).await.expect("sent");
    }
    socket.send(Frame::Ping(Bytes::from_static(b"p"))).await.expect("sent");
    assert!(socket.next().await.expect("an answer").expect("a frame").is_pong());
    assert_eq!(texts(&server).await, ["in pieces"]);
    // Large messages that are begun and not ended share one budget: those beyond it are closed.
    let mut begun = Vec::new();
    for _ in 0..8 {
        use tokio_tungstenite::tungstenite::protocol::frame::{
            Frame as Raw,
            coding::{Data, OpCode},
        };
        let mut socket = peer.connect().await;
        let part = Raw::message(vec![b'x'; 1_200_000], OpCode::Data(Data::Binary), false);
        let _ = socket.send(Frame::Frame(part)).await;
        begun.push(socket);
    }
    let mut closed = 0;
    for socket in &mut begun {
        if let Ok(Some(Ok(Frame::Close(_)) | Err(_)) | None) =
            tokio::time::timeout(Duration::from_millis(300), socket.next()).await
        {
            closed += 1;
        }
    }
    assert!((3..8).contains(&closed), "{closed} of 8 were closed");
    drop(begun);
    assert_eq!(peer.post(peer.seal(&peer.text("2", "after"))).await, 202, "the process goes on");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_verdict_nothing_is_stored_and_the_sender_may_come_back() {
    // The index and the node of this agent are not there.
    let settings = PeerSettings { admission: PeerAdmission::Trusted, ..PeerSettings::default() };
    let (_directory, server, peer) = start(settings).await;
    assert_eq!(
        peer.post(peer.seal(&peer.text("1", "x"))).await,
        202,
        "a did:peer is never trusted: dropped on purpose"
    );
    assert_eq!(connections(&server).await, 0);
    let body = json!({"did": "did:web:peer.example"}).to_string();
    let refused = server.send("POST", "/v2/didcomm/connections", Some(&body)).await;
    assert_eq!(refused.error(), (503, "RESOLVER_UNAVAILABLE"));
    assert!(refused.headers.contains_key("retry-after"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_crash_of_a_session_changes_nothing_for_others_and_loses_no_message() {
    let (directory, server, mut peer) = start(any_peers()).await;
    let other = peer.new_keys();
    assert_eq!(peer.post(peer.seal(&peer.text("1", "one"))).await, 202);
    let text = Message { from: Some(other.did.clone()), ..peer.text("2", "two") };
    assert_eq!(peer.post(peer.seal_as(&other, &text)).await, 202);
    let tag = |did: &str| {
        use sha2::{Digest, Sha256};
        let digest = Sha256::digest(svc_didcomm::peer_did::comparable(did));
        digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    assert_eq!(server.agent.peers().session_count(), 2);
    // The peer does not take messages; one waits for it when its session crashes.
    peer.status.store(503, Ordering::SeqCst);
    let records = server.send("GET", "/v2/didcomm/connections", None).await.body;
    let record = records["items"].as_array().expect("items").iter().find(|one| one["theirDid"] == peer.keys.did);
    let body = json!({"connectionId": record.expect("a connection")["id"], "content": "to you"}).to_string();
    assert_eq!(server.send("POST", "/v2/didcomm/basic-messages", Some(&body)).await.status, 200);
    // A message whose attempt was interrupted may have arrived, so it is not sent again. The session is killed between two attempts.
    let url = sqlite_url(directory.path());
    let refused = async || {
        let mut connection = SqliteConnection::connect(&url).await.expect("connects");
        let sql = "SELECT COUNT(*) FROM peer_message WHERE sending = 0 AND failures >= 2";
        sqlx::query_scalar::<_, i64>(sql).fetch_one(&mut connection).await.expect("counted") == 1
    };
    poll_until("two refused attempts", refused).await;
    assert!(server.agent.supervisor().kill(&format!("peer_session/{}", tag(&peer.keys.did))).await);
    let text = Message { from: Some(other.did.clone()), ..peer.text("3", "three") };
    assert_eq!(peer.post(peer.seal_as(&other, &text)).await, 202);
    peer.status.store(202, Ordering::SeqCst);
    assert_eq!(next_message(&mut peer.inbox, "the message").await.body["content"], "to you");
    assert_eq!(peer.post(peer.seal(&peer.text("4", "four"))).await, 202);
    assert_eq!(texts(&server).await.len(), 4);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_when_it_is_idle() {
    let (_directory, server, peer) = start(PeerSettings { idle: Duration::from_secs(1), ..any_peers() }).await;
    assert_eq!(peer.post(peer.seal(&peer.text("1", "one"))).await, 202);
    assert_eq!(server.agent.peers().session_count(), 1);
    poll_until("the session ends", async || server.agent.peers().session_count() == 0).await;
    assert_eq!(peer.post(peer.seal(&peer.text("2", "two"))).await, 202, "it is started again on demand");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invitation_makes_a_connection_under_a_did_of_its_own() {
    let (_directory, server, mut peer) = start(any_peers()).await;
    assert_eq!(peer.post(peer.seal(&peer.text("1", "one"))).await, 202);
    let parent = server.send("GET", "/v2/didcomm/connections", None).await.body["items"][0]["id"].clone();
    let body = json!({"connectionId": parent, "goal": "talk apart", "label": "x"}).to_string();
    let sent = server.send("POST", "/v2/didcomm/invitations", Some(&body)).await.body;
    let invitation = next_message(&mut peer.inbox, "an invitation").await;
    assert_eq!(
        (invitation.id.as_str(), invitation.body["goal"].as_str()),
        (sent["id"].as_str().expect("an id"), Some("talk apart"))
    );
    let own = invitation.body["from"].as_str().expect("a DID").to_owned();
    let document = svc_didcomm::peer_did::resolve(&own).expect("a document");
    let key = svc_wire::verification_method::method_key(
        &document,
        &format!("{own}#key-2"),
        svc_wire::verification_method::KeyRelation::KeyAgreement,
        svc_wire::verification_method::KeyKind::X25519,
        0,
    )
    .expect("a key");
    let text = Message { to: vec![own.clone()], ..peer.text("2", "apart") };
    assert_eq!(text.kind, basic_message::MESSAGE);
    let sealed = svc_didcomm::envelope::seal(
        &text,
        (&format!("{}#key-2", peer.keys.did), &peer.keys.agreement),
        (&format!("{own}#key-2"), &key),
    )
    .expect("an envelope");
    assert!(sealed.len() < limits::MAX_MESSAGE_BYTES);
    assert_eq!(peer.post(sealed).await, 202);
    let path = format!("/v2/didcomm/connections?outOfBandId={}", sent["outOfBandId"].as_str().expect("an id"));
    let apart = server.send("GET", &path, None).await.body["items"][0].clone();
    assert_eq!((&apart["parentConnectionId"], &apart["did"]), (&parent, &json!(own)));
    assert_eq!(connections(&server).await, 2);
    let body = json!({"connectionId": apart["id"], "content": "apart too"}).to_string();
    assert_eq!(server.send("POST", "/v2/didcomm/basic-messages", Some(&body)).await.status, 200);
    let answer = next_message(&mut peer.inbox, "a message").await;
    assert_eq!((answer.from.as_deref(), answer.body["content"].as_str()), (Some(own.as_str()), Some("apart too")));
    server.stop().await;
}
