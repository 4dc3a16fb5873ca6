//! Start, inspection, rollback and end of an indexer: its configuration, the checks of the node and the store, and the supervision tree.

mod config;
mod error;
mod indexer;
mod inspection;
mod node_check;
mod rollback;
#[cfg(test)]
mod tests;
mod tree;

pub use config::IndexerConfig;
pub use error::IndexerError;
pub use indexer::Indexer;
pub use inspection::{StartCheck, check_start, verify_index};
#[cfg(test)]
pub(crate) use rollback::roll_back;
pub use rollback::{Rollback, roll_back_index};
