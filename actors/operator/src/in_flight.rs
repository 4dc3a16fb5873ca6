//! Transactions between signature and outcome. Retained by the tree: the signer and the confirmer of any incarnation work on
//! the same table, and a call that is submitted twice finds its first transaction here.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;
use svc_wire::comet::TxResult;

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
    /// Whether the fee is paid by the corporation.
    pub has_granter: bool,
    /// How it ended; `None` while it may still execute.
    pub outcome: Option<Outcome>,
}

/// The table.
#[derive(Debug, Default)]
pub struct InFlight {
    entries: BTreeMap<String, Entry>,
    decided: VecDeque<String>,
}

/// Decided transactions that stay known, for callers that ask late.
const DECIDED_KEPT: usize = 1_000;

impl InFlight {
    /// Adds a transaction before it is sent.
    pub fn add(&mut self, entry: Entry) {
        self.entries.insert(entry.hash.clone(), entry);
    }

    /// Forgets a transaction that the node refused and that therefore never was in flight.
    pub fn retract(&mut self, hash: &str) {
        if self.entries.get(hash).is_some_and(|entry| entry.outcome.is_none()) {
            self.entries.remove(hash);
        }
    }

    /// Notes how a transaction ended; false when it is unknown or was decided before. A decided outcome never changes.
    pub fn decide(&mut self, hash: &str, outcome: Outcome) -> bool {
        let Some(entry) = self.entries.get_mut(hash).filter(|entry| entry.outcome.is_none()) else { return false };
        entry.outcome = Some(outcome);
        self.decided.push_back(hash.to_owned());
        if self.decided.len() > DECIDED_KEPT
            && let Some(oldest) = self.decided.pop_front()
        {
            self.entries.remove(&oldest);
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
        self.entries.values().find(|entry| entry.call == call)
    }

    /// Transactions that may still execute, in sequence order.
    pub fn live(&self) -> Vec<&Entry> {
        let mut live: Vec<_> = self.entries.values().filter(|entry| entry.outcome.is_none()).collect();
        live.sort_by_key(|entry| entry.sequence);
        live
    }

    /// The transaction that may still execute at a sequence.
    pub fn live_at(&self, sequence: u64) -> Option<&Entry> {
        self.entries.values().find(|entry| entry.outcome.is_none() && entry.sequence == sequence)
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
        assert_eq!(table.live().iter().map(|entry| entry.sequence).collect::<Vec<_>>(), [7, 8]);
        assert!(table.decide("A", expired()));
        assert!(!table.decide("A", expired()));
        table.retract("A");
        assert!(table.of_call(CallId(1)).is_some_and(|entry| entry.outcome.is_some()));
        table.retract("B");
        assert!(table.live().is_empty() && table.live_at(8).is_none());
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
