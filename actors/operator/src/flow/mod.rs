//! One ledger call from the order to its outcome: gate, fee granter, signer, confirmer, barrier.
//!
//! The run of a call is a task of its own and ends with a decided outcome, whoever waits for it and for how long: what was
//! handed to the node is followed until it is in a block or never can be. An actor that dies on the way is asked again by its
//! successor; the number of the call keeps a second transaction from being made. A new one is signed only after the chain has
//! decided that the first never executes, or has executed without effect for want of gas.

mod asking;
mod ending;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use svc_kit::wall;
use svc_otel::{
    metrics,
    trace::{self, Stage},
};
use svc_wire::{
    chain_error::{ChainError, Meaning},
    envelope::ErrorEnvelope,
};
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tracing::{Instrument, Span};

use crate::{
    error::{displaced, expired, timed_out, tx_failed, unwritten},
    in_flight::Outcome,
    operator::Parts,
    order::Order,
    refresher::Trigger,
    signer::{Submission, Submitted},
};
use asking::{await_index, explain, give_up, outcome};
use ending::{Ended, UNDECIDED, after, means};

pub(crate) use asking::{RESTART_PATIENCE, check_gate, persistently};
pub use ending::LedgerReceipt;
pub(crate) use ending::{Answer, receipt};

/// Where a write stands.
#[derive(Debug, Clone)]
pub(crate) enum Stand {
    /// It waits for its turn, is simulated and signed.
    Waiting,
    /// Handed to the node.
    InFlight { hash: String, timeout_height: u64 },
    /// In a block; what it did there is not told yet.
    Included { hash: String, timeout_height: u64, height: u64 },
    /// It has ended.
    Done(Box<Result<LedgerReceipt, ErrorEnvelope>>),
}

/// A write under way, for those who wait for it.
#[derive(Clone)]
pub(crate) struct Progress {
    pub stand: watch::Receiver<Stand>,
    late: Arc<Late>,
}

/// Whether somebody has been told that the outcome is not decided yet.
#[derive(Default)]
struct Late {
    is: AtomicBool,
    news: Notify,
}

/// The run of a write, seen from inside.
pub(crate) struct Run {
    order: Arc<Order>,
    stand: watch::Sender<Stand>,
    late: Arc<Late>,
    /// Span of the call while it lasts, of the reconciliation afterwards.
    span: Span,
}

/// How long a write may wait for its signature beyond the time to inclusion.
const SIGNING_GRACE: Duration = Duration::from_secs(30);
/// How often a write whose sequence was used by another is signed anew.
const MAX_DISPLACED: u32 = 3;

impl Run {
    /// A run, and the progress to wait for.
    pub(crate) fn new(order: Arc<Order>, span: Span) -> (Self, Progress) {
        let (stand, watched) = watch::channel(Stand::Waiting);
        let late = Arc::<Late>::default();
        (Self { order, stand, late: Arc::clone(&late), span }, Progress { stand: watched, late })
    }

    /// From the order to the outcome.
    pub(crate) async fn write(mut self, parts: Parts) {
        let outcome = match parts.audit.begin(&self.order) {
            Ok(()) => self.until_decided(&parts).await,
            Err(error) => return self.done(Err(unwritten("audit", &error.to_string()))),
        };
        self.close(&parts, outcome);
    }

    /// From a transaction of an earlier process to the outcome. Nothing is signed anew: nobody waits for it any more.
    pub(crate) async fn resume(mut self, parts: Parts, submitted: Submitted) {
        self.reconcile();
        let span = self.span.clone();
        let was_open =
            parts.table.with(|table| table.get(&submitted.hash).is_some_and(|entry| entry.outcome.is_none()));
        let outcome = async {
            let (decided, started) = (self.decided(&parts, &submitted).await?, Instant::now());
            if was_open {
                parts.recovered.with(|recovered| recovered.decided(decided.word()));
                metrics::tx_recovered(decided.word());
            }
            self.conclude(&parts, &submitted, decided, [started; 2]).await
        }
        .instrument(span)
        .await;
        self.close(&parts, Ended { submitted: Some(submitted), outcome });
    }

    async fn until_decided(&mut self, parts: &Parts) -> Ended {
        let (mut least_gas, mut times_displaced, mut pays_itself) = (0, 0, false);
        let mut before: Option<Submitted> = None;
        loop {
            let started = Instant::now();
            let submitted = match self.submit(parts, least_gas, pays_itself).instrument(self.span.clone()).await {
                Ok(submitted) => submitted,
                Err(error) => {
                    let outcome = Err(match &before {
                        Some(before) => after(error, before),
                        None => error,
                    });
                    return Ended { submitted: before, outcome };
                }
            };
            let signed = Instant::now();
            let decided = match self.decided(parts, &submitted).await {
                Ok(decided) => decided,
                Err(error) => return Ended { submitted: Some(submitted), outcome: Err(error) },
            };
            match &decided {
                // Decided, so another transaction cannot make it happen twice; and once only, with twice the gas.
                Outcome::Included { result, .. } if least_gas == 0 && means(result, Meaning::OutOfGas) => {
                    least_gas = result.gas_wanted.saturating_mul(2);
                    tracing::warn!(tx_hash = submitted.hash, gas = least_gas, "out of gas, signed anew with more");
                }
                // The allowance ended on the way; it used no sequence, and once more it is tried without.
                Outcome::Included { result, .. } if submitted.has_granter && means(result, Meaning::FeeAllowance) => {
                    pays_itself = true;
                    tracing::warn!(tx_hash = submitted.hash, "the fee allowance is gone, signed anew without");
                }
                Outcome::Displaced { .. } if times_displaced < MAX_DISPLACED => {
                    times_displaced += 1;
                    tracing::warn!(tx_hash = submitted.hash, "the sequence was used by another, signed anew");
                }
                _ => {
                    let span = self.span.clone();
                    let outcome = self.conclude(parts, &submitted, decided, [started, signed]).instrument(span).await;
                    return Ended { submitted: Some(submitted), outcome };
                }
            }
            self.stand.send_replace(Stand::Waiting);
            before = Some(submitted);
        }
    }

    /// Ends everything that is kept of the write.
    fn close(self, parts: &Parts, ended: Ended) {
        if ended.word(parts) == UNDECIDED {
            // The server is stopping: the next boot finds it open, and ends it.
            return self.done(ended.outcome);
        }
        if let (Some(submitted), Some(_)) = (&ended.submitted, &self.order.key) {
            // The answer under a key must be there before anybody who was told of it asks again.
            let answer = serde_json::to_string(&Answer::from(&ended.outcome)).unwrap_or_default();
            parts.journal.answered(&submitted.hash, answer);
        }
        parts.audit.complete(&self.order.id, ended.audit(parts));
        if self.late.is.load(Ordering::Acquire) {
            metrics::tx_late(ended.word(parts));
        }
        self.done(ended.outcome);
    }

    /// Tells everybody who waits.
    pub(crate) fn done(self, outcome: Result<LedgerReceipt, ErrorEnvelope>) {
        self.stand.send_replace(Stand::Done(Box::new(outcome)));
    }

    /// From here on the call has ended: what follows is a trace of its own, linked to the call's.
    fn reconcile(&mut self) {
        let traceparent = trace::traceparent(&self.span).or_else(|| self.order.traceparent.clone());
        self.span = trace::reconcile_span(traceparent.as_deref());
    }

    /// Waits for the outcome, as long as it takes.
    async fn decided(&mut self, parts: &Parts, submitted: &Submitted) -> Result<Outcome, ErrorEnvelope> {
        let (hash, timeout_height) = (submitted.hash.clone(), submitted.timeout_height);
        self.stand.send_replace(Stand::InFlight { hash: hash.clone(), timeout_height });
        let mut span = trace::stage_span(Stage::AwaitInclusion, &self.span);
        trace::record_tx(&span, &hash);
        let late = Arc::clone(&self.late);
        let outcome = loop {
            let decided = outcome(parts, &hash).instrument(span.clone());
            tokio::select! {
                outcome = decided => break outcome,
                () = late.news.notified() => {
                    self.reconcile();
                    span = trace::stage_span(Stage::AwaitInclusion, &self.span);
                    trace::record_tx(&span, &hash);
                }
            }
        };
        let outcome = outcome.ok_or_else(|| timed_out(&hash, timeout_height, parts.tx_timeout))?;
        if let Outcome::Included { height, .. } = outcome {
            trace::record_height(&span, height);
            self.stand.send_replace(Stand::Included { hash, timeout_height, height });
        }
        Ok(outcome)
    }

    /// The answer for an outcome.
    async fn conclude(
        &self,
        parts: &Parts,
        submitted: &Submitted,
        outcome: Outcome,
        [started, signed]: [Instant; 2],
    ) -> Result<LedgerReceipt, ErrorEnvelope> {
        let hash = &submitted.hash;
        let (height, result) = match outcome {
            Outcome::Included { height, result } => (height, result),
            Outcome::Expired { timeout_height } => return Err(expired(hash, timeout_height)),
            Outcome::Displaced { height } => return Err(displaced(hash, submitted.sequence, height)),
        };
        let included = Instant::now();
        if result.code != 0 {
            // What the chain said contradicts what is published: read it again.
            let _ = parts.refresher.refresh(Trigger::Write, RESTART_PATIENCE).await;
            let error = ChainError { codespace: result.codespace, code: result.code, raw_log: result.log };
            return Err(tx_failed(hash, height, &error));
        }
        let (indexer_synced, indexer_height) = await_index(parts, hash, height).await;
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let timings = json!({
            "submit": millis(signed - started), "inclusion": millis(included - signed), "index": millis(included.elapsed()),
        });
        let fee_payer = if submitted.has_granter { "corporation" } else { "operator" };
        let mut receipt = receipt(parts, hash, height, *result, fee_payer);
        (receipt.indexer_synced, receipt.indexer_height, receipt.timings_ms) =
            (indexer_synced, indexer_height, timings);
        Ok(receipt)
    }

    async fn submit(&self, parts: &Parts, least_gas: u64, pays_itself: bool) -> Result<Submitted, ErrorEnvelope> {
        let prepared = &self.order.prepared;
        check_gate(parts, prepared.msg_type(), prepared.needs_grant)?;
        let snapshot = parts.board.current();
        let budget = snapshot.fee_budget(prepared.msg_type(), &wall::now());
        let submission = Submission {
            call: parts.next_call(),
            order: Arc::clone(&self.order),
            least_gas,
            granter: budget.filter(|_| !pays_itself).map(|budget| (snapshot.policy_address().to_owned(), budget)),
            span: self.span.clone(),
        };
        let deadline = Instant::now() + parts.tx_timeout + SIGNING_GRACE;
        let signer = &parts.signer;
        let until_up = || signer.0.until_up(RESTART_PATIENCE);
        let outcome = persistently(deadline, until_up, |left| signer.submit(submission.clone(), left)).await;
        match outcome {
            Ok(Ok(submitted)) => Ok(submitted),
            Ok(Err(error)) => Err(explain(parts, prepared, error).await),
            Err(error) => give_up(parts, &submission, &error).await,
        }
    }
}

impl Progress {
    /// Notes that somebody was told the outcome is not decided yet.
    pub(crate) fn told_late(&self) {
        if !self.late.is.swap(true, Ordering::AcqRel) {
            self.late.news.notify_one();
        }
    }
}
