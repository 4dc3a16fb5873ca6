//! Failures of a store.

/// A failure of a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database failed. The transaction may have been committed all the same when the answer to its commit was lost.
    #[error("{0}")]
    Database(#[from] sqlx::Error),
    /// The engine acknowledged a commit that a new transaction does not show.
    #[error("the database acknowledged commit {expected} and shows {found}")]
    NotDurable {
        /// Number of the commit.
        expected: i64,
        /// Newest number in the database.
        found: i64,
    },
    /// The files cannot be looked at, or are shorter than before. A new connection shows whether commits are lost.
    #[error("{0}")]
    Changed(String),
    /// Commits that were acknowledged are gone. Nothing can be written until the next start.
    #[error("{0}; nothing more is written until the next start")]
    Lost(String),
}

impl StoreError {
    /// The same failure, for another one whose commit it was.
    pub(crate) fn to_shared(&self) -> Self {
        match self {
            Self::Database(error) => Self::Database(sqlx::Error::Protocol(error.to_string())),
            Self::NotDurable { expected, found } => Self::NotDurable { expected: *expected, found: *found },
            Self::Changed(change) => Self::Changed(change.clone()),
            Self::Lost(loss) => Self::Lost(loss.clone()),
        }
    }
}
