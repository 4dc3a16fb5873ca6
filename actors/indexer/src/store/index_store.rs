//! Opening the database: its connections, its tables, and the chain that it belongs to.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
};

use futures::future::BoxFuture;
use sqlx::{Any, AnyConnection, AnyPool, Row, pool::PoolConnection};
use svc_store::{AnyDatabase, DatabaseSettings, Durability, StoreClaim, StoreWriter, TableMigration};
use tokio::sync::{Mutex, MutexGuard};

use super::{chain::entity_kind::EntityKind, error::IndexStoreError};

pub(super) const MIGRATIONS: [TableMigration; 8] = [
    TableMigration { version: 1, name: "store", sql: include_str!("../../migrations/0001_store.sql") },
    TableMigration { version: 2, name: "block time", sql: include_str!("../../migrations/0002_block_time.sql") },
    TableMigration { version: 3, name: "trust", sql: include_str!("../../migrations/0003_trust.sql") },
    TableMigration { version: 4, name: "lookup", sql: include_str!("../../migrations/0004_lookup.sql") },
    TableMigration { version: 5, name: "activity time", sql: include_str!("../../migrations/0005_activity_time.sql") },
    TableMigration { version: 6, name: "trust open", sql: include_str!("../../migrations/0006_trust_open.sql") },
    TableMigration { version: 7, name: "block hash", sql: include_str!("../../migrations/0007_block_hash.sql") },
    TableMigration { version: 8, name: "bootstrap", sql: include_str!("../../migrations/0008_bootstrap.sql") },
];

const SETTINGS: DatabaseSettings = DatabaseSettings {
    // Blocks that a crash of the machine takes are read from the node again.
    durability: Durability::Process,
    read_connections: 8,
    migrations: &MIGRATIONS,
    postgres_settings: &[
        // A writer that died within a transaction holds the others up for a minute at most.
        "SET lock_timeout = '30s'",
        "SET idle_in_transaction_session_timeout = '60s'",
        // Every statement is a seek: a plan for the values of one call costs more than it saves.
        "SET plan_cache_mode = force_generic_plan",
    ],
};

/// A handle on the database; clones share its connections.
#[derive(Clone)]
pub struct IndexStore {
    source: StoreSource,
    pub(super) writer: StoreWriter<Any>,
    database: AnyDatabase,
    claim: Arc<StoreClaim>,
}

/// Where a store reads.
#[derive(Clone)]
enum StoreSource {
    Pool(AnyPool),
    Transaction(Arc<Mutex<dyn OpenTransaction>>),
}

/// The rows that a read depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadScope {
    /// The versions of one entity.
    Entity(EntityKind, u64),
    /// All entities of a kind.
    Kind(EntityKind),
    /// The instants at which time alone changes entities.
    Schedule,
    /// Any rows.
    All,
}

/// An open transaction, of which rows may wait.
pub(super) trait OpenTransaction: DerefMut<Target = AnyConnection> + Send {
    /// Gives the rows that wait to the database if a read depends on them.
    fn flush_for(&mut self, scope: ReadScope) -> BoxFuture<'_, Result<(), IndexStoreError>>;
}

/// A connection of a store.
pub(super) enum StoreConnection<'a> {
    Pooled(PoolConnection<Any>),
    Transaction(MutexGuard<'a, dyn OpenTransaction + 'static>),
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

impl IndexStore {
    /// Opens the database, creates its tables, and claims it for a chain. Fails when it belongs to another chain.
    pub async fn open(url: &str, chain_id: &str) -> Result<Self, IndexStoreError> {
        let store = Self::open_claimed(url, StoreClaim::shared(url).await?).await?;
        store.claim_chain(chain_id).await?;
        Ok(store)
    }

    /// Opens the database of any chain for this process alone. Fails while another process uses it.
    pub async fn open_alone(url: &str) -> Result<Self, IndexStoreError> {
        Self::open_claimed(url, StoreClaim::alone(url).await?).await
    }

    async fn open_claimed(url: &str, claim: StoreClaim) -> Result<Self, IndexStoreError> {
        let database = AnyDatabase::open(url, &SETTINGS).await?;
        let (source, writer) = (StoreSource::Pool(database.reader.clone()), database.writer.clone());
        Ok(Self { source, writer, database, claim: Arc::new(claim) })
    }

    /// Returns the same store on the connection that is reserved for writes.
    pub fn with_write_pool(&self) -> Self {
        Self { source: StoreSource::Pool(self.writer.pool().clone()), ..self.clone() }
    }

    /// Returns the same store within an open transaction, whose changes it shows.
    pub(super) fn within(&self, transaction: Arc<Mutex<dyn OpenTransaction>>) -> Self {
        Self { source: StoreSource::Transaction(transaction), ..self.clone() }
    }

    /// A connection to read with. Within a transaction there is only one.
    pub(super) async fn connection(&self) -> Result<StoreConnection<'_>, IndexStoreError> {
        self.connection_for(ReadScope::All).await
    }

    /// A connection for a read that depends on some rows only: within a transaction the others may wait on.
    pub(super) async fn connection_for(&self, scope: ReadScope) -> Result<StoreConnection<'_>, IndexStoreError> {
        match &self.source {
            StoreSource::Pool(pool) => Ok(StoreConnection::Pooled(pool.acquire().await?)),
            StoreSource::Transaction(transaction) => {
                let mut transaction = transaction.lock().await;
                transaction.flush_for(scope).await?;
                Ok(StoreConnection::Transaction(transaction))
            }
        }
    }

    /// Closes every connection. SQLite then merges its write-ahead log into the database file.
    pub async fn close(&self) {
        self.database.close().await;
        self.claim.release().await;
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
