//! Another full node of the same chain: blocks come from a leader, transactions go both ways.
//!
//! Where two chains are locked at once, it is a replica's first and its leader's inside it.

use std::{
    net::SocketAddr,
    sync::{Arc, Weak},
};

use super::{Core, Node, NodeError, Pace, ReplayError, Shared, lock};

impl Node {
    /// Starts another node of this chain, in memory. It follows this one while it runs, and has its own address, mempool and
    /// faults. Gossip between the two does not pass their listeners: what waits on one reaches the other while either is
    /// stopped.
    pub fn replica(&self, listen: SocketAddr) -> Result<Self, NodeError> {
        let leader = &self.0.shared;
        let origin = leader.core().origin().clone();
        let mut core = Core::new(origin, Pace::Steps)?;
        core.is_replica = true;
        let shared = Shared::new(core, None, Some(Arc::clone(leader)));
        while shared.follow_once(leader)? {}
        let waiting: Vec<Vec<u8>> = {
            // Registered under the lock: what the leader accepts from here on is offered.
            let core = leader.core();
            lock(&leader.replicas).push(Arc::downgrade(&shared));
            if core.faults.no_gossip { Vec::new() } else { core.waiting().cloned().collect() }
        };
        shared.offer(&waiting);
        Self::run(shared, None, listen)
    }
}

impl Shared {
    /// Runs what may bring transactions into the mempool, and offers those to the other nodes.
    pub(super) fn gossiping<R>(&self, run: impl FnOnce(&mut Core) -> R) -> R {
        let (result, accepted) = {
            let mut core = self.core();
            let result = run(&mut core);
            (result, core.take_accepted())
        };
        if !accepted.is_empty() {
            let mut peers: Vec<Arc<Self>> = self.leader.iter().cloned().collect();
            let mut replicas = lock(&self.replicas);
            replicas.retain(|replica| replica.strong_count() > 0);
            peers.extend(replicas.iter().filter_map(Weak::upgrade));
            drop(replicas);
            for peer in peers {
                peer.offer(&accepted);
            }
        }
        result
    }

    /// Transactions another node has accepted. Refusals concern nobody, and end the way back to where one came from.
    fn offer(&self, txs: &[Vec<u8>]) {
        self.gossiping(|core| {
            for bytes in txs {
                core.check_tx(bytes.clone());
            }
        });
    }

    /// Takes the next block of the leader, if it is time for it.
    fn follow_once(&self, leader: &Self) -> Result<bool, ReplayError> {
        let mut core = self.core();
        let next = {
            let leading = leader.core();
            let due = leading.height().saturating_sub(core.faults.lag_blocks);
            let is_same_line = core
                .latest()
                .is_none_or(|mine| leading.block(mine.height).is_some_and(|theirs| theirs.hash == mine.hash));
            if !is_same_line {
                // The leader was taken back to a snapshot: subscribers see the height fall.
                core.rewind();
                for block in leading.blocks().iter().filter(|block| block.height <= due) {
                    core.follow(block)?;
                }
                self.height.send_replace(core.height());
            }
            leading.block(core.height() + 1).filter(|block| block.height <= due).cloned()
        };
        let Some(next) = next else { return Ok(false) };
        let block = core.follow(&next)?;
        self.announce(&mut core, &block);
        Ok(true)
    }
}

/// Follows the leader from block to block, as far behind as is ordered.
pub(super) async fn follow(shared: Arc<Shared>, leader: Arc<Shared>) {
    let (mut heights, mut lag) = (leader.height.subscribe(), shared.lag.subscribe());
    loop {
        loop {
            match shared.follow_once(&leader) {
                Ok(true) => tokio::task::yield_now().await,
                Ok(false) => break,
                Err(error) => {
                    tracing::error!(component = "devnet.node", %error, "the replica halts: a block could not be followed");
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
