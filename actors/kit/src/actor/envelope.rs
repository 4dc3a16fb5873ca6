//! What travels: a message with its sender's trace context, the time it was sent, its deadline and its place in the mailbox.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use svc_otel::{metrics, trace::Origin};
use tokio::{
    sync::{OwnedSemaphorePermit, oneshot},
    time::Instant,
};

pub(crate) enum Envelope<M> {
    Letter(Letter<M>),
    Observe(oneshot::Sender<serde_json::Value>),
}

pub(crate) struct Letter<M> {
    pub(super) body: M,
    pub(super) origin: Origin,
    pub(super) enqueued: Instant,
    pub(super) deadline: Option<Instant>,
    pub(super) room: Room,
}

/// A place in a mailbox; given back when dropped, also when the letter dies with its actor.
pub(crate) struct Room {
    kind: &'static str,
    admitted: Option<Arc<AtomicUsize>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// Takes a place if fewer than `limit` are taken.
    pub(super) fn admit(kind: &'static str, depth: &Arc<AtomicUsize>, limit: usize) -> Option<Self> {
        let more = |taken: usize| (taken < limit).then_some(taken + 1);
        depth.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        metrics::mailbox_depth(kind, 1);
        Some(Self { kind, admitted: Some(Arc::clone(depth)), _permit: None })
    }

    /// A place for a message of the actor's own tasks.
    pub(super) fn internal(kind: &'static str, permit: Option<OwnedSemaphorePermit>) -> Self {
        metrics::mailbox_depth(kind, 1);
        Self { kind, admitted: None, _permit: permit }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        metrics::mailbox_depth(self.kind, -1);
        if let Some(depth) = &self.admitted {
            depth.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Where an answer goes. Dropping it unanswered tells the caller that the actor died meanwhile.
pub struct Reply<R>(oneshot::Sender<R>);

impl<R> Reply<R> {
    pub(super) fn new(sender: oneshot::Sender<R>) -> Self {
        Self(sender)
    }

    /// Answers. A caller that no longer waits is not an error.
    pub fn send(self, answer: R) {
        let _ = self.0.send(answer);
    }

    /// Whether the caller has gone away.
    pub fn is_abandoned(&self) -> bool {
        self.0.is_closed()
    }
}

impl<R> std::fmt::Debug for Reply<R> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Reply")
    }
}
