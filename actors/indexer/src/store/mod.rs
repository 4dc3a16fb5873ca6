//! What the indexer keeps: every version of every entity, events with their routes, blocks, and the checkpoint. One database
//! transaction per block. The SQL is the common subset of SQLite and PostgreSQL.

mod entity;
mod event;

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use sqlx::{AnyConnection, AnyPool, Connection, Executor, Row, any::AnyPoolOptions};
use svc_wire::event::Event;

pub use entity::{Change, Kind, Range};
pub use event::{EventQuery, Route};

/// The store cannot do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database failed.
    #[error("database: {0}")]
    Database(#[from] sqlx::Error),
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
    /// A stored body is not JSON: the database was changed by something else.
    #[error("a stored row is not readable: {0}")]
    Corrupt(String),
}

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS block (height BIGINT PRIMARY KEY, time TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS entity (
    kind TEXT NOT NULL, id BIGINT NOT NULL, from_height BIGINT NOT NULL, until_height BIGINT,
    corporation_id BIGINT, account TEXT, body TEXT NOT NULL, PRIMARY KEY (kind, id, from_height));
CREATE INDEX IF NOT EXISTS entity_by_account ON entity (kind, account);
CREATE INDEX IF NOT EXISTS entity_by_corporation ON entity (kind, corporation_id);
CREATE TABLE IF NOT EXISTS event (
    height BIGINT NOT NULL, position BIGINT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (height, position));
CREATE TABLE IF NOT EXISTS event_route (
    route TEXT NOT NULL, height BIGINT NOT NULL, position BIGINT NOT NULL, PRIMARY KEY (route, height, position));
CREATE TABLE IF NOT EXISTS proposal (id BIGINT PRIMARY KEY, policy_address TEXT NOT NULL);
";

/// A store; clones share it.
#[derive(Clone)]
pub struct Store {
    pool: AnyPool,
    _keeper: Arc<Mutex<Option<AnyConnection>>>,
}

/// Newest block the store holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checkpoint {
    /// Height; 0 before the first block.
    pub height: u64,
    /// Its time, RFC 3339; empty before the first block.
    pub time: String,
}

/// Everything one block writes.
pub struct BlockWrite {
    pub height: u64,
    pub time: String,
    pub changes: Vec<Change>,
    pub events: Vec<Event>,
    pub proposals: Vec<(u64, String)>,
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

impl Store {
    /// Opens the database and makes its tables.
    pub async fn open(url: &str, chain_id: &str) -> Result<Self, StoreError> {
        sqlx::any::install_default_drivers();
        let is_memory = url.contains(":memory:");
        let url = if is_memory { memory_url() } else { url.to_owned() };
        // An in-memory database lives as long as some connection to it, and a pool closes a connection whose query was given up
        // half-way. One connection outside the pool keeps the data; one inside avoids the table locks of a shared cache.
        let keeper = if is_memory { Some(AnyConnection::connect(&url).await?) } else { None };
        let pool = AnyPoolOptions::new().max_connections(if is_memory { 1 } else { 8 }).connect(&url).await?;
        if url.starts_with("sqlite") && !is_memory {
            pool.execute("PRAGMA journal_mode=WAL").await?;
        }
        for statement in SCHEMA.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
            pool.execute(statement).await?;
        }
        let store = Self { pool, _keeper: Arc::new(Mutex::new(keeper)) };
        store.claim(chain_id).await?;
        Ok(store)
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
    pub async fn ends(&self) -> Result<Vec<(u64, String)>, StoreError> {
        let rows = sqlx::query(
            "SELECT height, time FROM block WHERE height = (SELECT MIN(height) FROM block) \
             OR height = (SELECT MAX(height) FROM block) ORDER BY height",
        )
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(|row| Ok((unsigned(row.try_get(0)?), row.try_get(1)?))).collect()
    }

    /// Newest block.
    pub async fn checkpoint(&self) -> Result<Checkpoint, StoreError> {
        let mut connection = self.pool.acquire().await?;
        checkpoint(&mut connection).await
    }

    /// Time of a block.
    pub async fn block_time(&self, height: u64) -> Result<Option<String>, StoreError> {
        let row = sqlx::query("SELECT time FROM block WHERE height = $1")
            .bind(signed(height))
            .fetch_optional(&self.pool)
            .await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
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
        for (position, event) in block.events.iter().enumerate() {
            event::write(&mut transaction, block.height, position, event).await?;
        }
        for (id, policy_address) in &block.proposals {
            sqlx::query("INSERT INTO proposal (id, policy_address) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING")
                .bind(signed(*id))
                .bind(policy_address.as_str())
                .execute(&mut *transaction)
                .await?;
        }
        sqlx::query("INSERT INTO block (height, time) VALUES ($1, $2)")
            .bind(signed(block.height))
            .bind(block.time.as_str())
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Group policy of a proposal.
    pub async fn policy_of_proposal(&self, id: u64) -> Result<Option<String>, StoreError> {
        let row = sqlx::query("SELECT policy_address FROM proposal WHERE id = $1")
            .bind(signed(id))
            .fetch_optional(&self.pool)
            .await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }
}

async fn checkpoint(connection: &mut AnyConnection) -> Result<Checkpoint, StoreError> {
    let row =
        sqlx::query("SELECT height, time FROM block ORDER BY height DESC LIMIT 1").fetch_optional(connection).await?;
    match row {
        Some(row) => Ok(Checkpoint { height: unsigned(row.try_get(0)?), time: row.try_get(1)? }),
        None => Ok(Checkpoint::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(height: u64) -> BlockWrite {
        let change = Change {
            kind: Kind::Ecosystem,
            id: Some(1),
            corporation_id: Some(1),
            account: None,
            body: Some(serde_json::json!({"height": height})),
        };
        BlockWrite {
            height,
            time: format!("2026-01-01T00:00:{height:02}Z"),
            changes: vec![change],
            events: Vec::new(),
            proposals: vec![(height, "p".into())],
        }
    }

    async fn every_height_keeps_its_own_version(url: &str) {
        let store = Store::open(url, "c").await.expect("opens");
        for height in [1, 2, 3, 3, 2] {
            store.write(&block(height)).await.expect("writes, and again without effect");
        }
        for height in 1..=3 {
            let body = store.entity(Kind::Ecosystem, 1, height).await.expect("reads").expect("there");
            assert_eq!(body["height"], height);
        }
        assert_eq!(store.entity(Kind::Ecosystem, 1, 0).await.expect("reads"), None);
        assert_eq!(store.checkpoint().await.expect("reads").height, 3);
        assert_eq!(store.ends().await.expect("reads").len(), 2);
        assert!(
            matches!(Store::open(url, "other").await, Err(StoreError::OtherChain { .. })) != url.contains(":memory:")
        );
    }

    #[tokio::test]
    async fn in_memory() {
        every_height_keeps_its_own_version("sqlite::memory:").await;
    }

    #[tokio::test]
    async fn in_a_file() {
        let path = std::env::temp_dir().join(format!("svc-store-{}.db", std::process::id()));
        every_height_keeps_its_own_version(&format!("sqlite://{}?mode=rwc", path.display())).await;
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
        }
    }

    /// A front end drops its query when its client goes away, at any point.
    #[tokio::test(flavor = "multi_thread")]
    async fn reads_that_are_given_up_half_way_lose_nothing() {
        let store = Store::open("sqlite::memory:", "c").await.expect("opens");
        for height in 1..200 {
            let patience = std::time::Duration::from_micros(height * 5 % 300);
            let _ = tokio::time::timeout(patience, store.entity(Kind::Ecosystem, 1, height)).await;
            store.write(&block(height)).await.expect("writes");
            let _ = tokio::time::timeout(patience, store.checkpoint()).await;
        }
        assert_eq!(store.checkpoint().await.expect("reads").height, 199);
    }
}
