//! Changes of verdicts by height: the trust stream and its checkpoint.

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use sqlx::{AssertSqlSafe, Row};
use svc_wire::trust_stream::RecordedTrustBlock;

use crate::store::{
    chain::block::Checkpoint,
    columns::{from_column, index_key, iso_millis, placeholders, to_column},
    error::IndexStoreError,
    index_store::IndexStore,
};

/// A store of evaluated blocks. It has a block before the hub publishes it. Between its first block and its checkpoint
/// it has every block, with or without changes.
pub trait TrustSource: Send + Sync + 'static {
    /// Returns the newest evaluated block.
    fn checkpoint(&self) -> BoxFuture<'_, Result<Checkpoint, IndexStoreError>>;

    /// Returns the evaluated blocks from `first` to `last`, in order, as far as the store has them.
    fn blocks(&self, first: u64, last: u64) -> BoxFuture<'_, Result<Vec<RecordedTrustBlock>, IndexStoreError>>;
}

/// The filter of a list of changes.
#[derive(Debug, Clone, Default)]
pub struct TrustChangeQuery {
    /// The change must be about one of these DIDs; any when empty.
    pub dids: Vec<String>,
    pub corporation_id: Option<u64>,
    /// First height.
    pub from: u64,
    /// Last height.
    pub until: u64,
    /// Most rows of the list.
    pub limit: usize,
}

impl IndexStore {
    /// Returns the newest height with written verdicts.
    pub async fn trust_checkpoint(&self) -> Result<Checkpoint, IndexStoreError> {
        let mut connection = self.connection().await?;
        let row =
            sqlx::query("SELECT value FROM meta WHERE name = 'trust_height'").fetch_optional(&mut *connection).await?;
        let height = match row {
            Some(row) => {
                let text: String = row.try_get(0)?;
                text.parse().map_err(|_| IndexStoreError::CorruptRow(format!("trust_height {text:?}")))?
            }
            // A store that began in the middle of a chain evaluates no height before its first block.
            None => {
                let first: Option<i64> =
                    sqlx::query("SELECT MIN(height) FROM block").fetch_one(&mut *connection).await?.try_get(0)?;
                first.map_or(0, |first| from_column(first).saturating_sub(1))
            }
        };
        drop(connection);
        Ok(Checkpoint { height, time: self.block_time(height).await?.unwrap_or(0) })
    }

    /// Returns changes in the order of heights and DIDs, by block.
    pub async fn list_trust_changes(
        &self,
        wanted: &TrustChangeQuery,
    ) -> Result<Vec<RecordedTrustBlock>, IndexStoreError> {
        let mut statement = String::from(
            "SELECT c.height, b.time, c.body FROM trust_change c JOIN block b ON b.height = c.height \
             WHERE c.height >= $1 AND c.height <= $2",
        );
        let mut place = 3;
        if wanted.corporation_id.is_some() {
            statement += &format!(" AND (c.corporation_id = ${place} OR c.former_corporation_id = ${place})");
            place += 1;
        }
        if !wanted.dids.is_empty() {
            statement += &format!(" AND c.did_key IN ({})", placeholders(wanted.dids.len(), place));
        }
        statement += &format!(" ORDER BY c.height, c.did_key LIMIT {}", wanted.limit);
        let mut query =
            sqlx::query(AssertSqlSafe(statement)).bind(to_column(wanted.from)).bind(to_column(wanted.until));
        if let Some(id) = wanted.corporation_id {
            query = query.bind(to_column(id));
        }
        for did in &wanted.dids {
            query = query.bind(index_key(did).into_owned());
        }
        let mut blocks: Vec<RecordedTrustBlock> = Vec::new();
        for row in &query.fetch_all(&mut *self.connection().await?).await? {
            let (height, time, body): (i64, i64, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            let height = from_column(height);
            let change = serde_json::from_str(&body).map_err(|error| IndexStoreError::CorruptRow(error.to_string()))?;
            match blocks.last_mut().filter(|last| last.block == height) {
                Some(block) => block.changes.push(change),
                None => blocks.push(RecordedTrustBlock {
                    block: height,
                    block_time: iso_millis(time.into()),
                    changes: vec![change],
                }),
            }
        }
        Ok(blocks)
    }

    /// Returns the evaluated blocks from `first` to `last` with their changes, as subscribers get them.
    pub async fn list_trust_blocks(&self, first: u64, last: u64) -> Result<Vec<RecordedTrustBlock>, IndexStoreError> {
        let last = last.min(self.trust_checkpoint().await?.height);
        let query =
            TrustChangeQuery { from: first, until: last, limit: usize::MAX >> 1, ..TrustChangeQuery::default() };
        let mut changes: BTreeMap<u64, RecordedTrustBlock> =
            self.list_trust_changes(&query).await?.into_iter().map(|block| (block.block, block)).collect();
        let times = self.list_block_times(first, last).await?;
        let blocks = times.into_iter().map(|(block, time)| {
            let empty = || RecordedTrustBlock { block, block_time: iso_millis(time), changes: Vec::new() };
            changes.remove(&block).unwrap_or_else(empty)
        });
        Ok(blocks.collect())
    }
}

impl TrustSource for IndexStore {
    fn checkpoint(&self) -> BoxFuture<'_, Result<Checkpoint, IndexStoreError>> {
        Box::pin(self.trust_checkpoint())
    }

    fn blocks(&self, first: u64, last: u64) -> BoxFuture<'_, Result<Vec<RecordedTrustBlock>, IndexStoreError>> {
        Box::pin(self.list_trust_blocks(first, last))
    }
}
