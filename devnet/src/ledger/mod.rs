//! The registry's ledger as a pure function of (state, block): no I/O, no clock, no async.
//!
//! A second implementation of the chain's rules, module by module: the stated checks in the stated order, the same errors,
//! events and effects. Quirks of the chain are kept and named where they stand.

mod ante;
mod decimal;
mod error;
mod exec;
mod gas;
mod genesis;
mod invariants;
mod modules;
mod params;
mod query;
mod state;
mod table;
mod validate;

pub use error::LedgerError;
pub use exec::{Block, Chain, Event, TxOutcome, begin_block, deliver, end_block, simulate};
pub use genesis::{Genesis, GenesisAccount};
pub use invariants::broken_invariant;
pub use modules::authority_address;
pub use params::BLOCKS_PER_YEAR;
pub use query::query;
pub use state::State;

pub(crate) use ante::{Mode, check};
