//! The journal's tables: creating, upgrading and claiming them.

use std::{path::Path, time::Duration};

use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, SqliteConnection, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use svc_kit::wall_clock;
use svc_store::{ConnectionCounter, StoreHead, StoreLock, StoreWriter};

use super::{
    error::{JournalError, JournalLoss},
    integrity,
};

/// Longest wait for the connection, which a disk that hangs may hold.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// Version of the tables, in the file's `user_version`. Releases before 1 wrote 0; version 1 had no principals, version 2 two pinned blocks
/// and no rebases.
pub(super) const SCHEMA_VERSION: i64 = 3;
/// The first version whose rows name a principal.
pub(super) const FIRST_WITH_PRINCIPALS: i64 = 2;

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
    fee INTEGER NOT NULL DEFAULT 0, checksum INTEGER,
    restored_at TEXT, principal TEXT NOT NULL DEFAULT 'default'
) STRICT;
CREATE TABLE IF NOT EXISTS head (
    one INTEGER PRIMARY KEY CHECK (one = 1), identity TEXT NOT NULL, checksum_sum INTEGER NOT NULL DEFAULT 0,
    audit_head TEXT, created_at TEXT,
    lost_commits INTEGER, compared_sequence INTEGER, compared_height INTEGER
) STRICT;
CREATE TABLE IF NOT EXISTS pins (height INTEGER PRIMARY KEY, hash TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS rebases (
    number INTEGER PRIMARY KEY AUTOINCREMENT, height INTEGER NOT NULL, hash TEXT, rebased_at TEXT NOT NULL, abandoned INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS transactions_key ON transactions (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS transactions_state ON transactions (state, sequence);
";

/// The open database of a journal.
pub(super) struct OpenDatabase {
    pub writer: StoreWriter<sqlx::Sqlite>,
    /// `None` in memory.
    pub lock: Option<StoreLock>,
    pub identity: String,
    pub loss: Option<JournalLoss>,
    pub has_restored: bool,
    /// Keeps a database in memory.
    pub anchor: Option<SqliteConnection>,
}

/// Opens the journal in a file, or creates one in memory, for its owner.
pub(super) async fn open(file: Option<&str>, owner: &str) -> Result<OpenDatabase, JournalError> {
    let place = file.unwrap_or("memory");
    let lock = match file {
        Some(path) => Some(StoreLock::acquire(Path::new(path), wall_clock::now_rfc3339())?),
        None => None,
    };
    let (lock, head) = lock.map_or((None, None), |(lock, head)| (Some(lock), head));
    let failed = |error: sqlx::Error| JournalError::Database(format!("{place}: {error}"));
    let (pool, connections, anchor) = connect(file).await.map_err(failed)?;
    let (identity, has_restored) = {
        let mut connection = pool.acquire().await.map_err(failed)?;
        let identity = prepare(&mut connection, place, owner).await.map_err(|error| error.at(place))?;
        let sql = "SELECT EXISTS (SELECT 1 FROM transactions WHERE restored_at IS NOT NULL)";
        (identity, sqlx::query_scalar(sql).fetch_one(&mut *connection).await?)
    };
    let writer = StoreWriter::new(pool, connections, true, file.map(Path::new)).await?;
    let mut loss = head.and_then(|head| find_loss(&head, &identity, writer.last_commit()));
    match &loss {
        // The loss stays on record until its records were taken from blocks, however often the process ends before that.
        Some(loss) => note_loss(&writer, loss.acknowledged).await?,
        None => loss = noted_loss(&writer).await?,
    }
    if let Some(loss) = &loss {
        tracing::error!(journal = place, %loss, "the journal has lost records");
    }
    Ok(OpenDatabase { writer, lock, identity, loss, has_restored, anchor })
}

/// A pool of one connection, which lives until an error.
async fn connect(file: Option<&str>) -> Result<(SqlitePool, ConnectionCounter, Option<SqliteConnection>), sqlx::Error> {
    let connections = ConnectionCounter::default();
    let counter = connections.clone();
    let pool = SqlitePoolOptions::new()
        .max_connections(1)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false);
    let pool = pool.after_connect(move |_, _| {
        counter.count();
        Box::pin(async { Ok(()) })
    });
    let Some(path) = file else {
        // A database in memory lives as long as a connection to it, and that of the pool is closed after an error.
        let options: SqliteConnectOptions = "sqlite::memory:".parse()?;
        let anchor = options.connect().await?;
        return Ok((pool.connect_with(options).await?, connections, Some(anchor)));
    };
    // A commit is on disk when it returns, so that a sent transaction is known even after a power failure.
    let options = SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full);
    // Only the boot creates the file: one that vanishes later must not come back empty.
    options.clone().create_if_missing(true).connect().await?.close().await?;
    Ok((pool.connect_with(options).await?, connections, None))
}

/// Creates or upgrades the tables, claims them for the owner, and checks every row. Yields the journal's identity.
async fn prepare(connection: &mut SqliteConnection, place: &str, owner: &str) -> Result<String, JournalError> {
    let found: i64 = sqlx::query_scalar("PRAGMA user_version").fetch_one(&mut *connection).await?;
    if found > SCHEMA_VERSION {
        return Err(JournalError::NewerSchema { location: place.to_owned(), found, known: SCHEMA_VERSION });
    }
    let has_no_checksums = found < 1;
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut *connection).await?;
    sqlx::raw_sql(SCHEMA_SQL).execute(&mut *connection).await?;
    for (name, definition) in [
        ("audit_head", "TEXT"),
        ("created_at", "TEXT"),
        ("lost_commits", "INTEGER"),
        ("compared_sequence", "INTEGER"),
        ("compared_height", "INTEGER"),
    ] {
        add_column(connection, "head", name, definition).await?;
    }
    if has_no_checksums {
        add_column(connection, "transactions", "fee", "INTEGER NOT NULL DEFAULT 0").await?;
        add_column(connection, "transactions", "checksum", "INTEGER").await?;
        add_column(connection, "transactions", "restored_at", "TEXT").await?;
    }
    if found < SCHEMA_VERSION {
        // The content of a row of the default principal is the same as before, and so is its checksum.
        add_column(connection, "transactions", "principal", "TEXT NOT NULL DEFAULT 'default'").await?;
        take_pins_over(connection).await?;
        sqlx::raw_sql(AssertSqlSafe(format!("PRAGMA user_version = {SCHEMA_VERSION}")))
            .execute(&mut *connection)
            .await?;
    }
    let index = "CREATE INDEX IF NOT EXISTS transactions_restored ON transactions (message_digest) WHERE restored_at IS NOT NULL";
    sqlx::raw_sql(index).execute(&mut *connection).await?;
    sqlx::query("INSERT OR IGNORE INTO owner (one, name) VALUES (1, ?)").bind(owner).execute(&mut *connection).await?;
    sqlx::query("INSERT OR IGNORE INTO head (one, identity, created_at) VALUES (1, ?, ?)")
        .bind(uuid::Uuid::new_v4().to_string())
        .bind(wall_clock::now_rfc3339())
        .execute(&mut *connection)
        .await?;
    if has_no_checksums {
        integrity::add_checksums(connection).await?;
    }
    sqlx::raw_sql("COMMIT").execute(&mut *connection).await?;
    let found: String = sqlx::query_scalar("SELECT name FROM owner").fetch_one(&mut *connection).await?;
    if found != owner {
        return Err(JournalError::OwnerMismatch {
            location: place.to_owned(),
            found_owner: found,
            expected_owner: owner.to_owned(),
        });
    }
    integrity::verify(connection, place, SCHEMA_VERSION).await?;
    Ok(sqlx::query_scalar("SELECT identity FROM head").fetch_one(connection).await?)
}

/// Takes the two pins of a journal of an earlier release over.
async fn take_pins_over(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'history'";
    if sqlx::query(sql).fetch_optional(&mut *connection).await?.is_some() {
        let sql = "INSERT OR IGNORE INTO pins SELECT first_height, first_hash FROM history; \
                   INSERT OR IGNORE INTO pins SELECT newest_height, newest_hash FROM history; DROP TABLE history";
        sqlx::raw_sql(sql).execute(connection).await?;
    }
    Ok(())
}

/// Adds a column to a journal of an earlier release.
async fn add_column(
    connection: &mut SqliteConnection,
    table: &str,
    name: &str,
    definition: &str,
) -> Result<(), sqlx::Error> {
    let sql = "SELECT 1 FROM pragma_table_info(?) WHERE name = ?";
    if sqlx::query(sql).bind(table).bind(name).fetch_optional(&mut *connection).await?.is_none() {
        let sql = format!("ALTER TABLE {table} ADD COLUMN {name} {definition}");
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await?;
    }
    Ok(())
}

async fn note_loss(writer: &StoreWriter<sqlx::Sqlite>, acknowledged: i64) -> Result<(), JournalError> {
    let mut transaction = writer.begin().await?;
    sqlx::query("UPDATE head SET lost_commits = ?").bind(acknowledged).execute(&mut *transaction).await?;
    Ok(transaction.commit().await?)
}

async fn noted_loss(writer: &StoreWriter<sqlx::Sqlite>) -> Result<Option<JournalLoss>, JournalError> {
    let acknowledged: Option<i64> =
        sqlx::query_scalar("SELECT lost_commits FROM head").fetch_one(writer.pool()).await?;
    Ok(acknowledged.map(|acknowledged| JournalLoss { acknowledged, found: writer.last_commit() }))
}

/// The records that the journal has lost according to the head that its lock file keeps.
fn find_loss(head: &StoreHead, identity: &str, last_commit: i64) -> Option<JournalLoss> {
    let found = if head.identity == identity { last_commit } else { 0 };
    (found < head.commit).then_some(JournalLoss { acknowledged: head.commit, found })
}
