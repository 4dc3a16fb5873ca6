//! The supervisor itself: performs what the policy decides.

use std::{collections::HashMap, sync::Arc, time::Duration};

use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use serde::Serialize;
use svc_otel::metrics;
use tokio::{
    sync::{oneshot, watch},
    time::Instant,
};

use super::{
    core::{Decision, Exit, Policy},
    spec::{ChildSpec, SupervisorSpec},
};
use crate::actor::{Handle, Intent, Probe, Standing};

/// What a supervisor can be told.
pub(crate) enum Order {
    /// Start these children, in order.
    Start(Vec<u64>),
    /// Look for stuck handlers.
    Patrol,
    /// Add a child and start it.
    Add(Box<ChildSpec>, oneshot::Sender<Result<u64, String>>),
    /// Stop a child for good.
    Remove(u64, oneshot::Sender<()>),
    /// List the children.
    List(oneshot::Sender<Vec<Row>>),
    /// Stop all children, last first, then stop.
    Shutdown(Duration),
}

impl Intent for Order {
    fn name(&self) -> &'static str {
        "order"
    }
}

pub(crate) struct Row {
    probe: Arc<dyn Probe>,
    restarts: u32,
    subtree: Option<Supervisor>,
}

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

/// How often handlers are checked.
const PATROL: Duration = Duration::from_millis(250);

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

struct Overseer;

struct Member {
    id: u64,
    spec: ChildSpec,
    cell: Option<ActorCell>,
    restarts: u32,
    /// Killed as stuck at this time; a handler that does not yield cannot be killed and is abandoned in the end.
    condemned: Option<Instant>,
}

struct Tree {
    supervisor: Supervisor,
    policy: Policy,
    members: Vec<Member>,
    by_actor: HashMap<ActorId, u64>,
    next_id: u64,
}

impl Actor for Overseer {
    type Msg = Order;
    type State = Tree;
    type Arguments = (Supervisor, SupervisorSpec);

    async fn pre_start(
        &self,
        myself: ActorRef<Order>,
        (supervisor, spec): Self::Arguments,
    ) -> Result<Tree, ActorProcessingErr> {
        let mut tree = Tree {
            supervisor,
            policy: Policy::new(spec.strategy, spec.intensity),
            members: Vec::new(),
            by_actor: HashMap::new(),
            next_id: 0,
        };
        for child in spec.children {
            let name = child.probe.name();
            let id = tree.admit(child);
            tree.launch(id, &myself).await.map_err(|reason| format!("{name} did not start: {reason}"))?;
        }
        tree.supervisor.actor.store(Some(Arc::new(myself.clone())));
        myself.send_interval(PATROL, || Order::Patrol);
        Ok(tree)
    }

    async fn handle(&self, myself: ActorRef<Order>, order: Order, tree: &mut Tree) -> Result<(), ActorProcessingErr> {
        match order {
            Order::Start(ids) => {
                for id in ids {
                    if tree.member(id).is_none_or(|member| member.cell.is_some()) {
                        continue;
                    }
                    if let Err(reason) = tree.launch(id, &myself).await {
                        tree.child_ended(id, Exit::Failed, &reason, &myself)?;
                        break;
                    }
                }
            }
            Order::Patrol => tree.patrol(&myself)?,
            Order::Add(spec, reply) => {
                let id = tree.admit(*spec);
                let outcome = tree.launch(id, &myself).await;
                if outcome.is_err() {
                    tree.forget(id);
                }
                let _ = reply.send(outcome.map(|()| id));
            }
            Order::Remove(id, reply) => {
                tree.halt(id, Standing::Stopped);
                tree.forget(id);
                let _ = reply.send(());
            }
            Order::List(reply) => {
                let rows = tree.members.iter().map(|member| Row {
                    probe: Arc::clone(&member.spec.probe),
                    restarts: member.restarts,
                    subtree: member.spec.subtree.clone(),
                });
                let _ = reply.send(rows.collect());
            }
            Order::Shutdown(patience) => tree.shutdown(patience, &myself),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Order>,
        event: SupervisionEvent,
        tree: &mut Tree,
    ) -> Result<(), ActorProcessingErr> {
        let (cell, exit, reason) = match event {
            SupervisionEvent::ActorTerminated(cell, _, reason) => {
                let reason = reason.unwrap_or_default();
                let is_failure = matches!(reason.as_str(), "killed" | "actor_task_cancelled");
                (cell, if is_failure { Exit::Failed } else { Exit::Normal }, reason)
            }
            SupervisionEvent::ActorFailed(cell, error) => (cell, Exit::Failed, error.to_string()),
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {
                return Ok(());
            }
        };
        // Exits this supervisor caused itself were taken off the map before.
        match tree.by_actor.remove(&cell.get_id()) {
            Some(id) => tree.child_ended(id, exit, &reason, &myself),
            None => Ok(()),
        }
    }

    async fn post_stop(&self, _: ActorRef<Order>, tree: &mut Tree) -> Result<(), ActorProcessingErr> {
        tree.ended("stopped");
        Ok(())
    }
}

impl Tree {
    fn member(&mut self, id: u64) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.id == id)
    }

    fn admit(&mut self, spec: ChildSpec) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.policy.add(id, spec.restart, spec.backoff);
        self.members.push(Member { id, spec, cell: None, restarts: 0, condemned: None });
        id
    }

    fn forget(&mut self, id: u64) {
        self.policy.remove(id);
        self.members.retain(|member| member.id != id);
    }

    async fn launch(&mut self, id: u64, myself: &ActorRef<Order>) -> Result<(), String> {
        let Some(member) = self.member(id) else {
            return Ok(());
        };
        let start = Arc::clone(&member.spec.start);
        let cell = start(myself.get_cell()).await?;
        let actor = cell.get_id();
        if let Some(member) = self.member(id) {
            member.cell = Some(cell);
            member.condemned = None;
        }
        self.by_actor.insert(actor, id);
        self.policy.started(id, Instant::now());
        Ok(())
    }

    /// Ends a child on this supervisor's own account, so that its exit is not taken for a failure.
    fn halt(&mut self, id: u64, standing: Standing) {
        let Some(member) = self.member(id) else {
            return;
        };
        member.spec.probe.vacate(standing);
        if let Some(cell) = member.cell.take() {
            cell.kill();
            self.by_actor.remove(&cell.get_id());
        }
    }

    fn child_ended(
        &mut self,
        id: u64,
        exit: Exit,
        reason: &str,
        myself: &ActorRef<Order>,
    ) -> Result<(), ActorProcessingErr> {
        let Some(member) = self.member(id) else {
            return Ok(());
        };
        let (name, kind) = (member.spec.probe.name(), member.spec.probe.kind());
        let cause = if member.condemned.is_some() { "stuck" } else { restart_cause(reason) };
        member.cell = None;
        match self.policy.exited(id, exit, Instant::now(), fastrand::f64()) {
            Decision::Forget => {
                if let Some(member) = self.member(id) {
                    member.spec.probe.vacate(Standing::Stopped);
                }
                self.members.retain(|member| member.id != id);
                tracing::info!(actor = %name, reason, "actor has ended");
            }
            Decision::Restart { delay, children } => {
                for child in children.iter().rev() {
                    self.halt(*child, Standing::Restarting);
                    if let Some(member) = self.member(*child) {
                        member.restarts += 1;
                    }
                }
                metrics::actor_restart(kind, cause);
                tracing::warn!(actor = %name, cause, reason, delay_ms = delay.as_millis() as i64, "actor is restarted");
                myself.send_after(delay, move || Order::Start(children));
            }
            Decision::Escalate => {
                tracing::error!(actor = %name, cause, reason, "too many restarts, the supervisor gives up");
                let why = format!("{name} kept failing: {reason}");
                self.ended(&why);
                return Err(why.into());
            }
        }
        Ok(())
    }

    fn patrol(&mut self, myself: &ActorRef<Order>) -> Result<(), ActorProcessingErr> {
        let now = Instant::now();
        let mut abandoned = Vec::new();
        for member in &mut self.members {
            let Some((since, message)) = member.spec.probe.busy() else {
                continue;
            };
            if now.duration_since(since) < member.spec.stuck_after {
                continue;
            }
            match member.condemned {
                None => {
                    tracing::error!(actor = %member.spec.probe.name(), message, "handler is stuck, the actor is killed");
                    member.condemned = Some(now);
                    member.spec.probe.kill();
                }
                Some(killed) if now.duration_since(killed) >= member.spec.stuck_after => abandoned.push(member.id),
                Some(_) => {}
            }
        }
        for id in abandoned {
            if let Some(cell) = self.member(id).and_then(|member| member.cell.take()) {
                self.by_actor.remove(&cell.get_id());
                cell.unlink(myself.get_cell());
            }
            self.child_ended(id, Exit::Failed, "the handler does not yield; the actor is abandoned", myself)?;
        }
        Ok(())
    }

    fn shutdown(&mut self, patience: Duration, myself: &ActorRef<Order>) {
        let share = patience / u32::try_from(self.members.len().max(1)).unwrap_or(u32::MAX);
        let members: Vec<_> = self.members.drain(..).rev().collect();
        self.by_actor.clear();
        let myself = myself.clone();
        // A task, so that this handler does not wait; the supervisor stays alive, since its end would kill the children.
        tokio::spawn(async move {
            for member in members {
                if let Some(subtree) = &member.spec.subtree {
                    subtree.shutdown(share).await;
                } else if let Some(cell) = &member.cell {
                    let _ = cell.drain();
                    if cell.wait(Some(share)).await.is_err() {
                        cell.kill();
                    }
                }
                member.spec.probe.vacate(Standing::Stopped);
            }
            myself.stop(None);
        });
    }

    fn ended(&mut self, why: &str) {
        for member in &self.members {
            member.spec.probe.vacate(Standing::Stopped);
        }
        self.supervisor.actor.store(None);
        self.supervisor.ended.send_replace(Some(why.to_owned()));
    }
}

fn restart_cause(reason: &str) -> &'static str {
    match reason {
        "killed" | "actor_task_cancelled" => "killed",
        "" | "Drained" => "exit",
        _ => "failure",
    }
}
