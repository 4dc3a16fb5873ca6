//! The rules of the registry chain as a pure function of (state, block, transaction): no I/O, no clock, no async.
//!
//! It is a second implementation of the chain, module by module: the same checks in the same order, and the same errors, events
//! and effects. Quirks of the chain are reproduced and marked with "Quirk". It is not a node: it has no mempool, no block
//! production, no storage and no RPC; the crate `svc-devnet` has those.
//!
//! - [`GenesisState::build_state`] builds the state before the first block; [`export_app_state`] writes a state as such a genesis.
//! - [`begin_block`], [`deliver`] for each transaction, and [`end_block`] change it, block after block.
//! - [`UpgradeSchedule`] has the heights from which blocks are those of a later release; its first block migrates the state.
//! - [`run_ante`] checks a transaction for the mempool, [`simulate`] estimates its gas, [`query`] reads a state.
//!
//! ```
//! use svc_ledger::{BLOCKS_PER_YEAR, BlockContext, ChainConfig, GenesisState, begin_block, broken_invariant, deliver};
//! use svc_wire::proto_registry::{Namespace, NodeGeneration, ProtoRegistry};
//!
//! let registry = ProtoRegistry::compiled(&Namespace::compiled())?;
//! let chain = ChainConfig {
//!     chain_id: "test-1".to_owned(),
//!     prefix: "svc".to_owned(),
//!     denom: "usvc".to_owned(),
//!     min_gas_price_micros: 0,
//!     blocks_per_year: BLOCKS_PER_YEAR,
//!     generation: NodeGeneration::N0,
//!     upgrades: Default::default(),
//!     registry,
//! };
//! let mut state = GenesisState { yield_pool: 1_000, ..GenesisState::default() }.build_state(&chain)?;
//! let block = BlockContext { height: 1, time: prost_types::Timestamp { seconds: 1_767_225_600, nanos: 0 } };
//! begin_block(&mut state, &chain, block);
//! let before = state.hash();
//! let outcome = deliver(&mut state, &chain, block, b"no transaction");
//! assert_eq!((outcome.codespace.as_str(), outcome.code), ("sdk", 2), "{}", outcome.log);
//! assert_eq!(state.hash(), before, "a refused transaction changes nothing");
//! assert_eq!(broken_invariant(&state, &chain), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod chain;
mod context;
mod error;
mod exec;
mod gas;
mod genesis;
mod invariants;
mod migration;
mod modules;
mod params;
mod query;
mod registered_texts;
mod state;
mod values;

pub use chain::{BlockContext, ChainConfig, UpgradePlan, UpgradePlanError, UpgradeSchedule};
pub use context::LedgerEvent;
pub use error::LedgerError;
pub use exec::{
    ante::{ExecMode, run_ante},
    block::{begin_block, end_block},
    tx::{TxOutcome, deliver, simulate},
};
pub use genesis::{AppStateError, GenesisAccount, GenesisRate, GenesisState, export_app_state};
pub use invariants::broken_invariant;
pub use modules::authority::authority_address;
pub use params::BLOCKS_PER_YEAR;
pub use query::query;
pub use state::LedgerState;
