//! State of a registry participant at an instant, derived from the timestamps of its JSON form.

use serde_json::Value;

use crate::timestamp::parse_instant;

/// State of a participant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParticipantState {
    /// Slashed, and the slashed deposit repaid. The participant does not become active again.
    Repaid,
    /// Slashed, and the slashed deposit not repaid.
    Slashed,
    /// Revoked.
    Revoked,
    /// Past `effective_until`.
    Expired,
    /// Before `effective_from`.
    Future,
    /// In force.
    Active,
    /// Never in force: the onboarding process is pending or terminated.
    Inactive,
}

impl ParticipantState {
    /// Every state, in the order of precedence of [`Self::derive_at`].
    pub const ALL: [Self; 7] =
        [Self::Repaid, Self::Slashed, Self::Revoked, Self::Expired, Self::Future, Self::Active, Self::Inactive];

    /// Name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Repaid => "REPAID",
            Self::Slashed => "SLASHED",
            Self::Revoked => "REVOKED",
            Self::Expired => "EXPIRED",
            Self::Future => "FUTURE",
            Self::Active => "ACTIVE",
            Self::Inactive => "INACTIVE",
        }
    }

    /// State of a participant, given as the indexer's JSON, at `now` in nanoseconds since the epoch.
    ///
    /// Several conditions can hold at once; the first one in the order of [`Self::ALL`] decides. A slash has no start
    /// instant: a body that names one is slashed at every `now`. This is the state that the indexer's reads show.
    /// [`ParticipantInstants::chain_state_at`] decides about rights.
    pub fn derive_at(body: &Value, now: i128) -> Self {
        ParticipantInstants::of_json(body).state_at(now)
    }
}

/// The instants of a participant, in nanoseconds since the epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ParticipantInstants {
    /// Time of the slash.
    pub slashed: Option<i128>,
    /// Time of the repayment.
    pub repaid: Option<i128>,
    /// Time of the revocation.
    pub revoked: Option<i128>,
    /// Start of its effect.
    pub from: Option<i128>,
    /// End of its effect.
    pub until: Option<i128>,
    /// Whether its onboarding process is pending or terminated.
    pub is_unvalidated: bool,
}

impl ParticipantInstants {
    /// Reads the indexer's JSON of a participant.
    pub fn of_json(body: &Value) -> Self {
        let [slashed, repaid, revoked, from, until] =
            ["slashed", "repaid", "revoked", "effective_from", "effective_until"].map(|key| parse_instant(body, key));
        let is_unvalidated = matches!(body["op_state"].as_str(), Some("PENDING" | "TERMINATED"));
        Self { slashed, repaid, revoked, from, until, is_unvalidated }
    }

    /// State at `now` by the test that nodes of every generation apply before a participant may act.
    ///
    /// A participant without `effective_from` never begins. The oldest nodes store such participants, also validated ones, and an upgrade
    /// does not change them; from 0.10.3 on a node stores the block's time instead. A revocation counts at once, also when the caller's
    /// clock is a block late.
    pub fn chain_state_at(&self, now: i128) -> ParticipantState {
        let now = self.revoked.map_or(now, |revoked| revoked.max(now));
        match self.state_at(now) {
            ParticipantState::Active if self.from.is_none() => ParticipantState::Inactive,
            state => state,
        }
    }

    /// State at `now`, by the rules of [`ParticipantState::derive_at`].
    pub fn state_at(&self, now: i128) -> ParticipantState {
        use ParticipantState as State;
        let Self { slashed, repaid, revoked, from, until, is_unvalidated } = *self;
        if slashed.is_some_and(|slashed| repaid.is_some_and(|repaid| repaid >= slashed)) {
            State::Repaid
        } else if slashed.is_some() {
            State::Slashed
        } else if revoked.is_some_and(|revoked| revoked <= now) {
            State::Revoked
        } else if until.is_some_and(|until| until <= now) {
            State::Expired
        } else if from.is_some_and(|from| from > now) {
            State::Future
        } else if from.is_none() && is_unvalidated {
            State::Inactive
        } else {
            State::Active
        }
    }
}

#[cfg(test)]
mod tests {
    use ParticipantState as S;
    use serde_json::json;

    use super::*;

    fn time(second: u32) -> String {
        format!("1970-01-01T00:00:{second:02}.000Z")
    }

    #[test]
    fn the_first_condition_that_holds_decides_the_state() {
        let cases = [
            (json!({"slashed": time(5), "repaid": time(5), "revoked": time(1)}), S::Repaid),
            (json!({"slashed": time(5), "repaid": time(4)}), S::Slashed),
            (json!({"slashed": time(5), "effective_until": time(1)}), S::Slashed),
            (json!({"revoked": time(10), "effective_until": time(1)}), S::Revoked),
            (json!({"revoked": time(11), "effective_from": time(1)}), S::Active),
            (json!({"effective_from": time(1), "effective_until": time(10)}), S::Expired),
            (json!({"effective_from": time(11)}), S::Future),
            (json!({"effective_from": time(10), "effective_until": time(11)}), S::Active),
            (json!({"op_state": "PENDING"}), S::Inactive),
            (json!({"op_state": "TERMINATED"}), S::Inactive),
            (json!({"op_state": "VALIDATED"}), S::Active),
            (json!({"op_state": "PENDING", "effective_from": time(1)}), S::Active),
        ];
        for (body, expected) in cases {
            assert_eq!(ParticipantState::derive_at(&body, 10_000_000_000), expected, "{body}");
        }
    }

    #[test]
    fn on_the_chain_a_participant_without_a_beginning_is_never_active() {
        let cases = [
            (json!({"op_state": "VALIDATED"}), S::Inactive),
            (json!({"op_state": "VALIDATED", "effective_until": time(11)}), S::Inactive),
            // Nodes ask for the end first.
            (json!({"op_state": "VALIDATED", "effective_until": time(10)}), S::Expired),
            (json!({"op_state": "PENDING"}), S::Inactive),
            (json!({"op_state": "TERMINATED"}), S::Inactive),
            (json!({"slashed": time(5), "repaid": time(5)}), S::Repaid),
            (json!({"slashed": time(5)}), S::Slashed),
            (json!({"revoked": time(5)}), S::Revoked),
            // The clock is behind the block of the revocation.
            (json!({"revoked": time(11), "effective_from": time(1)}), S::Revoked),
            (json!({"effective_from": time(10), "effective_until": time(11)}), S::Active),
            (json!({"op_state": "PENDING", "effective_from": time(1)}), S::Active),
            (json!({"effective_from": time(11)}), S::Future),
            (json!({"effective_from": time(1), "effective_until": time(10)}), S::Expired),
        ];
        for (body, expected) in cases {
            assert_eq!(ParticipantInstants::of_json(&body).chain_state_at(10_000_000_000), expected, "{body}");
        }
    }
}
