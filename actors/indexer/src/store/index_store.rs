//! Opening the database: its connections, its tables, and the chain that it belongs to.

use std::{
    borrow::Cow,
    ops::{Deref, DerefMut},
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use percent_encoding::percent_decode_str;
use sqlx::{
    Any, AnyConnection, AnyPool, Connection, Row, SqlSafeStr,
    any::AnyPoolOptions,
    migrate::{MigrateError, Migration, MigrationType, Migrator},
    pool::PoolConnection,
};
use svc_store::{ConnectionCounter, StoreTransaction, StoreWriter};
use tokio::sync::MutexGuard;

use super::error::IndexStoreError;

struct StoreMigration {
    version: i64,
    name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: [StoreMigration; 5] = [
    StoreMigration { version: 1, name: "store", sql: include_str!("../../migrations/0001_store.sql") },
    StoreMigration { version: 2, name: "block time", sql: include_str!("../../migrations/0002_block_time.sql") },
    StoreMigration { version: 3, name: "trust", sql: include_str!("../../migrations/0003_trust.sql") },
    StoreMigration { version: 4, name: "lookup", sql: include_str!("../../migrations/0004_lookup.sql") },
    StoreMigration { version: 5, name: "activity time", sql: include_str!("../../migrations/0005_activity_time.sql") },
];

/// Connections of a pool that reads use.
const READ_CONNECTIONS: u32 = 8;

/// A handle on the database; clones share its connections.
#[derive(Clone)]
pub struct IndexStore {
    source: StoreSource,
    pub(super) writer: StoreWriter<Any>,
    _memory_connection: Arc<Mutex<Option<AnyConnection>>>,
}

/// Where a store reads.
#[derive(Clone)]
enum StoreSource {
    Pool(AnyPool),
    Transaction(Arc<tokio::sync::Mutex<StoreTransaction<Any>>>),
}

/// A connection of a store.
pub(super) enum StoreConnection<'a> {
    Pooled(PoolConnection<Any>),
    Transaction(MutexGuard<'a, StoreTransaction<Any>>),
}

impl Deref for StoreConnection<'_> {
    type Target = AnyConnection;

    fn deref(&self) -> &AnyConnection {
        match self {
            Self::Pooled(connection) => connection,
            Self::Transaction(transaction) => transaction,
        }
    }
}

impl DerefMut for StoreConnection<'_> {
    fn deref_mut(&mut self) -> &mut AnyConnection {
        match self {
            Self::Pooled(connection) => connection,
            Self::Transaction(transaction) => transaction,
        }
    }
}

/// Brings the tables to a version.
pub(super) async fn migrate(pool: &AnyPool, version: usize) -> Result<(), MigrateError> {
    let migrations: Vec<Migration> = MIGRATIONS
        .iter()
        .take(version)
        .map(|row| {
            let (name, sql) = (Cow::Borrowed(row.name), row.sql.into_sql_str());
            Migration::new(row.version, name, MigrationType::Simple, sql, false)
        })
        .collect();
    Migrator::with_migrations(migrations).run(pool).await
}

/// Returns the URL of a new in-memory database that several connections can share.
fn memory_url() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("sqlite:file:svc-{}-{number}?mode=memory&cache=shared", std::process::id())
}

/// The file that an SQLite URL names.
pub fn sqlite_file(url: &str) -> Option<PathBuf> {
    let path = url.strip_prefix("sqlite:").filter(|path| !path.contains(":memory:"))?;
    let path = path.strip_prefix("//").unwrap_or(path).split('?').next()?;
    Some(PathBuf::from(percent_decode_str(path).decode_utf8().ok()?.into_owned()))
}

impl IndexStore {
    /// Opens the database, creates its tables, and claims it for a chain. Fails when it belongs to another chain.
    pub async fn open(url: &str, chain_id: &str) -> Result<Self, IndexStoreError> {
        sqlx::any::install_default_drivers();
        let is_memory = url.contains(":memory:");
        let is_sqlite = url.starts_with("sqlite");
        let url = if is_memory { memory_url() } else { url.to_owned() };
        // An in-memory database lives as long as a connection to it, and a pool closes a connection after a cancelled
        // query. One connection outside the pool keeps the data; one inside avoids the table locks of a shared cache.
        let memory_connection = if is_memory { Some(AnyConnection::connect(&url).await?) } else { None };
        // A file does not hang up: a connection to it needs no question before each use.
        let options = AnyPoolOptions::new()
            .max_connections(if is_memory { 1 } else { READ_CONNECTIONS })
            .test_before_acquire(!is_sqlite);
        let connections = ConnectionCounter::default();
        let counter = connections.clone();
        let options = options.after_connect(move |connection, _| {
            counter.count();
            Box::pin(async move {
                if is_sqlite {
                    // In WAL mode a crash of the process loses no commit, and a crash of the machine leaves no partial
                    // commit.
                    for pragma in ["PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL", "PRAGMA busy_timeout=10000"]
                    {
                        sqlx::query(pragma).fetch_all(&mut *connection).await?;
                    }
                }
                if !is_sqlite {
                    // A writer that died within a transaction holds the others up for a minute at most.
                    for setting in [
                        "SET lock_timeout = '30s'",
                        "SET idle_in_transaction_session_timeout = '60s'",
                        // Every statement is a seek: a plan for the values of one call costs more than it saves.
                        "SET plan_cache_mode = force_generic_plan",
                    ] {
                        sqlx::query(setting).execute(&mut *connection).await?;
                    }
                }
                Ok(())
            })
        });
        let pool = options.clone().connect(&url).await?;
        // Blocks have a connection of their own, so slow reads cannot starve them. In memory there is only one
        // connection.
        let write_pool = if is_memory { pool.clone() } else { options.max_connections(1).connect(&url).await? };
        migrate(&pool, MIGRATIONS.len()).await?;
        let file = if is_sqlite && !is_memory { sqlite_file(&url) } else { None };
        let writer = StoreWriter::new(write_pool, connections, is_sqlite, file.as_deref()).await?;
        let source = StoreSource::Pool(pool);
        let store = Self { source, writer, _memory_connection: Arc::new(Mutex::new(memory_connection)) };
        store.claim_chain(chain_id).await?;
        Ok(store)
    }

    /// Returns the same store on the connection that is reserved for writes.
    pub fn with_write_pool(&self) -> Self {
        Self { source: StoreSource::Pool(self.writer.pool().clone()), ..self.clone() }
    }

    /// Returns the same store within an open transaction, whose changes it shows.
    pub(super) fn within(&self, transaction: &Arc<tokio::sync::Mutex<StoreTransaction<Any>>>) -> Self {
        Self { source: StoreSource::Transaction(Arc::clone(transaction)), ..self.clone() }
    }

    /// A connection to read with. Within a transaction there is only one.
    pub(super) async fn connection(&self) -> Result<StoreConnection<'_>, sqlx::Error> {
        match &self.source {
            StoreSource::Pool(pool) => Ok(StoreConnection::Pooled(pool.acquire().await?)),
            StoreSource::Transaction(transaction) => Ok(StoreConnection::Transaction(transaction.lock().await)),
        }
    }

    /// Closes every connection. SQLite then merges its write-ahead log into the database file.
    pub async fn close(&self) {
        self.writer.pool().close().await;
        if let StoreSource::Pool(pool) = &self.source {
            pool.close().await;
        }
    }

    /// Whether the store has every entity of its first height: it was begun by a release that reads them, or compared with a node.
    pub async fn is_complete(&self) -> Result<bool, IndexStoreError> {
        let sql = "SELECT 1 FROM meta WHERE name = 'complete'";
        Ok(sqlx::query(sql).fetch_optional(&mut *self.connection().await?).await?.is_some())
    }

    /// Notes that the store has every entity of its first height.
    pub async fn mark_complete(&self) -> Result<(), IndexStoreError> {
        let sql = "INSERT INTO meta (name, value) VALUES ('complete', 'yes') ON CONFLICT (name) DO NOTHING";
        Ok(sqlx::query(sql).execute(&mut *self.connection().await?).await.map(drop)?)
    }

    async fn claim_chain(&self, chain_id: &str) -> Result<(), IndexStoreError> {
        sqlx::query("INSERT INTO meta (name, value) VALUES ('chain_id', $1) ON CONFLICT (name) DO NOTHING")
            .bind(chain_id)
            .execute(&mut *self.connection().await?)
            .await?;
        let row = sqlx::query("SELECT value FROM meta WHERE name = 'chain_id'")
            .fetch_one(&mut *self.connection().await?)
            .await?;
        let stored: String = row.try_get(0)?;
        if stored == chain_id {
            Ok(())
        } else {
            Err(IndexStoreError::ChainMismatch { stored, node: chain_id.to_owned() })
        }
    }
}
