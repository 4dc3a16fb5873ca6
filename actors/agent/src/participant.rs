//! The state of a participant of the registry.

use prost_types::Timestamp;
use svc_wire::{
    participant_state::{ParticipantInstants, ParticipantState},
    proto::svc::pp::v1::{OnboardingState, Participant},
    timestamp,
};

/// The state of a participant at a time in nanoseconds since the epoch.
pub(crate) fn state_of(participant: &Participant, now: i128) -> ParticipantState {
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
