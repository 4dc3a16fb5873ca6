//! Access with a peer that follows a script: one that asks for too much, and one whose grants do not fit.

use std::time::Duration;

use serde_json::{Value, json};
use svc_agent::{AccessGrantFilter, GrantState, PeerAccessRequest, RefusalCode};
use svc_didcomm::{
    Message,
    envelope::seal_anonymously,
    protocol::{
        basic_message::MESSAGE,
        endpoint_access::{AccessFrame, AccessGrant, GrantedMaterial, MaterialSecret, frame_message},
    },
};
use uuid::Uuid;

use crate::e2e::agent::{
    endpoints::access::{AccessWorld, URL},
    messages::scripted_peer::{ScriptedPeer, now},
};

const OWNER: usize = 0;
const ASKER: usize = 1;

impl AccessWorld {
    async fn active_grants(&self) -> usize {
        let filter = AccessGrantFilter { state: Some(GrantState::Active), ..AccessGrantFilter::default() };
        self.world.agent(OWNER).access().grants(&filter, None, 500).await.expect("read").len()
    }

    /// A frame of a scripted asker.
    fn request(&self, id: &str, fragment: &str) -> Value {
        json!({"svc": "endpoint-access/1", "op": "request", "id": id, "endpoint": self.endpoint(fragment)})
    }
}

/// Sends a frame in an envelope of its own; returns the content of the answer.
async fn exchange(peer: &mut ScriptedPeer, frame: &Value) -> String {
    let message = peer.text(&Uuid::new_v4().to_string(), &frame.to_string());
    assert_eq!(peer.post(peer.seal(&message)).await, 202);
    let answer = peer.next(MESSAGE).await;
    assert_eq!(answer.thread(), message.id, "in the thread of the request");
    answer.body_text("content").expect("a text").to_owned()
}

fn code_of(content: &str) -> String {
    match AccessFrame::read(content) {
        Some(AccessFrame::Denial(denial)) => denial.code.as_str().to_owned(),
        Some(AccessFrame::Grant(_)) => "granted".to_owned(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_is_one_grant_and_a_flood_is_bounded() {
    let access = AccessWorld::start().await;
    let (mut peer, _) = ScriptedPeer::take_over(&access.world, ASKER, OWNER).await;
    let id = Uuid::new_v4().to_string();
    let first = exchange(&mut peer, &access.request(&id, "mcp")).await;
    let again = exchange(&mut peer, &access.request(&id, "mcp")).await;
    assert_eq!(code_of(&first), "granted");
    assert_eq!(first, again, "byte for byte");
    assert_eq!(access.active_grants().await, 1);
    // An envelope that another one relays is a repetition, and a sender that is not the owner of the key is none.
    let request = access.request(&Uuid::new_v4().to_string(), "open");
    let envelope = peer.seal(&peer.text(&Uuid::new_v4().to_string(), &request.to_string()));
    assert_eq!(peer.post(envelope.clone()).await, 202);
    assert_eq!(code_of(peer.next(MESSAGE).await.body_text("content").expect("a text")), "granted");
    peer.post(envelope).await;
    let content = access.request(&Uuid::new_v4().to_string(), "open").to_string();
    let claimed = Message { from: Some(access.world.agent_did(2)), ..peer.text(&Uuid::new_v4().to_string(), &content) };
    assert_ne!(peer.post(peer.seal(&claimed)).await, 202);
    assert_eq!(access.active_grants().await, 2);
    // The id of a grant is not used for another endpoint.
    assert_eq!(code_of(&exchange(&mut peer, &access.request(&id, "open")).await), "invalid_request");
    let mut later = access.request(&Uuid::new_v4().to_string(), "mcp");
    later["svc"] = json!("endpoint-access/2");
    assert_eq!(code_of(&exchange(&mut peer, &later).await), "unsupported_version");
    let mut wrong = access.request(&Uuid::new_v4().to_string(), "mcp");
    wrong["scopes"] = json!("mcp:read");
    assert_eq!(code_of(&exchange(&mut peer, &wrong).await), "invalid_request");
    let mut long = access.request(&Uuid::new_v4().to_string(), "mcp");
    long["more"] = json!("x".repeat(17_000));
    assert_eq!(code_of(&exchange(&mut peer, &long).await), "invalid_request");
    // Five valid grants for one entry, and ten requests in a minute: three were counted.
    let mut outcomes = Vec::new();
    for _ in 0..12 {
        let request = access.request(&Uuid::new_v4().to_string(), "mcp");
        outcomes.push(code_of(&exchange(&mut peer, &request).await));
    }
    assert_eq!(outcomes.iter().filter(|outcome| *outcome == "granted").count(), 4, "{outcomes:?}");
    assert!(outcomes[4..].iter().all(|outcome| outcome == "rate_limited"), "{outcomes:?}");
    assert_eq!(access.active_grants().await, 6);
    // An envelope without a sender asks for nothing.
    let (key_id, key) = peer.agent_key();
    let content = access.request(&Uuid::new_v4().to_string(), "open").to_string();
    let message = Message { from: None, ..peer.text(&Uuid::new_v4().to_string(), &content) };
    let envelope = seal_anonymously(&message, (&key_id, &key)).expect("an envelope");
    assert_ne!(peer.post(envelope).await, 202);
    assert_eq!(access.active_grants().await, 6);
    // A text that cannot be read, and could be a frame, is no record and has no answer.
    let broken = peer.text(&Uuid::new_v4().to_string(), r#"{"svc":"endpoint-access/1","op":"grant","token":"planted""#);
    assert_eq!(peer.post(peer.seal(&broken)).await, 202);
    let records = access.world.agent(OWNER).peers();
    let found = records.basic_messages(&Default::default(), None, 100, Duration::ZERO).await.expect("read");
    assert!(found.iter().all(|record| !record.content.contains("endpoint-access")), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_does_not_fit_its_request_is_dropped() {
    let access = AccessWorld::start().await;
    let (mut peer, _) = ScriptedPeer::take_over(&access.world, OWNER, ASKER).await;
    let asker = access.world.agent(ASKER).clone();
    let asked = PeerAccessRequest {
        endpoint: access.endpoint("mcp"),
        scopes: Some(vec!["mcp:read".to_owned()]),
        timeout: Some(Duration::from_secs(30)),
        ..PeerAccessRequest::default()
    };
    let asking = {
        let (asker, asked) = (asker.clone(), asked.clone());
        tokio::spawn(async move { asker.peers().request_access(asked).await })
    };
    let request = peer.next(MESSAGE).await;
    let Some(AccessFrame::Request(frame)) = request.body_text("content").and_then(AccessFrame::read) else {
        panic!("{request:?}")
    };
    let good = AccessGrant {
        id: frame.id.clone(),
        endpoint: access.endpoint("mcp"),
        url: URL.to_owned(),
        scopes: vec!["mcp:read".to_owned()],
        expires_at: Some(now() + 600),
        material: GrantedMaterial::Bearer { token: MaterialSecret::new("scripted".to_owned()) },
    };
    let send = async |grant: &AccessGrant| {
        let message = frame_message(&Uuid::new_v4().to_string(), &grant.to_content(), Some(&request.id), now(), None);
        let message = Message { from: Some(peer.keys.did.clone()), to: vec![peer.agent_did()], ..message };
        assert_eq!(peer.post(peer.seal(&message)).await, 202);
    };
    let with = |change: &dyn Fn(&mut AccessGrant)| {
        let mut grant = good.clone();
        change(&mut grant);
        grant
    };
    for wrong in [
        with(&|grant| grant.id = Uuid::new_v4().to_string()),
        with(&|grant| grant.endpoint = access.endpoint("open")),
        with(&|grant| grant.scopes.push("ledger".to_owned())),
        with(&|grant| grant.expires_at = Some(now() + 2 * 86_400)),
        with(&|grant| grant.url = "https://thief.example/mcp".to_owned()),
    ] {
        send(&wrong).await;
    }
    send(&good).await;
    let taken = asking.await.expect("joins").expect("the one that fits");
    assert_eq!((taken.url.as_str(), &taken.material), (URL, &good.material));
    // Nothing waits any more: another one of the peer's own accord is not taken.
    send(&with(&|grant| grant.id = Uuid::new_v4().to_string())).await;
    let held = asker.peers().request_access(asked.clone()).await.expect("held");
    assert_eq!(held.id, taken.id);
    // A peer that stays silent.
    let silent = PeerAccessRequest { replaces: Some(taken.id), timeout: Some(Duration::from_secs(1)), ..asked };
    let refused = asker.peers().request_access(silent).await.expect_err("no answer");
    assert_eq!(refused.code, RefusalCode::PeerUnanswered);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_ends_with_the_trust_in_its_peer() {
    let access = AccessWorld::start().await;
    let world = &access.world;
    let granted = access.ask("mcp").await.expect("granted");
    assert_eq!(access.active_grants().await, 1);
    let holders = json!({"did": world.agent_did(ASKER), "role": "HOLDER"});
    let listed = world.call_ok("svc.idx.pp.listParticipants", holders).await;
    let schema: u64 = world.network.devnet.address("service.schema").parse().expect("a number");
    let rows = listed["participants"].as_array().expect("a list");
    let holder = rows.iter().find(|one| one["schema_id"] == schema).expect("a holder")["id"].clone();
    world.call_ok("svc.ledger.pp.revokeParticipant", json!({"id": holder})).await;
    world.await_verdict(ASKER, |verdict| verdict["trusted"] == false).await;
    world.wait_until("the grant is taken back", async || access.active_grants().await == 0).await;
    let filter = AccessGrantFilter { state: Some(GrantState::Revoked), ..AccessGrantFilter::default() };
    let revoked = world.agent(OWNER).access().grants(&filter, None, 10).await.expect("read");
    let reason = revoked[0].reason.as_deref().unwrap_or_default();
    assert!(reason.contains("verifiable service any more"), "{reason}");
    let refused = access.ask_again("mcp", &granted).await.expect_err("not trusted");
    assert_eq!(refused.denial.expect("a denial").code.as_str(), "not_trusted");
}
