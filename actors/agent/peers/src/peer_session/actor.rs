//! The shell of a session.

use std::{collections::HashSet, sync::Arc, time::Duration};

use serde_json::{Value, json};
use svc_agent_store::SentMessage;
use svc_didcomm::from_prior::FromPrior;
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, ReplyPort};
use svc_net::didcomm::{PeerSocket, Receipt};
use tokio::time::Instant;

use super::{
    Args, Msg, TakenReceipt,
    core::{SessionCore, SessionEffect},
    outbox_run::{OutboxRun, RunEnd},
};
use crate::peer_session::ProvenMessage;

/// Pause after a failure of the store.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// A message of the peer, with its caller.
pub(super) enum PeerTask {
    Message(Box<ProvenMessage>, ReplyPort<Receipt>),
    End(String, Box<FromPrior>, ReplyPort<Receipt>),
}

impl PeerTask {
    fn answer(self, receipt: Receipt) {
        let (Self::Message(_, reply) | Self::End(_, _, reply)) = self;
        reply.send(receipt);
    }
}

/// State of a session.
pub(crate) struct State {
    args: Arc<Args>,
    core: SessionCore<PeerTask>,
    /// The socket to the peer, and its URL.
    socket: Option<(String, PeerSocket)>,
    /// Connections whose interrupted messages this incarnation has settled.
    settled: HashSet<String>,
    reply: Option<ReplyPort<Receipt>>,
    active_at: Instant,
}

/// The actor of one peer.
pub(crate) struct PeerSession;

impl ActorBehaviour for PeerSession {
    const KIND: &'static str = "peer_session";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<State, ActorFailure> {
        context.send_after(args.work.idle(), Msg::Idle);
        Ok(State {
            args: Arc::clone(args),
            core: SessionCore::default(),
            socket: None,
            settled: HashSet::new(),
            reply: None,
            active_at: Instant::now(),
        })
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        state.active_at =
            if matches!(message, Msg::Idle | Msg::EndIfIdle(_)) { state.active_at } else { Instant::now() };
        let effect = match message {
            Msg::Arrived { message, reply } => state.core.arrived(PeerTask::Message(message, reply)),
            Msg::Ended { recipient, prior, reply } => state.core.arrived(PeerTask::End(recipient, prior, reply)),
            Msg::MessageHandled(TakenReceipt { receipt, queued_for, answer }) => {
                if let Some(reply) = state.reply.take() {
                    reply.send(receipt);
                }
                // Nothing can be decided or stored now: those that wait need not wait for the same.
                if let Receipt::Unavailable { .. } = receipt {
                    state.core.drain().into_iter().for_each(|task| task.answer(receipt));
                }
                if let Some(answer) = answer {
                    let args = Arc::clone(&state.args);
                    context.spawn(async move { args.work.send_unstored(*answer).await });
                }
                let next = state.core.taken();
                state.perform(context, next);
                queued_for.and_then(|connection_id| state.core.due(connection_id))
            }
            Msg::Due(connection_id) => state.core.due(connection_id),
            Msg::RetryOutbox { connection_id, sent } => {
                state.run_outbox(context, connection_id, sent);
                None
            }
            Msg::RunEnded(run, end) => state.end_run(context, *run, end),
            Msg::Envelopes(envelopes) => {
                for envelope in envelopes {
                    let args = Arc::clone(&state.args);
                    // It comes back to a session as any other message does.
                    context.spawn(async move { args.work.arrived(envelope).await });
                }
                None
            }
            Msg::EndIfIdle(reply) => {
                reply.send(state.core.is_idle() && state.active_at.elapsed() >= state.args.work.idle());
                None
            }
            Msg::Idle => {
                state.end_when_idle(context);
                None
            }
        };
        state.perform(context, effect);
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({"waiting": state.core.waiting(), "has_socket": state.socket.is_some()})
    }
}

impl State {
    fn perform(&mut self, context: &ActorContext<Msg>, effect: Option<SessionEffect<PeerTask>>) {
        match effect {
            None => {}
            Some(SessionEffect::Refuse(task)) => task.answer(Receipt::Busy { retry_after: 1 }),
            Some(SessionEffect::Take(task)) => self.take(context, task),
            Some(SessionEffect::ReadNext(connection_id)) => self.run_outbox(context, connection_id, None),
        }
    }

    fn take(&mut self, context: &ActorContext<Msg>, task: PeerTask) {
        let (args, mailbox) = (Arc::clone(&self.args), context.mailbox());
        match task {
            PeerTask::Message(message, reply) => {
                self.reply = Some(reply);
                context.spawn(async move {
                    mailbox.send(Msg::MessageHandled(args.work.take(*message).await));
                });
            }
            PeerTask::End(recipient, prior, reply) => {
                self.reply = Some(reply);
                context.spawn(async move {
                    let receipt = args.work.end_connection(&recipient, &prior).await;
                    mailbox.send(Msg::MessageHandled(TakenReceipt { receipt, queued_for: None, answer: None }));
                });
            }
        }
    }

    fn run_outbox(&mut self, context: &ActorContext<Msg>, connection_id: String, sent: Option<SentMessage>) {
        let (args, mailbox) = (Arc::clone(&self.args), context.mailbox());
        let is_first = !self.settled.contains(&connection_id);
        let mut run = Box::new(OutboxRun { connection_id, is_first, sent, socket: self.socket.take() });
        context.spawn(async move {
            let arrived = |envelopes| {
                mailbox.send(Msg::Envelopes(envelopes));
            };
            let end = run.go(&*args.work, arrived).await;
            mailbox.send(Msg::RunEnded(run, end));
        });
    }

    fn end_run(&mut self, context: &ActorContext<Msg>, run: OutboxRun, end: RunEnd) -> Option<SessionEffect<PeerTask>> {
        let OutboxRun { connection_id, is_first, sent, socket } = run;
        self.socket = socket;
        if !is_first {
            self.settled.insert(connection_id.clone());
        }
        match end {
            RunEnd::Failed(error) => {
                tracing::warn!(%error, "the outbox to a peer cannot be read");
                // The result of the attempt is kept until it is stored.
                context.send_after(STORE_PAUSE, Msg::RetryOutbox { connection_id, sent });
                None
            }
            RunEnd::NothingDue => {
                let next = self.core.nothing_due();
                // The directory knows the time at which the next message is due.
                self.args.work.nothing_due();
                next
            }
        }
    }

    fn end_when_idle(&mut self, context: &ActorContext<Msg>) {
        let idle = self.args.work.idle();
        let left = idle.saturating_sub(self.active_at.elapsed());
        if left.is_zero() && self.core.is_idle() {
            if let Some((_, socket)) = self.socket.take() {
                context.spawn(socket.close());
            }
            self.args.work.is_idle(&self.args.peer);
        }
        context.send_after(left.max(Duration::from_millis(100)), Msg::Idle);
    }
}
