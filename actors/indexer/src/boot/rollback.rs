//! The rollback of a store: the removal of blocks that the chain does not have any more.

use serde::Serialize;

use super::error::IndexerError;
use crate::store::IndexStore;

/// Blocks that one transaction removes.
const STEP: u64 = 2_000;

/// A rollback that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rollback {
    /// Newest height before.
    pub from: u64,
    /// Newest height now.
    pub to: u64,
    /// Time of that block, ISO-8601 UTC.
    pub block_time: String,
    /// DIDs that are evaluated once more when the indexer runs.
    pub dids_to_judge: usize,
}

/// Removes the blocks above a height from a database that no other process uses, in steps. A step is whole or has not happened, so that a
/// rollback that was interrupted is repeated. `progress` gets the newest height after each step.
///
/// # Errors
/// When another process uses the database, it fails, or it has no hash of the block at the height.
pub async fn roll_back_index(
    database: &str,
    height: u64,
    mut progress: impl FnMut(u64),
) -> Result<Rollback, IndexerError> {
    let store = IndexStore::open_alone(database).await?;
    let outcome = roll_back(&store, height, STEP, &mut progress).await;
    store.close().await;
    outcome
}

/// Removes the blocks above a height, `step` of them in a transaction.
pub(crate) async fn roll_back(
    store: &IndexStore,
    height: u64,
    step: u64,
    progress: &mut impl FnMut(u64),
) -> Result<Rollback, IndexerError> {
    let heights = store.oldest_and_newest_block().await?;
    let (Some((oldest, _)), Some((newest, _))) = (heights.first().copied(), heights.last().copied()) else {
        return Err(IndexerError::NoBlock);
    };
    if !(oldest..=newest).contains(&height) {
        return Err(IndexerError::NotIndexed { height, oldest, newest });
    }
    let oldest = store.oldest_hash().await?;
    if oldest.is_none_or(|oldest| height < oldest) {
        return Err(IndexerError::NoHash { height, oldest });
    }
    let mut left = newest;
    while left > height {
        left = left.saturating_sub(step).max(height);
        store.remove_blocks_above(left).await?;
        progress(left);
    }
    let time = store.checkpoint().await?.time;
    let dids_to_judge = store.list_pending_dids().await?.len();
    Ok(Rollback { from: newest, to: height, block_time: crate::store::iso_millis(time), dids_to_judge })
}
