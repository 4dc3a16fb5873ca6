//! The blocks of a chain with the state after each. A snapshot is a copy of it; a replay rebuilds it.

use std::{collections::HashMap, sync::Arc};

use prost_types::Timestamp;
use svc_wire::tx;

use super::seal::{BlockProposal, BlockSeal, SealError, Validator};
use svc_ledger::{BlockContext, ChainConfig, LedgerEvent, LedgerState, TxOutcome};

/// A block with its results, events and seal.
#[derive(Debug, Clone)]
pub struct BlockRecord {
    /// Height.
    pub height: u64,
    /// Header time.
    pub time: Timestamp,
    /// Transactions in order.
    pub txs: Vec<Vec<u8>>,
    /// Results of the transactions, in the same order.
    pub tx_outcomes: Vec<TxOutcome>,
    /// Events of the begin and the end of the block.
    pub events: Vec<LedgerEvent>,
    /// Block hash, upper-case hex.
    pub hash: String,
    /// Application hash after the block, upper-case hex.
    pub app_hash: String,
    pub(crate) seal: BlockSeal,
}

#[derive(Clone)]
pub struct ChainHistory {
    pub blocks: Vec<Arc<BlockRecord>>,
    /// State after each height. Equal states are shared; different states share their structure.
    states: Vec<Arc<LedgerState>>,
    tx_index: HashMap<String, (u64, usize)>,
    app_hash: [u8; 32],
}

impl ChainHistory {
    pub fn new(genesis: Arc<LedgerState>) -> Self {
        let app_hash = genesis.hash();
        Self { blocks: Vec::new(), states: vec![genesis], tx_index: HashMap::new(), app_hash }
    }

    pub fn height(&self) -> u64 {
        self.blocks.len() as u64
    }

    pub fn app_hash(&self) -> [u8; 32] {
        self.app_hash
    }

    pub fn state(&self) -> &LedgerState {
        // Never empty: the first state is that of the genesis.
        &self.states[self.states.len() - 1]
    }

    pub fn committed_state(&self) -> Arc<LedgerState> {
        Arc::clone(&self.states[self.states.len() - 1])
    }

    pub fn state_at(&self, height: u64) -> Option<&LedgerState> {
        self.states.get(usize::try_from(height).ok()?).map(|state| &**state)
    }

    pub fn block(&self, height: u64) -> Option<&Arc<BlockRecord>> {
        self.blocks.get(usize::try_from(height.checked_sub(1)?).ok()?)
    }

    pub fn find_tx(&self, hash: &str) -> Option<(&Arc<BlockRecord>, usize)> {
        let (height, position) = self.tx_index.get(hash)?;
        Some((self.block(*height)?, *position))
    }

    /// Returns height and time of the last block; those of the genesis before the first block.
    pub fn block_context(&self, genesis_time: &Timestamp) -> BlockContext {
        BlockContext { height: self.height(), time: self.blocks.last().map_or(*genesis_time, |block| block.time) }
    }

    /// Forgets the blocks above a height.
    pub fn go_back(&mut self, height: u64) {
        let kept = usize::try_from(height).unwrap_or(usize::MAX);
        self.blocks.truncate(kept);
        self.states.truncate(kept.saturating_add(1));
        self.tx_index.retain(|_, (included, _)| *included <= height);
        self.app_hash = self.state().hash();
    }

    /// Seals and runs the next block.
    pub fn append_block(
        &mut self,
        chain: &ChainConfig,
        validator: &Validator,
        time: Timestamp,
        txs: Vec<Vec<u8>>,
    ) -> Result<Arc<BlockRecord>, SealError> {
        let block = BlockContext { height: self.height() + 1, time };
        let last = self.blocks.last();
        let seal = validator.seal(&BlockProposal {
            height: block.height,
            time,
            txs: &txs,
            last_seal: last.map(|last| &last.seal),
            app_hash: self.app_hash,
            last_results: last.map(|last| last.tx_outcomes.as_slice()).unwrap_or_default(),
        })?;
        let mut state = self.state().clone();
        let mut events = svc_ledger::begin_block(&mut state, chain, block);
        let outcomes: Vec<_> = txs.iter().map(|bytes| svc_ledger::deliver(&mut state, chain, block, bytes)).collect();
        events.extend(svc_ledger::end_block(&mut state, chain, block));
        let app_hash = state.hash();
        self.states.push(if app_hash == self.app_hash { self.committed_state() } else { Arc::new(state) });
        self.app_hash = app_hash;
        for (position, bytes) in txs.iter().enumerate() {
            self.tx_index.insert(tx::tx_hash(bytes), (block.height, position));
        }
        let record = Arc::new(BlockRecord {
            height: block.height,
            time,
            txs,
            tx_outcomes: outcomes,
            events,
            hash: hex::encode_upper(seal.id.hash.as_bytes()),
            app_hash: hex::encode_upper(app_hash),
            seal,
        });
        self.blocks.push(Arc::clone(&record));
        Ok(record)
    }
}
