//! A transaction of several blocks. Its rows wait, and go to the database together before the next read that they concern and before
//! the commit: each statement is a way to the database and back.

use std::ops::{Deref, DerefMut};

use futures::{FutureExt, future::BoxFuture};
use sqlx::{Any, AnyConnection};
use svc_store::StoreTransaction;

use super::{
    activity::ActivityRows,
    block::{BlockWrite, ScheduledChange},
    entity_write::EntityRows,
    event::EventRows,
    stats::MeasureRows,
};
use crate::store::{
    columns::{time_to_column, to_column},
    error::IndexStoreError,
    index_store::{OpenTransaction, ReadScope},
    row_insert::RowInsert,
};

/// Rows that wait at most, about: their memory is bounded, and the time of the transaction includes their statements.
const MAX_WAITING: usize = if cfg!(test) { 12 } else { 1_024 };

/// A transaction with the rows that wait.
pub(in crate::store) struct BlockTransaction {
    transaction: StoreTransaction<Any>,
    entities: EntityRows,
    schedule: RowInsert<4>,
    events: EventRows,
    activity: ActivityRows,
    measures: MeasureRows,
    blocks: RowInsert<3>,
    waiting: usize,
}

impl Deref for BlockTransaction {
    type Target = AnyConnection;

    fn deref(&self) -> &AnyConnection {
        &self.transaction
    }
}

impl DerefMut for BlockTransaction {
    fn deref_mut(&mut self) -> &mut AnyConnection {
        &mut self.transaction
    }
}

impl OpenTransaction for BlockTransaction {
    fn flush_for(&mut self, scope: ReadScope) -> BoxFuture<'_, Result<(), IndexStoreError>> {
        let is_concerned = match scope {
            ReadScope::Entity(kind, id) => self.entities.has_entity(kind, id),
            ReadScope::Kind(kind) => self.entities.has_kind(kind),
            ReadScope::Schedule => !self.schedule.is_empty(),
            ReadScope::All => true,
        };
        async move { if is_concerned { self.flush().await } else { Ok(()) } }.boxed()
    }
}

impl BlockTransaction {
    /// Rows of `is_start`, the first block and the pages before it, may replace others of their height.
    pub fn new(transaction: StoreTransaction<Any>, is_start: bool) -> Self {
        Self {
            transaction,
            entities: EntityRows::new(is_start),
            schedule: RowInsert::with_ending(
                "schedule (due, kind, id, height)",
                "ON CONFLICT (due, kind, id) DO NOTHING",
            ),
            events: EventRows::new(),
            activity: ActivityRows::new(),
            measures: MeasureRows::new(),
            blocks: RowInsert::new("block (height, time, hash)"),
            waiting: 0,
        }
    }

    /// Takes in a block with its rows.
    pub async fn write(&mut self, block: &BlockWrite) -> Result<(), IndexStoreError> {
        self.blocks.push([
            to_column(block.height).into(),
            time_to_column(block.time).into(),
            block.hash.clone().into(),
        ]);
        self.write_rows(block).await
    }

    /// Takes in the rows of a block, without the block.
    pub async fn write_rows(&mut self, block: &BlockWrite) -> Result<(), IndexStoreError> {
        let (connection, at) = (&mut *self.transaction, (block.height, block.time));
        for change in &block.changes {
            self.entities.write(connection, block.height, change).await?;
        }
        for ScheduledChange { due, kind, id } in &block.schedule {
            self.schedule.push([
                time_to_column(*due).into(),
                kind.as_str().into(),
                to_column(*id).into(),
                to_column(block.height).into(),
            ]);
        }
        self.events.write(block.height, &block.events)?;
        self.activity.write(connection, at, &block.activity).await?;
        self.measures.write(connection, at, &block.deltas).await?;
        // An event has a few routes, and a change of measures may open buckets.
        let of_stats = block.deltas.changes().count() + block.schedule.len();
        self.waiting += 1 + block.changes.len() + 4 * block.events.len() + block.activity.len() + of_stats;
        if self.waiting > MAX_WAITING { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), IndexStoreError> {
        self.waiting = 0;
        let connection = &mut *self.transaction;
        self.entities.flush(connection).await?;
        self.schedule.execute(connection).await?;
        self.events.flush(connection).await?;
        self.activity.flush(connection).await?;
        self.measures.flush(connection).await?;
        self.blocks.execute(connection).await
    }

    /// Commits all rows.
    pub async fn commit(mut self) -> Result<(), IndexStoreError> {
        self.flush().await?;
        Ok(self.transaction.commit().await?)
    }
}
