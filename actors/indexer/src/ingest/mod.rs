//! From a decoded block to the rows that it writes: entities read from the node at the height of the block, events with
//! their routes, activity, and changes of measures.
//!
//! `node_reader` and `bootstrap` read the node; `block_ingester` combines a block with the state that the store holds.

mod block_ingester;
mod block_order;
mod bootstrap;
mod digest_lookup;
mod error;
mod event_builder;
#[cfg(test)]
mod event_reader_tests;
#[cfg(test)]
mod fee_grant_tests;
mod horizon;
mod node_reader;
mod registry_cache;
mod registry_view;
mod session_search;
mod stats_deltas;
#[cfg(test)]
mod test_ingest;
#[cfg(test)]
mod tests;
mod transitions;
mod verification;
mod whole_lists;

use std::collections::BTreeMap;

use crate::block::{BlockFacts, EntityRef};
pub use block_ingester::BlockIngester;
pub use block_order::{HistoryMismatch, NextBlock, NextLink, NodeBlock, compare_block, judge_next};
pub use bootstrap::{FirstState, StartProgress, find_missing_corporation};
pub use digest_lookup::{DigestLookup, DigestLookupError};
pub use error::IngestError;
pub use horizon::{PrunedHeight, start_of_empty_store};
pub use node_reader::{EntityReading, NodeReader};
pub use registry_cache::RegistryCache;
pub use verification::{IndexDifference, Verification, compare_with_node};

/// A decoded block with the readings of the entities that it names.
#[derive(Debug, Clone)]
pub struct FetchedBlock {
    /// Origin of the node that has the block.
    pub origin: String,
    pub facts: BlockFacts,
    pub readings: BTreeMap<EntityRef, EntityReading>,
}
