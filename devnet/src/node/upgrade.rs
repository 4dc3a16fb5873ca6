//! Upgrades of a node. As a real one it halts before the first block of the later release: its process ends, an operator exchanges the
//! program, and the chain goes on from the same state and height.

use std::{
    sync::{
        Arc, TryLockError,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
};

use svc_ledger::UpgradePlan;
use svc_wire::proto_registry::NodeGeneration;
use tokio::sync::watch;

use super::{
    Node, NodeError, NodeProcess,
    shared::{SharedChain, lock},
};

impl Node {
    /// Plans an upgrade, as governance does on a chain. Before the block of the height the node halts, with its servers, and goes on as
    /// the later generation after the pause of its configuration. A home keeps the plan. A plan that is still to come is replaced.
    ///
    /// # Errors
    /// When the chain has the height already, or cannot become that generation.
    pub fn plan_upgrade(&self, generation: NodeGeneration, height: u64) -> Result<(), NodeError> {
        self.change_upgrades(|shared| Ok(shared.core().plan_upgrade(UpgradePlan { generation, height })?))
    }

    /// Goes on as a node of another generation from the next block on, without a plan and a halt. Stop the node before, and start it
    /// again: a node is replaced without a connection to it. A plan that is still to come is dropped.
    ///
    /// # Errors
    /// When the descriptors of the generation cannot be used.
    pub fn upgrade(&self, generation: NodeGeneration) -> Result<(), NodeError> {
        self.change_upgrades(|shared| Ok(shared.core().upgrade_in_place(generation)?))
    }

    /// Returns a receiver of the upgrade for which the node is halted; `None` while the chain goes on.
    pub fn watch_halts(&self) -> watch::Receiver<Option<UpgradePlan>> {
        self.0.shared.halt.subscribe()
    }

    /// Waits until the chain goes on, if it is halted for an upgrade.
    pub(crate) async fn await_upgrade(&self) {
        // Fails if the node is gone, and then there is nothing to wait for.
        let _ = self.watch_halts().wait_for(Option::is_none).await;
    }

    fn change_upgrades(&self, change: impl FnOnce(&SharedChain) -> Result<(), NodeError>) -> Result<(), NodeError> {
        let shared = &self.0.shared;
        change(shared)?;
        let upgrades = shared.core().chain.upgrades.clone();
        if let Some(store) = &*lock(&shared.store) {
            store.write_upgrades(&upgrades)?;
        }
        Ok(())
    }
}

impl NodeProcess {
    /// Halts for an upgrade: ends the process of the node, and starts it again after the pause as the later generation. A node that was
    /// stopped stays so until it is started.
    pub(super) fn halt(self: &Arc<Self>, plan: UpgradePlan) {
        // A held lock means that the node is being stopped or started; its next block finds the need again.
        let is_running = match self.runtime.try_lock() {
            Ok(runtime) => runtime.is_some(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().is_some(),
            Err(TryLockError::WouldBlock) => false,
        };
        if !is_running {
            return;
        }
        let cancelled = {
            let mut pending = lock(&self.pending_start);
            if pending.is_some() {
                return;
            }
            let (start, cancelled) = mpsc::sync_channel(1);
            *pending = Some(start);
            self.shared.halt.send_replace(Some(plan));
            cancelled
        };
        let (name, height, pause) = (plan.name(), plan.height, self.upgrade_pause);
        tracing::warn!(
            component = "devnet.node",
            plan = name,
            height,
            pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
            "UPGRADE {name:?} NEEDED at height: {height}: the chain halts"
        );
        // The runtime of the node ends here, so that the pause needs a thread of its own.
        let process = Arc::downgrade(self);
        let spawned = thread::Builder::new().name("devnet-upgrade".to_owned()).spawn(move || {
            if process.upgrade().is_some_and(|process| !process.end_halted(&cancelled)) {
                return;
            }
            let is_due = cancelled.recv_timeout(pause) == Err(RecvTimeoutError::Timeout);
            if let Some(process) = process.upgrade().filter(|_| is_due)
                && let Err(error) = process.start()
            {
                tracing::error!(component = "devnet.node", %error, "the node cannot start after its upgrade: the chain stays halted");
            }
        });
        if let Err(error) = spawned {
            tracing::error!(component = "devnet.node", %error, "the node cannot be exchanged: the chain stays halted");
        }
    }

    /// Exchanges the program of a node that is about to start, if its next block needs a later one.
    pub(super) fn exchange_program(&self) -> Result<(), NodeError> {
        let mut core = self.shared.core();
        if let Some(plan) = core.exchange_program()? {
            let (name, version) = (plan.name(), core.application_version());
            tracing::info!(
                component = "devnet.node",
                plan = name,
                height = plan.height,
                version,
                "the chain goes on as generation {}",
                plan.generation
            );
        }
        Ok(())
    }
}
