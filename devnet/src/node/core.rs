//! The chain and its mempool, without sockets and without a clock.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use prost::Message;
use prost_types::Timestamp;
use sha2::{Digest, Sha256};
use svc_wire::{
    instant,
    proto::cosmos::{
        base::abci::v1beta1::{GasInfo, Result as SimulationResult},
        tx::v1beta1::{SimulateRequest, SimulateResponse},
    },
    proto::tendermint,
    tx,
};

use super::Faults;
use crate::ledger::{self, Block, Chain, LedgerError, Mode, State, TxOutcome};

/// A block with everything that is told about it.
#[derive(Debug, Clone)]
pub struct BlockRecord {
    /// Height.
    pub height: u64,
    /// Header time.
    pub time: Timestamp,
    /// Transactions in order.
    pub txs: Vec<Vec<u8>>,
    /// Their results.
    pub outcomes: Vec<TxOutcome>,
    /// Block hash, upper-case hex.
    pub hash: String,
    /// Hash of the block before.
    pub last_hash: String,
    /// Application hash after the block before, upper-case hex.
    pub app_hash: String,
}

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

/// A chain in memory.
pub struct Core {
    /// What is fixed.
    pub chain: Chain,
    pub(super) faults: Faults,
    committed: State,
    check: State,
    /// State after each height; shared structure keeps this small.
    history: Vec<State>,
    blocks: Vec<Arc<BlockRecord>>,
    mempool: VecDeque<Vec<u8>>,
    cache: HashSet<String>,
    index: HashMap<String, (u64, usize)>,
    app_hash: [u8; 32],
    genesis_time: Timestamp,
}

impl Core {
    pub(super) fn new(chain: Chain, genesis: State, genesis_time: Timestamp) -> Self {
        let app_hash = Sha256::digest(chain.chain_id.as_bytes()).into();
        Self {
            chain,
            faults: Faults::default(),
            committed: genesis.clone(),
            check: genesis.clone(),
            history: vec![genesis],
            blocks: Vec::new(),
            mempool: VecDeque::new(),
            cache: HashSet::new(),
            index: HashMap::new(),
            app_hash,
            genesis_time,
        }
    }

    /// Newest height; 0 before the first block.
    pub fn height(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Newest state.
    pub fn state(&self) -> &State {
        &self.committed
    }

    /// Newest block.
    pub fn latest(&self) -> Option<&Arc<BlockRecord>> {
        self.blocks.last()
    }

    /// A block by height.
    pub fn block(&self, height: u64) -> Option<&Arc<BlockRecord>> {
        self.blocks.get(usize::try_from(height.checked_sub(1)?).ok()?)
    }

    /// All blocks in order.
    pub fn blocks(&self) -> &[Arc<BlockRecord>] {
        &self.blocks
    }

    /// Where a transaction is, by upper-case hash: its block and its position there.
    pub fn locate(&self, hash: &str) -> Option<(&Arc<BlockRecord>, usize)> {
        let (height, position) = self.index.get(hash)?;
        Some((self.block(*height)?, *position))
    }

    /// Transactions that wait.
    pub fn waiting(&self) -> impl ExactSizeIterator<Item = &Vec<u8>> {
        self.mempool.iter()
    }

    pub(super) fn app_hash_hex(&self) -> String {
        hex::encode_upper(self.app_hash)
    }

    /// Header of the last block, as CheckTx and queries see it.
    fn context(&self) -> Block {
        Block { height: self.height(), time: self.latest().map_or(self.genesis_time, |block| block.time) }
    }

    pub(super) fn check_tx(&mut self, bytes: Vec<u8>) -> Checked {
        let hash = tx::hash(&bytes);
        if bytes.len() > MAX_TX_BYTES {
            return Checked::Mempool(format!("tx too large. Max size is {MAX_TX_BYTES}, but got {}", bytes.len()));
        }
        if self.cache.contains(&hash) || self.index.contains_key(&hash) {
            return Checked::Mempool("tx already exists in cache".to_owned());
        }
        if self.mempool.len() >= MEMPOOL_SIZE {
            let count = self.mempool.len();
            return Checked::Mempool(format!("mempool is full: number of txs {count} (max: {MEMPOOL_SIZE})"));
        }
        let block = self.context();
        let mut state = self.check.clone();
        match ledger::check(&mut state, &self.chain, block, &bytes, Mode::Check) {
            Ok(passed) => {
                self.check = state;
                if self.faults.drop_after_check > 0 {
                    self.faults.drop_after_check -= 1;
                } else {
                    self.cache.insert(hash);
                    self.mempool.push_back(bytes);
                }
                Checked::Answer(TxOutcome {
                    gas_wanted: passed.gas.limit(),
                    gas_used: passed.gas.used(),
                    ..TxOutcome::default()
                })
            }
            Err((error, gas)) => Checked::Answer(refusal(&error, gas.limit(), gas.used())),
        }
    }

    /// Makes the next block from everything that waits.
    pub(super) fn produce(&mut self, now: Timestamp) -> BlockRecord {
        let last = self.context();
        let height = last.height + 1;
        // Header time rises strictly, whatever the system clock does.
        let time = instant::from_nanos(instant::nanos(&now).max(instant::nanos(&last.time) + 1_000_000));
        let block = Block { height, time };
        let txs: Vec<Vec<u8>> = if self.faults.hold_inclusion { Vec::new() } else { self.mempool.drain(..).collect() };
        let mut state = self.committed.clone();
        let outcomes: Vec<_> = txs.iter().map(|bytes| ledger::deliver(&mut state, &self.chain, block, bytes)).collect();
        ledger::end_block(&mut state, &self.chain, block);
        let app_hash = self.app_hash_hex();
        for (position, bytes) in txs.iter().enumerate() {
            let hash = tx::hash(bytes);
            self.cache.remove(&hash);
            self.index.insert(hash, (height, position));
        }
        self.commit(state, &txs, &outcomes);
        let last_hash = self.latest().map(|block| block.hash.clone()).unwrap_or_default();
        let identity =
            format!("{}/{height}/{}/{last_hash}/{app_hash}", self.chain.chain_id, instant::rfc3339_nanos(&time));
        let mut hasher = Sha256::new_with_prefix(identity);
        txs.iter().for_each(|bytes| hasher.update(Sha256::digest(bytes)));
        let hash = hex::encode_upper(hasher.finalize());
        let record = BlockRecord { height, time, txs, outcomes, hash, last_hash, app_hash };
        self.blocks.push(Arc::new(record.clone()));
        self.recheck();
        record
    }

    /// The application hash commits to the one before and to what the block changed: its transactions and their results.
    fn commit(&mut self, state: State, txs: &[Vec<u8>], outcomes: &[TxOutcome]) {
        let mut hasher = Sha256::new_with_prefix(self.app_hash);
        for (bytes, outcome) in txs.iter().zip(outcomes) {
            hasher.update(Sha256::digest(bytes));
            hasher.update(outcome.code.to_be_bytes());
            hasher.update(&outcome.data);
        }
        if !txs.is_empty() {
            self.app_hash = hasher.finalize().into();
        }
        self.history.push(state.clone());
        self.check = state.clone();
        self.committed = state;
    }

    /// Checks what still waits against the new state, and drops what no longer passes.
    fn recheck(&mut self) {
        let block = self.context();
        let waiting = std::mem::take(&mut self.mempool);
        for bytes in waiting {
            let mut state = self.check.clone();
            if ledger::check(&mut state, &self.chain, block, &bytes, Mode::Check).is_ok() {
                self.check = state;
                self.mempool.push_back(bytes);
            } else {
                self.cache.remove(&tx::hash(&bytes));
            }
        }
    }

    /// Answers `abci_query`; height 0 is the newest.
    pub fn query(&mut self, path: &str, data: &[u8], height: u64) -> (u64, Result<Vec<u8>, LedgerError>) {
        if path == "/cosmos.tx.v1beta1.Service/Simulate" {
            return (self.height(), self.simulate(data));
        }
        let height = if height == 0 { self.height() } else { height };
        let answer = match usize::try_from(height).ok().and_then(|at| self.history.get(at)) {
            Some(state) => ledger::query(state, &self.chain, path, data),
            None => Err(LedgerError::sdk(
                18,
                format!(
                    "cannot query with height in the future; please provide a valid height (newest is {})",
                    self.height()
                ),
            )),
        };
        (height, answer)
    }

    fn simulate(&mut self, data: &[u8]) -> Result<Vec<u8>, LedgerError> {
        if let Some((left, text)) = &mut self.faults.fail_simulations
            && *left > 0
        {
            *left -= 1;
            return Err(LedgerError::new("sdk", 6, text.clone()));
        }
        let request = SimulateRequest::decode(data).map_err(|error| LedgerError::sdk(18, error))?;
        if request.tx_bytes.is_empty() {
            return Err(LedgerError::sdk(18, "empty txBytes is not allowed"));
        }
        let outcome = ledger::simulate(&self.check, &self.chain, self.context(), &request.tx_bytes);
        if outcome.code != 0 {
            // The SDK turns every failure into a gRPC status of kind Unknown; the code is lost.
            let text = format!("{} with gas used: '{}'", outcome.log, outcome.gas_used);
            return Err(LedgerError::new("sdk", 6, text));
        }
        let events = outcome.events.iter().map(|event| tendermint::abci::Event {
            r#type: event.kind.clone(),
            attributes: event
                .attributes
                .iter()
                .map(|(key, value)| tendermint::abci::EventAttribute {
                    key: key.clone(),
                    value: value.clone(),
                    index: true,
                })
                .collect(),
        });
        let result = SimulationResult {
            data: outcome.data.clone(),
            log: String::new(),
            events: events.collect(),
            msg_responses: tx::message_responses(&outcome.data),
        };
        let gas_info = GasInfo { gas_wanted: outcome.gas_wanted, gas_used: outcome.gas_used };
        Ok(SimulateResponse { gas_info: Some(gas_info), result: Some(result) }.encode_to_vec())
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
