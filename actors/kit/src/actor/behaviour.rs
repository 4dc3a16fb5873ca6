//! The trait that every actor implements, and the tools that the kit passes to it.

use std::{any::Any, future::Future, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt;
use ractor::ActorRef;
use svc_otel::trace::{self, MessageOrigin};
use tokio::{
    sync::Semaphore,
    task::AbortHandle,
    time::{Instant, sleep},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument;

use super::{
    envelope::{Envelope, MailboxPermit, QueuedMessage},
    handle::Handle,
    message::ActorMessage,
};

/// The state of an actor is no longer consistent: the actor asks for its restart. Failures of a request go into the reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ActorFailure(pub String);

/// An actor: immutable arguments, mutable state, one message at a time.
pub trait ActorBehaviour: Send + Sync + Sized + 'static {
    /// Kind of actor: a bounded telemetry label.
    const KIND: &'static str;
    /// Messages that the actor handles.
    type Msg: ActorMessage;
    /// Arguments of the start, the same for every incarnation.
    type Args: Send + Sync + 'static;
    /// State of one incarnation.
    type State: Send + 'static;

    /// Makes the state of a new incarnation. It must not wait for the network: the supervisor waits for it.
    ///
    /// # Errors
    /// When the actor cannot start; its supervisor retries.
    fn start(
        context: &ActorContext<Self::Msg>,
        args: &Arc<Self::Args>,
    ) -> impl Future<Output = Result<Self::State, ActorFailure>> + Send;

    /// Handles one message. It must not wait for the network: a task does, and sends its result back as a message.
    ///
    /// # Errors
    /// When the actor must be restarted.
    fn handle(
        context: &ActorContext<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> impl Future<Output = Result<(), ActorFailure>> + Send;

    /// Returns a small summary of the state for status pages and tests, without secrets.
    fn observe(state: &Self::State) -> serde_json::Value;
}

/// Tools of one incarnation: its addresses, tasks and timers. All of them end with the incarnation.
pub struct ActorContext<M: ActorMessage> {
    pub(super) handle: Handle<M>,
    pub(super) mailbox: Mailbox<M>,
    pub(super) tasks: TaskTracker,
    pub(super) cancellation: CancellationToken,
}

impl<M: ActorMessage> ActorContext<M> {
    /// Returns the stable handle of this actor.
    pub fn handle(&self) -> &Handle<M> {
        &self.handle
    }

    /// Returns the address of this incarnation, for its tasks. Messages to an ended incarnation are dropped: a late result never
    /// reaches the next incarnation.
    pub fn mailbox(&self) -> Mailbox<M> {
        self.mailbox.clone()
    }

    /// Starts a task in the current span and call. The task is linked to this incarnation: it is dropped when the incarnation ends,
    /// and its panic fails the incarnation, which may wait for the result of the task.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let (ended, actor) = (self.cancellation.clone(), self.mailbox.actor.clone());
        let call = MessageOrigin::current().call;
        let task = AssertUnwindSafe(trace::run_in_call(call, future)).catch_unwind();
        self.tasks
            .spawn(
                async move {
                    if let Some(Err(panic)) = ended.run_until_cancelled(task).await {
                        let _ = actor.cast(Envelope::TaskPanicked(describe_panic(&*panic)));
                    }
                }
                .in_current_span(),
            )
            .abort_handle()
    }

    /// Sends `message` to this incarnation after `delay`. Abort the handle to cancel.
    pub fn send_after(&self, delay: Duration, message: M) -> AbortHandle {
        let mailbox = self.mailbox();
        self.spawn(async move {
            sleep(delay).await;
            mailbox.send(message);
        })
    }
}

fn describe_panic(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a text".to_owned())
}

/// Address of one incarnation for its own tasks.
pub struct Mailbox<M: ActorMessage> {
    pub(super) actor: ActorRef<Envelope<M>>,
    pub(super) stream_permits: Arc<Semaphore>,
    pub(super) kind: &'static str,
}

impl<M: ActorMessage> Clone for Mailbox<M> {
    fn clone(&self) -> Self {
        Self { actor: self.actor.clone(), stream_permits: Arc::clone(&self.stream_permits), kind: self.kind }
    }
}

impl<M: ActorMessage> Mailbox<M> {
    /// Sends the result of a task. No limit applies, since the actor bounds its tasks. False when the incarnation has ended.
    pub fn send(&self, message: M) -> bool {
        self.post(message, None)
    }

    /// Sends one item of an outside stream, and waits while too many items are queued. False when the incarnation has ended.
    pub async fn send_with_backpressure(&self, message: M) -> bool {
        let Ok(permit) = Arc::clone(&self.stream_permits).acquire_owned().await else {
            return false;
        };
        self.post(message, Some(permit))
    }

    fn post(&self, message: M, permit: Option<tokio::sync::OwnedSemaphorePermit>) -> bool {
        let queued = QueuedMessage {
            body: message,
            origin: MessageOrigin::current(),
            enqueued_at: Instant::now(),
            deadline: None,
            permit: MailboxPermit::without_limit(self.kind, permit),
        };
        self.actor.cast(Envelope::Message(queued)).is_ok()
    }
}
