//! Failures of an export and of an import.

use super::super::{error::AgentStoreError, sealing::SealingError};

/// An export that did not end, or did not begin.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// Another export runs.
    #[error("another export of this store runs: wait until it has ended")]
    Busy,
    /// The store has no DID.
    #[error("the store has no DID: there is nothing to export")]
    Empty,
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] AgentStoreError),
    /// A row is longer than a line of an import may be.
    #[error("a row of {table} is {bytes} bytes long in the file; an import takes {limit}")]
    LongRow {
        /// Its table.
        table: &'static str,
        /// Its length.
        bytes: usize,
        /// The longest line.
        limit: usize,
    },
    /// A row has no form in JSON.
    #[error("a row cannot be encoded: {0}")]
    Encoding(#[from] serde_json::Error),
    /// The reader of the export took nothing for a while: the snapshot does not stay open for it.
    #[error("the reader of the export took nothing for {0} s")]
    Stalled(u64),
    /// The reader of the export has gone.
    #[error("the reader of the export has gone")]
    Abandoned,
    /// The store was closed meanwhile.
    #[error("the agent stops: export again after its start")]
    Closed,
}

/// An import that was refused or failed. Nothing of it was written, except after [`ImportError::Commit`] and [`ImportError::Head`].
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be read.
    #[error("the file cannot be read: {0}")]
    File(std::io::Error),
    /// The first line is no header.
    #[error("the file is no export of an agent: its first line is no header of svc-agent-export")]
    NoHeader,
    /// The file has another version of the format.
    #[error(
        "the file has version {found} of the format; this release imports version {allowed}: use the release that made the file"
    )]
    OtherFormat {
        /// Version of the file.
        found: u32,
        /// Version of this release.
        allowed: u32,
    },
    /// The file has the tables of another release.
    #[error(
        "the file has the tables of migration {found}, and this release has those of migration {allowed}: import it with the release \
         that made the file, and start a newer one with that store"
    )]
    OtherSchema {
        /// Migration of the file.
        found: i64,
        /// Migration of this release.
        allowed: i64,
    },
    /// No configured store key is the one of the file.
    #[error(
        "the file was made with another store key: set SVC_AGENT_STORE_KEY to the key of that agent, or SVC_AGENT_STORE_KEY_PREVIOUS \
         while the key is changed"
    )]
    OtherKey,
    /// The file ends too early.
    #[error("the file ends at line {line} without its authentication code: it is incomplete. Export once more")]
    Incomplete {
        /// The last line.
        line: u64,
    },
    /// The file is not as it was exported.
    #[error(
        "the file does not match its authentication code at line {line}: it was changed after the export. Use another copy"
    )]
    Changed {
        /// Line of the code.
        line: u64,
    },
    /// The file goes on behind its end.
    #[error("the file goes on behind its authentication code in line {line}: use another copy")]
    ExtraLines {
        /// Line of the code.
        line: u64,
    },
    /// A line is too long.
    #[error("line {line} is longer than {limit} bytes")]
    LongLine {
        /// The line.
        line: u64,
        /// Longest allowed line.
        limit: usize,
    },
    /// A line is invalid.
    #[error("line {line}: {reason}")]
    InvalidLine {
        /// The line.
        line: u64,
        /// The violated rule.
        reason: String,
    },
    /// The database refused rows.
    #[error("the rows of {table} up to line {line} cannot be written: {error}")]
    Rows {
        /// Their table.
        table: &'static str,
        /// Line of the last one.
        line: u64,
        /// Error of the database.
        error: sqlx::Error,
    },
    /// The file has another number of rows than it states.
    #[error("the file has {found} rows of {table} and states {stated}")]
    OtherCount {
        /// The table.
        table: &'static str,
        /// Rows of the file.
        found: u64,
        /// Rows that it states.
        stated: u64,
    },
    /// The store is in use for a DID.
    #[error("the store has the DID {did}: an import takes an empty store. Set SVC_AGENT_DB to another database")]
    NotEmpty {
        /// DID of the store.
        did: String,
    },
    /// The store has rows without a DID.
    #[error("the store has rows in {table}: an import takes an empty store. Set SVC_AGENT_DB to another database")]
    NotEmptyTable {
        /// A table with rows.
        table: &'static str,
    },
    /// The head file names a version that the export does not have.
    #[error(
        "the export is older than the head file: it ends with version {exported}, and {published} was published. Use the newest export; \
         for an agent of another DID set SVC_AGENT_HEAD to a file of its own"
    )]
    OlderExport {
        /// Newest version of the export.
        exported: String,
        /// Version that was published last, with its DID.
        published: String,
    },
    /// A private key of the export does not open.
    #[error(transparent)]
    Sealing(#[from] SealingError),
    /// The rows of the export are those of no agent.
    #[error("an agent cannot start with this export: {0}")]
    Unusable(String),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] AgentStoreError),
    /// The commit failed. The import may have happened or not.
    #[error(
        "the import may have happened or not: {0}. Import once more; a store that has the DID then needs nothing more"
    )]
    Commit(svc_store::StoreError),
    /// The store has the export, and the head file could not be written. The agent writes it at its start.
    #[error(
        "the store has the export, and its head file cannot be written: {0}. Correct that before the start of the agent"
    )]
    Head(AgentStoreError),
}

impl From<sqlx::Error> for ImportError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}
