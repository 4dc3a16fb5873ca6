//! The decisions about credentials that a DID holds.

use svc_agent_store::{CredentialKind, CredentialState, StoredCredential};
use svc_trust::{EssentialCredential, RegistryParticipant, RegistrySchema, RejectionCode};
use svc_wire::participant_state::ParticipantState;

use super::{core::*, *};
use crate::credential_settings::{ConfiguredClaims, CredentialMode, PublishedProofs};

const NOW: i64 = 1_000_000;
const DAY: i64 = 86_400;

fn credential(kind: CredentialKind) -> StoredCredential {
    StoredCredential {
        id: "did:web:a#1".to_owned(),
        kind,
        name: "service".to_owned(),
        schema_id: 7,
        issuer: "did:web:a".to_owned(),
        subject: "did:web:a".to_owned(),
        issuer_participant: 3,
        digest: "sha384-x".to_owned(),
        claims_digest: "c".to_owned(),
        proof_method: "did:web:a#k".to_owned(),
        body: "{}".to_owned(),
        state: CredentialState::Anchored,
        reason: None,
        tx_hash: None,
        valid_until: Some(NOW + 100 * DAY),
        created_at: NOW - 10 * DAY,
    }
}

fn situation<'a>(held: Option<&'a StoredCredential>) -> OwnSituation<'a> {
    OwnSituation {
        held,
        waiting: None,
        has_waiting_key: true,
        has_waiting_suite: true,
        claims_digest: "c",
        last_issue: Some((NOW - 10 * DAY, 3)),
        issuer: Some(3),
        next_end: Some(NOW + 365 * DAY),
        is_asked_for: false,
        has_other_suite: false,
        renew_days: 30,
        now: NOW,
    }
}

#[test]
fn an_own_credential_is_issued_again_when_it_ends_or_its_claims_change() {
    let own = credential(CredentialKind::Own);
    let ends = StoredCredential { valid_until: Some(NOW + 30 * DAY), ..own.clone() };
    let received = credential(CredentialKind::Received);
    let waiting = StoredCredential { state: CredentialState::Signed, ..own.clone() };
    let keep = |held| situation(Some(held));
    for (situation, expected) in [
        (situation(None), OwnStep::Issue),
        (keep(&own), OwnStep::Keep),
        (keep(&received), OwnStep::Keep),
        (keep(&ends), OwnStep::Issue),
        (OwnSituation { claims_digest: "d", ..keep(&own) }, OwnStep::Issue),
        (OwnSituation { claims_digest: "d", ..keep(&received) }, OwnStep::Keep),
        (OwnSituation { is_asked_for: true, ..keep(&own) }, OwnStep::Issue),
        (OwnSituation { waiting: Some(&waiting), ..keep(&own) }, OwnStep::Anchor),
        (OwnSituation { waiting: Some(&waiting), issuer: None, ..keep(&own) }, OwnStep::Anchor),
        // One that no verdict would accept is not paid for.
        (OwnSituation { waiting: Some(&waiting), issuer: Some(4), ..keep(&own) }, OwnStep::GiveUp),
        (OwnSituation { waiting: Some(&waiting), claims_digest: "d", ..keep(&own) }, OwnStep::GiveUp),
        (OwnSituation { waiting: Some(&waiting), has_waiting_key: false, ..keep(&own) }, OwnStep::GiveUp),
        (OwnSituation { waiting: Some(&waiting), has_waiting_suite: false, ..keep(&own) }, OwnStep::GiveUp),
        (OwnSituation { waiting: Some(&waiting), now: NOW + 101 * DAY, ..keep(&own) }, OwnStep::GiveUp),
        // A renewal that ends with the same participants is none.
        (OwnSituation { next_end: ends.valid_until, ..keep(&ends) }, OwnStep::Keep),
        (OwnSituation { next_end: ends.valid_until.map(|end| end + DAY), ..keep(&ends) }, OwnStep::Issue),
    ] {
        assert_eq!(next_own_step(&situation), expected);
    }
}

#[test]
fn another_suite_is_a_reason_to_issue_again_once_a_day() {
    let own = credential(CredentialKind::Own);
    let with = |last_issue| OwnSituation {
        claims_digest: &own.claims_digest,
        has_other_suite: true,
        last_issue,
        ..situation(Some(&own))
    };
    assert_eq!(next_own_step(&with(None)), OwnStep::Issue);
    assert_eq!(next_own_step(&with(Some((NOW - 10, own.issuer_participant)))), OwnStep::WaitForTomorrow);
}

#[test]
fn another_mode_or_parent_wants_other_credentials() {
    let claims = [(EssentialCredential::Service, ConfiguredClaims::default())].into();
    let alone = CredentialMode::Standalone { claims };
    let delegated = |parent: &str| CredentialMode::Delegated { parent: parent.to_owned(), claims: Default::default() };
    let named = |kind, name: &str| StoredCredential { name: name.to_owned(), ..credential(kind) };
    use CredentialKind::{Own, Received, Schema};
    let with =
        |mode: &CredentialMode, proofs| CredentialSettings { mode: mode.clone(), proofs, ..CredentialSettings::off() };
    for (mode, held, expected) in [
        (&alone, named(Own, "service"), false),
        (&alone, named(Own, "service-di"), true),
        (&alone, named(Own, "org"), true),
        (&alone, named(Received, "service"), true),
        (&alone, named(Received, "org"), false),
        (&delegated("did:web:a"), named(Own, "service"), true),
        (&delegated("did:web:a"), named(Received, "service"), false),
        (&delegated("did:web:b"), named(Received, "service"), true),
        (&delegated("did:web:b"), named(Received, "org"), false),
        (&delegated("did:web:b"), named(Schema, "7"), false),
        (&CredentialMode::Off, named(Received, "service"), false),
    ] {
        let settings = with(mode, PublishedProofs::Ed25519Signature2020);
        assert_eq!(is_unwanted(&settings, &held), expected, "{mode:?} {:?} {}", held.kind, held.name);
    }
    let both = with(&alone, PublishedProofs::Both);
    for (name, expected) in [("service", false), ("service-di", false), ("org", true), ("org-di", true)] {
        assert_eq!(is_unwanted(&both, &named(Own, name)), expected, "{name}");
    }
}

#[test]
fn claims_that_flip_cost_one_credential_a_day() {
    let own = credential(CredentialKind::Own);
    let flipped = |last_issue, issuer, is_asked_for| {
        let situation = OwnSituation { claims_digest: "d", last_issue, issuer, is_asked_for, ..situation(Some(&own)) };
        next_own_step(&situation)
    };
    assert_eq!(flipped(Some((NOW - 10, 3)), Some(3), false), OwnStep::WaitForTomorrow);
    assert_eq!(flipped(Some((NOW - 10, 3)), None, false), OwnStep::WaitForTomorrow);
    assert_eq!(flipped(Some((NOW - DAY, 3)), Some(3), false), OwnStep::Issue);
    assert_eq!(flipped(Some((NOW - 10, 3)), Some(4), false), OwnStep::Issue, "of another participant");
    assert_eq!(flipped(Some((NOW - 10, 3)), Some(3), true), OwnStep::Issue, "a person has asked for it");
}

#[test]
fn a_credential_is_withdrawn_for_stated_facts_alone() {
    let schema = RegistrySchema {
        id: 7,
        ecosystem_id: 1,
        ecosystem_did: "did:web:e".to_owned(),
        json_schema: String::new(),
        digest_algorithm: "sha384".to_owned(),
        is_open_to_holders: false,
    };
    let participant = |role: &str, state| RegistryParticipant {
        id: 1,
        role: role.to_owned(),
        schema_id: 7,
        effective_from: Some(0),
        effective_until: None,
        state,
    };
    let held = credential(CredentialKind::Received);
    let judge = |holder: Option<ParticipantState>, issuer: Option<ParticipantState>, anchored_at, now| {
        let holders: Vec<_> = holder.map(|state| participant("HOLDER", state)).into_iter().collect();
        let issuers: Vec<_> = issuer.map(|state| participant("ISSUER", state)).into_iter().collect();
        let facts = HeldFacts { holders: &holders, issuers: &issuers, schema: Some(&schema), anchored_at, now };
        reason_to_withdraw(&held, &facts)
    };
    use ParticipantState::{Active, Expired, Revoked, Slashed};
    let (good, at) = (Some(Active), Some(1));
    for (holder, issuer, anchored_at, now, expected) in [
        (good, good, at, NOW, None),
        (Some(Revoked), good, at, NOW, Some(RejectionCode::HolderRevoked)),
        (Some(Slashed), good, at, NOW, Some(RejectionCode::HolderSlashed)),
        (Some(Expired), good, at, NOW, Some(RejectionCode::HolderExpired)),
        (good, Some(Revoked), at, NOW, Some(RejectionCode::IssuerRevoked)),
        (good, Some(Slashed), at, NOW, Some(RejectionCode::IssuerSlashed)),
        (good, Some(Expired), at, NOW, None),
        (None, good, at, NOW, None),
        (good, None, at, NOW, None),
        (good, good, None, NOW, None),
        (good, good, at, NOW + 100 * DAY, Some(RejectionCode::CredentialExpired)),
    ] {
        assert_eq!(judge(holder, issuer, anchored_at, now), expected, "{holder:?} {issuer:?} {anchored_at:?} {now}");
    }
    let unknown = HeldFacts { holders: &[], issuers: &[], schema: None, anchored_at: at, now: NOW };
    assert_eq!(reason_to_withdraw(&held, &unknown), None);
}
