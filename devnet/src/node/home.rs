//! A chain on disk: its genesis, its blocks and its snapshots. The state is not stored: it follows from the blocks.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use prost::Message;
use prost_types::Timestamp;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use serde::{Deserialize, Serialize};

use super::core::{BlockRecord, Origin};
use crate::ledger::Genesis;

/// Document that says what was seeded; without it, seeding was cut.
pub const SCENARIO: &str = "scenario";
const GENESIS: &str = "genesis";
const FILE: &str = "devnet.redb";
const META: TableDefinition<&str, &[u8]> = TableDefinition::new("meta");
const BLOCKS: TableDefinition<u64, &[u8]> = TableDefinition::new("blocks");
const SNAPSHOTS: TableDefinition<(&str, u64), &[u8]> = TableDefinition::new("snapshots");

/// A block as it is stored: what its replay needs, and the application hash that must come out.
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

/// What a home says about its chain.
#[derive(Debug, Serialize, Deserialize)]
struct Document {
    chain_id: String,
    namespace: String,
    denom: String,
    genesis: Genesis,
    genesis_seconds: i64,
    genesis_nanos: i32,
}

impl From<&Origin> for Document {
    fn from(origin: &Origin) -> Self {
        Self {
            chain_id: origin.chain.chain_id.clone(),
            namespace: origin.chain.namespace().to_string(),
            denom: origin.chain.denom.clone(),
            genesis: origin.genesis.clone(),
            genesis_seconds: origin.genesis_time.seconds,
            genesis_nanos: origin.genesis_time.nanos,
        }
    }
}

/// Why a home cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// The chain in the directory is not this one.
    #[error("{path} holds another chain: its {what} is {found}, not {expected}")]
    OtherChain {
        /// The file.
        path: PathBuf,
        /// What differs.
        what: &'static str,
        /// What is there.
        found: String,
        /// What was asked for.
        expected: String,
    },
    /// Another process uses it, or it is damaged.
    #[error("{path}: {reason}")]
    Store {
        /// The file.
        path: PathBuf,
        /// What the store says.
        reason: String,
    },
    /// The directory cannot be made or cleared.
    #[error("{path}: {cause}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
}

/// An open home. Every change is one transaction: a process that is killed leaves the last whole block.
pub struct Home {
    database: Database,
    path: PathBuf,
}

impl Home {
    /// Opens a directory, making it when it is new.
    pub fn open(directory: &Path) -> Result<Self, HomeError> {
        let failed = |cause| HomeError::Directory { path: directory.to_owned(), cause };
        fs::create_dir_all(directory).map_err(failed)?;
        let path = directory.join(FILE);
        let database = Database::create(&path)
            .map_err(|error| HomeError::Store { path: path.clone(), reason: error.to_string() })?;
        let home = Self { database, path };
        home.write(|_| Ok(()))?;
        Ok(home)
    }

    /// Removes a chain. A directory without one is left alone.
    pub fn reset(directory: &Path) -> Result<bool, HomeError> {
        let path = directory.join(FILE);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(cause) => Err(HomeError::Directory { path, cause }),
        }
    }

    fn failed(&self, error: impl Into<redb::Error>) -> HomeError {
        HomeError::Store { path: self.path.clone(), reason: error.into().to_string() }
    }

    fn write<R>(&self, work: impl FnOnce(&redb::WriteTransaction) -> Result<R, redb::Error>) -> Result<R, HomeError> {
        let transaction = self.database.begin_write().map_err(|error| self.failed(error))?;
        transaction.open_table(META).map_err(|error| self.failed(error))?;
        transaction.open_table(BLOCKS).map_err(|error| self.failed(error))?;
        transaction.open_table(SNAPSHOTS).map_err(|error| self.failed(error))?;
        let result = work(&transaction).map_err(|error| self.failed(error))?;
        transaction.commit().map_err(|error| self.failed(error))?;
        Ok(result)
    }

    fn read<R>(&self, work: impl FnOnce(&redb::ReadTransaction) -> Result<R, redb::Error>) -> Result<R, HomeError> {
        let transaction = self.database.begin_read().map_err(|error| self.failed(error))?;
        work(&transaction).map_err(|error| self.failed(error))
    }

    /// A home that holds this chain gives it its genesis; a new one takes it. One whose seeding was cut begins again.
    pub fn adopt(&self, origin: &mut Origin) -> Result<(), HomeError> {
        let unusable =
            |error: serde_json::Error| HomeError::Store { path: self.path.clone(), reason: error.to_string() };
        let ours = Document::from(&*origin);
        let found = self.document(GENESIS)?;
        let Some(found) = found.filter(|_| self.document(SCENARIO).is_ok_and(|seeded| seeded.is_some())) else {
            self.clear()?;
            return self.put_document(GENESIS, &serde_json::to_vec(&ours).map_err(unusable)?);
        };
        let found: Document = serde_json::from_slice(&found).map_err(unusable)?;
        for (what, found, expected) in [
            ("chain id", &found.chain_id, ours.chain_id),
            ("namespace", &found.namespace, ours.namespace),
            ("denom", &found.denom, ours.denom),
        ] {
            if *found != expected {
                let (path, found) = (self.path.clone(), found.clone());
                return Err(HomeError::OtherChain { path, what, found, expected });
            }
        }
        origin.genesis = found.genesis;
        origin.genesis_time = Timestamp { seconds: found.genesis_seconds, nanos: found.genesis_nanos };
        Ok(())
    }

    /// A document beside the chain.
    pub fn document(&self, name: &str) -> Result<Option<Vec<u8>>, HomeError> {
        self.read(|transaction| {
            let table = transaction.open_table(META)?;
            Ok(table.get(name)?.map(|value| value.value().to_vec()))
        })
    }

    pub fn put_document(&self, name: &str, value: &[u8]) -> Result<(), HomeError> {
        self.write(|transaction| {
            transaction.open_table(META)?.insert(name, value)?;
            Ok(())
        })
    }

    /// Appends a block.
    pub fn append(&self, block: &BlockRecord) -> Result<(), HomeError> {
        let bytes = StoredBlock::from(block).encode_to_vec();
        self.write(|transaction| {
            transaction.open_table(BLOCKS)?.insert(block.height, bytes.as_slice())?;
            Ok(())
        })
    }

    /// All blocks in order.
    pub fn blocks(&self) -> Result<Vec<StoredBlock>, HomeError> {
        self.read(|transaction| {
            let table = transaction.open_table(BLOCKS)?;
            let mut blocks = Vec::new();
            for entry in table.iter()? {
                blocks.push(decode(entry?.1.value()));
            }
            Ok(blocks)
        })
    }

    /// Forgets everything, to begin again.
    pub fn clear(&self) -> Result<(), HomeError> {
        self.write(|transaction| {
            transaction.delete_table(META)?;
            transaction.delete_table(BLOCKS)?;
            transaction.delete_table(SNAPSHOTS)?;
            Ok(())
        })
    }

    /// Keeps a copy of all blocks under a name.
    pub fn save(&self, name: &str) -> Result<(), HomeError> {
        self.write(|transaction| {
            let (blocks, mut snapshots) = (transaction.open_table(BLOCKS)?, transaction.open_table(SNAPSHOTS)?);
            snapshots.retain_in((name, 0)..=(name, u64::MAX), |_, _| false)?;
            for entry in blocks.iter()? {
                let (height, bytes) = entry?;
                snapshots.insert((name, height.value()), bytes.value())?;
            }
            Ok(())
        })
    }

    /// Makes a snapshot the chain; its blocks, or `None` when there is none of this name.
    pub fn load(&self, name: &str) -> Result<Option<Vec<StoredBlock>>, HomeError> {
        self.write(|transaction| {
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
            Ok(Some(found.iter().map(|bytes| decode(bytes)).collect()))
        })
    }
}

/// What this process or one like it wrote; damage shows in the application hash.
fn decode(bytes: &[u8]) -> StoredBlock {
    StoredBlock::decode(bytes).unwrap_or_default()
}
