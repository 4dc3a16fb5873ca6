//! Specifications of children and supervisors.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use ractor::{Actor, ActorCell};

use super::{
    core::{RestartIntensity, RestartMode, RestartStrategy},
    supervisor::Supervisor,
};
use crate::{
    actor::{ActorBehaviour, ChildProbe, Handle, shell::ActorShell},
    backoff::Backoff,
};

type ChildStarter = dyn Fn(ActorCell) -> BoxFuture<'static, Result<ActorCell, String>> + Send + Sync;

/// Run time after which a handler counts as stuck. Handlers do not wait for the network, so seconds are plenty.
const STUCK_AFTER: Duration = Duration::from_secs(20);

/// One child: its start, and its rules of restart.
pub struct ChildSpec {
    pub(super) probe: Arc<dyn ChildProbe>,
    pub(super) restart_mode: RestartMode,
    pub(super) backoff: Backoff,
    pub(super) stuck_after: Duration,
    pub(super) start: Arc<ChildStarter>,
    pub(super) subtree: Option<Supervisor>,
}

impl ChildSpec {
    /// Describes a permanent actor behind `handle`; every incarnation starts with `args`.
    pub fn worker<B: ActorBehaviour>(handle: &Handle<B::Msg>, args: B::Args) -> Self {
        let (slot, args) = (handle.clone(), Arc::new(args));
        let start = move |supervisor: ActorCell| -> BoxFuture<'static, Result<ActorCell, String>> {
            let arguments = (slot.clone(), Arc::clone(&args));
            Box::pin(async move {
                Actor::spawn_linked(None, ActorShell::<B>::new(), arguments, supervisor)
                    .await
                    .map(|(actor, _)| actor.get_cell())
                    .map_err(|error| error.to_string())
            })
        };
        Self {
            probe: Arc::new(handle.clone()),
            restart_mode: RestartMode::Permanent,
            backoff: Backoff::RESTART,
            stuck_after: STUCK_AFTER,
            start: Arc::new(start),
            subtree: None,
        }
    }

    /// Describes a permanent supervisor behind `supervisor`; every start calls `describe` for its children.
    pub fn supervisor(supervisor: &Supervisor, describe: impl Fn() -> SupervisorSpec + Send + Sync + 'static) -> Self {
        let handle = supervisor.clone();
        let describe = Arc::new(describe);
        let start = move |parent: ActorCell| -> BoxFuture<'static, Result<ActorCell, String>> {
            let (handle, describe) = (handle.clone(), Arc::clone(&describe));
            Box::pin(async move { handle.start_subtree(describe(), parent).await.map_err(|error| error.to_string()) })
        };
        Self {
            probe: supervisor.probe(),
            restart_mode: RestartMode::Permanent,
            backoff: Backoff::RESTART,
            stuck_after: STUCK_AFTER,
            start: Arc::new(start),
            subtree: Some(supervisor.clone()),
        }
    }

    /// Sets the exits after which the child is restarted.
    #[must_use]
    pub fn restart_mode(mut self, restart: RestartMode) -> Self {
        self.restart_mode = restart;
        self
    }

    /// Sets the delays between restarts.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets the run time after which a handler counts as stuck.
    #[must_use]
    pub fn stuck_after(mut self, limit: Duration) -> Self {
        self.stuck_after = limit;
        self
    }
}

/// A supervisor: its children and its rules.
pub struct SupervisorSpec {
    /// Children that are restarted together with a failed child.
    pub strategy: RestartStrategy,
    /// Bound of the restarts.
    pub intensity: RestartIntensity,
    /// Children in start order; they are stopped in reverse.
    pub children: Vec<ChildSpec>,
}

impl SupervisorSpec {
    /// Describes a one-for-one supervisor that allows ten restarts in ten seconds.
    pub fn one_for_one(children: Vec<ChildSpec>) -> Self {
        Self {
            strategy: RestartStrategy::OneForOne,
            intensity: RestartIntensity { max_restarts: 10, period: Duration::from_secs(10) },
            children,
        }
    }
}
