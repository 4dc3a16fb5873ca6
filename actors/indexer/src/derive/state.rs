//! What a participant is at an instant, and what may be done with it. Pure.

use serde_json::Value;
use svc_wire::instant;

/// State of a participant, derived from its timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParticipantState {
    Repaid,
    Slashed,
    Revoked,
    Expired,
    Future,
    Active,
    Inactive,
}

use ParticipantState as S;

impl ParticipantState {
    /// All, in the order in which they are looked for.
    pub const ALL: [Self; 7] = [S::Repaid, S::Slashed, S::Revoked, S::Expired, S::Future, S::Active, S::Inactive];

    /// Name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            S::Repaid => "REPAID",
            S::Slashed => "SLASHED",
            S::Revoked => "REVOKED",
            S::Expired => "EXPIRED",
            S::Future => "FUTURE",
            S::Active => "ACTIVE",
            S::Inactive => "INACTIVE",
        }
    }

    /// State of a stored participant at `now`; the first row that holds wins.
    pub fn at(body: &Value, now: i128) -> Self {
        let [slashed, repaid, revoked, from, until] =
            ["slashed", "repaid", "revoked", "effective_from", "effective_until"].map(|key| instant_of(body, key));
        if slashed.is_some_and(|slashed| repaid.is_some_and(|repaid| repaid >= slashed)) {
            S::Repaid
        } else if slashed.is_some() {
            S::Slashed
        } else if revoked.is_some_and(|revoked| revoked <= now) {
            S::Revoked
        } else if until.is_some_and(|until| until <= now) {
            S::Expired
        } else if from.is_some_and(|from| from > now) {
            S::Future
        } else if from.is_none() && matches!(body["op_state"].as_str(), Some("PENDING" | "TERMINATED")) {
            S::Inactive
        } else {
            S::Active
        }
    }
}

/// An instant in a stored body, in nanoseconds.
pub fn instant_of(body: &Value, key: &str) -> Option<i128> {
    body[key].as_str().and_then(instant::parse_rfc3339).as_ref().map(instant::nanos)
}

/// Instants after `now` at which the state of a participant changes by itself.
pub fn flips_after(body: &Value, now: i128) -> impl Iterator<Item = i128> {
    let instants = ["effective_from", "effective_until"].map(|key| instant_of(body, key));
    instants.into_iter().flatten().filter(move |instant| *instant > now)
}

/// Whether a participant's end is near, for people who look at lists; nothing for one without an end.
pub fn expires_soon(body: &Value, state: ParticipantState, now: i128) -> Option<bool> {
    const SOON: i128 = 30 * 24 * 3600 * 1_000_000_000;
    let until = instant_of(body, "effective_until")?;
    Some(state == S::Active && until - now <= SOON)
}

/// What may be done with a participant, by whom.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Actions {
    pub corporation: Vec<&'static str>,
    pub validator: Vec<&'static str>,
}

/// Available actions: hints for people, the chain decides. `mode` is the schema's onboarding mode for the role.
pub fn actions(body: &Value, state: ParticipantState, mode: Option<&str>, is_validator_active: bool) -> Actions {
    let role = body["role"].as_str().unwrap_or_default();
    let is_onboarded = match role {
        "ECOSYSTEM" => false,
        "HOLDER" => true,
        _ => mode.is_some_and(|mode| mode != "OPEN"),
    };
    let op_state = body["op_state"].as_str().unwrap_or_default();
    let (is_validated, is_pending) = (op_state == "VALIDATED", op_state == "PENDING");
    let is_running = matches!(state, S::Active | S::Future);
    let is_usable = is_running || state == S::Inactive;
    let mut actions = Actions::default();
    let own = &mut actions.corporation;
    if state == S::Slashed {
        own.push("RepayParticipantSlashedTrustDeposit");
    } else if op_state != "TERMINATED" && is_onboarded {
        if is_validated && is_usable && is_validator_active {
            own.push("RenewParticipantOP");
        }
        if is_pending && is_usable {
            own.push("CancelParticipantOPLastRequest");
        }
        if (is_validated || is_pending) && is_running {
            own.push("RevokeParticipant");
        }
    } else if op_state != "TERMINATED" && is_usable {
        own.extend(["RevokeParticipant", "SetParticipantEffectiveUntil"]);
    }
    if is_onboarded {
        let theirs = &mut actions.validator;
        if is_running && is_validated {
            theirs.push("SetParticipantEffectiveUntil");
        }
        if is_running {
            theirs.push("RevokeParticipant");
        }
        if is_usable && is_pending {
            theirs.push("SetParticipantOPtoValidated");
        }
        theirs.push("SlashParticipantTrustDeposit");
    }
    actions
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i128) -> i128 {
        second * 1_000_000_000
    }

    fn time(second: u32) -> String {
        format!("1970-01-01T00:00:{second:02}.000Z")
    }

    #[test]
    fn the_first_row_that_holds_wins() {
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
            assert_eq!(ParticipantState::at(&body, at(10)), expected, "{body}");
        }
    }

    #[test]
    fn flips_are_the_instants_still_to_come() {
        let body = json!({"effective_from": time(5), "effective_until": time(20)});
        assert_eq!(flips_after(&body, at(5)).collect::<Vec<_>>(), [at(20)]);
        assert_eq!(flips_after(&body, at(1)).count(), 2);
        assert_eq!(expires_soon(&body, S::Active, at(6)), Some(true));
        assert_eq!(expires_soon(&json!({}), S::Active, at(6)), None);
    }

    #[test]
    fn actions_follow_the_table() {
        let onboarded = |op_state: &str| json!({"role": "ISSUER", "op_state": op_state});
        let mode = Some("GRANTOR_ONBOARDING_PROCESS");
        let cases = [
            (
                actions(&onboarded("VALIDATED"), S::Active, mode, true),
                vec!["RenewParticipantOP", "RevokeParticipant"],
                vec!["SetParticipantEffectiveUntil", "RevokeParticipant", "SlashParticipantTrustDeposit"],
            ),
            (
                actions(&onboarded("VALIDATED"), S::Active, mode, false),
                vec!["RevokeParticipant"],
                vec!["SetParticipantEffectiveUntil", "RevokeParticipant", "SlashParticipantTrustDeposit"],
            ),
            (
                actions(&onboarded("PENDING"), S::Inactive, mode, true),
                vec!["CancelParticipantOPLastRequest"],
                vec!["SetParticipantOPtoValidated", "SlashParticipantTrustDeposit"],
            ),
            (
                actions(&onboarded("VALIDATED"), S::Slashed, mode, true),
                vec!["RepayParticipantSlashedTrustDeposit"],
                vec!["SlashParticipantTrustDeposit"],
            ),
            (actions(&onboarded("TERMINATED"), S::Inactive, mode, true), vec![], vec!["SlashParticipantTrustDeposit"]),
            (
                actions(&onboarded("VALIDATED"), S::Future, Some("OPEN"), true),
                vec!["RevokeParticipant", "SetParticipantEffectiveUntil"],
                vec![],
            ),
            (actions(&json!({"role": "ECOSYSTEM", "op_state": "VALIDATED"}), S::Expired, None, false), vec![], vec![]),
            (
                actions(&json!({"role": "HOLDER", "op_state": "VALIDATED"}), S::Revoked, None, true),
                vec![],
                vec!["SlashParticipantTrustDeposit"],
            ),
        ];
        for (found, corporation, validator) in cases {
            assert_eq!(found, Actions { corporation, validator });
        }
    }
}
