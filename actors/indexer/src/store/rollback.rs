//! The removal of blocks: afterwards the store is that of an indexer that has not seen them. Evaluations of trust, of which only the newest
//! are kept, are made once more.

use sqlx::{AnyConnection, Row};

use super::{
    columns::{from_column, to_column},
    error::IndexStoreError,
    index_store::IndexStore,
};

/// The values by which only versions above a height are found.
const REMOVE_LOOKUPS: &str = "DELETE FROM entity_lookup WHERE (kind, attribute, value, id) IN ( \
    SELECT kind, 'all', '', id FROM entity WHERE from_height > $1 \
    UNION SELECT kind, 'corporation', CAST(corporation_id AS TEXT), id FROM entity WHERE from_height > $1 AND corporation_id IS NOT NULL \
    UNION SELECT kind, 'parent', CAST(parent_id AS TEXT), id FROM entity WHERE from_height > $1 AND parent_id IS NOT NULL \
    UNION SELECT kind, 'name', name, id FROM entity WHERE from_height > $1 AND name IS NOT NULL \
    UNION SELECT kind, 'did', did, id FROM entity WHERE from_height > $1 AND did IS NOT NULL) \
    AND NOT EXISTS (SELECT 1 FROM entity e WHERE e.kind = entity_lookup.kind AND e.id = entity_lookup.id AND e.from_height <= $1 AND ( \
        entity_lookup.attribute = 'all' \
        OR (entity_lookup.attribute = 'corporation' AND CAST(e.corporation_id AS TEXT) = entity_lookup.value) \
        OR (entity_lookup.attribute = 'parent' AND CAST(e.parent_id AS TEXT) = entity_lookup.value) \
        OR (entity_lookup.attribute = 'name' AND e.name = entity_lookup.value) \
        OR (entity_lookup.attribute = 'did' AND e.did = entity_lookup.value)))";

/// The statements that remove everything above a height, in this order.
const REMOVALS: [&str; 11] = [
    REMOVE_LOOKUPS,
    "DELETE FROM entity WHERE from_height > $1",
    "UPDATE entity SET until_height = NULL WHERE until_height > $1",
    "DELETE FROM schedule WHERE height > $1",
    "DELETE FROM event_route WHERE height > $1",
    "DELETE FROM event WHERE height > $1",
    "DELETE FROM activity WHERE height > $1",
    "DELETE FROM measure WHERE height > $1",
    "DELETE FROM bucket WHERE from_height > $1",
    "DELETE FROM trust_change WHERE height > $1",
    "DELETE FROM block WHERE height > $1",
];

/// Queues an evaluation of every DID with a verdict, and of every DID whose evaluation depended on the removed blocks.
const JUDGE_AGAIN: [&str; 4] = [
    "INSERT INTO trust_job (did_key, did, fresh) SELECT did_key, MIN(did), 0 FROM trust_input WHERE 1 = 1 GROUP BY did_key \
     ON CONFLICT (did_key) DO NOTHING",
    "INSERT INTO trust_job (did_key, did, fresh) SELECT did_key, did, 0 FROM trust_open WHERE 1 = 1 ON CONFLICT (did_key) DO NOTHING",
    // A long DID stands here as its digest; it has inputs, unless the removed blocks removed the DID.
    "INSERT INTO trust_job (did_key, did, fresh) SELECT name, MIN(did), 0 FROM entity WHERE kind = 'verdict' AND until_height IS NULL \
     AND did NOT LIKE 'sha256 %' GROUP BY name ON CONFLICT (did_key) DO NOTHING",
    "DELETE FROM trust_open",
];

impl IndexStore {
    /// Returns the lowest height of which the store has the block's hash.
    pub async fn oldest_hash(&self) -> Result<Option<u64>, IndexStoreError> {
        let sql = "SELECT MIN(height) FROM block WHERE hash IS NOT NULL";
        let lowest: Option<i64> = sqlx::query(sql).fetch_one(&mut *self.connection().await?).await?.try_get(0)?;
        Ok(lowest.map(from_column))
    }

    /// Removes the blocks above a height in one transaction: the store has it or not, also after a kill.
    pub async fn remove_blocks_above(&self, height: u64) -> Result<(), IndexStoreError> {
        let mut transaction = self.writer.begin().await?;
        remove_above(&mut transaction, height).await?;
        transaction.commit().await?;
        Ok(())
    }
}

pub(super) async fn remove_above(connection: &mut AnyConnection, height: u64) -> Result<(), IndexStoreError> {
    for statement in REMOVALS {
        sqlx::query(statement).bind(to_column(height)).execute(&mut *connection).await?;
    }
    for statement in JUDGE_AGAIN {
        sqlx::query(statement).execute(&mut *connection).await?;
    }
    let judged =
        sqlx::query("SELECT value FROM meta WHERE name = 'trust_height'").fetch_optional(&mut *connection).await?;
    let judged: Option<String> = judged.map(|row| row.try_get(0)).transpose()?;
    if judged.and_then(|text| text.parse::<u64>().ok()).is_some_and(|judged| judged > height) {
        let lowered = sqlx::query("UPDATE meta SET value = $1 WHERE name = 'trust_height'");
        lowered.bind(height.to_string()).execute(connection).await?;
    }
    Ok(())
}
