//! The state of a participant of the registry.

use prost_types::Timestamp;
use svc_wire::{
    participant_state::{ParticipantInstants, ParticipantState},
    proto::svc::pp::v1::{OnboardingState, Participant},
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

fn nanos(instant: Option<&Timestamp>) -> Option<i128> {
    instant.map(timestamp::unix_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revocation_counts_before_the_clock_has_reached_its_block() {
        let at = |seconds| Some(Timestamp { seconds, nanos: 900_000_000 });
        let revoked = Participant { effective_from: at(1), revoked: at(100), ..Participant::default() };
        assert_eq!(state_of(&revoked, 100_000_000_000), ParticipantState::Revoked);
        let active = Participant { revoked: None, ..revoked };
        assert_eq!(state_of(&active, 100_000_000_000), ParticipantState::Active);
    }
}
