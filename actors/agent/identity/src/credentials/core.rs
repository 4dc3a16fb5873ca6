//! The decisions about the credentials that a DID holds. Pure.

use svc_agent_store::{CredentialKind, CredentialState, StoredCredential};
use svc_trust::{
    EssentialCredential, RegistryParticipant, RegistrySchema, RejectionCode, authorize_holder, authorize_issuer,
};
use svc_wire::participant_state::ParticipantState;

use super::{
    forms::{CredentialForm, plain_name},
    settings::{CredentialMode, CredentialSettings},
};
use crate::registry::name_of;

/// Shortest time between two credentials that the DID issues itself for one schema: claims that change back and forth cost one a day.
const REISSUE_SECONDS: i64 = 86_400;

/// Least time by which a renewed credential lasts longer.
const LEAST_GAIN_SECONDS: i64 = 86_400;

/// The registry's facts about one credential.
pub(super) struct HeldFacts<'a> {
    /// Participants of the holder.
    pub holders: &'a [RegistryParticipant],
    /// Participants of the issuer.
    pub issuers: &'a [RegistryParticipant],
    /// Its schema; `None` when the node states that there is none.
    pub schema: Option<&'a RegistrySchema>,
    /// Time at which its digest was anchored, nanoseconds since the epoch.
    pub anchored_at: Option<i128>,
    /// Time of the chain, seconds since the epoch.
    pub now: i64,
}

/// The reason for which a credential is to be withdrawn. Only a fact that the registry states is one: a participant that the node does
/// not show, or a digest, is none.
pub(super) fn reason_to_withdraw(held: &StoredCredential, facts: &HeldFacts<'_>) -> Option<RejectionCode> {
    if held.valid_until.is_some_and(|until| until <= facts.now) {
        return Some(RejectionCode::CredentialExpired);
    }
    let schema = facts.schema?;
    let holder = authorize_holder(facts.holders, schema, held.kind == CredentialKind::Own).err();
    let issuer = facts.anchored_at.and_then(|at| authorize_issuer(facts.issuers, schema.id, at).err());
    if issuer.is_some() || facts.anchored_at.is_none() {
        // Another participant of the issuer may stand before its own in the answer.
        let own = facts.issuers.iter().find(|one| one.id == held.issuer_participant);
        match own.map(|one| one.state) {
            Some(ParticipantState::Revoked) => return Some(RejectionCode::IssuerRevoked),
            Some(ParticipantState::Slashed | ParticipantState::Repaid) => return Some(RejectionCode::IssuerSlashed),
            _ => {}
        }
    }
    let stated = [
        RejectionCode::HolderRevoked,
        RejectionCode::HolderSlashed,
        RejectionCode::HolderExpired,
        RejectionCode::IssuerRevoked,
        RejectionCode::IssuerSlashed,
    ];
    [holder, issuer].into_iter().flatten().map(|reason| reason.code).find(|code| stated.contains(code))
}

/// Whether the settings want another credential in the place of this one, or none.
pub(super) fn is_unwanted(settings: &CredentialSettings, held: &StoredCredential) -> bool {
    let is_service = plain_name(&held.name) == name_of(EssentialCredential::Service);
    let is_form = settings.proofs.forms().contains(&CredentialForm::of(&held.name));
    match (&settings.mode, held.kind) {
        (CredentialMode::Standalone { claims }, CredentialKind::Own) => {
            !is_form || claims.keys().all(|essential| name_of(*essential) != plain_name(&held.name))
        }
        (CredentialMode::Standalone { .. }, CredentialKind::Received) => is_service,
        (CredentialMode::Delegated { .. }, CredentialKind::Own) => true,
        (CredentialMode::Delegated { parent, .. }, CredentialKind::Received) => is_service && held.issuer != *parent,
        _ => false,
    }
}

/// The state of one credential that the DID issues itself.
pub(super) struct OwnSituation<'a> {
    /// The credential of the schema that is presented, of any issuer.
    pub held: Option<&'a StoredCredential>,
    /// An own one of the schema that waits for its digest.
    pub waiting: Option<&'a StoredCredential>,
    /// Whether the document still has the key of the one that waits.
    pub has_waiting_key: bool,
    /// Whether a new credential would have the suite of the waiting one.
    pub has_waiting_suite: bool,
    /// Digest of the claims as the settings have them.
    pub claims_digest: &'a str,
    /// Time and participant of the last own issue, also of a withdrawn one.
    pub last_issue: Option<(i64, u64)>,
    /// The ISSUER participant that would issue the next one, and the end that it could have.
    pub issuer: Option<u64>,
    pub next_end: Option<i64>,
    /// Whether a person has asked for a new one.
    pub is_asked_for: bool,
    /// Whether a new credential would have another suite than the presented one.
    pub has_other_suite: bool,
    /// Days before the end at which it is issued again.
    pub renew_days: u32,
    /// Time of the chain, seconds since the epoch.
    pub now: i64,
}

/// The next step for a credential that the DID issues itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnStep {
    /// Nothing is to be done.
    Keep,
    /// The one that waits is anchored.
    Anchor,
    /// The one that waits would not be accepted any more: it is given up, unless it was sent.
    GiveUp,
    /// A new one is issued.
    Issue,
    /// A new one is due; today's was issued already.
    WaitForTomorrow,
}

/// Decides the next step for a credential that the DID issues itself.
pub(super) fn next_own_step(situation: &OwnSituation<'_>) -> OwnStep {
    if let Some(waiting) = situation.waiting {
        let is_stale = waiting.claims_digest != situation.claims_digest
            || !situation.has_waiting_key
            || !situation.has_waiting_suite
            || waiting.valid_until.is_some_and(|until| until <= situation.now)
            || situation.issuer.is_some_and(|issuer| issuer != waiting.issuer_participant);
        return if is_stale { OwnStep::GiveUp } else { OwnStep::Anchor };
    }
    let is_due = match situation.held {
        None => true,
        // A credential of another issuer stands in its place.
        Some(held) if held.kind != CredentialKind::Own => false,
        Some(held) => {
            let renewal = i64::from(situation.renew_days) * 86_400;
            // Its participants may end with it: the next one would gain nothing.
            let gains = |until: i64| situation.next_end.is_none_or(|next| next >= until + LEAST_GAIN_SECONDS);
            let ends_soon = held.valid_until.is_some_and(|until| until - renewal <= situation.now && gains(until));
            held.claims_digest != situation.claims_digest
                || ends_soon
                || situation.is_asked_for
                || situation.has_other_suite
        }
    };
    if !is_due {
        return OwnStep::Keep;
    }
    let is_recent = situation.last_issue.is_some_and(|(at, participant)| {
        // Another participant is another authority, which a person has made.
        situation.now - at < REISSUE_SECONDS && situation.issuer.is_none_or(|issuer| issuer == participant)
    });
    if is_recent && !situation.is_asked_for { OwnStep::WaitForTomorrow } else { OwnStep::Issue }
}

/// Whether another issuer's credential of the schema is presented. The DID then issues none itself, in either form.
pub(super) fn is_of_another(held: &StoredCredential, schema_id: u64, did: &str) -> bool {
    let is_received = held.kind == CredentialKind::Received && held.state == CredentialState::Anchored;
    is_received && held.schema_id == schema_id && held.subject == did
}

/// The waiting and the presented credential of a schema, in one form.
pub(super) fn find_held<'a>(
    stored: &'a [StoredCredential],
    (schema_id, form): (u64, CredentialForm),
    did: &str,
) -> (Option<&'a StoredCredential>, Option<&'a StoredCredential>) {
    let of_schema = |one: &&StoredCredential| {
        let is_form = CredentialForm::of(&one.name) == form;
        one.schema_id == schema_id && one.subject == did && one.kind != CredentialKind::Schema && is_form
    };
    let with_state = |state: CredentialState| stored.iter().filter(of_schema).rfind(|one| one.state == state);
    (with_state(CredentialState::Signed), with_state(CredentialState::Anchored))
}

#[cfg(test)]
mod tests {
    use svc_wire::participant_state::ParticipantState;

    use super::*;
    use crate::credentials::{ConfiguredClaims, PublishedProofs};

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
        let delegated =
            |parent: &str| CredentialMode::Delegated { parent: parent.to_owned(), claims: Default::default() };
        let named = |kind, name: &str| StoredCredential { name: name.to_owned(), ..credential(kind) };
        use CredentialKind::{Own, Received, Schema};
        let with = |mode: &CredentialMode, proofs| CredentialSettings {
            mode: mode.clone(),
            proofs,
            ..CredentialSettings::off()
        };
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
            let situation =
                OwnSituation { claims_digest: "d", last_issue, issuer, is_asked_for, ..situation(Some(&own)) };
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
            assert_eq!(
                judge(holder, issuer, anchored_at, now),
                expected,
                "{holder:?} {issuer:?} {anchored_at:?} {now}"
            );
        }
        let unknown = HeldFacts { holders: &[], issuers: &[], schema: None, anchored_at: at, now: NOW };
        assert_eq!(reason_to_withdraw(&held, &unknown), None);
    }
}
