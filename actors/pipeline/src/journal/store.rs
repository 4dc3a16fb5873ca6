//! The database of the journal: an SQLite file, or a database in memory.

use std::{str::FromStr, sync::Arc};

use serde::Serialize;
use sqlx::{
    Connection, Row as _, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteRow, SqliteSynchronous},
};
use tokio::sync::Mutex;

use super::core::{JournalEntry, SignedTxEntry};
use crate::write::{
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

/// A transaction as the journal has it.
#[derive(Debug, Clone, Serialize)]
pub struct JournalRecord {
    /// Upper-case hex.
    pub tx_hash: String,
    /// Id of the write that it was signed for. A write that was signed again has several transactions.
    pub write_id: String,
    /// `open`, `refused`, `included`, `failed`, `expired`, `displaced`.
    pub state: String,
    /// Sequence of the account.
    pub sequence: u64,
    /// Past this height it can never execute.
    pub timeout_height: u64,
    /// Type URL.
    pub msg_type: String,
    /// Operation that was called.
    pub tool: String,
    /// Session that called.
    pub session: String,
    /// Client program of the session.
    pub client: String,
    /// Idempotency key of the write.
    pub idempotency_key: Option<String>,
    /// Digest of the message.
    pub message_digest: String,
    /// Whether a fee granter pays the fee.
    pub is_fee_granted: bool,
    /// W3C `traceparent` of the call.
    pub traceparent: Option<String>,
    /// Time of the signature, RFC 3339.
    pub signed_at: String,
    /// Time of the decision, RFC 3339.
    pub decided_at: Option<String>,
    /// Whether a caller was answered before the transaction was decided.
    pub is_late: bool,
    /// Height of its block.
    pub block_height: Option<u64>,
    /// Result code.
    pub code: Option<u32>,
    /// Codespace of the code.
    pub codespace: Option<String>,
    /// Text of a failure.
    pub raw_log: Option<String>,
    /// Gas used.
    pub gas_used: Option<u64>,
    /// Gas limit.
    pub gas_wanted: Option<u64>,
    /// Answer of the write, JSON of the embedder; present for a write with an idempotency key that has ended.
    #[serde(skip)]
    pub answer: Option<String>,
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
const PRUNE_EVERY: u64 = 1_000;

const SCHEMA_SQL: &str = "
CREATE TABLE IF NOT EXISTS owner (one INTEGER PRIMARY KEY CHECK (one = 1), name TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS transactions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    tx_hash TEXT NOT NULL UNIQUE, write_id TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'open', sequence INTEGER NOT NULL,
    signed_height INTEGER NOT NULL, timeout_height INTEGER NOT NULL, bytes BLOB, msg_type TEXT NOT NULL, message BLOB,
    needs_grant INTEGER NOT NULL, tool TEXT NOT NULL, session TEXT NOT NULL, client TEXT NOT NULL, verdict TEXT NOT NULL,
    idempotency_key TEXT, message_digest TEXT NOT NULL, is_fee_granted INTEGER NOT NULL, traceparent TEXT,
    signed_at TEXT NOT NULL, decided_at TEXT, is_late INTEGER NOT NULL DEFAULT 0, block_height INTEGER, code INTEGER,
    codespace TEXT, raw_log TEXT, gas_used INTEGER, gas_wanted INTEGER, uses_sequence INTEGER NOT NULL DEFAULT 0, answer TEXT
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

fn to_sql_integer(value: u64) -> i64 {
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
            let sql = "DELETE FROM transactions WHERE state <> 'open' AND number <= (SELECT MAX(number) FROM transactions) - ?";
            sqlx::query(sql).bind(self.max_records).execute(&mut *transaction).await?;
        }
        Ok(transaction.commit().await?)
    }

    /// Transactions that are not decided, in the order of their sequences. Each gets a submission id of this process.
    pub async fn open_transactions(
        &self,
        mut next_call: impl FnMut() -> SubmissionId,
    ) -> Result<Vec<InFlightTx>, JournalError> {
        let mut connection = self.connection.lock().await;
        let sql = "SELECT * FROM transactions WHERE state = 'open' ORDER BY sequence, number";
        let rows = sqlx::query(sql).fetch_all(&mut *connection).await?;
        let entry = |row: &SqliteRow| -> Result<InFlightTx, sqlx::Error> {
            let message = prost_types::Any { type_url: row.try_get("msg_type")?, value: row.try_get("message")? };
            let text = |column: &str| row.try_get::<String, _>(column).map(Arc::<str>::from);
            Ok(InFlightTx {
                submission_id: next_call(),
                hash: row.try_get("tx_hash")?,
                bytes: row.try_get("bytes")?,
                sequence: read_unsigned(row, "sequence")?,
                timeout_height: read_unsigned(row, "timeout_height")?,
                signed_height: read_unsigned(row, "signed_height")?,
                intent: Arc::new(WriteIntent {
                    id: row.try_get("write_id")?,
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

    /// The last transaction under an idempotency key that the node did not refuse.
    pub async fn find_by_key(&self, key: &str) -> Result<Option<JournalRecord>, JournalError> {
        let sql =
            "SELECT * FROM transactions WHERE idempotency_key = ? AND state <> 'refused' ORDER BY number DESC LIMIT 1";
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

/// Writes one entry; true when the database is due for pruning.
async fn write_entry(connection: &mut SqliteConnection, entry: &JournalEntry) -> Result<bool, sqlx::Error> {
    match entry {
        JournalEntry::Signed(signed) => return insert_signed(connection, signed).await,
        JournalEntry::Refused { hash } => {
            let sql = "UPDATE transactions SET state = 'refused', bytes = NULL, message = NULL WHERE tx_hash = ? AND state = 'open'";
            sqlx::query(sql).bind(hash).execute(connection).await?;
        }
        JournalEntry::Decided { hash, state, result, decided_at: at } => {
            let sql = "UPDATE transactions SET state = ?, decided_at = ?, block_height = ?, code = ?, codespace = ?, raw_log = ?, \
                       gas_used = ?, gas_wanted = ?, uses_sequence = ?, bytes = NULL, message = NULL WHERE tx_hash = ? AND state = 'open'";
            let result = result.as_deref();
            sqlx::query(sql)
                .bind(*state)
                .bind(at)
                .bind(result.map(|result| to_sql_integer(result.height)))
                .bind(result.map(|result| result.code))
                .bind(result.map(|result| result.codespace.as_str()))
                .bind(result.map(|result| result.raw_log.as_str()))
                .bind(result.map(|result| to_sql_integer(result.gas_used)))
                .bind(result.map(|result| to_sql_integer(result.gas_wanted)))
                .bind(result.is_some_and(|result| result.uses_sequence))
                .bind(hash)
                .execute(connection)
                .await?;
        }
        JournalEntry::CallerTimedOut { hash } => {
            sqlx::query("UPDATE transactions SET is_late = 1 WHERE tx_hash = ?").bind(hash).execute(connection).await?;
        }
        JournalEntry::Answered { hash, answer } => {
            let sql = "UPDATE transactions SET answer = ? WHERE tx_hash = ?";
            sqlx::query(sql).bind(answer).bind(hash).execute(connection).await?;
        }
    }
    Ok(false)
}

async fn insert_signed(connection: &mut SqliteConnection, signed: &SignedTxEntry) -> Result<bool, sqlx::Error> {
    let (tx, intent) = (&signed.tx, &signed.tx.intent);
    // The signer may sign the same bytes again after a refusal, also for another write of the same message.
    let sql = "INSERT INTO transactions (tx_hash, write_id, sequence, signed_height, timeout_height, bytes, msg_type, \
               message, needs_grant, tool, session, client, verdict, idempotency_key, message_digest, is_fee_granted, \
               traceparent, signed_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (tx_hash) DO UPDATE SET \
               state = 'open', write_id = excluded.write_id, signed_height = excluded.signed_height, bytes = excluded.bytes, \
               message = excluded.message, needs_grant = excluded.needs_grant, tool = excluded.tool, session = excluded.session, \
               client = excluded.client, verdict = excluded.verdict, idempotency_key = excluded.idempotency_key, \
               traceparent = excluded.traceparent, signed_at = excluded.signed_at \
               WHERE state = 'refused' OR (state = 'failed' AND uses_sequence = 0)";
    let inserted = sqlx::query(sql)
        .bind(&tx.hash)
        .bind(&intent.id)
        .bind(to_sql_integer(tx.sequence))
        .bind(to_sql_integer(tx.signed_height))
        .bind(to_sql_integer(tx.timeout_height))
        .bind(&tx.bytes)
        .bind(intent.encoded.msg_type())
        .bind(&intent.encoded.message.value)
        .bind(intent.encoded.needs_grant)
        .bind(&*intent.origin.tool)
        .bind(&*intent.origin.session)
        .bind(&*intent.origin.client)
        .bind(&*intent.origin.verdict)
        .bind(&intent.idempotency_key)
        .bind(intent.encoded.digest())
        .bind(tx.has_granter)
        .bind(&intent.traceparent)
        .bind(&signed.signed_at)
        .execute(connection)
        .await?;
    Ok(u64::try_from(inserted.last_insert_rowid()).is_ok_and(|number| number % PRUNE_EVERY == 0))
}
