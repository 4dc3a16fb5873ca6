//! The available actions of a participant, and the instants at which its state changes. Pure.

use serde_json::Value;
use svc_wire::{participant_state::ParticipantState, timestamp::parse_instant};

/// Returns the instants after `now` at which time alone changes the state of a participant.
pub fn state_changes_after(body: &Value, now: i128) -> impl Iterator<Item = i128> {
    let instants = ["effective_from", "effective_until"].map(|key| parse_instant(body, key));
    instants.into_iter().flatten().filter(move |instant| *instant > now)
}

/// Whether a participant ends soon, as a hint in lists; `None` for one without an end.
pub fn expires_soon(body: &Value, state: ParticipantState, now: i128) -> Option<bool> {
    const SOON: i128 = 30 * 24 * 3600 * 1_000_000_000;
    let until = parse_instant(body, "effective_until")?;
    Some(state == ParticipantState::Active && until - now <= SOON)
}

/// The available actions of a participant, for its corporation and for its validator.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AvailableActions {
    pub corporation: Vec<&'static str>,
    pub validator: Vec<&'static str>,
}

/// Returns the available actions, which are hints: the chain decides. `mode` is the onboarding mode of the schema for
/// the role.
pub fn available_actions(
    body: &Value,
    state: ParticipantState,
    mode: Option<&str>,
    is_validator_active: bool,
) -> AvailableActions {
    let role = body["role"].as_str().unwrap_or_default();
    let is_onboarded = match role {
        "ECOSYSTEM" => false,
        "HOLDER" => true,
        _ => mode.is_some_and(|mode| mode != "OPEN"),
    };
    let op_state = body["op_state"].as_str().unwrap_or_default();
    let (is_validated, is_pending) = (op_state == "VALIDATED", op_state == "PENDING");
    let is_running = matches!(state, ParticipantState::Active | ParticipantState::Future);
    let is_usable = is_running || state == ParticipantState::Inactive;
    let mut actions = AvailableActions::default();
    let own = &mut actions.corporation;
    if state == ParticipantState::Slashed {
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
    fn state_changes_are_the_instants_after_now() {
        let body = json!({"effective_from": time(5), "effective_until": time(20)});
        assert_eq!(state_changes_after(&body, at(5)).collect::<Vec<_>>(), [at(20)]);
        assert_eq!(state_changes_after(&body, at(1)).count(), 2);
        assert_eq!(expires_soon(&body, ParticipantState::Active, at(6)), Some(true));
        assert_eq!(expires_soon(&json!({}), ParticipantState::Active, at(6)), None);
    }

    #[test]
    fn actions_follow_the_table() {
        let onboarded = |op_state: &str| json!({"role": "ISSUER", "op_state": op_state});
        let mode = Some("GRANTOR_ONBOARDING_PROCESS");
        let cases = [
            (
                available_actions(&onboarded("VALIDATED"), ParticipantState::Active, mode, true),
                vec!["RenewParticipantOP", "RevokeParticipant"],
                vec!["SetParticipantEffectiveUntil", "RevokeParticipant", "SlashParticipantTrustDeposit"],
            ),
            (
                available_actions(&onboarded("VALIDATED"), ParticipantState::Active, mode, false),
                vec!["RevokeParticipant"],
                vec!["SetParticipantEffectiveUntil", "RevokeParticipant", "SlashParticipantTrustDeposit"],
            ),
            (
                available_actions(&onboarded("PENDING"), ParticipantState::Inactive, mode, true),
                vec!["CancelParticipantOPLastRequest"],
                vec!["SetParticipantOPtoValidated", "SlashParticipantTrustDeposit"],
            ),
            (
                available_actions(&onboarded("VALIDATED"), ParticipantState::Slashed, mode, true),
                vec!["RepayParticipantSlashedTrustDeposit"],
                vec!["SlashParticipantTrustDeposit"],
            ),
            (
                available_actions(&onboarded("TERMINATED"), ParticipantState::Inactive, mode, true),
                vec![],
                vec!["SlashParticipantTrustDeposit"],
            ),
            (
                available_actions(&onboarded("VALIDATED"), ParticipantState::Future, Some("OPEN"), true),
                vec!["RevokeParticipant", "SetParticipantEffectiveUntil"],
                vec![],
            ),
            (
                available_actions(
                    &json!({"role": "ECOSYSTEM", "op_state": "VALIDATED"}),
                    ParticipantState::Expired,
                    None,
                    false,
                ),
                vec![],
                vec![],
            ),
            (
                available_actions(
                    &json!({"role": "HOLDER", "op_state": "VALIDATED"}),
                    ParticipantState::Revoked,
                    None,
                    true,
                ),
                vec![],
                vec!["SlashParticipantTrustDeposit"],
            ),
        ];
        for (found, corporation, validator) in cases {
            assert_eq!(found, AvailableActions { corporation, validator });
        }
    }
}
