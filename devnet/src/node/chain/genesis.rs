//! The origin of a chain.

use std::sync::Arc;

use prost_types::Timestamp;
use serde_json::Value;
use svc_ledger::{AppStateError, ChainConfig, GenesisState, LedgerState};

/// The configuration and the genesis of a chain.
#[derive(Debug, Clone)]
pub struct GenesisDocument {
    /// Configuration of the chain.
    pub chain: ChainConfig,
    /// State before the first block.
    pub genesis: GenesisState,
    /// Time of the genesis.
    pub genesis_time: Timestamp,
}

/// A genesis whose state is built. A node starts from it and serves it.
#[derive(Debug, Clone)]
pub struct ChainGenesis {
    pub chain: ChainConfig,
    pub time: Timestamp,
    pub state: Arc<LedgerState>,
    pub app_state: Arc<Value>,
}

impl GenesisDocument {
    /// Builds the state. Fails when the document's `app_state` is not one, or breaks a rule of the ledger.
    pub fn build(self) -> Result<ChainGenesis, AppStateError> {
        let state = self.genesis.build_state(&self.chain)?;
        let app_state = self.genesis.app_state(&self.chain)?;
        Ok(ChainGenesis {
            chain: self.chain,
            time: self.genesis_time,
            state: Arc::new(state),
            app_state: Arc::new(app_state),
        })
    }
}
