//! The schedule of lookups, and the meaning of their answers. Pure.

use std::collections::{HashMap, HashSet};

use svc_wire::comet_rpc::IncludedTx;

use crate::write::{
    in_flight::InFlightTx,
    outcome::{WriteOutcome, outcome_in_block},
};

/// Blocks between two lookups of a pending transaction.
const LOOKUP_INTERVAL_BLOCKS: u64 = 3;
/// Blocks past the timeout height after which absence proves expiry. A node indexes transactions shortly after their block.
const INDEX_DELAY_BLOCKS: u64 = 2;
/// The same bound when the sequence is used. Either a foreign transaction has used it, or the transaction itself has and the index
/// of the node is late.
const DISPLACEMENT_BLOCKS: u64 = 6;

/// A transaction that may still execute, as a lookup needs it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PendingTx {
    /// Upper-case hex.
    pub hash: String,
    /// Its sequence.
    pub sequence: u64,
    /// Past this height it can never execute.
    pub timeout_height: u64,
    /// No block up to this height contains it.
    pub signed_height: u64,
}

impl From<&InFlightTx> for PendingTx {
    fn from(tx: &InFlightTx) -> Self {
        Self {
            hash: tx.hash.clone(),
            sequence: tx.sequence,
            timeout_height: tx.timeout_height,
            signed_height: tx.signed_height,
        }
    }
}

/// Facts that a node stated about itself and about the account before a lookup. One node states all of them, because absence proves
/// something only about the blocks that this node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeFacts {
    /// Newest height.
    pub height: u64,
    /// Oldest height whose block the node has.
    pub earliest_height: u64,
    /// The account's sequence at that height or later; `None` when the node did not answer.
    pub sequence: Option<u64>,
}

/// The meaning of absence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AbsenceVerdict {
    /// Its timeout height has passed: it can never execute.
    Expired,
    /// Another transaction has used its sequence: it can never execute.
    Displaced,
    /// Its sequence is unused, so it should be in the mempool and may be missing there.
    Missing,
    /// Absence proves nothing yet.
    Undetermined,
}

/// Lookups of pending transactions: their schedule, and the heights that absence is judged by.
#[derive(Debug, Clone, Default)]
pub struct TxLookups {
    /// Height of the last lookup, by hash.
    last_lookup: HashMap<String, u64>,
    in_progress: HashSet<String>,
    /// Height at which the sequence was first found used while the transaction was absent.
    used_since: HashMap<String, u64>,
}

impl TxLookups {
    /// Starts the lookups that are due at `height` and yields their transactions.
    pub fn take_due(&mut self, pending: &[PendingTx], height: u64, includes_all: bool) -> Vec<PendingTx> {
        let known: HashSet<&str> = pending.iter().map(|one| one.hash.as_str()).collect();
        self.last_lookup.retain(|hash, _| known.contains(hash.as_str()));
        self.used_since.retain(|hash, _| known.contains(hash.as_str()));
        let mut due = Vec::new();
        for one in pending {
            let last = *self.last_lookup.entry(one.hash.clone()).or_insert(height);
            let is_late = height >= last + LOOKUP_INTERVAL_BLOCKS
                || height > one.timeout_height + INDEX_DELAY_BLOCKS
                || (self.used_since.contains_key(&one.hash) && height > last);
            if (includes_all || is_late) && self.in_progress.insert(one.hash.clone()) {
                self.last_lookup.insert(one.hash.clone(), height);
                due.push(one.clone());
            }
        }
        due
    }

    /// Ends a lookup.
    pub fn finish(&mut self, hash: &str) {
        self.in_progress.remove(hash);
    }

    /// Number of lookups under way.
    pub fn in_progress_count(&self) -> usize {
        self.in_progress.len()
    }

    /// The part of the state that decides outcomes.
    #[cfg(test)]
    pub fn fingerprint(&self) -> std::collections::BTreeMap<String, u64> {
        self.used_since.iter().map(|(hash, height)| (hash.clone(), *height)).collect()
    }

    /// Judges the absence of a transaction from a node that stated `facts` before the lookup.
    pub fn judge_absent(&mut self, pending: &PendingTx, facts: &NodeFacts) -> AbsenceVerdict {
        let is_used = facts.sequence.is_some_and(|sequence| sequence > pending.sequence);
        if !is_used {
            self.used_since.remove(&pending.hash);
        }
        let used_since =
            if is_used { Some(*self.used_since.entry(pending.hash.clone()).or_insert(facts.height)) } else { None };
        judge_absence(pending, facts, used_since)
    }
}

/// The outcome that a lookup proves, or the meaning of absence. A transaction in a block that came before its sequence was due counts
/// as absent.
pub fn judge_lookup(
    lookups: &mut TxLookups,
    pending: &PendingTx,
    facts: &NodeFacts,
    found: Option<Box<IncludedTx>>,
) -> Result<WriteOutcome, AbsenceVerdict> {
    let in_block = found
        .and_then(|tx| outcome_in_block(tx.height, Box::new(tx.tx_result), pending.sequence, pending.timeout_height));
    match in_block {
        Some(outcome) => Ok(outcome),
        None => match lookups.judge_absent(pending, facts) {
            AbsenceVerdict::Expired => Ok(WriteOutcome::Expired { timeout_height: pending.timeout_height }),
            AbsenceVerdict::Displaced => Ok(WriteOutcome::Displaced { height: facts.height }),
            undecided => Err(undecided),
        },
    }
}

/// The meaning of absence; `used_since` is the height at which its sequence was first found used.
pub(super) fn judge_absence(pending: &PendingTx, facts: &NodeFacts, used_since: Option<u64>) -> AbsenceVerdict {
    let is_past = |blocks: u64| facts.height > pending.timeout_height + blocks;
    // The account's state shows that the sequence was never used. The index of the node does not matter.
    if facts.sequence.is_some_and(|sequence| sequence <= pending.sequence) {
        return if is_past(INDEX_DELAY_BLOCKS) { AbsenceVerdict::Expired } else { AbsenceVerdict::Missing };
    }
    let has_all_blocks = facts.earliest_height <= pending.signed_height + 1;
    if !has_all_blocks {
        return AbsenceVerdict::Undetermined;
    }
    if is_past(DISPLACEMENT_BLOCKS) {
        return AbsenceVerdict::Expired;
    }
    match used_since {
        Some(since) if facts.height >= since + DISPLACEMENT_BLOCKS => AbsenceVerdict::Displaced,
        _ => AbsenceVerdict::Undetermined,
    }
}
