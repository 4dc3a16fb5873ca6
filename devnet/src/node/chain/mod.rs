//! The chain of a node: mempool, blocks, headers and queries, without sockets and without a clock.
//!
//! [`NodeCore`] decides; it has no I/O. The time of a block and the transactions come from its caller.

mod base_service;
mod core;
mod genesis;
mod header_clock;
mod history;
mod node_ways;
pub(super) mod pubsub_query;
pub(super) mod seal;
mod tx_service;
mod upgrades;

pub use core::{CheckTxOutcome, NodeCore, ReplayError};
pub use genesis::GenesisDocument;
pub use header_clock::HeaderTimeMode;
pub use history::BlockRecord;
pub use seal::SealError;
