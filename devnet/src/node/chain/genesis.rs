//! The origin of a chain.

use prost_types::Timestamp;
use svc_ledger::{ChainConfig, GenesisState};

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
