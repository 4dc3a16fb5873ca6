//! The shell of the directory.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use serde_json::{Value, json};
use svc_kit::wall_clock::now_millis;
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, WakeTimer};
use svc_otel::metrics;

use super::{
    DueFlows, FlowDirectory, FlowWork, Msg, ParticipantPage,
    core::{NamedParticipant, ReadEnd, ReadStep, Reading},
};

/// Flows that are started at a time.
const BATCH: usize = 100;
/// Shortest and longest time between two looks at the flows that are due.
const MIN_PAUSE: Duration = Duration::from_millis(250);
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// Participants that are read at the same time.
const READ_AT_ONCE: usize = 8;
/// Pause behind a node that does not answer.
const READ_PAUSE: Duration = Duration::from_secs(2);
/// Time between two readings without an event: an index may lose some.
const READ_ALL_PAUSE: Duration = Duration::from_secs(600);

/// Time between two counts of the flows.
const MEASURE_PAUSE: Duration = Duration::from_secs(60);

/// The time until a time in milliseconds since the epoch.
fn time_until(at: i64) -> Duration {
    Duration::from_millis(at.saturating_sub(now_millis()).max(0).unsigned_abs())
}

/// Arguments of the directory.
pub(crate) struct Args {
    pub work: Arc<dyn FlowWork>,
    pub directory: FlowDirectory,
}

/// State of the directory.
pub(crate) struct State {
    args: Arc<Args>,
    reading: Reading,
    /// Whether participants are read again behind a pause.
    is_pausing: bool,
    timer: WakeTimer,
}

/// The actor that starts and ends the sessions of flows.
pub(crate) struct FlowDirectoryActor;

impl ActorBehaviour for FlowDirectoryActor {
    const KIND: &'static str = "flow_directory";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<State, ActorFailure> {
        // A process that was killed has left flows whose sessions would have gone on by now.
        context.mailbox().send(Msg::WakeWaiting);
        context.mailbox().send(Msg::ReadAll);
        context.mailbox().send(Msg::Measure);
        context.send_after(READ_ALL_PAUSE, Msg::ReadUnfinished);
        Ok(State {
            args: Arc::clone(args),
            reading: Reading::default(),
            is_pausing: false,
            timer: WakeTimer::new(MIN_PAUSE),
        })
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        let Args { work, directory } = &*state.args;
        match message {
            Msg::Wake => state.look(context).await,
            Msg::Changed(ids) => {
                for id in ids {
                    // One that finds no place is due, and gets one later.
                    if !directory.wake_running(&id) && directory.has_place() {
                        directory.start(&id, work).await;
                    }
                }
            }
            Msg::DueAt(at) => state.timer.wake_after(context, time_until(at).clamp(MIN_PAUSE, MAX_PAUSE), Msg::Wake),
            Msg::SessionIdle(id, wakes) => {
                let was_full = !directory.has_place();
                directory.end(&id, wakes).await;
                // A change that came in between has left the flow due.
                state.timer.wake_after(context, if was_full { Duration::ZERO } else { MIN_PAUSE }, Msg::Wake);
            }
            Msg::Participants(named) => {
                state.reading.name(named);
                state.read(context);
            }
            Msg::ReadAgain => {
                state.is_pausing = false;
                state.reading.pause_over();
                state.read(context);
            }
            Msg::ReadAll => {
                state.reading.want(true);
                state.read(context);
            }
            Msg::ReadUnfinished => {
                state.reading.want(false);
                state.read(context);
                context.send_after(READ_ALL_PAUSE, Msg::ReadUnfinished);
            }
            Msg::WakeWaiting => {
                let (work, mailbox) = (Arc::clone(work), context.mailbox());
                context.spawn(async move {
                    work.wake_waiting().await;
                    mailbox.send(Msg::Wake);
                });
            }
            Msg::Measure => {
                let work = Arc::clone(work);
                context.spawn(async move { work.measure().await });
                context.send_after(MEASURE_PAUSE, Msg::Measure);
            }
            Msg::Read(end) => {
                let is_read = state.reading.ended(end);
                if !is_read && !state.is_pausing {
                    state.is_pausing = true;
                    context.send_after(READ_PAUSE, Msg::ReadAgain);
                }
                if is_read || state.reading.has_named() {
                    state.read(context);
                }
            }
        }
        metrics::record_flow_sessions(state.args.directory.session_count());
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({"sessions": state.args.directory.session_count(), "reading": format!("{:?}", state.reading)})
    }
}

impl State {
    /// Starts the sessions of flows that are due.
    async fn look(&mut self, context: &ActorContext<Msg>) {
        if !self.timer.begin(context, Msg::Wake) {
            return;
        }
        let Args { work, directory } = &*self.args;
        let pause = match work.due(BATCH).await {
            Ok(DueFlows { ids, first_at }) => {
                let mut has_more = ids.len() == BATCH;
                for id in ids {
                    if directory.wake_running(&id) {
                        continue;
                    }
                    if !directory.has_place() {
                        has_more = false;
                        break;
                    }
                    directory.start(&id, work).await;
                }
                match (has_more, first_at.map(time_until)) {
                    (true, _) => MIN_PAUSE,
                    (false, Some(left)) => left.clamp(Duration::from_secs(1), MAX_PAUSE),
                    (false, None) => MAX_PAUSE,
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the flows that are due cannot be read");
                Duration::from_secs(5)
            }
        };
        self.timer.wake_after(context, pause, Msg::Wake);
    }

    /// Reads the next part of the participants.
    fn read(&mut self, context: &ActorContext<Msg>) {
        let Some(step) = self.reading.begin() else { return };
        let (args, mailbox) = (Arc::clone(&self.args), context.mailbox());
        context.spawn(async move {
            mailbox.send(Msg::Read(read_step(&*args.work, step).await));
        });
    }
}

async fn read_step(work: &dyn FlowWork, step: ReadStep) -> ReadEnd {
    match step {
        ReadStep::Named(named) => ReadEnd::Named(follow_all(work, named).await),
        ReadStep::Page { after, is_whole } => match work.participants(after.as_deref(), is_whole).await {
            None => ReadEnd::Page(None),
            Some(ParticipantPage { ids, next }) => {
                let named = ids.into_iter().map(|id| NamedParticipant { id, height: 0 });
                let has_read = follow_all(work, named.collect()).await.is_empty();
                ReadEnd::Page(has_read.then_some(next))
            }
        },
    }
}

/// Reads participants, and returns those that have to be read again.
async fn follow_all(work: &dyn FlowWork, named: Vec<NamedParticipant>) -> Vec<NamedParticipant> {
    let follow = |one: NamedParticipant| async move { (!work.follow_participant(one).await).then_some(one) };
    stream::iter(named).map(follow).buffer_unordered(READ_AT_ONCE).filter_map(async |again| again).collect().await
}
