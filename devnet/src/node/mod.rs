//! The node around the ledger: mempool, blocks, and the CometBFT RPC face.
//!
//! A node runs on a runtime of its own, so that [`Node::stop`] ends it as a killed process would end: listener, connections
//! and block production at once. Its chain outlives that, and [`Node::start`] continues it on the same port.

mod core;
mod encode;
mod events;
mod http;
mod rpc;

use std::{
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use svc_kit::wall;
use tokio::{
    runtime::Runtime,
    sync::{broadcast, watch},
};

pub use core::{BlockRecord, Core};

use crate::ledger::{Chain, State};

/// How a node is made.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// What is fixed for the life of the chain.
    pub chain: Chain,
    /// State before the first block.
    pub genesis: State,
    /// Time between blocks.
    pub block_time: Duration,
    /// Where to listen; port 0 takes a free one and keeps it.
    pub listen: SocketAddr,
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The address cannot be used.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        cause: std::io::Error,
    },
    /// No runtime could be made.
    #[error("cannot start the node's runtime: {0}")]
    Runtime(std::io::Error),
}

/// What is ordered to go wrong.
#[derive(Debug, Default)]
pub struct Faults {
    /// Transactions that pass CheckTx and then vanish.
    pub drop_after_check: u32,
    /// Produce empty blocks while transactions wait.
    pub hold_inclusion: bool,
    /// Simulations that fail, with this text.
    pub fail_simulations: Option<(u32, String)>,
}

pub(crate) struct Shared {
    core: Mutex<Core>,
    blocks: broadcast::Sender<Arc<BlockRecord>>,
    height: watch::Sender<u64>,
    cut: watch::Sender<u64>,
}

impl Shared {
    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn produce(&self) {
        let block = Arc::new(self.core().produce(wall::now()));
        self.height.send_replace(block.height);
        // Fails when nobody is subscribed.
        let _ = self.blocks.send(block);
    }
}

/// A running, or stopped, node.
pub struct Node {
    shared: Arc<Shared>,
    block_time: Duration,
    address: SocketAddr,
    runtime: Option<Runtime>,
}

/// Blocks a slow subscriber may be behind before its connection is closed.
const BLOCK_BUFFER: usize = 1024;

impl Node {
    /// Starts a chain and its node.
    pub fn launch(config: NodeConfig) -> Result<Self, NodeError> {
        let shared = Arc::new(Shared {
            core: Mutex::new(Core::new(config.chain, config.genesis, wall::now())),
            blocks: broadcast::channel(BLOCK_BUFFER).0,
            height: watch::channel(0).0,
            cut: watch::channel(0).0,
        });
        let mut node = Self { shared, block_time: config.block_time, address: config.listen, runtime: None };
        node.start()?;
        Ok(node)
    }

    /// Continues a stopped node on the same port.
    pub fn start(&mut self) -> Result<(), NodeError> {
        if self.runtime.is_some() {
            return Ok(());
        }
        let listen = |cause| NodeError::Listen { address: self.address, cause };
        let listener = TcpListener::bind(self.address).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        self.address = listener.local_addr().map_err(listen)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("devnet-node")
            .enable_all()
            .build()
            .map_err(NodeError::Runtime)?;
        runtime.spawn(http::serve(listener, Arc::clone(&self.shared)));
        runtime.spawn(produce_blocks(Arc::clone(&self.shared), self.block_time));
        self.runtime = Some(runtime);
        Ok(())
    }

    /// Ends the node as a kill would: nothing is answered, no block is made, until [`Node::start`].
    pub fn stop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// Where the RPC is, as an origin.
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Newest height, as it changes.
    pub fn heights(&self) -> watch::Receiver<u64> {
        self.shared.height.subscribe()
    }

    /// Orders faults.
    pub fn faults<R>(&self, change: impl FnOnce(&mut Faults) -> R) -> R {
        change(&mut self.shared.core().faults)
    }

    /// Cuts every WebSocket without a close frame.
    pub fn cut_websockets(&self) {
        self.shared.cut.send_modify(|count| *count += 1);
    }

    /// Reads the chain directly, for tests that compare what was answered with what is so.
    pub fn inspect<R>(&self, read: impl FnOnce(&Core) -> R) -> R {
        read(&self.shared.core())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn produce_blocks(shared: Arc<Shared>, block_time: Duration) {
    let mut ticks = tokio::time::interval(block_time);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        shared.produce();
    }
}
