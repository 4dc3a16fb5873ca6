//! The decisions about the credentials that a DID holds. Pure.

use svc_agent_store::{CredentialKind, CredentialState, StoredCredential};
use svc_trust::{
    EssentialCredential, RegistryParticipant, RegistrySchema, RejectionCode, authorize_holder, authorize_issuer,
};
use svc_wire::participant_state::ParticipantState;

use crate::{
    credential_settings::{CredentialForm, CredentialMode, CredentialSettings, plain_name},
    registry::name_of,
};

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
