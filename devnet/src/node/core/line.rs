//! A line of blocks with the state after each: what a snapshot keeps and a replay rebuilds.

use std::{collections::HashMap, sync::Arc};

use prost_types::Timestamp;
use svc_wire::tx;

use crate::{
    ledger::{self, Block, Chain, Event, State, TxOutcome},
    node::seal::{Content, Seal, SealError, Validator},
};

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
    /// Events of its begin and its end.
    pub events: Vec<Event>,
    /// Block hash, upper-case hex.
    pub hash: String,
    /// Application hash after it, upper-case hex.
    pub app_hash: String,
    pub(crate) seal: Seal,
}

#[derive(Clone)]
pub struct Line {
    pub blocks: Vec<Arc<BlockRecord>>,
    /// State after each height; shared where nothing changed, and in structure where little did.
    history: Vec<Arc<State>>,
    index: HashMap<String, (u64, usize)>,
    app_hash: [u8; 32],
}

impl Line {
    pub fn new(genesis: State) -> Self {
        let app_hash = genesis.hash();
        Self { blocks: Vec::new(), history: vec![Arc::new(genesis)], index: HashMap::new(), app_hash }
    }

    pub fn height(&self) -> u64 {
        self.blocks.len() as u64
    }

    pub fn app_hash(&self) -> [u8; 32] {
        self.app_hash
    }

    pub fn state(&self) -> &State {
        // There is one for the genesis.
        &self.history[self.history.len() - 1]
    }

    pub fn committed(&self) -> Arc<State> {
        Arc::clone(&self.history[self.history.len() - 1])
    }

    pub fn state_at(&self, height: u64) -> Option<&State> {
        self.history.get(usize::try_from(height).ok()?).map(|state| &**state)
    }

    pub fn block(&self, height: u64) -> Option<&Arc<BlockRecord>> {
        self.blocks.get(usize::try_from(height.checked_sub(1)?).ok()?)
    }

    pub fn locate(&self, hash: &str) -> Option<(&Arc<BlockRecord>, usize)> {
        let (height, position) = self.index.get(hash)?;
        Some((self.block(*height)?, *position))
    }

    /// The last block, or the genesis as if it were one.
    pub fn context(&self, genesis_time: &Timestamp) -> Block {
        Block { height: self.height(), time: self.blocks.last().map_or(*genesis_time, |block| block.time) }
    }

    /// Runs the next block.
    pub fn extend(
        &mut self,
        chain: &Chain,
        validator: &Validator,
        time: Timestamp,
        txs: Vec<Vec<u8>>,
    ) -> Result<Arc<BlockRecord>, SealError> {
        let block = Block { height: self.height() + 1, time };
        let last = self.blocks.last();
        let seal = validator.seal(&Content {
            height: block.height,
            time,
            txs: &txs,
            last: last.map(|last| &last.seal),
            app_hash: self.app_hash,
            last_results: last.map(|last| last.outcomes.as_slice()).unwrap_or_default(),
        })?;
        let mut state = self.state().clone();
        let mut events = ledger::begin_block(&mut state, chain, block);
        let outcomes: Vec<_> = txs.iter().map(|bytes| ledger::deliver(&mut state, chain, block, bytes)).collect();
        events.extend(ledger::end_block(&mut state, chain, block));
        let app_hash = state.hash();
        self.history.push(if app_hash == self.app_hash { self.committed() } else { Arc::new(state) });
        self.app_hash = app_hash;
        for (position, bytes) in txs.iter().enumerate() {
            self.index.insert(tx::hash(bytes), (block.height, position));
        }
        let record = Arc::new(BlockRecord {
            height: block.height,
            time,
            txs,
            outcomes,
            events,
            hash: hex::encode_upper(seal.id.hash.as_bytes()),
            app_hash: hex::encode_upper(app_hash),
            seal,
        });
        self.blocks.push(Arc::clone(&record));
        Ok(record)
    }
}
