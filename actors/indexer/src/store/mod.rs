//! What the indexer keeps: every version of every entity, its activity, events with their routes, figures, blocks, and the
//! checkpoint. One database transaction per block. The SQL is the common subset of SQLite and PostgreSQL.

mod activity;
mod entity;
mod event;
mod measure;
mod trust;

use std::{
    borrow::Cow,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use sha2::{Digest, Sha256};
use sqlx::{
    AnyConnection, AnyPool, Connection, Row, SqlSafeStr,
    any::AnyPoolOptions,
    migrate::{MigrateError, Migration, MigrationType, Migrator},
};
use svc_wire::{event::Event, instant};

pub use activity::{Activity, ActivityRow};
pub use entity::{Change, Filter, Kind, Range, Stored};
pub use event::{EventQuery, Route};
pub use measure::{Bucket, Granularity};
pub use trust::{ChangeQuery, TrustWrite, VerdictWrite};

use crate::derive::measures::Deltas;

/// The store cannot do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database failed.
    #[error("database: {0}")]
    Database(#[from] sqlx::Error),
    /// The tables could not be made, or are those of another version.
    #[error("tables of the database: {0}")]
    Migrate(#[from] MigrateError),
    /// The database belongs to another chain.
    #[error("the database holds chain {stored:?}, the node runs {node:?}; use another database")]
    OtherChain {
        /// Chain id in the database.
        stored: String,
        /// Chain id of the node.
        node: String,
    },
    /// The database holds an earlier chain of the same name.
    #[error(
        "the database holds another chain called {chain_id:?}: its block {height} is not the node's; use another database"
    )]
    OtherRun {
        /// Chain id of both.
        chain_id: String,
        /// First height that differs.
        height: u64,
    },
    /// A stored row is not readable: the database was changed by something else.
    #[error("a stored row is not readable: {0}")]
    Corrupt(String),
}

const MIGRATIONS: [(i64, &str, &str); 3] = [
    (1, "store", include_str!("../../migrations/0001_store.sql")),
    (2, "block time", include_str!("../../migrations/0002_block_time.sql")),
    (3, "trust", include_str!("../../migrations/0003_trust.sql")),
];

/// A store; clones share it.
#[derive(Clone)]
pub struct Store {
    pool: AnyPool,
    writing: AnyPool,
    _keeper: Arc<Mutex<Option<AnyConnection>>>,
}

/// Newest block the store holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checkpoint {
    /// Height; 0 before the first block.
    pub height: u64,
    /// Its time in nanoseconds since the epoch; 0 before the first block.
    pub time: i128,
}

/// Everything one block writes.
#[derive(Default)]
pub struct BlockWrite {
    pub height: u64,
    /// Nanoseconds since the epoch.
    pub time: i128,
    pub changes: Vec<Change>,
    pub events: Vec<Event>,
    pub activity: Vec<Activity>,
    pub deltas: Deltas,
    /// Instants at which an entity changes by itself.
    pub schedule: Vec<(i128, Kind, u64)>,
}

/// An in-memory database of its own, which several connections can share.
fn memory_url() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("sqlite:file:svc-{}-{number}?mode=memory&cache=shared", std::process::id())
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// Nanoseconds since the epoch as a column holds them, from the year 1677 until 2262.
fn column_time(nanos: i128) -> i64 {
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

impl Store {
    /// Opens the database and makes its tables.
    pub async fn open(url: &str, chain_id: &str) -> Result<Self, StoreError> {
        sqlx::any::install_default_drivers();
        let is_memory = url.contains(":memory:");
        let is_sqlite = url.starts_with("sqlite");
        let url = if is_memory { memory_url() } else { url.to_owned() };
        // An in-memory database lives as long as some connection to it, and a pool closes a connection whose query was given up
        // half-way. One connection outside the pool keeps the data; one inside avoids the table locks of a shared cache.
        let keeper = if is_memory { Some(AnyConnection::connect(&url).await?) } else { None };
        let options = AnyPoolOptions::new().max_connections(if is_memory { 1 } else { 8 });
        let options = options.after_connect(move |connection, _| {
            Box::pin(async move {
                if is_sqlite {
                    // In WAL mode this loses no commit when the process dies, and none is half there when the machine does.
                    for pragma in ["PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL", "PRAGMA busy_timeout=10000"]
                    {
                        sqlx::query(pragma).fetch_all(&mut *connection).await?;
                    }
                }
                Ok(())
            })
        });
        let pool = options.clone().connect(&url).await?;
        // However many slow reads there are, a block finds a connection. In memory there is only the one.
        let writing = if is_memory { pool.clone() } else { options.max_connections(1).connect(&url).await? };
        let migration = |(version, name, sql): (i64, &'static str, &'static str)| {
            Migration::new(version, Cow::Borrowed(name), MigrationType::Simple, sql.into_sql_str(), false)
        };
        Migrator::with_migrations(MIGRATIONS.map(migration).into()).run(&pool).await?;
        let store = Self { pool, writing, _keeper: Arc::new(Mutex::new(keeper)) };
        store.claim(chain_id).await?;
        Ok(store)
    }

    /// The same store on the connection that is kept for writing.
    pub fn for_writing(&self) -> Self {
        Self { pool: self.writing.clone(), ..self.clone() }
    }

    /// Closes every connection. SQLite writes its log back into the one file then.
    pub async fn close(&self) {
        self.writing.close().await;
        self.pool.close().await;
    }

    async fn claim(&self, chain_id: &str) -> Result<(), StoreError> {
        sqlx::query("INSERT INTO meta (name, value) VALUES ('chain_id', $1) ON CONFLICT (name) DO NOTHING")
            .bind(chain_id)
            .execute(&self.pool)
            .await?;
        let row = sqlx::query("SELECT value FROM meta WHERE name = 'chain_id'").fetch_one(&self.pool).await?;
        let stored: String = row.try_get(0)?;
        if stored == chain_id { Ok(()) } else { Err(StoreError::OtherChain { stored, node: chain_id.to_owned() }) }
    }

    /// Times of the oldest and the newest block it holds, to compare with the node's.
    pub async fn ends(&self) -> Result<Vec<(u64, i128)>, StoreError> {
        let rows = sqlx::query(
            "SELECT height, time FROM block WHERE height = (SELECT MIN(height) FROM block) \
             OR height = (SELECT MAX(height) FROM block) ORDER BY height",
        )
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(|row| Ok((unsigned(row.try_get(0)?), row.try_get::<i64, _>(1)?.into()))).collect()
    }

    /// Newest block.
    pub async fn checkpoint(&self) -> Result<Checkpoint, StoreError> {
        let mut connection = self.pool.acquire().await?;
        checkpoint(&mut connection).await
    }

    /// Time of a block.
    pub async fn block_time(&self, height: u64) -> Result<Option<i128>, StoreError> {
        let row = sqlx::query("SELECT time FROM block WHERE height = $1")
            .bind(signed(height))
            .fetch_optional(&self.pool)
            .await?;
        Ok(row.map(|row| row.try_get::<i64, _>(0)).transpose()?.map(i128::from))
    }

    /// The newest block before an instant, up to a height.
    pub async fn block_before(&self, instant: i128, height: u64) -> Result<Option<Checkpoint>, StoreError> {
        let row = sqlx::query(
            "SELECT height, time FROM block WHERE time < $1 AND height <= $2 ORDER BY time DESC, height DESC LIMIT 1",
        )
        .bind(column_time(instant))
        .bind(signed(height))
        .fetch_optional(&self.pool)
        .await?;
        row.as_ref().map(parse_block).transpose()
    }

    /// Writes a block, all of it or nothing. A block that is there already is left as it is, so that a writer that does not
    /// know whether its last attempt came through can simply try again.
    pub async fn write(&self, block: &BlockWrite) -> Result<(), StoreError> {
        let mut transaction = self.pool.begin().await?;
        if checkpoint(&mut transaction).await?.height >= block.height {
            return Ok(());
        }
        for change in &block.changes {
            entity::write(&mut transaction, block.height, change).await?;
        }
        for (due, kind, id) in &block.schedule {
            entity::schedule(&mut transaction, *due, *kind, *id).await?;
        }
        for (position, event) in block.events.iter().enumerate() {
            event::write(&mut transaction, block.height, position, event).await?;
        }
        activity::write(&mut transaction, block.height, &block.activity).await?;
        measure::write(&mut transaction, block.height, block.time, &block.deltas).await?;
        sqlx::query("INSERT INTO block (height, time) VALUES ($1, $2)")
            .bind(signed(block.height))
            .bind(column_time(block.time))
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(())
    }
}

/// The next number of a table that numbers its rows itself.
async fn next_id(connection: &mut AnyConnection, statement: &'static str) -> Result<u64, StoreError> {
    let highest: i64 = sqlx::query(statement).fetch_one(connection).await?.try_get(0)?;
    Ok(unsigned(highest) + 1)
}

async fn checkpoint(connection: &mut AnyConnection) -> Result<Checkpoint, StoreError> {
    let row =
        sqlx::query("SELECT height, time FROM block ORDER BY height DESC LIMIT 1").fetch_optional(connection).await?;
    row.map_or_else(|| Ok(Checkpoint::default()), |row| parse_block(&row))
}

fn parse_block(row: &sqlx::any::AnyRow) -> Result<Checkpoint, StoreError> {
    Ok(Checkpoint { height: unsigned(row.try_get(0)?), time: row.try_get::<i64, _>(1)?.into() })
}

/// A text as indexes hold it. PostgreSQL takes no long key and no NUL, and the chain bounds neither in a DID.
fn key(text: &str) -> Cow<'_, str> {
    const LONGEST: usize = 512;
    if text.len() <= LONGEST && !text.contains('\0') {
        return text.into();
    }
    let digest: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256 {digest}").into()
}

/// A time as it travels with entities.
pub fn iso_millis(nanos: i128) -> String {
    instant::iso_millis(&instant::from_nanos(nanos))
}

#[cfg(test)]
mod tests;
