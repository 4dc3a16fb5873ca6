//! The node around the ledger: mempool, blocks, and the CometBFT RPC face.
//!
//! A node runs on a runtime of its own, so that [`Node::stop`] ends it as a killed process would end: listener, connections
//! and block production at once. Its chain outlives that, in memory or on disk, and [`Node::start`] continues it on the same
//! port.

mod clock;
mod core;
mod encode;
mod events;
mod faults;
mod garble;
mod home;
mod http;
mod replica;
mod rpc;
mod seal;
mod search;
mod socket;

use std::{
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::AtomicUsize},
    time::{Duration, Instant},
};

use prost_types::Timestamp;
use svc_kit::wall;
use svc_wire::instant;
use tokio::{
    runtime::Runtime,
    sync::{broadcast, watch},
};

pub use clock::Pace;
pub use core::{BlockRecord, Core, Origin, ReplayError};
pub use faults::{Faults, Garble, GarbleKind, Refusal};
pub use home::HomeError;
pub use seal::SealError;

use crate::ledger::{Chain, Genesis};
use home::Home;

/// How a node is made.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// What is fixed for the life of the chain.
    pub chain: Chain,
    /// What it begins with.
    pub genesis: Genesis,
    /// How long before now the chain begins.
    pub age: Duration,
    /// Time between blocks; `None` makes a block only when [`Node::produce`] is called.
    pub block_time: Option<Duration>,
    /// Where header times come from.
    pub pace: Pace,
    /// Where to listen; port 0 takes a free one and keeps it.
    pub listen: SocketAddr,
    /// Directory of the chain; `None` keeps it in memory.
    pub home: Option<PathBuf>,
}

/// Why a node did not start, or stopped.
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
    /// No threads.
    #[error("cannot start a runtime: {0}")]
    Runtime(std::io::Error),
    /// The directory cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The blocks in the directory lead elsewhere.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A block cannot be made.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// Its file was given back.
    #[error("the node is closed")]
    Closed,
    /// There is no snapshot of this name.
    #[error("there is no snapshot {0:?}")]
    NoSnapshot(String),
    /// Blocks are made elsewhere.
    #[error("a replica makes no blocks: the node it follows does")]
    Replica,
}

pub(crate) struct Shared {
    core: Mutex<Core>,
    /// Taken when the node is closed: the file is free for another process then.
    home: Mutex<Option<Home>>,
    is_kept: bool,
    blocks: broadcast::Sender<Arc<BlockRecord>>,
    height: watch::Sender<u64>,
    cut: watch::Sender<u64>,
    stalled: watch::Sender<bool>,
    lag: watch::Sender<u64>,
    /// WebSocket clients with subscriptions.
    subscribers: AtomicUsize,
    /// Who a replica takes its blocks from.
    leader: Option<Arc<Shared>>,
    replicas: Mutex<Vec<Weak<Shared>>>,
}

impl Shared {
    fn new(core: Core, home: Option<Home>, leader: Option<Arc<Self>>) -> Arc<Self> {
        Arc::new(Self {
            height: watch::channel(core.height()).0,
            core: Mutex::new(core),
            is_kept: home.is_some(),
            home: Mutex::new(home),
            blocks: broadcast::channel(BLOCK_BUFFER).0,
            cut: watch::channel(0).0,
            stalled: watch::channel(false).0,
            lag: watch::channel(0).0,
            subscribers: AtomicUsize::new(0),
            leader,
            replicas: Mutex::default(),
        })
    }

    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a block, stores it, and only then tells of it.
    fn produce(&self) -> Result<Arc<BlockRecord>, NodeError> {
        if self.leader.is_some() {
            return Err(NodeError::Replica);
        }
        let mut core = self.core();
        let mut home = lock(&self.home);
        if self.is_kept && home.is_none() {
            return Err(NodeError::Closed);
        }
        let began = Instant::now();
        let block = core.produce(&wall::now())?;
        if let Some(Err(error)) = home.as_ref().map(|kept| kept.append(&block)) {
            // Memory is ahead of the disk now: no further block may follow.
            home.take();
            return Err(error.into());
        }
        let codespaces = block.outcomes.iter().map(|outcome| outcome.codespace.as_str());
        svc_otel::metrics::devnet_block(block.height, codespaces, began.elapsed());
        tracing::debug!(component = "devnet.node", height = block.height, txs = block.txs.len(), "block is made");
        self.announce(&mut core, &block);
        Ok(block)
    }

    /// Tells of a new block, under the lock of the chain: subscribers see blocks in order.
    fn announce(&self, core: &mut Core, block: &Arc<BlockRecord>) {
        let is_lost = faults::take(&mut core.faults.lose_events);
        self.height.send_replace(block.height);
        if !is_lost {
            // Fails when nobody is subscribed.
            let _ = self.blocks.send(Arc::clone(block));
        }
    }
}

struct Inner {
    shared: Arc<Shared>,
    block_time: Option<Duration>,
    address: Mutex<SocketAddr>,
    runtime: Mutex<Option<Runtime>>,
}

/// A running, or stopped, node. Clones are handles of the same node.
#[derive(Clone)]
pub struct Node(Arc<Inner>);

/// Blocks a slow subscriber may be behind before its connection is closed.
const BLOCK_BUFFER: usize = 1024;
/// Genesis of every chain whose time goes in steps.
const STEPS_BEGIN: Timestamp = Timestamp { seconds: 1_767_225_600, nanos: 0 };

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Node {
    /// Starts a chain and its node, or continues the chain of its home.
    pub fn launch(config: NodeConfig) -> Result<Self, NodeError> {
        let home = config.home.as_deref().map(Home::open).transpose()?;
        let now = wall::now();
        let (age, genesis_time) = match config.pace {
            Pace::Wall => {
                let age = i128::try_from(config.age.as_nanos()).unwrap_or(0);
                (age, instant::from_nanos(instant::nanos(&now) - age))
            }
            Pace::Steps => (0, STEPS_BEGIN),
        };
        let mut origin = Origin { chain: config.chain, genesis: config.genesis, genesis_time };
        if let Some(home) = &home {
            home.adopt(&mut origin)?;
        }
        let mut core = Core::new(origin, config.pace)?;
        if let Some(home) = &home {
            restore(&mut core, home.blocks()?)?;
            tracing::info!(component = "devnet.node", height = core.height(), "the chain continues from its home");
        }
        match core.latest().map(|block| block.time) {
            Some(last) => core.clock.resume(&last, &now),
            None => core.clock.advance(-age),
        }
        Self::run(Shared::new(core, home, None), config.block_time, config.listen)
    }

    fn run(shared: Arc<Shared>, block_time: Option<Duration>, listen: SocketAddr) -> Result<Self, NodeError> {
        let (address, runtime) = (Mutex::new(listen), Mutex::new(None));
        let node = Self(Arc::new(Inner { shared, block_time, address, runtime }));
        node.start()?;
        Ok(node)
    }

    /// Continues a stopped node on the same port.
    pub fn start(&self) -> Result<(), NodeError> {
        let mut running = lock(&self.0.runtime);
        if running.is_some() {
            return Ok(());
        }
        let mut address = lock(&self.0.address);
        let listen = |cause| NodeError::Listen { address: *address, cause };
        let listener = TcpListener::bind(*address).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        *address = listener.local_addr().map_err(listen)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("devnet-node")
            .enable_all()
            .build()
            .map_err(NodeError::Runtime)?;
        runtime.spawn(http::serve(listener, Arc::clone(&self.0.shared)));
        if let Some(block_time) = self.0.block_time {
            runtime.spawn(produce_blocks(Arc::clone(&self.0.shared), block_time));
        }
        if let Some(leader) = &self.0.shared.leader {
            runtime.spawn(replica::follow(Arc::clone(&self.0.shared), Arc::clone(leader)));
        }
        *running = Some(runtime);
        Ok(())
    }

    /// Ends the node as a kill would: nothing is answered, no block is made, until [`Node::start`]. What waited for a block
    /// stays in the mempool.
    pub fn stop(&self) {
        if let Some(runtime) = lock(&self.0.runtime).take() {
            svc_kit::runtime::end(runtime);
        }
    }

    /// Stops for good, and gives the file of the home back.
    pub fn close(&self) {
        self.stop();
        lock(&self.0.shared.home).take();
    }

    /// Where the RPC is, as an origin.
    pub fn origin(&self) -> String {
        format!("http://{}", lock(&self.0.address))
    }

    /// Newest height, as it changes.
    pub fn heights(&self) -> watch::Receiver<u64> {
        self.0.shared.height.subscribe()
    }

    /// Makes a block now.
    pub fn produce(&self) -> Result<Arc<BlockRecord>, NodeError> {
        self.0.shared.produce()
    }

    /// Orders faults.
    pub fn faults<R>(&self, change: impl FnOnce(&mut Faults) -> R) -> R {
        let mut core = self.0.shared.core();
        let result = change(&mut core.faults);
        self.0.shared.stalled.send_replace(core.faults.stall_websockets);
        self.0.shared.lag.send_replace(core.faults.lag_blocks);
        result
    }

    /// Moves the header time of the next block.
    pub fn advance(&self, by: Duration) {
        self.0.shared.core().clock.advance(i128::try_from(by.as_nanos()).unwrap_or(i128::MAX));
    }

    /// Cuts every WebSocket without a close frame.
    pub fn cut_websockets(&self) {
        self.0.shared.cut.send_modify(|count| *count += 1);
    }

    /// Keeps the chain as it is under a name.
    pub fn save(&self, name: &str) -> Result<(), NodeError> {
        let mut core = self.0.shared.core();
        core.save(name);
        if let Some(home) = &*lock(&self.0.shared.home) {
            home.save(name)?;
        }
        Ok(())
    }

    /// Takes the chain back to a snapshot. Clients see the height fall.
    pub fn load(&self, name: &str) -> Result<(), NodeError> {
        let mut core = self.0.shared.core();
        if let Some(home) = &*lock(&self.0.shared.home) {
            let blocks = home.load(name)?.ok_or_else(|| NodeError::NoSnapshot(name.to_owned()))?;
            if !core.load(name) {
                core.rewind();
                restore(&mut core, blocks)?;
                core.save(name);
            }
        } else if !core.load(name) {
            return Err(NodeError::NoSnapshot(name.to_owned()));
        }
        self.0.shared.height.send_replace(core.height());
        Ok(())
    }

    /// Reads the chain directly, for tests that compare what was answered with what is so.
    pub fn inspect<R>(&self, read: impl FnOnce(&Core) -> R) -> R {
        read(&self.0.shared.core())
    }

    /// What was seeded, if seeding this home came to its end.
    pub fn seeded(&self) -> Result<Option<Vec<u8>>, NodeError> {
        Ok(lock(&self.0.shared.home).as_ref().map(|kept| kept.document(home::SCENARIO)).transpose()?.flatten())
    }

    /// Notes that seeding has come to its end.
    pub fn set_seeded(&self, document: &[u8]) -> Result<(), NodeError> {
        match &*lock(&self.0.shared.home) {
            Some(kept) => Ok(kept.put_document(home::SCENARIO, document)?),
            None => Ok(()),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(runtime) = lock(&self.runtime).take() {
            runtime.shutdown_background();
        }
    }
}

/// Removes the chain of a home; false when there is none.
pub fn reset(home: &Path) -> Result<bool, NodeError> {
    Ok(Home::reset(home)?)
}

fn restore(core: &mut Core, blocks: Vec<home::StoredBlock>) -> Result<(), ReplayError> {
    for block in blocks {
        core.replay(block.time.unwrap_or_default(), block.txs, &block.app_hash)?;
    }
    Ok(())
}

async fn produce_blocks(shared: Arc<Shared>, block_time: Duration) {
    let mut ticks = tokio::time::interval(block_time);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(error) = shared.produce() {
            tracing::error!(component = "devnet.node", %error, "the chain halts: a block could not be made or stored");
            return;
        }
    }
}
