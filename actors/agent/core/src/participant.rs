//! The state of a participant of the registry.

use prost_types::Timestamp;
use svc_wire::{
    participant_state::{ParticipantInstants, ParticipantState},
    proto::svc::pp::v1::{OnboardingState, Participant},
    proto_registry::NodeGeneration,
    timestamp,
};

/// The state of a participant at a time in nanoseconds since the epoch. A revocation that the node shows has happened, also where the
/// clock of this agent is a block behind it.
pub fn state_of(participant: &Participant, now: i128) -> ParticipantState {
    let now = nanos(participant.revoked.as_ref()).map_or(now, |revoked| revoked.max(now));
    let is_unvalidated = matches!(participant.op_state(), OnboardingState::Pending | OnboardingState::Terminated);
    let instants = ParticipantInstants {
        slashed: nanos(participant.slashed.as_ref()),
        repaid: nanos(participant.repaid.as_ref()),
        revoked: nanos(participant.revoked.as_ref()),
        from: nanos(participant.effective_from.as_ref()),
        until: nanos(participant.effective_until.as_ref()),
        is_unvalidated,
    };
    instants.state_at(now)
}

/// Whether a participant has a beginning at a node of this generation. One without `effective_from` never begins at the oldest nodes, and
/// began with its block at later ones. A node of an unknown generation counts as one of the oldest.
pub fn has_beginning(participant: &Participant, generation: Option<NodeGeneration>) -> bool {
    participant.effective_from.is_some() || generation > Some(NodeGeneration::N0)
}

/// The state of a participant as a node of this generation judges it, at a time in nanoseconds since the epoch.
pub fn state_at_node(participant: &Participant, now: i128, generation: Option<NodeGeneration>) -> ParticipantState {
    match state_of(participant, now) {
        ParticipantState::Active if !has_beginning(participant, generation) => ParticipantState::Inactive,
        state => state,
    }
}

fn nanos(instant: Option<&Timestamp>) -> Option<i128> {
    instant.map(timestamp::unix_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_participant_without_a_beginning_is_active_from_the_second_generation_on() {
        use ParticipantState::{Active, Expired, Future, Inactive, Revoked};
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        let unset = || Participant { op_state: OnboardingState::Validated.into(), ..Participant::default() };
        let begun = Participant { effective_from: at(1), ..unset() };
        let applicant = Participant { op_state: OnboardingState::Pending.into(), ..unset() };
        for (participant, at_first, later) in [
            (unset(), Inactive, Active),
            (Participant { effective_until: at(200), ..unset() }, Inactive, Active),
            (Participant { effective_until: at(100), ..unset() }, Expired, Expired),
            (Participant { revoked: at(50), ..unset() }, Revoked, Revoked),
            // One that was never validated has not begun at any node.
            (applicant, Inactive, Inactive),
            (begun, Active, Active),
            (Participant { effective_from: at(101), ..unset() }, Future, Future),
        ] {
            for generation in [None].into_iter().chain(NodeGeneration::ALL.map(Some)) {
                let expected = if generation > Some(NodeGeneration::N0) { later } else { at_first };
                let found = state_at_node(&participant, 100_000_000_000, generation);
                assert_eq!(found, expected, "{generation:?} {participant:?}");
            }
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
