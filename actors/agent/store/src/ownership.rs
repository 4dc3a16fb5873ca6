//! One owner of a store: a lock beside an SQLite file, and a lease with a fencing term in either database.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use sqlx::{AnyConnection, AssertSqlSafe, Row, any::AnyRow};
use svc_kit::wall_clock;
use svc_store::{AnyDatabase, GroupTransaction, GroupWriter, LockHolder, StatementBatch, StoreLock};
use tokio::time::sleep;

use super::error::AgentStoreError;

/// Seconds after which a lease that was not renewed ends.
pub(super) const LEASE_SECONDS: i64 = 15;
/// Pause between two looks at the lease of another owner.
const RENEWAL_LOOK: Duration = Duration::from_secs(1);

/// Pause between two renewals under a lock.
const LOCKED_RENEWAL: Duration = Duration::from_secs(1);

/// The ownership of a store.
pub(super) struct Ownership {
    term: i64,
    is_sqlite: bool,
    /// Writes that come at the same time share a commit.
    writer: GroupWriter,
    /// Held until the release, or until the end of the process.
    lock: Mutex<Option<StoreLock>>,
    /// The last renewal under a lock, which keeps other processes away meanwhile.
    renewed: Mutex<Option<Instant>>,
}

/// The clock of the database, which all processes share.
fn now_sql(is_sqlite: bool) -> &'static str {
    if is_sqlite { "CAST(unixepoch() AS BIGINT)" } else { "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS BIGINT)" }
}

async fn database_time(connection: &mut AnyConnection, is_sqlite: bool) -> Result<i64, sqlx::Error> {
    let sql = format!("SELECT {}", now_sql(is_sqlite));
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(connection).await
}

/// Takes the lock of an SQLite file. To be called before the database is opened.
pub(super) fn lock_file(url: &str) -> Result<Option<StoreLock>, AgentStoreError> {
    let Some(file) = svc_store::sqlite_file(url) else { return Ok(None) };
    Ok(Some(StoreLock::acquire(&file, wall_clock::now_rfc3339())?.0))
}

impl Ownership {
    /// Takes the lease. One that its owner does not renew any more is waited for, until it has ended.
    pub async fn take(database: &AnyDatabase, mut lock: Option<StoreLock>) -> Result<Self, AgentStoreError> {
        let mut first_renewal = None;
        loop {
            match Self::acquire(database, &mut lock).await {
                Err(AgentStoreError::Held { pid, host, since, renewed }) => {
                    if first_renewal.is_some_and(|first| first != renewed) {
                        return Err(AgentStoreError::Held { pid, host, since, renewed });
                    }
                    if first_renewal.is_none() {
                        tracing::info!(pid, host, since, "the store has an owner; waiting whether it renews its lease");
                    }
                    first_renewal = Some(renewed);
                    sleep(RENEWAL_LOOK).await;
                }
                acquired => return acquired,
            }
        }
    }

    /// Takes the lease. Fails while another process renews it. With the lock of the file the last owner is gone, even if its lease has not ended.
    async fn acquire(database: &AnyDatabase, lock: &mut Option<StoreLock>) -> Result<Self, AgentStoreError> {
        let is_sqlite = database.is_sqlite;
        let mut transaction = database.writer.begin().await?;
        let now = database_time(&mut transaction, is_sqlite).await?;
        let sql = "INSERT INTO owner (one, term, host, pid, since, renewed) VALUES (1, 0, '', 0, '', 0) ON CONFLICT (one) DO NOTHING";
        sqlx::query(sql).execute(&mut *transaction).await?;
        // The update locks the row in PostgreSQL, so that of two processes one sees the lease of the other.
        sqlx::query("UPDATE owner SET term = term + 1 WHERE one = 1").execute(&mut *transaction).await?;
        let row = sqlx::query("SELECT term, host, pid, since, renewed FROM owner").fetch_one(&mut *transaction).await?;
        let renewed: i64 = row.try_get("renewed")?;
        if lock.is_none() && renewed + LEASE_SECONDS > now {
            let (pid, host, since) = (row.try_get("pid")?, row.try_get("host")?, row.try_get("since")?);
            return Err(AgentStoreError::Held { pid, host, since, renewed });
        }
        let own = LockHolder::this_process(wall_clock::now_rfc3339());
        sqlx::query("UPDATE owner SET host = $1, pid = $2, since = $3, renewed = $4")
            .bind(own.host)
            .bind(i64::from(own.pid))
            .bind(own.since)
            .bind(now)
            .execute(&mut *transaction)
            .await?;
        let term = row.try_get("term")?;
        transaction.commit().await?;
        let writer = GroupWriter::new(database.writer.clone());
        Ok(Self { term, is_sqlite, writer, lock: Mutex::new(lock.take()), renewed: Mutex::default() })
    }

    /// Begins a write, which renews the lease. Fails when another process has taken the store over.
    pub async fn begin(&self) -> Result<GroupTransaction, AgentStoreError> {
        Ok(self.begin_with(&mut StatementBatch::default()).await?.0)
    }

    /// Begins a write with its first statements; returns their rows too.
    pub async fn begin_with(
        &self,
        batch: &mut StatementBatch,
    ) -> Result<(GroupTransaction, Vec<Vec<AnyRow>>), AgentStoreError> {
        let (mut transaction, rows) = self.writer.begin_with(batch).await?;
        if self.is_renewal_due() {
            self.set_renewed(&mut transaction, now_sql(self.is_sqlite)).await?;
        }
        Ok((transaction, rows))
    }

    /// Writes statements in a transaction of their own; returns their rows.
    pub async fn write(&self, batch: &mut StatementBatch) -> Result<Vec<Vec<AnyRow>>, AgentStoreError> {
        if !self.is_renewal_due() {
            return Ok(self.writer.write(batch).await?);
        }
        let (mut transaction, rows) = self.writer.begin_with(batch).await?;
        self.set_renewed(&mut transaction, now_sql(self.is_sqlite)).await?;
        transaction.commit().await?;
        Ok(rows)
    }

    /// Under a lock the lease is renewed once a second, without one by each write.
    fn is_renewal_due(&self) -> bool {
        if self.lock.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            return true;
        }
        let mut renewed = self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = renewed.is_none_or(|last| last.elapsed() >= LOCKED_RENEWAL);
        if is_due {
            *renewed = Some(Instant::now());
        }
        is_due
    }

    /// Gives the lease back, and closes the database.
    pub async fn release(&self, database: &AnyDatabase) -> Result<(), AgentStoreError> {
        let released = self.end_lease(database).await;
        database.close().await;
        // Handles of the store may live on: the lock must not.
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
        released
    }

    async fn end_lease(&self, database: &AnyDatabase) -> Result<(), AgentStoreError> {
        let mut transaction = database.writer.begin().await?;
        self.set_renewed(&mut transaction, "0").await?;
        Ok(transaction.commit().await?)
    }

    async fn set_renewed(&self, connection: &mut AnyConnection, at: &'static str) -> Result<(), AgentStoreError> {
        let sql = format!("UPDATE owner SET renewed = {at} WHERE one = 1 AND term = $1");
        let updated = sqlx::query(AssertSqlSafe(sql)).bind(self.term).execute(connection).await?;
        if updated.rows_affected() == 1 { Ok(()) } else { Err(AgentStoreError::Lost) }
    }
}
