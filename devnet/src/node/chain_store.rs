//! A chain on disk: genesis, blocks and snapshots. The state is not stored; a replay of the blocks computes it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use prost::Message;
use prost_types::Timestamp;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use serde::{Deserialize, Serialize};

use super::chain::{BlockRecord, GenesisDocument};
use svc_ledger::{GenesisState, UpgradePlan, UpgradeSchedule};
use svc_wire::proto_registry::NodeGeneration;

/// Key of the record of a completed seeding; without the record, seeding was interrupted.
pub const SEED_RECORD_KEY: &str = "scenario";
const GENESIS_KEY: &str = "genesis";
const UPGRADES_KEY: &str = "upgrades";
const DATABASE_FILE: &str = "devnet.redb";
const META: TableDefinition<&str, &[u8]> = TableDefinition::new("meta");
const BLOCKS: TableDefinition<u64, &[u8]> = TableDefinition::new("blocks");
const SNAPSHOTS: TableDefinition<(&str, u64), &[u8]> = TableDefinition::new("snapshots");

/// A stored block: the input of its replay, and the expected application hash.
#[derive(Clone, PartialEq, Message)]
pub struct StoredBlock {
    #[prost(message, optional, tag = "1")]
    pub time: Option<Timestamp>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub txs: Vec<Vec<u8>>,
    #[prost(bytes = "vec", tag = "3")]
    pub app_hash: Vec<u8>,
}

impl From<&BlockRecord> for StoredBlock {
    fn from(block: &BlockRecord) -> Self {
        let app_hash = hex::decode(&block.app_hash).unwrap_or_default();
        Self { time: Some(block.time), txs: block.txs.clone(), app_hash }
    }
}

/// The genesis document of a home.
#[derive(Debug, Serialize, Deserialize)]
struct StoredGenesis {
    chain_id: String,
    namespace: String,
    denom: String,
    genesis: GenesisState,
    genesis_seconds: i64,
    genesis_nanos: i32,
    /// Generation with which the chain began. Homes of earlier releases do not have it.
    #[serde(default)]
    generation: Option<String>,
}

/// An upgrade of a home.
#[derive(Debug, Serialize, Deserialize)]
struct StoredUpgrade {
    height: u64,
    generation: String,
}

impl From<&GenesisDocument> for StoredGenesis {
    fn from(origin: &GenesisDocument) -> Self {
        Self {
            chain_id: origin.chain.chain_id.clone(),
            namespace: origin.chain.namespace().to_string(),
            denom: origin.chain.denom.clone(),
            genesis: origin.genesis.clone(),
            genesis_seconds: origin.genesis_time.seconds,
            genesis_nanos: origin.genesis_time.nanos,
            generation: Some(origin.chain.generation.as_str().to_owned()),
        }
    }
}

/// Error of a home.
#[derive(Debug, thiserror::Error)]
pub enum ChainStoreError {
    /// The chain in the directory is not this one.
    #[error("{path} holds another chain: its {setting} is {found}, not {expected}")]
    OtherChain {
        /// The file.
        path: PathBuf,
        /// Name of the setting that differs.
        setting: &'static str,
        /// Stored value.
        found: String,
        /// Configured value.
        expected: String,
    },
    /// Another process uses the file, or it is damaged.
    #[error("{path}: {reason}")]
    Database {
        /// The file.
        path: PathBuf,
        /// Error of the database.
        reason: String,
    },
    /// The directory cannot be created or cleared.
    #[error("{path}: {cause}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Error of the system.
        cause: io::Error,
    },
}

/// An open home. Every change is one transaction: after a kill the home ends with the last complete block.
pub struct ChainStore {
    database: Database,
    path: PathBuf,
}

impl ChainStore {
    /// Opens a directory; creates it if it is new.
    pub fn open(directory: &Path) -> Result<Self, ChainStoreError> {
        let failed = |cause| ChainStoreError::Directory { path: directory.to_owned(), cause };
        fs::create_dir_all(directory).map_err(failed)?;
        let path = directory.join(DATABASE_FILE);
        let database = Database::create(&path)
            .map_err(|error| ChainStoreError::Database { path: path.clone(), reason: error.to_string() })?;
        let home = Self { database, path };
        home.write_transaction(|_| Ok(()))?;
        Ok(home)
    }

    /// Removes a chain; returns whether there was one.
    pub fn reset(directory: &Path) -> Result<bool, ChainStoreError> {
        let path = directory.join(DATABASE_FILE);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(cause) => Err(ChainStoreError::Directory { path, cause }),
        }
    }

    fn database_error(&self, error: impl Into<redb::Error>) -> ChainStoreError {
        ChainStoreError::Database { path: self.path.clone(), reason: error.into().to_string() }
    }

    fn write_transaction<R>(
        &self,
        work: impl FnOnce(&redb::WriteTransaction) -> Result<R, redb::Error>,
    ) -> Result<R, ChainStoreError> {
        let transaction = self.database.begin_write().map_err(|error| self.database_error(error))?;
        transaction.open_table(META).map_err(|error| self.database_error(error))?;
        transaction.open_table(BLOCKS).map_err(|error| self.database_error(error))?;
        transaction.open_table(SNAPSHOTS).map_err(|error| self.database_error(error))?;
        let result = work(&transaction).map_err(|error| self.database_error(error))?;
        transaction.commit().map_err(|error| self.database_error(error))?;
        Ok(result)
    }

    fn read_transaction<R>(
        &self,
        work: impl FnOnce(&redb::ReadTransaction) -> Result<R, redb::Error>,
    ) -> Result<R, ChainStoreError> {
        let transaction = self.database.begin_read().map_err(|error| self.database_error(error))?;
        work(&transaction).map_err(|error| self.database_error(error))
    }

    /// Loads the stored genesis into `origin`, or stores the given one in a new home. A home with an interrupted seeding is
    /// cleared. Fails if the home has another chain.
    pub fn load_or_store_genesis(&self, origin: &mut GenesisDocument) -> Result<(), ChainStoreError> {
        let unusable =
            |error: serde_json::Error| ChainStoreError::Database { path: self.path.clone(), reason: error.to_string() };
        let ours = StoredGenesis::from(&*origin);
        let found = self.read_meta(GENESIS_KEY)?;
        let Some(found) = found.filter(|_| self.read_meta(SEED_RECORD_KEY).is_ok_and(|seeded| seeded.is_some())) else {
            self.clear()?;
            return self.write_meta(GENESIS_KEY, &serde_json::to_vec(&ours).map_err(unusable)?);
        };
        let found: StoredGenesis = serde_json::from_slice(&found).map_err(unusable)?;
        let generation = ours.generation.unwrap_or_default();
        for (setting, found, expected) in [
            ("chain id", &found.chain_id, ours.chain_id),
            ("namespace", &found.namespace, ours.namespace),
            ("denom", &found.denom, ours.denom),
            ("generation", found.generation.as_ref().unwrap_or(&generation), generation.clone()),
        ] {
            if *found != expected {
                let (path, found) = (self.path.clone(), found.clone());
                return Err(ChainStoreError::OtherChain { path, setting, found, expected });
            }
        }
        origin.genesis = found.genesis;
        origin.genesis_time = Timestamp { seconds: found.genesis_seconds, nanos: found.genesis_nanos };
        Ok(())
    }

    /// Reads the upgrades of the chain, planned and applied.
    pub fn read_upgrades(&self) -> Result<UpgradeSchedule, ChainStoreError> {
        let unusable = |reason: String| ChainStoreError::Database { path: self.path.clone(), reason };
        let Some(bytes) = self.read_meta(UPGRADES_KEY)? else { return Ok(UpgradeSchedule::default()) };
        let stored: Vec<StoredUpgrade> = serde_json::from_slice(&bytes).map_err(|error| unusable(error.to_string()))?;
        let plan = |one: StoredUpgrade| {
            let generation = NodeGeneration::parse(&one.generation);
            let generation = generation.ok_or_else(|| unusable(format!("unknown generation {:?}", one.generation)))?;
            Ok(UpgradePlan { generation, height: one.height })
        };
        Ok(UpgradeSchedule::restore(stored.into_iter().map(plan).collect::<Result<Vec<_>, ChainStoreError>>()?))
    }

    pub fn write_upgrades(&self, upgrades: &UpgradeSchedule) -> Result<(), ChainStoreError> {
        let stored =
            |plan: &UpgradePlan| StoredUpgrade { height: plan.height, generation: plan.generation.as_str().to_owned() };
        let stored: Vec<StoredUpgrade> = upgrades.plans().iter().map(stored).collect();
        let bytes = serde_json::to_vec(&stored)
            .map_err(|error| ChainStoreError::Database { path: self.path.clone(), reason: error.to_string() })?;
        self.write_meta(UPGRADES_KEY, &bytes)
    }

    /// Reads a document beside the chain.
    pub fn read_meta(&self, name: &str) -> Result<Option<Vec<u8>>, ChainStoreError> {
        self.read_transaction(|transaction| {
            let table = transaction.open_table(META)?;
            Ok(table.get(name)?.map(|value| value.value().to_vec()))
        })
    }

    pub fn write_meta(&self, name: &str, value: &[u8]) -> Result<(), ChainStoreError> {
        self.write_transaction(|transaction| {
            transaction.open_table(META)?.insert(name, value)?;
            Ok(())
        })
    }

    /// Appends a block.
    pub fn append_block(&self, block: &BlockRecord) -> Result<(), ChainStoreError> {
        let bytes = StoredBlock::from(block).encode_to_vec();
        self.write_transaction(|transaction| {
            transaction.open_table(BLOCKS)?.insert(block.height, bytes.as_slice())?;
            Ok(())
        })
    }

    /// Removes the blocks above a height.
    pub fn go_back(&self, height: u64) -> Result<(), ChainStoreError> {
        self.write_transaction(|transaction| {
            transaction.open_table(BLOCKS)?.retain(|stored, _| stored <= height)?;
            Ok(())
        })
    }

    /// Returns all blocks in order.
    pub fn blocks(&self) -> Result<Vec<StoredBlock>, ChainStoreError> {
        self.read_transaction(|transaction| {
            let table = transaction.open_table(BLOCKS)?;
            let mut blocks = Vec::new();
            for entry in table.iter()? {
                blocks.push(decode_block(entry?.1.value()));
            }
            Ok(blocks)
        })
    }

    /// Removes everything.
    pub fn clear(&self) -> Result<(), ChainStoreError> {
        self.write_transaction(|transaction| {
            transaction.delete_table(META)?;
            transaction.delete_table(BLOCKS)?;
            transaction.delete_table(SNAPSHOTS)?;
            Ok(())
        })
    }

    /// Saves a copy of all blocks under a name.
    pub fn save_snapshot(&self, name: &str) -> Result<(), ChainStoreError> {
        self.write_transaction(|transaction| {
            let (blocks, mut snapshots) = (transaction.open_table(BLOCKS)?, transaction.open_table(SNAPSHOTS)?);
            snapshots.retain_in((name, 0)..=(name, u64::MAX), |_, _| false)?;
            for entry in blocks.iter()? {
                let (height, bytes) = entry?;
                snapshots.insert((name, height.value()), bytes.value())?;
            }
            Ok(())
        })
    }

    /// Replaces the chain by a snapshot; returns its blocks, or `None` for an unknown name.
    pub fn load_snapshot(&self, name: &str) -> Result<Option<Vec<StoredBlock>>, ChainStoreError> {
        self.write_transaction(|transaction| {
            let (mut blocks, snapshots) = (transaction.open_table(BLOCKS)?, transaction.open_table(SNAPSHOTS)?);
            let mut found = Vec::new();
            for entry in snapshots.range((name, 0)..=(name, u64::MAX))? {
                found.push(entry?.1.value().to_vec());
            }
            if found.is_empty() {
                return Ok(None);
            }
            blocks.retain(|_, _| false)?;
            for (height, bytes) in (1..).zip(&found) {
                blocks.insert(height, bytes.as_slice())?;
            }
            Ok(Some(found.iter().map(|bytes| decode_block(bytes)).collect()))
        })
    }
}

/// Decodes a stored block. The replay detects a damaged block by its application hash.
fn decode_block(bytes: &[u8]) -> StoredBlock {
    StoredBlock::decode(bytes).unwrap_or_default()
}
