//! The actor with callers that wait.

use std::time::Duration;

use svc_didcomm::{
    access::{DropReason, HeardAnswer, OpenRequest},
    protocol::endpoint_access::{
        AccessFrame, AccessGrant, AccessRequest, AccessRevocation, GrantedMaterial, MaterialSecret,
    },
};
use svc_kit::{
    supervision::{Supervisor, SupervisorSpec},
    wall_clock,
};

use super::AccessAskerHandle;

const PEER: &str = "did:web:owner.example";
const ENDPOINT: &str = "did:web:owner.example#mcp";
const URL: &str = "https://owner.example/mcp";

async fn start() -> (AccessAskerHandle, Supervisor) {
    let (handle, child) = AccessAskerHandle::child_spec();
    let supervisor = Supervisor::new("test");
    supervisor.start(SupervisorSpec::one_for_one(vec![child])).await.expect("starts");
    (handle, supervisor)
}

fn open(id: &str) -> OpenRequest {
    let request = AccessRequest { id: id.into(), endpoint: ENDPOINT.into(), scopes: None, accept: None };
    OpenRequest { request, deadline: wall_clock::now().seconds + 60 }
}

fn grant(id: &str) -> AccessFrame {
    AccessFrame::Grant(Box::new(AccessGrant {
        id: id.into(),
        endpoint: ENDPOINT.into(),
        url: URL.into(),
        scopes: vec![],
        expires_at: Some(wall_clock::now().seconds + 600),
        material: GrantedMaterial::Bearer { token: MaterialSecret::new("token".into()) },
    }))
}

#[tokio::test]
async fn a_caller_gets_the_grant_that_it_asked_for_and_the_next_one_gets_it_from_memory() {
    let (asker, supervisor) = start().await;
    let answer = asker.ask(open("1")).await.expect("up, with room");
    asker.hear("did:web:thief.example", grant("1"));
    asker.hear(PEER, grant("2"));
    asker.hear(PEER, grant("1"));
    let heard = answer.await.expect("an answer");
    assert_eq!(heard, HeardAnswer::Granted { id: "1".into(), endpoint: ENDPOINT.into() });
    let (refused, again) = asker.settle("1", Some("https://elsewhere.example".into())).await.expect("up");
    assert_eq!(refused.map(|_| ()), Err(DropReason::OtherUrl));
    asker.hear(PEER, grant("1"));
    assert!(matches!(again.await, Ok(HeardAnswer::Granted { .. })), "it waits for another answer");
    let (taken, _) = asker.settle("1", Some(URL.into())).await.expect("up");
    assert_eq!(taken.map(|grant| grant.url), Ok(URL.into()));
    let held = asker.held(ENDPOINT, &(None, None), URL).await.expect("up");
    assert_eq!(held.map(|grant| grant.id), Some("1".into()));
    assert_eq!(asker.held(ENDPOINT, &(None, None), "https://elsewhere.example").await.expect("up"), None);
    assert_eq!(asker.held(ENDPOINT, &(None, None), URL).await.expect("up"), None, "another URL has ended it");
    supervisor.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_revoked_grant_is_not_held_and_a_death_forgets_all() {
    let (asker, supervisor) = start().await;
    for id in ["1", "2"] {
        let answer = asker.ask(open(id)).await.expect("up, with room");
        asker.hear(PEER, grant(id));
        answer.await.expect("an answer");
        asker.settle(id, Some(URL.into())).await.expect("up").0.expect("taken");
    }
    let revoked =
        |id: &str| AccessFrame::Revocation(AccessRevocation { id: id.into(), endpoint: ENDPOINT.into(), reason: None });
    asker.hear(PEER, revoked("1"));
    let held = async || asker.held(ENDPOINT, &(None, None), URL).await.expect("up").map(|grant| grant.id);
    assert_eq!(held().await, Some("2".into()));
    let waiting = asker.ask(open("3")).await.expect("up, with room");
    assert!(asker.0.kill());
    assert!(waiting.await.is_err(), "a caller hears of the death");
    loop {
        match asker.held(ENDPOINT, &(None, None), URL).await {
            Ok(held) => break assert_eq!(held, None),
            Err(_) => tokio::task::yield_now().await,
        }
    }
    supervisor.shutdown(Duration::from_secs(1)).await;
}
