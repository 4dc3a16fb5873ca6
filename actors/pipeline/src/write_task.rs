//! The task of one write: policy, signer, confirmer, until the chain has decided.
//!
//! The task ends with a decided outcome, however long its callers wait: a transaction that was sent is followed until a block
//! contains it or it never can execute. When an actor dies on the way, the task asks the next incarnation, and the submission id
//! prevents a second transaction. [`RetryState`] decides when a write may be signed again.

use std::{sync::Arc, time::Duration};

use svc_kit::{AskError, CallError, RetainedState};
use svc_otel::{
    metrics,
    trace::{self, WriteStage},
};
use tokio::time::Instant;
use tracing::{Instrument, Span};

use crate::{
    confirmer::{ConfirmerHandle, TxNews},
    decided_write::{DecidedWrite, WriteTimes},
    journal::{JournalHandle, core::RecoverySummary},
    signer::SignerHandle,
    write::{
        error::{SubmitError, WriteError, WriteFailure},
        fee::FeeGranter,
        in_flight::{InFlightTable, InFlightTx},
        intent::WriteIntent,
        outcome::WriteOutcome,
        policy::SigningPolicy,
        retry::{DecidedThrough, RetryState, WriteStep, followed_outcome},
        status::{WriteHandle, WriteReporter, WriteStatus},
        submission::{SigningRequest, SubmissionId, SubmittedTx},
    },
};

/// Time for the signature beyond the wait limit for inclusion.
const SIGNING_GRACE: Duration = Duration::from_secs(30);
/// Time for a withdrawal.
const WITHDRAWAL_TIMEOUT: Duration = Duration::from_secs(10);

/// The actors and the retained state that a write task works with. Cheap to clone.
#[derive(Clone)]
pub struct WriteActors {
    pub(crate) signer: SignerHandle,
    pub(crate) confirmer: ConfirmerHandle,
    pub(crate) journal: JournalHandle,
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

/// A write on its way. `A` is the type of the answer that its callers wait for.
pub struct WriteTask<A> {
    intent: Arc<WriteIntent>,
    reporter: WriteReporter<A>,
    /// Hand-overs to the signer so far.
    submissions: Vec<SubmissionId>,
    /// Submissions whose transactions were decided before the write was signed again.
    decided_through: DecidedThrough,
    /// Whether the message may be sent although a lost record may have been of the same write.
    is_repeatable: bool,
    /// Whether the callers have an answer although the task goes on.
    is_answered: bool,
    /// Span of the call while it lasts, of the reconciliation afterwards.
    span: Span,
}

impl<A> WriteTask<A> {
    /// A task, and the handle that its callers watch.
    pub fn new(intent: Arc<WriteIntent>, span: Span) -> (Self, WriteHandle<A>) {
        let (reporter, handle) = WriteReporter::new();
        (
            Self {
                intent,
                reporter,
                submissions: Vec::new(),
                decided_through: DecidedThrough::default(),
                is_repeatable: false,
                is_answered: false,
                span,
            },
            handle,
        )
    }

    /// Sends the message also when the journal had lost a record of the same message: its repetition changes nothing on chain.
    pub fn allow_repetition(&mut self) {
        self.is_repeatable = true;
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

    /// Publishes an answer before the task ends: the write was refused, and the task follows its transactions.
    pub fn answer_early(&mut self, answer: A) {
        self.is_answered = true;
        self.reporter.report(WriteStatus::Ended(answer));
    }

    /// Publishes the answer and ends the task. Of its decided transactions only hash and outcome stay in memory.
    pub fn finish(self, actors: &WriteActors, answer: A) {
        actors.table.with(|table| self.submissions.iter().for_each(|id| table.release(*id)));
        self.reporter.report(WriteStatus::Ended(answer));
    }

    /// Carries the write to a decided outcome, or to a refusal. The policy is asked before each signature.
    pub async fn run<P: SigningPolicy>(
        &mut self,
        actors: &WriteActors,
        policy: &P,
    ) -> Result<DecidedWrite, WriteFailure<P::Refusal>> {
        let failure = match self.run_to_end(actors, policy).await {
            Ok(decided) => return Ok(decided),
            Err(failure) => failure,
        };
        if self.submissions.is_empty() {
            // Nothing of it can be on record.
            return Err(failure);
        }
        // The next process would send a transaction of which the journal does not know that it was refused, or never sent.
        match actors.journal.settle().await {
            Ok(()) => Err(failure),
            Err(_) if failure.may_execute => Err(self.failure(actors, self.undecided(actors))),
            Err(error) => {
                let error = WriteError::Submit(SubmitError::Unrecorded(error.to_string()));
                Err(WriteFailure { error, ..failure })
            }
        }
    }

    async fn run_to_end<P: SigningPolicy>(
        &mut self,
        actors: &WriteActors,
        policy: &P,
    ) -> Result<DecidedWrite, WriteFailure<P::Refusal>> {
        let (mut retry, mut required_sequence) = (RetryState::default(), None);
        loop {
            let requested = Instant::now();
            let span = self.span.clone();
            let submitted = self.submit(actors, policy, &retry, required_sequence).instrument(span).await;
            let sent = Instant::now();
            let times = || WriteTimes { requested, sent, decided: Instant::now() };
            match submitted {
                Ok(()) => {}
                Err(WriteError::Submit(SubmitError::SequenceMoved { .. })) => retry.has_sequence_moved = true,
                Err(error) => {
                    let executed = self.executed(actors, &retry, times());
                    return executed.ok_or_else(|| self.failure(actors, error));
                }
            }
            let step = loop {
                let step = self.with_transactions(actors, |transactions| retry.next_step(transactions));
                if step != WriteStep::Wait {
                    break step;
                }
                if !self.await_news(actors, true).await {
                    let executed = self.executed(actors, &retry, times());
                    return executed.ok_or_else(|| self.failure(actors, self.undecided(actors)));
                }
            };
            let find_tx = |hash: &str| actors.table.with(|table| table.get(hash).cloned());
            match step {
                WriteStep::Wait => {}
                WriteStep::SignAgain { required_sequence: required } if self.reporter.requeue() => {
                    self.decided_through = retry.decided_through();
                    required_sequence = required;
                }
                // A caller was answered with the transaction, and repeats the write by its outcome.
                WriteStep::SignAgain { .. } => {
                    let decided = self.follow(actors).await;
                    return decided.ok_or_else(|| self.failure(actors, self.undecided(actors)));
                }
                WriteStep::Refused(hash) => {
                    let refused = find_tx(&hash).and_then(|tx| Some((SubmittedTx::from(&tx), tx.refusal?)));
                    let error = match refused {
                        Some((tx, refusal)) => WriteError::Rejected { tx, refusal: Box::new(refusal) },
                        None => self.undecided(actors),
                    };
                    let executed = self.executed(actors, &retry, times());
                    return executed.ok_or_else(|| self.failure(actors, error));
                }
                WriteStep::Ended(hash) => {
                    let ended = find_tx(&hash).and_then(|tx| DecidedWrite::new(&tx, times()));
                    return ended.ok_or_else(|| self.failure(actors, self.undecided(actors)));
                }
            }
        }
    }

    /// Follows the transactions of a refused write until the chain has decided all of them. Yields the one that executed, or the
    /// last one; `None` when the confirmer has stopped for good.
    pub async fn follow(&mut self, actors: &WriteActors) -> Option<DecidedWrite> {
        let now = Instant::now();
        loop {
            let ended = self.with_transactions(actors, |transactions| {
                followed_outcome(&self.decided_through.later(transactions)).cloned()
            });
            if let Some(tx) = ended {
                if let Some(WriteOutcome::Included { height, .. }) = tx.outcome {
                    // A caller that repeats the refused write from now on waits for the answer of the block.
                    let (hash, timeout_height) = (tx.hash.clone(), tx.timeout_height);
                    self.reporter.report(WriteStatus::Included { hash, timeout_height, height });
                }
                return DecidedWrite::new(&tx, WriteTimes { requested: now, sent: now, decided: Instant::now() });
            }
            if !self.await_news(actors, false).await {
                return None;
            }
        }
    }

    /// Follows the transactions of a write of an earlier process to their outcome. The write is not signed again, because its callers
    /// are gone.
    pub async fn resume<R>(
        &mut self,
        actors: &WriteActors,
        transactions: &[InFlightTx],
    ) -> Result<DecidedWrite, WriteFailure<R>> {
        self.begin_reconciliation();
        self.submissions = transactions.iter().map(|tx| tx.submission_id).collect();
        self.submissions.dedup();
        let was_open = transactions.iter().any(|tx| tx.outcome.is_none());
        let Some(decided) = self.follow(actors).await else {
            let error = self.undecided(actors);
            return Err(self.failure(actors, error));
        };
        if was_open {
            actors.recovery.with(|summary| summary.count_outcome(&decided.outcome));
            metrics::record_tx_recovered(decided.outcome.label());
        }
        Ok(decided)
    }

    /// Reads the transactions of the write in the order of their signatures.
    fn with_transactions<T>(&self, actors: &WriteActors, read: impl FnOnce(&[&InFlightTx]) -> T) -> T {
        actors.table.with(|table| {
            let transactions: Vec<&InFlightTx> =
                self.submissions.iter().flat_map(|id| table.transactions_of(*id)).collect();
            read(&transactions)
        })
    }

    /// The transaction of a write that has executed although the write ended with an error: it is the outcome.
    fn executed(&self, actors: &WriteActors, retry: &RetryState, times: WriteTimes) -> Option<DecidedWrite> {
        self.with_transactions(actors, |transactions| DecidedWrite::new(retry.executed(transactions)?, times))
    }

    fn failure<R>(&self, actors: &WriteActors, error: WriteError<R>) -> WriteFailure<R> {
        self.with_transactions(actors, |transactions| WriteFailure {
            last_tx: transactions.last().map(|tx| SubmittedTx::from(*tx)),
            may_execute: transactions.iter().any(|tx| tx.outcome.is_none()),
            error,
        })
    }

    /// The error for a write whose confirmer has stopped for good.
    fn undecided<R>(&self, actors: &WriteActors) -> WriteError<R> {
        let last = self.with_transactions(actors, |transactions| transactions.last().map(|tx| SubmittedTx::from(*tx)));
        let (hash, timeout_height) = last.map(|tx| (tx.hash, tx.timeout_height)).unwrap_or_default();
        WriteError::Undecided { hash, timeout_height }
    }

    /// Separates the rest of the write from the trace of the call, which has ended. The new trace links to the call's.
    fn begin_reconciliation(&mut self) {
        let traceparent = trace::traceparent(&self.span).or_else(|| self.intent.traceparent.clone());
        self.span = trace::reconcile_span(traceparent.as_deref());
    }

    /// Waits for news of the undecided transactions, as long as it takes; false when the confirmer has stopped for good.
    async fn await_news(&mut self, actors: &WriteActors, includes_refusal: bool) -> bool {
        let undecided: Vec<(SubmittedTx, bool)> = self.with_transactions(actors, |transactions| {
            let open = transactions.iter().filter(|tx| tx.outcome.is_none());
            open.map(|tx| (SubmittedTx::from(*tx), includes_refusal && tx.refusal.is_none())).collect()
        });
        let Some((SubmittedTx { hash, timeout_height, .. }, _)) = undecided.last().cloned() else {
            // The last one was decided just now, unless there never was one.
            return self.with_transactions(actors, |transactions| !transactions.is_empty());
        };
        if !self.is_answered {
            self.reporter.report(WriteStatus::InFlight { hash: hash.clone(), timeout_height });
        }
        let mut span = self.inclusion_span(&hash);
        let news = loop {
            let questions = undecided.iter().map(|(tx, is_refusal_news)| {
                let question = actors.confirmer.await_news(&tx.hash, *is_refusal_news);
                Box::pin(question.instrument(span.clone()))
            });
            tokio::select! {
                (news, ..) = futures::future::select_all(questions) => break news,
                () = self.reporter.caller_timed_out() => {}
            }
            self.begin_reconciliation();
            span = self.inclusion_span(&hash);
        };
        if let Some(TxNews::Decided(WriteOutcome::Included { height, .. })) = news {
            trace::record_height(&span, height);
            if !self.is_answered {
                self.reporter.report(WriteStatus::Included { hash, timeout_height, height });
            }
        }
        news.is_some()
    }

    fn inclusion_span(&self, hash: &str) -> Span {
        let span = trace::stage_span(WriteStage::AwaitInclusion, &self.span);
        trace::record_tx(&span, hash);
        span
    }

    /// A transaction with the same message whose record the journal had lost: this write may be its repetition.
    async fn find_restored<R>(&self, actors: &WriteActors) -> Result<Option<(String, u64)>, WriteError<R>> {
        let found = actors.journal.find_restored(&self.intent.encoded).await;
        found.map_err(|error| WriteError::Submit(SubmitError::Journal(error.to_string())))
    }

    /// Hands the write to the signer; afterwards the table has its transaction.
    async fn submit<P: SigningPolicy>(
        &mut self,
        actors: &WriteActors,
        policy: &P,
        retry: &RetryState,
        required_sequence: Option<u64>,
    ) -> Result<(), WriteError<P::Refusal>> {
        if let Some(failure) = actors.journal.failure() {
            return Err(WriteError::Submit(SubmitError::Journal(failure.reason)));
        }
        if !self.is_repeatable
            && let Some((hash, height)) = self.find_restored(actors).await?
        {
            return Err(WriteError::Submit(SubmitError::Restored { hash, height }));
        }
        let attempt = u32::try_from(self.submissions.len()).unwrap_or(u32::MAX);
        let granter: Option<FeeGranter> = policy.authorize(&self.intent, attempt).map_err(WriteError::Refused)?;
        let request = SigningRequest {
            submission_id: actors.next_submission_id(),
            intent: Arc::clone(&self.intent),
            min_gas_limit: retry.min_gas_limit,
            required_sequence,
            granter: granter.filter(|_| !retry.pays_itself),
            span: self.span.clone(),
        };
        self.submissions.push(request.submission_id);
        let deadline = Instant::now() + actors.tx_timeout + SIGNING_GRACE;
        match actors.signer.submit(&request, deadline).await {
            Ok(_) => Ok(()),
            Err(CallError::Refused(error)) => Err(WriteError::Submit(error)),
            Err(CallError::Unanswered(error)) => withdraw(actors, request.submission_id, error).await.map(drop),
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

impl<R> From<SubmitError> for WriteError<R> {
    fn from(error: SubmitError) -> Self {
        Self::Submit(error)
    }
}
