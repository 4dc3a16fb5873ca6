//! Contents of a mailbox: messages with their sender's trace context, send time, deadline and mailbox permit.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use svc_otel::{metrics, trace::MessageOrigin};
use tokio::{
    sync::{OwnedSemaphorePermit, oneshot},
    time::Instant,
};

pub(crate) enum Envelope<M> {
    Message(QueuedMessage<M>),
    Observe(oneshot::Sender<serde_json::Value>),
    /// A task of the incarnation panicked with this text.
    TaskPanicked(String),
}

pub(crate) struct QueuedMessage<M> {
    pub(super) body: M,
    pub(super) origin: MessageOrigin,
    pub(super) enqueued_at: Instant,
    pub(super) deadline: Option<Instant>,
    pub(super) permit: MailboxPermit,
}

/// A place in a mailbox. The drop returns it, also when a queued message is dropped with its actor.
pub(crate) struct MailboxPermit {
    kind: &'static str,
    depth: Option<Arc<AtomicUsize>>,
    _stream_permit: Option<OwnedSemaphorePermit>,
}

impl MailboxPermit {
    /// Takes a place when fewer than `limit` are taken.
    pub(super) fn try_acquire(kind: &'static str, depth: &Arc<AtomicUsize>, limit: usize) -> Option<Self> {
        let more = |taken: usize| (taken < limit).then_some(taken + 1);
        depth.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        metrics::record_mailbox_depth(kind, 1);
        Some(Self { kind, depth: Some(Arc::clone(depth)), _stream_permit: None })
    }

    /// Makes a place outside the limit, for a message of the actor's own tasks.
    pub(super) fn without_limit(kind: &'static str, permit: Option<OwnedSemaphorePermit>) -> Self {
        metrics::record_mailbox_depth(kind, 1);
        Self { kind, depth: None, _stream_permit: permit }
    }
}

impl Drop for MailboxPermit {
    fn drop(&mut self) {
        metrics::record_mailbox_depth(self.kind, -1);
        if let Some(depth) = &self.depth {
            depth.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Return address of one question. A drop without an answer gives the caller [`AskError::ActorDied`](super::AskError::ActorDied).
pub struct ReplyPort<R>(oneshot::Sender<R>);

impl<R> ReplyPort<R> {
    pub(super) fn new(sender: oneshot::Sender<R>) -> Self {
        Self(sender)
    }

    /// Sends the answer. A caller that no longer waits is not an error.
    pub fn send(self, answer: R) {
        let _ = self.0.send(answer);
    }

    /// Whether the caller no longer waits.
    pub fn is_abandoned(&self) -> bool {
        self.0.is_closed()
    }
}

impl<R> std::fmt::Debug for ReplyPort<R> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Reply")
    }
}
