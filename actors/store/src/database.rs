//! A database in SQLite or PostgreSQL, by its URL: its connections and its tables.

use std::{
    borrow::Cow,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use percent_encoding::percent_decode_str;
use sqlx::{
    Any, AnyConnection, AnyPool, Connection, SqlSafeStr,
    any::AnyPoolOptions,
    migrate::{MigrateError, Migration, MigrationType, Migrator},
};

use crate::{
    error::StoreError,
    writer::{ConnectionCounter, StoreWriter},
};

/// One step of the tables.
#[derive(Debug, Clone, Copy)]
pub struct TableMigration {
    /// Number, from 1.
    pub version: i64,
    /// Name.
    pub name: &'static str,
    /// Statements for both databases.
    pub sql: &'static str,
}

/// The events that no acknowledged commit is lost in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// A crash of the process. A crash of the machine loses whole commits, and leaves none in part.
    Process,
    /// A crash of the machine as well.
    Machine,
}

/// Settings of a database.
#[derive(Debug, Clone, Copy)]
pub struct DatabaseSettings {
    /// Durability of a commit in SQLite; PostgreSQL has its own setting.
    pub durability: Durability,
    /// Connections that reads use.
    pub read_connections: u32,
    /// The tables, in order.
    pub migrations: &'static [TableMigration],
    /// Statements for each connection to PostgreSQL.
    pub postgres_settings: &'static [&'static str],
}

/// A database cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The database failed.
    #[error("{0}")]
    Database(#[from] sqlx::Error),
    /// The tables could not be created, or another version of the program created them.
    #[error("{0}")]
    Migration(#[from] MigrateError),
    /// The table of commits cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An open database. Clones share its connections.
#[derive(Clone)]
pub struct AnyDatabase {
    /// Connections for reads.
    pub reader: AnyPool,
    /// The only connection that writes.
    pub writer: StoreWriter<Any>,
    /// File of an SQLite database on disk.
    pub file: Option<PathBuf>,
    /// Whether it is SQLite.
    pub is_sqlite: bool,
    /// Keeps a database in memory.
    _memory: Arc<Mutex<Option<AnyConnection>>>,
}

impl AnyDatabase {
    /// Opens a database, and creates its tables.
    ///
    /// # Errors
    /// Every [`OpenError`].
    pub async fn open(url: &str, settings: &'static DatabaseSettings) -> Result<Self, OpenError> {
        sqlx::any::install_default_drivers();
        let is_memory = url.contains(":memory:");
        let is_sqlite = url.starts_with("sqlite");
        let url = if is_memory { memory_url() } else { url.to_owned() };
        // An in-memory database lives as long as a connection to it, and a pool closes a connection after a cancelled
        // query. One connection outside the pool keeps the data; one inside avoids the table locks of a shared cache.
        let memory = if is_memory { Some(AnyConnection::connect(&url).await?) } else { None };
        // A file does not hang up: a connection to it needs no question before each use.
        let options = AnyPoolOptions::new()
            .max_connections(if is_memory { 1 } else { settings.read_connections })
            .test_before_acquire(!is_sqlite);
        let connections = ConnectionCounter::default();
        let counter = connections.clone();
        let options = options.after_connect(move |connection, _| {
            counter.count();
            Box::pin(async move {
                let synchronous = match settings.durability {
                    Durability::Process => "PRAGMA synchronous=NORMAL",
                    Durability::Machine => "PRAGMA synchronous=FULL",
                };
                let sqlite = ["PRAGMA journal_mode=WAL", synchronous, "PRAGMA busy_timeout=10000"];
                for statement in if is_sqlite { &sqlite } else { settings.postgres_settings } {
                    sqlx::query(*statement).fetch_all(&mut *connection).await?;
                }
                Ok(())
            })
        });
        let reader = options.clone().connect(&url).await?;
        // Writes have a connection of their own, so slow reads cannot starve them. In memory there is only one connection.
        let write_pool = if is_memory { reader.clone() } else { options.max_connections(1).connect(&url).await? };
        migrate(&reader, settings.migrations).await?;
        let file = if is_sqlite && !is_memory { sqlite_file(&url) } else { None };
        let writer = StoreWriter::new(write_pool, connections, is_sqlite, file.as_deref()).await?;
        Ok(Self { reader, writer, file, is_sqlite, _memory: Arc::new(Mutex::new(memory)) })
    }

    /// Closes every connection. SQLite then merges its write-ahead log into the database file.
    pub async fn close(&self) {
        self.writer.pool().close().await;
        self.reader.close().await;
    }
}

/// Creates tables, or brings them to the version of the last migration.
///
/// # Errors
/// When the database fails, or has tables of another program.
pub async fn migrate(pool: &AnyPool, migrations: &[TableMigration]) -> Result<(), MigrateError> {
    let migrations = migrations
        .iter()
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

/// Returns the file that an SQLite URL names.
pub fn sqlite_file(url: &str) -> Option<PathBuf> {
    let path = url.strip_prefix("sqlite:").filter(|path| !path.contains(":memory:"))?;
    let path = path.strip_prefix("//").unwrap_or(path).split('?').next()?;
    Some(PathBuf::from(percent_decode_str(path).decode_utf8().ok()?.into_owned()))
}
