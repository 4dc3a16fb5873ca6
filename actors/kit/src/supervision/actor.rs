//! The shell of a supervisor: performs the decisions of the restart policy.

use std::{collections::HashMap, sync::Arc, time::Duration};

use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use svc_otel::metrics;
use tokio::{sync::oneshot, time::Instant};

use super::{
    core::{ExitReason, RestartDecision, RestartPolicy},
    spec::{ChildSpec, SupervisorSpec},
    supervisor::Supervisor,
};
use crate::{
    actor::{ActorStatus, ChildProbe, RunningHandler},
    impl_actor_message,
};

/// Interval of the checks for stuck handlers.
const STUCK_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Messages of a supervisor.
pub(crate) enum SupervisorCommand {
    /// Starts these children, in order.
    Start { children: Vec<u64> },
    /// Kills the actors of stuck handlers.
    CheckStuckHandlers,
    /// Adds a child and starts it.
    Add { spec: Box<ChildSpec>, reply: oneshot::Sender<Result<u64, String>> },
    /// Stops a child for good.
    Remove { id: u64, reply: oneshot::Sender<()> },
    /// Lists the children.
    List { reply: oneshot::Sender<Vec<ChildEntry>> },
    /// Stops all children, last first, and then the supervisor.
    Shutdown { wait_limit: Duration },
}

impl_actor_message!(SupervisorCommand { Start, CheckStuckHandlers, Add, Remove, List, Shutdown });

pub(crate) struct ChildEntry {
    pub(super) probe: Arc<dyn ChildProbe>,
    pub(super) restarts: u32,
    pub(super) subtree: Option<Supervisor>,
}

/// Arguments of a supervisor.
pub(super) struct Args {
    pub(super) supervisor: Supervisor,
    pub(super) spec: SupervisorSpec,
    /// Whether the parent is a supervisor too. Such a parent decides about the children after the end of this supervisor.
    pub(super) is_subtree: bool,
}

pub(super) struct SupervisorActor;

struct SupervisedChild {
    id: u64,
    spec: ChildSpec,
    cell: Option<ActorCell>,
    restarts: u32,
    /// Time of the kill of a stuck handler. A handler that does not yield cannot be killed; its actor is abandoned later.
    killed_at: Option<Instant>,
}

pub(super) struct SupervisorState {
    supervisor: Supervisor,
    incarnation: ActorId,
    is_subtree: bool,
    policy: RestartPolicy,
    children: Vec<SupervisedChild>,
    child_by_actor: HashMap<ActorId, u64>,
    next_id: u64,
}

impl Actor for SupervisorActor {
    type Msg = SupervisorCommand;
    type State = SupervisorState;
    type Arguments = Args;

    async fn pre_start(
        &self,
        myself: ActorRef<SupervisorCommand>,
        Args { supervisor, spec, is_subtree }: Args,
    ) -> Result<SupervisorState, ActorProcessingErr> {
        let mut tree = SupervisorState {
            supervisor,
            incarnation: myself.get_id(),
            is_subtree,
            policy: RestartPolicy::new(spec.strategy, spec.intensity),
            children: Vec::new(),
            child_by_actor: HashMap::new(),
            next_id: 0,
        };
        // A restart begins without the children that were added to an earlier incarnation.
        tree.publish_children();
        for child in spec.children {
            let name = child.probe.name();
            let id = tree.add_child(child);
            tree.start_child(id, &myself).await.map_err(|reason| format!("{name} did not start: {reason}"))?;
        }
        tree.supervisor.mark_up(myself.clone());
        myself.send_interval(STUCK_CHECK_INTERVAL, || SupervisorCommand::CheckStuckHandlers);
        Ok(tree)
    }

    async fn handle(
        &self,
        myself: ActorRef<SupervisorCommand>,
        command: SupervisorCommand,
        tree: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match command {
            SupervisorCommand::Start { children } => {
                for id in children {
                    if tree.child_mut(id).is_none_or(|child| child.cell.is_some()) {
                        continue;
                    }
                    if let Err(reason) = tree.start_child(id, &myself).await {
                        tree.handle_child_exit(id, ExitReason::Failed, &reason, &myself)?;
                        break;
                    }
                }
            }
            SupervisorCommand::CheckStuckHandlers => tree.kill_stuck_children(&myself)?,
            SupervisorCommand::Add { spec, reply } => {
                let id = tree.add_child(*spec);
                let outcome = tree.start_child(id, &myself).await;
                if outcome.is_err() {
                    tree.remove_child(id);
                }
                let _ = reply.send(outcome.map(|()| id));
            }
            SupervisorCommand::Remove { id, reply } => {
                tree.stop_child(id, ActorStatus::Stopped);
                tree.remove_child(id);
                let _ = reply.send(());
            }
            SupervisorCommand::List { reply } => {
                let rows = tree.children.iter().map(|child| ChildEntry {
                    probe: Arc::clone(&child.spec.probe),
                    restarts: child.restarts,
                    subtree: child.spec.subtree.clone(),
                });
                let _ = reply.send(rows.collect());
            }
            SupervisorCommand::Shutdown { wait_limit } => tree.shutdown(wait_limit, &myself),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<SupervisorCommand>,
        event: SupervisionEvent,
        tree: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        let (cell, exit, reason) = match event {
            SupervisionEvent::ActorTerminated(cell, _, reason) => {
                let reason = reason.unwrap_or_default();
                let is_failure = matches!(reason.as_str(), "killed" | "actor_task_cancelled");
                (cell, if is_failure { ExitReason::Failed } else { ExitReason::Normal }, reason)
            }
            SupervisionEvent::ActorFailed(cell, error) => (cell, ExitReason::Failed, error.to_string()),
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {
                return Ok(());
            }
        };
        // The supervisor removes a child from the map before it stops the child itself.
        match tree.child_by_actor.remove(&cell.get_id()) {
            Some(id) => tree.handle_child_exit(id, exit, &reason, &myself),
            None => Ok(()),
        }
    }

    async fn post_stop(
        &self,
        _: ActorRef<SupervisorCommand>,
        tree: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        tree.mark_ended("stopped");
        Ok(())
    }
}

impl SupervisorState {
    fn child_mut(&mut self, id: u64) -> Option<&mut SupervisedChild> {
        self.children.iter_mut().find(|child| child.id == id)
    }

    fn add_child(&mut self, spec: ChildSpec) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.policy.add(id, spec.restart_mode, spec.backoff);
        self.children.push(SupervisedChild { id, spec, cell: None, restarts: 0, killed_at: None });
        self.publish_children();
        id
    }

    fn remove_child(&mut self, id: u64) {
        self.policy.remove(id);
        self.children.retain(|child| child.id != id);
        self.publish_children();
    }

    fn publish_children(&self) {
        self.supervisor.set_children(self.children.iter().map(|child| Arc::clone(&child.spec.probe)).collect());
    }

    async fn start_child(&mut self, id: u64, myself: &ActorRef<SupervisorCommand>) -> Result<(), String> {
        let Some(child) = self.child_mut(id) else {
            return Ok(());
        };
        let start = Arc::clone(&child.spec.start);
        let cell = start(myself.get_cell()).await?;
        let actor = cell.get_id();
        if let Some(child) = self.child_mut(id) {
            child.cell = Some(cell);
            child.killed_at = None;
        }
        self.child_by_actor.insert(actor, id);
        self.policy.record_start(id, Instant::now());
        Ok(())
    }

    /// Stops a child; its exit does not count as a failure.
    fn stop_child(&mut self, id: u64, status: ActorStatus) {
        let Some(child) = self.child_mut(id) else {
            return;
        };
        child.spec.probe.mark_down(status);
        if let Some(cell) = child.cell.take() {
            cell.kill();
            self.child_by_actor.remove(&cell.get_id());
        }
    }

    fn handle_child_exit(
        &mut self,
        id: u64,
        exit: ExitReason,
        reason: &str,
        myself: &ActorRef<SupervisorCommand>,
    ) -> Result<(), ActorProcessingErr> {
        let Some(child) = self.child_mut(id) else {
            return Ok(());
        };
        let (name, kind) = (child.spec.probe.name(), child.spec.probe.kind());
        let cause = if child.killed_at.is_some() { "stuck" } else { restart_cause(reason) };
        child.cell = None;
        match self.policy.decide_on_exit(id, exit, Instant::now(), fastrand::f64()) {
            RestartDecision::Forget => {
                if let Some(child) = self.child_mut(id) {
                    child.spec.probe.mark_down(ActorStatus::Stopped);
                }
                self.remove_child(id);
                tracing::info!(actor = %name, reason, "actor has ended");
            }
            RestartDecision::Restart { delay, children } => {
                for child in children.iter().rev() {
                    self.stop_child(*child, ActorStatus::Restarting);
                    if let Some(child) = self.child_mut(*child) {
                        child.restarts += 1;
                    }
                }
                metrics::record_actor_restart(kind, cause);
                tracing::warn!(actor = %name, cause, reason, delay_ms = delay.as_millis() as i64, "actor is restarted");
                myself.send_after(delay, move || SupervisorCommand::Start { children });
            }
            RestartDecision::Escalate => {
                tracing::error!(actor = %name, cause, reason, "too many restarts, the supervisor gives up");
                let end_reason = format!("{name} kept failing: {reason}");
                self.mark_ended(&end_reason);
                return Err(end_reason.into());
            }
        }
        Ok(())
    }

    fn kill_stuck_children(&mut self, myself: &ActorRef<SupervisorCommand>) -> Result<(), ActorProcessingErr> {
        let now = Instant::now();
        let mut abandoned = Vec::new();
        for child in &mut self.children {
            let Some(RunningHandler { since, message }) = child.spec.probe.running_handler() else {
                continue;
            };
            if now.duration_since(since) < child.spec.stuck_after {
                continue;
            }
            match child.killed_at {
                None => {
                    tracing::error!(actor = %child.spec.probe.name(), message, "handler is stuck, the actor is killed");
                    child.killed_at = Some(now);
                    child.spec.probe.kill();
                }
                Some(killed) if now.duration_since(killed) >= child.spec.stuck_after => abandoned.push(child.id),
                Some(_) => {}
            }
        }
        for id in abandoned {
            if let Some(cell) = self.child_mut(id).and_then(|child| child.cell.take()) {
                self.child_by_actor.remove(&cell.get_id());
                cell.unlink(myself.get_cell());
            }
            self.handle_child_exit(
                id,
                ExitReason::Failed,
                "the handler does not yield; the actor is abandoned",
                myself,
            )?;
        }
        Ok(())
    }

    fn shutdown(&mut self, wait_limit: Duration, myself: &ActorRef<SupervisorCommand>) {
        let share = wait_limit / u32::try_from(self.children.len().max(1)).unwrap_or(u32::MAX);
        let children: Vec<_> = self.children.drain(..).rev().collect();
        self.child_by_actor.clear();
        self.publish_children();
        let myself = myself.clone();
        // A task waits, since a handler must not. The supervisor stays alive meanwhile: its end would kill the children.
        tokio::spawn(async move {
            for child in children {
                if let Some(subtree) = &child.spec.subtree {
                    subtree.shutdown(share).await;
                } else if let Some(cell) = &child.cell {
                    let _ = cell.drain();
                    if cell.wait(Some(share)).await.is_err() {
                        cell.kill();
                    }
                }
                child.spec.probe.mark_down(ActorStatus::Stopped);
            }
            myself.stop(None);
        });
    }

    fn mark_ended(&mut self, reason: &str) {
        let status = if self.is_subtree { ActorStatus::Restarting } else { ActorStatus::Stopped };
        self.supervisor.mark_ended(reason, status);
    }
}

impl Drop for SupervisorState {
    /// A kill, by the end of the parent for instance, skips `post_stop`.
    fn drop(&mut self) {
        if self.supervisor.is_incarnation(self.incarnation) {
            self.mark_ended("killed");
        }
    }
}

fn restart_cause(reason: &str) -> &'static str {
    match reason {
        "killed" | "actor_task_cancelled" => "killed",
        "" | "Drained" => "exit",
        _ => "failure",
    }
}
