//! The schedule of lookups, and the meaning of their answers. Pure.
//!
//! Only blocks prove an outcome. A node's transaction index may lack a block for good, so that absence from it proves nothing; the
//! account's state says whether a block contains *some* transaction with the sequence, and the blocks up to the height of that
//! state say which one.

use std::{
    collections::{HashMap, HashSet},
    ops::RangeInclusive,
};

use svc_wire::comet_rpc::ExecTxResult;

use crate::write::{
    in_flight::InFlightTx,
    outcome::{WriteOutcome, outcome_in_block},
};

/// Blocks between two lookups of a pending transaction.
const LOOKUP_INTERVAL_BLOCKS: u64 = 3;
/// The same for a transaction whose blocks no node has. A node that has them may join, or come back.
const UNPROVABLE_INTERVAL_BLOCKS: u64 = 60;

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

/// Facts that a node stated about itself and about the account before a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeFacts {
    /// Newest height.
    pub height: u64,
    /// The account's sequence; `None` when the node did not answer.
    pub sequence: Option<SequenceFact>,
}

impl NodeFacts {
    /// Height of the state that shows a sequence as used; `None` when no state does.
    fn used_at(&self, sequence: u64) -> Option<u64> {
        self.sequence.filter(|fact| fact.sequence > sequence).map(|fact| fact.height)
    }
}

/// The account's sequence in the state after a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SequenceFact {
    /// Sequence of the next transaction.
    pub sequence: u64,
    /// Height of the block.
    pub height: u64,
}

/// Places of one transaction in the blocks that were read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BlockEvidence {
    /// Results of the transaction, by ascending height. Bytes that failed before their sequence was due may be in a later block too.
    pub results: Vec<(u64, Box<ExecTxResult>)>,
    /// Every block after the height of signing up to this one was read, except those of `missing`.
    pub searched_through: u64,
    /// Heights of which no node in use has the block or its results, ascending.
    pub missing: Vec<u64>,
}

impl BlockEvidence {
    /// Every block up to this height was read.
    fn proven_through(&self) -> u64 {
        self.missing.first().map_or(self.searched_through, |first| first.saturating_sub(1))
    }
}

/// The meaning of absence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AbsenceVerdict {
    /// Its sequence is unused, so it should be in the mempool and may be missing there.
    Missing,
    /// Absence proves nothing yet.
    Undetermined,
    /// The blocks that could contain it cannot be read, and without them nothing proves its outcome.
    Unprovable {
        /// Heights of the blocks, ascending.
        missing: Vec<u64>,
    },
}

/// The schedule of the lookups of pending transactions.
#[derive(Debug, Clone, Default)]
pub struct TxLookups {
    /// Height of the last lookup, by hash.
    last_lookup: HashMap<String, u64>,
    in_progress: HashSet<String>,
}

impl TxLookups {
    /// Starts the lookups that are due at `height` and yields their transactions.
    pub fn take_due(&mut self, pending: &[PendingTx], height: u64, includes_all: bool) -> Vec<PendingTx> {
        let known: HashSet<&str> = pending.iter().map(|one| one.hash.as_str()).collect();
        self.last_lookup.retain(|hash, _| known.contains(hash.as_str()));
        let mut due = Vec::new();
        for one in pending {
            let last = *self.last_lookup.entry(one.hash.clone()).or_insert(height);
            let is_late =
                height >= last + LOOKUP_INTERVAL_BLOCKS || (last < one.timeout_height && height >= one.timeout_height);
            if (includes_all || is_late) && self.in_progress.insert(one.hash.clone()) {
                self.last_lookup.insert(one.hash.clone(), height);
                due.push(one.clone());
            }
        }
        due
    }

    /// Delays the next lookup of a transaction whose blocks cannot be read.
    pub fn postpone(&mut self, hash: &str) {
        if let Some(last) = self.last_lookup.get_mut(hash) {
            *last += UNPROVABLE_INTERVAL_BLOCKS - LOOKUP_INTERVAL_BLOCKS;
        }
    }

    /// Ends a lookup.
    pub fn finish(&mut self, hash: &str) {
        self.in_progress.remove(hash);
    }

    /// Number of lookups under way.
    pub fn in_progress_count(&self) -> usize {
        self.in_progress.len()
    }
}

/// Heights in words: `5 to 9, 12`.
pub fn describe_heights(heights: &[u64]) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for height in heights {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *height => *last = *height,
            _ => ranges.push((*height, *height)),
        }
    }
    let describe =
        |(first, last): &(u64, u64)| if first == last { first.to_string() } else { format!("{first} to {last}") };
    ranges.iter().map(describe).collect::<Vec<_>>().join(", ")
}

/// Heights of the blocks that decide a transaction, as far as these facts go. `None` while its sequence is unused and its timeout
/// height has not come: no block can contain it yet, or the node is behind.
pub fn decisive_heights(pending: &PendingTx, facts: &NodeFacts) -> Option<RangeInclusive<u64>> {
    let through = match facts.used_at(pending.sequence) {
        Some(used_at) => used_at.min(pending.timeout_height),
        None if facts.height >= pending.timeout_height => pending.timeout_height,
        None => return None,
    };
    Some(pending.signed_height + 1..=through)
}

/// The outcome that blocks prove, or the meaning of absence. A transaction in a block that came before its sequence was due counts as
/// absent from it.
pub fn judge_evidence(
    pending: &PendingTx,
    facts: &NodeFacts,
    evidence: &BlockEvidence,
) -> Result<WriteOutcome, AbsenceVerdict> {
    for (height, result) in &evidence.results {
        if let Some(outcome) = outcome_in_block(*height, result.clone(), pending.sequence, pending.timeout_height) {
            return Ok(outcome);
        }
    }
    let proven_through = evidence.proven_through();
    if proven_through >= pending.timeout_height {
        return Ok(WriteOutcome::Expired { timeout_height: pending.timeout_height });
    }
    if let Some(height) = facts.used_at(pending.sequence).filter(|used_at| proven_through >= *used_at) {
        return Ok(WriteOutcome::Displaced { height });
    }
    let is_unused = facts.sequence.is_some_and(|fact| fact.sequence <= pending.sequence);
    Err(if !evidence.missing.is_empty() {
        AbsenceVerdict::Unprovable { missing: evidence.missing.clone() }
    } else if is_unused && facts.height < pending.timeout_height {
        AbsenceVerdict::Missing
    } else {
        AbsenceVerdict::Undetermined
    })
}
