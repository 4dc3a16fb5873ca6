//! How a write ends: its receipt, the answer under its key, its end on record.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use svc_kit::wall;
use svc_wire::{
    chain_error::{ChainError, Meaning},
    comet::TxResult,
    envelope::{Code, ErrorEnvelope},
    tx,
};

use crate::{audit::AuditEnd, in_flight::Outcome, operator::Parts, signer::Submitted};

/// What became of a write that was included and indexed, or included and not indexed in time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LedgerReceipt {
    /// Upper-case hex.
    pub tx_hash: String,
    /// Height.
    pub block_height: u64,
    /// 0.
    pub code: u32,
    /// Gas used.
    pub gas_used: u64,
    /// Gas limit.
    pub gas_wanted: u64,
    /// Empty on success.
    pub raw_log: String,
    /// The chain's events.
    pub events: Value,
    /// Whether the indexer has reached the block; false is no error.
    pub indexer_synced: bool,
    /// Height the indexer was at when the answer was made.
    pub indexer_height: u64,
    /// The decoded message response, for example the new ecosystem's id.
    pub response: Value,
    /// Who paid the fee: `corporation` or `operator`.
    pub fee_payer: String,
    /// Milliseconds each stage took.
    pub timings_ms: Value,
}

/// Of a transaction that is still open.
pub const UNDECIDED: &str = "undecided";

/// How a run ended.
pub struct Ended {
    pub submitted: Option<Submitted>,
    pub outcome: Result<LedgerReceipt, ErrorEnvelope>,
}

impl Ended {
    /// `included`, `failed`, `expired`, `displaced`, or `not_sent`.
    pub fn word(&self, parts: &Parts) -> &'static str {
        let Some(submitted) = &self.submitted else { return "not_sent" };
        parts.table.with(|table| {
            let outcome = table.get(&submitted.hash).and_then(|entry| entry.outcome.as_ref());
            outcome.map_or(UNDECIDED, Outcome::word)
        })
    }

    pub fn audit(&self, parts: &Parts) -> AuditEnd {
        let details = self.outcome.as_ref().err().map(|error| &error.details);
        let of_error = |name: &str| details.and_then(|details| details.get(name));
        let receipt = self.outcome.as_ref().ok();
        AuditEnd {
            completed_at: wall::now_text(),
            outcome: self.word(parts).to_owned(),
            error_code: self.outcome.as_ref().err().map(|error| error.code.to_string()),
            tx_hash: self.submitted.as_ref().map(|submitted| submitted.hash.clone()),
            block_height: receipt
                .map(|receipt| receipt.block_height)
                .or_else(|| of_error("block_height").and_then(Value::as_u64)),
            code: receipt
                .map(|receipt| receipt.code)
                .or_else(|| of_error("code").and_then(Value::as_u64).and_then(|code| u32::try_from(code).ok())),
            codespace: of_error("codespace").and_then(Value::as_str).map(str::to_owned),
        }
    }
}

/// An answer as the journal keeps it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// It was included.
    Receipt(Box<LedgerReceipt>),
    /// It failed, expired or was displaced.
    Error(Box<ErrorEnvelope>),
}

impl From<&Result<LedgerReceipt, ErrorEnvelope>> for Answer {
    fn from(outcome: &Result<LedgerReceipt, ErrorEnvelope>) -> Self {
        match outcome {
            Ok(receipt) => Self::Receipt(Box::new(receipt.clone())),
            Err(error) => Self::Error(Box::new(error.clone())),
        }
    }
}

/// What a transaction did, as it is answered; the indexer is not waited for.
pub(crate) fn receipt(parts: &Parts, hash: &str, height: u64, result: TxResult, fee_payer: &str) -> LedgerReceipt {
    let packed = tx::message_responses(&result.data);
    let decode = |packed: &prost_types::Any| parts.chain.registry.decode(&packed.type_url, &packed.value).ok();
    let indexer_height = parts.cursor.with(|cursor| cursor.height);
    LedgerReceipt {
        tx_hash: hash.to_owned(),
        block_height: height,
        code: result.code,
        gas_used: result.gas_used,
        gas_wanted: result.gas_wanted,
        raw_log: result.log,
        events: serde_json::to_value(&result.events).unwrap_or_default(),
        indexer_synced: indexer_height >= height,
        indexer_height,
        response: packed.first().and_then(decode).unwrap_or_else(|| json!({})),
        fee_payer: fee_payer.to_owned(),
        timings_ms: json!({}),
    }
}

/// A write that could not be signed anew after its first transaction came to nothing.
pub fn after(mut error: ErrorEnvelope, before: &Submitted) -> ErrorEnvelope {
    if error.code == Code::AuthzNotGranted {
        error.code = Code::AuthzRevoked;
    }
    error.details["tx_hash"] = before.hash.as_str().into();
    error.hint = format!(
        "its first transaction came to nothing and no other was sent; call again under a new idempotency_key if it had one; {}",
        error.hint
    );
    error
}

/// Whether a result in a block is a failure of this kind.
pub fn means(result: &TxResult, meaning: Meaning) -> bool {
    let error = ChainError { codespace: result.codespace.clone(), code: result.code, raw_log: String::new() };
    result.code != 0 && error.meaning() == meaning
}
