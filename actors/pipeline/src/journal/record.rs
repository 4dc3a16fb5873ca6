//! A transaction as the journal has it.

use serde::Serialize;
use svc_wire::chain_error::ChainError;

use crate::write::{outcome::TxRefusal, submission::SubmittedTx};

/// State of a transaction of a history that has ended.
pub(super) const ABANDONED: &str = "abandoned";

/// Separates the hash of an abandoned transaction from the number of the rebase.
pub(super) const HASH_SEPARATOR: char = '/';

/// A transaction as the journal has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct JournalRecord {
    /// Upper-case hex.
    pub tx_hash: String,
    /// Id of the write that it was signed for. A write that was signed again has several transactions.
    pub write_id: String,
    /// `open`, `open_refused`, `refused`, `included`, `failed`, `expired`, `displaced`. A transaction that was refused is
    /// `open_refused` while it may still execute, and `refused` once it never will. One that was never sent is `refused` too.
    /// `abandoned`: a person has rebased the journal, and the history that the record belongs to has ended.
    pub state: String,
    /// State of an abandoned transaction before the rebase. Its block, if it has one, is not in the present history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_before: Option<String>,
    /// Sequence of the account.
    pub sequence: u64,
    /// Past this height it can never execute.
    pub timeout_height: u64,
    /// Type URL.
    pub msg_type: String,
    /// Operation that was called.
    pub tool: String,
    /// Principal that called.
    pub principal: String,
    /// Session that called.
    pub session: String,
    /// Client program of the session.
    pub client: String,
    /// Idempotency key of the write.
    pub idempotency_key: Option<String>,
    /// Digest of the message.
    pub message_digest: String,
    /// Whether a fee granter pays the fee.
    pub is_fee_granted: bool,
    /// W3C `traceparent` of the call.
    pub traceparent: Option<String>,
    /// Time of the signature, RFC 3339.
    pub signed_at: String,
    /// Time of the decision, RFC 3339.
    pub decided_at: Option<String>,
    /// Whether a caller was answered before the transaction was decided.
    pub is_late: bool,
    /// Height of its block.
    pub block_height: Option<u64>,
    /// Result code.
    pub code: Option<u32>,
    /// Codespace of the code.
    pub codespace: Option<String>,
    /// Text of a failure.
    pub raw_log: Option<String>,
    /// Gas used.
    pub gas_used: Option<u64>,
    /// Gas limit.
    pub gas_wanted: Option<u64>,
    /// Answer of the write, JSON of the embedder; present for a write with an idempotency key that has ended.
    #[serde(skip)]
    pub answer: Option<String>,
}

impl JournalRecord {
    /// Whether the transaction belongs to a history that has ended.
    pub fn is_abandoned(&self) -> bool {
        self.state == ABANDONED
    }

    /// Whether the journal has the transaction from its block alone: it was signed with a journal that is lost.
    pub fn is_from_block(&self) -> bool {
        self.write_id == self.tx_hash
    }

    /// The transaction as it was submitted.
    pub fn submitted_tx(&self) -> SubmittedTx {
        SubmittedTx {
            hash: self.tx_hash.clone(),
            timeout_height: self.timeout_height,
            sequence: self.sequence,
            has_granter: self.is_fee_granted,
        }
    }

    /// The refusal of a refused transaction.
    pub fn refusal(&self) -> TxRefusal {
        let error = ChainError {
            codespace: self.codespace.clone().unwrap_or_default(),
            code: self.code.unwrap_or_default(),
            raw_log: self.raw_log.clone().unwrap_or_default(),
        };
        TxRefusal { error, block_height: self.block_height }
    }
}

/// Splits hash and state of a record as the database has them: hash, state, and the state before an abandonment.
pub(super) fn split_abandoned(hash: String, state: String) -> (String, String, Option<String>) {
    let Some(before) = state.strip_prefix(ABANDONED).and_then(|rest| rest.strip_prefix('_')) else {
        return (hash, state, None);
    };
    let own = hash.split_once(HASH_SEPARATOR).map_or(hash.as_str(), |(own, _)| own).to_owned();
    (own, ABANDONED.to_owned(), Some(before.to_owned()))
}
