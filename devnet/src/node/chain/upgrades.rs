//! The chain at its upgrades: the node halts before the first block of another release, until its program is exchanged.

use svc_ledger::{UpgradePlan, UpgradePlanError};
use svc_wire::proto_registry::{NodeGeneration, ProtoRegistryError};

use super::core::NodeCore;

impl NodeCore {
    /// Plans an upgrade: the chain halts before the block of its height.
    pub(in crate::node) fn plan_upgrade(&mut self, plan: UpgradePlan) -> Result<(), UpgradePlanError> {
        self.chain.upgrades.plan(plan, self.genesis.chain.generation, self.height())
    }

    /// Goes on as a node of another generation, whose first block is the next one.
    pub(in crate::node) fn upgrade_in_place(&mut self, generation: NodeGeneration) -> Result<(), ProtoRegistryError> {
        self.chain.become_generation(generation)?;
        // The state of a replica is that of its leader's blocks.
        if !self.is_replica {
            self.chain.upgrades.set(UpgradePlan { generation, height: self.height() + 1 });
        }
        Ok(())
    }

    /// The upgrade without which the next block cannot be made.
    pub(in crate::node) fn needed_upgrade(&self) -> Option<UpgradePlan> {
        self.chain.upgrades.needed(self.chain.generation, self.height() + 1)
    }

    /// Exchanges the program if the next block needs another one; returns the upgrade. Its process has lost the mempool.
    pub(in crate::node) fn exchange_program(&mut self) -> Result<Option<UpgradePlan>, ProtoRegistryError> {
        let Some(plan) = self.needed_upgrade() else { return Ok(None) };
        self.chain.become_generation(plan.generation)?;
        self.clear_mempool();
        Ok(Some(plan))
    }

    /// Becomes the generation of the next block, if it is the first one of an upgrade: for blocks that were made before.
    pub(super) fn follow_upgrade(&mut self) -> Result<(), ProtoRegistryError> {
        match self.chain.upgrades.at(self.height() + 1) {
            Some(plan) if plan.generation != self.chain.generation => self.chain.become_generation(plan.generation),
            _ => Ok(()),
        }
    }

    /// Becomes the generation of the newest block again, after the chain was taken back.
    pub(super) fn become_generation_of_newest(&mut self) -> Result<(), ProtoRegistryError> {
        let wanted = self.chain.upgrades.generation_at(self.genesis.chain.generation, self.height());
        if wanted == self.chain.generation { Ok(()) } else { self.chain.become_generation(wanted) }
    }
}
