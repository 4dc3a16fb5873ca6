//! Reads and writes of the store.

use std::sync::Arc;

use sqlx::{Any, Row, any::AnyRow, pool::PoolConnection};
use svc_store::{AnyDatabase, DatabaseSettings, Durability, GroupTransaction, StatementBatch, TableMigration};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{
    error::AgentStoreError,
    ownership::{Ownership, lock_file},
    sealing::{PrivateKey, StoreKeys},
};

const MIGRATIONS: [TableMigration; 8] = [
    TableMigration { version: 1, name: "agent", sql: include_str!("../migrations/0001_agent.sql") },
    TableMigration { version: 2, name: "credentials", sql: include_str!("../migrations/0002_credentials.sql") },
    TableMigration { version: 3, name: "key_rotation", sql: include_str!("../migrations/0003_key_rotation.sql") },
    TableMigration { version: 4, name: "presented", sql: include_str!("../migrations/0004_presented.sql") },
    TableMigration { version: 5, name: "peers", sql: include_str!("../migrations/0005_peers.sql") },
    TableMigration { version: 6, name: "flows", sql: include_str!("../migrations/0006_flows.sql") },
    TableMigration { version: 7, name: "access", sql: include_str!("../migrations/0007_access.sql") },
    TableMigration {
        version: 8,
        name: "presentation_names",
        sql: include_str!("../migrations/0008_presentation_names.sql"),
    },
];

/// Number of the last migration.
pub(super) const SCHEMA_VERSION: i64 = MIGRATIONS[MIGRATIONS.len() - 1].version;

const SETTINGS: DatabaseSettings = DatabaseSettings {
    durability: Durability::Machine,
    read_connections: 4,
    migrations: &MIGRATIONS,
    postgres_settings: &["SET lock_timeout = '10s'", "SET idle_in_transaction_session_timeout = '30s'"],
};

/// The place of a store, and the keys of its private keys.
pub struct StoreSettings {
    /// URL of the database.
    pub url: String,
    /// Store keys.
    pub keys: StoreKeys,
}

/// The DID of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredIdentity {
    /// DID.
    pub did: String,
    /// Public URL for which it was made.
    pub base_url: String,
}

/// A version of the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentVersion {
    /// Number, from 1.
    pub number: u64,
    /// Id of the version.
    pub version_id: String,
    /// Time of the version, seconds since the epoch.
    pub written_at: i64,
    /// A line of the log of did:webvh, or the document of did:web.
    pub content: String,
    /// Digest of the ids of the credentials that it presents; empty without one.
    pub presented: String,
}

/// A handle on the store. Clones share its connections.
#[derive(Clone)]
pub struct AgentStore {
    database: AnyDatabase,
    ownership: Arc<Ownership>,
    keys: Arc<StoreKeys>,
    /// One export at a time: each keeps a connection for reads.
    export_slot: Arc<Semaphore>,
    /// Ends with the first close.
    closing: CancellationToken,
}

/// A snapshot of the store. Its connection is closed with it.
pub(super) struct StoreSnapshot(pub PoolConnection<Any>);

impl AgentStore {
    /// Opens the store and takes its ownership. Fails when another process owns it.
    pub async fn open(settings: StoreSettings) -> Result<Self, AgentStoreError> {
        let lock = lock_file(&settings.url)?;
        let database = AnyDatabase::open(&settings.url, &SETTINGS).await?;
        let ownership = Arc::new(Ownership::take(&database, lock).await?);
        let (export_slot, closing) = (Arc::new(Semaphore::new(1)), CancellationToken::new());
        Ok(Self { database, ownership, keys: Arc::new(settings.keys), export_slot, closing })
    }

    /// Renews the lease.
    pub async fn renew(&self) -> Result<(), AgentStoreError> {
        Ok(self.begin().await?.commit().await?)
    }

    /// Gives the lease back and closes every connection. A second call does nothing.
    pub async fn close(&self) {
        self.closing.cancel();
        if self.database.reader.is_closed() {
            return;
        }
        if let Err(error) = self.ownership.release(&self.database).await {
            tracing::warn!(%error, "the lease of the store was not given back");
        }
    }

    /// Connections for reads.
    pub(super) fn reader(&self) -> &sqlx::AnyPool {
        &self.database.reader
    }

    /// The store keys.
    pub(super) fn keys(&self) -> &StoreKeys {
        &self.keys
    }

    /// The permit of an export.
    pub(super) fn export_slot(&self) -> &Arc<Semaphore> {
        &self.export_slot
    }

    /// Is cancelled when the store closes.
    pub(super) fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Begins a snapshot: all reads of its connection see one state of the store, and writes go on beside it.
    pub(super) async fn begin_snapshot(&self) -> Result<StoreSnapshot, AgentStoreError> {
        let mut connection = self.database.reader.acquire().await?;
        // The transaction never gets back into the pool.
        connection.close_on_drop();
        let statements: &[&str] = if self.database.is_sqlite {
            &["BEGIN"]
        } else {
            // The reader of an export may be slower than the database; it has a bound of its own.
            &[
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
                "SET LOCAL idle_in_transaction_session_timeout = '5min'",
            ]
        };
        for statement in statements {
            sqlx::raw_sql(*statement).execute(&mut *connection).await?;
        }
        Ok(StoreSnapshot(connection))
    }

    /// Begins a write.
    pub(super) async fn begin(&self) -> Result<GroupTransaction, AgentStoreError> {
        self.ownership.begin().await
    }

    /// Begins a write with its first statements; returns their rows too.
    pub(super) async fn begin_with(
        &self,
        batch: &mut StatementBatch,
    ) -> Result<(GroupTransaction, Vec<Vec<AnyRow>>), AgentStoreError> {
        self.ownership.begin_with(batch).await
    }

    /// Writes statements in a transaction of their own; returns their rows.
    pub(super) async fn write(&self, batch: &mut StatementBatch) -> Result<Vec<Vec<AnyRow>>, AgentStoreError> {
        self.ownership.write(batch).await
    }

    /// Returns the DID of the store; `None` for an empty store.
    pub async fn identity(&self) -> Result<Option<StoredIdentity>, AgentStoreError> {
        let row = sqlx::query("SELECT did, base_url FROM identity").fetch_optional(&self.database.reader).await?;
        let identity = |row: sqlx::any::AnyRow| {
            Ok::<_, sqlx::Error>(StoredIdentity { did: row.try_get("did")?, base_url: row.try_get("base_url")? })
        };
        Ok(row.map(identity).transpose()?)
    }

    /// Returns every private key of a DID, by name and version. Fails when one of them does not open.
    pub async fn private_keys(&self, did: &str) -> Result<Vec<PrivateKey>, AgentStoreError> {
        let sql = "SELECT name, version, sealed FROM private_key ORDER BY name, version";
        let rows = sqlx::query(sql).fetch_all(&self.database.reader).await?;
        let mut keys = Vec::new();
        for row in &rows {
            let (name, version, sealed): (String, i64, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            let version = u64::try_from(version).map_err(|_| AgentStoreError::CorruptRow(format!("key {name:?}")))?;
            keys.push(self.keys.open(did, &name, version, &sealed)?);
        }
        Ok(keys)
    }
}
