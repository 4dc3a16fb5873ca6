//! Transactions between signature and outcome. Retained by the tree: the signer and the confirmer of any incarnation work on
//! the same table, and a call that is submitted twice finds its first transaction here.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use serde::Serialize;
use svc_wire::{
    chain_error::{ChainError, Meaning},
    comet::TxResult,
};

use crate::order::Order;

/// Number of a ledger call, unique in the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct CallId(pub u64);

/// How a transaction ended.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// In a block, with its result.
    Included {
        /// Height.
        height: u64,
        /// Result.
        result: Box<TxResult>,
    },
    /// Past its timeout height and absent: it can never execute.
    Expired {
        /// The timeout height.
        timeout_height: u64,
    },
    /// Another transaction has used its sequence: it can never execute.
    Displaced {
        /// Height by which that was so.
        height: u64,
    },
}

impl Outcome {
    /// Whether the transaction with this sequence has used it. One that fails before its messages run is in a block and uses
    /// nothing: the ante handler's changes are undone, and its events are not told.
    pub fn uses(&self, sequence: u64) -> bool {
        match self {
            Self::Included { result, .. } => result.code == 0 || passed_ante(result, sequence),
            Self::Expired { .. } | Self::Displaced { .. } => false,
        }
    }

    /// One word: `included`, `failed`, `expired`, `displaced`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Included { result, .. } if result.code == 0 => "included",
            Self::Included { .. } => "failed",
            Self::Expired { .. } => "expired",
            Self::Displaced { .. } => "displaced",
        }
    }
}

/// Whether a transaction got past the ante handler: only then its `tx.acc_seq` is told.
fn passed_ante(result: &TxResult, sequence: u64) -> bool {
    let attributes = result.events.iter().filter(|event| event.kind == "tx").flat_map(|event| &event.attributes);
    let is_own = |value: &str| value.rsplit_once('/').is_some_and(|(_, told)| told == sequence.to_string());
    attributes.into_iter().any(|attribute| attribute.key == "acc_seq" && is_own(&attribute.value))
}

/// What a result in a block means for a transaction; `None`: nothing yet, its sequence had not come, and the same bytes may
/// still execute.
pub fn in_block(height: u64, result: Box<TxResult>, sequence: u64, timeout_height: u64) -> Option<Outcome> {
    let outcome = Outcome::Included { height, result };
    let Outcome::Included { result, .. } = &outcome else { return None };
    if outcome.uses(sequence) {
        return Some(outcome);
    }
    let error = ChainError { codespace: result.codespace.clone(), code: result.code, raw_log: result.log.clone() };
    match error.meaning() {
        Meaning::WrongSequence { .. } => None,
        Meaning::TimeoutHeight => Some(Outcome::Expired { timeout_height }),
        _ => Some(outcome),
    }
}

/// A signed transaction.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The call it was signed for.
    pub call: CallId,
    /// Upper-case hex.
    pub hash: String,
    /// The bytes, to send again: never are others signed for a sequence that may still execute.
    pub bytes: Vec<u8>,
    /// Its sequence.
    pub sequence: u64,
    /// Past this height it can never execute.
    pub timeout_height: u64,
    /// Height at which it was signed: it is in no earlier block.
    pub signed_height: u64,
    /// What it was signed for.
    pub order: Arc<Order>,
    /// Whether the fee is paid by the corporation.
    pub has_granter: bool,
    /// How it ended; `None` while it may still execute.
    pub outcome: Option<Outcome>,
}

/// The table.
#[derive(Debug, Default, Clone)]
pub struct InFlight {
    entries: BTreeMap<String, Entry>,
    by_call: BTreeMap<CallId, String>,
    live: BTreeSet<(u64, String)>,
    decided: VecDeque<String>,
    floor: u64,
}

/// Decided transactions that stay known: more than calls can be under way, so that none is forgotten before its run has ended.
const DECIDED_KEPT: usize = 10_000;

impl InFlight {
    /// A table of an account that has used every sequence below `floor`.
    pub fn with_floor(floor: u64) -> Self {
        Self { floor, ..Self::default() }
    }

    /// Adds a transaction before it is sent.
    pub fn add(&mut self, entry: Entry) {
        self.by_call.insert(entry.call, entry.hash.clone());
        self.live.insert((entry.sequence, entry.hash.clone()));
        self.entries.insert(entry.hash.clone(), entry);
    }

    /// Forgets a transaction that the node refused and that therefore never was in flight.
    pub fn retract(&mut self, hash: &str) {
        if self.entries.get(hash).is_some_and(|entry| entry.outcome.is_none()) {
            self.forget(hash);
        }
    }

    fn forget(&mut self, hash: &str) {
        let Some(entry) = self.entries.remove(hash) else { return };
        self.live.remove(&(entry.sequence, entry.hash));
        if self.by_call.get(&entry.call).is_some_and(|known| known == hash) {
            self.by_call.remove(&entry.call);
        }
    }

    /// Notes how a transaction ended; false when it is unknown or was decided before. A decided outcome never changes.
    pub fn decide(&mut self, hash: &str, outcome: Outcome) -> bool {
        let Some(entry) = self.entries.get_mut(hash).filter(|entry| entry.outcome.is_none()) else { return false };
        if outcome.uses(entry.sequence) {
            self.floor = self.floor.max(entry.sequence + 1);
        }
        entry.outcome = Some(outcome);
        // Never to be sent again.
        entry.bytes = Vec::new();
        self.live.remove(&(entry.sequence, entry.hash.clone()));
        self.decided.push_back(hash.to_owned());
        if self.decided.len() > DECIDED_KEPT
            && let Some(oldest) = self.decided.pop_front()
        {
            self.forget(&oldest);
        }
        true
    }

    /// A transaction by hash.
    pub fn get(&self, hash: &str) -> Option<&Entry> {
        self.entries.get(hash)
    }

    /// Hashes of all that is known.
    pub fn hashes(&self) -> Vec<String> {
        self.entries.keys().cloned().collect()
    }

    /// The transaction of a call.
    pub fn of_call(&self, call: CallId) -> Option<&Entry> {
        self.entries.get(self.by_call.get(&call)?)
    }

    /// Everything that is known.
    pub fn all(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// Transactions that may still execute, in sequence order.
    pub fn live(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.live.iter().map(|(_, hash)| &self.entries[hash])
    }

    /// The transaction that may still execute at a sequence.
    pub fn live_at(&self, sequence: u64) -> Option<&Entry> {
        let (_, hash) = self.live.range((sequence, String::new())..).next().filter(|(found, _)| *found == sequence)?;
        self.entries.get(hash)
    }

    /// Every sequence below this one is used for certain: a transaction of ours is in a block with the one before.
    pub fn floor(&self) -> u64 {
        self.floor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(hash: &str, call: u64, sequence: u64) -> Entry {
        Entry {
            call: CallId(call),
            hash: hash.into(),
            bytes: Vec::new(),
            sequence,
            timeout_height: 10,
            signed_height: 1,
            order: Order::sample(),
            has_granter: false,
            outcome: None,
        }
    }

    fn expired() -> Outcome {
        Outcome::Expired { timeout_height: 10 }
    }

    #[test]
    fn an_outcome_is_decided_once_and_stays_known() {
        let mut table = InFlight::default();
        table.add(entry("B", 2, 8));
        table.add(entry("A", 1, 7));
        assert_eq!(table.live().map(|entry| entry.sequence).collect::<Vec<_>>(), [7, 8]);
        assert!(table.decide("A", expired()));
        assert!(!table.decide("A", expired()));
        table.retract("A");
        assert!(table.of_call(CallId(1)).is_some_and(|entry| entry.outcome.is_some()));
        table.retract("B");
        assert!(table.live().len() == 0 && table.live_at(8).is_none());
    }

    #[test]
    fn what_is_included_shows_which_sequences_are_used() {
        let mut table = InFlight::with_floor(3);
        table.add(entry("A", 1, 7));
        table.decide("A", expired());
        assert_eq!(table.floor(), 3, "what never executed used nothing");
        table.add(entry("B", 2, 7));
        table.decide("B", Outcome::Included { height: 9, result: Box::default() });
        assert_eq!(table.floor(), 8);
    }

    #[test]
    fn a_failure_before_the_messages_uses_no_sequence_and_a_wrong_sequence_decides_nothing() {
        use svc_wire::comet::{AbciEvent, Attribute};
        let acc_seq = |text: &str| AbciEvent {
            kind: "tx".to_owned(),
            attributes: vec![Attribute { key: "acc_seq".to_owned(), value: text.to_owned(), index: true }],
        };
        let result = |code, events| TxResult { code, codespace: "sdk".to_owned(), events, ..TxResult::default() };
        for (given, word, uses) in [
            (result(0, vec![]), Some("included"), true),
            (result(5, vec![acc_seq("a/7")]), Some("failed"), true),
            (result(5, vec![acc_seq("a/17"), acc_seq("a/6")]), Some("failed"), false),
            (result(38, vec![]), Some("failed"), false),
            (result(32, vec![]), None, false),
            (result(30, vec![]), Some("expired"), false),
        ] {
            let shown = format!("{given:?}");
            let outcome = in_block(9, Box::new(given), 7, 20);
            assert_eq!(outcome.as_ref().map(Outcome::word), word, "{shown}");
            assert_eq!(outcome.is_some_and(|outcome| outcome.uses(7)), uses, "{shown}");
        }
    }

    #[test]
    fn old_decisions_make_room() {
        let mut table = InFlight::default();
        for index in 0..=DECIDED_KEPT as u64 {
            let hash = format!("{index:08}");
            table.add(entry(&hash, index, index));
            table.decide(&hash, expired());
        }
        assert!(table.of_call(CallId(0)).is_none() && table.of_call(CallId(1)).is_some());
    }
}
