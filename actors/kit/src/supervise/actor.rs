//! The supervisor itself: performs what the policy decides.

use std::{collections::HashMap, sync::Arc, time::Duration};

use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use svc_otel::metrics;
use tokio::{sync::oneshot, time::Instant};

use super::{
    address::Supervisor,
    core::{Decision, Exit, Policy},
    spec::{ChildSpec, SupervisorSpec},
};
use crate::actor::{Intent, Probe, Standing};

/// How often handlers are checked.
const PATROL: Duration = Duration::from_millis(250);

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
    pub(super) probe: Arc<dyn Probe>,
    pub(super) restarts: u32,
    pub(super) subtree: Option<Supervisor>,
}

pub(super) struct Overseer;

struct Member {
    id: u64,
    spec: ChildSpec,
    cell: Option<ActorCell>,
    restarts: u32,
    /// Killed as stuck at this time; a handler that does not yield cannot be killed and is abandoned in the end.
    condemned: Option<Instant>,
}

pub(super) struct Tree {
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
        tree.supervisor.up(myself.clone());
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
        self.supervisor.over(why);
    }
}

fn restart_cause(reason: &str) -> &'static str {
    match reason {
        "killed" | "actor_task_cancelled" => "killed",
        "" | "Drained" => "exit",
        _ => "failure",
    }
}
