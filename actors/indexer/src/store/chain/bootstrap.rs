//! The first state of an index, which is written in pages before its block. Without the block no read finds a row of it.

use sqlx::{AnyConnection, Row};

use super::{block::BlockWrite, block_transaction::BlockTransaction};
use crate::store::{
    columns::{from_column, to_column},
    error::IndexStoreError,
    index_store::IndexStore,
    rollback::remove_above,
};

/// A first state that is not complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredStart {
    /// Height of the first block.
    pub height: u64,
    /// Hash of the first block, upper-case hex.
    pub hash: String,
    /// Pages that are written.
    pub pages: u64,
    /// The list that is read next.
    pub position: String,
}

impl IndexStore {
    /// Returns the first state that is not complete.
    pub async fn stored_start(&self) -> Result<Option<StoredStart>, IndexStoreError> {
        read_start(&mut *self.connection().await?).await
    }

    /// Goes on with the first state of a block, or begins it at a position; the pages of another block are removed, and those of a position
    /// that this release does not know. `None` where the store has a block.
    pub async fn begin_start(
        &self,
        (height, hash): (u64, &str),
        first_position: &str,
        is_known: impl Fn(&str) -> bool,
    ) -> Result<Option<StoredStart>, IndexStoreError> {
        let mut transaction = self.writer.begin().await?;
        if sqlx::query("SELECT 1 FROM block LIMIT 1").fetch_optional(&mut *transaction).await?.is_some() {
            return Ok(None);
        }
        let stored = read_start(&mut transaction).await?;
        if let Some(stored) = &stored {
            if stored.height == height && stored.hash == hash && is_known(&stored.position) {
                return Ok(Some(stored.clone()));
            }
            tracing::warn!(
                height = stored.height,
                pages = stored.pages,
                next_start = height,
                "the index begins with another block: the entities that are written are removed"
            );
            remove_above(&mut transaction, 0).await?;
            sqlx::query("DELETE FROM bootstrap").execute(&mut *transaction).await?;
        }
        sqlx::query("INSERT INTO bootstrap (height, hash, pages, position, is_read) VALUES ($1, $2, 0, $3, 0)")
            .bind(to_column(height))
            .bind(hash)
            .bind(first_position)
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(Some(StoredStart { height, hash: hash.to_owned(), pages: 0, position: first_position.to_owned() }))
    }

    /// Writes the next page of a first state, with the position after it, in one transaction. Fails when another process has written one
    /// since, or has begun with another block.
    pub async fn write_start_page(
        &self,
        before: &StoredStart,
        (position, is_read): (&str, bool),
        rows: &BlockWrite,
    ) -> Result<StoredStart, IndexStoreError> {
        let mut transaction = self.writer.begin().await?;
        let moved = sqlx::query(
            "UPDATE bootstrap SET pages = pages + 1, position = $1, is_read = $2 WHERE height = $3 AND hash = $4 AND pages = $5",
        )
        .bind(position)
        .bind(i64::from(is_read))
        .bind(to_column(before.height))
        .bind(before.hash.as_str())
        .bind(to_column(before.pages))
        .execute(&mut *transaction)
        .await?;
        if moved.rows_affected() != 1 {
            return Err(IndexStoreError::StartMoved);
        }
        let mut page = BlockTransaction::new(transaction, true);
        page.write_rows(rows).await?;
        page.commit().await?;
        Ok(StoredStart { pages: before.pages + 1, position: position.to_owned(), ..before.clone() })
    }
}

async fn read_start(connection: &mut AnyConnection) -> Result<Option<StoredStart>, IndexStoreError> {
    let row =
        sqlx::query("SELECT height, hash, pages, position FROM bootstrap LIMIT 1").fetch_optional(connection).await?;
    row.map(|row| {
        let (height, pages) = (from_column(row.try_get(0)?), from_column(row.try_get(2)?));
        Ok(StoredStart { height, hash: row.try_get(1)?, pages, position: row.try_get(3)? })
    })
    .transpose()
}

/// Ends the first state with its block. Fails when it is that of another block, or not complete.
pub(super) async fn end_start(connection: &mut AnyConnection, block: &BlockWrite) -> Result<(), IndexStoreError> {
    let removed = sqlx::query("DELETE FROM bootstrap WHERE height = $1 AND hash = $2 AND is_read = 1")
        .bind(to_column(block.height))
        .bind(block.hash.clone())
        .execute(&mut *connection)
        .await?;
    if removed.rows_affected() == 0 && read_start(connection).await?.is_some() {
        return Err(IndexStoreError::StartMoved);
    }
    Ok(())
}
