//! The shell of the key rotator.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use svc_agent_core::error::Refusal;
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, ReplyPort, wall_clock};
use tokio::task::AbortHandle;

use super::{
    Args, Msg, RotationAnswer,
    core::{Clocks, RotationCore, RotationEffect},
    steps::StepReport,
};

/// A caller that waits for the first version of a rotation.
struct WaitingCaller {
    new_version: u64,
    reply: ReplyPort<Result<RotationAnswer, Refusal>>,
}

/// State of the rotator.
pub struct State {
    args: Arc<Args>,
    core: RotationCore,
    started: Instant,
    timer: Option<AbortHandle>,
    callers: VecDeque<WaitingCaller>,
}

/// The actor that rotates the keys of the document.
pub struct KeyRotator;

impl ActorBehaviour for KeyRotator {
    const KIND: &'static str = "key_rotator";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<State, ActorFailure> {
        let stored = args.runner.store.rotation().await.map_err(|error| ActorFailure(error.to_string()))?;
        let facts = args.runner.facts(stored.as_ref());
        let age = stored.map_or(0, |stored| wall_clock::now().seconds.saturating_sub(stored.since));
        // A time in the future counts as now.
        let age = Duration::from_secs(u64::try_from(age).unwrap_or(0));
        let started = Instant::now();
        let core = RotationCore::new(stored, facts, age, args.pauses, clocks(started));
        if let Some(phase) = core.phase() {
            tracing::info!(phase = phase.as_str(), "a rotation of the document's keys goes on");
        }
        let state = State { args: Arc::clone(args), core, started, timer: None, callers: VecDeque::new() };
        state.publish();
        context.mailbox().send(Msg::Wake);
        Ok(state)
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        let now = clocks(state.started);
        let effects = match message {
            Msg::Rotate { options, reply } => {
                let newest_version = state.args.runner.keeper.keys().newest_version();
                match state.core.request(options, newest_version, now) {
                    Ok((new_version, effects)) => {
                        state.callers.push_back(WaitingCaller { new_version, reply });
                        effects
                    }
                    Err(refusal) => {
                        reply.send(Err(refusal));
                        Vec::new()
                    }
                }
            }
            Msg::Ended { new_version, step, report } => {
                let StepReport { end, answer } = report;
                tracing::info!(?step, ?end, new_version, "a step of a rotation has ended");
                state.answer(new_version, answer);
                state.core.ended((new_version, &step), end, now, fastrand::f64())
            }
            Msg::Wake => state.core.woken(now),
        };
        state.perform(context, effects);
        state.publish();
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({"phase": state.core.phase().map(|phase| phase.as_str())})
    }
}

fn clocks(started: Instant) -> Clocks {
    Clocks { running: started.elapsed(), wall: wall_clock::now().seconds }
}

impl State {
    fn publish(&self) {
        let phase = self.core.phase();
        self.args.phase.with(|known| *known = phase);
    }

    /// Answers the caller of a rotation with the end of its first step; later steps find none.
    fn answer(&mut self, new_version: u64, answer: Result<RotationAnswer, Refusal>) {
        let place = self.callers.iter().position(|caller| caller.new_version == new_version);
        if let Some(caller) = place.and_then(|place| self.callers.remove(place)) {
            caller.reply.send(answer);
        }
    }

    /// The effects of one message are one task, so that each waits for those before it.
    fn perform(&mut self, context: &ActorContext<Msg>, effects: Vec<RotationEffect>) {
        let mut writes = Vec::new();
        let mut run = None;
        for effect in effects {
            match effect {
                RotationEffect::Wake(pause) => {
                    if let Some(timer) = self.timer.replace(context.send_after(pause, Msg::Wake)) {
                        timer.abort();
                    }
                }
                RotationEffect::Run { new_version, step } => run = Some((new_version, step)),
                RotationEffect::Save(_) | RotationEffect::End { .. } => writes.push(effect),
            }
        }
        if writes.is_empty() && run.is_none() {
            return;
        }
        let (args, mailbox) = (Arc::clone(&self.args), context.mailbox());
        context.spawn(async move {
            let written = write_all(&args, &writes).await;
            let Some((new_version, step)) = run else { return };
            let report = match written {
                Ok(()) => args.runner.run(new_version, &step).await,
                // A step whose begin is not in the store would not be known after a crash.
                Err(refusal) => StepReport::failed(refusal),
            };
            mailbox.send(Msg::Ended { new_version, step, report });
        });
    }
}

/// Writes states in their order. A state that is not written costs the repetition of a step after a crash.
async fn write_all(args: &Args, writes: &[RotationEffect]) -> Result<(), Refusal> {
    let mut written = Ok(());
    for effect in writes {
        let one = match effect {
            RotationEffect::Save(rotation) => args.runner.save(rotation).await,
            RotationEffect::End { new_version } => args.runner.end(*new_version).await,
            RotationEffect::Run { new_version: _, step: _ } | RotationEffect::Wake(_) => Ok(()),
        };
        written = written.and(one);
    }
    written
}
