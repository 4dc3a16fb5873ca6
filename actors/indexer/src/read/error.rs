//! Failures of reads.

use crate::store::IndexStoreError;

/// A read that cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A parameter is invalid; the text names it.
    #[error("{0}")]
    InvalidParameter(String),
    /// The entity does not exist.
    #[error("{0} not found")]
    NotFound(&'static str),
    /// The entity existed and is no longer valid.
    #[error("{0}")]
    Gone(String),
    /// The answer lies below the oldest height of the index: it is not known.
    #[error("{message}, the oldest indexed height is {oldest}")]
    HeightNotIndexed {
        /// The part that is not indexed.
        message: String,
        /// The oldest height of the index.
        oldest: u64,
    },
    /// The follower is not running.
    #[error("the indexer is not running")]
    NotRunning,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] IndexStoreError),
}

impl ReadError {
    /// A block below the oldest one.
    pub(in crate::read) fn block_not_indexed(height: u64, oldest: u64) -> Self {
        Self::HeightNotIndexed { message: format!("block {height} is not indexed"), oldest }
    }
}
