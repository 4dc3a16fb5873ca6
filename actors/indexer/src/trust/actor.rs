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
use svc_wire::trust::{Counts, RecordedBlock, RecordedChange};
use tracing::Instrument;

use super::{
    judging::{At, Judgement, Judging, JudgingError},
    record::{self, Occasion, need_key},
    rounds::{Effect, Rounds},
    triggers::{RegistryChange, Touch, Triggered},
};
use crate::{
    derive::measures::{Metric, Scope},
    hub::{HubHandle, TrustTopic},
    store::{Filter, Kind, Store, StoreError, TrustWrite, VerdictWrite, iso_millis},
};

/// What the arbiter is told.
pub enum Msg {
    /// A block is in the store.
    Processed(u64),
    /// What a block triggers, and its time.
    Opened(Result<(i128, Box<Triggered>), StoreError>),
    /// A DID was judged, or was not.
    Judged(String, Result<Box<Judgement>, JudgingError>),
    /// The patience with a height is over.
    TimeIsUp(u64),
    /// A height was written, with what is to be told of it, or was not.
    Closed(Result<Box<RecordedBlock>, StoreError>),
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
}

pub struct State {
    args: Arc<Args>,
    rounds: Rounds<Arc<Judgement>>,
    /// Time of the height under way, nanoseconds since the epoch.
    time: i128,
    /// What its block changed in the registry.
    registry: BTreeMap<String, RegistryChange>,
    is_trying_again: bool,
}

pub struct Arbiter;

/// How soon a failure is tried again, and how often the checkpoint is looked at beside what the follower tells.
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
        let newest = store.checkpoint().await.map_err(failed)?.height;
        context.after(Duration::ZERO, Msg::Processed(newest));
        Ok(State {
            args: Arc::clone(args),
            rounds: Rounds::new(height, jobs),
            time: 0,
            registry: BTreeMap::new(),
            is_trying_again: false,
        })
    }

    async fn handle(context: &Context<Msg>, message: Msg, state: &mut State) -> Result<(), Failure> {
        let effects = match message {
            Msg::Processed(height) => state.rounds.tip_seen(height),
            Msg::Opened(Ok((time, triggered))) => {
                state.time = time;
                state.registry = triggered.registry;
                state.rounds.opened(triggered.judge)
            }
            Msg::Opened(Err(error)) => {
                tracing::warn!(height = state.rounds.height() + 1, %error, "a height cannot be judged, trying again");
                state.rounds.open_failed();
                state.try_again(context);
                Vec::new()
            }
            Msg::Judged(did, Ok(judgement)) => {
                let dependents = judgement.dependents.clone();
                state.rounds.judged(&did, judgement.into(), dependents)
            }
            Msg::Judged(did, Err(error)) => {
                tracing::warn!(did, %error, "a DID cannot be judged, trying again with the next height");
                state.rounds.judging_failed(&did)
            }
            Msg::TimeIsUp(height) => state.rounds.time_is_up(height),
            Msg::Closed(Ok(block)) => {
                metrics::trust_height(block.block, state.rounds.jobs().len());
                // A hub that is restarting, or has no room, finds the height in the store.
                let _ = state.args.hub.processed(*block);
                state.rounds.closed()
            }
            Msg::Closed(Err(error)) => {
                tracing::warn!(height = state.rounds.height() + 1, %error, "verdicts are not written, trying again");
                state.try_again(context);
                Vec::new()
            }
            Msg::Again => {
                state.is_trying_again = false;
                let unwritten = state.rounds.close_again().into_iter().collect::<Vec<_>>();
                if unwritten.is_empty() { state.rounds.advance() } else { unwritten }
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
            Effect::Open(height) => {
                context.spawn(async move {
                    mailbox.send(Msg::Opened(open(&args.judging.store, height).await));
                });
            }
            Effect::Judge { did, height, is_fresh } => {
                let at = At { height, time: self.time, is_fresh };
                let late = self.rounds.take_late(&did).filter(|_| !is_fresh);
                let material = late.map(|late| late.material.clone()).unwrap_or_default();
                let span = trace::judge_span(&did, height, is_fresh);
                let judge = async move {
                    let started = Instant::now();
                    let judged = args.judging.judge(&did, at, material).await;
                    let outcome = match &judged {
                        Ok(judgement) if judgement.verdict.is_trusted() => Judged::Trusted,
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
            Effect::Close(height) => {
                let done = self.rounds.done().clone();
                let closing = Closing {
                    height,
                    time: self.time,
                    done,
                    registry: self.registry.clone(),
                    jobs: self.rounds.jobs(),
                };
                context.spawn(async move {
                    mailbox.send(Msg::Closed(closing.write(&args).await.map(Box::new)));
                });
            }
        }
    }
}

/// What a height comes to.
struct Closing {
    height: u64,
    time: i128,
    done: BTreeMap<String, Arc<Judgement>>,
    registry: BTreeMap<String, RegistryChange>,
    jobs: BTreeMap<String, bool>,
}

impl Closing {
    async fn write(self, args: &Args) -> Result<RecordedBlock, StoreError> {
        let store = &args.judging.store;
        let mut write = TrustWrite { height: self.height, jobs: self.jobs, ..TrustWrite::default() };
        for (did, judgement) in &self.done {
            let before = verdict_before(store, did, self.height).await?;
            let corporation_id = judgement.corporation_id.unwrap_or(0);
            let occasion = Occasion { height: self.height, time: self.time, corporation_id };
            let after = record::body(did, &judgement.verdict, occasion);
            let registry = self.registry.get(did);
            // The change of a DID that nobody claims any more is told to those who knew it.
            let is_known = judgement.corporation_id.is_some();
            if is_known || before.is_some() {
                write.changes.extend(record::change(did, corporation_id, Some((before.as_ref(), &after)), registry));
                let (body, inputs) = (is_known.then_some(after), judgement.inputs.clone());
                write.verdicts.push(VerdictWrite { did: did.clone(), corporation_id, body, inputs });
            }
        }
        for (did, registry) in self.registry.iter().filter(|(did, _)| !self.done.contains_key(*did)) {
            let corporation_id = store.corporation_of(did, self.height).await?.unwrap_or(0);
            write.changes.extend(record::change(did, corporation_id, None, Some(registry)));
        }
        write.changes.sort_by(|left: &RecordedChange, right| left.did.cmp(&right.did));
        args.writing.write_trust(&write).await?;
        Ok(RecordedBlock { block: self.height, block_time: iso_millis(self.time), changes: write.changes })
    }
}

async fn verdict_before(store: &Store, did: &str, height: u64) -> Result<Option<Value>, StoreError> {
    let filter = Filter { name: Some(did.to_owned()), ..Filter::default() };
    let found = store.find(Kind::Verdict, &filter, height.saturating_sub(1)).await?;
    Ok(found.map(|stored| stored.body))
}

/// What a block triggers, and its time.
async fn open(store: &Store, height: u64) -> Result<(i128, Box<Triggered>), StoreError> {
    let time =
        store.block_time(height).await?.ok_or_else(|| StoreError::Corrupt(format!("block {height} is missing")))?;
    let mut touches = Vec::new();
    for touched in store.touched_at(height).await? {
        touches.extend(touch(store, touched.kind, &touched.body, height).await?);
    }
    for id in store.asked_at(height).await? {
        touches.extend(did_of(store, Kind::Participant, id, height).await?.map(|did| Touch::Asked { did }));
    }
    for scope in store.measured_at(height).await? {
        touches.extend(figures(store, scope, height).await?);
    }
    let mut triggered = Triggered::by(touches);
    let needs: Vec<String> = triggered.needs.iter().map(need_key).collect();
    for did in store.dependents(&needs).await? {
        triggered.judge.entry(did).or_default();
    }
    Ok((time, Box::new(triggered)))
}

async fn did_of(store: &Store, kind: Kind, id: u64, height: u64) -> Result<Option<String>, StoreError> {
    let found = store.entity(kind, id, height).await?;
    Ok(found.and_then(|body| body["did"].as_str().map(str::to_owned)))
}

async fn touch(store: &Store, kind: Kind, body: &Value, height: u64) -> Result<Option<Touch>, StoreError> {
    let id = body["id"].as_u64().unwrap_or(0);
    let did = body["did"].as_str().unwrap_or_default().to_owned();
    Ok(match kind {
        Kind::Corporation => Some(Touch::Corporation { did }),
        Kind::Participant => Some(Touch::Participant { did }),
        Kind::Ecosystem => {
            let filter = Filter { parent_id: Some(id), ..Filter::default() };
            let schemas = store.all(Kind::Schema, height, &filter).await?;
            Some(Touch::Ecosystem { did, schemas: schemas.into_iter().map(|schema| schema.id).collect() })
        }
        Kind::Schema => {
            let ecosystem = body["ecosystem_id"].as_u64().unwrap_or(0);
            Some(Touch::Schema { id, ecosystem: did_of(store, Kind::Ecosystem, ecosystem, height).await? })
        }
        Kind::Digest => body["digest"].as_str().map(|digest| Touch::Digest { digest: digest.to_owned() }),
        Kind::TrustDeposit => {
            let owner = body["corporation_id"].as_u64().unwrap_or(0);
            let corporation = did_of(store, Kind::Corporation, owner, height).await?;
            corporation.map(|corporation| Touch::Deposit { corporation })
        }
        _ => None,
    })
}

/// Which figures of a scope a block changed.
async fn figures(store: &Store, scope: Scope, height: u64) -> Result<Option<Touch>, StoreError> {
    let (kind, id) = match scope {
        Scope::Participant(id) => (Kind::Participant, id),
        Scope::Ecosystem(id) => (Kind::Ecosystem, id),
        Scope::Schema(id) => {
            let body = store.entity(Kind::Schema, id, height).await?.unwrap_or_default();
            (Kind::Ecosystem, body["ecosystem_id"].as_u64().unwrap_or(0))
        }
        Scope::Global | Scope::Corporation(_) => return Ok(None),
    };
    let Some(did) = did_of(store, kind, id, height).await? else { return Ok(None) };
    let (before, after) = (store.measures(scope, height - 1).await?, store.measures(scope, height).await?);
    let differs = |metric: &Metric| before.get(*metric) != after.get(*metric);
    let counts = Counts {
        participants: Metric::ALL.iter().filter(|metric| metric.name().starts_with("participants")).any(differs),
        issued_credentials: differs(&Metric::Issued),
        verified_credentials: differs(&Metric::Verified),
    };
    Ok(match kind {
        _ if counts == Counts::default() => None,
        Kind::Participant => Some(Touch::ParticipantFigures { did, counts }),
        _ => Some(Touch::EcosystemFigures { did, counts }),
    })
}
