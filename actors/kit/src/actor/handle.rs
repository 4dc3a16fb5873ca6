//! The stable address of an actor: it stays the same while incarnations come and go.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use ractor::ActorRef;
use svc_otel::{metrics, trace::Origin};
use tokio::{
    sync::{oneshot, watch},
    time::{Instant, timeout},
};

use super::{
    behaviour::Intent,
    envelope::{Envelope, Letter, Reply, Room},
};

/// Why a question was not answered. Each asks something else of the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The actor was not running; the message had no effect.
    #[error("{actor} is {standing}; the message was not delivered")]
    NotDelivered {
        /// Name of the actor.
        actor: Arc<str>,
        /// What it was doing instead.
        standing: Standing,
    },
    /// The actor took the message and died before it answered; the effect is not known.
    #[error("{actor} died before it answered")]
    Died {
        /// Name of the actor.
        actor: Arc<str>,
    },
    /// The mailbox is full; the message had no effect.
    #[error("{actor} has {limit} messages waiting, its limit")]
    Refused {
        /// Name of the actor.
        actor: Arc<str>,
        /// Its admission limit.
        limit: usize,
    },
    /// No answer in time; the effect is not known.
    #[error("{actor} did not answer within {waited:?}")]
    TimedOut {
        /// Name of the actor.
        actor: Arc<str>,
        /// How long the caller waited.
        waited: Duration,
    },
}

/// What an actor is doing, as its handle sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Not started yet.
    New,
    /// Running.
    Up,
    /// Between two incarnations.
    Restarting,
    /// Stopped for good.
    Stopped,
}

impl std::fmt::Display for Standing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::New => "not started",
            Self::Up => "up",
            Self::Restarting => "restarting",
            Self::Stopped => "stopped",
        })
    }
}

/// The only public way to an actor. Cheap to clone; survives restarts.
pub struct Handle<M: Intent>(pub(crate) Arc<Slot<M>>);

impl<M: Intent> Clone for Handle<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

pub(crate) struct Slot<M: Intent> {
    name: Arc<str>,
    kind: &'static str,
    limit: usize,
    depth: Arc<AtomicUsize>,
    current: ArcSwapOption<ActorRef<Envelope<M>>>,
    standing: watch::Sender<Standing>,
    busy: Mutex<Option<(Instant, &'static str)>>,
}

/// How long a question may wait when the caller does not say: longer than any handler may run.
const DEFAULT_PATIENCE: Duration = Duration::from_secs(10);

impl<M: Intent> Handle<M> {
    /// An address for an actor that will be started by a supervisor. `limit` bounds the messages from others that may wait.
    pub fn new(kind: &'static str, name: impl Into<Arc<str>>, limit: usize) -> Self {
        Self(Arc::new(Slot {
            name: name.into(),
            kind,
            limit,
            depth: Arc::default(),
            current: ArcSwapOption::empty(),
            standing: watch::channel(Standing::New).0,
            busy: Mutex::new(None),
        }))
    }

    /// Name of the actor.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Asks and waits at most ten seconds.
    pub async fn ask<R>(&self, message: impl FnOnce(Reply<R>) -> M) -> Result<R, AskError> {
        self.ask_within(DEFAULT_PATIENCE, message).await
    }

    /// Asks and waits at most `patience`. A message whose caller has given up is not handled any more.
    pub async fn ask_within<R>(&self, patience: Duration, message: impl FnOnce(Reply<R>) -> M) -> Result<R, AskError> {
        let (sender, receiver) = oneshot::channel();
        self.post(message(Reply::new(sender)), Some(Instant::now() + patience))?;
        match timeout(patience, receiver).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(AskError::Died { actor: Arc::clone(&self.0.name) }),
            Err(_) => Err(AskError::TimedOut { actor: Arc::clone(&self.0.name), waited: patience }),
        }
    }

    /// Tells, without an answer.
    pub fn tell(&self, message: M) -> Result<(), AskError> {
        self.post(message, None)
    }

    fn post(&self, message: M, deadline: Option<Instant>) -> Result<(), AskError> {
        let slot = &self.0;
        let Some(room) = Room::admit(slot.kind, &slot.depth, slot.limit) else {
            metrics::actor_rejected(slot.kind);
            return Err(AskError::Refused { actor: Arc::clone(&slot.name), limit: slot.limit });
        };
        let not_delivered = || AskError::NotDelivered { actor: Arc::clone(&slot.name), standing: self.standing() };
        let actor = slot.current.load_full().ok_or_else(not_delivered)?;
        let letter = Letter { body: message, origin: Origin::current(), enqueued: Instant::now(), deadline, room };
        actor.cast(Envelope::Letter(letter)).map_err(|_| not_delivered())
    }

    /// What the actor is doing.
    pub fn standing(&self) -> Standing {
        *self.0.standing.borrow()
    }

    /// Waits until the actor is up; false when it has stopped for good or `patience` is over.
    pub async fn until_up(&self, patience: Duration) -> bool {
        let mut standing = self.0.standing.subscribe();
        let settled = standing.wait_for(|standing| matches!(standing, Standing::Up | Standing::Stopped));
        match timeout(patience, settled).await {
            Ok(Ok(standing)) => *standing == Standing::Up,
            Ok(Err(_)) | Err(_) => false,
        }
    }

    /// A picture of the actor's state; `None` when it is not running or does not answer within a second.
    pub async fn observe(&self) -> Option<serde_json::Value> {
        let (sender, receiver) = oneshot::channel();
        self.0.current.load_full()?.cast(Envelope::Observe(sender)).ok()?;
        timeout(Duration::from_secs(1), receiver).await.ok()?.ok()
    }

    /// Kills the current incarnation where it stands, as a crash would; its supervisor decides what follows. False when
    /// there is none.
    pub fn kill(&self) -> bool {
        self.0.current.load_full().is_some_and(|actor| {
            actor.kill();
            true
        })
    }
}

impl<M: Intent> Slot<M> {
    pub(super) fn install(&self, actor: ActorRef<Envelope<M>>) {
        self.current.store(Some(Arc::new(actor)));
        self.standing.send_replace(Standing::Up);
    }

    pub(super) fn kind(&self) -> &'static str {
        self.kind
    }

    pub(super) fn set_busy(&self, busy: Option<(Instant, &'static str)>) {
        *self.busy.lock().unwrap_or_else(PoisonError::into_inner) = busy;
    }
}

/// What a supervisor needs to know of a child, whatever its messages are.
pub(crate) trait Probe: Send + Sync {
    fn name(&self) -> Arc<str>;
    fn kind(&self) -> &'static str;
    fn standing(&self) -> Standing;
    fn vacate(&self, standing: Standing);
    fn busy(&self) -> Option<(Instant, &'static str)>;
    fn depth(&self) -> usize;
    fn kill(&self) -> bool;
    fn observe(&self) -> futures::future::BoxFuture<'static, Option<serde_json::Value>>;
}

impl<M: Intent> Probe for Handle<M> {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.0.name)
    }

    fn kind(&self) -> &'static str {
        self.0.kind
    }

    fn standing(&self) -> Standing {
        Handle::standing(self)
    }

    fn vacate(&self, standing: Standing) {
        self.0.current.store(None);
        self.0.set_busy(None);
        self.0.standing.send_replace(standing);
    }

    fn busy(&self) -> Option<(Instant, &'static str)> {
        *self.0.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn depth(&self) -> usize {
        self.0.depth.load(Ordering::Acquire)
    }

    fn kill(&self) -> bool {
        Handle::kill(self)
    }

    fn observe(&self) -> futures::future::BoxFuture<'static, Option<serde_json::Value>> {
        let handle = self.clone();
        Box::pin(async move { Handle::observe(&handle).await })
    }
}
