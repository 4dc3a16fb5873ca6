//! Failures of the way from the node to the rows of a block.

use svc_net::upstream::{CutList, NodeClientError};

use super::{block_order::HistoryMismatch, horizon::PrunedHeight};
use crate::store::IndexStoreError;

/// The genesis document cannot be read, so that its digests are not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the genesis document cannot be read, and no query lists the digests in it: {reason}; add a node that serves it, or begin a new \
     database with block 2, which asks the node for each of them"
)]
pub struct GenesisFailure {
    /// The failure, without addresses.
    reason: String,
}

impl GenesisFailure {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

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
    /// The state before the first block is not known.
    #[error(transparent)]
    Genesis(#[from] GenesisFailure),
    /// A list of the node may lack entries.
    #[error(transparent)]
    CutList(#[from] CutList),
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
            Self::Genesis(_)
            | Self::CutList(_)
            | Self::InvalidBlockTime(_)
            | Self::NodeNeeded
            | Self::Pruned(_)
            | Self::OtherHistory { .. } => self.to_string(),
        }
    }
}
