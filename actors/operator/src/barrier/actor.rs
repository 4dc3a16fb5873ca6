//! The actor around the waiting callers.

use std::sync::Arc;

use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, ReplyPort};
use svc_otel::metrics;

use super::{Args, Msg, core::HeightWaiters};

/// State of a barrier.
pub struct State {
    waiters: HeightWaiters<BarrierWaiter>,
    is_measured: bool,
}

/// A waiting caller.
struct BarrierWaiter {
    is_write: bool,
    reply: ReplyPort<u64>,
}

/// The actor that answers callers once their height is reached.
pub struct Barrier;

impl ActorBehaviour for Barrier {
    const KIND: &'static str = "barrier";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(_: &ActorContext<Msg>, args: &Arc<Args>) -> Result<State, ActorFailure> {
        let waiters = HeightWaiters::new(args.height.with(|reader| reader.height));
        Ok(State { waiters, is_measured: args.is_measured })
    }

    async fn handle(_: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        // Abandoned waiters would accumulate while the reader does not advance.
        state.waiters.retain(|waiter| !waiter.reply.is_abandoned());
        match message {
            Msg::Await { height, is_write, reply } => {
                let reached = state.waiters.height();
                if let Some(waiter) = state.waiters.add(height, BarrierWaiter { is_write, reply }) {
                    waiter.reply.send(reached);
                }
            }
            Msg::FellBack { height } => state.waiters.fall_back_to(height),
            Msg::Reached { height } => {
                for waiter in state.waiters.advance_to(height) {
                    waiter.reply.send(height);
                }
            }
        }
        if state.is_measured {
            metrics::record_barrier_lag(state.waiters.lag(|waiter| waiter.is_write));
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({"cursor": state.waiters.height(), "waiting": state.waiters.len(), "lag": state.waiters.lag(|_| true)})
    }
}
