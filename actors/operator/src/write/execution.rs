//! The execution of one write: its recorded answer, or the pipeline, the indexer and the records.
//!
//! The execution is a task of its own and ends with a decided outcome, however long its callers wait.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use svc_kit::wall_clock;
use svc_otel::{
    metrics,
    trace::{self, WriteStage},
};
use svc_pipeline::{
    DecidedWrite, InFlightTable, InFlightTx, SubmitError, SubmittedTx, WriteError, WriteFailure, WriteIntent,
    WriteOutcome, WriteTask,
};
use svc_wire::{chain_error::ChainError, error_envelope::ErrorEnvelope};
use tokio::time::Instant;
use tracing::{Instrument, Span};

use super::{
    context::WriteContext,
    grant::{GrantPolicy, REFRESH_TIMEOUT, explain_refusal},
    receipt::{WriteAnswer, WriteReceipt, build_receipt, fee_payer},
    recorded::StoredAnswer,
    recovery::{DecidingTransaction, deciding_transaction},
    renewal_terms::with_terms_to_repeat,
    request::decode_message,
};
use crate::{
    error::{
        ask_error, bound_error, displaced_error, expired_error, never_executed_error, rejected_error,
        resubmission_error, signer_unavailable, submit_error, timed_out_error, tx_failed_error, unprovable_error,
        with_prices,
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
        Ok(decided) => conclude_task(&task, context, decided).await,
        Err(failure) => {
            let may_execute = failure.may_execute;
            let refused = answer_failure(context, &intent, failure).await;
            if may_execute { follow_refused(&mut task, context, refused).await } else { refused }
        }
    };
    close_records(task, context, completed);
}

/// Follows the transactions of a write of an earlier process to the answer of the write.
pub(crate) async fn resume(mut task: WriteTask<WriteAnswer>, context: &WriteContext, transactions: Vec<InFlightTx>) {
    let last_tx = transactions.last().map(SubmittedTx::from);
    // A write may have ended with one transaction while an earlier one, which was refused, may still execute as far as the journal knows.
    let has_ended =
        !context.audit.is_open(&task.intent().id) && had_been_decided(context, &task.intent().id, &transactions).await;
    if !has_ended {
        context.audit.continue_write(task.intent(), decode_message(context, &task.intent().encoded));
    }
    // A caller that repeats a refused write hears of the refusal, and need not wait for the decision.
    if let Some(refused) = transactions.last().filter(|tx| tx.outcome.is_none())
        && let Some(refusal) = &refused.refusal
    {
        task.answer_early(Err(rejected_error(&SubmittedTx::from(refused), refusal)));
    }
    let completed = match task.resume::<ErrorEnvelope>(context.pipeline.actors(), &transactions).await {
        Ok(decided) => conclude_task(&task, context, decided).await,
        Err(_) => {
            let (hash, timeout_height) =
                last_tx.as_ref().map(|tx| (tx.hash.as_str(), tx.timeout_height)).unwrap_or_default();
            let answer = Err(undecided_error(context, hash, timeout_height));
            CompletedWrite { last_tx, answer, is_audited: true }
        }
    };
    close_records(task, context, CompletedWrite { is_audited: !has_ended, ..completed });
}

/// Whether the journal of the earlier process shows how a write has ended; `resumed` were open in it.
async fn had_been_decided(context: &WriteContext, write_id: &str, resumed: &[InFlightTx]) -> bool {
    let mut transactions = context.pipeline.journal().find_by_write(write_id).await.unwrap_or_default();
    for tx in &mut transactions {
        // This process may have decided it meanwhile.
        if let Some(open) = resumed.iter().find(|open| open.hash == tx.tx_hash) {
            let state = if open.refusal.is_some() { "open_refused" } else { "open" };
            state.clone_into(&mut tx.state);
        }
    }
    matches!(deciding_transaction(transactions), DecidingTransaction::Found(_))
}

/// The answer of a write that the chain has decided, in the trace that the write belongs to.
async fn conclude_task(task: &WriteTask<WriteAnswer>, context: &WriteContext, decided: DecidedWrite) -> CompletedWrite {
    let last_tx = Some(decided.tx.clone());
    let answer = conclude(context, decided).instrument(task.span().clone()).await;
    CompletedWrite { last_tx, answer, is_audited: true }
}

/// Answers the callers of a refused write at once, and follows its transactions until none of them can execute any more. Its
/// idempotency key stays bound meanwhile.
async fn follow_refused(
    task: &mut WriteTask<WriteAnswer>,
    context: &WriteContext,
    refused: CompletedWrite,
) -> CompletedWrite {
    task.answer_early(refused.answer.clone());
    match task.follow(context.pipeline.actors()).await {
        Some(decided) if matches!(decided.outcome, WriteOutcome::Included { .. }) => {
            tracing::warn!(tx_hash = decided.tx.hash, "a refused transaction is in a block all the same");
            conclude_task(task, context, decided).await
        }
        Some(decided) => CompletedWrite { last_tx: Some(decided.tx), ..refused },
        None => refused,
    }
}

/// The answer of a write without an outcome.
async fn answer_failure(
    context: &WriteContext,
    intent: &WriteIntent,
    failure: WriteFailure<ErrorEnvelope>,
) -> CompletedWrite {
    let WriteFailure { last_tx, may_execute, error } = failure;
    let is_audited = !matches!((&error, &last_tx), (WriteError::Refused(_), None));
    let envelope = match error {
        WriteError::Refused(refusal) => refusal,
        WriteError::Submit(error @ SubmitError::Unrecorded(_)) => {
            return CompletedWrite { last_tx, answer: Err(submit_error(&error)), is_audited: false };
        }
        WriteError::Submit(error) => {
            let was_refused = matches!(error, SubmitError::Simulation(_));
            let envelope = explain_refusal(context, &intent.encoded, submit_error(&error), was_refused).await;
            with_terms_to_repeat(context, &intent.encoded, envelope).await
        }
        WriteError::Rejected { tx, refusal } => {
            let envelope = explain_refusal(context, &intent.encoded, rejected_error(&tx, &refusal), true).await;
            match context.pipeline.prices().problem().filter(|_| refusal.error.is_below_minimum_price()) {
                Some(problem) => with_prices(envelope, &problem),
                None => envelope,
            }
        }
        WriteError::Withdrawn(error) => ask_error(&error),
        // The next process may find the transaction and send it, so that the record stays open for it.
        WriteError::SignerUnavailable(error) => {
            return CompletedWrite { last_tx, answer: Err(signer_unavailable(&error)), is_audited: false };
        }
        WriteError::Undecided { hash, timeout_height } => {
            let answer = Err(undecided_error(context, &hash, timeout_height));
            return CompletedWrite { last_tx, answer, is_audited };
        }
    };
    let envelope = match &last_tx {
        Some(earlier) if may_execute => bound_error(envelope, earlier),
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
    let DecidedWrite { tx, outcome, refusal, times } = decided;
    let hash = &tx.hash;
    if let Some(refusal) = refusal {
        return Err(never_executed_error(hash, &refusal));
    }
    let (height, result) = match outcome {
        WriteOutcome::Included { height, result } => (height, result),
        WriteOutcome::Expired { timeout_height } => return Err(expired_error(hash, timeout_height)),
        WriteOutcome::Displaced { height } => return Err(displaced_error(hash, tx.sequence, Some(height))),
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
    // Where every indexer follows another chain there is nothing to wait for.
    let wait_limit = if context.indexer.guard().has_none_left() { Duration::ZERO } else { context.indexer_timeout };
    let deadline = Instant::now() + wait_limit;
    let reached = context.barrier.await_write_height(height, deadline).instrument(span).await;
    let indexer_height = context.barrier.height();
    let is_synced = reached.is_ok() || indexer_height >= height;
    metrics::record_barrier_outcome(if is_synced { "reached" } else { "behind" });
    tracing::info!(tx_hash = hash, height, indexer_height, synced = is_synced, "barrier has ended");
    (is_synced, indexer_height)
}

/// Label of an open transaction.
const UNDECIDED: &str = "undecided";
/// Label of a refused transaction that never executed. Its key is free, and has no answer.
const REFUSED: &str = "refused";

/// Completes journal, audit and metrics of a write, then publishes its answer.
fn close_records(task: WriteTask<WriteAnswer>, context: &WriteContext, completed: CompletedWrite) {
    let outcome = outcome_label(context, completed.last_tx.as_ref());
    if outcome == UNDECIDED || !completed.is_audited {
        // An undecided write is open in the journal, and the next process completes it. A refused one has no record.
        return task.finish(context.pipeline.actors(), completed.answer);
    }
    if let (Some(tx), Some(_)) =
        (completed.last_tx.as_ref().filter(|_| outcome != REFUSED), &task.intent().idempotency_key)
    {
        // The journal has the answer before a caller that knows the answer can repeat the write under the same key.
        let answer = serde_json::to_string(&StoredAnswer::from(&completed.answer)).unwrap_or_default();
        context.pipeline.journal().record_answer(&tx.hash, answer);
    }
    let last_tx = completed.last_tx.as_ref();
    if let Some(tx) = last_tx {
        context.last_payer.note(tx.has_granter, &tx.hash);
    }
    let fee = last_tx.and_then(|tx| context.pipeline.with_table(|table| table.get(&tx.hash).map(|tx| tx.fee)));
    let completion = audit_completion(&completed.answer, outcome, last_tx, fee);
    context.audit.complete(&task.intent().id, completion);
    if task.has_caller_timed_out() {
        metrics::record_tx_decided_late(outcome);
    }
    task.finish(context.pipeline.actors(), completed.answer);
}

/// The end of a write with this answer, whose last transaction has the outcome `outcome`.
fn audit_completion(
    answer: &WriteAnswer,
    outcome: &str,
    last_tx: Option<&SubmittedTx>,
    fee: Option<u128>,
) -> AuditCompletion {
    let (receipt, error) = (answer.as_ref().ok(), answer.as_ref().err());
    let of_error = |name: &str| error.and_then(|error| error.details.get(name));
    let number = |name: &str| of_error(name).and_then(Value::as_u64);
    AuditCompletion {
        completed_at: wall_clock::now_rfc3339(),
        outcome: outcome.to_owned(),
        error_code: error.map(|error| error.code.to_string()),
        tx_hash: last_tx.map(|tx| tx.hash.clone()),
        block_height: receipt.map(|receipt| receipt.block_height).or_else(|| number("block_height")),
        code: receipt.map(|receipt| receipt.code).or_else(|| number("code").and_then(|code| u32::try_from(code).ok())),
        codespace: of_error("codespace").and_then(Value::as_str).map(str::to_owned),
        fee: fee.map(|fee| fee.to_string()),
        fee_payer: last_tx.map(|tx| fee_payer(tx.has_granter).to_owned()),
    }
}

/// `included`, `failed`, `expired`, `displaced`, `refused`, `undecided`, or `not_sent`.
fn outcome_label(context: &WriteContext, last_tx: Option<&SubmittedTx>) -> &'static str {
    let Some(tx) = last_tx else { return "not_sent" };
    context.pipeline.with_table(|table| table.get(&tx.hash).and_then(InFlightTx::outcome_label).unwrap_or(UNDECIDED))
}
