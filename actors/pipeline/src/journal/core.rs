//! Entries of the journal and the outbox that holds them until they are on disk. Pure.

use std::collections::VecDeque;

use serde::Serialize;
use svc_wire::comet_rpc::ExecTxResult;

use crate::write::{
    in_flight::InFlightTx,
    message::EncodedMessage,
    outcome::{TxRefusal, WriteOutcome},
};

/// An entry of the journal.
#[derive(Debug, Clone)]
pub enum JournalEntry {
    /// A transaction is about to be sent.
    Signed(Box<SignedTxEntry>),
    /// The transaction was never sent.
    Unsent {
        /// Upper-case hex.
        hash: String,
    },
    /// The transaction was refused. It may still execute until it is decided.
    Refused {
        /// Upper-case hex.
        hash: String,
        /// The reason.
        refusal: TxRefusal,
    },
    /// The transaction was decided.
    Decided {
        /// Upper-case hex.
        hash: String,
        /// Label of the outcome; `refused` for a refused transaction that never executed, whose key is free again.
        state: &'static str,
        /// Result in its block, if a block contains it.
        result: Option<Box<TxResultEntry>>,
        /// Time of the decision, RFC 3339.
        decided_at: String,
    },
    /// A transaction in a block of which the journal has lost the record.
    Restored(Box<RestoredEntry>),
    /// The newest line of the embedder's audit.
    AuditHead {
        /// Hash of the line.
        hash: String,
    },
    /// A caller was answered before the transaction was decided.
    CallerTimedOut {
        /// Upper-case hex.
        hash: String,
    },
    /// The answer of the write, for callers that repeat it under the same idempotency key.
    Answered {
        /// Upper-case hex.
        hash: String,
        /// JSON of the embedder.
        answer: String,
    },
}

/// A transaction that is about to be sent.
#[derive(Debug, Clone)]
pub struct SignedTxEntry {
    /// The transaction.
    pub tx: InFlightTx,
    /// Time of the signature, RFC 3339.
    pub signed_at: String,
}

/// A transaction of the account that a block contains and the journal does not know.
#[derive(Debug, Clone)]
pub struct RestoredEntry {
    /// Upper-case hex.
    pub hash: String,
    /// Its sequence.
    pub sequence: u64,
    /// Past this height it could not have executed.
    pub timeout_height: u64,
    /// Its first message.
    pub message: EncodedMessage,
    /// Its result.
    pub result: TxResultEntry,
    /// Its fee in the smallest unit.
    pub fee: u128,
    /// Time of the restoration, RFC 3339.
    pub restored_at: String,
}

/// Result of a transaction in its block.
#[derive(Debug, Clone)]
pub struct TxResultEntry {
    /// Height of the block.
    pub height: u64,
    /// Result code; 0 on success.
    pub code: u32,
    /// Codespace of the code.
    pub codespace: String,
    /// Text of a failure.
    pub raw_log: String,
    /// Gas used.
    pub gas_used: u64,
    /// Gas limit.
    pub gas_wanted: u64,
    /// Whether the transaction used its sequence.
    pub uses_sequence: bool,
}

impl TxResultEntry {
    /// The entry for a result in the block at `height`.
    pub fn new(height: u64, result: &ExecTxResult, uses_sequence: bool) -> Self {
        Self {
            height,
            code: result.code,
            codespace: result.codespace.clone(),
            raw_log: result.log.clone(),
            gas_used: result.gas_used,
            gas_wanted: result.gas_wanted,
            uses_sequence,
        }
    }
}

impl JournalEntry {
    /// Hash of its transaction; empty for an entry that belongs to none.
    pub fn hash(&self) -> &str {
        match self {
            Self::AuditHead { .. } => "",
            Self::Signed(signed) => &signed.tx.hash,
            Self::Restored(restored) => &restored.hash,
            Self::Unsent { hash }
            | Self::Refused { hash, .. }
            | Self::Decided { hash, .. }
            | Self::CallerTimedOut { hash }
            | Self::Answered { hash, .. } => hash,
        }
    }

    /// The entry for a decided transaction.
    pub fn decided(tx: &InFlightTx, outcome: &WriteOutcome, decided_at: String) -> Self {
        let result = match outcome {
            WriteOutcome::Included { height, result } => {
                Some(Box::new(TxResultEntry::new(*height, result, outcome.uses_sequence(tx.sequence))))
            }
            WriteOutcome::Expired { .. } | WriteOutcome::Displaced { .. } => None,
        };
        let state = tx.outcome_label().unwrap_or(outcome.label());
        Self::Decided { hash: tx.hash.clone(), state, result, decided_at }
    }
}

/// Entries that may wait before the signer stops signing.
const OUTBOX_LIMIT: usize = 10_000;

/// Entries that are not on disk yet, in order. The supervision tree retains them.
#[derive(Debug, Default)]
pub struct JournalOutbox {
    entries: VecDeque<JournalEntry>,
    /// Number of the first entry.
    first_number: u64,
    /// Entries of the group that is being written.
    batch_count: usize,
}

impl JournalOutbox {
    /// Adds an entry and yields its number.
    pub fn push(&mut self, entry: JournalEntry) -> u64 {
        self.entries.push_back(entry);
        self.next_number() - 1
    }

    /// Adds the newest audit head, instead of an earlier one that no group contains yet.
    pub fn replace_audit_head(&mut self, entry: JournalEntry) {
        let is_waiting = self.entries.len() > self.batch_count;
        match self.entries.back_mut() {
            Some(last @ JournalEntry::AuditHead { .. }) if is_waiting => *last = entry,
            _ => self.entries.push_back(entry),
        }
    }

    /// Adds an entry unless the outbox is full.
    pub fn try_push(&mut self, entry: JournalEntry) -> Result<u64, OutboxFull> {
        if self.is_full() { Err(OutboxFull { limit: OUTBOX_LIMIT }) } else { Ok(self.push(entry)) }
    }

    /// Whether the outbox has reached its limit.
    pub fn is_full(&self) -> bool {
        self.entries.len() >= OUTBOX_LIMIT
    }

    /// Replaces an entry that is not on disk yet by the note that its transaction was never sent, and adds that note after one that is
    /// on disk. Yields whether it was not.
    pub fn abandon(&mut self, number: u64, hash: &str) -> bool {
        let position = number.checked_sub(self.first_number).and_then(|position| usize::try_from(position).ok());
        let note = JournalEntry::Unsent { hash: hash.to_owned() };
        match position.and_then(|position| self.entries.get_mut(position)) {
            Some(entry) => {
                *entry = note;
                true
            }
            None => {
                self.entries.push_back(note);
                false
            }
        }
    }

    /// The first entries, at most `limit`: the group that is written next.
    pub fn next_batch(&mut self, limit: usize) -> Vec<JournalEntry> {
        self.batch_count = self.entries.len().min(limit);
        self.entries.iter().take(limit).cloned().collect()
    }

    /// Removes the first entries once they are on disk.
    pub fn mark_written(&mut self, count: usize) {
        self.entries.drain(..count.min(self.entries.len()));
        self.batch_count = 0;
        self.first_number += count as u64;
    }

    /// Every entry below this number is on disk.
    pub fn written_below(&self) -> u64 {
        self.first_number
    }

    /// Number of the next entry.
    pub fn next_number(&self) -> u64 {
        self.first_number + self.entries.len() as u64
    }

    /// Entries that wait.
    pub fn len(&self) -> usize {
        self.entries.len()
    }
}

/// The outbox is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{limit} entries wait for the disk")]
pub struct OutboxFull {
    /// The limit.
    pub limit: usize,
}

/// Transactions that a process found open in its journal when it started, and their outcomes so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RecoverySummary {
    /// Transactions that were open.
    pub found: usize,
    /// Of those: in a block, without error.
    pub included: usize,
    /// In a block, with an error.
    pub failed: usize,
    /// Never to execute: the timeout height has passed.
    pub expired: usize,
    /// Never to execute: another transaction has used the sequence.
    pub displaced: usize,
    /// Transactions whose lost records were taken from blocks.
    pub restored: u64,
    /// Used sequences of which neither the journal nor a block of the last day shows the transaction.
    pub unexplained: u64,
}

impl RecoverySummary {
    /// Counts the outcome of one of them.
    pub fn count_outcome(&mut self, outcome: &WriteOutcome) {
        match outcome {
            WriteOutcome::Included { result, .. } if result.code == 0 => self.included += 1,
            WriteOutcome::Included { .. } => self.failed += 1,
            WriteOutcome::Expired { .. } => self.expired += 1,
            WriteOutcome::Displaced { .. } => self.displaced += 1,
        }
    }
}
