//! From a decoded block to the rows that it writes: entities read from the node at the height of the block, events with
//! their routes, activity, and changes of measures.
//!
//! `node_reader` and `bootstrap` read the node; `block_ingester` combines a block with the state that the store holds.

mod block_ingester;
mod block_order;
mod bootstrap;
mod event_builder;
#[cfg(test)]
mod event_reader_tests;
#[cfg(test)]
mod fee_grant_tests;
mod horizon;
mod node_reader;
mod registry_cache;
mod registry_view;
mod stats_deltas;
#[cfg(test)]
mod test_ingest;
#[cfg(test)]
mod tests;
mod transitions;
mod verification;

use std::collections::BTreeMap;

use svc_net::upstream::NodeClientError;

use crate::{
    block::{BlockFacts, EntityRef},
    store::IndexStoreError,
};
pub use block_ingester::BlockIngester;
pub use block_order::{HistoryMismatch, NextBlock, NextLink, NodeBlock, compare_block, judge_next};
pub use bootstrap::{discover_entities, find_missing_corporation};
pub use horizon::PrunedHeight;
pub use node_reader::{EntityReading, NodeReader};
pub use registry_cache::RegistryCache;
pub use verification::{IndexDifference, Verification, compare_with_node};

/// A failure to fetch or to write a block.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    #[error(transparent)]
    Node(#[from] NodeClientError),
    #[error(transparent)]
    Store(#[from] IndexStoreError),
    #[error("block {0} has an invalid header time")]
    InvalidBlockTime(u64),
    /// The node must be asked before a transaction begins.
    #[error("the node is needed")]
    NodeNeeded,
    /// No node has the block, or the state after it, any more.
    #[error(transparent)]
    Pruned(#[from] PrunedHeight),
    /// The node has another history than the store.
    #[error("{mismatch}")]
    OtherHistory {
        /// The blocks that differ.
        mismatch: HistoryMismatch,
        /// Origin of the node.
        origin: String,
    },
}

impl IngestError {
    /// Returns a text without addresses and SQL for public answers: the part that failed, and the error of the node.
    pub fn public_message(&self) -> String {
        match self {
            Self::Node(NodeClientError::Upstream(_)) => "the node does not answer".to_owned(),
            Self::Node(error) => error.to_string(),
            Self::Store(_) => "the store failed".to_owned(),
            Self::InvalidBlockTime(_) | Self::NodeNeeded | Self::Pruned(_) | Self::OtherHistory { .. } => {
                self.to_string()
            }
        }
    }
}

/// A decoded block with the readings of the entities that it names.
#[derive(Debug, Clone)]
pub struct FetchedBlock {
    /// Origin of the node that has the block.
    pub origin: String,
    pub facts: BlockFacts,
    pub readings: BTreeMap<EntityRef, EntityReading>,
}
