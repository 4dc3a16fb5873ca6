//! Child specifications.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use ractor::{Actor, ActorCell};

use super::{
    address::Supervisor,
    core::{Intensity, Restart, Strategy},
};
use crate::{
    actor::{Behaviour, Handle, Probe, shell::Shell},
    backoff::Backoff,
};

type Start = dyn Fn(ActorCell) -> BoxFuture<'static, Result<ActorCell, String>> + Send + Sync;

/// How long a handler may run before its actor is taken for stuck. Handlers never wait for the network, so seconds are ages.
const STUCK_AFTER: Duration = Duration::from_secs(20);

/// One child: how it is started, when it is started again.
pub struct ChildSpec {
    pub(super) probe: Arc<dyn Probe>,
    pub(super) restart: Restart,
    pub(super) backoff: Backoff,
    pub(super) stuck_after: Duration,
    pub(super) start: Arc<Start>,
    pub(super) subtree: Option<Supervisor>,
}

impl ChildSpec {
    /// A permanent worker behind `handle`, made from `args` each time it starts.
    pub fn worker<B: Behaviour>(handle: &Handle<B::Msg>, args: B::Args) -> Self {
        let (slot, args) = (handle.clone(), Arc::new(args));
        let start = move |supervisor: ActorCell| -> BoxFuture<'static, Result<ActorCell, String>> {
            let arguments = (slot.clone(), Arc::clone(&args));
            Box::pin(async move {
                Actor::spawn_linked(None, Shell::<B>::new(), arguments, supervisor)
                    .await
                    .map(|(actor, _)| actor.get_cell())
                    .map_err(|error| error.to_string())
            })
        };
        Self {
            probe: Arc::new(handle.clone()),
            restart: Restart::Permanent,
            backoff: Backoff::RESTART,
            stuck_after: STUCK_AFTER,
            start: Arc::new(start),
            subtree: None,
        }
    }

    /// A permanent supervisor behind `supervisor`, whose children are described anew each time it starts.
    pub fn supervisor(supervisor: &Supervisor, describe: impl Fn() -> SupervisorSpec + Send + Sync + 'static) -> Self {
        let handle = supervisor.clone();
        let describe = Arc::new(describe);
        let start = move |parent: ActorCell| -> BoxFuture<'static, Result<ActorCell, String>> {
            let (handle, describe) = (handle.clone(), Arc::clone(&describe));
            Box::pin(async move { handle.start_linked(describe(), parent).await.map_err(|error| error.to_string()) })
        };
        Self {
            probe: supervisor.probe(),
            restart: Restart::Permanent,
            backoff: Backoff::RESTART,
            stuck_after: STUCK_AFTER,
            start: Arc::new(start),
            subtree: Some(supervisor.clone()),
        }
    }

    /// Sets when the child is started again.
    #[must_use]
    pub fn restart(mut self, restart: Restart) -> Self {
        self.restart = restart;
        self
    }

    /// Sets the delays between restarts.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets how long a handler may run.
    #[must_use]
    pub fn stuck_after(mut self, limit: Duration) -> Self {
        self.stuck_after = limit;
        self
    }
}

/// A supervisor: its children in start order and its rules.
pub struct SupervisorSpec {
    /// Who is restarted with a failed child.
    pub strategy: Strategy,
    /// How many restarts are normal.
    pub intensity: Intensity,
    /// Children in start order; they are stopped in reverse.
    pub children: Vec<ChildSpec>,
}

impl SupervisorSpec {
    /// One-for-one with the usual intensity: ten restarts in ten seconds.
    pub fn one_for_one(children: Vec<ChildSpec>) -> Self {
        Self {
            strategy: Strategy::OneForOne,
            intensity: Intensity { restarts: 10, within: Duration::from_secs(10) },
            children,
        }
    }
}
