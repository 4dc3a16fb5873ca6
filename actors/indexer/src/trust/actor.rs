//! The shell of the trust evaluator: loads triggers, runs evaluations, writes rounds, and publishes them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure};
use svc_otel::{
    metrics::{self, TrustOutcome, TryOutcome},
    trace,
};
use svc_trust::Evidence;
use tokio::task::AbortHandle;
use tracing::Instrument;

use super::{
    Args, Msg,
    config::usual_wait_limit,
    core::EvaluationRounds,
    evaluation::{
        did_evaluator::{DidEvaluation, EvaluationError, EvaluationPoint, EvaluationTask, UnfinishedVerdict},
        evidence_gathering::RefreshScope,
        round_result::RoundResult,
        verdict_record,
    },
    patience::{
        millis,
        open_evaluation::{EarlierTries, OpenEvaluation},
        open_evaluations::OpenEvaluations,
    },
    round::EvaluationEffect,
    triggers::round_triggers::{RoundTriggers, load_round_triggers},
};
use crate::store::IndexStoreError;

pub struct State {
    args: Arc<Args>,
    rounds: EvaluationRounds<Arc<DidEvaluation>>,
    /// Triggers of the current round.
    triggers: Arc<RoundTriggers>,
    is_retry_scheduled: bool,
    open: OpenEvaluations,
    /// The timer of the next try.
    try_timer: Option<AbortHandle>,
}

pub struct TrustEvaluator;

/// Delay of a retry after a failure.
const RETRY_DELAY: Duration = Duration::from_millis(250);
/// Delay of a try that failed because of the indexer itself.
const FAILED_TRY_DELAY: Duration = Duration::from_secs(2);

impl ActorBehaviour for TrustEvaluator {
    const KIND: &'static str = "trust_evaluator";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<State, ActorFailure> {
        let failed = |error: IndexStoreError| ActorFailure(error.to_string());
        let store = args.did_evaluator.store();
        // The evaluations of an earlier incarnation may not have been written.
        args.did_evaluator.forget_evidence();
        let rules = args.did_evaluator.essential_schemas();
        if args.write_store.adopt_trust_rules(&rules.fingerprint()).await.map_err(failed)? {
            tracing::info!("the essential schemas are new: every verdict is made again");
        }
        let pending = store.list_pending_dids().await.map_err(failed)?;
        args.write_store.delete_unused_evidence().await.map_err(failed)?;
        let newest = store.checkpoint().await.map_err(failed)?.height;
        let height = match newest {
            // The first block of an empty store decides where the heights begin.
            0 => args.start_height.get().saturating_sub(1),
            _ => store.trust_checkpoint().await.map_err(failed)?.height,
        };
        let rows = store.list_open_evaluations().await.map_err(failed)?;
        context.send_after(Duration::ZERO, Msg::BlockStored { height: newest });
        let mut state = State {
            args: Arc::clone(args),
            rounds: EvaluationRounds::new(height, args.live_height, pending),
            triggers: Arc::default(),
            is_retry_scheduled: false,
            open: OpenEvaluations::resume(rows.iter().filter_map(OpenEvaluation::from_row)),
            try_timer: None,
        };
        state.open_evaluations_changed(context);
        Ok(state)
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        let effects = match message {
            Msg::BlockStored { height } => state.rounds.tip_seen(height),
            Msg::Restart => {
                state.args.hub.restart();
                return Err(ActorFailure("the verdicts begin with another height".to_owned()));
            }
            Msg::TriggersLoaded { result: Ok(triggers) } => {
                state.triggers = triggers.into();
                let last_change = state.triggers.registry_changes.keys().next_back().copied();
                state.rounds.triggers_loaded(state.triggers.dids.clone(), last_change)
            }
            Msg::TriggersLoaded { result: Err(error) } => {
                let height = state.rounds.closed_height() + 1;
                tracing::warn!(height, %error, "the triggers of a height cannot be loaded; the evaluator will retry");
                state.rounds.load_failed();
                state.schedule_retry(context);
                Vec::new()
            }
            Msg::DidEvaluated { did, result: Ok(evaluation) } => {
                state.record_evaluation(context, &did, &evaluation);
                let impact = evaluation.impact.clone();
                state.rounds.did_evaluated(&did, evaluation.into(), impact)
            }
            Msg::DidEvaluated { did, result: Err(error) } => {
                tracing::warn!(did, %error, "a DID cannot be evaluated; the next round will retry");
                state.rounds.evaluation_failed(&did)
            }
            Msg::WaitExpired { height } => state.rounds.wait_expired(height),
            Msg::RoundWritten { result: Ok(blocks) } => {
                // The hub reads a block that it did not receive from the store.
                let _ = state.args.hub.publish_blocks(blocks);
                let effects = state.rounds.round_written();
                metrics::record_trust_height(state.rounds.closed_height(), state.rounds.pending_dids().len());
                effects
            }
            Msg::RoundWritten { result: Err(error) } => {
                let height = state.rounds.closed_height() + 1;
                tracing::warn!(height, %error, "verdicts cannot be written; the evaluator will retry");
                state.rounds.write_failed();
                state.schedule_retry(context);
                Vec::new()
            }
            Msg::Retry => {
                state.is_retry_scheduled = false;
                state.rounds.resume()
            }
            Msg::TriesDue => {
                state.begin_tries(context);
                Vec::new()
            }
            Msg::TryEnded { tried, result } => state.try_ended(context, &tried, result),
        };
        for effect in effects {
            state.perform(context, effect);
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({
            "height": state.rounds.closed_height(), "tip": state.rounds.tip(), "to_judge": state.rounds.pending_dids().len(),
            "judging": state.rounds.running_count(), "open": state.open.count(),
        })
    }
}

impl State {
    fn schedule_retry(&mut self, context: &ActorContext<Msg>) {
        if !self.is_retry_scheduled {
            self.is_retry_scheduled = true;
            context.send_after(RETRY_DELAY, Msg::Retry);
        }
    }

    fn perform(&mut self, context: &ActorContext<Msg>, effect: EvaluationEffect) {
        let (args, mailbox) = (Arc::clone(&self.args), context.mailbox());
        match effect {
            EvaluationEffect::LoadTriggers(heights) => {
                context.spawn(async move {
                    let loaded = load_round_triggers(args.did_evaluator.store(), heights).await;
                    mailbox.send(Msg::TriggersLoaded { result: loaded.map(Box::new) });
                });
            }
            EvaluationEffect::EvaluateDid { did, height, is_fresh } => {
                let task = self.evaluation_task(&did, height, is_fresh);
                self.open_evaluations_changed(context);
                let span = trace::evaluation_span(&did, height, is_fresh);
                let evaluate = async move {
                    let started = Instant::now();
                    let result = args.did_evaluator.evaluate_did(&did, task).await;
                    let outcome = match &result {
                        Ok(evaluation) if evaluation.open.is_some() => TrustOutcome::Open,
                        Ok(evaluation) if verdict_record::trust_state(&evaluation.body).trusted => {
                            TrustOutcome::Trusted
                        }
                        Ok(_) => TrustOutcome::NotTrusted,
                        Err(_) => TrustOutcome::Failed,
                    };
                    trace::record_trust_outcome(&tracing::Span::current(), outcome.as_str());
                    metrics::record_trust_evaluation(outcome, started.elapsed());
                    mailbox.send(Msg::DidEvaluated { did, result: result.map(Box::new) });
                };
                context.spawn(evaluate.instrument(span));
            }
            EvaluationEffect::StartTimer(height) => {
                let limit = args.wait_limit.unwrap_or_else(|| usual_wait_limit(args.block_interval.get()));
                context.send_after(limit, Msg::WaitExpired { height });
            }
            EvaluationEffect::WriteRound(heights) => {
                let round = RoundResult {
                    heights,
                    evaluations: self.rounds.verdicts().clone(),
                    triggers: Arc::clone(&self.triggers),
                    pending_dids: self.rounds.pending_dids(),
                    open_evaluations: self.open.rows(),
                };
                context.spawn(async move {
                    let result = round.write(args.did_evaluator.store(), &args.write_store).await;
                    mailbox.send(Msg::RoundWritten { result });
                });
            }
        }
    }
}

/// The evaluations that wait for a web server.
impl State {
    /// Returns the task of an evaluation. It replaces an open one of the DID, whose failed requests it repeats.
    fn evaluation_task(&mut self, did: &str, height: u64, is_fresh: bool) -> EvaluationTask {
        let failed = self.open.replace(did);
        let at = EvaluationPoint { height, time: self.triggers.block_time(height) };
        let late = self.rounds.take_unsettled(did).filter(|_| !is_fresh);
        let (evidence, earlier) = match &late {
            // The same fetches: their failures are those of the evaluation before, and so is its clock.
            Some(late) => {
                let open = late.open.as_ref().map(|unfinished| &unfinished.evaluation);
                let earlier = open.map(|open| EarlierTries { since: open.since, tries: open.tries.saturating_sub(1) });
                (late.evidence.clone(), earlier)
            }
            None => (Evidence::default(), None),
        };
        let refresh = match (is_fresh, late) {
            (true, _) => RefreshScope::All,
            (false, Some(_)) => RefreshScope::NOTHING,
            (false, None) => RefreshScope::Only(failed),
        };
        EvaluationTask { at, refresh, evidence, earlier }
    }

    /// Opens the evaluation of a DID, or closes it.
    fn record_evaluation(&mut self, context: &ActorContext<Msg>, did: &str, evaluation: &DidEvaluation) {
        match &evaluation.open {
            Some(UnfinishedVerdict { evaluation: open, keeps_former }) => {
                if self.open.keep(open.clone()) {
                    let first = open.failed.first();
                    let reason = first.map_or("", |failed| failed.failure.message.as_str());
                    tracing::info!(did, reason, keeps_former, "the evaluation of a DID waits for a web server");
                }
            }
            None => self.close_open_evaluation(did, evaluation),
        }
        self.open_evaluations_changed(context);
    }

    fn close_open_evaluation(&mut self, did: &str, evaluation: &DidEvaluation) {
        let Some(open) = self.open.close(did) else { return };
        let trusted = verdict_record::trust_state(&evaluation.body).trusted;
        let waited_ms = self.args.did_evaluator.now() - open.since;
        tracing::info!(did, trusted, tries = open.tries, waited_ms, "the evaluation of a DID waits no longer");
    }

    /// Follows a change of the open evaluations: the evidence in doubt, the metric and the timer.
    fn open_evaluations_changed(&mut self, context: &ActorContext<Msg>) {
        self.args.did_evaluator.follow_open_evaluations(&self.open);
        metrics::record_open_evaluations(self.open.count());
        if let Some(timer) = self.try_timer.take() {
            timer.abort();
        }
        if let Some(next) = self.open.next_try_at() {
            let delay = u64::try_from(next - self.args.did_evaluator.now()).unwrap_or(0);
            self.try_timer = Some(context.send_after(Duration::from_millis(delay), Msg::TriesDue));
        }
    }

    fn begin_tries(&mut self, context: &ActorContext<Msg>) {
        for group in self.open.take_due(self.args.did_evaluator.now()) {
            let (args, mailbox) = (Arc::clone(&self.args), context.mailbox());
            context.spawn(async move {
                let ended = |tried, result: Result<DidEvaluation, EvaluationError>| {
                    mailbox.send(Msg::TryEnded { tried: Box::new(tried), result: result.map(Box::new) });
                };
                args.did_evaluator.try_again(group, ended).await;
            });
        }
        self.open_evaluations_changed(context);
    }

    fn try_ended(
        &mut self,
        context: &ActorContext<Msg>,
        tried: &OpenEvaluation,
        result: Result<Box<DidEvaluation>, EvaluationError>,
    ) -> Vec<EvaluationEffect> {
        if !self.open.is_tried(tried) {
            return Vec::new();
        }
        let did = tried.did.as_str();
        let effects = match result {
            Ok(evaluation) => {
                metrics::record_trust_try(match &evaluation.open {
                    Some(_) => TryOutcome::Open,
                    None if verdict_record::trust_state(&evaluation.body).trusted => TryOutcome::Trusted,
                    None => TryOutcome::NotTrusted,
                });
                self.record_evaluation(context, did, &evaluation);
                match &evaluation.open {
                    Some(unfinished) => {
                        self.save_tries(context, &unfinished.evaluation);
                        Vec::new()
                    }
                    None => {
                        let impact = evaluation.impact.clone();
                        self.rounds.open_evaluation_closed(did, tried.height, evaluation.into(), impact)
                    }
                }
            }
            Err(error) => {
                metrics::record_trust_try(TryOutcome::Failed);
                tracing::warn!(did, %error, "an open evaluation cannot be tried; the evaluator will retry");
                self.open.postpone(tried, self.args.did_evaluator.now() + millis(FAILED_TRY_DELAY));
                Vec::new()
            }
        };
        self.open_evaluations_changed(context);
        effects
    }

    /// Saves the tries of an open evaluation between two rounds.
    fn save_tries(&self, context: &ActorContext<Msg>, open: &OpenEvaluation) {
        let (args, row) = (Arc::clone(&self.args), open.to_row());
        context.spawn(async move {
            if let Err(error) = args.write_store.update_open_evaluation(&row).await {
                tracing::warn!(did = row.did, %error, "the tries of an open evaluation are not saved; the next round saves them");
            }
        });
    }
}
