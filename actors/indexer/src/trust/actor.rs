//! The shell of the trust evaluator: loads triggers, runs evaluations, writes rounds, and publishes them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure};
use svc_otel::{
    metrics::{self, TrustOutcome},
    trace,
};
use tracing::Instrument;

use super::{
    Args, Msg,
    core::EvaluationRounds,
    evaluation::{
        did_evaluator::{DidEvaluation, EvaluationPoint},
        round_result::RoundResult,
        verdict_record,
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
}

pub struct TrustEvaluator;

/// Delay of a retry after a failure.
const RETRY_DELAY: Duration = Duration::from_millis(250);

impl ActorBehaviour for TrustEvaluator {
    const KIND: &'static str = "arbiter";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<State, ActorFailure> {
        let failed = |error: IndexStoreError| ActorFailure(error.to_string());
        let store = args.did_evaluator.store();
        // The evaluations of an earlier incarnation may not have been written.
        args.did_evaluator.forget_evidence();
        let rules = args.did_evaluator.essential_schemas();
        if rules.is_empty() {
            tracing::warn!("no schema is essential, and no DID trusted: SVC_ESSENTIAL_ECOSYSTEMS names no ecosystem");
        }
        if args.write_store.adopt_trust_rules(&rules.fingerprint()).await.map_err(failed)? {
            tracing::info!("the essential schemas are new: every verdict is made again");
        }
        let pending = store.list_pending_dids().await.map_err(failed)?;
        args.write_store.delete_unused_evidence().await.map_err(failed)?;
        let newest = store.checkpoint().await.map_err(failed)?.height;
        let height = match newest {
            // The first block of an empty store decides where the heights begin.
            0 => args.start_height.saturating_sub(1),
            _ => store.trust_checkpoint().await.map_err(failed)?.height,
        };
        context.send_after(Duration::ZERO, Msg::BlockStored { height: newest });
        Ok(State {
            args: Arc::clone(args),
            rounds: EvaluationRounds::new(height, args.live_height, pending),
            triggers: Arc::default(),
            is_retry_scheduled: false,
        })
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        let effects = match message {
            Msg::BlockStored { height } => state.rounds.tip_seen(height),
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
        };
        for effect in effects {
            state.perform(context, effect);
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({
            "height": state.rounds.closed_height(), "tip": state.rounds.tip(), "to_judge": state.rounds.pending_dids().len(),
            "judging": state.rounds.running_count(),
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
                let at = EvaluationPoint { height, time: self.triggers.block_time(height), is_refresh: is_fresh };
                let late = self.rounds.take_unsettled(&did).filter(|_| !is_fresh);
                let evidence = late.map(|late| late.evidence.clone()).unwrap_or_default();
                let span = trace::evaluation_span(&did, height, is_fresh);
                let evaluate = async move {
                    let started = Instant::now();
                    let result = args.did_evaluator.evaluate_did(&did, at, evidence).await;
                    let outcome = match &result {
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
                context.send_after(args.wait_limit, Msg::WaitExpired { height });
            }
            EvaluationEffect::WriteRound(heights) => {
                let round = RoundResult {
                    heights,
                    evaluations: self.rounds.verdicts().clone(),
                    triggers: Arc::clone(&self.triggers),
                    pending_dids: self.rounds.pending_dids(),
                };
                context.spawn(async move {
                    let result = round.write(args.did_evaluator.store(), &args.write_store).await;
                    mailbox.send(Msg::RoundWritten { result });
                });
            }
        }
    }
}
