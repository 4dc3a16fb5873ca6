//! Failures of the start of an indexer.

use svc_kit::supervision::SupervisorError;
use svc_net::{
    fetch::HttpClientError,
    upstream::{NodeClientError, UpstreamError},
};
use svc_wire::proto_registry::ProtoRegistryError;

use svc_wire::indexer_reads::ReadTableError;

use crate::{ingest::PrunedHeight, store::IndexStoreError};

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
    /// No node has the next block, or the state after it, any more.
    #[error(transparent)]
    Pruned(#[from] PrunedHeight),
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
