//! What a run asks of the actors, and of their successors.

use std::{future::Future, time::Duration};

use serde_json::json;
use svc_kit::{AskError, actor::Standing, wall};
use svc_otel::{
    metrics,
    trace::{self, Stage},
};
use svc_wire::envelope::{Code, ErrorEnvelope};
use tokio::time::Instant;
use tracing::{Instrument, Span};

use crate::{
    error::{ask_error, submit_error},
    in_flight::Outcome,
    operator::Parts,
    prepare::Prepared,
    refresher::Trigger,
    signer::{Submission, SubmitError, Submitted},
    snapshot::Gate,
};

/// How long a refused write waits for the indexer before it is judged.
const CATCH_UP: Duration = Duration::from_secs(3);
/// How long a call waits for an actor to come back.
pub(crate) const RESTART_PATIENCE: Duration = Duration::from_secs(10);
/// How long one question to the confirmer lasts; it is asked again until there is an outcome.
const OUTCOME_PATIENCE: Duration = Duration::from_secs(60);
/// A confirmer with a full mailbox is asked again after this.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// Whether the corporation grants the message type now.
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
pub async fn give_up(parts: &Parts, submission: &Submission, error: &AskError) -> Result<Submitted, ErrorEnvelope> {
    let (signer, call) = (&parts.signer, submission.call);
    let deadline = Instant::now() + RESTART_PATIENCE;
    let until_up = || signer.0.until_up(RESTART_PATIENCE);
    let withdrawn = persistently(deadline, until_up, |left| signer.withdraw(call, left)).await;
    match withdrawn {
        Ok(Some(submitted)) => Ok(submitted),
        Ok(None) => Err(ask_error(error)),
        // The table knows what was signed, also when nobody answers for it.
        Err(_) => match parts.table.with(|table| table.of_call(call).map(Submitted::from)) {
            Some(submitted) => Ok(submitted),
            None => Err(ErrorEnvelope::new(
                Code::Restarting,
                format!("the signer does not answer: {error}"),
                "the write may still be made: look in svc://own/transactions for it before repeating it",
            )
            .unrepeatable()),
        },
    }
}

/// A refused simulation may mean that the authorization is gone: the chain's wording is not trusted, its state is read.
pub async fn explain(parts: &Parts, prepared: &Prepared, error: SubmitError) -> ErrorEnvelope {
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
pub async fn outcome(parts: &Parts, hash: &str) -> Option<Outcome> {
    let confirmer = &parts.confirmer;
    loop {
        let deadline = Instant::now() + OUTCOME_PATIENCE;
        let until_up = || confirmer.0.until_up(RESTART_PATIENCE);
        match persistently(deadline, until_up, |left| confirmer.outcome(hash, left)).await {
            Ok(outcome) => return outcome,
            Err(AskError::TimedOut { .. }) => {}
            Err(AskError::Refused { .. }) => tokio::time::sleep(REFUSED_PAUSE).await,
            Err(AskError::NotDelivered { standing: Standing::Stopped, .. }) => return None,
            // The tree keeps trying, and so does this.
            Err(AskError::Died { .. } | AskError::NotDelivered { .. }) => tokio::time::sleep(REFUSED_PAUSE).await,
        }
    }
}

/// Waits for the indexer; yields whether it came, and where it is.
pub async fn await_index(parts: &Parts, hash: &str, height: u64) -> (bool, u64) {
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
