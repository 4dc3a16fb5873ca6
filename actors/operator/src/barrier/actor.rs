//! The actor around the barrier's decisions.

use std::sync::Arc;

use serde_json::{Value, json};
use svc_kit::{Behaviour, Context, Failure, Intent, Reply, Retained};
use svc_otel::metrics;

use super::{Cursor, core::Waiters};

/// What the barrier is told.
pub enum Msg {
    /// Answer when the indexer has reached the height.
    Await {
        /// Height.
        height: u64,
        /// Whether a write waits: its lag is the one that is measured.
        is_write: bool,
        /// The answer: where the reader is.
        reply: Reply<u64>,
    },
    /// The indexer has reached a height.
    Reached(u64),
}

impl Intent for Msg {
    fn name(&self) -> &'static str {
        match self {
            Self::Await { .. } => "await",
            Self::Reached(_) => "reached",
        }
    }
}

/// What a barrier is made from.
pub struct Args {
    pub cursor: Retained<Cursor>,
    /// Whether its lag is the one that is measured: writes wait for the indexer only.
    pub is_measured: bool,
}

pub struct State {
    waiters: Waiters<Waiter>,
    is_measured: bool,
}

/// Somebody who waits.
struct Waiter {
    is_write: bool,
    reply: Reply<u64>,
}

pub struct Barrier;

impl Behaviour for Barrier {
    const KIND: &'static str = "barrier";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(_: &Context<Msg>, args: &Arc<Args>) -> Result<State, Failure> {
        let waiters = Waiters::new(args.cursor.with(|cursor| cursor.height));
        Ok(State { waiters, is_measured: args.is_measured })
    }

    async fn handle(_: &Context<Msg>, message: Msg, state: &mut State) -> Result<(), Failure> {
        match message {
            Msg::Await { height, is_write, reply } => {
                let cursor = state.waiters.cursor();
                // Those who have gone must not pile up while nothing is reached.
                state.waiters.retain(|waiter| !waiter.reply.is_abandoned());
                if let Some(waiter) = state.waiters.wait(height, Waiter { is_write, reply }) {
                    waiter.reply.send(cursor);
                }
            }
            Msg::Reached(height) => {
                state.waiters.retain(|waiter| !waiter.reply.is_abandoned());
                for waiter in state.waiters.reached(height) {
                    waiter.reply.send(height);
                }
            }
        }
        if state.is_measured {
            metrics::barrier_lag(state.waiters.lag(|waiter| waiter.is_write));
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({"cursor": state.waiters.cursor(), "waiting": state.waiters.len(), "lag": state.waiters.lag(|_| true)})
    }
}
