//! The schedule of lookups, and the meaning of their answers. Pure.
//!
//! Only blocks prove an outcome. A node's transaction index may lack a block for good, so that absence from it proves nothing. The
//! account's state is one node's word: it says that a block should contain *some* transaction with the sequence, and only a block
//! that contains another one proves that this one can never execute.

use std::{
    collections::{HashMap, HashSet},
    ops::RangeInclusive,
};

use svc_net::upstream::{MAX_LEAD, MAX_UNCONFIRMED};
use svc_wire::comet_rpc::ExecTxResult;

use crate::write::{
    in_flight::InFlightTx,
    outcome::{BlockVerdict, TxRefusal, WriteOutcome, judge_result},
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
    /// No block below this height contains it.
    pub search_from: u64,
    /// Whether it was refused, so that the mempools should not have it.
    pub is_refused: bool,
}

impl From<&InFlightTx> for PendingTx {
    fn from(tx: &InFlightTx) -> Self {
        Self {
            hash: tx.hash.clone(),
            sequence: tx.sequence,
            timeout_height: tx.timeout_height,
            search_from: tx.signed_height.saturating_sub(MAX_LEAD) + 1,
            is_refused: tx.refusal.is_some(),
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
    pub fn used_at(&self, sequence: u64) -> Option<u64> {
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
    /// Number of the account.
    pub account_number: u64,
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
    /// Height of a block in which another transaction has used the sequence.
    pub displaced_at: Option<u64>,
    /// Heights of blocks that were read and of which no node in use has the results, ascending.
    pub missing_results: Vec<u64>,
    /// Heights of blocks that were not read, because a node that may have them did not answer.
    pub unread: Vec<u64>,
}

impl BlockEvidence {
    /// Heights without which nothing is proven; `None` when none of them lacks. Results say by which transaction a sequence was used.
    fn unprovable_heights(&self, is_sequence_used: bool) -> Option<Vec<u64>> {
        let mut heights = self.missing.clone();
        if is_sequence_used {
            heights.extend(&self.missing_results);
            heights.sort_unstable();
            heights.dedup();
        }
        // A node that did not answer may have them.
        if heights.is_empty() || !self.unread.is_empty() { None } else { Some(heights) }
    }

    /// Every block up to this height was read.
    fn proven_through(&self) -> u64 {
        let first_gap = self.missing.iter().chain(&self.unread).min();
        first_gap.map_or(self.searched_through, |first| first.saturating_sub(1))
    }
}

/// The meaning of evidence that decides nothing yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PendingVerdict {
    /// Its sequence is unused, so it should be in the mempool and may be missing there.
    Missing,
    /// Nothing is proven yet.
    Undetermined,
    /// The ante handler refused it in a block. The bytes may come back until its timeout height has passed.
    AnteFailure(TxRefusal),
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
        _ if facts.height >= pending.timeout_height => pending.timeout_height,
        Some(used_at) => used_at.min(pending.timeout_height),
        None => return None,
    };
    Some(pending.search_from..=through)
}

/// Heights to search, one range after the other, for the transaction that has used the sequence. They are empty while the blocks that
/// were read show it, or may still do so. A state that shows the sequence as used, beside blocks that do not, says that the height of
/// signing was stated wrongly: the blocks before it may contain the transaction. One that was used after the timeout height explains
/// the state without that.
pub fn wider_heights(pending: &PendingTx, facts: &NodeFacts, evidence: &BlockEvidence) -> Vec<RangeInclusive<u64>> {
    let Some(used_at) = facts.used_at(pending.sequence) else { return Vec::new() };
    let has_user = evidence.displaced_at.is_some() || !evidence.results.is_empty();
    if has_user || evidence.proven_through() < used_at.min(pending.timeout_height) {
        return Vec::new();
    }
    let after = pending.timeout_height + 1..=used_at.min(pending.timeout_height + MAX_UNCONFIRMED);
    let before = pending.search_from.saturating_sub(MAX_UNCONFIRMED).max(1)..=pending.search_from.saturating_sub(1);
    [after, before].into_iter().filter(|heights| !heights.is_empty()).collect()
}

/// The outcome that blocks prove, or the meaning of the evidence so far. A transaction in a block that came before its sequence was
/// due counts as absent from it, and one that the ante handler refused is decided only with its timeout height.
pub fn judge_evidence(
    pending: &PendingTx,
    facts: &NodeFacts,
    evidence: &BlockEvidence,
) -> Result<WriteOutcome, PendingVerdict> {
    let mut ante_failure = None;
    for (height, result) in &evidence.results {
        match judge_result(*height, result, pending.sequence) {
            BlockVerdict::Decided(outcome) => return Ok(outcome),
            BlockVerdict::Undecided => {}
            BlockVerdict::AnteFailure(refusal) => ante_failure = Some((*height, result, refusal)),
        }
    }
    if evidence.proven_through() >= pending.timeout_height {
        return Ok(match ante_failure {
            Some((height, result, _)) => WriteOutcome::Included { height, result: result.clone() },
            None => WriteOutcome::Expired { timeout_height: pending.timeout_height },
        });
    }
    if let Some(height) = evidence.displaced_at {
        return Ok(WriteOutcome::Displaced { height });
    }
    if let Some((_, _, refusal)) = ante_failure {
        return Err(PendingVerdict::AnteFailure(refusal));
    }
    // A used sequence that no block shows is the word of one node; the bytes may be missing in the mempools all the same.
    let is_unproven = facts.sequence.is_some_and(|fact| {
        fact.sequence <= pending.sequence || evidence.searched_through >= fact.height.min(facts.height)
    });
    Err(if let Some(missing) = evidence.unprovable_heights(facts.used_at(pending.sequence).is_some()) {
        PendingVerdict::Unprovable { missing }
    } else if is_unproven && !pending.is_refused && facts.height < pending.timeout_height {
        PendingVerdict::Missing
    } else {
        PendingVerdict::Undetermined
    })
}
