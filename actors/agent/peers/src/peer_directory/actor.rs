//! The shell of the directory.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, WakeTimer, wall_clock};
use svc_otel::metrics;

use super::{DirectoryWork, Msg, PeerDirectory};

/// Connections that are woken at a time.
const BATCH: usize = 100;
/// Shortest time between two looks at the outbox: a session that was just woken has not read it yet.
const MIN_PAUSE: Duration = Duration::from_millis(250);
/// Longest time between two looks.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// Time between two clean-ups.
const CLEAN_PAUSE: Duration = Duration::from_secs(60);

/// Arguments of the directory.
pub(crate) struct Args {
    pub directory: PeerDirectory,
    pub work: Arc<dyn DirectoryWork>,
}

/// State of the directory.
pub(crate) struct State {
    args: Arc<Args>,
    timer: WakeTimer,
}

/// The actor that starts and ends sessions.
pub(crate) struct PeerDirectoryActor;

impl ActorBehaviour for PeerDirectoryActor {
    const KIND: &'static str = "peer_directory";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<State, ActorFailure> {
        context.mailbox().send(Msg::Wake);
        context.send_after(CLEAN_PAUSE, Msg::Clean);
        Ok(State { args: Arc::clone(args), timer: WakeTimer::new(MIN_PAUSE) })
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        let Args { directory, work } = &*Arc::clone(&state.args);
        match message {
            Msg::Wake => {
                if !state.timer.begin(context, Msg::Wake) {
                    return Ok(());
                }
                let pause = wake_due(&**work).await;
                metrics::record_peer_sessions(directory.session_count());
                state.timer.wake_after(context, pause, Msg::Wake);
            }
            Msg::SessionIdle(peer) => directory.end_idle(&peer).await,
            Msg::Clean => {
                work.clean().await;
                context.send_after(CLEAN_PAUSE, Msg::Clean);
            }
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({"sessions": state.args.directory.session_count()})
    }
}

/// Wakes the sessions whose messages are due; returns the time until the next look.
async fn wake_due(work: &dyn DirectoryWork) -> Duration {
    let now = wall_clock::now().seconds;
    match work.wake_due_sessions(now, BATCH).await {
        Ok(Some(next)) if next > now => Duration::from_secs(next.abs_diff(now)).min(MAX_PAUSE),
        Ok(Some(_)) => Duration::from_secs(1),
        Ok(None) => MAX_PAUSE,
        Err(error) => {
            tracing::warn!(%error, "the outbox to peers cannot be read");
            Duration::from_secs(5)
        }
    }
}
