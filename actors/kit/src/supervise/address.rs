//! The stable address of a supervisor, and what it can be asked.

use std::{sync::Arc, time::Duration};

use ractor::{Actor, ActorCell, ActorRef};
use serde::Serialize;
use tokio::{
    sync::{oneshot, watch},
    time::Instant,
};

use super::{
    actor::{Order, Overseer, Row},
    spec::{ChildSpec, SupervisorSpec},
};
use crate::actor::{Handle, Probe, Standing};

/// One actor as status pages show it.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Name.
    pub name: String,
    /// Kind.
    pub kind: &'static str,
    /// What it is doing.
    pub standing: Standing,
    /// Times it was started again.
    pub restarts: u32,
    /// Messages from others that wait or are handled.
    pub mailbox: usize,
    /// Milliseconds the current handler has been running; absent when idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_ms: Option<u64>,
    /// Its own picture of its state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<serde_json::Value>,
    /// Its children.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Report>,
}

/// A supervisor could not do what it was told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SuperviseError {
    /// A child could not be started.
    #[error("{child} did not start: {reason}")]
    Start {
        /// Name of the child.
        child: String,
        /// What it says.
        reason: String,
    },
    /// The supervisor is not running.
    #[error("supervisor {0} is not running")]
    NotRunning(String),
}

/// Address of a supervisor; survives its restarts.
#[derive(Clone)]
pub struct Supervisor {
    handle: Handle<Order>,
    actor: Arc<arc_swap::ArcSwapOption<ActorRef<Order>>>,
    ended: watch::Sender<Option<String>>,
}

impl Supervisor {
    /// An address for a supervisor.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            handle: Handle::new("supervisor", name, usize::MAX),
            actor: Arc::default(),
            ended: watch::channel(None).0,
        }
    }

    /// Starts it as the root of a tree.
    pub async fn start(&self, spec: SupervisorSpec) -> Result<ActorCell, SuperviseError> {
        let spawned = Actor::spawn(None, Overseer, (self.clone(), spec)).await;
        self.started(spawned)
    }

    /// Starts it as a child of any ractor actor: how a tree is embedded in a larger platform. When it gives up, `parent`
    /// receives `ActorFailed`.
    pub async fn start_linked(&self, spec: SupervisorSpec, parent: ActorCell) -> Result<ActorCell, SuperviseError> {
        let spawned = Actor::spawn_linked(None, Overseer, (self.clone(), spec), parent).await;
        self.started(spawned)
    }

    fn started<J>(&self, spawned: Result<(ActorRef<Order>, J), ractor::SpawnErr>) -> Result<ActorCell, SuperviseError> {
        match spawned {
            Ok((actor, _)) => Ok(actor.get_cell()),
            Err(error) => {
                Err(SuperviseError::Start { child: self.handle.name().to_owned(), reason: error.to_string() })
            }
        }
    }

    fn order(&self, order: Order) -> Result<(), SuperviseError> {
        let not_running = || SuperviseError::NotRunning(self.handle.name().to_owned());
        self.actor.load_full().ok_or_else(not_running)?.cast(order).map_err(|_| not_running())
    }

    /// Adds a child and starts it.
    pub async fn add(&self, child: ChildSpec) -> Result<u64, SuperviseError> {
        let (sender, receiver) = oneshot::channel();
        let name = child.probe.name().to_string();
        self.order(Order::Add(Box::new(child), sender))?;
        match receiver.await {
            Ok(Ok(id)) => Ok(id),
            Ok(Err(reason)) => Err(SuperviseError::Start { child: name, reason }),
            Err(_) => Err(SuperviseError::NotRunning(self.handle.name().to_owned())),
        }
    }

    /// Stops a child for good.
    pub async fn remove(&self, id: u64) -> Result<(), SuperviseError> {
        let (sender, receiver) = oneshot::channel();
        self.order(Order::Remove(id, sender))?;
        receiver.await.map_err(|_| SuperviseError::NotRunning(self.handle.name().to_owned()))
    }

    /// Every actor below, as status pages show it.
    pub fn report(&self) -> futures::future::BoxFuture<'_, Vec<Report>> {
        Box::pin(async move {
            let (sender, receiver) = oneshot::channel();
            if self.order(Order::List(sender)).is_err() {
                return Vec::new();
            }
            let rows = receiver.await.unwrap_or_default();
            futures::future::join_all(rows.into_iter().map(report_row)).await
        })
    }

    /// Kills the current incarnation of the actor called `name`, anywhere below, as a crash would. False when there is none.
    pub fn kill<'a>(&'a self, name: &'a str) -> futures::future::BoxFuture<'a, bool> {
        Box::pin(async move {
            let (sender, receiver) = oneshot::channel();
            if self.order(Order::List(sender)).is_err() {
                return false;
            }
            for row in receiver.await.unwrap_or_default() {
                if &*row.probe.name() == name {
                    return row.probe.kill();
                }
                if let Some(subtree) = &row.subtree
                    && subtree.kill(name).await
                {
                    return true;
                }
            }
            false
        })
    }

    /// Stops all children, last first, each with a share of `patience` to finish what it was told, then stops.
    pub async fn shutdown(&self, patience: Duration) {
        if self.order(Order::Shutdown(patience)).is_ok() {
            self.ended().await;
        }
    }

    /// Waits for the end; the text says why.
    pub async fn ended(&self) -> String {
        let mut ended = self.ended.subscribe();
        match ended.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => String::new(),
        }
    }

    pub(super) fn up(&self, actor: ActorRef<Order>) {
        self.actor.store(Some(Arc::new(actor)));
    }

    pub(super) fn over(&self, why: &str) {
        self.actor.store(None);
        self.ended.send_replace(Some(why.to_owned()));
    }

    pub(super) fn probe(&self) -> Arc<dyn Probe> {
        Arc::new(SubtreeProbe(self.clone()))
    }
}

async fn report_row(row: Row) -> Report {
    let busy = row.probe.busy().map(|(since, _)| u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX));
    let children = match &row.subtree {
        Some(subtree) => subtree.report().await,
        None => Vec::new(),
    };
    Report {
        name: row.probe.name().to_string(),
        kind: row.probe.kind(),
        standing: row.probe.standing(),
        restarts: row.restarts,
        mailbox: row.probe.depth(),
        busy_ms: busy,
        state: if row.subtree.is_some() { None } else { row.probe.observe().await },
        children,
    }
}

/// A supervisor as its own supervisor sees it.
struct SubtreeProbe(Supervisor);

impl Probe for SubtreeProbe {
    fn name(&self) -> Arc<str> {
        self.0.handle.name().into()
    }
    fn kind(&self) -> &'static str {
        "supervisor"
    }
    fn standing(&self) -> Standing {
        if self.0.actor.load().is_some() { Standing::Up } else { self.0.handle.standing() }
    }
    fn vacate(&self, standing: Standing) {
        self.0.actor.store(None);
        Probe::vacate(&self.0.handle, standing);
    }
    fn busy(&self) -> Option<(Instant, &'static str)> {
        None
    }
    fn depth(&self) -> usize {
        0
    }
    fn kill(&self) -> bool {
        self.0.actor.load_full().is_some_and(|actor| {
            actor.kill();
            true
        })
    }
    fn observe(&self) -> futures::future::BoxFuture<'static, Option<serde_json::Value>> {
        Box::pin(async { None })
    }
}
