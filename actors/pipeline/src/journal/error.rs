//! Failures of the journal.

use serde::Serialize;
use svc_store::{LockError, StoreError};

/// The journal failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// The database failed.
    #[error("{0}")]
    Database(String),
    /// The database has lost commits while it was open. Nothing can be written until the next start.
    #[error("{0}")]
    Lost(String),
    /// The actor that writes the journal does not answer.
    #[error("{0}")]
    Unresponsive(String),
    /// The record of a transaction may be on disk or not, so that the next process may send it.
    #[error("{0}; whether the transaction is on record is unknown")]
    Uncertain(String),
    /// Another process uses the journal.
    #[error("{0}; give each server a journal of its own")]
    InUse(String),
    /// The journal belongs to another account or to another chain.
    #[error(
        "{location} is the journal of {found_owner}, this server is {expected_owner}; give each server a journal of its own"
    )]
    OwnerMismatch {
        /// Location of the journal.
        location: String,
        /// Owner in the journal.
        found_owner: String,
        /// Owner that opens it.
        expected_owner: String,
    },
    /// A newer release has written the journal.
    #[error("{location} has tables of version {found}, written by a newer release; this one knows version {known}")]
    NewerSchema {
        /// Location of the journal.
        location: String,
        /// Version of the tables.
        found: i64,
        /// Newest version that this release knows.
        known: i64,
    },
    /// Rows of the journal are not as they were written.
    #[error(
        "{location} is damaged: {damage}; restore a backup of it, or move it away and leave its lock file: its records are then taken from blocks"
    )]
    Damaged {
        /// Location of the journal.
        location: String,
        /// The first damage.
        damage: String,
    },
}

impl From<sqlx::Error> for JournalError {
    fn from(error: sqlx::Error) -> Self {
        let code = error.as_database_error().and_then(|error| error.code());
        match code.as_deref() {
            // SQLITE_CORRUPT and SQLITE_NOTADB.
            Some("11" | "26") => Self::Damaged { location: "the journal".to_owned(), damage: error.to_string() },
            _ => Self::Database(error.to_string()),
        }
    }
}

impl JournalError {
    /// The same error with the location of the journal.
    pub(super) fn at(self, place: &str) -> Self {
        match self {
            Self::Database(reason) => Self::Database(format!("{place}: {reason}")),
            Self::Damaged { damage, .. } => Self::Damaged { location: place.to_owned(), damage },
            other => other,
        }
    }
}

impl From<StoreError> for JournalError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Lost(_) => Self::Lost(error.to_string()),
            StoreError::Database(_) | StoreError::NotDurable { .. } | StoreError::Changed(_) => {
                Self::Database(error.to_string())
            }
        }
    }
}

impl From<LockError> for JournalError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Held { .. } => Self::InUse(error.to_string()),
            LockError::File { .. } => Self::Database(error.to_string()),
        }
    }
}

/// Commits that the journal had acknowledged and does not have: it was removed, emptied, shortened or replaced by an older copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, thiserror::Error)]
#[error(
    "{found} of {acknowledged} commits are left: the file was removed, emptied, shortened, or replaced by an older copy"
)]
pub struct JournalLoss {
    /// Commits that were acknowledged.
    pub acknowledged: i64,
    /// Commits in the database.
    pub found: i64,
}

/// The journal cannot be recovered.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The journal lacks records, and the nodes do not state the account or do not answer for a block.
    #[error(
        "{location} lacks records of the account, and no node answers for its blocks: nothing can be signed before they are read"
    )]
    NotRestored {
        /// Location of the journal.
        location: String,
    },
    /// The journal is ahead of the chain.
    #[error(
        "{location} has a transaction with sequence {used_sequence} in a block, the chain at height {height} expects {expected_sequence}: \
         it is the journal of another chain of this name"
    )]
    ChainMismatch {
        /// Location of the journal.
        location: String,
        /// Highest sequence in a block according to the journal.
        used_sequence: u64,
        /// Height of the node.
        height: u64,
        /// Sequence that the node expects.
        expected_sequence: u64,
    },
}
