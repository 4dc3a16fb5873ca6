//! Start and end of an indexer: its configuration, the checks of the node and the store, and the supervision tree.

mod config;
mod error;
mod indexer;
mod inspection;
mod node_check;
#[cfg(test)]
mod tests;
mod tree;

pub use config::IndexerConfig;
pub use error::IndexerError;
pub use indexer::Indexer;
pub use inspection::{StartCheck, check_start, verify_index};
