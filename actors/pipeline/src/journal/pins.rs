//! Blocks that the journal has pinned of its chain: by them a process recognizes the chain, and finds the height at which another history
//! begins.

use sqlx::{Row as _, SqliteExecutor};

use super::{
    columns::{read_unsigned, to_sql_integer},
    error::JournalError,
    store::JournalStore,
};
use crate::known_history::BlockPin;

/// A gap between two pins is at most this part of the distance to the newest one, so that old pins become few.
const GAP_PART: u64 = 8;

/// The heights of the pins that are no longer needed. `heights` ascends. Pure.
fn superfluous(heights: &[u64]) -> Vec<u64> {
    let Some((newest, older)) = heights.split_last() else { return Vec::new() };
    let mut removed = Vec::new();
    let mut above = *newest;
    for (position, height) in older.iter().enumerate().rev() {
        // The next lower pin takes the place of this one while the gap stays small.
        let lower = position.checked_sub(1).and_then(|lower| older.get(lower));
        match lower {
            Some(lower) if above - lower <= (newest - lower) / GAP_PART => removed.push(*height),
            _ => above = *height,
        }
    }
    removed
}

/// The pinned blocks, the lowest first.
pub(super) async fn pinned_blocks(executor: impl SqliteExecutor<'_>) -> Result<Vec<BlockPin>, sqlx::Error> {
    let rows = sqlx::query("SELECT height, hash FROM pins ORDER BY height").fetch_all(executor).await?;
    rows.iter().map(|row| Ok(BlockPin { height: read_unsigned(row, "height")?, hash: row.try_get("hash")? })).collect()
}

impl JournalStore {
    /// The pinned blocks, the lowest first.
    pub async fn pins(&self) -> Result<Vec<BlockPin>, JournalError> {
        Ok(pinned_blocks(self.pool()).await?)
    }

    /// Height of the newest pinned block; 0 without one.
    pub(crate) async fn newest_pinned_height(&self) -> Result<u64, JournalError> {
        let row = sqlx::query("SELECT COALESCE(MAX(height), 0) AS height FROM pins").fetch_one(self.pool()).await?;
        Ok(read_unsigned(&row, "height")?)
    }

    /// Pins a block of the chain, and forgets those that are not needed beside it.
    pub async fn pin_block(&self, block: &BlockPin) -> Result<(), JournalError> {
        self.write_pins(std::slice::from_ref(block), true).await
    }

    /// Pins the newest blocks of a history that has ended, each of them: they show where it ended.
    pub(crate) async fn pin_ended(&self, blocks: &[BlockPin]) -> Result<(), JournalError> {
        self.write_pins(blocks, false).await
    }

    async fn write_pins(&self, blocks: &[BlockPin], forgets: bool) -> Result<(), JournalError> {
        let mut transaction = self.begin().await?;
        for block in blocks {
            let pinned = sqlx::query("INSERT OR IGNORE INTO pins (height, hash) VALUES (?, ?)");
            pinned.bind(to_sql_integer(block.height)).bind(&block.hash).execute(&mut *transaction).await?;
        }
        let rows = sqlx::query("SELECT height FROM pins ORDER BY height").fetch_all(&mut *transaction).await?;
        let heights = rows.iter().map(|row| read_unsigned(row, "height")).collect::<Result<Vec<_>, _>>()?;
        for height in superfluous(&heights).into_iter().filter(|_| forgets) {
            let removed = sqlx::query("DELETE FROM pins WHERE height = ?").bind(to_sql_integer(height));
            removed.execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
        self.record_head();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_dense_near_the_newest_one_and_few_below_it() {
        let mut heights = Vec::new();
        for height in 1..=20_000_u64 {
            heights.push(height);
            let removed = superfluous(&heights);
            heights.retain(|height| !removed.contains(height));
        }
        assert_eq!((heights.first(), heights.last()), (Some(&1), Some(&20_000)));
        assert!(heights.len() < 160, "{} pins", heights.len());
        for pair in heights.windows(2) {
            let allowed = ((20_000 - pair[0]) / GAP_PART).max(1);
            assert!(pair[1] - pair[0] <= allowed, "{pair:?}");
        }
        assert_eq!(superfluous(&[]), [0_u64; 0]);
        assert_eq!(superfluous(&[5]), [0_u64; 0]);
        assert_eq!(superfluous(&[1, 2, 3]), [0_u64; 0]);
    }
}
