//! The execution of one write: its recorded answer, or the pipeline, the indexer and the records.
//!
//! The execution is a task of its own and ends with a decided outcome, however long its callers wait.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use svc_otel::{
    metrics,
    trace::{self, WriteStage},
};
use svc_pipeline::{
    DecidedWrite, InFlightTable, InFlightTx, SubmittedTx, WriteError, WriteFailure, WriteIntent, WriteOutcome,
    WriteTask,
};
use svc_wire::{chain_error::ChainError, error_envelope::ErrorEnvelope};
use tokio::time::Instant;
use tracing::{Instrument, Span};

use super::{
    context::WriteContext,
    grant::{GrantPolicy, REFRESH_TIMEOUT, explain_refusal},
    receipt::{WriteAnswer, WriteReceipt, build_receipt},
    recorded::StoredAnswer,
};
use crate::{
    error::{
        ask_error, displaced_error, expired_error, resubmission_error, signer_unavailable, timed_out_error,
        tx_failed_error, unprovable_error,
    },
    refresher::RefreshTrigger,
    write::audit::AuditCompletion,
};

/// A write that has ended, for the records.
struct CompletedWrite {
    last_tx: Option<SubmittedTx>,
    answer: WriteAnswer,
    /// Whether the audit has the write.
    is_audited: bool,
}

/// Carries a write from its intent to its answer.
pub(crate) async fn execute(mut task: WriteTask<WriteAnswer>, context: &WriteContext) {
    let intent = Arc::clone(task.intent());
    let outcome = task.run(context.pipeline.actors(), &GrantPolicy(context)).await;
    let completed = match outcome {
        Ok(decided) => {
            let span = task.span().clone();
            let last_tx = Some(decided.tx.clone());
            let answer = conclude(context, decided).instrument(span).await;
            CompletedWrite { last_tx, answer, is_audited: true }
        }
        Err(failure) => answer_failure(context, &intent, failure).await,
    };
    close_records(task, context, completed);
}

/// Follows a transaction of an earlier process to the answer of its write.
pub(crate) async fn resume(mut task: WriteTask<WriteAnswer>, context: &WriteContext, tx: InFlightTx) {
    let submitted = SubmittedTx::from(&tx);
    let outcome = task.resume::<ErrorEnvelope>(context.pipeline.actors(), submitted.clone()).await;
    let answer = match outcome {
        Ok(decided) => {
            let span = task.span().clone();
            conclude(context, decided).instrument(span).await
        }
        Err(_) => Err(undecided_error(context, &submitted.hash, submitted.timeout_height)),
    };
    close_records(task, context, CompletedWrite { last_tx: Some(submitted), answer, is_audited: true });
}

/// The answer of a write without an outcome.
async fn answer_failure(
    context: &WriteContext,
    intent: &WriteIntent,
    failure: WriteFailure<ErrorEnvelope>,
) -> CompletedWrite {
    let WriteFailure { last_tx, error } = failure;
    let is_audited = !matches!((&error, &last_tx), (WriteError::Refused(_), None));
    let envelope = match error {
        WriteError::Refused(refusal) => refusal,
        WriteError::Submit(error) => explain_refusal(context, &intent.encoded, error).await,
        WriteError::Withdrawn(error) => ask_error(&error),
        WriteError::SignerUnavailable(error) => signer_unavailable(&error),
        WriteError::Undecided { hash, timeout_height } => {
            let answer = Err(undecided_error(context, &hash, timeout_height));
            return CompletedWrite { last_tx, answer, is_audited };
        }
    };
    let envelope = match &last_tx {
        Some(earlier) => resubmission_error(envelope, earlier),
        None => envelope,
    };
    CompletedWrite { last_tx, answer: Err(envelope), is_audited }
}

/// The error for a transaction without an outcome.
pub(crate) fn undecided_error(context: &WriteContext, hash: &str, timeout_height: u64) -> ErrorEnvelope {
    let missing = |table: &InFlightTable| table.get(hash).map(|tx| tx.missing_blocks.clone()).unwrap_or_default();
    let missing_blocks = context.pipeline.with_table(missing);
    if missing_blocks.is_empty() {
        timed_out_error(hash, timeout_height, context.pipeline.tx_timeout())
    } else {
        unprovable_error(hash, timeout_height, &missing_blocks)
    }
}

/// The answer for a decided outcome: the receipt once the indexer has the block, or the error.
async fn conclude(context: &WriteContext, decided: DecidedWrite) -> WriteAnswer {
    let DecidedWrite { tx, outcome, times } = decided;
    let hash = &tx.hash;
    let (height, result) = match outcome {
        WriteOutcome::Included { height, result } => (height, result),
        WriteOutcome::Expired { timeout_height } => return Err(expired_error(hash, timeout_height)),
        WriteOutcome::Displaced { height } => return Err(displaced_error(hash, tx.sequence, height)),
    };
    if result.code != 0 {
        // The chain's answer contradicts the published snapshot.
        let _ = context.refresher.refresh(RefreshTrigger::WriteMismatch, REFRESH_TIMEOUT).await;
        let error = ChainError { codespace: result.codespace, code: result.code, raw_log: result.log };
        return Err(tx_failed_error(hash, height, &error));
    }
    let included = Instant::now();
    let (indexer_synced, indexer_height) = await_index(context, hash, height).await;
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let timings_ms = json!({
        "submit": millis(times.sent - times.requested), "inclusion": millis(times.decided - times.sent),
        "index": millis(included.elapsed()),
    });
    let receipt = build_receipt(context, hash, height, *result, tx.has_granter);
    Ok(Box::new(WriteReceipt { indexer_synced, indexer_height, timings_ms, ..receipt }))
}

/// Waits for the indexer; yields whether it reached the block, and its height.
async fn await_index(context: &WriteContext, hash: &str, height: u64) -> (bool, u64) {
    let span = trace::stage_span(WriteStage::AwaitIndex, &Span::current());
    trace::record_tx(&span, hash);
    trace::record_height(&span, height);
    let deadline = Instant::now() + context.indexer_timeout;
    let reached = context.barrier.await_write_height(height, deadline).instrument(span).await;
    let indexer_height = context.barrier.height();
    let is_synced = reached.is_ok() || indexer_height >= height;
    metrics::record_barrier_outcome(if is_synced { "reached" } else { "behind" });
    tracing::info!(tx_hash = hash, height, indexer_height, synced = is_synced, "barrier has ended");
    (is_synced, indexer_height)
}

/// Label of an open transaction.
const UNDECIDED: &str = "undecided";

/// Completes journal, audit and metrics of a write, then publishes its answer.
fn close_records(task: WriteTask<WriteAnswer>, context: &WriteContext, completed: CompletedWrite) {
    let outcome = outcome_label(context, completed.last_tx.as_ref());
    if outcome == UNDECIDED || !completed.is_audited {
        // An undecided write is open in the journal, and the next process completes it. A refused one has no record.
        return task.finish(completed.answer);
    }
    if let (Some(tx), Some(_)) = (&completed.last_tx, &task.intent().idempotency_key) {
        // The journal has the answer before a caller that knows the answer can repeat the write under the same key.
        let answer = serde_json::to_string(&StoredAnswer::from(&completed.answer)).unwrap_or_default();
        context.pipeline.journal().record_answer(&tx.hash, answer);
    }
    let completion = AuditCompletion::of_answer(&completed.answer, outcome, completed.last_tx.as_ref());
    context.audit.complete(&task.intent().id, completion);
    if task.has_caller_timed_out() {
        metrics::record_tx_decided_late(outcome);
    }
    task.finish(completed.answer);
}

/// `included`, `failed`, `expired`, `displaced`, `undecided`, or `not_sent`.
fn outcome_label(context: &WriteContext, last_tx: Option<&SubmittedTx>) -> &'static str {
    let Some(tx) = last_tx else { return "not_sent" };
    context.pipeline.with_table(|table| {
        let outcome = table.get(&tx.hash).and_then(|known| known.outcome.as_ref());
        outcome.map_or(UNDECIDED, WriteOutcome::label)
    })
}
