//! Requests for access.

use super::*;
use crate::protocol::endpoint_access::{AccessRevocation, DenyCode, GrantedMaterial, MaterialSecret};

const ID: &str = "018f4c5e-7a2b-4c3d-8e9f-0a1b2c3d4e5f";
const PEER: &str = "did:web:a";
const URL: &str = "https://a/mcp";

fn request() -> AccessRequest {
    AccessRequest {
        id: ID.into(),
        endpoint: "did:web:a#mcp".into(),
        scopes: Some(vec!["read".into()]),
        accept: Some(vec![Material::Bearer]),
    }
}

fn table() -> AskerTable {
    let mut table = AskerTable::default();
    table.ask(OpenRequest { request: request(), deadline: 145 }, 100).expect("room");
    table
}

fn grant() -> AccessGrant {
    AccessGrant {
        id: ID.into(),
        endpoint: "did:web:a#mcp".into(),
        url: URL.into(),
        scopes: vec!["read".into()],
        expires_at: Some(700),
        material: GrantedMaterial::Bearer { token: MaterialSecret::new("t".into()) },
    }
}

fn hear(table: &mut AskerTable, peer: &str, grant: AccessGrant, now: i64) -> HeardAnswer {
    table.hear(peer, AccessFrame::Grant(Box::new(grant)), now)
}

#[test]
fn only_the_grant_that_was_asked_for_is_taken() {
    let with = |change: fn(&mut AccessGrant)| {
        let mut changed = grant();
        change(&mut changed);
        changed
    };
    for (name, peer, now, grant, expected) in [
        ("another peer", "did:web:b", 101, grant(), DropReason::OtherSender),
        ("late", PEER, 145, grant(), DropReason::NotAsked),
        ("another id", PEER, 101, with(|grant| grant.id = "x".into()), DropReason::NotAsked),
        ("endpoint", PEER, 101, with(|grant| grant.endpoint = "did:web:a#x".into()), DropReason::OtherEndpoint),
        ("material", PEER, 101, with(|grant| grant.material = GrantedMaterial::None), DropReason::Material),
        ("wider", PEER, 101, with(|grant| grant.scopes.push("write".into())), DropReason::Wider),
        ("longer", PEER, 101, with(|grant| grant.expires_at = Some(101 + 86_401)), DropReason::Lifetime),
        ("ended", PEER, 101, with(|grant| grant.expires_at = Some(101)), DropReason::Lifetime),
    ] {
        let mut table = table();
        assert_eq!(hear(&mut table, peer, grant, now), HeardAnswer::Dropped(expected), "{name}");
        assert!(table.settle(ID, Some(URL), now).is_err(), "{name}");
    }
    let mut table = table();
    let fewer = with(|grant| {
        grant.scopes.clear();
        grant.expires_at = None;
    });
    assert!(matches!(hear(&mut table, PEER, fewer.clone(), 101), HeardAnswer::Granted { .. }));
    assert_eq!(hear(&mut table, PEER, grant(), 101), HeardAnswer::Dropped(DropReason::NotAsked), "a second answer");
    assert_eq!(table.settle(ID, Some("https://a/other"), 101), Err(DropReason::OtherUrl));
    assert!(matches!(hear(&mut table, PEER, fewer, 102), HeardAnswer::Granted { .. }), "it still waits");
    assert!(table.settle(ID, Some(URL), 103).is_ok());
    assert_eq!(hear(&mut table, PEER, grant(), 104), HeardAnswer::Dropped(DropReason::NotAsked), "nothing waits");
    let question = (request().scopes, request().accept);
    assert!(table.held("did:web:a#mcp", &question, 103 + 86_400 - 61).is_some(), "a day without an end");
    assert!(table.held("did:web:a#mcp", &question, 103 + 86_400 - 60).is_none());
}

#[test]
fn a_grant_is_held_until_a_minute_before_its_end_and_not_after_a_change() {
    let question = (request().scopes, request().accept);
    let held = |table: &AskerTable, now| table.held("did:web:a#mcp", &question, now).is_some();
    let settled = || {
        let mut table = table();
        hear(&mut table, PEER, grant(), 101);
        table.settle(ID, Some(URL), 101).expect("taken");
        table
    };
    assert!(held(&settled(), 639) && !held(&settled(), 640));
    assert!(settled().held("did:web:a#mcp", &(None, None), 101).is_none(), "another question");
    let revoked = |id: &str| {
        AccessFrame::Revocation(AccessRevocation { id: id.into(), endpoint: "did:web:a#mcp".into(), reason: None })
    };
    let mut table = settled();
    assert_eq!(table.hear("did:web:b", revoked(ID), 102), HeardAnswer::Dropped(DropReason::OtherSender));
    assert!(held(&table, 102));
    assert_eq!(table.hear(PEER, revoked(ID), 102), HeardAnswer::Revoked { id: ID.into() });
    assert!(!held(&table, 102));
    let mut table = settled();
    table.note_url("did:web:a#mcp", Some(URL));
    assert!(held(&table, 102));
    table.note_url("did:web:a#mcp", Some("https://a/elsewhere"));
    assert!(!held(&table, 102));
    let mut table = settled();
    table.forget_peer(PEER);
    assert!(!held(&table, 102));
}

#[test]
fn a_revocation_before_the_grant_and_a_denial_end_the_request() {
    let mut table = table();
    let revoked = AccessRevocation { id: ID.into(), endpoint: "did:web:a#mcp".into(), reason: None };
    assert_eq!(table.hear(PEER, AccessFrame::Revocation(revoked), 101), HeardAnswer::Revoked { id: ID.into() });
    assert_eq!(hear(&mut table, PEER, grant(), 102), HeardAnswer::Dropped(DropReason::NotAsked));
    let mut table = super::tests::table();
    let denial = AccessDenial {
        id: ID.into(),
        endpoint: None,
        code: DenyCode::NotAllowed,
        message: String::new(),
        retry_after: None,
    };
    let deny = |table: &mut AskerTable, peer: &str| table.hear(peer, AccessFrame::Denial(denial.clone()), 101);
    assert_eq!(deny(&mut table, "did:web:b"), HeardAnswer::Dropped(DropReason::OtherSender));
    assert_eq!(deny(&mut table, PEER), HeardAnswer::Denied(denial.clone()));
    assert_eq!(hear(&mut table, PEER, grant(), 102), HeardAnswer::Dropped(DropReason::NotAsked));
}

#[test]
fn the_table_is_bounded_and_late_requests_leave_it() {
    let mut table = AskerTable::default();
    let open = |number: usize, deadline| OpenRequest {
        request: AccessRequest { id: format!("{number}"), ..request() },
        deadline,
    };
    for number in 0..MAX_OPEN {
        table.ask(open(number, 145), 100).expect("room");
    }
    assert_eq!(table.ask(open(MAX_OPEN, 145), 144), Err(TooManyRequests));
    table.ask(open(MAX_OPEN, 200), 145).expect("the others are late");
    assert_eq!(table.sizes(), (1, 0));
}
