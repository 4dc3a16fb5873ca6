//! A replica: another full node of the same chain. It applies the blocks of its leader; transactions are gossiped both ways.
//!
//! Lock order: the chain of the replica, then the chain of its leader.

use std::sync::{Arc, Weak};

use super::{
    chain::{NodeCore, ReplayError},
    shared::{SharedChain, lock},
};

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

    /// Checks transactions that another node has accepted. A refusal is ignored; it also stops the return to the sender.
    pub(super) fn receive_gossip(&self, txs: &[Vec<u8>]) {
        self.run_and_gossip(|core| {
            for bytes in txs {
                core.check_tx(bytes.clone());
            }
        });
    }

    /// Applies the next block of the leader, unless the ordered lag holds it back; returns whether a block was applied.
    pub(super) fn follow_next_block(&self, leader: &Self) -> Result<bool, ReplayError> {
        let mut core = self.core();
        let next = {
            let leading = leader.core();
            let due = leading.height().saturating_sub(core.faults.lag_blocks);
            let is_same_chain = core
                .latest()
                .is_none_or(|mine| leading.block(mine.height).is_some_and(|theirs| theirs.hash == mine.hash));
            if !is_same_chain {
                // The leader was reset to a snapshot: subscribers see the height fall.
                core.reset_to_genesis();
                for block in leading.blocks().iter().filter(|block| block.height <= due) {
                    core.apply_block(block)?;
                }
                self.height.send_replace(core.height());
            }
            leading.block(core.height() + 1).filter(|block| block.height <= due).cloned()
        };
        let Some(next) = next else { return Ok(false) };
        let block = core.apply_block(&next)?;
        self.publish_block(&mut core, &block);
        Ok(true)
    }
}

/// Applies the blocks of the leader until the runtime stops, behind by the ordered lag.
pub(super) async fn follow_leader(shared: Arc<SharedChain>, leader: Arc<SharedChain>) {
    let (mut heights, mut lag) = (leader.height.subscribe(), shared.lag.subscribe());
    loop {
        loop {
            match shared.follow_next_block(&leader) {
                Ok(true) => tokio::task::yield_now().await,
                Ok(false) => break,
                Err(error) => {
                    tracing::error!(component = "devnet.node", %error, "the replica halts: a block of its leader could not be applied");
                    return;
                }
            }
        }
        tokio::select! {
            _ = heights.changed() => {}
            _ = lag.changed() => {}
        }
    }
}
