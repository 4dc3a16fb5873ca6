//! The task of one write: policy, signer, confirmer, until the chain has decided.
//!
//! The task ends with a decided outcome, however long its callers wait: a transaction that was sent is followed until a block
//! contains it or it never can execute. When an actor dies on the way, the task asks the next incarnation, and the submission id
//! prevents a second transaction. [`RetryState`] decides when a write may be signed again.

mod following;

use std::{pin::pin, sync::Arc, time::Duration};

use svc_kit::{AskError, CallError, RetainedState};
use svc_otel::trace;
use tokio::{sync::Notify, time::Instant};
use tracing::{Instrument, Span};

use crate::{
    confirmer::ConfirmerHandle,
    decided_write::{DecidedWrite, WriteTimes},
    journal::{JournalHandle, core::RecoverySummary},
    signer::SignerHandle,
    write::{
        error::{SubmitError, WriteError, WriteFailure},
        fee::FeeGranter,
        in_flight::{InFlightTable, InFlightTx},
        intent::WriteIntent,
        policy::SigningPolicy,
        retry::{DecidedThrough, RetryState, WriteStep},
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
                    let ended = find_tx(&hash);
                    // A block may have had it before the node has answered the broadcast.
                    ended.iter().for_each(|tx| self.report_inclusion(tx));
                    let ended = ended.and_then(|tx| DecidedWrite::new(&tx, times()));
                    return ended.ok_or_else(|| self.failure(actors, self.undecided(actors)));
                }
            }
        }
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
        if let Some(change) = actors.journal.chain_change() {
            return Err(WriteError::Submit(SubmitError::ChainChanged(Box::new(change))));
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
            bytes_left: Arc::new(Notify::new()),
            span: self.span.clone(),
        };
        self.submissions.push(request.submission_id);
        self.await_signer(actors, &request).await
    }

    /// Waits for the answer of the signer. Once bytes have left, the callers' wait runs, and an inclusion ends this one: the answer of
    /// the node to the broadcast may come much later.
    async fn await_signer<R>(&mut self, actors: &WriteActors, request: &SigningRequest) -> Result<(), WriteError<R>> {
        let id = request.submission_id;
        let mut submitted = pin!(actors.signer.submit(request, Instant::now() + actors.tx_timeout + SIGNING_GRACE));
        let mut sent: Option<SubmittedTx> = None;
        loop {
            let hash = sent.as_ref().map(|tx| tx.hash.clone());
            tokio::select! {
                answer = &mut submitted => {
                    return match answer {
                        Ok(_) => Ok(()),
                        Err(CallError::Refused(error)) => Err(WriteError::Submit(error)),
                        Err(CallError::Unanswered(error)) => withdraw(actors, id, error).await.map(drop),
                    };
                }
                () = request.bytes_left.notified() => {
                    sent = newest_tx(actors, id);
                    if let Some(SubmittedTx { hash, timeout_height, .. }) = sent.clone() {
                        self.reporter.report_in_flight(hash, timeout_height);
                    }
                }
                () = await_execution(actors, hash.as_deref()) => return Ok(()),
                () = self.reporter.caller_timed_out() => {
                    self.begin_reconciliation();
                    // The caller looks for the transaction that it knows: the signer makes no other one of this write.
                    tokio::select! {
                        _ = actors.signer.withdraw(id, Instant::now() + WITHDRAWAL_TIMEOUT) => {}
                        () = await_execution(actors, hash.as_deref()) => {}
                    }
                    if newest_tx(actors, id).is_some() {
                        return Ok(());
                    }
                }
            }
        }
    }
}

/// The newest transaction of a submission. The table has every signed one, also while no signer answers.
fn newest_tx(actors: &WriteActors, id: SubmissionId) -> Option<SubmittedTx> {
    actors.table.with(|table| table.find_by_submission(id).map(SubmittedTx::from))
}

/// Ends once the transaction has used its sequence in a block; without one it never ends.
async fn await_execution(actors: &WriteActors, hash: Option<&str>) {
    if let Some(hash) = hash {
        actors.confirmer.await_outcome(hash).await;
        if actors.table.with(|table| table.get(hash).is_some_and(InFlightTx::has_executed)) {
            return;
        }
    }
    std::future::pending().await
}

/// Withdraws a write that the signer did not answer, so that its error is true.
async fn withdraw<R>(actors: &WriteActors, id: SubmissionId, error: AskError) -> Result<SubmittedTx, WriteError<R>> {
    match actors.signer.withdraw(id, Instant::now() + WITHDRAWAL_TIMEOUT).await {
        Ok(Some(submitted)) => Ok(submitted),
        Ok(None) => Err(WriteError::Withdrawn(error)),
        Err(_) => newest_tx(actors, id).ok_or(WriteError::SignerUnavailable(error)),
    }
}

impl<R> From<SubmitError> for WriteError<R> {
    fn from(error: SubmitError) -> Self {
        Self::Submit(error)
    }
}
