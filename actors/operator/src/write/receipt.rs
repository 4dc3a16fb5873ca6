//! The receipt of a write.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use svc_wire::{comet_rpc::ExecTxResult, error_envelope::ErrorEnvelope, tx};

use super::context::WriteContext;

/// The receipt of a write that a block contains. The indexer has the block, or did not reach it in time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WriteReceipt {
    /// Upper-case hex.
    pub tx_hash: String,
    /// Height of the block.
    pub block_height: u64,
    /// Always 0.
    pub code: u32,
    /// Gas used.
    pub gas_used: u64,
    /// Gas limit.
    pub gas_wanted: u64,
    /// Empty on success.
    pub raw_log: String,
    /// The chain's events.
    pub events: Value,
    /// Whether the indexer has reached the block; `false` is no error.
    pub indexer_synced: bool,
    /// Height of the indexer when the receipt was made.
    pub indexer_height: u64,
    /// The decoded message response, for example the id of a new ecosystem.
    pub response: Value,
    /// Payer of the fee: `corporation` or `operator`.
    pub fee_payer: String,
    /// Milliseconds of each stage.
    pub timings_ms: Value,
}

/// The answer of a write.
pub type WriteAnswer = Result<Box<WriteReceipt>, ErrorEnvelope>;

/// Payer of a fee.
pub(crate) fn fee_payer(has_granter: bool) -> &'static str {
    if has_granter { "corporation" } else { "operator" }
}

/// The receipt of a transaction, without waiting for the indexer.
pub(crate) fn build_receipt(
    context: &WriteContext,
    hash: &str,
    height: u64,
    result: ExecTxResult,
    has_granter: bool,
) -> WriteReceipt {
    let packed = tx::decode_message_responses(&result.data);
    let decode = |packed: &prost_types::Any| context.registry.decode(&packed.type_url, &packed.value).ok();
    let indexer_height = context.barrier.height();
    WriteReceipt {
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
        fee_payer: fee_payer(has_granter).to_owned(),
        timings_ms: json!({}),
    }
}
