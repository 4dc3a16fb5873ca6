//! One ledger call from the order to its outcome: gate, fee granter, signer, confirmer, barrier.
//!
//! The run of a call is a task of its own and ends with a decided outcome, whoever waits for it and for how long: what was
//! handed to the node is followed until it is in a block or never can be. An actor that dies on the way is asked again by its
//! successor; the number of the call keeps a second transaction from being made. A new one is signed only after the chain has
//! decided that the first never executes, or has executed without effect for want of gas.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use svc_kit::{AskError, wall};
use svc_otel::{
    metrics,
    trace::{self, Stage},
};
use svc_wire::{
    chain_error::{ChainError, Meaning},
    comet::TxResult,
    envelope::{Code, ErrorEnvelope},
    tx,
};
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tracing::{Instrument, Span};

use crate::{
    audit::AuditEnd,
    error::{ask_error, displaced, expired, submit_error, timed_out, tx_failed, unwritten},
    in_flight::Outcome,
    operator::Parts,
    order::Order,
    prepare::Prepared,
    refresher::Trigger,
    signer::{Submission, SubmitError, Submitted},
    snapshot::Gate,
};

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

/// How long a write may wait for its signature beyond the time to inclusion.
const SIGNING_GRACE: Duration = Duration::from_secs(30);
/// How long a refused write waits for the indexer before it is judged.
const CATCH_UP: Duration = Duration::from_secs(3);
/// How long a call waits for an actor to come back.
pub(crate) const RESTART_PATIENCE: Duration = Duration::from_secs(10);
/// How long one question to the confirmer lasts; it is asked again until there is an outcome.
const OUTCOME_PATIENCE: Duration = Duration::from_secs(60);
/// A confirmer with a full mailbox is asked again after this.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);
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

/// How a run ended.
struct Ended {
    submitted: Option<Submitted>,
    outcome: Result<LedgerReceipt, ErrorEnvelope>,
}

impl Ended {
    /// `included`, `failed`, `expired`, `displaced`, or `not_sent`.
    fn word(&self, parts: &Parts) -> &'static str {
        let Some(submitted) = &self.submitted else { return "not_sent" };
        parts.table.with(|table| {
            let outcome = table.get(&submitted.hash).and_then(|entry| entry.outcome.as_ref());
            outcome.map_or("undecided", Outcome::word)
        })
    }

    fn audit(&self, parts: &Parts) -> AuditEnd {
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
fn after(mut error: ErrorEnvelope, before: &Submitted) -> ErrorEnvelope {
    if error.code == Code::AuthzNotGranted {
        error.code = Code::AuthzRevoked;
    }
    error.details["tx_hash"] = before.hash.as_str().into();
    error.hint = format!("its first transaction came to nothing and no other was sent; {}", error.hint);
    error
}

fn means(result: &TxResult, meaning: Meaning) -> bool {
    let error = ChainError { codespace: result.codespace.clone(), code: result.code, raw_log: String::new() };
    result.code != 0 && error.meaning() == meaning
}

pub(crate) fn check_gate(parts: &Parts, msg_type: &str, needs_grant: bool) -> Result<(), ErrorEnvelope> {
    if !needs_grant {
        return Ok(());
    }
    let details = json!({"msg_type": msg_type});
    match parts.board.current().gate(msg_type, &wall::now()) {
        Gate::Granted => Ok(()),
        Gate::Expired(until) => {
            let message = format!("the authorization for {msg_type} expired at {until}");
            let hint = "have the corporation grant it again (prompt delegate-operator); nothing was sent";
            Err(ErrorEnvelope::new(Code::AuthzExpired, message, hint).with_details(details))
        }
        Gate::NotGranted => {
            let message = format!("the corporation does not grant {msg_type} to this operator");
            let hint =
                "have the corporation grant it (svc.wallet.listAuthorizations shows what is granted); nothing was sent";
            Err(ErrorEnvelope::new(Code::AuthzNotGranted, message, hint).with_details(details))
        }
    }
}

/// Asks an actor, and its successor if it dies on the way.
pub(crate) async fn persistently<T, F, U>(
    deadline: Instant,
    until_up: impl Fn() -> U,
    mut ask: impl FnMut(Duration) -> F,
) -> Result<T, AskError>
where
    F: Future<Output = Result<T, AskError>>,
    U: Future<Output = bool>,
{
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match ask(left).await {
            Err(error @ (AskError::Died { .. } | AskError::NotDelivered { .. })) => {
                if Instant::now() >= deadline || !until_up().await {
                    return Err(error);
                }
                // A death may not have reached the supervisor yet, and then the handle still says `up`.
                tokio::task::yield_now().await;
            }
            other => return other,
        }
    }
}

/// The signer did not answer in time: the write is taken back, so that what the caller is told stays true.
async fn give_up(parts: &Parts, submission: &Submission, error: &AskError) -> Result<Submitted, ErrorEnvelope> {
    let (signer, call) = (&parts.signer, submission.call);
    let deadline = Instant::now() + RESTART_PATIENCE;
    let until_up = || signer.0.until_up(RESTART_PATIENCE);
    let withdrawn = persistently(deadline, until_up, |left| signer.withdraw(call, left)).await;
    match withdrawn {
        Ok(Some(submitted)) => Ok(submitted),
        Ok(None) => Err(ask_error(error)),
        // Nobody can say whether it will be signed.
        Err(_) => Err(ErrorEnvelope::new(
            Code::Restarting,
            format!("the signer does not answer: {error}"),
            "the write may still be made: look in svc://own/transactions for it before repeating it",
        )
        .unrepeatable()),
    }
}

/// A refused simulation may mean that the authorization is gone: the chain's wording is not trusted, its state is read.
async fn explain(parts: &Parts, prepared: &Prepared, error: SubmitError) -> ErrorEnvelope {
    let envelope = submit_error(&error);
    let was_refused = matches!(error, SubmitError::Simulation(_) | SubmitError::Rejected(_));
    if was_refused && prepared.needs_grant {
        // The node may be a block ahead of what the authorizations are read from.
        if let Ok(status) = parts.node.status().await {
            let _ = parts.barrier.reached(status.sync_info.latest_block_height, CATCH_UP).await;
        }
        let _ = parts.refresher.refresh(Trigger::Write, RESTART_PATIENCE).await;
        if let Err(mut gate) = check_gate(parts, prepared.msg_type(), prepared.needs_grant) {
            if gate.code == Code::AuthzNotGranted {
                gate.code = Code::AuthzRevoked;
            }
            gate.details["chain"] = envelope.details;
            return gate;
        }
    }
    envelope
}

/// Asks the confirmer until there is an outcome; `None` when it does not know the transaction, or is gone for good.
async fn outcome(parts: &Parts, hash: &str) -> Option<Outcome> {
    let confirmer = &parts.confirmer;
    loop {
        let deadline = Instant::now() + OUTCOME_PATIENCE;
        let until_up = || confirmer.0.until_up(RESTART_PATIENCE);
        match persistently(deadline, until_up, |left| confirmer.outcome(hash, left)).await {
            Ok(outcome) => return outcome,
            Err(AskError::TimedOut { .. }) => {}
            Err(AskError::Refused { .. }) => tokio::time::sleep(REFUSED_PAUSE).await,
            Err(AskError::Died { .. } | AskError::NotDelivered { .. }) => return None,
        }
    }
}

/// Waits for the indexer; yields whether it came, and where it is.
async fn await_index(parts: &Parts, hash: &str, height: u64) -> (bool, u64) {
    let span = trace::stage_span(Stage::AwaitIndex, &Span::current());
    trace::record_tx(&span, hash);
    trace::record_height(&span, height);
    let barrier = &parts.barrier;
    let deadline = Instant::now() + parts.indexer_timeout;
    let until_up = || barrier.0.until_up(RESTART_PATIENCE);
    let reached = persistently(deadline, until_up, |left| barrier.reached(height, left)).instrument(span).await;
    let indexer_height = parts.cursor.with(|cursor| cursor.height);
    let is_synced = reached.is_ok() || indexer_height >= height;
    metrics::barrier_outcome(if is_synced { "reached" } else { "behind" });
    tracing::info!(tx_hash = hash, height, indexer_height, synced = is_synced, "barrier has ended");
    (is_synced, indexer_height)
}
