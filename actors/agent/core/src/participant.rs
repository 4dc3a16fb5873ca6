//! The state of a participant of the registry.

use prost_types::Timestamp;
use svc_wire::{
    participant_state::{ParticipantInstants, ParticipantState},
    proto::svc::pp::v1::{OnboardingState, Participant},
    timestamp,
};

/// The state of a participant as the node judges it, at a time in nanoseconds since the epoch. The rule is the same at nodes of every
/// generation: [`ParticipantInstants::chain_state_at`].
pub fn state_of(participant: &Participant, now: i128) -> ParticipantState {
    instants_of(participant).chain_state_at(now)
}

/// The instants of a participant.
pub fn instants_of(participant: &Participant) -> ParticipantInstants {
    let nanos = |instant: Option<&Timestamp>| instant.map(timestamp::unix_nanos);
    ParticipantInstants {
        slashed: nanos(participant.slashed.as_ref()),
        repaid: nanos(participant.repaid.as_ref()),
        revoked: nanos(participant.revoked.as_ref()),
        from: nanos(participant.effective_from.as_ref()),
        until: nanos(participant.effective_until.as_ref()),
        is_unvalidated: matches!(participant.op_state(), OnboardingState::Pending | OnboardingState::Terminated),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_participant_without_a_beginning_is_active_at_no_node() {
        use ParticipantState::{Active, Expired, Future, Inactive, Revoked};
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        let unset = || Participant { op_state: OnboardingState::Validated.into(), ..Participant::default() };
        let begun = || Participant { effective_from: at(1), ..unset() };
        for (participant, expected) in [
            (unset(), Inactive),
            (Participant { effective_until: at(200), ..unset() }, Inactive),
            (Participant { effective_until: at(100), ..unset() }, Expired),
            (Participant { revoked: at(50), ..unset() }, Revoked),
            (Participant { op_state: OnboardingState::Pending.into(), ..unset() }, Inactive),
            (begun(), Active),
            (Participant { op_state: OnboardingState::Pending.into(), ..begun() }, Active),
            (Participant { effective_from: at(101), ..unset() }, Future),
        ] {
            assert_eq!(state_of(&participant, 100_000_000_000), expected, "{participant:?}");
        }
    }

    #[test]
    fn a_revocation_counts_before_the_clock_has_reached_its_block() {
        let at = |seconds| Some(Timestamp { seconds, nanos: 900_000_000 });
        let revoked = Participant { effective_from: at(1), revoked: at(100), ..Participant::default() };
        assert_eq!(state_of(&revoked, 100_000_000_000), ParticipantState::Revoked);
        let active = Participant { revoked: None, ..revoked };
        assert_eq!(state_of(&active, 100_000_000_000), ParticipantState::Active);
    }
}
