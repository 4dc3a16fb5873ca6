//! Transactions between signature and outcome. The supervision tree retains the table: every incarnation of the signer and of
//! the confirmer works on the same one, and a repeated submission finds its first transaction in it.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use super::{intent::WriteIntent, outcome::WriteOutcome, submission::SubmissionId};

/// A signed transaction.
#[derive(Debug, Clone)]
pub struct InFlightTx {
    /// The submission that it was signed for.
    pub submission_id: SubmissionId,
    /// Upper-case hex.
    pub hash: String,
    /// The signed bytes. The signer sends these again and never signs others for a sequence that may still execute. Empty once the
    /// transaction is decided.
    pub bytes: Vec<u8>,
    /// Its sequence.
    pub sequence: u64,
    /// Past this height it can never execute.
    pub timeout_height: u64,
    /// Height at which it was signed. No block up to this height contains it.
    pub signed_height: u64,
    /// The write that it was signed for.
    pub intent: Arc<WriteIntent>,
    /// Whether a fee granter pays the fee.
    pub has_granter: bool,
    /// Its outcome; `None` while it may still execute.
    pub outcome: Option<WriteOutcome>,
    /// Heights of blocks that no node has, and without which nothing proves the outcome.
    pub missing_blocks: Vec<u64>,
}

/// The table of transactions in flight and of recently decided ones.
#[derive(Debug, Default, Clone)]
pub struct InFlightTable {
    transactions: BTreeMap<String, InFlightTx>,
    by_submission: BTreeMap<SubmissionId, String>,
    live: BTreeSet<(u64, String)>,
    decided: VecDeque<String>,
    sequence_floor: u64,
}

/// Decided transactions that stay in the table: more than the writes that can be active, so that the table keeps each of them until
/// its write has ended.
const MAX_DECIDED_TXS: usize = 10_000;

impl InFlightTable {
    /// A table of an account that has used every sequence below `floor`.
    pub fn with_sequence_floor(floor: u64) -> Self {
        Self { sequence_floor: floor, ..Self::default() }
    }

    /// Adds a transaction before it is sent.
    pub fn add(&mut self, tx: InFlightTx) {
        self.by_submission.insert(tx.submission_id, tx.hash.clone());
        self.live.insert((tx.sequence, tx.hash.clone()));
        self.transactions.insert(tx.hash.clone(), tx);
    }

    /// Removes a transaction that the node refused, and that therefore never was in flight.
    pub fn retract(&mut self, hash: &str) {
        if self.transactions.get(hash).is_some_and(|entry| entry.outcome.is_none()) {
            self.forget(hash);
        }
    }

    fn forget(&mut self, hash: &str) {
        let Some(tx) = self.transactions.remove(hash) else { return };
        self.live.remove(&(tx.sequence, tx.hash));
        if self.by_submission.get(&tx.submission_id).is_some_and(|known| known == hash) {
            self.by_submission.remove(&tx.submission_id);
        }
    }

    /// Records the outcome of a transaction; false when the transaction is unknown or already decided. An outcome never changes.
    pub fn decide(&mut self, hash: &str, outcome: WriteOutcome) -> bool {
        let Some(entry) = self.transactions.get_mut(hash).filter(|entry| entry.outcome.is_none()) else { return false };
        if outcome.uses_sequence(entry.sequence) {
            self.sequence_floor = self.sequence_floor.max(entry.sequence + 1);
        }
        entry.outcome = Some(outcome);
        // A decided transaction is never sent again.
        entry.bytes = Vec::new();
        self.live.remove(&(entry.sequence, entry.hash.clone()));
        self.decided.push_back(hash.to_owned());
        if self.decided.len() > MAX_DECIDED_TXS
            && let Some(oldest) = self.decided.pop_front()
        {
            self.forget(&oldest);
        }
        true
    }

    /// Notes the blocks that no node has and that would decide a transaction. True when they were not known to be missing.
    pub fn note_missing_blocks(&mut self, hash: &str, missing: Vec<u64>) -> bool {
        let Some(entry) = self.transactions.get_mut(hash).filter(|entry| entry.missing_blocks != missing) else {
            return false;
        };
        entry.missing_blocks = missing;
        true
    }

    /// A transaction by hash.
    pub fn get(&self, hash: &str) -> Option<&InFlightTx> {
        self.transactions.get(hash)
    }

    /// Hashes of all known transactions.
    pub fn hashes(&self) -> Vec<String> {
        self.transactions.keys().cloned().collect()
    }

    /// The transaction of a submission.
    pub fn find_by_submission(&self, call: SubmissionId) -> Option<&InFlightTx> {
        self.transactions.get(self.by_submission.get(&call)?)
    }

    /// All known transactions.
    pub fn all(&self) -> impl Iterator<Item = &InFlightTx> {
        self.transactions.values()
    }

    /// Transactions that may still execute, in sequence order.
    pub fn live(&self) -> impl ExactSizeIterator<Item = &InFlightTx> {
        self.live.iter().map(|(_, hash)| &self.transactions[hash])
    }

    /// The transaction that may still execute at a sequence.
    pub fn live_at(&self, sequence: u64) -> Option<&InFlightTx> {
        let (_, hash) = self.live.range((sequence, String::new())..).next().filter(|(found, _)| *found == sequence)?;
        self.transactions.get(hash)
    }

    /// Every sequence below this one is used: a block contains a transaction of this account with the sequence before it.
    pub fn sequence_floor(&self) -> u64 {
        self.sequence_floor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(hash: &str, call: u64, sequence: u64) -> InFlightTx {
        InFlightTx {
            submission_id: SubmissionId(call),
            hash: hash.into(),
            bytes: Vec::new(),
            sequence,
            timeout_height: 10,
            signed_height: 1,
            intent: WriteIntent::sample(),
            has_granter: false,
            outcome: None,
            missing_blocks: Vec::new(),
        }
    }

    fn expired() -> WriteOutcome {
        WriteOutcome::Expired { timeout_height: 10 }
    }

    #[test]
    fn an_outcome_is_decided_once_and_stays_known() {
        let mut table = InFlightTable::default();
        table.add(entry("B", 2, 8));
        table.add(entry("A", 1, 7));
        assert_eq!(table.live().map(|entry| entry.sequence).collect::<Vec<_>>(), [7, 8]);
        assert!(table.decide("A", expired()));
        assert!(!table.decide("A", expired()));
        table.retract("A");
        assert!(table.find_by_submission(SubmissionId(1)).is_some_and(|entry| entry.outcome.is_some()));
        table.retract("B");
        assert!(table.live().len() == 0 && table.live_at(8).is_none());
    }

    #[test]
    fn an_inclusion_raises_the_sequence_floor() {
        let mut table = InFlightTable::with_sequence_floor(3);
        table.add(entry("A", 1, 7));
        table.decide("A", expired());
        assert_eq!(table.sequence_floor(), 3, "an expired transaction uses no sequence");
        table.add(entry("B", 2, 7));
        table.decide("B", WriteOutcome::Included { height: 9, result: Box::default() });
        assert_eq!(table.sequence_floor(), 8);
    }

    #[test]
    fn the_oldest_decided_transactions_leave_the_table() {
        let mut table = InFlightTable::default();
        for index in 0..=MAX_DECIDED_TXS as u64 {
            let hash = format!("{index:08}");
            table.add(entry(&hash, index, index));
            table.decide(&hash, expired());
        }
        assert!(
            table.find_by_submission(SubmissionId(0)).is_none() && table.find_by_submission(SubmissionId(1)).is_some()
        );
    }
}
