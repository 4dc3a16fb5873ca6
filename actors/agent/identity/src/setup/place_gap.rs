//! The reasons for which the place of a participant is not known, in words for the operator. Pure.

use svc_wire::proto::svc::pp::v1::Participant;

use super::facts::MissingPlace;
use crate::registry::MissingSchema;

/// Participants that a reason names.
const MAX_NAMED: usize = 8;

/// A reason for which a place is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PlaceGap {
    /// The registry did not answer.
    #[error("the schema of {kind} cannot be read: {reason}")]
    Unreadable { kind: &'static str, reason: String },
    /// No trusted ecosystem gives the schema.
    #[error(transparent)]
    Schema(#[from] MissingSchema),
    /// The participant that the operator has named issues nothing.
    #[error("participant {id} is no active ISSUER participant; --apply-to names it")]
    NamedInactive { id: u64 },
    /// The schema of the participant that the operator has named is not there.
    #[error("participant {id} has no schema; --apply-to names it")]
    NamedWithoutSchema { id: u64 },
    /// The operator has to choose one of several participants.
    #[error("the registry has {count} active {kind}: {choice}: {named}")]
    Several { count: usize, kind: String, choice: String, named: String },
    /// The registry has no such participant.
    #[error("the registry has no active {kind}")]
    Participant { kind: String },
}

impl From<PlaceGap> for MissingPlace {
    fn from(gap: PlaceGap) -> Self {
        // The others wait for another party, or for the registry.
        let is_operators = !matches!(
            gap,
            PlaceGap::Unreadable { .. }
                | PlaceGap::Schema(MissingSchema::Foreign { .. })
                | PlaceGap::Participant { .. }
        );
        Self { reason: gap.to_string(), is_operators, corporation_id: None }
    }
}

/// The only one of several participants. `kind` says which were looked for, and `choice` how one of several is chosen.
pub(super) fn choose(mut found: Vec<Participant>, kind: &str, choice: &str) -> Result<Participant, PlaceGap> {
    if found.len() > 1 {
        let named: Vec<String> = found.iter().take(MAX_NAMED).map(|one| format!("{} ({})", one.id, one.did)).collect();
        let (kind, choice, named) = (kind.to_owned(), choice.to_owned(), named.join(", "));
        return Err(PlaceGap::Several { count: found.len(), kind, choice, named });
    }
    found.pop().ok_or_else(|| PlaceGap::Participant { kind: kind.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_says_the_thing_and_the_party_that_can_change_it() {
        let kind = "ServiceCredential";
        for (gap, is_operators, text) in [
            (
                PlaceGap::Unreadable { kind, reason: "the node does not answer".to_owned() },
                false,
                "the schema of ServiceCredential cannot be read: the node does not answer",
            ),
            (
                MissingSchema::Own { kind }.into(),
                true,
                "the ecosystem is this agent's own, and has no schema of ServiceCredential yet",
            ),
            (
                MissingSchema::Unpresented { schema: 7 }.into(),
                true,
                "the ecosystem is this agent's own, and the credential of its schema 7 is not presented yet: step schema-7",
            ),
            (
                MissingSchema::Foreign { kind }.into(),
                false,
                "no ecosystem of TRUSTED_ECS_ECOSYSTEM_DIDS has a schema of ServiceCredential in use",
            ),
            (
                PlaceGap::NamedInactive { id: 9 },
                true,
                "participant 9 is no active ISSUER participant; --apply-to names it",
            ),
            (PlaceGap::NamedWithoutSchema { id: 9 }, true, "participant 9 has no schema; --apply-to names it"),
        ] {
            let expected = MissingPlace { reason: text.to_owned(), is_operators, corporation_id: None };
            assert_eq!(MissingPlace::from(gap), expected);
        }
    }

    #[test]
    fn one_participant_is_the_place_and_of_several_eight_are_named() {
        let participant = |id: u64| Participant { id, did: format!("did:web:{id}"), ..Participant::default() };
        let choose_of = |ids: std::ops::Range<u64>| {
            choose(ids.map(participant).collect(), "ISSUER participant of schema 3", "choose with --apply-to")
        };
        assert_eq!(choose_of(1..2).map(|chosen| chosen.id), Ok(1));
        let none = MissingPlace::from(choose_of(1..1).expect_err("none"));
        assert_eq!(none.reason, "the registry has no active ISSUER participant of schema 3");
        assert!(!none.is_operators);
        let two = MissingPlace::from(choose_of(1..3).expect_err("two"));
        let text = "the registry has 2 active ISSUER participant of schema 3: choose with --apply-to: 1 (did:web:1), 2 (did:web:2)";
        assert_eq!((two.reason.as_str(), two.is_operators), (text, true));
        let ten = choose_of(1..11).expect_err("ten").to_string();
        assert!(ten.starts_with("the registry has 10 active") && ten.ends_with("8 (did:web:8)"), "{ten}");
    }
}
