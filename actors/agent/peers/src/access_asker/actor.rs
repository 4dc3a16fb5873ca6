//! The shell of the access asker.

use std::{collections::HashMap, sync::Arc, time::Duration};

use serde_json::{Value, json};
use svc_didcomm::access::{AskerTable, HeardAnswer};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, wall_clock};
use svc_otel::metrics;
use tokio::sync::oneshot;

use super::Msg;

/// Time between two looks for grants that have ended: a secret is not kept for longer than it is of use.
const TICK: Duration = Duration::from_secs(30);

/// State of the asker.
#[derive(Default)]
pub(crate) struct State {
    table: AskerTable,
    /// Callers that wait, by the ids of their requests.
    waiters: HashMap<String, oneshot::Sender<HeardAnswer>>,
}

/// The actor that asks for access.
pub(crate) struct AccessAsker;

impl ActorBehaviour for AccessAsker {
    const KIND: &'static str = "access_asker";
    type Msg = Msg;
    type Args = ();
    type State = State;

    async fn start(context: &ActorContext<Msg>, _: &Arc<()>) -> Result<State, ActorFailure> {
        context.send_after(TICK, Msg::Tick);
        Ok(State::default())
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        let now = wall_clock::now().seconds;
        match message {
            Msg::FindGrant { endpoint, question, url, reply } => {
                state.table.note_url(&endpoint, Some(&url));
                reply.send(state.table.held(&endpoint, &question, now).cloned().map(Box::new));
            }
            Msg::Grant { id, reply } => reply.send(state.table.grant(&id, now).cloned().map(Box::new)),
            Msg::Ask { open, waiter, reply } => {
                let id = open.request.id.clone();
                let asked = state.table.ask(*open, now);
                if asked.is_ok() {
                    state.waiters.insert(id, waiter);
                }
                reply.send(asked);
            }
            Msg::FrameReceived { peer, frame } => {
                let heard = state.table.hear(&peer, *frame, now);
                state.tell(heard);
            }
            Msg::Settle { id, url, waiter, reply } => {
                let settled = state.table.settle(&id, url.as_deref(), now).map(|grant| Box::new(grant.clone()));
                if let Err(reason) = &settled {
                    metrics::record_access_drop(reason.as_str());
                    state.waiters.insert(id, waiter);
                }
                reply.send(settled);
            }
            Msg::Forget(id) => {
                state.table.forget(&id);
                state.waiters.remove(&id);
            }
            Msg::ForgetPeer(did) => state.table.forget_peer(&did),
            Msg::Tick => {
                state.table.expire(now);
                // Callers that have gone wait for nothing.
                state.waiters.retain(|_, waiter| !waiter.is_closed());
                context.send_after(TICK, Msg::Tick);
            }
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        let (waiting, held) = state.table.sizes();
        json!({"waiting": waiting, "held": held})
    }
}

impl State {
    /// Tells the caller of an answer.
    fn tell(&mut self, heard: HeardAnswer) {
        let id = match &heard {
            HeardAnswer::Granted { id, .. } | HeardAnswer::Revoked { id } => id.clone(),
            HeardAnswer::Denied(denial) => denial.id.clone(),
            HeardAnswer::Dropped(reason) => {
                metrics::record_access_drop(reason.as_str());
                return;
            }
        };
        if let Some(waiter) = self.waiters.remove(&id) {
            // A caller that has gone hears nothing.
            let _ = waiter.send(heard);
        }
    }
}
