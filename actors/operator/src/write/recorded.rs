//! Idempotency: the answer of an earlier write under the same key.

use serde::{Deserialize, Serialize};
use serde_json::json;
use svc_pipeline::{EncodedMessage, InFlightTable, JournalRecord, WriteIntent, WriteOutcome};
use svc_wire::{
    chain_error::ChainError,
    comet_rpc::ExecTxResult,
    error_envelope::{ErrorEnvelope, FailureCode},
};

use super::{
    context::WriteContext,
    execution::undecided_error,
    receipt::{WriteAnswer, WriteReceipt, build_receipt},
};
use crate::error::{
    abandoned_error, displaced_error, expired_error, never_executed_error, rejected_error, tx_failed_error, unknown_key,
};

/// An answer as the journal stores it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StoredAnswer {
    /// The write was included.
    Receipt(Box<WriteReceipt>),
    /// The write failed, expired or was displaced.
    Error(Box<ErrorEnvelope>),
}

impl From<&WriteAnswer> for StoredAnswer {
    fn from(answer: &WriteAnswer) -> Self {
        match answer {
            Ok(receipt) => Self::Receipt(receipt.clone()),
            Err(error) => Self::Error(Box::new(error.clone())),
        }
    }
}

/// The error for a key that belongs to another message.
pub(crate) fn reused_key(key: &str) -> ErrorEnvelope {
    let reason = "this key was given to a write with other arguments";
    let hint = "give each write a key of its own, and the same key only to the same write";
    ErrorEnvelope::new(FailureCode::InputInvalid, format!("idempotency_key: {reason}"), hint).with_details(
        json!({"idempotency_key": key, "violations": [{"pointer": "/idempotency_key", "reason": reason}]}),
    )
}

/// Digest of the message of an earlier write under a key of a principal.
pub(crate) async fn find_digest(context: &WriteContext, principal: &str, key: &str) -> Option<String> {
    context.pipeline.journal().find_by_key(principal, key).await.ok().flatten().map(|record| record.message_digest)
}

/// Whether a digest belongs to the message; an error when the key belongs to another message.
pub(crate) fn matches_digest(digest: &str, message: &EncodedMessage, key: &str) -> Result<(), ErrorEnvelope> {
    if digest == message.digest() { Ok(()) } else { Err(reused_key(key)) }
}

/// The answer of an earlier write under the key of this one, if there was one.
pub(crate) async fn find_answer(context: &WriteContext, intent: &WriteIntent) -> Option<WriteAnswer> {
    let key = intent.idempotency_key.as_deref()?;
    match context.pipeline.journal().find_by_key(&intent.origin.principal, key).await {
        Err(error) => Some(Err(unknown_key(key, &error.to_string()))),
        Ok(None) => None,
        Ok(Some(record)) => match matches_digest(&record.message_digest, &intent.encoded, key) {
            Ok(()) => Some(recorded_answer(context, record).await),
            Err(error) => Some(Err(error)),
        },
    }
}

/// The answer of a write that has ended: the stored one, or the one that the chain implies.
async fn recorded_answer(context: &WriteContext, record: JournalRecord) -> WriteAnswer {
    if record.is_abandoned() {
        return abandoned_answer(context, record).await;
    }
    match record.answer.as_deref().and_then(|answer| serde_json::from_str(answer).ok()) {
        Some(StoredAnswer::Receipt(receipt)) => return Ok(receipt),
        Some(StoredAnswer::Error(error)) => return Err(*error),
        None => {}
    }
    implied_answer(context, &record).await
}

/// The answer of a write whose history has ended: the block of the present history that has the same bytes after all, or that the write
/// was abandoned.
async fn abandoned_answer(context: &WriteContext, record: JournalRecord) -> WriteAnswer {
    let (pipeline, hash) = (&context.pipeline, &record.tx_hash);
    let height = pipeline.clock().height;
    let abandoned = Err(abandoned_error(&record, height));
    match pipeline.journal().find_by_hash(hash).await {
        Err(_) => return abandoned,
        // The boot has found it in a block.
        Ok(Some(present)) if !present.is_abandoned() && present.is_from_block() => {
            return implied_answer(context, &present).await;
        }
        // Another key has signed the same bytes: its write is another one.
        Ok(Some(present)) if !present.is_abandoned() => return abandoned,
        Ok(_) => {}
    }
    let Ok(Some(found)) = pipeline.node().tx(hash).await else { return abandoned };
    let Ok(Some(result)) = pipeline.read_result(found.height, hash).await else { return abandoned };
    let outcome = WriteOutcome::Included { height: found.height, result: Box::new(result) };
    if outcome.uses_sequence(record.sequence) { answer_of(context, &record, outcome) } else { abandoned }
}

/// The answer that the chain implies.
async fn implied_answer(context: &WriteContext, record: &JournalRecord) -> WriteAnswer {
    let hash = &record.tx_hash;
    let outcome = match (record.state.as_str(), record.block_height) {
        // The write is of an earlier process, and this one follows it. The answer is that of the chain as soon as there is one.
        ("open", _) => {
            let Some(outcome) = context.pipeline.await_outcome(hash).await else {
                return Err(undecided_error(context, hash, record.timeout_height));
            };
            let final_refusal = |table: &InFlightTable| table.get(hash)?.final_refusal().cloned();
            if let Some(refusal) = context.pipeline.with_table(final_refusal) {
                return Err(never_executed_error(hash, &refusal));
            }
            match outcome {
                // The outcome of a write that has ended has no events any more.
                WriteOutcome::Included { height, result } => {
                    let read = context.pipeline.read_result(height, hash).await.ok().flatten();
                    WriteOutcome::Included { height, result: read.map_or(result, Box::new) }
                }
                outcome => outcome,
            }
        }
        ("open_refused", _) => return Err(rejected_error(&record.submitted_tx(), &record.refusal())),
        ("expired", _) => WriteOutcome::Expired { timeout_height: record.timeout_height },
        // The journal does not have the height at which the other transaction was found.
        ("displaced", _) => return Err(displaced_error(hash, record.sequence, None)),
        (_, Some(height)) => {
            let result = context.pipeline.read_result(height, hash).await.unwrap_or_else(|error| {
                tracing::warn!(tx_hash = hash, height, %error, "the answer is from the journal alone: the block cannot be read");
                None
            });
            let result = Box::new(result.unwrap_or_else(|| journaled_result(record)));
            WriteOutcome::Included { height, result }
        }
        (_, None) => return Err(undecided_error(context, hash, record.timeout_height)),
    };
    answer_of(context, record, outcome)
}

fn answer_of(context: &WriteContext, record: &JournalRecord, outcome: WriteOutcome) -> WriteAnswer {
    let hash = &record.tx_hash;
    match outcome {
        WriteOutcome::Expired { timeout_height } => Err(expired_error(hash, timeout_height)),
        WriteOutcome::Displaced { height } => Err(displaced_error(hash, record.sequence, Some(height))),
        WriteOutcome::Included { height, result } if result.code != 0 => {
            let error = ChainError { codespace: result.codespace, code: result.code, raw_log: result.log };
            Err(tx_failed_error(hash, height, &error))
        }
        WriteOutcome::Included { height, result } => {
            Ok(Box::new(build_receipt(context, hash, height, *result, record.is_fee_granted)))
        }
    }
}

/// The result of a transaction as far as the journal has it. Response and events are in its block alone, which the nodes have pruned, or
/// which no node serves now.
fn journaled_result(record: &JournalRecord) -> ExecTxResult {
    ExecTxResult {
        code: record.code.unwrap_or_default(),
        codespace: record.codespace.clone().unwrap_or_default(),
        log: record.raw_log.clone().unwrap_or_default(),
        gas_wanted: record.gas_wanted.unwrap_or_default(),
        gas_used: record.gas_used.unwrap_or_default(),
        ..ExecTxResult::default()
    }
}
