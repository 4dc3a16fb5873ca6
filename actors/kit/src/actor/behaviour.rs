//! What the author of an actor writes, and what he is given.

use std::{future::Future, sync::Arc, time::Duration};

use ractor::ActorRef;
use svc_otel::trace::{self, Origin};
use tokio::{
    sync::Semaphore,
    task::AbortHandle,
    time::{Instant, sleep},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument;

use super::{
    envelope::{Envelope, Letter, Room},
    handle::Handle,
};

/// A message type: each variant is an intent with a bounded name for telemetry.
pub trait Intent: Send + 'static {
    /// Name of the variant: a span attribute and a metric label, never data.
    fn name(&self) -> &'static str;
}

/// The actor can no longer be trusted and asks to be restarted. Business failures go into the reply instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

/// An actor: immutable arguments, mutable state, one message at a time.
pub trait Behaviour: Send + Sync + Sized + 'static {
    /// Kind of actor: a bounded telemetry label.
    const KIND: &'static str;
    /// What it can be told.
    type Msg: Intent;
    /// What it is made from; the same for every incarnation.
    type Args: Send + Sync + 'static;
    /// What it owns.
    type State: Send + 'static;

    /// Makes the state of a new incarnation. Must not wait for the network: its supervisor waits for it.
    fn start(
        context: &Context<Self::Msg>,
        args: &Arc<Self::Args>,
    ) -> impl Future<Output = Result<Self::State, Failure>> + Send;

    /// Handles one message. Must not wait for the network: start a task and get its result back as a message.
    fn handle(
        context: &Context<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// A small picture of the state for status pages and tests. Never a secret.
    fn observe(state: &Self::State) -> serde_json::Value;
}

/// What an incarnation can do besides changing its state. All of it ends with the incarnation.
pub struct Context<M: Intent> {
    pub(super) handle: Handle<M>,
    pub(super) mailbox: Mailbox<M>,
    pub(super) tasks: TaskTracker,
    pub(super) ended: CancellationToken,
}

impl<M: Intent> Context<M> {
    /// The stable handle of this actor.
    pub fn handle(&self) -> &Handle<M> {
        &self.handle
    }

    /// The way back into this incarnation, for tasks. Messages to an incarnation that has ended go nowhere, so a late result
    /// never reaches a successor that did not ask for it.
    pub fn mailbox(&self) -> Mailbox<M> {
        self.mailbox.clone()
    }

    /// Starts a task that is dropped when this incarnation ends. It carries on the current span and call.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let ended = self.ended.clone();
        let call = Origin::current().call;
        self.tasks
            .spawn(
                async move {
                    ended.run_until_cancelled(trace::within(call, future)).await;
                }
                .in_current_span(),
            )
            .abort_handle()
    }

    /// Sends `message` to this incarnation after `delay`. Abort the handle to cancel.
    pub fn after(&self, delay: Duration, message: M) -> AbortHandle {
        let mailbox = self.mailbox();
        self.spawn(async move {
            sleep(delay).await;
            mailbox.send(message);
        })
    }
}

/// Address of one incarnation, for its own tasks.
pub struct Mailbox<M: Intent> {
    pub(super) actor: ActorRef<Envelope<M>>,
    pub(super) room: Arc<Semaphore>,
    pub(super) kind: &'static str,
}

impl<M: Intent> Clone for Mailbox<M> {
    fn clone(&self) -> Self {
        Self { actor: self.actor.clone(), room: Arc::clone(&self.room), kind: self.kind }
    }
}

impl<M: Intent> Mailbox<M> {
    /// Hands in the result of a task the actor started itself, hence never refused: the tasks are the bound. False when the
    /// incarnation has ended.
    pub fn send(&self, message: M) -> bool {
        self.post(message, None)
    }

    /// Hands in one item of a stream, and waits while too many are queued: the bound of everything that comes from outside.
    /// False when the incarnation has ended.
    pub async fn send_when_room(&self, message: M) -> bool {
        let Ok(permit) = Arc::clone(&self.room).acquire_owned().await else {
            return false;
        };
        self.post(message, Some(permit))
    }

    fn post(&self, message: M, permit: Option<tokio::sync::OwnedSemaphorePermit>) -> bool {
        let letter = Letter {
            body: message,
            origin: Origin::current(),
            enqueued: Instant::now(),
            deadline: None,
            room: Room::internal(self.kind, permit),
        };
        self.actor.cast(Envelope::Letter(letter)).is_ok()
    }
}
