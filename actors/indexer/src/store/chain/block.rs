//! Blocks, and the transaction that writes them.

use std::{collections::BTreeMap, sync::Arc};

use sqlx::{AnyConnection, Row};
use svc_wire::event_stream::IndexerEvent;
use tokio::sync::Mutex;

use super::{
    activity::EntityActivity, block_transaction::BlockTransaction, bootstrap::end_start, entity::EntityChange,
    entity_kind::EntityKind,
};
use crate::{
    derive::stats::StatsDeltas,
    store::{
        columns::{from_column, time_to_column, to_column},
        error::IndexStoreError,
        index_store::IndexStore,
    },
};

/// The newest block of the store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checkpoint {
    /// Height; 0 before the first block.
    pub height: u64,
    /// Time of the block in nanoseconds since the epoch; 0 before the first block.
    pub time: i128,
}

/// A block of the store, as the chain identifies it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredBlock {
    /// Height and time; those of an empty store are 0.
    pub place: Checkpoint,
    /// Upper-case hex; `None` for a block that an earlier release has written.
    pub hash: Option<String>,
}

/// The instant at which time alone changes the state of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduledChange {
    /// Nanoseconds since the epoch.
    pub due: i128,
    pub kind: EntityKind,
    pub id: u64,
}

/// All rows of one block.
#[derive(Debug, Clone, Default)]
pub struct BlockWrite {
    pub height: u64,
    /// Nanoseconds since the epoch.
    pub time: i128,
    /// Upper-case hex.
    pub hash: Option<String>,
    pub changes: Vec<EntityChange>,
    pub events: Vec<IndexerEvent>,
    pub activity: Vec<EntityActivity>,
    pub deltas: StatsDeltas,
    pub schedule: Vec<ScheduledChange>,
}

impl IndexStore {
    /// Returns the heights and times (nanoseconds since the epoch) of the oldest and the newest block.
    pub async fn oldest_and_newest_block(&self) -> Result<Vec<(u64, i128)>, IndexStoreError> {
        let rows = sqlx::query(
            "SELECT height, time FROM block WHERE height = (SELECT MIN(height) FROM block) \
             OR height = (SELECT MAX(height) FROM block) ORDER BY height",
        )
        .fetch_all(&mut *self.connection().await?)
        .await?;
        rows.iter().map(|row| Ok((from_column(row.try_get(0)?), row.try_get::<i64, _>(1)?.into()))).collect()
    }

    /// Returns the newest block.
    pub async fn checkpoint(&self) -> Result<Checkpoint, IndexStoreError> {
        let mut connection = self.connection().await?;
        read_checkpoint(&mut connection).await
    }

    /// Returns the newest block, with its hash.
    pub async fn newest_block(&self) -> Result<StoredBlock, IndexStoreError> {
        let mut connection = self.connection().await?;
        read_newest_block(&mut connection).await
    }

    /// Returns the block of a height, with its hash.
    pub async fn stored_block(&self, height: u64) -> Result<Option<StoredBlock>, IndexStoreError> {
        let row = sqlx::query("SELECT height, time, hash FROM block WHERE height = $1")
            .bind(to_column(height))
            .fetch_optional(&mut *self.connection().await?)
            .await?;
        row.as_ref().map(parse_stored_block).transpose()
    }

    /// Returns the time of a block, in nanoseconds since the epoch.
    pub async fn block_time(&self, height: u64) -> Result<Option<i128>, IndexStoreError> {
        let row = sqlx::query("SELECT time FROM block WHERE height = $1")
            .bind(to_column(height))
            .fetch_optional(&mut *self.connection().await?)
            .await?;
        Ok(row.map(|row| row.try_get::<i64, _>(0)).transpose()?.map(i128::from))
    }

    /// Returns the times of the blocks from `first` to `last`, in nanoseconds since the epoch, by height.
    pub async fn list_block_times(&self, first: u64, last: u64) -> Result<BTreeMap<u64, i128>, IndexStoreError> {
        let rows = sqlx::query("SELECT height, time FROM block WHERE height >= $1 AND height <= $2")
            .bind(to_column(first))
            .bind(to_column(last))
            .fetch_all(&mut *self.connection().await?)
            .await?;
        rows.iter().map(|row| Ok((from_column(row.try_get(0)?), row.try_get::<i64, _>(1)?.into()))).collect()
    }

    /// Returns the newest block before an instant, up to a height.
    pub async fn block_before(&self, instant: i128, height: u64) -> Result<Option<Checkpoint>, IndexStoreError> {
        // A condition on the height beside the one on the time would leave the choice of the index to the database.
        // Times of blocks grow with their heights: where the block of the instant is a later one, the requested one is before it too.
        let row = sqlx::query("SELECT height, time FROM block WHERE time < $1 ORDER BY time DESC LIMIT 1")
            .bind(time_to_column(instant))
            .fetch_optional(&mut *self.connection().await?)
            .await?;
        let Some(found) = row.as_ref().map(parse_block).transpose()? else { return Ok(None) };
        if found.height <= height {
            return Ok(Some(found));
        }
        Ok(self.block_time(height).await?.map(|time| Checkpoint { height, time }))
    }

    /// Begins a transaction for blocks.
    pub async fn begin_blocks(&self) -> Result<BlockBatch, IndexStoreError> {
        let mut transaction = self.writer.begin().await?;
        let newest = read_newest_block(&mut transaction).await?;
        let transaction = Arc::new(Mutex::new(BlockTransaction::new(transaction, newest.place.height == 0)));
        let store = self.within(Arc::<Mutex<BlockTransaction>>::clone(&transaction));
        Ok(BlockBatch { store, transaction, newest })
    }

    /// Returns the texts that a statement selects, in order.
    #[cfg(test)]
    pub async fn texts(&self, statement: &'static str) -> Vec<String> {
        let rows = sqlx::query(statement).fetch_all(&mut *self.connection().await.expect("a connection")).await;
        let mut texts: Vec<String> = rows.expect("reads").iter().map(|row| row.try_get(0).expect("a text")).collect();
        texts.sort();
        texts
    }

    /// Writes a block in a transaction of its own.
    #[cfg(test)]
    pub async fn write_block(&self, block: &BlockWrite) -> Result<(), IndexStoreError> {
        let mut batch = self.begin_blocks().await?;
        batch.write(block).await?;
        batch.commit().await
    }
}

/// A transaction of several blocks. Nothing of it happens unless it is committed.
pub struct BlockBatch {
    store: IndexStore,
    transaction: Arc<Mutex<BlockTransaction>>,
    newest: StoredBlock,
}

impl BlockBatch {
    /// The newest block, of those that were written so far too.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.newest.place
    }

    /// The same block, with its hash.
    pub fn newest(&self) -> &StoredBlock {
        &self.newest
    }

    /// Records the hash of the newest block, which an earlier release has written without.
    pub async fn learn_hash(&mut self, hash: &str) -> Result<(), IndexStoreError> {
        sqlx::query("UPDATE block SET hash = $2 WHERE height = $1 AND hash IS NULL")
            .bind(to_column(self.newest.place.height))
            .bind(hash)
            .execute(&mut **self.transaction.lock().await)
            .await?;
        self.newest.hash = Some(hash.to_owned());
        Ok(())
    }

    /// The store with the blocks that were written so far.
    pub fn store(&self) -> &IndexStore {
        &self.store
    }

    /// Writes a block. A block that is already stored is left unchanged, so a writer that does not know whether its last attempt
    /// was committed can repeat it. Returns whether it was written.
    pub async fn write(&mut self, block: &BlockWrite) -> Result<bool, IndexStoreError> {
        if self.newest.place.height >= block.height {
            return Ok(false);
        }
        let mut transaction = self.transaction.lock().await;
        if self.newest.place.height == 0 {
            end_start(&mut transaction, block).await?;
        }
        transaction.write(block).await?;
        drop(transaction);
        let place = Checkpoint { height: block.height, time: block.time };
        self.newest = StoredBlock { place, hash: block.hash.clone() };
        Ok(true)
    }

    /// Commits all blocks.
    pub async fn commit(self) -> Result<(), IndexStoreError> {
        drop(self.store);
        match Arc::into_inner(self.transaction) {
            Some(transaction) => transaction.into_inner().commit().await,
            None => Err(IndexStoreError::Busy),
        }
    }
}

async fn read_checkpoint(connection: &mut AnyConnection) -> Result<Checkpoint, IndexStoreError> {
    let sql = "SELECT height, time FROM block WHERE height = (SELECT MAX(height) FROM block)";
    let row = sqlx::query(sql).fetch_optional(connection).await?;
    row.map_or_else(|| Ok(Checkpoint::default()), |row| parse_block(&row))
}

async fn read_newest_block(connection: &mut AnyConnection) -> Result<StoredBlock, IndexStoreError> {
    let sql = "SELECT height, time, hash FROM block WHERE height = (SELECT MAX(height) FROM block)";
    let row = sqlx::query(sql).fetch_optional(connection).await?;
    row.map_or_else(|| Ok(StoredBlock::default()), |row| parse_stored_block(&row))
}

fn parse_stored_block(row: &sqlx::any::AnyRow) -> Result<StoredBlock, IndexStoreError> {
    Ok(StoredBlock { place: parse_block(row)?, hash: row.try_get(2)? })
}

fn parse_block(row: &sqlx::any::AnyRow) -> Result<Checkpoint, IndexStoreError> {
    Ok(Checkpoint { height: from_column(row.try_get(0)?), time: row.try_get::<i64, _>(1)?.into() })
}
