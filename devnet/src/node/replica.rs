//! A replica: another full node of the same chain. It applies the blocks of its leader; transactions are gossiped both ways.
//!
//! Lock order: the chain of the replica, then the chain of its leader.

use std::sync::{Arc, Weak};

use svc_ledger::UpgradePlan;

use super::{
    chain::{NodeCore, ReplayError},
    shared::{SharedChain, lock},
};

/// Result of an attempt to follow the leader.
pub(super) enum FollowOutcome {
    /// A block was applied.
    Applied,
    /// There is no block to apply.
    NothingNew,
    /// The leader has halted for an upgrade, or has gone on after it, and this node has the program of before.
    UpgradeNeeded(UpgradePlan),
}

impl SharedChain {
    /// Runs `run`, and offers the transactions that it adds to the mempool to the other nodes.
    pub(super) fn run_and_gossip<R>(&self, run: impl FnOnce(&mut NodeCore) -> R) -> R {
        let (result, accepted) = {
            let mut core = self.core();
            let result = run(&mut core);
            (result, core.take_gossip())
        };
        if !accepted.is_empty() {
            let mut peers: Vec<Arc<Self>> = self.leader.iter().cloned().collect();
            let mut replicas = lock(&self.replicas);
            replicas.retain(|replica| replica.strong_count() > 0);
            peers.extend(replicas.iter().filter_map(Weak::upgrade));
            drop(replicas);
            for peer in peers {
                peer.receive_gossip(&accepted);
            }
        }
        result
    }

    /// Applies all blocks of the leader before the node is started, with the program of each.
    pub(super) fn catch_up(&self, leader: &Self) -> Result<(), ReplayError> {
        loop {
            match self.follow_next_block(leader)? {
                FollowOutcome::Applied => {}
                FollowOutcome::NothingNew => return Ok(()),
                FollowOutcome::UpgradeNeeded(_) => {
                    self.core().exchange_program()?;
                }
            }
        }
    }

    /// Checks transactions that another node has accepted. A refusal is ignored; it also stops the return to the sender.
    pub(super) fn receive_gossip(&self, txs: &[Vec<u8>]) {
        self.run_and_gossip(|core| {
            for bytes in txs {
                core.check_tx(bytes.clone());
            }
        });
    }

    /// Applies the next block of the leader, unless the ordered lag holds it back or it needs an upgrade.
    pub(super) fn follow_next_block(&self, leader: &Self) -> Result<FollowOutcome, ReplayError> {
        let mut core = self.core();
        let next = {
            let leading = leader.core();
            core.chain.upgrades.clone_from(&leading.chain.upgrades);
            let due = leading.height().saturating_sub(core.faults.lag_blocks);
            let is_same_chain = core
                .latest()
                .is_none_or(|mine| leading.block(mine.height).is_some_and(|theirs| theirs.hash == mine.hash));
            if !is_same_chain {
                // The leader was reset to a snapshot: subscribers see the height fall.
                core.reset_to_genesis()?;
                for block in leading.blocks().iter().filter(|block| block.height <= due) {
                    core.apply_block(block)?;
                }
                self.height.send_replace(core.height());
            }
            let is_reached = |plan: &UpgradePlan| leader.halt.borrow().is_some() || leading.height() >= plan.height;
            if let Some(plan) = core.needed_upgrade().filter(is_reached) {
                return Ok(FollowOutcome::UpgradeNeeded(plan));
            }
            leading.block(core.height() + 1).filter(|block| block.height <= due).cloned()
        };
        let Some(next) = next else { return Ok(FollowOutcome::NothingNew) };
        let block = core.apply_block(&next)?;
        self.publish_block(&mut core, &block);
        Ok(FollowOutcome::Applied)
    }
}

/// Applies the blocks of the leader until the runtime stops, behind by the ordered lag. Calls `halt` when the next block needs an upgrade.
pub(super) async fn follow_leader(shared: Arc<SharedChain>, leader: Arc<SharedChain>, halt: impl Fn(UpgradePlan)) {
    let (mut heights, mut lag) = (leader.height.subscribe(), shared.lag.subscribe());
    let mut halts = leader.halt.subscribe();
    loop {
        loop {
            match shared.follow_next_block(&leader) {
                Ok(FollowOutcome::Applied) => tokio::task::yield_now().await,
                Ok(FollowOutcome::NothingNew) => break,
                Ok(FollowOutcome::UpgradeNeeded(plan)) => {
                    halt(plan);
                    break;
                }
                Err(error) => {
                    tracing::error!(component = "devnet.node", %error, "the replica halts: a block of its leader could not be applied");
                    return;
                }
            }
        }
        tokio::select! {
            _ = heights.changed() => {}
            _ = lag.changed() => {}
            _ = halts.changed() => {}
        }
    }
}
