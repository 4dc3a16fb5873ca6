//! Failures of the store.

use svc_store::{LockError, OpenError, StoreError};

use super::sealing::SealingError;

/// A failure of the store, or a store that this process must not use.
#[derive(Debug, thiserror::Error)]
pub enum AgentStoreError {
    /// The database or its tables cannot be opened.
    #[error("database: {0}")]
    Open(#[from] OpenError),
    /// The database failed.
    #[error("database: {0}")]
    Database(#[from] sqlx::Error),
    /// A write failed, or the database has lost commits that it had acknowledged.
    #[error("database: {0}")]
    Write(#[from] StoreError),
    /// Another process owns the store.
    #[error(transparent)]
    Locked(#[from] LockError),
    /// Another process owns the store.
    #[error("the store is in use by process {pid} on {host} since {since}")]
    Held {
        /// Process id of the owner.
        pid: i64,
        /// Its machine.
        host: String,
        /// Time at which it took the store.
        since: String,
        /// Time of its newest renewal, seconds since the epoch.
        renewed: i64,
    },
    /// Another process has taken the store over, because this one did not renew its lease in time.
    #[error("another process has taken the store over; this one writes nothing any more")]
    Lost,
    /// A private key cannot be read or written.
    #[error(transparent)]
    Sealing(#[from] SealingError),
    /// The store holds another DID.
    #[error(
        "the store holds {found}, made for {found_base}; PUBLIC_API_BASE_URL={base} is another place: a DID never moves"
    )]
    OtherPlace {
        /// The DID of the store.
        found: String,
        /// Its public URL.
        found_base: String,
        /// The configured one.
        base: String,
    },
    /// A file beside the database cannot be used.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// Error of the operating system.
        reason: String,
    },
    /// A stored row cannot be decoded: another program changed the database.
    #[error("a stored row is not readable: {0}")]
    CorruptRow(String),
    /// The rows are not those of a decision: another program changed the database meanwhile. Nothing of the decision is written.
    #[error("the rows of a decision are not those that were loaded; nothing of it is written")]
    WrongFacts,
}

/// The error of a write that may also be refused, which says nothing about the store.
pub trait WriteFailure {
    /// Whether the store failed.
    fn is_of_store(&self) -> bool;
}

impl WriteFailure for AgentStoreError {
    fn is_of_store(&self) -> bool {
        true
    }
}
