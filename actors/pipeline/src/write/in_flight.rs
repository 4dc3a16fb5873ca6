//! Transactions between signature and outcome. The supervision tree retains the table: every incarnation of the signer and of
//! the confirmer works on the same one, and a repeated submission finds its first transaction in it.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use svc_wire::chain_error::ChainErrorKind;

use super::{
    daily_fees::{DailyFees, UtcDay},
    intent::WriteIntent,
    outcome::{TxRefusal, WriteOutcome},
    submission::SubmissionId,
};

/// A signed transaction.
#[derive(Debug, Clone)]
pub struct InFlightTx {
    /// The submission that it was signed for.
    pub submission_id: SubmissionId,
    /// Upper-case hex.
    pub hash: String,
    /// The signed bytes. The signer sends these again and never signs others for the sequence of a live transaction. Empty once the
    /// transaction is refused or decided.
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
    /// Its fee in the fee denom.
    pub fee: u128,
    /// The day of its signature.
    pub signed_day: UtcDay,
    /// Whether the journal has it on disk. Nothing else may be sent.
    pub is_journaled: bool,
    /// The refusal, after which nothing sends it again; it may still execute until it has an outcome.
    pub refusal: Option<TxRefusal>,
    /// Its outcome; `None` while it may still execute.
    pub outcome: Option<WriteOutcome>,
    /// Heights of blocks that no node has, and without which nothing proves the outcome.
    pub missing_blocks: Vec<u64>,
}

impl InFlightTx {
    /// Whether a block contains it and it has used its sequence there.
    pub fn has_executed(&self) -> bool {
        self.outcome.as_ref().is_some_and(|outcome| outcome.uses_sequence(self.sequence))
    }

    /// The refusal of a transaction that never executed: its callers are answered with it, and its idempotency key is free. A
    /// refusal because the timeout height had passed is none: such a transaction has expired.
    pub fn final_refusal(&self) -> Option<&TxRefusal> {
        let is_over = matches!(&self.outcome, Some(WriteOutcome::Expired { .. } | WriteOutcome::Displaced { .. }));
        let refusal = self.refusal.as_ref().filter(|_| is_over)?;
        Some(refusal).filter(|refusal| refusal.error.classify() != ChainErrorKind::TimeoutHeightPassed)
    }

    /// Label of its outcome: `included`, `failed`, `expired`, `displaced`; `refused` for a refused one that never executed. `None` while
    /// it may still execute.
    pub fn outcome_label(&self) -> Option<&'static str> {
        match self.final_refusal() {
            Some(_) => Some("refused"),
            None => self.outcome.as_ref().map(WriteOutcome::label),
        }
    }
}

/// The table of transactions in flight, of refused ones that may still execute, and of recently decided ones.
#[derive(Debug, Default, Clone)]
pub struct InFlightTable {
    transactions: BTreeMap<String, InFlightTx>,
    /// Hashes of each submission, in the order of their signatures.
    by_submission: BTreeMap<SubmissionId, Vec<String>>,
    live: BTreeSet<(u64, String)>,
    refused: BTreeSet<(u64, String)>,
    /// Submissions whose write has ended, as long as the table has a transaction of them.
    ended: BTreeSet<SubmissionId>,
    /// Decided transactions of writes that have ended, the oldest first.
    forgettable: VecDeque<String>,
    sequence_floor: u64,
    daily_fees: DailyFees,
}

/// Most decided transactions of ended writes in the table. The transactions of a running write do not count and are never removed: the
/// write ends with one of them.
const MAX_ENDED_TXS: usize = 10_000;

impl InFlightTable {
    /// A table of an account that has used every sequence below `floor`.
    pub fn with_sequence_floor(floor: u64) -> Self {
        Self { sequence_floor: floor, ..Self::default() }
    }

    /// The fees of the day.
    pub fn daily_fees(&self) -> &DailyFees {
        &self.daily_fees
    }

    /// Sets the fees of the day, as the journal has them.
    pub fn set_daily_fees(&mut self, fees: DailyFees) {
        self.daily_fees = fees;
    }

    /// A day begins.
    pub fn begin_day(&mut self, day: UtcDay) {
        self.daily_fees.begin_day(day);
    }

    /// Adds a transaction that was signed just now, before it is sent.
    pub fn add_signed(&mut self, tx: InFlightTx) {
        self.daily_fees.charge(&tx.intent.origin.principal, tx.fee);
        self.add(tx);
    }

    /// Adds a transaction that was signed before.
    pub fn add(&mut self, tx: InFlightTx) {
        let hashes = self.by_submission.entry(tx.submission_id).or_default();
        if !hashes.contains(&tx.hash) {
            hashes.push(tx.hash.clone());
        }
        let pending = if tx.refusal.is_none() { &mut self.live } else { &mut self.refused };
        pending.insert((tx.sequence, tx.hash.clone()));
        self.transactions.insert(tx.hash.clone(), tx);
    }

    /// Removes a transaction that was never sent.
    pub fn retract(&mut self, hash: &str) {
        if let Some(entry) = self.transactions.get(hash).filter(|entry| entry.outcome.is_none()) {
            self.daily_fees.refund(entry.signed_day, &entry.intent.origin.principal, entry.fee);
            self.forget(hash);
        }
    }

    /// Records that a transaction was refused; false when it is not live. It is not live any more, and is followed to its outcome.
    pub fn refuse(&mut self, hash: &str, refusal: TxRefusal) -> bool {
        let Some(entry) = self.transactions.get_mut(hash) else { return false };
        let key = (entry.sequence, entry.hash.clone());
        if !self.live.remove(&key) {
            return false;
        }
        entry.refusal = Some(refusal);
        entry.bytes = Vec::new();
        self.refused.insert(key);
        true
    }

    fn forget(&mut self, hash: &str) {
        let Some(tx) = self.transactions.remove(hash) else { return };
        let key = (tx.sequence, tx.hash);
        self.live.remove(&key);
        self.refused.remove(&key);
        if let Some(hashes) = self.by_submission.get_mut(&tx.submission_id) {
            hashes.retain(|known| known != hash);
            if hashes.is_empty() {
                self.by_submission.remove(&tx.submission_id);
                self.ended.remove(&tx.submission_id);
            }
        }
    }

    /// Records the outcome of a transaction; false when the transaction is unknown or already decided. An outcome never changes.
    pub fn decide(&mut self, hash: &str, outcome: WriteOutcome) -> bool {
        let Some(entry) = self.transactions.get_mut(hash).filter(|entry| entry.outcome.is_none()) else { return false };
        if outcome.uses_sequence(entry.sequence) {
            self.sequence_floor = self.sequence_floor.max(entry.sequence + 1);
        } else {
            // Only a transaction that passes the ante handler pays its fee.
            self.daily_fees.refund(entry.signed_day, &entry.intent.origin.principal, entry.fee);
        }
        entry.outcome = Some(outcome);
        // A decided transaction is never sent again.
        entry.bytes = Vec::new();
        let key = (entry.sequence, entry.hash.clone());
        self.live.remove(&key);
        self.refused.remove(&key);
        if self.ended.contains(&entry.submission_id) {
            self.allow_forgetting(vec![hash.to_owned()]);
        }
        true
    }

    /// The table may forget these transactions, after as many others as it keeps.
    fn allow_forgetting(&mut self, hashes: Vec<String>) {
        self.forgettable.extend(hashes);
        while self.forgettable.len() > MAX_ENDED_TXS {
            let Some(oldest) = self.forgettable.pop_front() else { return };
            self.forget(&oldest);
        }
    }

    /// A submission has ended: its decided transactions keep hash and outcome, without message and events, and may be forgotten in time.
    pub fn release(&mut self, submission: SubmissionId) {
        let Some(hashes) = self.by_submission.get(&submission).filter(|_| self.ended.insert(submission)) else {
            return;
        };
        let mut decided = Vec::new();
        for hash in hashes {
            let Some(tx) = self.transactions.get_mut(hash).filter(|tx| tx.outcome.is_some()) else { continue };
            decided.push(hash.clone());
            tx.intent = tx.intent.without_content();
            if let Some(WriteOutcome::Included { result, .. }) = &mut tx.outcome {
                // The event of the ante handler says that the sequence was used.
                result.events.retain(|event| event.event_type == "tx");
                result.data = Vec::new();
            }
        }
        self.allow_forgetting(decided);
    }

    /// The journal has a transaction on disk.
    pub fn mark_journaled(&mut self, hash: &str) {
        if let Some(entry) = self.transactions.get_mut(hash) {
            entry.is_journaled = true;
        }
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

    /// The newest transaction of a submission.
    pub fn find_by_submission(&self, submission: SubmissionId) -> Option<&InFlightTx> {
        self.transactions_of(submission).last()
    }

    /// The transactions of a submission, in the order of their signatures.
    pub fn transactions_of(&self, submission: SubmissionId) -> impl Iterator<Item = &InFlightTx> {
        let hashes = self.by_submission.get(&submission).map(Vec::as_slice).unwrap_or_default();
        hashes.iter().filter_map(|hash| self.transactions.get(hash))
    }

    /// All known transactions.
    pub fn all(&self) -> impl Iterator<Item = &InFlightTx> {
        self.transactions.values()
    }

    /// Transactions that the signer keeps in flight, in sequence order.
    pub fn live(&self) -> impl ExactSizeIterator<Item = &InFlightTx> {
        self.live.iter().map(|(_, hash)| &self.transactions[hash])
    }

    /// Live transactions that take a place in the window: a transaction that nothing can decide takes none.
    pub fn window_count(&self) -> usize {
        self.live().filter(|tx| tx.missing_blocks.is_empty()).count()
    }

    /// Transactions that were refused and may still execute, in sequence order.
    pub fn refused(&self) -> impl ExactSizeIterator<Item = &InFlightTx> {
        self.refused.iter().map(|(_, hash)| &self.transactions[hash])
    }

    /// The transaction that the signer keeps in flight at a sequence.
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
impl InFlightTx {
    /// A live transaction for tests, signed at height 1 with the timeout height 10.
    pub(crate) fn sample(hash: &str, submission_id: SubmissionId, sequence: u64) -> Self {
        Self {
            submission_id,
            hash: hash.to_owned(),
            bytes: Vec::new(),
            sequence,
            timeout_height: 10,
            signed_height: 1,
            intent: WriteIntent::sample(),
            has_granter: false,
            fee: 0,
            signed_day: UtcDay::default(),
            is_journaled: false,
            refusal: None,
            outcome: None,
            missing_blocks: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
