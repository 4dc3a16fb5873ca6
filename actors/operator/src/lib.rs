//! The operator: acts for exactly one corporation with exactly one key.
//!
//! A ledger call is a small task ([`flow`](Operator::execute)) that asks the signer, the confirmer and the barrier in turn and
//! outlives the request that started it. Everything that must survive the death of an actor (transactions in flight, the
//! published snapshot, the indexer's height) is retained by the tree and lent to whoever serves it.

mod barrier;
mod boot;
mod chain;
mod confirmer;
mod error;
mod flow;
mod in_flight;
mod indexer_client;
mod node_link;
mod operator;
mod refresher;
mod signer;
mod snapshot;
mod subscription;

pub use boot::BootError;
pub use chain::{ChainParams, Identity, OperatorConfig};
pub use error::{node_error, upstream_error};
pub use flow::{LedgerCall, LedgerReceipt};
pub use indexer_client::IndexerClient;
pub use operator::Operator;
pub use snapshot::{Allowance, Authorization, Gate, Snapshot, Versions};
