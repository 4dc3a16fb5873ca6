//! A node around the ledger: mempool, blocks, storage, faults, and the CometBFT RPC.
//!
//! A node has a tokio runtime of its own, so that [`Node::stop`] ends the listener, all connections and the block production at
//! once, like a kill of the process. The chain survives a stop, in memory or on disk, and [`Node::start`] resumes it on the same
//! port.

mod chain;
mod chain_store;
mod config;
mod cross_origin;
mod error;
mod faults;
mod gateway;
mod replica;
mod rpc;
mod shared;
mod upgrade;

use std::{
    net::{SocketAddr, TcpListener},
    path::Path,
    sync::{Arc, Mutex, Weak, mpsc},
    time::Duration,
};

use prost_types::Timestamp;
use svc_kit::wall_clock;
use svc_wire::timestamp;
use tokio::{runtime::Runtime, sync::watch};

pub use chain::{BlockRecord, GenesisDocument, HeaderTimeMode, NodeCore, ReplayError, SealError};
pub use chain_store::ChainStoreError;
pub use config::NodeConfig;
pub use error::NodeError;
pub use faults::{
    CheckTxRefusal, GarbleFault, GarbleKind, NodeFaults, QueryRefusal, RpcFailure,
    lies::{ChangedField, FieldChange, NodeLies},
};

use chain_store::ChainStore;
use shared::{SharedChain, lock};

/// Addresses of the listeners. A restart keeps them.
#[derive(Debug, Clone, Copy)]
struct NodeAddresses {
    rpc: SocketAddr,
    rest: Option<SocketAddr>,
    grpc: Option<SocketAddr>,
}

struct NodeProcess {
    shared: Arc<SharedChain>,
    block_time: Option<Duration>,
    addresses: Mutex<NodeAddresses>,
    runtime: Mutex<Option<Runtime>>,
    upgrade_pause: Duration,
    /// The start that follows a halt; without the sender it is cancelled.
    pending_start: Mutex<Option<mpsc::SyncSender<()>>>,
}

/// A running or stopped node. Clones are handles of the same node.
#[derive(Clone)]
pub struct Node(Arc<NodeProcess>);

/// Genesis time of every chain with fixed steps.
const FIXED_GENESIS_TIME: Timestamp = Timestamp { seconds: 1_767_225_600, nanos: 0 };

impl Node {
    /// Starts a chain and its node, or resumes the chain of its home.
    pub fn launch(config: NodeConfig) -> Result<Self, NodeError> {
        let home = config.home.as_deref().map(ChainStore::open).transpose()?;
        let now = wall_clock::now();
        let (age, genesis_time) = match (config.genesis_time, config.header_time) {
            (Some(given), _) => (0, given),
            (None, HeaderTimeMode::WallClock) => {
                let age = i128::try_from(config.age.as_nanos()).unwrap_or(0);
                (age, timestamp::from_unix_nanos(timestamp::unix_nanos(&now) - age))
            }
            (None, HeaderTimeMode::FixedStep) => (0, FIXED_GENESIS_TIME),
        };
        let mut origin = GenesisDocument { chain: config.chain, genesis: config.genesis, genesis_time };
        if let Some(home) = &home {
            home.load_or_store_genesis(&mut origin)?;
        }
        let mut core = NodeCore::new(origin.build()?, config.header_time)?;
        if let Some(home) = &home {
            core.chain.upgrades = home.read_upgrades()?;
            replay_blocks(&mut core, home.blocks()?)?;
            tracing::info!(component = "devnet.node", height = core.height(), "chain resumed from its home");
        }
        match core.latest().map(|block| block.time) {
            Some(last) => core.clock.resume(&last, &now),
            // A genesis ahead of the wall clock stays ahead.
            None if config.genesis_time.is_some() && config.header_time == HeaderTimeMode::WallClock => {
                core.clock.resume(&genesis_time, &now);
            }
            None => core.clock.advance(-age),
        }
        let addresses = NodeAddresses { rpc: config.listen, rest: config.rest_listen, grpc: config.grpc_listen };
        Self::run(SharedChain::new(core, home, None), config.block_time, addresses, config.upgrade_pause)
    }

    fn run(
        shared: Arc<SharedChain>,
        block_time: Option<Duration>,
        addresses: NodeAddresses,
        upgrade_pause: Duration,
    ) -> Result<Self, NodeError> {
        let node = Self(Arc::new(NodeProcess {
            shared,
            block_time,
            addresses: Mutex::new(addresses),
            runtime: Mutex::new(None),
            upgrade_pause,
            pending_start: Mutex::new(None),
        }));
        node.start()?;
        Ok(node)
    }

    /// Starts another node of this chain, in memory. It applies the blocks of this node while it runs, and has its own address,
    /// mempool and faults. Gossip between the two does not use their listeners: it continues while either is stopped.
    pub fn start_replica(&self, listen: SocketAddr) -> Result<Self, NodeError> {
        let leader = &self.0.shared;
        let origin = leader.core().genesis().clone();
        let mut core = NodeCore::new(origin, HeaderTimeMode::FixedStep)?;
        core.is_replica = true;
        let shared = SharedChain::new(core, None, Some(Arc::clone(leader)));
        shared.catch_up(leader)?;
        let waiting: Vec<Vec<u8>> = {
            // Registered under the lock of the leader, so that every later transaction of the leader is offered.
            let core = leader.core();
            lock(&leader.replicas).push(Arc::downgrade(&shared));
            if core.faults.no_gossip { Vec::new() } else { core.mempool_txs().cloned().collect() }
        };
        shared.receive_gossip(&waiting);
        let addresses = NodeAddresses { rpc: listen, rest: None, grpc: None };
        Self::run(shared, None, addresses, self.0.upgrade_pause)
    }

    /// Starts a stopped node again on the same port. One that is halted for an upgrade goes on as the later generation.
    pub fn start(&self) -> Result<(), NodeError> {
        self.0.start()
    }

    /// Stops listener, connections and block production at once, like a kill, until [`Node::start`]. The mempool is kept.
    pub fn stop(&self) {
        lock(&self.0.pending_start).take();
        self.0.end_runtime();
    }

    /// Stops the node for good and closes the file of the home.
    pub fn close(&self) {
        self.stop();
        lock(&self.0.shared.store).take();
    }

    /// Returns the origin of the RPC, for example `http://127.0.0.1:26657`.
    pub fn origin(&self) -> String {
        format!("http://{}", lock(&self.0.addresses).rpc)
    }

    /// Returns the origin of REST, if it is served.
    pub fn rest_origin(&self) -> Option<String> {
        lock(&self.0.addresses).rest.map(|address| format!("http://{address}"))
    }

    /// Returns the address of gRPC, if it is served.
    pub fn grpc_address(&self) -> Option<SocketAddr> {
        lock(&self.0.addresses).grpc
    }

    /// Returns a receiver of the newest height.
    pub fn watch_heights(&self) -> watch::Receiver<u64> {
        self.0.shared.height.subscribe()
    }

    /// Produces a block now. Fails on a replica, on a closed node and if the block cannot be stored. A chain that needs an upgrade halts
    /// instead.
    pub fn produce_block(&self) -> Result<Arc<BlockRecord>, NodeError> {
        let made = self.0.shared.produce_block();
        if let Err(NodeError::UpgradeNeeded(plan)) = &made {
            self.0.halt(*plan);
        }
        made
    }

    /// Changes the faults and applies them.
    pub fn update_faults<R>(&self, change: impl FnOnce(&mut NodeFaults) -> R) -> R {
        let mut core = self.0.shared.core();
        let result = change(&mut core.faults);
        core.apply_gas_price();
        self.0.shared.stalled.send_replace(core.faults.stall_websockets);
        self.0.shared.lag.send_replace(core.faults.lag_blocks);
        result
    }

    /// Moves the header time of the next block forward.
    pub fn advance_clock(&self, by: Duration) {
        self.0.shared.core().clock.advance(i128::try_from(by.as_nanos()).unwrap_or(i128::MAX));
    }

    /// Returns a genesis document with the newest state, for another chain to begin with. Its time is that of the newest block.
    pub fn export_genesis(&self) -> Result<serde_json::Value, NodeError> {
        let core = self.0.shared.core();
        let time = core.latest().map_or(core.genesis().time, |block| block.time);
        let app_state = svc_ledger::export_app_state(core.state(), &core.chain)?;
        Ok(rpc::encode::genesis_document(&core, &time, &app_state))
    }

    /// Ends every WebSocket connection without a close frame.
    pub fn cut_websockets(&self) {
        self.0.shared.cut_signal.send_modify(|count| *count += 1);
    }

    /// Saves the chain as a snapshot under a name.
    pub fn save_snapshot(&self, name: &str) -> Result<(), NodeError> {
        let mut core = self.0.shared.core();
        core.save_snapshot(name);
        if let Some(home) = &*lock(&self.0.shared.store) {
            home.save_snapshot(name)?;
        }
        Ok(())
    }

    /// Resets the chain to a snapshot; clients see the height fall. Fails for an unknown name.
    pub fn load_snapshot(&self, name: &str) -> Result<(), NodeError> {
        let mut core = self.0.shared.core();
        if let Some(home) = &*lock(&self.0.shared.store) {
            let blocks = home.load_snapshot(name)?.ok_or_else(|| NodeError::NoSnapshot(name.to_owned()))?;
            if !core.load_snapshot(name)? {
                core.reset_to_genesis()?;
                replay_blocks(&mut core, blocks)?;
                core.save_snapshot(name);
            }
        } else if !core.load_snapshot(name)? {
            return Err(NodeError::NoSnapshot(name.to_owned()));
        }
        self.0.shared.height.send_replace(core.height());
        Ok(())
    }

    /// Takes the chain back to a height, as an operator does that restores an older copy: clients see the height fall, and the next blocks
    /// are others. From 0 the chain begins once more, with the same id and genesis. Fails for a height that the chain does not have, and on
    /// a replica.
    pub fn go_back(&self, height: u64) -> Result<(), NodeError> {
        if self.0.shared.leader.is_some() {
            return Err(NodeError::Replica);
        }
        let mut core = self.0.shared.core();
        let newest = core.height();
        if height > newest {
            return Err(NodeError::NoHeight { height, newest });
        }
        if let Some(home) = &*lock(&self.0.shared.store) {
            home.go_back(height)?;
        }
        core.go_back(height)?;
        self.0.shared.height.send_replace(height);
        Ok(())
    }

    /// Reads the chain without the RPC, for tests that compare both.
    pub fn read_core<R>(&self, read: impl FnOnce(&NodeCore) -> R) -> R {
        read(&self.0.shared.core())
    }

    /// Returns the record of a completed seeding of this home.
    pub fn read_seed_record(&self) -> Result<Option<Vec<u8>>, NodeError> {
        Ok(lock(&self.0.shared.store)
            .as_ref()
            .map(|store| store.read_meta(chain_store::SEED_RECORD_KEY))
            .transpose()?
            .flatten())
    }

    /// Stores the record of a completed seeding; without a home it has no effect.
    pub fn write_seed_record(&self, document: &[u8]) -> Result<(), NodeError> {
        match &*lock(&self.0.shared.store) {
            Some(store) => Ok(store.write_meta(chain_store::SEED_RECORD_KEY, document)?),
            None => Ok(()),
        }
    }
}

impl NodeProcess {
    fn start(self: &Arc<Self>) -> Result<(), NodeError> {
        let mut running = lock(&self.runtime);
        // A node that is about to halt still runs the earlier program.
        let is_halting = lock(&self.pending_start).take().is_some();
        if let Some(runtime) = running.take_if(|_| is_halting) {
            svc_kit::runtime::shut_down(runtime);
        }
        if running.is_some() {
            return Ok(());
        }
        self.exchange_program()?;
        self.shared.core().note_start();
        let mut addresses = lock(&self.addresses);
        let listener = bind(&mut addresses.rpc)?;
        let rest = addresses.rest.as_mut().map(bind).transpose()?;
        let grpc = addresses.grpc.as_mut().map(bind).transpose()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("devnet-node")
            .enable_all()
            .build()
            .map_err(NodeError::Runtime)?;
        runtime.spawn(rpc::http::serve(listener, Arc::clone(&self.shared)));
        if let Some(listener) = rest {
            runtime.spawn(gateway::serve_rest(listener, Arc::clone(&self.shared)));
        }
        if let Some(listener) = grpc {
            runtime.spawn(gateway::serve_grpc(listener, Arc::clone(&self.shared)));
        }
        if let Some(block_time) = self.block_time {
            runtime.spawn(produce_blocks(Arc::downgrade(self), Arc::clone(&self.shared), block_time));
        }
        if let Some(leader) = &self.shared.leader {
            let process = Arc::downgrade(self);
            let halt = move |plan| {
                if let Some(process) = process.upgrade() {
                    process.halt(plan);
                }
            };
            runtime.spawn(replica::follow_leader(Arc::clone(&self.shared), Arc::clone(leader), halt));
        }
        *running = Some(runtime);
        self.shared.halt.send_replace(None);
        Ok(())
    }

    /// Ends the runtime of a node that halts, unless it was stopped or started meanwhile, which takes the other end of the channel. Returns
    /// whether it halts.
    fn end_halted(&self, cancelled: &mpsc::Receiver<()>) -> bool {
        let mut running = lock(&self.runtime);
        let is_halted = cancelled.try_recv() != Err(mpsc::TryRecvError::Disconnected);
        if let Some(runtime) = running.take_if(|_| is_halted) {
            svc_kit::runtime::shut_down(runtime);
        }
        is_halted
    }

    fn end_runtime(&self) {
        if let Some(runtime) = lock(&self.runtime).take() {
            svc_kit::runtime::shut_down(runtime);
        }
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        if let Some(runtime) = lock(&self.runtime).take() {
            runtime.shutdown_background();
        }
        // Tasks that end later hold the chain, and the next node of this home needs its file now.
        lock(&self.shared.store).take();
    }
}

/// Removes the chain of a home; returns whether there was one.
pub fn reset_home(home: &Path) -> Result<bool, NodeError> {
    Ok(ChainStore::reset(home)?)
}

fn replay_blocks(core: &mut NodeCore, blocks: Vec<chain_store::StoredBlock>) -> Result<(), ReplayError> {
    for block in blocks {
        core.replay_block(block.time.unwrap_or_default(), block.txs, &block.app_hash)?;
    }
    Ok(())
}

async fn produce_blocks(process: Weak<NodeProcess>, shared: Arc<SharedChain>, block_time: Duration) {
    let mut ticks = tokio::time::interval(block_time);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match shared.produce_block() {
            Ok(_) => {}
            Err(NodeError::UpgradeNeeded(plan)) => {
                if let Some(process) = process.upgrade() {
                    process.halt(plan);
                }
            }
            Err(error) => {
                tracing::error!(component = "devnet.node", %error, "the chain halts: a block could not be produced or stored");
                return;
            }
        }
    }
}

/// Takes a port, and keeps it for the next start.
fn bind(address: &mut SocketAddr) -> Result<TcpListener, NodeError> {
    let wanted = *address;
    let failed = |cause| NodeError::Listen { address: wanted, cause };
    let listener = TcpListener::bind(wanted).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    *address = listener.local_addr().map_err(failed)?;
    Ok(listener)
}
