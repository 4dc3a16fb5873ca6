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
use tokio::time::Instant;
use tracing::Instrument;

use crate::{
    error::{ask_error, submit_error, tx_failed},
    in_flight::{CallId, Outcome},
    operator::Parts,
    refresher::Trigger,
    signer::{Submission, SubmitError, Submitted},
    snapshot::Gate,
};

/// A write.
#[derive(Debug, Clone)]
pub struct LedgerCall {
    /// Type URL.
    pub msg_type: String,
    /// The message as JSON, without the accounts.
    pub arguments: Value,
    /// Accounts the server fills in, by field name.
    pub accounts: Vec<(String, String)>,
    /// Whether an authorization of the corporation is needed.
    pub needs_grant: bool,
}

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
/// How long a call waits for an actor to come back.
const RESTART_PATIENCE: Duration = Duration::from_secs(10);

pub(crate) async fn run(parts: Parts, call: CallId, ledger_call: LedgerCall) -> Result<LedgerReceipt, ErrorEnvelope> {
    let started = Instant::now();
    let submitted = submit(&parts, call, &ledger_call).await?;
    let signed = started.elapsed();
    let (height, result) = await_inclusion(&parts, &submitted).await?;
    let included = started.elapsed();
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

/// Encodes the message with the server's accounts in it.
fn encode(parts: &Parts, ledger_call: &LedgerCall) -> Result<prost_types::Any, ErrorEnvelope> {
    let mut message = ledger_call.arguments.clone();
    for (field, account) in &ledger_call.accounts {
        message[field.as_str()] = account.as_str().into();
    }
    let encoded = parts.chain.registry.encode(&ledger_call.msg_type, &message);
    let value = encoded.map_err(|error| {
        let details = json!({"violations": [{"pointer": "", "reason": error.to_string()}]});
        let hint = "correct the argument and call again; tools/list shows the schema";
        ErrorEnvelope::new(Code::InputInvalid, error.to_string(), hint).with_details(details)
    })?;
    Ok(prost_types::Any { type_url: ledger_call.msg_type.clone(), value })
}

pub(crate) fn check_gate(parts: &Parts, ledger_call: &LedgerCall) -> Result<(), ErrorEnvelope> {
    if !ledger_call.needs_grant {
        return Ok(());
    }
    let details = json!({"msg_type": ledger_call.msg_type});
    match parts.board.current().gate(&ledger_call.msg_type, &wall::now()) {
        Gate::Granted => Ok(()),
        Gate::Expired(until) => {
            let message = format!("the authorization for {} expired at {until}", ledger_call.msg_type);
            let hint = "have the corporation grant it again (prompt delegate-operator); nothing was sent";
            Err(ErrorEnvelope::new(Code::AuthzExpired, message, hint).with_details(details))
        }
        Gate::NotGranted => {
            let message = format!("the corporation does not grant {} to this operator", ledger_call.msg_type);
            let hint =
                "have the corporation grant it (svc.wallet.listAuthorizations shows what is granted); nothing was sent";
            Err(ErrorEnvelope::new(Code::AuthzNotGranted, message, hint).with_details(details))
        }
    }
}

/// Asks an actor, and its successor if it dies on the way.
async fn persistently<T, F, U>(
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

async fn submit(parts: &Parts, call: CallId, ledger_call: &LedgerCall) -> Result<Submitted, ErrorEnvelope> {
    check_gate(parts, ledger_call)?;
    let message = encode(parts, ledger_call)?;
    let snapshot = parts.board.current();
    let budget = snapshot.fee_budget(&ledger_call.msg_type, &wall::now());
    let submission = Submission {
        call,
        message,
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
        Ok(Err(error)) => Err(explain(parts, ledger_call, error).await),
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
async fn explain(parts: &Parts, ledger_call: &LedgerCall, error: SubmitError) -> ErrorEnvelope {
    let envelope = submit_error(&error);
    let was_refused = matches!(error, SubmitError::Simulation(_) | SubmitError::Rejected(_));
    if was_refused && ledger_call.needs_grant {
        let _ = parts.refresher.refresh(Trigger::Write, RESTART_PATIENCE).await;
        if let Err(mut gate) = check_gate(parts, ledger_call) {
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
