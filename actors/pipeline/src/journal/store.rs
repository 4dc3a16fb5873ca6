//! The database of the journal: an SQLite file, or a database in memory.

use std::{str::FromStr, sync::Arc};

use sqlx::{
    Connection, Row as _, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteRow, SqliteSynchronous},
};
use tokio::sync::Mutex;

use super::{core::JournalEntry, entry_sql::write_entry, record::JournalRecord};
use crate::write::{
    daily_fees::{DailyFees, UtcDay},
    in_flight::InFlightTx,
    intent::{WriteIntent, WriteOrigin},
    message::EncodedMessage,
    submission::SubmissionId,
};

/// The journal failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// The database failed.
    #[error("{0}")]
    Database(String),
    /// The actor that writes the journal does not answer.
    #[error("{0}")]
    Unresponsive(String),
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
}

impl From<sqlx::Error> for JournalError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error.to_string())
    }
}

/// A block by height and hash (upper-case hex).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockPin {
    /// Height.
    pub height: u64,
    /// Hash.
    pub hash: String,
}

/// The first and the newest block that the journal has pinned of its chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryPins {
    /// The first.
    pub first: BlockPin,
    /// The newest.
    pub newest: BlockPin,
}

/// Transactions that stay in the database, on disk and in memory.
const MAX_RECORDS_ON_DISK: i64 = 100_000;
const MAX_RECORDS_IN_MEMORY: i64 = 5_000;
/// Transactions between two prunings.
pub(super) const PRUNE_EVERY: u64 = 1_000;

const SCHEMA_SQL: &str = "
CREATE TABLE IF NOT EXISTS owner (one INTEGER PRIMARY KEY CHECK (one = 1), name TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS transactions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    tx_hash TEXT NOT NULL UNIQUE, write_id TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'open', sequence INTEGER NOT NULL,
    signed_height INTEGER NOT NULL, timeout_height INTEGER NOT NULL, bytes BLOB, msg_type TEXT NOT NULL, message BLOB,
    needs_grant INTEGER NOT NULL, tool TEXT NOT NULL, session TEXT NOT NULL, client TEXT NOT NULL, verdict TEXT NOT NULL,
    idempotency_key TEXT, message_digest TEXT NOT NULL, is_fee_granted INTEGER NOT NULL, traceparent TEXT,
    signed_at TEXT NOT NULL, decided_at TEXT, is_late INTEGER NOT NULL DEFAULT 0, block_height INTEGER, code INTEGER,
    codespace TEXT, raw_log TEXT, gas_used INTEGER, gas_wanted INTEGER, uses_sequence INTEGER NOT NULL DEFAULT 0, answer TEXT,
    fee INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE IF NOT EXISTS history (
    one INTEGER PRIMARY KEY CHECK (one = 1), first_height INTEGER NOT NULL, first_hash TEXT NOT NULL,
    newest_height INTEGER NOT NULL, newest_hash TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS transactions_key ON transactions (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS transactions_state ON transactions (state, sequence);
";

/// The database. Clones share it.
#[derive(Clone)]
pub struct JournalStore {
    connection: Arc<Mutex<SqliteConnection>>,
    location: Arc<str>,
    max_records: i64,
}

pub(super) fn to_sql_integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn read_unsigned(row: &SqliteRow, column: &str) -> Result<u64, sqlx::Error> {
    Ok(u64::try_from(row.try_get::<i64, _>(column)?).unwrap_or(0))
}

fn read_optional(row: &SqliteRow, column: &str) -> Result<Option<u64>, sqlx::Error> {
    Ok(row.try_get::<Option<i64>, _>(column)?.and_then(|value| u64::try_from(value).ok()))
}

impl JournalStore {
    /// Opens the journal in a file, or creates one in memory. `owner` names chain and account; a journal has one owner.
    pub async fn open(file: Option<&str>, owner: &str) -> Result<Self, JournalError> {
        let place = file.unwrap_or("memory");
        let options = match file {
            // A commit is on disk when it returns, so that a sent transaction is known even after a power failure.
            Some(path) => SqliteConnectOptions::new()
                .filename(path)
                .create_if_missing(true)
                .journal_mode(SqliteJournalMode::Wal)
                .synchronous(SqliteSynchronous::Full)
                .locking_mode(sqlx::sqlite::SqliteLockingMode::Exclusive),
            None => SqliteConnectOptions::from_str("sqlite::memory:")?,
        };
        let failed = |error: sqlx::Error| JournalError::Database(format!("{place}: {error}"));
        let mut connection = SqliteConnection::connect_with(&options).await.map_err(failed)?;
        sqlx::raw_sql(SCHEMA_SQL).execute(&mut connection).await.map_err(failed)?;
        add_fee_column(&mut connection).await.map_err(failed)?;
        sqlx::query("INSERT OR IGNORE INTO owner (one, name) VALUES (1, ?)")
            .bind(owner)
            .execute(&mut connection)
            .await?;
        let found: String = sqlx::query("SELECT name FROM owner").fetch_one(&mut connection).await?.try_get("name")?;
        if found != owner {
            return Err(JournalError::OwnerMismatch {
                location: place.to_owned(),
                found_owner: found,
                expected_owner: owner.to_owned(),
            });
        }
        let kept = if file.is_some() { MAX_RECORDS_ON_DISK } else { MAX_RECORDS_IN_MEMORY };
        Ok(Self { connection: Arc::new(Mutex::new(connection)), location: place.into(), max_records: kept })
    }

    /// Whether the journal outlives the process.
    pub fn is_on_disk(&self) -> bool {
        self.max_records == MAX_RECORDS_ON_DISK
    }

    /// `memory`, or the file.
    pub fn location(&self) -> &str {
        &self.location
    }

    /// Writes entries in one database transaction. A repetition changes nothing.
    pub async fn write(&self, entries: &[JournalEntry]) -> Result<(), JournalError> {
        let mut connection = self.connection.lock().await;
        let mut transaction = connection.begin().await?;
        let mut must_prune = false;
        for entry in entries {
            must_prune |= write_entry(&mut transaction, entry).await?;
        }
        if must_prune {
            let sql = "DELETE FROM transactions WHERE state NOT LIKE 'open%' AND number <= (SELECT MAX(number) FROM transactions) - ?";
            sqlx::query(sql).bind(self.max_records).execute(&mut *transaction).await?;
        }
        Ok(transaction.commit().await?)
    }

    /// Transactions that are not decided, in the order of their sequences. Each write gets a submission id of this process.
    pub async fn open_transactions(
        &self,
        mut submission_of: impl FnMut(&str) -> SubmissionId,
    ) -> Result<Vec<InFlightTx>, JournalError> {
        let mut connection = self.connection.lock().await;
        let sql = "SELECT * FROM transactions WHERE state IN ('open', 'open_refused') ORDER BY sequence, number";
        let rows = sqlx::query(sql).fetch_all(&mut *connection).await?;
        let entry = |row: &SqliteRow| -> Result<InFlightTx, sqlx::Error> {
            let message = prost_types::Any { type_url: row.try_get("msg_type")?, value: row.try_get("message")? };
            let text = |column: &str| row.try_get::<String, _>(column).map(Arc::<str>::from);
            let write_id: String = row.try_get("write_id")?;
            Ok(InFlightTx {
                submission_id: submission_of(&write_id),
                hash: row.try_get("tx_hash")?,
                bytes: row.try_get::<Option<Vec<u8>>, _>("bytes")?.unwrap_or_default(),
                sequence: read_unsigned(row, "sequence")?,
                timeout_height: read_unsigned(row, "timeout_height")?,
                signed_height: read_unsigned(row, "signed_height")?,
                intent: Arc::new(WriteIntent {
                    id: write_id,
                    encoded: EncodedMessage { message, needs_grant: row.try_get("needs_grant")? },
                    origin: WriteOrigin {
                        session: text("session")?,
                        client: text("client")?,
                        tool: text("tool")?,
                        verdict: text("verdict")?,
                    },
                    idempotency_key: row.try_get("idempotency_key")?,
                    traceparent: row.try_get("traceparent")?,
                }),
                has_granter: row.try_get("is_fee_granted")?,
                fee: read_unsigned(row, "fee")?.into(),
                signed_day: signed_day(row)?,
                is_journaled: true,
                refusal: Some(read_record(row)?).filter(|one| one.state == "open_refused").map(|one| one.refusal()),
                outcome: None,
                missing_blocks: Vec::new(),
            })
        };
        Ok(rows.iter().map(entry).collect::<Result<_, _>>()?)
    }

    /// Every sequence below this one is used: one more than the highest that a block contains.
    pub async fn sequence_floor(&self) -> Result<u64, JournalError> {
        let mut connection = self.connection.lock().await;
        let sql = "SELECT MAX(sequence) AS highest FROM transactions WHERE uses_sequence = 1";
        let row = sqlx::query(sql).fetch_one(&mut *connection).await?;
        Ok(read_optional(&row, "highest")?.map_or(0, |highest| highest + 1))
    }

    /// Fees of the transactions that were signed on a day or later, without those that never pay.
    pub async fn daily_fees(&self, day: UtcDay) -> Result<DailyFees, JournalError> {
        let mut connection = self.connection.lock().await;
        let sql = "SELECT COALESCE(SUM(fee), 0) AS spent FROM transactions WHERE signed_at >= ? \
                   AND (state IN ('open', 'open_refused') OR uses_sequence = 1)";
        let since = svc_wire::timestamp::iso_millis(&day.start());
        let row = sqlx::query(sql).bind(since).fetch_one(&mut *connection).await?;
        Ok(DailyFees::new(day, read_unsigned(&row, "spent")?.into()))
    }

    /// The pinned blocks; `None` in a journal that has pinned none.
    pub async fn history_pins(&self) -> Result<Option<HistoryPins>, JournalError> {
        let mut connection = self.connection.lock().await;
        let Some(row) = sqlx::query("SELECT * FROM history").fetch_optional(&mut *connection).await? else {
            return Ok(None);
        };
        let pin = |height: &str, hash: &str| -> Result<BlockPin, sqlx::Error> {
            Ok(BlockPin { height: read_unsigned(&row, height)?, hash: row.try_get(hash)? })
        };
        Ok(Some(HistoryPins {
            first: pin("first_height", "first_hash")?,
            newest: pin("newest_height", "newest_hash")?,
        }))
    }

    /// Pins a block as the newest, and as the first in a journal that has pinned none.
    pub async fn pin_block(&self, block: &BlockPin) -> Result<(), JournalError> {
        let mut connection = self.connection.lock().await;
        let sql = "INSERT INTO history (one, first_height, first_hash, newest_height, newest_hash) VALUES (1, ?1, ?2, ?1, ?2) \
                   ON CONFLICT (one) DO UPDATE SET newest_height = excluded.newest_height, newest_hash = excluded.newest_hash \
                   WHERE excluded.newest_height > newest_height";
        sqlx::query(sql).bind(to_sql_integer(block.height)).bind(&block.hash).execute(&mut *connection).await?;
        Ok(())
    }

    /// Transactions of a write, the oldest first.
    pub async fn find_by_write(&self, write_id: &str) -> Result<Vec<JournalRecord>, JournalError> {
        self.query_records("SELECT * FROM transactions WHERE write_id = ? ORDER BY number", write_id).await
    }

    /// A transaction by its hash.
    pub async fn find_by_hash(&self, hash: &str) -> Result<Option<JournalRecord>, JournalError> {
        Ok(self.query_records("SELECT * FROM transactions WHERE tx_hash = ?", hash).await?.pop())
    }

    /// The transaction under an idempotency key that has its outcome, or may still get it: the one in a block, otherwise the last one
    /// that is not certain never to have executed.
    pub async fn find_by_key(&self, key: &str) -> Result<Option<JournalRecord>, JournalError> {
        let sql = "SELECT * FROM transactions WHERE idempotency_key = ? AND state <> 'refused' ORDER BY \
                   CASE state WHEN 'included' THEN 0 WHEN 'open' THEN 1 WHEN 'open_refused' THEN 2 ELSE 3 END, number DESC LIMIT 1";
        Ok(self.query_records(sql, key).await?.pop())
    }

    /// The newest transactions, newest first.
    pub async fn newest_records(&self, count: u32) -> Result<Vec<JournalRecord>, JournalError> {
        self.query_records("SELECT * FROM transactions ORDER BY number DESC LIMIT ?", count).await
    }

    async fn query_records<'q, T>(&self, sql: &'static str, argument: T) -> Result<Vec<JournalRecord>, JournalError>
    where
        T: sqlx::Encode<'q, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite> + 'q + Send,
    {
        let mut connection = self.connection.lock().await;
        let rows = sqlx::query(sql).bind(argument).fetch_all(&mut *connection).await?;
        Ok(rows.iter().map(read_record).collect::<Result<_, _>>()?)
    }
}

/// Adds the column to a journal of an earlier release; its transactions count without a fee.
async fn add_fee_column(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let sql = "SELECT 1 FROM pragma_table_info('transactions') WHERE name = 'fee'";
    if sqlx::query(sql).fetch_optional(&mut *connection).await?.is_none() {
        sqlx::raw_sql("ALTER TABLE transactions ADD COLUMN fee INTEGER NOT NULL DEFAULT 0").execute(connection).await?;
    }
    Ok(())
}

fn signed_day(row: &SqliteRow) -> Result<UtcDay, sqlx::Error> {
    let signed_at: String = row.try_get("signed_at")?;
    Ok(svc_wire::timestamp::parse_rfc3339(&signed_at).map(|time| UtcDay::of(&time)).unwrap_or_default())
}

fn read_record(row: &SqliteRow) -> Result<JournalRecord, sqlx::Error> {
    Ok(JournalRecord {
        tx_hash: row.try_get("tx_hash")?,
        write_id: row.try_get("write_id")?,
        state: row.try_get("state")?,
        sequence: read_unsigned(row, "sequence")?,
        timeout_height: read_unsigned(row, "timeout_height")?,
        msg_type: row.try_get("msg_type")?,
        tool: row.try_get("tool")?,
        session: row.try_get("session")?,
        client: row.try_get("client")?,
        idempotency_key: row.try_get("idempotency_key")?,
        message_digest: row.try_get("message_digest")?,
        is_fee_granted: row.try_get("is_fee_granted")?,
        traceparent: row.try_get("traceparent")?,
        signed_at: row.try_get("signed_at")?,
        decided_at: row.try_get("decided_at")?,
        is_late: row.try_get("is_late")?,
        block_height: read_optional(row, "block_height")?,
        code: row.try_get("code")?,
        codespace: row.try_get("codespace")?,
        raw_log: row.try_get("raw_log")?,
        gas_used: read_optional(row, "gas_used")?,
        gas_wanted: read_optional(row, "gas_wanted")?,
        answer: row.try_get("answer")?,
    })
}
