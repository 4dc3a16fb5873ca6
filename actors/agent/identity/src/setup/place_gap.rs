//! The reasons for which the place of a participant is not known, in words for the operator. Pure.

use prost_types::Timestamp;
use svc_wire::{proto::svc::pp::v1::Participant, timestamp};

use super::facts::{GapEnd, MissingPlace};
use crate::registry::MissingSchema;

/// Participants that a reason names.
const MAX_NAMED: usize = 8;

/// A reason for which a place is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PlaceGap {
    /// The registry or an ecosystem did not answer. The agent's own document changes while it is read.
    #[error("the schema of {kind} cannot be read: {reason}")]
    Unreadable { kind: &'static str, reason: String, is_own: bool },
    /// No trusted ecosystem gives the schema.
    #[error(transparent)]
    Schema(#[from] MissingSchema),
    /// The schema of the agent's ecosystem lacks its root.
    #[error(
        "the ecosystem is this agent's own, and its schema {schema} has no active ECOSYSTEM participant: the operator sends \
         svc.ledger.pp.createRootParticipant"
    )]
    OwnRoot { schema: u64 },
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
    /// The registry has such a participant, which begins later.
    #[error("participant {id}, the {kind}, begins at {}", time_text(.begins))]
    Begins { id: u64, kind: String, begins: i64 },
}

fn time_text(seconds: &i64) -> String {
    timestamp::iso_seconds(&Timestamp { seconds: *seconds, nanos: 0 })
}

impl PlaceGap {
    /// The gap until the participant begins that is the next to do so.
    pub(super) fn until(self, next: Option<&Participant>) -> Self {
        match (self, next) {
            (Self::Participant { kind }, Some(next)) => {
                let begins = next.effective_from.as_ref().map(|from| from.seconds).unwrap_or_default();
                Self::Begins { id: next.id, kind, begins }
            }
            (gap, _) => gap,
        }
    }

    fn end(&self) -> GapEnd {
        match self {
            Self::Unreadable { is_own: true, .. } => GapEnd::NextRead,
            Self::Unreadable { .. } | Self::Schema(MissingSchema::Foreign { .. }) | Self::Participant { .. } => {
                GapEnd::Other
            }
            Self::Schema(MissingSchema::Unpresented { schema }) => GapEnd::Presentation(*schema),
            Self::Begins { begins, .. } => GapEnd::Time(*begins),
            Self::Schema(MissingSchema::NoEcosystem { .. } | MissingSchema::Own { .. })
            | Self::OwnRoot { .. }
            | Self::NamedInactive { .. }
            | Self::NamedWithoutSchema { .. }
            | Self::Several { .. } => GapEnd::Operator,
        }
    }
}

impl From<PlaceGap> for MissingPlace {
    fn from(gap: PlaceGap) -> Self {
        Self { reason: gap.to_string(), end: gap.end() }
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
    fn each_reason_says_the_thing_and_the_end_of_it() {
        let kind = "ServiceCredential";
        let begins = 1_800_000_025;
        for (gap, end, text) in [
            (
                PlaceGap::Unreadable { kind, reason: "the node does not answer".to_owned(), is_own: false },
                GapEnd::Other,
                "the schema of ServiceCredential cannot be read: the node does not answer",
            ),
            (
                PlaceGap::Unreadable { kind, reason: "the file is gone".to_owned(), is_own: true },
                GapEnd::NextRead,
                "the schema of ServiceCredential cannot be read: the file is gone",
            ),
            (
                MissingSchema::NoEcosystem { kind }.into(),
                GapEnd::Operator,
                "the registry has no ecosystem with this agent's DID yet, which is to have a schema of ServiceCredential: the operator sends \
                 svc.ledger.es.createEcosystem",
            ),
            (
                MissingSchema::Own { kind }.into(),
                GapEnd::Operator,
                "the ecosystem is this agent's own, and has no schema of ServiceCredential yet: the operator sends \
                 svc.ledger.cs.createCredentialSchema",
            ),
            (
                MissingSchema::Unpresented { schema: 7 }.into(),
                GapEnd::Presentation(7),
                "the ecosystem is this agent's own, and the credential of its schema 7 is not presented yet: step schema-7",
            ),
            (
                PlaceGap::OwnRoot { schema: 7 },
                GapEnd::Operator,
                "the ecosystem is this agent's own, and its schema 7 has no active ECOSYSTEM participant: the operator sends \
                 svc.ledger.pp.createRootParticipant",
            ),
            (
                MissingSchema::Foreign { kind }.into(),
                GapEnd::Other,
                "no ecosystem of TRUSTED_ECS_ECOSYSTEM_DIDS has a schema of ServiceCredential in use",
            ),
            (
                PlaceGap::NamedInactive { id: 9 },
                GapEnd::Operator,
                "participant 9 is no active ISSUER participant; --apply-to names it",
            ),
            (
                PlaceGap::NamedWithoutSchema { id: 9 },
                GapEnd::Operator,
                "participant 9 has no schema; --apply-to names it",
            ),
            (
                PlaceGap::Begins { id: 9, kind: "ECOSYSTEM participant of schema 7".to_owned(), begins },
                GapEnd::Time(begins),
                "participant 9, the ECOSYSTEM participant of schema 7, begins at 2027-01-15T08:00:25Z",
            ),
        ] {
            assert_eq!(MissingPlace::from(gap), MissingPlace { reason: text.to_owned(), end });
        }
    }

    #[test]
    fn a_participant_that_begins_later_gives_its_time_and_nothing_else_has_one() {
        let kind = "ECOSYSTEM participant of schema 7".to_owned();
        let effective_from = Some(Timestamp { seconds: 1_800_000_025, nanos: 0 });
        let next = Participant { id: 9, effective_from, ..Participant::default() };
        let without = PlaceGap::Participant { kind: kind.clone() };
        assert_eq!(without.clone().until(None), without);
        assert_eq!(without.until(Some(&next)), PlaceGap::Begins { id: 9, kind, begins: 1_800_000_025 });
        assert_eq!(PlaceGap::OwnRoot { schema: 7 }.until(Some(&next)), PlaceGap::OwnRoot { schema: 7 });
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
        assert_eq!(none.end, GapEnd::Other);
        let two = MissingPlace::from(choose_of(1..3).expect_err("two"));
        let text = "the registry has 2 active ISSUER participant of schema 3: choose with --apply-to: 1 (did:web:1), 2 (did:web:2)";
        assert_eq!((two.reason.as_str(), two.end), (text, GapEnd::Operator));
        let ten = choose_of(1..11).expect_err("ten").to_string();
        assert!(ten.starts_with("the registry has 10 active") && ten.ends_with("8 (did:web:8)"), "{ten}");
    }
}
