//! The chain of a node with its storage and its subscribers: the part of a node that survives a stop.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::AtomicUsize},
    time::Instant,
};

use svc_kit::wall_clock;
use svc_ledger::UpgradePlan;
use tokio::sync::{broadcast, watch};

use super::{
    chain::{BlockRecord, NodeCore},
    chain_store::ChainStore,
    error::NodeError,
    faults::take_one,
};

/// Blocks that a slow subscriber can lag behind before its connection is closed.
const BLOCK_BUFFER: usize = 1024;

pub(crate) struct SharedChain {
    pub(super) core: Mutex<NodeCore>,
    /// `None` after close, when another process can open the file.
    pub(super) store: Mutex<Option<ChainStore>>,
    pub(super) is_persistent: bool,
    pub(super) blocks: broadcast::Sender<Arc<BlockRecord>>,
    pub(super) height: watch::Sender<u64>,
    pub(super) cut_signal: watch::Sender<u64>,
    pub(super) stalled: watch::Sender<bool>,
    pub(super) lag: watch::Sender<u64>,
    /// Number of WebSocket clients with subscriptions.
    pub(super) subscribers: AtomicUsize,
    /// The node that a replica takes its blocks from.
    pub(super) leader: Option<Arc<SharedChain>>,
    pub(super) replicas: Mutex<Vec<Weak<SharedChain>>>,
    /// The upgrade for which the node is halted.
    pub(super) halt: watch::Sender<Option<UpgradePlan>>,
}

impl SharedChain {
    pub(super) fn new(core: NodeCore, home: Option<ChainStore>, leader: Option<Arc<Self>>) -> Arc<Self> {
        Arc::new(Self {
            height: watch::channel(core.height()).0,
            core: Mutex::new(core),
            is_persistent: home.is_some(),
            store: Mutex::new(home),
            blocks: broadcast::channel(BLOCK_BUFFER).0,
            cut_signal: watch::channel(0).0,
            stalled: watch::channel(false).0,
            lag: watch::channel(0).0,
            subscribers: AtomicUsize::new(0),
            leader,
            replicas: Mutex::default(),
            halt: watch::channel(None).0,
        })
    }

    pub(crate) fn core(&self) -> MutexGuard<'_, NodeCore> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Produces a block, stores it, and publishes it only then.
    pub(super) fn produce_block(&self) -> Result<Arc<BlockRecord>, NodeError> {
        if self.leader.is_some() {
            return Err(NodeError::Replica);
        }
        let mut core = self.core();
        let mut home = lock(&self.store);
        if self.is_persistent && home.is_none() {
            return Err(NodeError::Closed);
        }
        if let Some(plan) = core.needed_upgrade() {
            return Err(NodeError::UpgradeNeeded(plan));
        }
        let began = Instant::now();
        let block = core.produce_block(&wall_clock::now())?;
        if let Some(Err(error)) = home.as_ref().map(|store| store.append_block(&block)) {
            // Memory is ahead of the disk: no further block may be produced.
            home.take();
            return Err(error.into());
        }
        let codespaces = block.tx_outcomes.iter().map(|outcome| outcome.codespace.as_str());
        svc_otel::metrics::record_devnet_block(block.height, codespaces, began.elapsed());
        tracing::debug!(component = "devnet.node", height = block.height, txs = block.txs.len(), "block produced");
        self.publish_block(&mut core, &block);
        Ok(block)
    }

    /// Publishes a new block. The lock of the chain is held, so subscribers see blocks in order.
    pub(super) fn publish_block(&self, core: &mut NodeCore, block: &Arc<BlockRecord>) {
        let is_lost = take_one(&mut core.faults.lose_events);
        self.height.send_replace(block.height);
        if !is_lost {
            // Fails if there is no subscriber.
            let _ = self.blocks.send(Arc::clone(block));
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
