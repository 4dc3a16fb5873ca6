//! The actor around the rounds: owns which DIDs are to be judged, and the trust checkpoint.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use svc_kit::{Behaviour, Context, Failure, Intent};
use svc_otel::{
    metrics::{self, Judged},
    trace,
};
use svc_wire::trust::{RecordedBlock, RecordedChange};
use tracing::Instrument;

use super::{
    judging::{At, Judgement, Judging},
    opening::{Opening, open},
    record,
    rounds::{Effect, Heights, Rounds},
};
use crate::{
    hub::{HubHandle, TrustTopic},
    store::{Store, StoreError, TrustWrite, VerdictWrite, iso_millis},
};

/// What the arbiter is told.
pub enum Msg {
    /// A block is in the store.
    Processed(u64),
    /// What the blocks of a round trigger, or why that is not known.
    Opened(Result<Box<Opening>, StoreError>),
    /// A DID was judged, or was not.
    Judged(String, Result<Box<Judgement>, StoreError>),
    /// The patience with a height is over.
    TimeIsUp(u64),
    /// A round was written, with what is to be told of its heights, or was not.
    Closed(Result<Vec<RecordedBlock>, StoreError>),
    /// Try again what failed.
    Again,
}

impl Intent for Msg {
    fn name(&self) -> &'static str {
        match self {
            Self::Processed(_) => "processed",
            Self::Opened(_) => "opened",
            Self::Judged(..) => "judged",
            Self::TimeIsUp(_) => "time_is_up",
            Self::Closed(_) => "closed",
            Self::Again => "again",
        }
    }
}

/// What an arbiter is made from.
pub struct Args {
    pub judging: Arc<Judging>,
    /// The store on the connection that is kept for writing.
    pub writing: Store,
    pub hub: HubHandle<TrustTopic>,
    /// How long a height waits for web servers.
    pub patience: Duration,
    /// First height at which anything is judged: the node's newest at the start.
    pub live: u64,
}

pub struct State {
    args: Arc<Args>,
    rounds: Rounds<Arc<Judgement>>,
    /// What the blocks of the round under way did.
    opening: Arc<Opening>,
    is_trying_again: bool,
}

pub struct Arbiter;

/// How soon a failure is tried again.
const AGAIN: Duration = Duration::from_millis(250);

impl Behaviour for Arbiter {
    const KIND: &'static str = "arbiter";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &Context<Msg>, args: &Arc<Args>) -> Result<State, Failure> {
        let failed = |error: StoreError| Failure(error.to_string());
        let store = &args.judging.store;
        let height = store.trust_checkpoint().await.map_err(failed)?.height;
        let jobs = store.trust_jobs().await.map_err(failed)?;
        args.writing.forget_unused_material().await.map_err(failed)?;
        let newest = store.checkpoint().await.map_err(failed)?.height;
        context.after(Duration::ZERO, Msg::Processed(newest));
        Ok(State {
            args: Arc::clone(args),
            rounds: Rounds::new(height, args.live, jobs),
            opening: Arc::default(),
            is_trying_again: false,
        })
    }

    async fn handle(context: &Context<Msg>, message: Msg, state: &mut State) -> Result<(), Failure> {
        let effects = match message {
            Msg::Processed(height) => state.rounds.tip_seen(height),
            Msg::Opened(Ok(opening)) => {
                state.opening = opening.into();
                let eventful = state.opening.registry.keys().next_back().copied();
                state.rounds.opened(state.opening.judge.clone(), eventful)
            }
            Msg::Opened(Err(error)) => {
                tracing::warn!(height = state.rounds.height() + 1, %error, "a height cannot be judged, trying again");
                state.rounds.open_failed();
                state.try_again(context);
                Vec::new()
            }
            Msg::Judged(did, Ok(judgement)) => {
                let finding = judgement.finding.clone();
                state.rounds.judged(&did, judgement.into(), finding)
            }
            Msg::Judged(did, Err(error)) => {
                tracing::warn!(did, %error, "a DID cannot be judged, trying again with the next height");
                state.rounds.judging_failed(&did)
            }
            Msg::TimeIsUp(height) => state.rounds.time_is_up(height),
            Msg::Closed(Ok(blocks)) => {
                for block in blocks {
                    // A hub that is restarting, or has no room, finds the height in the store.
                    let _ = state.args.hub.processed(block);
                }
                let effects = state.rounds.closed();
                metrics::trust_height(state.rounds.height(), state.rounds.jobs().len());
                effects
            }
            Msg::Closed(Err(error)) => {
                tracing::warn!(height = state.rounds.height() + 1, %error, "verdicts are not written, trying again");
                state.rounds.close_failed();
                state.try_again(context);
                Vec::new()
            }
            Msg::Again => {
                state.is_trying_again = false;
                state.rounds.again()
            }
        };
        for effect in effects {
            state.perform(context, effect);
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({
            "height": state.rounds.height(), "tip": state.rounds.tip(), "to_judge": state.rounds.jobs().len(),
            "judging": state.rounds.running(),
        })
    }
}

impl State {
    fn try_again(&mut self, context: &Context<Msg>) {
        if !self.is_trying_again {
            self.is_trying_again = true;
            context.after(AGAIN, Msg::Again);
        }
    }

    fn perform(&mut self, context: &Context<Msg>, effect: Effect) {
        let (args, mailbox) = (Arc::clone(&self.args), context.mailbox());
        match effect {
            Effect::Open(heights) => {
                context.spawn(async move {
                    mailbox.send(Msg::Opened(open(&args.judging.store, heights).await.map(Box::new)));
                });
            }
            Effect::Judge { did, height, is_fresh } => {
                let at = At { height, time: self.opening.time(height), is_fresh };
                let late = self.rounds.take_late(&did).filter(|_| !is_fresh);
                let material = late.map(|late| late.material.clone()).unwrap_or_default();
                let span = trace::judge_span(&did, height, is_fresh);
                let judge = async move {
                    let started = Instant::now();
                    let judged = args.judging.judge(&did, at, material).await;
                    let outcome = match &judged {
                        Ok(judgement) if record::state(&judgement.body).trusted => Judged::Trusted,
                        Ok(_) => Judged::NotTrusted,
                        Err(_) => Judged::Failed,
                    };
                    trace::record_judged(&tracing::Span::current(), outcome.as_str());
                    metrics::trust_judged(outcome, started.elapsed());
                    mailbox.send(Msg::Judged(did, judged.map(Box::new)));
                };
                context.spawn(judge.instrument(span));
            }
            Effect::Wait(height) => {
                context.after(args.patience, Msg::TimeIsUp(height));
            }
            Effect::Close(heights) => {
                let closing = Closing {
                    heights,
                    done: self.rounds.done().clone(),
                    opening: Arc::clone(&self.opening),
                    jobs: self.rounds.jobs(),
                };
                context.spawn(async move {
                    mailbox.send(Msg::Closed(closing.write(&args).await));
                });
            }
        }
    }
}

/// What a round comes to.
struct Closing {
    heights: Heights,
    done: BTreeMap<String, Arc<Judgement>>,
    opening: Arc<Opening>,
    jobs: BTreeMap<String, bool>,
}

impl Closing {
    async fn write(self, args: &Args) -> Result<Vec<RecordedBlock>, StoreError> {
        let store = &args.judging.store;
        let last = self.heights.last;
        let mut write = TrustWrite { height: last, jobs: self.jobs, ..TrustWrite::default() };
        for (did, judgement) in &self.done {
            let before = store.verdict(did, last.saturating_sub(1)).await?;
            let corporation_id = judgement.corporation_id.unwrap_or(0);
            let after = judgement.body.clone();
            let registry = self.opening.registry.get(&last).and_then(|changes| changes.get(did));
            // The change of a DID that nobody claims any more is told to those who knew it.
            let is_known = judgement.corporation_id.is_some();
            if is_known || before.is_some() {
                let change = record::change(did, corporation_id, Some((before.as_ref(), &after)), registry);
                write.changes.entry(last).or_default().extend(change);
                write.verdicts.push(VerdictWrite {
                    did: did.clone(),
                    corporation_id,
                    body: is_known.then_some(after),
                    inputs: judgement.inputs.clone(),
                    fetched: judgement.fetched.clone(),
                });
            }
        }
        for (height, changes) in &self.opening.registry {
            for (did, registry) in changes {
                if *height == last && self.done.contains_key(did) {
                    continue;
                }
                let corporation_id = store.corporation_of(did, *height).await?.unwrap_or(0);
                let change = record::change(did, corporation_id, None, Some(registry));
                write.changes.entry(*height).or_default().extend(change);
            }
        }
        for changes in write.changes.values_mut() {
            changes.sort_by(|left: &RecordedChange, right| left.did.cmp(&right.did));
        }
        args.writing.write_trust(&write).await?;
        let told = self.opening.times.iter().map(|(height, time)| RecordedBlock {
            block: *height,
            block_time: iso_millis(*time),
            changes: write.changes.remove(height).unwrap_or_default(),
        });
        Ok(told.collect())
    }
}
