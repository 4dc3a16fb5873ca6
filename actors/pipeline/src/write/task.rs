//! The task of one write: policy, signer, confirmer, until the chain has decided.
//!
//! The task ends with a decided outcome, however long its callers wait: a transaction that was sent is followed until a block
//! contains it or it never can execute. When an actor dies on the way, the task asks the next incarnation, and the submission id
//! prevents a second transaction. The task signs a write again only after the chain has decided that its transaction never executes
//! or has executed without effect.

use std::{sync::Arc, time::Duration};

use svc_kit::{AskError, RetainedState};
use svc_otel::{
    metrics,
    trace::{self, WriteStage},
};
use svc_wire::{
    chain_error::{ChainError, ChainErrorKind},
    comet_rpc::ExecTxResult,
};
use tokio::time::Instant;
use tracing::{Instrument, Span};

use super::{
    error::{SubmitError, WriteError, WriteFailure},
    fee::FeeGranter,
    in_flight::InFlightTable,
    intent::WriteIntent,
    outcome::WriteOutcome,
    policy::SigningPolicy,
    status::{WriteHandle, WriteReporter, WriteStatus},
    submission::{SigningRequest, SubmissionId, SubmittedTx},
};
use crate::{confirmer::ConfirmerHandle, journal::core::RecoverySummary, signer::SignerHandle};

/// Time for the signature beyond the wait limit for inclusion.
const SIGNING_GRACE: Duration = Duration::from_secs(30);
/// Time for a withdrawal.
const WITHDRAWAL_TIMEOUT: Duration = Duration::from_secs(10);
/// Signatures after a foreign transaction used the sequence.
const MAX_DISPLACEMENTS: u32 = 3;

/// The actors and the retained state that a write task works with. Cheap to clone.
#[derive(Clone)]
pub struct WriteActors {
    pub(crate) signer: SignerHandle,
    pub(crate) confirmer: ConfirmerHandle,
    pub(crate) table: RetainedState<InFlightTable>,
    pub(crate) recovery: RetainedState<RecoverySummary>,
    pub(crate) next_submission: Arc<std::sync::atomic::AtomicU64>,
    pub(crate) tx_timeout: Duration,
}

impl WriteActors {
    fn next_submission_id(&self) -> SubmissionId {
        SubmissionId(self.next_submission.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
    }
}

/// A write that the chain has decided.
#[derive(Debug, Clone)]
pub struct DecidedWrite {
    /// Its last transaction.
    pub tx: SubmittedTx,
    /// Outcome of the transaction.
    pub outcome: WriteOutcome,
    /// Times of the last transaction.
    pub times: WriteTimes,
}

/// Times of a transaction.
#[derive(Debug, Clone, Copy)]
pub struct WriteTimes {
    /// The signer was asked for it.
    pub requested: Instant,
    /// The node had it.
    pub sent: Instant,
    /// It was decided.
    pub decided: Instant,
}

/// A write on its way. `A` is the type of the answer that its callers wait for.
pub struct WriteTask<A> {
    intent: Arc<WriteIntent>,
    reporter: WriteReporter<A>,
    /// Span of the call while it lasts, of the reconciliation afterwards.
    span: Span,
}

impl<A> WriteTask<A> {
    /// A task, and the handle that its callers watch.
    pub fn new(intent: Arc<WriteIntent>, span: Span) -> (Self, WriteHandle<A>) {
        let (reporter, handle) = WriteReporter::new();
        (Self { intent, reporter, span }, handle)
    }

    /// The write.
    pub fn intent(&self) -> &Arc<WriteIntent> {
        &self.intent
    }

    /// The span that the rest of the write belongs to.
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// Whether a caller was answered before the write was decided.
    pub fn has_caller_timed_out(&self) -> bool {
        self.reporter.has_caller_timed_out()
    }

    /// Publishes the answer and ends the task.
    pub fn finish(self, answer: A) {
        self.reporter.report(WriteStatus::Ended(answer));
    }

    /// Carries the write to a decided outcome. The policy is asked before each signature.
    pub async fn run<P: SigningPolicy>(
        &mut self,
        actors: &WriteActors,
        policy: &P,
    ) -> Result<DecidedWrite, WriteFailure<P::Refusal>> {
        let mut retry = RetryState::default();
        loop {
            let requested = Instant::now();
            let submitted = match self.submit(actors, policy, &retry).instrument(self.span.clone()).await {
                Ok(submitted) => submitted,
                Err(error) => return Err(WriteFailure { last_tx: retry.last_tx, error }),
            };
            let sent = Instant::now();
            let Some(outcome) = self.await_decision(actors, &submitted).await else {
                let SubmittedTx { hash, timeout_height, .. } = submitted.clone();
                let error = WriteError::Undecided { hash, timeout_height };
                return Err(WriteFailure { last_tx: Some(submitted), error });
            };
            if !retry.allows(&submitted, &outcome) {
                let times = WriteTimes { requested, sent, decided: Instant::now() };
                return Ok(DecidedWrite { tx: submitted, outcome, times });
            }
            self.reporter.report(WriteStatus::Queued);
            retry.last_tx = Some(submitted);
        }
    }

    /// Follows a transaction of an earlier process to its outcome. The write is not signed again, because its callers are gone.
    pub async fn resume<R>(
        &mut self,
        actors: &WriteActors,
        submitted: SubmittedTx,
    ) -> Result<DecidedWrite, WriteFailure<R>> {
        self.begin_reconciliation();
        let was_open = actors.table.with(|table| table.get(&submitted.hash).is_some_and(|tx| tx.outcome.is_none()));
        let Some(outcome) = self.await_decision(actors, &submitted).await else {
            let SubmittedTx { hash, timeout_height, .. } = submitted.clone();
            let error = WriteError::Undecided { hash, timeout_height };
            return Err(WriteFailure { last_tx: Some(submitted), error });
        };
        if was_open {
            actors.recovery.with(|summary| summary.count_outcome(&outcome));
            metrics::record_tx_recovered(outcome.label());
        }
        let now = Instant::now();
        let times = WriteTimes { requested: now, sent: now, decided: now };
        Ok(DecidedWrite { tx: submitted, outcome, times })
    }

    /// Separates the rest of the write from the trace of the call, which has ended. The new trace links to the call's.
    fn begin_reconciliation(&mut self) {
        let traceparent = trace::traceparent(&self.span).or_else(|| self.intent.traceparent.clone());
        self.span = trace::reconcile_span(traceparent.as_deref());
    }

    /// Waits for the outcome, as long as it takes; `None` when the confirmer has stopped for good.
    async fn await_decision(&mut self, actors: &WriteActors, submitted: &SubmittedTx) -> Option<WriteOutcome> {
        let SubmittedTx { hash, timeout_height, .. } = submitted.clone();
        self.reporter.report(WriteStatus::InFlight { hash: hash.clone(), timeout_height });
        let mut span = self.inclusion_span(&hash);
        let outcome = loop {
            let decision = actors.confirmer.await_outcome(&hash).instrument(span.clone());
            tokio::select! {
                outcome = decision => break outcome,
                () = self.reporter.caller_timed_out() => {}
            }
            self.begin_reconciliation();
            span = self.inclusion_span(&hash);
        };
        if let Some(WriteOutcome::Included { height, .. }) = outcome {
            trace::record_height(&span, height);
            self.reporter.report(WriteStatus::Included { hash, timeout_height, height });
        }
        outcome
    }

    fn inclusion_span(&self, hash: &str) -> Span {
        let span = trace::stage_span(WriteStage::AwaitInclusion, &self.span);
        trace::record_tx(&span, hash);
        span
    }

    async fn submit<P: SigningPolicy>(
        &self,
        actors: &WriteActors,
        policy: &P,
        retry: &RetryState,
    ) -> Result<SubmittedTx, WriteError<P::Refusal>> {
        let granter: Option<FeeGranter> =
            policy.authorize(&self.intent, retry.attempts).map_err(WriteError::Refused)?;
        let request = SigningRequest {
            submission_id: actors.next_submission_id(),
            intent: Arc::clone(&self.intent),
            min_gas_limit: retry.min_gas_limit,
            granter: granter.filter(|_| !retry.pays_itself),
            span: self.span.clone(),
        };
        let deadline = Instant::now() + actors.tx_timeout + SIGNING_GRACE;
        match actors.signer.submit(&request, deadline).await {
            Ok(submitted) => submitted.map_err(WriteError::Submit),
            Err(error) => withdraw(actors, request.submission_id, error).await,
        }
    }
}

/// Withdraws a write that the signer did not answer, so that its error is true.
async fn withdraw<R>(actors: &WriteActors, id: SubmissionId, error: AskError) -> Result<SubmittedTx, WriteError<R>> {
    match actors.signer.withdraw(id, Instant::now() + WITHDRAWAL_TIMEOUT).await {
        Ok(Some(submitted)) => Ok(submitted),
        Ok(None) => Err(WriteError::Withdrawn(error)),
        // The table has every signed transaction, also while no signer answers.
        Err(_) => match actors.table.with(|table| table.find_by_submission(id).map(SubmittedTx::from)) {
            Some(submitted) => Ok(submitted),
            None => Err(WriteError::SignerUnavailable(error)),
        },
    }
}

/// Decides after each outcome whether the write is signed again. Pure.
#[derive(Debug, Default)]
struct RetryState {
    /// Transactions of the write so far.
    attempts: u32,
    min_gas_limit: u64,
    displacements: u32,
    pays_itself: bool,
    last_tx: Option<SubmittedTx>,
}

impl RetryState {
    /// Whether the write may be signed again after this outcome. The chain has decided the transaction, so that the write cannot
    /// execute twice.
    fn allows(&mut self, submitted: &SubmittedTx, outcome: &WriteOutcome) -> bool {
        self.attempts += 1;
        match outcome {
            WriteOutcome::Included { result, .. }
                if self.min_gas_limit == 0 && has_failed_with(result, &ChainErrorKind::OutOfGas) =>
            {
                self.min_gas_limit = result.gas_wanted.saturating_mul(2);
                tracing::warn!(
                    tx_hash = submitted.hash,
                    gas = self.min_gas_limit,
                    "out of gas, signed again with more"
                );
                true
            }
            // The allowance ended meanwhile. The transaction used no sequence; the next one pays its own fee.
            WriteOutcome::Included { result, .. }
                if submitted.has_granter && has_failed_with(result, &ChainErrorKind::FeeAllowanceUnusable) =>
            {
                self.pays_itself = true;
                tracing::warn!(tx_hash = submitted.hash, "the fee allowance has ended, signed again without it");
                true
            }
            WriteOutcome::Displaced { .. } if self.displacements < MAX_DISPLACEMENTS => {
                self.displacements += 1;
                tracing::warn!(tx_hash = submitted.hash, "another transaction used the sequence, signed again");
                true
            }
            WriteOutcome::Included { .. } | WriteOutcome::Expired { .. } | WriteOutcome::Displaced { .. } => false,
        }
    }
}

fn has_failed_with(result: &ExecTxResult, kind: &ChainErrorKind) -> bool {
    let error = ChainError { codespace: result.codespace.clone(), code: result.code, raw_log: String::new() };
    result.code != 0 && error.classify() == *kind
}

impl<R> From<SubmitError> for WriteError<R> {
    fn from(error: SubmitError) -> Self {
        Self::Submit(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn submitted(has_granter: bool) -> SubmittedTx {
        SubmittedTx { hash: "A".to_owned(), timeout_height: 20, sequence: 7, has_granter }
    }

    fn included(code: u32, codespace: &str) -> WriteOutcome {
        let result = ExecTxResult {
            code,
            codespace: codespace.to_owned(),
            gas_wanted: 100,
            log: "fee allowance expired".to_owned(),
            ..ExecTxResult::default()
        };
        WriteOutcome::Included { height: 9, result: Box::new(result) }
    }

    #[test]
    fn a_write_is_signed_again_once_after_it_ran_out_of_gas() {
        let mut retry = RetryState::default();
        assert!(retry.allows(&submitted(false), &included(11, "sdk")));
        assert_eq!(retry.min_gas_limit, 200);
        assert!(!retry.allows(&submitted(false), &included(11, "sdk")));
    }

    #[test]
    fn a_displaced_write_is_signed_again_three_times_and_an_expired_or_included_one_never() {
        let displaced = WriteOutcome::Displaced { height: 9 };
        let mut retry = RetryState::default();
        let answers: Vec<bool> = (0..4).map(|_| retry.allows(&submitted(false), &displaced)).collect();
        assert_eq!(answers, [true, true, true, false]);
        assert!(!retry.allows(&submitted(false), &WriteOutcome::Expired { timeout_height: 20 }));
        assert!(!retry.allows(&submitted(false), &included(0, "")));
        assert_eq!(retry.attempts, 6);
    }
}
