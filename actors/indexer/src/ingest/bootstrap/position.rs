//! The place that the read of a first state has reached. Pure.
//!
//! The rows of an entity need those of others, which are therefore read first: the ecosystem of a schema, the schema of a participant and the
//! validators above it, the participants of a session, the proposal of a vote. The chain gives a participant a greater id than its validator.

use serde::{Deserialize, Serialize};

use crate::block::EntityRef;

/// Kinds of entities that are read by their ids. No entity of theirs is ever removed, so that an empty batch of ids is the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScannedKind {
    Corporation,
    ExchangeRate,
    Ecosystem,
    Schema,
    Participant,
}

impl ScannedKind {
    /// Returns the reference to an entity of the kind.
    pub fn entity(self, id: u64) -> EntityRef {
        match self {
            Self::Corporation => EntityRef::Corporation(id),
            Self::ExchangeRate => EntityRef::ExchangeRate(id),
            Self::Ecosystem => EntityRef::Ecosystem(id),
            Self::Schema => EntityRef::Schema(id),
            Self::Participant => EntityRef::Participant(id),
        }
    }
}

/// The lists of a corporation, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnedList {
    Proposals,
    Allowances,
    Authorizations,
}

/// The list of the node that is read next. Stores keep it as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartPosition {
    /// Entities of a kind, from an id on. `is_last`: nothing else follows.
    Ids { kind: ScannedKind, first: u64, is_last: bool },
    /// The first corporation after an id.
    NextCorporation { after: u64 },
    /// A list of a corporation, from a key of the node on.
    OfCorporation { id: u64, policy: String, list: OwnedList, key: Vec<u8> },
    /// Sessions that changed after an instant, nanoseconds since the epoch.
    Sessions { after: Option<i128> },
    /// The digests of the genesis.
    GenesisDigests,
    /// Votes on a proposal from a key of the node on; without a key those on the first proposal after it.
    Votes { proposal: u64, key: Vec<u8> },
    /// Everything is read.
    End,
}

impl StartPosition {
    /// The first list.
    pub const FIRST: Self = Self::Ids { kind: ScannedKind::Corporation, first: 1, is_last: false };
    /// The list after those of the last corporation.
    pub const AFTER_CORPORATIONS: Self = Self::Ids { kind: ScannedKind::Participant, first: 1, is_last: false };

    /// The list after one of entities by their ids. `next_id` is there while the kind has not ended.
    pub fn after_ids(kind: ScannedKind, (first, is_last): (u64, bool), is_empty: bool, next_id: Option<u64>) -> Self {
        if let Some(first) = next_id {
            return Self::Ids { kind, first, is_last };
        }
        let begin = |kind, is_last| Self::Ids { kind, first: 1, is_last };
        match kind {
            // Everything but exchange rates belongs to a corporation, and no corporation is ever removed.
            ScannedKind::Corporation => begin(ScannedKind::ExchangeRate, first == 1 && is_empty),
            ScannedKind::ExchangeRate if is_last => Self::End,
            ScannedKind::ExchangeRate => begin(ScannedKind::Ecosystem, false),
            ScannedKind::Ecosystem => begin(ScannedKind::Schema, false),
            ScannedKind::Schema => Self::NextCorporation { after: 0 },
            ScannedKind::Participant => Self::Sessions { after: None },
        }
    }

    /// The list after one of a corporation, of which the node has given the key of the next page; the key is empty after the last one.
    pub fn after_list(id: u64, policy: &str, list: OwnedList, key: Vec<u8>) -> Self {
        let next = match list {
            _ if !key.is_empty() => Some(list),
            OwnedList::Proposals => Some(OwnedList::Allowances),
            OwnedList::Allowances => Some(OwnedList::Authorizations),
            OwnedList::Authorizations => None,
        };
        match next {
            Some(list) => Self::OfCorporation { id, policy: policy.to_owned(), list, key },
            None => Self::NextCorporation { after: id },
        }
    }

    /// The list after the last one of sessions, at a height.
    pub fn after_sessions(height: u64) -> Self {
        if height == 1 { Self::GenesisDigests } else { Self::FIRST_VOTES }
    }

    /// The votes on the first proposal.
    pub const FIRST_VOTES: Self = Self::Votes { proposal: 0, key: Vec::new() };

    /// Whether the entries of two lists may stand in one page: neither needs the rows of the other one, and both are short.
    pub fn joins(&self, next: &Self) -> bool {
        let is_owned = |one: &Self| matches!(one, Self::NextCorporation { .. } | Self::OfCorporation { .. });
        let is_votes = |one: &Self| matches!(one, Self::Votes { .. });
        (is_owned(self) && is_owned(next)) || (is_votes(self) && is_votes(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_followed_by_the_one_that_needs_it() {
        use ScannedKind::{Corporation, Ecosystem, ExchangeRate, Participant, Schema};
        let ids = |kind, first, is_last| StartPosition::Ids { kind, first, is_last };
        for (kind, first, is_last, is_empty, next_id, expected) in [
            (Corporation, 1, false, false, Some(1_025), ids(Corporation, 1_025, false)),
            (Corporation, 1_025, false, true, None, ids(ExchangeRate, 1, false)),
            // A registry without a corporation has exchange rates alone.
            (Corporation, 1, false, true, None, ids(ExchangeRate, 1, true)),
            (ExchangeRate, 1, true, false, Some(1_025), ids(ExchangeRate, 1_025, true)),
            (ExchangeRate, 1, true, false, None, StartPosition::End),
            (ExchangeRate, 1, false, true, None, ids(Ecosystem, 1, false)),
            (Ecosystem, 1, false, true, None, ids(Schema, 1, false)),
            (Schema, 1, false, false, None, StartPosition::NextCorporation { after: 0 }),
            (Participant, 7, false, false, None, StartPosition::Sessions { after: None }),
        ] {
            assert_eq!(
                StartPosition::after_ids(kind, (first, is_last), is_empty, next_id),
                expected,
                "{kind:?} {first}"
            );
        }
        assert_eq!(StartPosition::after_sessions(1), StartPosition::GenesisDigests);
        assert_eq!(StartPosition::after_sessions(2), StartPosition::FIRST_VOTES);
    }

    #[test]
    fn the_lists_of_a_corporation_are_read_to_their_ends_in_order() {
        use OwnedList::{Allowances, Authorizations, Proposals};
        let of = |list, key: &[u8]| StartPosition::OfCorporation { id: 7, policy: "p".into(), list, key: key.to_vec() };
        for (list, key, expected) in [
            (Proposals, vec![1], of(Proposals, &[1])),
            (Proposals, vec![], of(Allowances, &[])),
            (Allowances, vec![2], of(Allowances, &[2])),
            (Allowances, vec![], of(Authorizations, &[])),
            (Authorizations, vec![], StartPosition::NextCorporation { after: 7 }),
        ] {
            assert_eq!(StartPosition::after_list(7, "p", list, key), expected, "{list:?}");
        }
    }

    #[test]
    fn a_position_is_kept_as_text() {
        for position in [
            StartPosition::FIRST,
            StartPosition::after_list(7, "p", OwnedList::Proposals, vec![0, 255]),
            StartPosition::Sessions { after: Some(1_700_000_000_123_456_789) },
            StartPosition::Votes { proposal: 3, key: vec![1] },
            StartPosition::End,
        ] {
            let text = serde_json::to_string(&position).expect("JSON");
            assert_eq!(serde_json::from_str::<StartPosition>(&text).expect("read"), position, "{text}");
        }
        assert!(serde_json::from_str::<StartPosition>("{\"of_another_release\":{}}").is_err());
    }
}
