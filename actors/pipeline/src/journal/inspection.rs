//! A journal file as another program sees it, beside a server that uses it or without one.

use std::{fs::OpenOptions, os::unix::fs::OpenOptionsExt, path::Path};

use serde::Serialize;
use sqlx::{Connection, SqliteConnection, sqlite::SqliteConnectOptions};

use super::{error::JournalError, integrity, pins::pinned_blocks, schema::SCHEMA_VERSION};
use crate::known_history::BlockPin;

/// A journal whose every row is as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JournalReport {
    /// The file.
    pub file: String,
    /// Chain and account.
    pub owner: String,
    /// Identity of the journal; copies share it.
    pub identity: String,
    /// Transactions.
    pub transactions: u64,
    /// Those that may still execute.
    pub open: i64,
    /// Commits so far.
    pub commits: i64,
}

/// Checks every row of a journal.
///
/// # Errors
/// When the file is no journal, is damaged, or was written by a newer release.
pub async fn verify_journal(file: &str) -> Result<JournalReport, JournalError> {
    let mut connection = open(file).await?;
    // One state of the journal, also while a server writes.
    sqlx::raw_sql("BEGIN").execute(&mut connection).await?;
    let found: i64 = sqlx::query_scalar("PRAGMA user_version").fetch_one(&mut connection).await?;
    if found > SCHEMA_VERSION {
        return Err(JournalError::NewerSchema { location: file.to_owned(), found, known: SCHEMA_VERSION });
    }
    let transactions = integrity::verify(&mut connection, file, found).await?;
    let report = JournalReport {
        file: file.to_owned(),
        owner: sqlx::query_scalar("SELECT name FROM owner").fetch_one(&mut connection).await?,
        identity: sqlx::query_scalar("SELECT identity FROM head").fetch_one(&mut connection).await?,
        transactions,
        open: sqlx::query_scalar("SELECT COUNT(*) FROM transactions WHERE state IN ('open', 'open_refused')")
            .fetch_one(&mut connection)
            .await?,
        commits: sqlx::query_scalar("SELECT number FROM store_commit").fetch_one(&mut connection).await?,
    };
    connection.close().await?;
    Ok(report)
}

/// The pinned blocks of a journal, the lowest first; none of a journal of an earlier release, which the next start takes over.
///
/// # Errors
/// When the file is no journal.
pub(crate) async fn read_pins(file: &str) -> Result<Vec<BlockPin>, JournalError> {
    let mut connection = open(file).await?;
    let sql = "SELECT COUNT(*) FROM sqlite_schema WHERE type = 'table' AND name = 'pins'";
    let has_pins: i64 = sqlx::query_scalar(sql).fetch_one(&mut connection).await?;
    let pins = if has_pins > 0 { pinned_blocks(&mut connection).await? } else { Vec::new() };
    connection.close().await?;
    Ok(pins)
}

/// Copies a journal into a new file that only its owner can read, and checks the copy.
///
/// # Errors
/// When the file is no journal or is damaged, and when the copy exists already or cannot be written.
pub async fn back_up_journal(file: &str, copy: &str) -> Result<JournalReport, JournalError> {
    let mut connection = open(file).await?;
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(Path::new(copy));
    created.map_err(|error| JournalError::Database(format!("{copy}: {error}")))?;
    sqlx::query("VACUUM INTO ?").bind(copy).execute(&mut connection).await?;
    connection.close().await?;
    verify_journal(copy).await
}

async fn open(file: &str) -> Result<SqliteConnection, JournalError> {
    let options = SqliteConnectOptions::new().filename(file).read_only(true);
    let failed = |error: sqlx::Error| JournalError::Database(format!("{file}: {error}"));
    SqliteConnection::connect_with(&options).await.map_err(failed)
}
