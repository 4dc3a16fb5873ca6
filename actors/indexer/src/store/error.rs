//! Failures of the store.

use svc_store::{ClaimError, OpenError, StoreError};

/// A failure of the store, or a database that this indexer must not use.
#[derive(Debug, thiserror::Error)]
pub enum IndexStoreError {
    /// The database failed.
    #[error("database: {0}")]
    Database(#[from] sqlx::Error),
    /// A write failed, or the database has lost commits that it had acknowledged.
    #[error("database: {0}")]
    Write(#[from] StoreError),
    /// The first state of the index was continued elsewhere, or begun with another block.
    #[error("database: another process writes the first entities of this index")]
    StartMoved,
    /// A read within a transaction has not ended when the transaction was to be committed.
    #[error("database: a transaction is still read")]
    Busy,
    /// The database or its tables cannot be opened.
    #[error("database: {0}")]
    Open(#[from] OpenError),
    /// Another process uses the database, or its lock cannot be taken.
    #[error("database: {0}")]
    Claim(#[from] ClaimError),
    /// The database belongs to another chain.
    #[error("the database holds chain {stored:?}, the node runs {node:?}; use another database")]
    ChainMismatch {
        /// Chain id in the database.
        stored: String,
        /// Chain id of the node.
        node: String,
    },
    /// A stored row cannot be decoded: another program changed the database.
    #[error("a stored row is not readable: {0}")]
    CorruptRow(String),
}
