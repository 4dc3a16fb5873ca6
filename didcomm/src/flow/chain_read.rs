//! Reads of a participant at the node, and the triggers that follow from them.
//!
//! An event only prompts a read. Times are nanoseconds since the epoch, as the chain has them.

use serde::{Deserialize, Serialize};

use super::trigger::Trigger;

/// The state of an onboarding at the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OnboardingState {
    /// The participant was made without an onboarding.
    None,
    /// The applicant has applied, for the first time or for a renewal.
    Pending,
    /// The validator has validated.
    Validated,
    /// The application was cancelled.
    Terminated,
}

/// A participant as the node shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParticipantRead {
    /// Height of the read.
    pub height: u64,
    /// State of the onboarding.
    pub state: OnboardingState,
    /// Time of the last change of that state.
    pub changed_at: Option<i128>,
    /// End of the validation.
    pub expires_at: Option<i128>,
    /// Whether it is revoked.
    pub is_revoked: bool,
    /// Whether it is slashed.
    pub is_slashed: bool,
}

/// The participant at the start of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoundStart {
    /// Number of the round: 1, then one more for each renewal.
    pub number: u32,
    /// Time of the change of state that began it.
    pub changed_at: Option<i128>,
    /// End of the validation of before.
    pub expires_at: Option<i128>,
    /// Height of the newest read of the participant.
    pub read_at: u64,
}

impl RoundStart {
    /// The first round, which begins with a read.
    pub fn first(read: &ParticipantRead) -> Self {
        Self { number: 1, changed_at: read.changed_at, expires_at: read.expires_at, read_at: read.height }
    }

    /// The only round of a flow without a participant.
    pub(super) fn without_participant() -> Self {
        Self { number: 1, changed_at: None, expires_at: None, read_at: 0 }
    }

    /// The round behind this one, which begins with a read.
    pub fn next(&self, read: &ParticipantRead) -> Self {
        Self { number: self.number.saturating_add(1), ..Self::first(read) }
    }

    /// The triggers of a read of the applicant's participant, in order. One at a lower height than an earlier read says nothing: its node
    /// lags.
    pub fn triggers(&self, read: &ParticipantRead) -> Vec<Trigger> {
        if read.height < self.read_at {
            return Vec::new();
        }
        if read.is_slashed {
            return vec![Trigger::ChainSlashed];
        }
        if read.is_revoked {
            return vec![Trigger::ChainRevoked];
        }
        match read.state {
            OnboardingState::None => Vec::new(),
            OnboardingState::Terminated => vec![Trigger::ChainTerminated],
            // A participant gets from one application to the next by the end of the first, also when no read has shown it.
            OnboardingState::Pending if read.changed_at > self.changed_at => {
                vec![self.end(read), Trigger::ChainPending]
            }
            OnboardingState::Pending => Vec::new(),
            OnboardingState::Validated => vec![self.end(read)],
        }
    }

    /// Whether a read shows the validation of this round.
    pub fn is_validated_by(&self, read: &ParticipantRead) -> bool {
        read.state == OnboardingState::Validated && self.end(read) == Trigger::ChainValidated
    }

    /// The end of the round that a read shows: a validation, or that of a renewal that was cancelled.
    fn end(&self, read: &ParticipantRead) -> Trigger {
        let goes_on = match (read.expires_at, self.expires_at) {
            (None, _) | (Some(_), None) => true,
            (Some(now), Some(before)) => now > before,
        };
        if goes_on || self.number == 1 { Trigger::ChainValidated } else { Trigger::ChainRestored }
    }
}

/// The trigger of a read of the validator's own participant.
pub fn validator_trigger(read: &ParticipantRead) -> Option<Trigger> {
    match (read.is_slashed, read.is_revoked) {
        (true, _) => Some(Trigger::ValidatorSlashed),
        (false, true) => Some(Trigger::ValidatorRevoked),
        (false, false) => None,
    }
}
