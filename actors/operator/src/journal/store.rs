//! The file of the journal: an SQLite database, or one in memory.

use std::{str::FromStr, sync::Arc};

use serde::Serialize;
use sqlx::{
    Connection, Row as _, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteRow, SqliteSynchronous},
};
use tokio::sync::Mutex;

use super::{Note, SignedNote};
use crate::{
    in_flight::{CallId, Entry},
    order::{Asker, Order},
    prepare::Prepared,
};

/// The journal cannot do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// The database failed.
    #[error("{0}")]
    Database(String),
    /// The actor that writes does not answer.
    #[error("{0}")]
    Silent(String),
    /// It was written by the server of another key, or of another chain.
    #[error("{place} is the journal of {found}, this server is {own}; give each server a journal of its own")]
    Foreign {
        /// Where it is.
        place: String,
        /// Whose it is.
        found: String,
        /// Who asks.
        own: String,
    },
}

impl From<sqlx::Error> for JournalError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error.to_string())
    }
}

/// A transaction as it is told.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Upper-case hex.
    pub tx_hash: String,
    /// Id of the write it was signed for; a write that had to be signed anew has several.
    pub write_id: String,
    /// `open`, `refused`, `included`, `failed`, `expired`, `displaced`.
    pub state: String,
    /// Sequence of the account.
    pub sequence: u64,
    /// Past this height it can never execute.
    pub timeout_height: u64,
    /// Type URL.
    pub msg_type: String,
    /// Tool that was called.
    pub tool: String,
    /// Session that called it.
    pub session: String,
    /// Its client program.
    pub client: String,
    /// Key under which its outcome can be asked for again.
    pub idempotency_key: Option<String>,
    /// Digest of the message.
    pub message_digest: String,
    /// Whether the corporation pays the fee.
    pub is_fee_granted: bool,
    /// W3C `traceparent` of the call.
    pub traceparent: Option<String>,
    /// When it was signed, RFC 3339.
    pub signed_at: String,
    /// When it was decided.
    pub decided_at: Option<String>,
    /// Whether a caller was told BCAST_TIMEOUT before.
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
    /// The answer of the call, if it has a key and an answer.
    #[serde(skip)]
    pub answer: Option<String>,
}

/// Transactions that are kept on disk, and in memory.
const KEPT_ON_DISK: i64 = 100_000;
const KEPT_IN_MEMORY: i64 = 5_000;
/// Transactions between two looks at how many are kept.
const PRUNE_EVERY: u64 = 1_000;

const TABLES: &str = "
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
CREATE INDEX IF NOT EXISTS transactions_key ON transactions (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS transactions_state ON transactions (state, sequence);
";

/// The database. Clones share it.
#[derive(Clone)]
pub struct Store {
    connection: Arc<Mutex<SqliteConnection>>,
    place: Arc<str>,
    kept: i64,
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn unsigned(row: &SqliteRow, column: &str) -> Result<u64, sqlx::Error> {
    Ok(u64::try_from(row.try_get::<i64, _>(column)?).unwrap_or(0))
}

fn optional(row: &SqliteRow, column: &str) -> Result<Option<u64>, sqlx::Error> {
    Ok(row.try_get::<Option<i64>, _>(column)?.and_then(|value| u64::try_from(value).ok()))
}

impl Store {
    /// Opens the journal in a file, or makes one in memory. `owner` names chain and account: it belongs to them alone.
    pub async fn open(file: Option<&str>, owner: &str) -> Result<Self, JournalError> {
        let place = file.unwrap_or("memory");
        let options = match file {
            // A commit is on disk when it ends: what has left is known even after the machine has lost its power.
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
        sqlx::raw_sql(TABLES).execute(&mut connection).await.map_err(failed)?;
        sqlx::query("INSERT OR IGNORE INTO owner (one, name) VALUES (1, ?)")
            .bind(owner)
            .execute(&mut connection)
            .await?;
        let found: String = sqlx::query("SELECT name FROM owner").fetch_one(&mut connection).await?.try_get("name")?;
        if found != owner {
            return Err(JournalError::Foreign { place: place.to_owned(), found, own: owner.to_owned() });
        }
        let kept = if file.is_some() { KEPT_ON_DISK } else { KEPT_IN_MEMORY };
        Ok(Self { connection: Arc::new(Mutex::new(connection)), place: place.into(), kept })
    }

    /// Whether it outlives the process.
    pub fn is_on_disk(&self) -> bool {
        self.kept == KEPT_ON_DISK
    }

    /// `memory`, or the file.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Writes notes in one transaction. Writing them again changes nothing.
    pub async fn write(&self, notes: &[Note]) -> Result<(), JournalError> {
        let mut connection = self.connection.lock().await;
        let mut transaction = connection.begin().await?;
        let mut must_prune = false;
        for note in notes {
            must_prune |= apply(&mut transaction, note).await?;
        }
        if must_prune {
            let sql = "DELETE FROM transactions WHERE state <> 'open' AND number <= (SELECT MAX(number) FROM transactions) - ?";
            sqlx::query(sql).bind(self.kept).execute(&mut *transaction).await?;
        }
        Ok(transaction.commit().await?)
    }

    /// Transactions that were not decided, in the order of their sequences, with the call each of them gets here.
    pub async fn open_entries(&self, mut next_call: impl FnMut() -> CallId) -> Result<Vec<Entry>, JournalError> {
        let mut connection = self.connection.lock().await;
        let sql = "SELECT * FROM transactions WHERE state = 'open' ORDER BY sequence, number";
        let rows = sqlx::query(sql).fetch_all(&mut *connection).await?;
        let entry = |row: &SqliteRow| -> Result<Entry, sqlx::Error> {
            let message = prost_types::Any { type_url: row.try_get("msg_type")?, value: row.try_get("message")? };
            let text = |column: &str| row.try_get::<String, _>(column).map(Arc::<str>::from);
            Ok(Entry {
                call: next_call(),
                hash: row.try_get("tx_hash")?,
                bytes: row.try_get("bytes")?,
                sequence: unsigned(row, "sequence")?,
                timeout_height: unsigned(row, "timeout_height")?,
                signed_height: unsigned(row, "signed_height")?,
                order: Arc::new(Order {
                    id: row.try_get("write_id")?,
                    prepared: Prepared { message, needs_grant: row.try_get("needs_grant")? },
                    asker: Asker {
                        session: text("session")?,
                        client: text("client")?,
                        tool: text("tool")?,
                        verdict: text("verdict")?,
                    },
                    key: row.try_get("idempotency_key")?,
                    traceparent: row.try_get("traceparent")?,
                }),
                has_granter: row.try_get("is_fee_granted")?,
                outcome: None,
            })
        };
        Ok(rows.iter().map(entry).collect::<Result<_, _>>()?)
    }

    /// Every sequence below this one is used: the one behind the highest that is in a block.
    pub async fn floor(&self) -> Result<u64, JournalError> {
        let mut connection = self.connection.lock().await;
        let sql = "SELECT MAX(sequence) AS highest FROM transactions WHERE uses_sequence = 1";
        let row = sqlx::query(sql).fetch_one(&mut *connection).await?;
        Ok(optional(&row, "highest")?.map_or(0, |highest| highest + 1))
    }

    /// States of the transactions of a write, the oldest first.
    pub async fn of_write(&self, write_id: &str) -> Result<Vec<Row>, JournalError> {
        self.rows("SELECT * FROM transactions WHERE write_id = ? ORDER BY number", write_id).await
    }

    /// A transaction.
    pub async fn of_hash(&self, hash: &str) -> Result<Option<Row>, JournalError> {
        Ok(self.rows("SELECT * FROM transactions WHERE tx_hash = ?", hash).await?.pop())
    }

    /// The last transaction under a key that was not refused.
    pub async fn of_key(&self, key: &str) -> Result<Option<Row>, JournalError> {
        let sql =
            "SELECT * FROM transactions WHERE idempotency_key = ? AND state <> 'refused' ORDER BY number DESC LIMIT 1";
        Ok(self.rows(sql, key).await?.pop())
    }

    /// The newest transactions, newest first.
    pub async fn newest(&self, count: u32) -> Result<Vec<Row>, JournalError> {
        self.rows("SELECT * FROM transactions ORDER BY number DESC LIMIT ?", count).await
    }

    async fn rows<'q, T>(&self, sql: &'static str, argument: T) -> Result<Vec<Row>, JournalError>
    where
        T: sqlx::Encode<'q, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite> + 'q + Send,
    {
        let mut connection = self.connection.lock().await;
        let rows = sqlx::query(sql).bind(argument).fetch_all(&mut *connection).await?;
        Ok(rows.iter().map(row).collect::<Result<_, _>>()?)
    }
}

fn row(row: &SqliteRow) -> Result<Row, sqlx::Error> {
    Ok(Row {
        tx_hash: row.try_get("tx_hash")?,
        write_id: row.try_get("write_id")?,
        state: row.try_get("state")?,
        sequence: unsigned(row, "sequence")?,
        timeout_height: unsigned(row, "timeout_height")?,
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
        block_height: optional(row, "block_height")?,
        code: row.try_get("code")?,
        codespace: row.try_get("codespace")?,
        raw_log: row.try_get("raw_log")?,
        gas_used: optional(row, "gas_used")?,
        gas_wanted: optional(row, "gas_wanted")?,
        answer: row.try_get("answer")?,
    })
}

/// Writes one note; true when it is time to look how many are kept.
async fn apply(connection: &mut SqliteConnection, note: &Note) -> Result<bool, sqlx::Error> {
    match note {
        Note::Signed(note) => return insert(connection, note).await,
        Note::Refused { hash } => {
            let sql = "UPDATE transactions SET state = 'refused', bytes = NULL, message = NULL WHERE tx_hash = ? AND state = 'open'";
            sqlx::query(sql).bind(hash).execute(connection).await?;
        }
        Note::Decided { hash, state, result, at } => {
            let sql = "UPDATE transactions SET state = ?, decided_at = ?, block_height = ?, code = ?, codespace = ?, raw_log = ?, \
                       gas_used = ?, gas_wanted = ?, uses_sequence = ?, bytes = NULL, message = NULL WHERE tx_hash = ? AND state = 'open'";
            let result = result.as_deref();
            sqlx::query(sql)
                .bind(*state)
                .bind(at)
                .bind(result.map(|result| signed(result.height)))
                .bind(result.map(|result| result.code))
                .bind(result.map(|result| result.codespace.as_str()))
                .bind(result.map(|result| result.raw_log.as_str()))
                .bind(result.map(|result| signed(result.gas_used)))
                .bind(result.map(|result| signed(result.gas_wanted)))
                .bind(result.is_some_and(|result| result.uses_sequence))
                .bind(hash)
                .execute(connection)
                .await?;
        }
        Note::Late { hash } => {
            sqlx::query("UPDATE transactions SET is_late = 1 WHERE tx_hash = ?").bind(hash).execute(connection).await?;
        }
        Note::Answered { hash, answer } => {
            let sql = "UPDATE transactions SET answer = ? WHERE tx_hash = ?";
            sqlx::query(sql).bind(answer).bind(hash).execute(connection).await?;
        }
    }
    Ok(false)
}

async fn insert(connection: &mut SqliteConnection, note: &SignedNote) -> Result<bool, sqlx::Error> {
    let (entry, order) = (&note.entry, &note.entry.order);
    // The same bytes may be signed again for what a node refused, also for another write of the same message.
    let sql = "INSERT INTO transactions (tx_hash, write_id, sequence, signed_height, timeout_height, bytes, msg_type, \
               message, needs_grant, tool, session, client, verdict, idempotency_key, message_digest, is_fee_granted, \
               traceparent, signed_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (tx_hash) DO UPDATE SET \
               state = 'open', write_id = excluded.write_id, signed_height = excluded.signed_height, bytes = excluded.bytes, \
               message = excluded.message, needs_grant = excluded.needs_grant, tool = excluded.tool, session = excluded.session, \
               client = excluded.client, verdict = excluded.verdict, idempotency_key = excluded.idempotency_key, \
               traceparent = excluded.traceparent, signed_at = excluded.signed_at \
               WHERE state = 'refused' OR (state = 'failed' AND uses_sequence = 0)";
    let inserted = sqlx::query(sql)
        .bind(&entry.hash)
        .bind(&order.id)
        .bind(signed(entry.sequence))
        .bind(signed(entry.signed_height))
        .bind(signed(entry.timeout_height))
        .bind(&entry.bytes)
        .bind(order.prepared.msg_type())
        .bind(&order.prepared.message.value)
        .bind(order.prepared.needs_grant)
        .bind(&*order.asker.tool)
        .bind(&*order.asker.session)
        .bind(&*order.asker.client)
        .bind(&*order.asker.verdict)
        .bind(&order.key)
        .bind(order.prepared.digest())
        .bind(entry.has_granter)
        .bind(&order.traceparent)
        .bind(&note.at)
        .execute(connection)
        .await?;
    Ok(u64::try_from(inserted.last_insert_rowid()).is_ok_and(|number| number % PRUNE_EVERY == 0))
}
