//! One ledger call from the message to the answer: gate, fee granter, signer, confirmer, barrier.
//!
//! The call is a task of its own and outlives whoever started it: what was handed to the node is followed to its end. An actor
//! that dies on the way is asked again by its successor; the number of the call keeps a second transaction from being made.

use std::{future::Future, time::Duration};

use serde_json::{Value, json};
use svc_kit::{AskError, wall};
use svc_otel::{
    metrics,
    trace::{self, Stage},
};
use svc_wire::{
    chain_error::ChainError,
    comet::TxResult,
    envelope::{Code, ErrorEnvelope},
    tx,
};
use tokio::{sync::mpsc, time::Instant};
use tracing::Instrument;

use crate::{
    error::{ask_error, submit_error, tx_failed},
    in_flight::{CallId, Outcome},
    operator::Parts,
    prepare::Prepared,
    refresher::Trigger,
    signer::{Submission, SubmitError, Submitted},
    snapshot::Gate,
};

/// How far a write has come, for whoever watches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Handed to the node and accepted there.
    Submitted {
        /// Upper-case hex.
        hash: String,
        /// Past this height it can never execute.
        timeout_height: u64,
    },
    /// In a block; what it did there is not told yet.
    Included {
        /// Height.
        height: u64,
    },
}

/// Steps a watcher has not taken yet. A write has fewer, so none is lost, and a watcher that does not read holds nothing up.
pub const STEPS: usize = 8;

/// What became of a write that was included and indexed, or included and not indexed in time.
#[derive(Debug, Clone, serde::Serialize)]
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
    pub fee_payer: &'static str,
    /// Milliseconds each stage took.
    pub timings_ms: Value,
}

/// How long a write may wait for its signature beyond the time to inclusion.
const SIGNING_GRACE: Duration = Duration::from_secs(30);
/// How long a refused write waits for the indexer before it is judged.
const CATCH_UP: Duration = Duration::from_secs(3);
/// How long a call waits for an actor to come back.
pub(crate) const RESTART_PATIENCE: Duration = Duration::from_secs(10);

pub(crate) async fn run(
    parts: Parts,
    call: CallId,
    prepared: Prepared,
    steps: Option<mpsc::Sender<Step>>,
) -> Result<LedgerReceipt, ErrorEnvelope> {
    let tell = |step: Step| {
        if let Some(steps) = &steps {
            // Nobody may be watching any more.
            let _ = steps.try_send(step);
        }
    };
    let started = Instant::now();
    let submitted = submit(&parts, call, &prepared).await?;
    let signed = started.elapsed();
    tell(Step::Submitted { hash: submitted.hash.clone(), timeout_height: submitted.timeout_height });
    let (height, result) = await_inclusion(&parts, &submitted).await?;
    let included = started.elapsed();
    tell(Step::Included { height });
    if result.code != 0 {
        // What the chain said contradicts what is published: read it again.
        let _ = parts.refresher.refresh(Trigger::Write, RESTART_PATIENCE).await;
        let error = ChainError { codespace: result.codespace, code: result.code, raw_log: result.log };
        return Err(tx_failed(&submitted.hash, height, &error));
    }
    let (indexer_synced, indexer_height) = await_index(&parts, &submitted.hash, height).await;
    let indexed = started.elapsed();
    let response = tx::message_responses(&result.data)
        .first()
        .and_then(|packed| parts.chain.registry.decode(&packed.type_url, &packed.value).ok())
        .unwrap_or_else(|| json!({}));
    let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    Ok(LedgerReceipt {
        tx_hash: submitted.hash,
        block_height: height,
        code: 0,
        gas_used: result.gas_used,
        gas_wanted: result.gas_wanted,
        raw_log: result.log,
        events: serde_json::to_value(&result.events).unwrap_or_default(),
        indexer_synced,
        indexer_height,
        response,
        fee_payer: if submitted.has_granter { "corporation" } else { "operator" },
        timings_ms: json!({
            "submit": millis(signed), "inclusion": millis(included - signed), "index": millis(indexed - included),
        }),
    })
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

async fn submit(parts: &Parts, call: CallId, prepared: &Prepared) -> Result<Submitted, ErrorEnvelope> {
    check_gate(parts, prepared.msg_type(), prepared.needs_grant)?;
    let snapshot = parts.board.current();
    let budget = snapshot.fee_budget(prepared.msg_type(), &wall::now());
    let submission = Submission {
        call,
        message: prepared.message.clone(),
        granter: budget.map(|budget| (snapshot.policy_address().to_owned(), budget)),
        span: tracing::Span::current(),
    };
    let deadline = Instant::now() + parts.tx_timeout + SIGNING_GRACE;
    let signer = &parts.signer;
    let outcome =
        persistently(deadline, || signer.0.until_up(RESTART_PATIENCE), |left| signer.submit(submission.clone(), left))
            .await;
    match outcome {
        Ok(Ok(submitted)) => Ok(submitted),
        Ok(Err(error)) => Err(explain(parts, prepared, error).await),
        Err(error) => give_up(parts, call, &error).await,
    }
}

/// The signer did not answer in time: the write is taken back, so that what the caller is told stays true.
async fn give_up(parts: &Parts, call: CallId, error: &AskError) -> Result<Submitted, ErrorEnvelope> {
    let signer = &parts.signer;
    let deadline = Instant::now() + RESTART_PATIENCE;
    let withdrawn =
        persistently(deadline, || signer.0.until_up(RESTART_PATIENCE), |left| signer.withdraw(call, left)).await;
    match withdrawn {
        Ok(Some(submitted)) => Ok(submitted),
        Ok(None) => Err(ask_error(error)),
        // Nobody can say whether it will be signed.
        Err(_) => Err(ErrorEnvelope::new(
            Code::Restarting,
            format!("the signer does not answer: {error}"),
            "the write may still be made: look in the indexer for its effect before repeating it",
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

fn timed_out(hash: &str, timeout_height: u64, waited: Duration) -> ErrorEnvelope {
    let message =
        format!("transaction {hash} was not included within {waited:?}; it may still be until block {timeout_height}");
    let hint = "do not repeat the call: ask svc.cosmos.tx.getTx for this hash (prompt reconcile-transaction)";
    ErrorEnvelope::new(Code::BcastTimeout, message, hint)
        .with_details(json!({"tx_hash": hash, "timeout_height": timeout_height}))
}

async fn await_inclusion(parts: &Parts, submitted: &Submitted) -> Result<(u64, Box<TxResult>), ErrorEnvelope> {
    let span = trace::stage_span(Stage::AwaitInclusion, &tracing::Span::current());
    trace::record_tx(&span, &submitted.hash);
    let (confirmer, hash) = (&parts.confirmer, submitted.hash.as_str());
    let deadline = Instant::now() + parts.tx_timeout;
    let waited =
        persistently(deadline, || confirmer.0.until_up(RESTART_PATIENCE), |left| confirmer.outcome(hash, left))
            .instrument(span.clone())
            .await;
    match waited {
        Ok(Some(Outcome::Included { height, result })) => {
            trace::record_height(&span, height);
            Ok((height, result))
        }
        Ok(Some(Outcome::Expired { timeout_height })) => {
            let message =
                format!("transaction {hash} was not included by block {timeout_height} and can never execute");
            let hint = "nothing was changed; the same call can be made again";
            Err(ErrorEnvelope::new(Code::TxExpired, message, hint)
                .with_details(json!({"tx_hash": hash, "timeout_height": timeout_height})))
        }
        Ok(None) | Err(_) => Err(timed_out(hash, submitted.timeout_height, parts.tx_timeout)),
    }
}

/// Waits for the indexer; yields whether it came, and where it is.
async fn await_index(parts: &Parts, hash: &str, height: u64) -> (bool, u64) {
    let span = trace::stage_span(Stage::AwaitIndex, &tracing::Span::current());
    trace::record_tx(&span, hash);
    trace::record_height(&span, height);
    let barrier = &parts.barrier;
    let deadline = Instant::now() + parts.indexer_timeout;
    let reached = persistently(deadline, || barrier.0.until_up(RESTART_PATIENCE), |left| barrier.reached(height, left))
        .instrument(span)
        .await;
    let indexer_height = parts.cursor.with(|cursor| cursor.height);
    let is_synced = reached.is_ok() || indexer_height >= height;
    metrics::barrier_outcome(if is_synced { "reached" } else { "behind" });
    tracing::info!(tx_hash = hash, height, indexer_height, synced = is_synced, "barrier has ended");
    (is_synced, indexer_height)
}
