//! The chain and its mempool.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet, VecDeque},
    sync::Arc,
    time::Instant,
};

use prost_types::Timestamp;
use svc_wire::{proto_registry::ProtoRegistryError, tx};

use super::{
    genesis::ChainGenesis,
    header_clock::{HeaderClock, HeaderTimeMode},
    history::{BlockRecord, ChainHistory},
    seal::{BLOCK_MAX_BYTES, SealError, Validator},
};
use crate::node::faults::{NodeFaults, take_one};
use svc_ledger::{ChainConfig, ExecMode, LedgerError, LedgerState, TxOutcome};

/// Result of CheckTx.
pub enum CheckTxOutcome {
    /// The response of the application: accepted with code 0, or refused with another code.
    Response(TxOutcome),
    /// The mempool refuses before CheckTx; the text is that of a JSON-RPC error.
    MempoolRejection(String),
}

/// Maximum number of transactions in the mempool.
const MEMPOOL_SIZE: usize = 5_000;
/// Difference of the times of blocks after the chain went back.
const OTHER_TIME_NANOS: i128 = 1_000_000;
/// Maximum size of a transaction.
const MAX_TX_BYTES: usize = 1024 * 1024;
/// Maximum size of the transactions of a block: half of a block's limit leaves room for header, commit and framing.
const MAX_DATA_BYTES: i64 = BLOCK_MAX_BYTES / 2;

/// A block cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The replay ends in another state: the rules of the ledger have changed since.
    #[error(
        "the replay of block {height} ends in another state than before: another version produced this chain, so reset the home"
    )]
    AppHashMismatch {
        /// Height of the block.
        height: u64,
    },
    /// The block cannot be sealed.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The descriptors of a generation cannot be used.
    #[error(transparent)]
    Generation(#[from] ProtoRegistryError),
}

/// A chain in memory, with its mempool, clock and faults.
pub struct NodeCore {
    /// Configuration of the chain.
    pub chain: ChainConfig,
    pub(in crate::node) faults: NodeFaults,
    pub(in crate::node) clock: HeaderClock,
    pub(super) genesis: ChainGenesis,
    validator: Validator,
    pub(super) history: ChainHistory,
    pub(super) check_state: Arc<LedgerState>,
    mempool: VecDeque<Vec<u8>>,
    tx_cache: HashSet<String>,
    /// Transactions that CheckTx refused and the node passed on: they are in the mempools of others.
    relayed_txs: Vec<Vec<u8>>,
    /// Accepted transactions that are not offered to other nodes yet.
    gossip_queue: Vec<Vec<u8>>,
    /// The blocks come from another node.
    pub(in crate::node) is_replica: bool,
    /// Heights whose transactions the index never got.
    unindexed_heights: BTreeSet<u64>,
    snapshots: BTreeMap<String, ChainHistory>,
    /// Time of the newest block; none before the first one of this run.
    pub(super) newest_at: Option<Instant>,
}

impl NodeCore {
    pub(in crate::node) fn new(genesis: ChainGenesis, header_time: HeaderTimeMode) -> Result<Self, SealError> {
        let validator = Validator::new(&genesis.chain.chain_id)?;
        let history = ChainHistory::new(Arc::clone(&genesis.state));
        Ok(Self {
            chain: genesis.chain.clone(),
            faults: NodeFaults::default(),
            clock: HeaderClock::new(header_time),
            validator,
            check_state: history.committed_state(),
            history,
            genesis,
            mempool: VecDeque::new(),
            tx_cache: HashSet::new(),
            relayed_txs: Vec::new(),
            gossip_queue: Vec::new(),
            is_replica: false,
            unindexed_heights: BTreeSet::new(),
            snapshots: BTreeMap::new(),
            newest_at: None,
        })
    }

    /// Returns the newest height; 0 before the first block.
    pub fn height(&self) -> u64 {
        self.history.height()
    }

    /// Returns the newest state.
    pub fn state(&self) -> &LedgerState {
        self.history.state()
    }

    /// Returns the newest block.
    pub fn latest(&self) -> Option<&Arc<BlockRecord>> {
        self.history.blocks.last()
    }

    /// Returns a block by height.
    pub fn block(&self, height: u64) -> Option<&Arc<BlockRecord>> {
        self.history.block(height)
    }

    /// Returns all blocks in order.
    pub fn blocks(&self) -> &[Arc<BlockRecord>] {
        &self.history.blocks
    }

    /// Finds a transaction by upper-case hash; returns its block and its position in it.
    pub fn find_tx(&self, hash: &str) -> Option<(&Arc<BlockRecord>, usize)> {
        self.history.find_tx(hash)
    }

    /// Finds a transaction in the transaction index, which may lack it.
    pub(in crate::node) fn find_indexed_tx(&self, hash: &str) -> Option<(&Arc<BlockRecord>, usize)> {
        self.find_tx(hash).filter(|(block, _)| self.is_indexed(block.height))
    }

    pub(in crate::node) fn is_indexed(&self, height: u64) -> bool {
        !self.unindexed_heights.contains(&height)
    }

    /// Returns the oldest height whose block the node serves.
    pub(in crate::node) fn earliest_height(&self) -> u64 {
        self.faults.pruned_below.max(1)
    }

    fn note_block(&mut self, block: &BlockRecord) {
        self.faults.has_just_started = false;
        if !block.txs.is_empty() && take_one(&mut self.faults.unindexed_blocks) {
            self.unindexed_heights.insert(block.height);
        }
    }

    /// Returns a block by upper-case hash.
    pub fn block_by_hash(&self, hash: &str) -> Option<&Arc<BlockRecord>> {
        self.history.blocks.iter().find(|block| block.hash == hash)
    }

    /// Returns the transactions of the mempool in order.
    pub fn mempool_txs(&self) -> impl ExactSizeIterator<Item = &Vec<u8>> {
        self.mempool.iter()
    }

    /// Returns the application hash after the newest block, in upper-case hex.
    pub fn app_hash_hex(&self) -> String {
        hex::encode_upper(self.history.app_hash())
    }

    pub(in crate::node) fn validator(&self) -> &Validator {
        &self.validator
    }

    pub(in crate::node) fn genesis(&self) -> &ChainGenesis {
        &self.genesis
    }

    /// Tells whether `status` reports `catching_up`.
    pub(in crate::node) fn is_catching_up(&self) -> bool {
        self.is_replica && self.faults.lag_blocks > 0
    }

    /// Takes the transactions that other nodes must be offered.
    pub(in crate::node) fn take_gossip(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.gossip_queue)
    }

    /// Returns height and time of the last block, the context of CheckTx and queries.
    pub fn block_context(&self) -> svc_ledger::BlockContext {
        self.history.block_context(&self.genesis.time)
    }

    /// Runs CheckTx; returns its outcome and, for a transaction that passes, the new check state.
    fn run_check_tx(&self, bytes: &[u8]) -> (TxOutcome, Option<LedgerState>) {
        let mut state = (*self.check_state).clone();
        match svc_ledger::run_ante(&mut state, &self.chain, self.block_context(), bytes, ExecMode::Check) {
            Ok(passed) => {
                let (gas_wanted, gas_used) = (passed.gas.limit(), passed.gas.used());
                (TxOutcome { gas_wanted, gas_used, events: passed.events, ..TxOutcome::default() }, Some(state))
            }
            Err((error, gas)) => (refused_outcome(&error, gas.limit(), gas.used()), None),
        }
    }

    /// Runs CheckTx without a change of the mempool.
    pub(in crate::node) fn dry_run_check_tx(&self, bytes: &[u8]) -> TxOutcome {
        self.run_check_tx(bytes).0
    }

    pub(in crate::node) fn check_tx(&mut self, bytes: Vec<u8>) -> CheckTxOutcome {
        let hash = tx::tx_hash(&bytes);
        if bytes.len() > MAX_TX_BYTES {
            return CheckTxOutcome::MempoolRejection(format!(
                "Tx too large. Max size is {MAX_TX_BYTES}, but got {}",
                bytes.len()
            ));
        }
        // A transaction that failed in its block leaves the cache: the same bytes can be sent again.
        let has_executed = self.find_tx(&hash).is_some_and(|(block, position)| block.tx_outcomes[position].code == 0);
        if self.tx_cache.contains(&hash) || has_executed {
            return CheckTxOutcome::MempoolRejection("tx already exists in cache".to_owned());
        }
        if self.faults.has_just_started {
            let error = LedgerError::sdk(
                4,
                format!(
                    "signature verification failed; please verify account number (0) and chain-id ({}): \
                     (unable to verify single signer signature): unauthorized",
                    self.chain.chain_id
                ),
            );
            return CheckTxOutcome::Response(refused_outcome(&error, 0, 0));
        }
        if self.mempool.len() >= MEMPOOL_SIZE || self.faults.mempool_full {
            let count = if self.faults.mempool_full { MEMPOOL_SIZE } else { self.mempool.len() };
            return CheckTxOutcome::MempoolRejection(format!(
                "mempool is full: number of txs {count} (max: {MEMPOOL_SIZE})"
            ));
        }
        if let Some(ordered) = self.faults.take_refusal() {
            let (code, codespace, log) = (ordered.code, ordered.codespace, ordered.log);
            if ordered.is_relayed {
                self.relayed_txs.push(bytes);
            }
            return CheckTxOutcome::Response(TxOutcome { code, codespace, log, ..TxOutcome::default() });
        }
        let (outcome, state) = self.run_check_tx(&bytes);
        if let Some(state) = state {
            self.check_state = Arc::new(state);
            if !take_one(&mut self.faults.drop_after_check) {
                if !self.faults.no_gossip {
                    self.gossip_queue.push(bytes.clone());
                }
                self.tx_cache.insert(hash);
                self.mempool.push_back(bytes);
            }
        }
        CheckTxOutcome::Response(outcome)
    }

    /// Takes the relayed transactions that the mempools of others accept.
    fn take_relayed(&mut self) -> Vec<Vec<u8>> {
        let (block, mut state) = (self.block_context(), (*self.history.committed_state()).clone());
        let mut relayed = std::mem::take(&mut self.relayed_txs);
        relayed.retain(|bytes| {
            let mut next = state.clone();
            let passes = svc_ledger::run_ante(&mut next, &self.chain, block, bytes, ExecMode::Check).is_ok();
            if passes {
                state = next;
            }
            passes
        });
        relayed
    }

    /// Takes the transactions of the next block from the mempool.
    fn reap_txs(&mut self) -> Vec<Vec<u8>> {
        if self.faults.take_block_hold() {
            return Vec::new();
        }
        let (mut txs, mut bytes) = (self.take_relayed(), 0);
        while let Some(next) = self.mempool.front() {
            bytes += next.len() as i64;
            if bytes > MAX_DATA_BYTES {
                break;
            }
            txs.extend(self.mempool.pop_front());
        }
        if take_one(&mut self.faults.reorder_blocks) {
            txs.reverse();
        }
        txs
    }

    /// Produces the next block from the mempool.
    pub(in crate::node) fn produce_block(&mut self, wall: &Timestamp) -> Result<Arc<BlockRecord>, SealError> {
        let last = self.block_context();
        let time = self.clock.next_header_time(&last.time, wall);
        let txs = self.reap_txs();
        for bytes in &txs {
            self.tx_cache.remove(&tx::tx_hash(bytes));
        }
        let block = self.history.append_block(&self.chain, &self.validator, time, txs)?;
        self.newest_at = Some(Instant::now());
        self.note_block(&block);
        self.recheck();
        Ok(block)
    }

    /// Applies a stored block; fails if the application hash differs.
    pub(in crate::node) fn replay_block(
        &mut self,
        time: Timestamp,
        txs: Vec<Vec<u8>>,
        app_hash: &[u8],
    ) -> Result<Arc<BlockRecord>, ReplayError> {
        self.follow_upgrade()?;
        let block = self.history.append_block(&self.chain, &self.validator, time, txs)?;
        if self.history.app_hash() != app_hash {
            return Err(ReplayError::AppHashMismatch { height: block.height });
        }
        self.check_state = self.history.committed_state();
        Ok(block)
    }

    /// Applies a block of another node of this chain; fails if the application hash differs.
    pub(in crate::node) fn apply_block(&mut self, made: &BlockRecord) -> Result<Arc<BlockRecord>, ReplayError> {
        let app_hash = hex::decode(&made.app_hash).unwrap_or_default();
        let block = self.replay_block(made.time, made.txs.clone(), &app_hash)?;
        self.note_block(&block);
        let included: HashSet<String> = block.txs.iter().map(|bytes| tx::tx_hash(bytes)).collect();
        self.mempool.retain(|bytes| !included.contains(&tx::tx_hash(bytes)));
        self.tx_cache.retain(|hash| !included.contains(hash));
        self.recheck();
        Ok(block)
    }

    /// Checks the mempool against the new state and drops the transactions that fail.
    fn recheck(&mut self) {
        let block = self.block_context();
        let mut check = (*self.history.committed_state()).clone();
        for bytes in std::mem::take(&mut self.mempool) {
            let mut state = check.clone();
            let is_kept = svc_ledger::run_ante(&mut state, &self.chain, block, &bytes, ExecMode::Check).is_ok()
                && !take_one(&mut self.faults.drop_on_recheck);
            if is_kept {
                check = state;
                self.mempool.push_back(bytes);
            } else {
                self.tx_cache.remove(&tx::tx_hash(&bytes));
            }
        }
        self.check_state = Arc::new(check);
    }

    /// Empties the mempool, like a restart of the process.
    pub(in crate::node) fn clear_mempool(&mut self) {
        self.mempool.clear();
        self.tx_cache.clear();
        self.check_state = self.history.committed_state();
    }

    /// Saves the chain as a snapshot under a name.
    pub(in crate::node) fn save_snapshot(&mut self, name: &str) {
        self.snapshots.insert(name.to_owned(), self.history.clone());
    }

    /// Resets the chain to a snapshot; returns false for an unknown name.
    pub(in crate::node) fn load_snapshot(&mut self, name: &str) -> Result<bool, ReplayError> {
        let Some(history) = self.snapshots.get(name) else { return Ok(false) };
        self.history = history.clone();
        self.clear_mempool();
        self.become_generation_of_newest()?;
        Ok(true)
    }

    /// Forgets the blocks above a height. The next ones are others, since their times are.
    pub(in crate::node) fn go_back(&mut self, height: u64) -> Result<(), ReplayError> {
        self.history.go_back(height);
        self.unindexed_heights.retain(|unindexed| *unindexed <= height);
        self.clear_mempool();
        self.clock.advance(OTHER_TIME_NANOS);
        Ok(self.become_generation_of_newest()?)
    }

    /// Resets the chain to the genesis.
    pub(in crate::node) fn reset_to_genesis(&mut self) -> Result<(), ReplayError> {
        self.history = ChainHistory::new(Arc::clone(&self.genesis.state));
        self.clear_mempool();
        Ok(self.become_generation_of_newest()?)
    }
}

fn refused_outcome(error: &LedgerError, gas_wanted: u64, gas_used: u64) -> TxOutcome {
    TxOutcome {
        code: error.code,
        codespace: error.codespace.to_owned(),
        log: error.text.clone(),
        gas_wanted,
        gas_used,
        ..TxOutcome::default()
    }
}
