//! The shell of the resolution trigger.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, wall_clock};
use svc_otel::metrics;
use tokio::task::AbortHandle;

use super::{
    Args, Msg, ResolutionPhase,
    attempt::Attempt,
    core::{AttemptEnd, ResolutionCore, ResolutionEffect},
};
use crate::account_write::WritingAccount;

/// State of the trigger.
pub struct State {
    args: Arc<Args>,
    core: ResolutionCore,
    started: Instant,
    timer: Option<AbortHandle>,
}

/// The actor that has the document resolved.
pub struct ResolutionTrigger;

impl ActorBehaviour for ResolutionTrigger {
    const KIND: &'static str = "resolution_trigger";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<State, ActorFailure> {
        let progress = args.store.resolution_progress().await.map_err(|error| ActorFailure(error.to_string()))?;
        let age = wall_clock::now().seconds.saturating_sub(progress.first_change_at);
        let age = Duration::from_secs(u64::try_from(age).unwrap_or(0));
        // Times are counted from a moment in the past, so that a change before the start has one too.
        let started = Instant::now().checked_sub(Duration::from_secs(60)).unwrap_or_else(Instant::now);
        let core = ResolutionCore::new(progress.wanted, progress.done, age, started.elapsed());
        let state = State { args: Arc::clone(args), core, started, timer: None };
        args.report.with(|report| {
            report.since = wall_clock::now_rfc3339();
            report.tx_hash = report.tx_hash.take().or(progress.tx_hash);
        });
        context.mailbox().send(Msg::ChainFound);
        context.mailbox().send(Msg::ReadProgress);
        state.publish();
        Ok(state)
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        if !state.args.is_on {
            return Ok(());
        }
        let now = state.now();
        let effects = match message {
            Msg::Changed(version) => state.core.changed(version, now),
            Msg::ChainFound if state.args.chain.with(|chain| chain.is_some()) => state.core.chain_found(now),
            Msg::ChainFound => Vec::new(),
            Msg::ReadProgress => {
                state.read_progress(context);
                Vec::new()
            }
            Msg::RegistryChanged => state.core.registry_changed(now),
            Msg::Wake => state.core.woken(now),
            Msg::Sent(hash) => {
                state.core.sent();
                state.args.report.with(|report| report.tx_hash = Some(hash));
                Vec::new()
            }
            Msg::Ended { version, end } => {
                state.record(context, version, &end);
                state.core.ended(&end, now, fastrand::f64())
            }
        };
        state.perform(context, effects);
        state.publish();
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({"phase": state.core.phase().as_str()})
    }
}

impl State {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn publish(&self) {
        let phase = if self.args.is_on { self.core.phase() } else { ResolutionPhase::Off };
        self.args.report.with(|report| {
            if report.phase != phase {
                (report.phase, report.since) = (phase.clone(), wall_clock::now_rfc3339());
                tracing::info!(state = phase.as_str(), tx_hash = report.tx_hash, "the resolution of the document");
            }
        });
        metrics::record_resolution_state(phase.as_str());
    }

    fn record(&self, context: &ActorContext<Msg>, version: u64, end: &AttemptEnd) {
        match end {
            AttemptEnd::Done { tx_hash } => {
                metrics::record_resolution("done");
                tracing::info!(tx_hash, version, "the document is to be resolved again");
                self.args.report.with(|report| report.tx_hash = Some(tx_hash.clone()));
                let (store, tx_hash) = (self.args.store.clone(), tx_hash.clone());
                // Without this row the next process finds the transaction in the journal.
                context.spawn(async move {
                    if let Err(error) = store.end_resolution(version, &tx_hash).await {
                        tracing::warn!(%error, "the store has not noted the end of a resolution");
                    }
                });
            }
            AttemptEnd::Blocked { reason, .. } => {
                metrics::record_resolution("blocked");
                tracing::warn!(reason = &*reason.describe(), "the document cannot be resolved again");
            }
            AttemptEnd::Failed(reason) => {
                metrics::record_resolution("failed");
                tracing::warn!(reason, "the document was not resolved again; a later attempt follows");
            }
        }
    }

    fn perform(&mut self, context: &ActorContext<Msg>, effects: Vec<ResolutionEffect>) {
        for effect in effects {
            match effect {
                ResolutionEffect::Wake(pause) => {
                    if let Some(timer) = self.timer.replace(context.send_after(pause, Msg::Wake)) {
                        timer.abort();
                    }
                }
                ResolutionEffect::Attempt { version } => self.attempt(context, version),
            }
        }
    }

    fn read_progress(&self, context: &ActorContext<Msg>) {
        let (store, mailbox) = (self.args.store.clone(), context.mailbox());
        context.spawn(async move {
            match store.resolution_progress().await {
                Ok(progress) => {
                    mailbox.send(Msg::Changed(progress.wanted));
                }
                Err(error) => tracing::warn!(%error, "the versions that wait for their resolution cannot be read"),
            }
        });
    }

    fn attempt(&self, context: &ActorContext<Msg>, version: u64) {
        let args = &self.args;
        let Some(access) = args.chain.with(|chain| chain.clone()) else { return };
        let account = WritingAccount {
            store: args.store.clone(),
            access,
            did: args.did.clone(),
            corporation_id: args.corporation_id,
        };
        let attempt = Attempt { account, version };
        let mailbox = context.mailbox();
        context.spawn(async move {
            let end = attempt
                .run(|hash| {
                    mailbox.send(Msg::Sent(hash));
                })
                .await;
            mailbox.send(Msg::Ended { version, end });
        });
    }
}
