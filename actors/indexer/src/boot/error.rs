//! Failures of the start of an indexer.

use svc_kit::supervision::SupervisorError;
use svc_net::{
    fetch::HttpClientError,
    upstream::{FailoverError, NodeClientError, NodeDescriptorsError, UpstreamError},
};
use svc_wire::proto_registry::ProtoRegistryError;

use svc_wire::indexer_reads::ReadTableError;

use crate::{
    ingest::{HistoryMismatch, IngestError, PrunedHeight},
    store::IndexStoreError,
};

impl From<NodeDescriptorsError> for IndexerError {
    fn from(error: NodeDescriptorsError) -> Self {
        match error {
            NodeDescriptorsError::Node(error) => error.into(),
            NodeDescriptorsError::Registry(error) => error.into(),
        }
    }
}

/// A failure of the start of an indexer.
#[derive(Debug, thiserror::Error)]
pub enum IndexerError {
    /// The node did not answer, or refused a query.
    #[error(transparent)]
    Node(#[from] NodeClientError),
    /// The RPC origin is invalid.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The descriptors of the node are not those of a registry.
    #[error(transparent)]
    Schema(#[from] ProtoRegistryError),
    /// The store failed, or it belongs to another chain.
    #[error(transparent)]
    Store(#[from] IndexStoreError),
    /// The node has another history than the store.
    #[error(transparent)]
    OtherHistory(#[from] HistoryMismatch),
    /// No node has the next block, or the state after it, any more.
    #[error(transparent)]
    Pruned(#[from] PrunedHeight),
    /// The store was begun without the entities that were there before its first height.
    #[error(
        "the store lacks corporation {corporation}, which the node has at height {height}: an earlier release has begun it at a node \
         without state; use a new database (`svc indexer verify` lists everything that differs)"
    )]
    Incomplete {
        /// Id of the corporation.
        corporation: u64,
        /// Newest height of the store.
        height: u64,
    },
    /// The store has no block.
    #[error("the store has no block yet")]
    NoBlock,
    /// The store does not have the hash of a block, so that the blocks above it cannot be compared with it.
    #[error(
        "the store has no hash of block {height}{}",
        .oldest.map_or_else(String::new, |oldest| format!(": its oldest one is of block {oldest}; roll back to that height at most, or use a new database"))
    )]
    NoHash {
        /// The height.
        height: u64,
        /// Oldest height with a hash.
        oldest: Option<u64>,
    },
    /// The store does not have a height.
    #[error("the store has the heights {oldest} to {newest}, not {height}")]
    NotIndexed {
        /// The height.
        height: u64,
        /// Oldest height of the store.
        oldest: u64,
        /// Newest height of the store.
        newest: u64,
    },
    /// A comparison with the node failed.
    #[error(transparent)]
    Compare(#[from] IngestError),
    /// The node has no bond denom, which answers use for deposits.
    #[error("the node's staking parameters name no bond denom, in which trust deposits are held")]
    MissingBondDenom,
    /// The HTTP client for evidence could not be created.
    #[error(transparent)]
    Client(#[from] HttpClientError),
    /// The table of reads is incomplete.
    #[error(transparent)]
    Reads(#[from] ReadTableError),
    /// The actors did not start.
    #[error(transparent)]
    Supervise(#[from] SupervisorError),
}

impl IndexerError {
    /// Whether the node is not there yet: it, or another one, may answer later. Every other error stays.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Node(error) if error.allows_failover())
    }
}
