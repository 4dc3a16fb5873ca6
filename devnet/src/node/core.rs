//! The chain and its mempool, without sockets and without a clock.

mod line;
mod service;

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    sync::Arc,
};

use prost_types::Timestamp;
use serde_json::Value;
use svc_wire::tx;

pub use line::BlockRecord;
use line::Line;

use super::{
    clock::{Clock, Pace},
    faults::{Faults, take},
    home::StoredBlock,
    seal::{SealError, Validator},
};
use crate::ledger::{self, Chain, Genesis, LedgerError, Mode, State, TxOutcome};

/// What CheckTx says.
pub enum Checked {
    /// In the mempool, or refused with a code.
    Answer(TxOutcome),
    /// The mempool itself refuses, as a JSON-RPC error with this text.
    Mempool(String),
}

/// Transactions that may wait for a block.
const MEMPOOL_SIZE: usize = 5_000;
/// Longest transaction.
const MAX_TX_BYTES: usize = 1024 * 1024;
/// Transactions of a block, in bytes: well within a block's own bound, with its header, commit and framing.
const MAX_DATA_BYTES: i64 = super::seal::BLOCK_MAX_BYTES / 2;

/// What a chain is made from.
#[derive(Debug, Clone)]
pub struct Origin {
    /// What is fixed.
    pub chain: Chain,
    /// State before the first block.
    pub genesis: Genesis,
    /// Its time.
    pub genesis_time: Timestamp,
}

/// A block could not be taken from disk.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The results differ from those that were recorded: the ledger's rules have changed since.
    #[error("block {height} ends in another state than it did: this chain was made by another version")]
    Differs {
        /// Its height.
        height: u64,
    },
    /// It cannot be sealed.
    #[error(transparent)]
    Seal(#[from] SealError),
}

/// A chain in memory.
pub struct Core {
    /// What is fixed.
    pub chain: Chain,
    pub(super) faults: Faults,
    pub(super) clock: Clock,
    origin: Origin,
    validator: Validator,
    line: Line,
    check: Arc<State>,
    mempool: VecDeque<Vec<u8>>,
    cache: HashSet<String>,
    /// Taken into the mempool and not yet offered to other nodes.
    accepted: Vec<Vec<u8>>,
    /// Takes its blocks from another node.
    pub(super) is_replica: bool,
    snapshots: BTreeMap<String, Line>,
}

impl Core {
    pub(super) fn new(origin: Origin, pace: Pace) -> Result<Self, SealError> {
        let validator = Validator::new(&origin.chain.chain_id)?;
        let line = Line::new(origin.genesis.state(&origin.chain));
        Ok(Self {
            chain: origin.chain.clone(),
            faults: Faults::default(),
            clock: Clock::new(pace),
            validator,
            check: line.committed(),
            line,
            origin,
            mempool: VecDeque::new(),
            cache: HashSet::new(),
            accepted: Vec::new(),
            is_replica: false,
            snapshots: BTreeMap::new(),
        })
    }

    /// Newest height; 0 before the first block.
    pub fn height(&self) -> u64 {
        self.line.height()
    }

    /// Newest state.
    pub fn state(&self) -> &State {
        self.line.state()
    }

    /// Newest block.
    pub fn latest(&self) -> Option<&Arc<BlockRecord>> {
        self.line.blocks.last()
    }

    /// A block by height.
    pub fn block(&self, height: u64) -> Option<&Arc<BlockRecord>> {
        self.line.block(height)
    }

    /// All blocks in order.
    pub fn blocks(&self) -> &[Arc<BlockRecord>] {
        &self.line.blocks
    }

    /// Where a transaction is, by upper-case hash: its block and its position there.
    pub fn locate(&self, hash: &str) -> Option<(&Arc<BlockRecord>, usize)> {
        self.line.locate(hash)
    }

    /// A block by upper-case hash.
    pub fn block_by_hash(&self, hash: &str) -> Option<&Arc<BlockRecord>> {
        self.line.blocks.iter().find(|block| block.hash == hash)
    }

    /// Transactions that wait.
    pub fn waiting(&self) -> impl ExactSizeIterator<Item = &Vec<u8>> {
        self.mempool.iter()
    }

    /// Application hash after the newest block, upper-case hex.
    pub fn app_hash_hex(&self) -> String {
        hex::encode_upper(self.line.app_hash())
    }

    pub(super) fn validator(&self) -> &Validator {
        &self.validator
    }

    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Whether it is known to be behind.
    pub(super) fn is_catching_up(&self) -> bool {
        self.is_replica && self.faults.lag_blocks > 0
    }

    /// What other nodes are to be offered, once.
    pub(super) fn take_accepted(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.accepted)
    }

    /// The genesis document's `app_state`.
    pub(super) fn app_state(&self) -> Value {
        self.origin.genesis.app_state(&self.chain)
    }

    /// Header of the last block, as CheckTx and queries see it.
    pub fn context(&self) -> ledger::Block {
        self.line.context(&self.origin.genesis_time)
    }

    /// What CheckTx says, and the check state behind a transaction that passes.
    fn checked(&self, bytes: &[u8]) -> (TxOutcome, Option<State>) {
        let mut state = (*self.check).clone();
        match ledger::check(&mut state, &self.chain, self.context(), bytes, Mode::Check) {
            Ok(passed) => {
                let (gas_wanted, gas_used) = (passed.gas.limit(), passed.gas.used());
                (TxOutcome { gas_wanted, gas_used, events: passed.events, ..TxOutcome::default() }, Some(state))
            }
            Err((error, gas)) => (refusal(&error, gas.limit(), gas.used()), None),
        }
    }

    /// CheckTx alone: nothing enters the mempool.
    pub(super) fn check_only(&self, bytes: &[u8]) -> TxOutcome {
        self.checked(bytes).0
    }

    pub(super) fn check_tx(&mut self, bytes: Vec<u8>) -> Checked {
        let hash = tx::hash(&bytes);
        if bytes.len() > MAX_TX_BYTES {
            return Checked::Mempool(format!("tx too large. Max size is {MAX_TX_BYTES}, but got {}", bytes.len()));
        }
        // What failed in its block leaves the cache: its bytes may come again.
        let has_executed = self.locate(&hash).is_some_and(|(block, position)| block.outcomes[position].code == 0);
        if self.cache.contains(&hash) || has_executed {
            return Checked::Mempool("tx already exists in cache".to_owned());
        }
        if self.mempool.len() >= MEMPOOL_SIZE || self.faults.mempool_full {
            let count = if self.faults.mempool_full { MEMPOOL_SIZE } else { self.mempool.len() };
            return Checked::Mempool(format!("mempool is full: number of txs {count} (max: {MEMPOOL_SIZE})"));
        }
        if let Some(ordered) = self.faults.refusal() {
            let (code, codespace, log) = (ordered.code, ordered.codespace, ordered.log);
            return Checked::Answer(TxOutcome { code, codespace, log, ..TxOutcome::default() });
        }
        let (outcome, state) = self.checked(&bytes);
        if let Some(state) = state {
            self.check = Arc::new(state);
            if !take(&mut self.faults.drop_after_check) {
                if !self.faults.no_gossip {
                    self.accepted.push(bytes.clone());
                }
                self.cache.insert(hash);
                self.mempool.push_back(bytes);
            }
        }
        Checked::Answer(outcome)
    }

    /// Transactions of the next block.
    fn reap(&mut self) -> Vec<Vec<u8>> {
        if self.faults.holds() {
            return Vec::new();
        }
        let (mut txs, mut bytes) = (Vec::new(), 0);
        while let Some(next) = self.mempool.front() {
            bytes += next.len() as i64;
            if bytes > MAX_DATA_BYTES {
                break;
            }
            txs.extend(self.mempool.pop_front());
        }
        if take(&mut self.faults.reorder_blocks) {
            txs.reverse();
        }
        txs
    }

    /// Makes the next block from everything that waits.
    pub(super) fn produce(&mut self, wall: &Timestamp) -> Result<Arc<BlockRecord>, SealError> {
        let last = self.context();
        let time = self.clock.next(&last.time, wall);
        let txs = self.reap();
        for bytes in &txs {
            self.cache.remove(&tx::hash(bytes));
        }
        let block = self.line.extend(&self.chain, &self.validator, time, txs)?;
        self.recheck();
        Ok(block)
    }

    /// Takes a block from disk.
    pub(super) fn replay(
        &mut self,
        time: Timestamp,
        txs: Vec<Vec<u8>>,
        app_hash: &[u8],
    ) -> Result<Arc<BlockRecord>, ReplayError> {
        let block = self.line.extend(&self.chain, &self.validator, time, txs)?;
        if self.line.app_hash() != app_hash {
            return Err(ReplayError::Differs { height: block.height });
        }
        self.check = self.line.committed();
        Ok(block)
    }

    /// Takes a block from another node of this chain.
    pub(super) fn follow(&mut self, made: &BlockRecord) -> Result<Arc<BlockRecord>, ReplayError> {
        let StoredBlock { time, txs, app_hash } = made.into();
        let block = self.replay(time.unwrap_or_default(), txs, &app_hash)?;
        let included: HashSet<String> = block.txs.iter().map(|bytes| tx::hash(bytes)).collect();
        self.mempool.retain(|bytes| !included.contains(&tx::hash(bytes)));
        self.cache.retain(|hash| !included.contains(hash));
        self.recheck();
        Ok(block)
    }

    /// Checks what still waits against the new state, and drops what no longer passes.
    fn recheck(&mut self) {
        let block = self.context();
        let mut check = (*self.line.committed()).clone();
        for bytes in std::mem::take(&mut self.mempool) {
            let mut state = check.clone();
            let is_kept = ledger::check(&mut state, &self.chain, block, &bytes, Mode::Check).is_ok()
                && !take(&mut self.faults.drop_on_recheck);
            if is_kept {
                check = state;
                self.mempool.push_back(bytes);
            } else {
                self.cache.remove(&tx::hash(&bytes));
            }
        }
        self.check = Arc::new(check);
    }

    /// Forgets what waits, as a process that ended.
    pub(super) fn forget_mempool(&mut self) {
        self.mempool.clear();
        self.cache.clear();
        self.check = self.line.committed();
    }

    /// Keeps the chain as it is under a name.
    pub(super) fn save(&mut self, name: &str) {
        self.snapshots.insert(name.to_owned(), self.line.clone());
    }

    /// Takes the chain back to a snapshot; false when there is none of this name.
    pub(super) fn load(&mut self, name: &str) -> bool {
        let Some(line) = self.snapshots.get(name) else { return false };
        self.line = line.clone();
        self.forget_mempool();
        true
    }

    /// Goes back to the genesis.
    pub(super) fn rewind(&mut self) {
        self.line = Line::new(self.origin.genesis.state(&self.chain));
        self.forget_mempool();
    }
}

fn refusal(error: &LedgerError, gas_wanted: u64, gas_used: u64) -> TxOutcome {
    TxOutcome {
        code: error.code,
        codespace: error.codespace.to_owned(),
        log: error.text.clone(),
        gas_wanted,
        gas_used,
        ..TxOutcome::default()
    }
}
