//! The claim of a process on a database: several may use it together, or one alone.
//!
//! The claim on an SQLite file is a lock of the file `DATABASE.lock`, and that on a PostgreSQL database an advisory lock of a connection.
//! The operating system or the server releases it when the process ends, however it ends.

use std::{
    fs::{File, OpenOptions, TryLockError},
    path::Path,
};

use sqlx::{AnyConnection, Connection, Row};
use tokio::sync::Mutex;

use crate::{database::sqlite_file, lock::lock_path};

/// The advisory lock of a PostgreSQL database.
const ADVISORY_LOCK: i64 = 0x7376_6369_6478;

/// A claim on a database cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// The database is claimed by another process.
    #[error("{0}")]
    InUse(&'static str),
    /// The lock file cannot be used.
    #[error("{path}: {reason}")]
    File {
        /// The lock file.
        path: String,
        /// Error of the operating system.
        reason: String,
    },
    /// The database failed.
    #[error("{0}")]
    Database(#[from] sqlx::Error),
}

enum Held {
    File(File),
    Connection(Box<AnyConnection>),
}

/// A claim on a database, until it is released or dropped.
pub struct StoreClaim(Mutex<Option<Held>>);

impl StoreClaim {
    /// Claims a database together with other processes. A database in memory needs no claim.
    ///
    /// # Errors
    /// When another process has the database alone, or the lock cannot be used.
    pub async fn shared(url: &str) -> Result<Self, ClaimError> {
        Self::make(url, false).await
    }

    /// Claims a database for this process alone.
    ///
    /// # Errors
    /// When another process uses the database, or the lock cannot be used.
    pub async fn alone(url: &str) -> Result<Self, ClaimError> {
        Self::make(url, true).await
    }

    async fn make(url: &str, is_alone: bool) -> Result<Self, ClaimError> {
        let held = match sqlite_file(url) {
            Some(file) => Some(Held::File(lock_file(&lock_path(&file), is_alone)?)),
            None if url.starts_with("sqlite") => None,
            None => Some(Held::Connection(Box::new(lock_connection(url, is_alone).await?))),
        };
        Ok(Self(Mutex::new(held)))
    }

    /// Gives the claim back.
    pub async fn release(&self) {
        match self.0.lock().await.take() {
            Some(Held::File(file)) => drop(file.unlock()),
            Some(Held::Connection(connection)) => drop(connection.close().await),
            None => {}
        }
    }
}

fn in_use(is_alone: bool) -> ClaimError {
    ClaimError::InUse(if is_alone {
        "another process uses it; stop the indexer first"
    } else {
        "a rollback of it runs; wait for its end"
    })
}

fn lock_file(path: &Path, is_alone: bool) -> Result<File, ClaimError> {
    let failed =
        |error: std::io::Error| ClaimError::File { path: path.display().to_string(), reason: error.to_string() };
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
    match if is_alone { file.try_lock() } else { file.try_lock_shared() } {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(in_use(is_alone)),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

async fn lock_connection(url: &str, is_alone: bool) -> Result<AnyConnection, ClaimError> {
    sqlx::any::install_default_drivers();
    let mut connection = AnyConnection::connect(url).await?;
    let sql = if is_alone {
        "SELECT CASE WHEN pg_try_advisory_lock($1) THEN 1 ELSE 0 END"
    } else {
        "SELECT CASE WHEN pg_try_advisory_lock_shared($1) THEN 1 ELSE 0 END"
    };
    let taken: i32 = sqlx::query(sql).bind(ADVISORY_LOCK).fetch_one(&mut connection).await?.try_get(0)?;
    if taken == 1 { Ok(connection) } else { Err(in_use(is_alone)) }
}

#[cfg(test)]
mod tests {
    use svc_test_support::postgres_server::PostgresServer;

    use super::*;

    async fn assert_claims(url: &str) {
        let first = StoreClaim::shared(url).await.expect("claimed");
        let second = StoreClaim::shared(url).await.expect("two together");
        let refused = StoreClaim::alone(url).await.err().expect("refused").to_string();
        assert!(refused.contains("stop the indexer first"), "{refused}");
        first.release().await;
        assert!(StoreClaim::alone(url).await.is_err(), "the second one is left");
        second.release().await;
        let alone = StoreClaim::alone(url).await.expect("alone");
        let refused = StoreClaim::shared(url).await.err().expect("refused").to_string();
        assert!(refused.contains("a rollback of it runs"), "{refused}");
        alone.release().await;
        StoreClaim::shared(url).await.expect("free");
    }

    #[tokio::test]
    async fn one_process_alone_or_several_together_use_a_database() {
        let directory = tempfile::tempdir().expect("a directory");
        assert_claims(&format!("sqlite://{}?mode=rwc", directory.path().join("index.db").display())).await;
        StoreClaim::alone("sqlite::memory:").await.expect("nothing to claim");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn one_process_alone_or_several_together_use_a_postgresql_database() {
        let Some(server) = PostgresServer::start(None) else { return };
        assert_claims(&server.url()).await;
    }
}
