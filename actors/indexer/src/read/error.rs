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
    /// The follower is not running.
    #[error("the indexer is not running")]
    NotRunning,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] IndexStoreError),
}
