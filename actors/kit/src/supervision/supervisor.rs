//! The stable address of a supervisor, and the report about its children.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ractor::{Actor, ActorCell, ActorId, ActorRef};
use serde::Serialize;
use tokio::sync::{oneshot, watch};

use super::{
    actor::{Args, ChildEntry, SupervisorActor, SupervisorCommand},
    spec::{ChildSpec, SupervisorSpec},
};
use crate::actor::{ActorStatus, ChildProbe, Handle, RunningHandler};

/// One actor on a status page.
#[derive(Debug, Clone, Serialize)]
pub struct ActorReport {
    /// Name of the actor.
    pub name: String,
    /// Kind of the actor.
    pub kind: &'static str,
    /// Status of the actor.
    #[serde(rename = "standing")]
    pub status: ActorStatus,
    /// Number of restarts.
    pub restarts: u32,
    /// Messages of other actors in the mailbox.
    pub mailbox: usize,
    /// Run time of the current handler in milliseconds; absent when the actor is idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_ms: Option<u64>,
    /// The actor's own summary of its state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<serde_json::Value>,
    /// Reports of the children of a supervisor.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<ActorReport>,
}

/// The error of a request to a supervisor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SupervisorError {
    /// A child did not start.
    #[error("{child} did not start: {reason}")]
    Start {
        /// Name of the child.
        child: String,
        /// Error of the start.
        reason: String,
    },
    /// The supervisor is not running.
    #[error("supervisor {0} is not running")]
    NotRunning(String),
}

/// Address of a supervisor; survives restarts of the supervisor.
#[derive(Clone)]
pub struct Supervisor {
    handle: Handle<SupervisorCommand>,
    actor: Arc<arc_swap::ArcSwapOption<ActorRef<SupervisorCommand>>>,
    end_reason: watch::Sender<Option<String>>,
    /// The children of the current incarnation: they share the status of a supervisor that has ended.
    children: Arc<Mutex<Vec<Arc<dyn ChildProbe>>>>,
}

impl Supervisor {
    /// Makes the address of a supervisor that is started later.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            handle: Handle::new("supervisor", name, usize::MAX),
            actor: Arc::default(),
            end_reason: watch::channel(None).0,
            children: Arc::default(),
        }
    }

    /// Starts the supervisor as the root of a tree.
    ///
    /// # Errors
    /// When a child does not start.
    pub async fn start(&self, spec: SupervisorSpec) -> Result<ActorCell, SupervisorError> {
        let args = Args { supervisor: self.clone(), spec, is_subtree: false };
        self.spawned_cell(Actor::spawn(None, SupervisorActor, args).await)
    }

    /// Starts the supervisor as a child of any ractor actor, which embeds the tree in a larger platform. When the supervisor gives
    /// up, `parent` receives `ActorFailed`; when `parent` ends, the tree is killed.
    ///
    /// # Errors
    /// When a child does not start.
    pub async fn start_linked(&self, spec: SupervisorSpec, parent: ActorCell) -> Result<ActorCell, SupervisorError> {
        let args = Args { supervisor: self.clone(), spec, is_subtree: false };
        self.spawned_cell(Actor::spawn_linked(None, SupervisorActor, args, parent).await)
    }

    /// Starts the supervisor as a child of another supervisor.
    pub(super) async fn start_subtree(
        &self,
        spec: SupervisorSpec,
        parent: ActorCell,
    ) -> Result<ActorCell, SupervisorError> {
        let args = Args { supervisor: self.clone(), spec, is_subtree: true };
        self.spawned_cell(Actor::spawn_linked(None, SupervisorActor, args, parent).await)
    }

    fn spawned_cell<J>(
        &self,
        spawned: Result<(ActorRef<SupervisorCommand>, J), ractor::SpawnErr>,
    ) -> Result<ActorCell, SupervisorError> {
        match spawned {
            Ok((actor, _)) => Ok(actor.get_cell()),
            Err(error) => {
                Err(SupervisorError::Start { child: self.handle.name().to_owned(), reason: error.to_string() })
            }
        }
    }

    fn send_command(&self, command: SupervisorCommand) -> Result<(), SupervisorError> {
        let not_running = || SupervisorError::NotRunning(self.handle.name().to_owned());
        self.actor.load_full().ok_or_else(not_running)?.cast(command).map_err(|_| not_running())
    }

    /// Adds a child, starts it and returns its id.
    ///
    /// # Errors
    /// When the supervisor is not running, and when the child does not start.
    pub async fn add(&self, child: ChildSpec) -> Result<u64, SupervisorError> {
        let (sender, receiver) = oneshot::channel();
        let name = child.probe.name().to_string();
        self.send_command(SupervisorCommand::Add { spec: Box::new(child), reply: sender })?;
        match receiver.await {
            Ok(Ok(id)) => Ok(id),
            Ok(Err(reason)) => Err(SupervisorError::Start { child: name, reason }),
            Err(_) => Err(SupervisorError::NotRunning(self.handle.name().to_owned())),
        }
    }

    /// Stops a child for good.
    ///
    /// # Errors
    /// When the supervisor is not running.
    pub async fn remove(&self, id: u64) -> Result<(), SupervisorError> {
        let (sender, receiver) = oneshot::channel();
        self.send_command(SupervisorCommand::Remove { id, reply: sender })?;
        receiver.await.map_err(|_| SupervisorError::NotRunning(self.handle.name().to_owned()))
    }

    /// Whether the supervisor runs, and every actor of the tree.
    pub fn is_up(&self) -> bool {
        let children = self.children.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.actor.load().is_some() && children.iter().all(|child| child.is_up())
    }

    /// Reports every actor of the tree; empty when the supervisor is not running.
    pub fn report(&self) -> futures::future::BoxFuture<'_, Vec<ActorReport>> {
        Box::pin(async move {
            let (sender, receiver) = oneshot::channel();
            if self.send_command(SupervisorCommand::List { reply: sender }).is_err() {
                return Vec::new();
            }
            let rows = receiver.await.unwrap_or_default();
            futures::future::join_all(rows.into_iter().map(report_child)).await
        })
    }

    /// Kills the current incarnation of the actor `name`, anywhere in the tree, as a crash would. False when there is none.
    pub fn kill<'a>(&'a self, name: &'a str) -> futures::future::BoxFuture<'a, bool> {
        Box::pin(async move {
            let (sender, receiver) = oneshot::channel();
            if self.send_command(SupervisorCommand::List { reply: sender }).is_err() {
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

    /// Stops all children, last first, and then the supervisor. Each child has a share of `wait_limit` to handle its queued
    /// messages.
    pub async fn shutdown(&self, wait_limit: Duration) {
        if self.send_command(SupervisorCommand::Shutdown { wait_limit }).is_ok() {
            self.wait_until_ended().await;
        }
    }

    /// Waits for the end of the supervisor, and returns the reason.
    pub async fn wait_until_ended(&self) -> String {
        let mut ended = self.end_reason.subscribe();
        match ended.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => String::new(),
        }
    }

    pub(super) fn mark_up(&self, actor: ActorRef<SupervisorCommand>) {
        self.end_reason.send_replace(None);
        self.actor.store(Some(Arc::new(actor)));
    }

    pub(super) fn set_children(&self, children: Vec<Arc<dyn ChildProbe>>) {
        *self.children.lock().unwrap_or_else(PoisonError::into_inner) = children;
    }

    pub(super) fn is_incarnation(&self, actor: ActorId) -> bool {
        self.actor.load().as_ref().is_some_and(|current| current.get_id() == actor)
    }

    /// Takes this incarnation out of use, and gives all children `status`.
    fn mark_down(&self, status: ActorStatus) {
        self.actor.store(None);
        let children = self.children.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for child in children {
            child.mark_down(status);
        }
    }

    pub(super) fn mark_ended(&self, reason: &str, status: ActorStatus) {
        self.mark_down(status);
        self.end_reason.send_replace(Some(reason.to_owned()));
    }

    pub(super) fn probe(&self) -> Arc<dyn ChildProbe> {
        Arc::new(SubtreeProbe(self.clone()))
    }
}

async fn report_child(row: ChildEntry) -> ActorReport {
    let busy_ms = row
        .probe
        .running_handler()
        .map(|running| u64::try_from(running.since.elapsed().as_millis()).unwrap_or(u64::MAX));
    let children = match &row.subtree {
        Some(subtree) => subtree.report().await,
        None => Vec::new(),
    };
    ActorReport {
        name: row.probe.name().to_string(),
        kind: row.probe.kind(),
        status: row.probe.status(),
        restarts: row.restarts,
        mailbox: row.probe.mailbox_depth(),
        busy_ms,
        state: if row.subtree.is_some() { None } else { row.probe.observe().await },
        children,
    }
}

/// A supervisor as a child of its own supervisor.
struct SubtreeProbe(Supervisor);

impl ChildProbe for SubtreeProbe {
    fn name(&self) -> Arc<str> {
        self.0.handle.name().into()
    }
    fn kind(&self) -> &'static str {
        "supervisor"
    }
    fn status(&self) -> ActorStatus {
        if self.0.actor.load().is_some() { ActorStatus::Up } else { self.0.handle.status() }
    }
    fn is_up(&self) -> bool {
        self.0.is_up()
    }
    fn mark_down(&self, status: ActorStatus) {
        self.0.mark_down(status);
        ChildProbe::mark_down(&self.0.handle, status);
    }
    fn running_handler(&self) -> Option<RunningHandler> {
        None
    }
    fn mailbox_depth(&self) -> usize {
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
