//! The stable address of an actor: it stays the same while incarnations come and go.

use std::{
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use ractor::ActorRef;
use svc_otel::{metrics, trace::MessageOrigin};
use tokio::{
    sync::{oneshot, watch},
    time::{Instant, sleep, timeout},
};

use super::{
    ask_error::AskError,
    envelope::{Envelope, MailboxPermit, QueuedMessage, ReplyPort},
    message::ActorMessage,
    status::ActorStatus,
};

/// Address of an actor and the only public way to send to it. Cheap to clone; survives restarts of the actor.
pub struct Handle<M: ActorMessage>(pub(crate) Arc<ActorSlot<M>>);

impl<M: ActorMessage> Clone for Handle<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

pub(crate) struct ActorSlot<M: ActorMessage> {
    name: Arc<str>,
    kind: &'static str,
    mailbox_limit: usize,
    mailbox_depth: Arc<AtomicUsize>,
    current: ArcSwapOption<ActorRef<Envelope<M>>>,
    status: watch::Sender<ActorStatus>,
    running_handler: Mutex<Option<RunningHandler>>,
}

/// The message that an actor is handling.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunningHandler {
    /// Start of the handler.
    pub(crate) since: Instant,
    /// Name of the message.
    pub(crate) message: &'static str,
}

/// Timeout of [`Handle::ask`].
const DEFAULT_ASK_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause of [`Handle::ask_through_restarts`] before it asks an actor with a full mailbox again.
const FULL_MAILBOX_PAUSE: Duration = Duration::from_millis(100);
/// Pause of [`Handle::ask_through_restarts`] after a death: the supervisor may not have seen the death yet, and until then
/// the handle still says `Up`.
const STALE_STATUS_PAUSE: Duration = Duration::from_millis(1);

impl<M: ActorMessage> Handle<M> {
    /// Makes the address of an actor that a supervisor starts later. `limit` bounds the messages of other actors that may wait in
    /// the mailbox.
    pub fn new(kind: &'static str, name: impl Into<Arc<str>>, limit: usize) -> Self {
        Self(Arc::new(ActorSlot {
            name: name.into(),
            kind,
            mailbox_limit: limit,
            mailbox_depth: Arc::default(),
            current: ArcSwapOption::empty(),
            status: watch::channel(ActorStatus::New).0,
            running_handler: Mutex::new(None),
        }))
    }

    /// Returns the name of the actor.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Sends a message with a reply port and waits for the answer, at most ten seconds.
    ///
    /// # Errors
    /// Every [`AskError`].
    pub async fn ask<R>(&self, message: impl FnOnce(ReplyPort<R>) -> M) -> Result<R, AskError> {
        self.ask_within(DEFAULT_ASK_TIMEOUT, message).await
    }

    /// Sends a message with a reply port and waits for the answer, at most `wait_limit`. The actor skips a message after its time
    /// limit.
    ///
    /// # Errors
    /// Every [`AskError`].
    pub async fn ask_within<R>(
        &self,
        wait_limit: Duration,
        message: impl FnOnce(ReplyPort<R>) -> M,
    ) -> Result<R, AskError> {
        let (sender, receiver) = oneshot::channel();
        self.post(message(ReplyPort::new(sender)), Some(Instant::now() + wait_limit))?;
        match timeout(wait_limit, receiver).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(AskError::ActorDied { actor: Arc::clone(&self.0.name) }),
            Err(_) => Err(AskError::TimedOut { actor: Arc::clone(&self.0.name), waited: wait_limit }),
        }
    }

    /// Calls `ask` until it has an answer or `deadline` has passed. `ask` sends one message to this actor and is given the time
    /// that is left.
    ///
    /// The call is repeated
    /// - after [`AskError::ActorDied`], and after [`AskError::NotDelivered`] to an actor that can still come up: as soon as the
    ///   actor is up,
    /// - after [`AskError::MailboxFull`]: after 100 ms.
    ///
    /// An actor that died may have handled the message first, so the message must be safe to handle twice.
    ///
    /// # Errors
    /// The last error of `ask`: at the deadline, as soon as the actor is [`ActorStatus::Stopped`], and after every
    /// [`AskError::TimedOut`].
    pub async fn ask_through_restarts<R, F>(
        &self,
        deadline: Instant,
        mut ask: impl FnMut(Duration) -> F,
    ) -> Result<R, AskError>
    where
        F: Future<Output = Result<R, AskError>>,
    {
        let time_left = || deadline.saturating_duration_since(Instant::now());
        loop {
            let error = match ask(time_left()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let can_retry = match &error {
                AskError::TimedOut { .. } => false,
                AskError::MailboxFull { .. } => {
                    sleep(FULL_MAILBOX_PAUSE.min(time_left())).await;
                    true
                }
                AskError::ActorDied { .. } | AskError::NotDelivered { .. } => {
                    sleep(STALE_STATUS_PAUSE.min(time_left())).await;
                    self.wait_until_up(time_left()).await
                }
            };
            if !can_retry || time_left().is_zero() {
                return Err(error);
            }
        }
    }

    /// Sends a message without an answer.
    ///
    /// # Errors
    /// [`AskError::NotDelivered`] and [`AskError::MailboxFull`].
    pub fn tell(&self, message: M) -> Result<(), AskError> {
        self.post(message, None)
    }

    /// Sends a message that may be lost: an actor that is down or full finds its content again by itself.
    pub fn notify(&self, message: M) {
        let _ = self.tell(message);
    }

    fn post(&self, message: M, deadline: Option<Instant>) -> Result<(), AskError> {
        let slot = &self.0;
        let Some(permit) = MailboxPermit::try_acquire(slot.kind, &slot.mailbox_depth, slot.mailbox_limit) else {
            metrics::record_message_rejected(slot.kind);
            return Err(AskError::MailboxFull { actor: Arc::clone(&slot.name), limit: slot.mailbox_limit });
        };
        let not_delivered = || AskError::NotDelivered { actor: Arc::clone(&slot.name), status: self.status() };
        let actor = slot.current.load_full().ok_or_else(not_delivered)?;
        let queued = QueuedMessage {
            body: message,
            origin: MessageOrigin::current(),
            enqueued_at: Instant::now(),
            deadline,
            permit,
        };
        actor.cast(Envelope::Message(queued)).map_err(|_| not_delivered())
    }

    /// Returns the status of the actor.
    pub fn status(&self) -> ActorStatus {
        *self.0.status.borrow()
    }

    /// Waits until the actor is up. False when the actor has stopped for good or `wait_limit` is over.
    pub async fn wait_until_up(&self, wait_limit: Duration) -> bool {
        let mut changes = self.0.status.subscribe();
        let settled = changes.wait_for(|status| matches!(status, ActorStatus::Up | ActorStatus::Stopped));
        match timeout(wait_limit, settled).await {
            Ok(Ok(status)) => *status == ActorStatus::Up,
            Ok(Err(_)) | Err(_) => false,
        }
    }

    /// Returns [`ActorBehaviour::observe`](super::ActorBehaviour::observe) of the actor's state. `None` when the actor is not
    /// running or does not answer within a second.
    pub async fn observe(&self) -> Option<serde_json::Value> {
        let (sender, receiver) = oneshot::channel();
        self.0.current.load_full()?.cast(Envelope::Observe(sender)).ok()?;
        timeout(Duration::from_secs(1), receiver).await.ok()?.ok()
    }

    /// Kills the current incarnation as a crash would; its supervisor decides about a restart. False when there is none.
    pub fn kill(&self) -> bool {
        self.0.current.load_full().is_some_and(|actor| {
            actor.kill();
            true
        })
    }
}

impl<M: ActorMessage> ActorSlot<M> {
    pub(super) fn install(&self, actor: ActorRef<Envelope<M>>) {
        self.current.store(Some(Arc::new(actor)));
        self.status.send_replace(ActorStatus::Up);
    }

    pub(super) fn kind(&self) -> &'static str {
        self.kind
    }

    pub(super) fn set_running_handler(&self, running: Option<RunningHandler>) {
        *self.running_handler.lock().unwrap_or_else(PoisonError::into_inner) = running;
    }
}

/// A child as its supervisor sees it, independent of the type of its messages.
pub(crate) trait ChildProbe: Send + Sync {
    fn name(&self) -> Arc<str>;
    fn kind(&self) -> &'static str;
    fn status(&self) -> ActorStatus;
    /// Whether the child runs, and every actor below it.
    fn is_up(&self) -> bool {
        self.status() == ActorStatus::Up
    }
    fn mark_down(&self, status: ActorStatus);
    fn running_handler(&self) -> Option<RunningHandler>;
    fn mailbox_depth(&self) -> usize;
    fn kill(&self) -> bool;
    fn observe(&self) -> futures::future::BoxFuture<'static, Option<serde_json::Value>>;
}

impl<M: ActorMessage> ChildProbe for Handle<M> {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.0.name)
    }

    fn kind(&self) -> &'static str {
        self.0.kind
    }

    fn status(&self) -> ActorStatus {
        Handle::status(self)
    }

    fn mark_down(&self, status: ActorStatus) {
        self.0.current.store(None);
        self.0.set_running_handler(None);
        self.0.status.send_replace(status);
    }

    fn running_handler(&self) -> Option<RunningHandler> {
        *self.0.running_handler.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mailbox_depth(&self) -> usize {
        self.0.mailbox_depth.load(Ordering::Acquire)
    }

    fn kill(&self) -> bool {
        Handle::kill(self)
    }

    fn observe(&self) -> futures::future::BoxFuture<'static, Option<serde_json::Value>> {
        let handle = self.clone();
        Box::pin(async move { Handle::observe(&handle).await })
    }
}
