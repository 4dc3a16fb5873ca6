//! The registry's ledger as a pure function of (state, block): no I/O, no clock, no async.
//!
//! A second implementation of the chain's rules, module by module: the stated checks in the stated order, the same errors,
//! events and effects. Quirks of the chain are kept and named where they stand.

mod ante;
mod error;
mod exec;
mod gas;
mod modules;
mod query;
mod state;
mod table;
mod validate;

pub use error::LedgerError;
pub use exec::{Block, Chain, Event, TxOutcome, deliver, end_block, simulate};
pub use query::query;
pub use state::State;

pub(crate) use ante::{Mode, check};

/// Puts a funded account into a genesis state.
pub fn genesis_account(state: &mut State, address: &str, denom: &str, amount: u128) {
    modules::bank::mint(state, address, denom, amount);
}
