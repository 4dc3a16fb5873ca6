//! The conditions of a flow that participants at the node show. Pure.

use std::collections::BTreeSet;

use svc_didcomm::flow::{CredentialTerms, Fees, Guard, OnboardingState, ParticipantRead, Submission, Validation};
use svc_wire::{
    participant_state::ParticipantState,
    proto::svc::{
        cs::v1::{CredentialSchema, HolderOnboardingMode},
        pp::v1::{OnboardingState as WireState, Participant, ParticipantRole},
    },
    timestamp,
};
use uuid::{Uuid, Version};

use super::RequestedFlow;
use crate::{grant::AgentAccount, participant::state_of};

/// A participant as the node shows it at a height.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownParticipant {
    /// The participant.
    pub participant: Participant,
    /// Height of the state that it was read from.
    pub height: u64,
}

impl ShownParticipant {
    /// The parts that a flow reads.
    pub fn to_read(&self) -> ParticipantRead {
        let one = &self.participant;
        let is_slashed = one.slashed.is_some();
        ParticipantRead {
            height: self.height,
            state: match one.op_state() {
                WireState::Unspecified => OnboardingState::None,
                WireState::Pending => OnboardingState::Pending,
                WireState::Validated => OnboardingState::Validated,
                WireState::Terminated => OnboardingState::Terminated,
            },
            changed_at: one.op_last_state_change.as_ref().map(timestamp::unix_nanos),
            expires_at: one.op_exp.as_ref().map(timestamp::unix_nanos),
            is_revoked: one.revoked.is_some() && !is_slashed,
            is_slashed,
        }
    }

    /// The decision that the chain shows, for a record that has none of its own. `now` is in milliseconds since the epoch.
    pub fn to_validation(&self, now: i64) -> Validation {
        let one = &self.participant;
        Validation {
            decided_at: now,
            submission: Submission::Operator,
            fees: Fees {
                validation_fees: one.validation_fees,
                issuance_fees: one.issuance_fees,
                verification_fees: one.verification_fees,
                issuance_fee_discount: one.issuance_fee_discount,
                verification_fee_discount: one.verification_fee_discount,
            },
            effective_until: one.effective_until.as_ref().map(|end| end.seconds),
            op_summary_digest: Some(one.op_summary_digest.clone()).filter(|digest| !digest.is_empty()),
            terms: CredentialTerms::default(),
            attempts: 0,
            tx: None,
        }
    }

    /// Whether it is validated and active, at a time in nanoseconds since the epoch.
    pub fn is_validated(&self, now: i128) -> bool {
        self.participant.op_state() == WireState::Validated && is_active(&self.participant, now)
    }

    /// Whether it is validated and its time is over, at a time in nanoseconds since the epoch: only a renewal gives it another.
    pub fn has_expired(&self, now: i128) -> bool {
        self.participant.op_state() == WireState::Validated
            && state_of(&self.participant, now) == ParticipantState::Expired
    }
}

fn is_active(participant: &Participant, now: i128) -> bool {
    state_of(participant, now) == ParticipantState::Active
}

/// Whether an id of a session is a UUID of version 4 in its usual form.
pub fn is_session_id(text: &str) -> bool {
    let parsed = Uuid::parse_str(text).ok().filter(|uuid| uuid.get_version() == Some(Version::Random));
    parsed.is_some_and(|uuid| uuid.hyphenated().to_string() == text)
}

/// The conditions of a request, with the participants that its flow would have.
pub type RequestFacts = (BTreeSet<Guard>, Option<RequestedFlow>);

/// The conditions of an onboarding request. `now` is the time of the chain in nanoseconds since the epoch.
pub fn onboarding_facts(
    (peer_did, own): (&str, &AgentAccount),
    applicant: Option<&ShownParticipant>,
    validator: Option<&Participant>,
    is_session_free: bool,
    now: i128,
) -> RequestFacts {
    let mut facts = BTreeSet::new();
    let (Some(applicant), Some(validator)) = (applicant, validator) else { return (facts, None) };
    let (shown, read) = (&applicant.participant, applicant.to_read());
    let is_holder = shown.role() == ParticipantRole::Holder;
    let is_of_both = shown.did == peer_did
        && shown.validator_participant_id == validator.id
        && validator.did == own.did
        && validator.corporation_id == own.corporation_id
        && is_active(validator, now);
    let waits = match read.state {
        OnboardingState::Pending => !read.is_revoked && !read.is_slashed,
        OnboardingState::Validated => is_holder && is_active(shown, now),
        OnboardingState::None | OnboardingState::Terminated => false,
    };
    if is_of_both && applicant.is_validated(now) {
        facts.insert(Guard::OpValidated);
    }
    if is_session_free {
        facts.insert(Guard::SessionFree);
    }
    if is_of_both && waits && is_session_free {
        facts.insert(Guard::RequestFits);
    }
    let requested = RequestedFlow { schema_id: shown.schema_id, validator_participant_id: validator.id, is_holder };
    (facts, is_of_both.then_some(requested))
}

/// The conditions of a request for a credential without an onboarding. `issuers` are the participants of our DID.
pub fn issuance_facts(
    own: &AgentAccount,
    schema: Option<&CredentialSchema>,
    issuers: &[Participant],
    is_session_free: bool,
    now: i128,
) -> RequestFacts {
    let mut facts = BTreeSet::new();
    let Some(schema) = schema else { return (facts, None) };
    if schema.holder_onboarding_mode() == HolderOnboardingMode::Permissionless && schema.archived.is_none() {
        facts.insert(Guard::Permissionless);
    }
    if is_session_free {
        facts.insert(Guard::SessionFree);
    }
    let is_own_issuer = |one: &&Participant| {
        one.role() == ParticipantRole::Issuer
            && one.schema_id == schema.id
            && one.did == own.did
            && one.corporation_id == own.corporation_id
            && one.vs_operator == own.address
            && is_active(one, now)
    };
    let issuer = issuers.iter().filter(is_own_issuer).min_by_key(|one| one.id);
    facts.extend(issuer.map(|_| Guard::OwnIssuerActive));
    let requested = |issuer: &Participant| RequestedFlow {
        schema_id: schema.id,
        validator_participant_id: issuer.id,
        is_holder: true,
    };
    (facts, issuer.map(requested))
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;

    use super::*;

    const NOW: i128 = 100_000_000_000;

    fn at(seconds: i64) -> Option<Timestamp> {
        Some(Timestamp { seconds, nanos: 0 })
    }

    fn own() -> AgentAccount {
        AgentAccount { did: "did:web:v".to_owned(), corporation_id: 7, address: "svc1own".to_owned() }
    }

    fn validator() -> Participant {
        Participant {
            id: 3,
            schema_id: 4,
            role: ParticipantRole::Issuer as i32,
            did: "did:web:v".to_owned(),
            corporation_id: 7,
            vs_operator: "svc1own".to_owned(),
            effective_from: at(1),
            op_state: WireState::Validated as i32,
            ..Participant::default()
        }
    }

    fn applicant() -> Participant {
        Participant {
            id: 9,
            schema_id: 4,
            role: ParticipantRole::Holder as i32,
            did: "did:web:a".to_owned(),
            validator_participant_id: 3,
            op_state: WireState::Pending as i32,
            op_last_state_change: at(50),
            ..Participant::default()
        }
    }

    fn validated() -> Participant {
        Participant { op_state: WireState::Validated as i32, effective_from: at(60), op_exp: at(500), ..applicant() }
    }

    #[test]
    fn an_onboarding_request_fits_the_participants_at_the_node() {
        let fits = |facts: &RequestFacts| facts.0.contains(&Guard::RequestFits);
        let facts = |applicant: Participant, validator: Participant, is_free: bool| {
            let shown = ShownParticipant { participant: applicant, height: 5 };
            onboarding_facts(("did:web:a", &own()), Some(&shown), Some(&validator), is_free, NOW)
        };
        let good = facts(applicant(), validator(), true);
        assert!(fits(&good) && !good.0.contains(&Guard::OpValidated));
        assert_eq!(good.1, Some(RequestedFlow { schema_id: 4, validator_participant_id: 3, is_holder: true }));
        let again = facts(validated(), validator(), true);
        assert!(fits(&again) && again.0.contains(&Guard::OpValidated), "a holder without a credential");
        for (name, applicant, validator) in [
            ("another's", Participant { did: "did:web:x".into(), ..applicant() }, validator()),
            ("under another", Participant { validator_participant_id: 2, ..applicant() }, validator()),
            ("cancelled", Participant { op_state: WireState::Terminated as i32, ..applicant() }, validator()),
            ("made without one", Participant { op_state: 0, ..applicant() }, validator()),
            ("revoked", Participant { revoked: at(70), ..applicant() }, validator()),
            ("slashed", Participant { slashed: at(70), ..applicant() }, validator()),
            ("of another role", Participant { role: ParticipantRole::Issuer as i32, ..validated() }, validator()),
            ("has ended", Participant { effective_until: at(90), ..validated() }, validator()),
            ("foreign validator", applicant(), Participant { did: "did:web:x".into(), ..validator() }),
            ("foreign corporation", applicant(), Participant { corporation_id: 8, ..validator() }),
            ("revoked validator", applicant(), Participant { revoked: at(70), ..validator() }),
        ] {
            assert!(!fits(&facts(applicant, validator, true)), "{name}");
        }
        assert!(!fits(&facts(applicant(), validator(), false)), "the session is on the chain");
        assert_eq!(onboarding_facts(("did:web:a", &own()), None, Some(&validator()), true, NOW).1, None);
    }

    #[test]
    fn a_credential_without_an_onboarding_needs_an_open_schema_and_an_own_issuer() {
        let schema = CredentialSchema {
            id: 4,
            holder_onboarding_mode: HolderOnboardingMode::Permissionless as i32,
            ..CredentialSchema::default()
        };
        let all = BTreeSet::from([Guard::Permissionless, Guard::SessionFree, Guard::OwnIssuerActive]);
        let later = Participant { id: 8, ..validator() };
        let (facts, requested) = issuance_facts(&own(), Some(&schema), &[later, validator()], true, NOW);
        assert_eq!((facts, requested.map(|one| one.validator_participant_id)), (all.clone(), Some(3)));
        let closed = CredentialSchema {
            holder_onboarding_mode: HolderOnboardingMode::IssuerOnboardingProcess as i32,
            ..schema.clone()
        };
        let archived = CredentialSchema { archived: at(9), ..schema.clone() };
        for schema in [closed, archived] {
            assert!(
                !issuance_facts(&own(), Some(&schema), &[validator()], true, NOW).0.contains(&Guard::Permissionless)
            );
        }
        for issuer in [
            Participant { role: ParticipantRole::Verifier as i32, ..validator() },
            Participant { schema_id: 5, ..validator() },
            Participant { vs_operator: "svc1other".into(), ..validator() },
            Participant { revoked: at(70), ..validator() },
        ] {
            let (facts, requested) = issuance_facts(&own(), Some(&schema), &[issuer], true, NOW);
            assert!(!facts.contains(&Guard::OwnIssuerActive) && requested.is_none());
        }
    }

    #[test]
    fn a_read_says_slashed_or_revoked_and_ids_of_sessions_have_one_form() {
        let read = |participant: Participant| ShownParticipant { participant, height: 5 }.to_read();
        let slashed = read(Participant { slashed: at(1), revoked: at(2), ..validated() });
        assert!(slashed.is_slashed && !slashed.is_revoked);
        let valid = read(validated());
        assert_eq!(
            (valid.height, valid.changed_at, valid.expires_at),
            (5, Some(50_000_000_000), Some(500_000_000_000))
        );
        for (text, expected) in [
            ("c56a4180-65aa-42ec-a945-5fd21dec0538", true),
            ("C56A4180-65AA-42EC-A945-5FD21DEC0538", false),
            ("c56a418065aa42eca9455fd21dec0538", false),
            ("018f0c5e-7a6b-7c3d-8e9f-0a1b2c3d4e5f", false),
            ("1", false),
        ] {
            assert_eq!(is_session_id(text), expected, "{text}");
        }
    }
}
