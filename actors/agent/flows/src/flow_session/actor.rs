//! The shell of a session.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure};
use tokio::time::Instant;

use super::{
    Args, Msg, StepEnd,
    core::{Next, Turn},
};

/// State of a session.
pub(crate) struct State {
    args: Arc<Args>,
    turn: Turn,
    changed_at: Instant,
    /// Number of the last wake.
    wakes: u64,
}

/// The actor of one flow.
pub(crate) struct FlowSession;

impl ActorBehaviour for FlowSession {
    const KIND: &'static str = "flow_session";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<State, ActorFailure> {
        context.mailbox().send(Msg::Wake(0));
        Ok(State { args: Arc::clone(args), turn: Turn::default(), changed_at: Instant::now(), wakes: 0 })
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        let next = match message {
            Msg::Wake(number) => {
                state.wakes = number;
                state.turn.woken()
            }
            Msg::PauseOver(number) => state.turn.pause_over(number),
            Msg::Stepped(end) => {
                if end == StepEnd::Again {
                    state.changed_at = Instant::now();
                }
                state.turn.stepped(end)
            }
        };
        match next {
            None => {}
            Some(Next::Step) => state.step(context, state.changed_at.elapsed()),
            Some(Next::Pause(pause, number)) => {
                context.send_after(pause, Msg::PauseOver(number));
            }
            Some(Next::Rest) => state.args.steps.is_at_rest(&state.args.flow_id, state.wakes),
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({"turn": format!("{:?}", state.turn)})
    }
}

impl State {
    fn step(&self, context: &ActorContext<Msg>, waited: Duration) {
        let (args, mailbox) = (Arc::clone(&self.args), context.mailbox());
        context.spawn(async move {
            let end = args.steps.step(&args.flow_id, waited).await;
            mailbox.send(Msg::Stepped(end));
        });
    }
}
