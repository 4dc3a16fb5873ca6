//! The activity log: the actions of each block on each entity, by message.

use serde_json::Value;
use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::entity::IdRange;
use crate::store::{
    columns::{from_column, next_id, time_to_column, to_column},
    error::IndexStoreError,
    index_store::IndexStore,
    row_insert::RowInsert,
};

/// One action of a block on an entity.
#[derive(Debug, Clone, PartialEq)]
pub struct EntityActivity {
    pub entity_type: &'static str,
    /// Id or name of the entity, as text.
    pub entity_key: String,
    /// Name of the message.
    pub message: String,
    /// Signer of the transaction; `None` for an action of the block itself.
    pub account: Option<String>,
    /// Changed keys with their new values; `None` when a later activity of the same block holds them.
    pub changes: Option<Value>,
}

/// A row of the activity log.
#[derive(Debug, Clone)]
pub struct StoredActivity {
    pub id: u64,
    pub height: u64,
    /// Time of the block, nanoseconds since the epoch.
    pub time: i128,
    pub entity_type: String,
    pub entity_key: String,
    pub message: String,
    pub account: Option<String>,
    pub changes: Option<Value>,
}

/// The activity that a transaction writes.
pub(in crate::store) struct ActivityRows {
    rows: RowInsert<8>,
    next_id: Option<u64>,
}

impl ActivityRows {
    pub fn new() -> Self {
        let rows = RowInsert::new("activity (id, height, time, entity_type, entity_key, msg, account, changes)");
        Self { rows, next_id: None }
    }

    /// Takes in the activity of a block.
    pub async fn write(
        &mut self,
        connection: &mut AnyConnection,
        (height, time): (u64, i128),
        activity: &[EntityActivity],
    ) -> Result<(), IndexStoreError> {
        for row in activity {
            let id = match self.next_id {
                Some(next) => next,
                None => next_id(connection, "SELECT COALESCE(MAX(id), 0) FROM activity").await?,
            };
            self.next_id = Some(id + 1);
            self.rows.push([
                to_column(id).into(),
                to_column(height).into(),
                time_to_column(time).into(),
                row.entity_type.into(),
                row.entity_key.as_str().into(),
                row.message.as_str().into(),
                row.account.clone().into(),
                row.changes.as_ref().map(Value::to_string).into(),
            ]);
        }
        Ok(())
    }

    /// Gives all rows to the database.
    pub async fn flush(&mut self, connection: &mut AnyConnection) -> Result<(), IndexStoreError> {
        self.rows.execute(connection).await
    }
}

const SELECT_ACTIVITY: &str =
    "SELECT a.id, a.height, a.time, a.entity_type, a.entity_key, a.msg, a.account, a.changes FROM activity a";

/// The first id of a later height than $3: ids grow with heights.
const END_OF_HEIGHT: &str = "SELECT COALESCE((SELECT MIN(n.id) FROM activity n WHERE n.height = \
    (SELECT MIN(l.height) FROM activity l WHERE l.height > $3)), 9223372036854775807)";

fn parse_activity(row: &sqlx::any::AnyRow) -> Result<StoredActivity, IndexStoreError> {
    let changes: Option<String> = row.try_get(7)?;
    let changes = changes.map(|text| serde_json::from_str(&text)).transpose();
    Ok(StoredActivity {
        id: from_column(row.try_get(0)?),
        height: from_column(row.try_get(1)?),
        time: row.try_get::<i64, _>(2)?.into(),
        entity_type: row.try_get(3)?,
        entity_key: row.try_get(4)?,
        message: row.try_get(5)?,
        account: row.try_get(6)?,
        changes: changes.map_err(|error| IndexStoreError::CorruptRow(error.to_string()))?,
    })
}

impl IndexStore {
    /// Returns a page of the activity of an entity up to `height`.
    pub async fn list_activity(
        &self,
        entity_type: &str,
        entity_key: &str,
        height: u64,
        range: IdRange,
        limit: usize,
    ) -> Result<Vec<StoredActivity>, IndexStoreError> {
        let order = if range.is_descending { "DESC" } else { "ASC" };
        let statement = format!(
            "{SELECT_ACTIVITY} WHERE a.entity_type = $1 AND a.entity_key = $2 AND a.id >= $4 AND a.id < $5 AND a.id < ({END_OF_HEIGHT}) \
             ORDER BY a.id {order} LIMIT {limit}"
        );
        let query = sqlx::query(AssertSqlSafe(statement))
            .bind(entity_type)
            .bind(entity_key)
            .bind(to_column(height))
            .bind(to_column(range.min_id.unwrap_or(0)))
            .bind(to_column(range.max_id.unwrap_or(u64::MAX)));
        query.fetch_all(&mut *self.connection().await?).await?.iter().map(parse_activity).collect()
    }

    /// Returns the activity of one block.
    pub async fn list_block_activity(&self, height: u64) -> Result<Vec<StoredActivity>, IndexStoreError> {
        let statement = format!("{SELECT_ACTIVITY} WHERE a.height = $1 ORDER BY a.entity_type, a.entity_key, a.id");
        sqlx::query(AssertSqlSafe(statement))
            .bind(to_column(height))
            .fetch_all(&mut *self.connection().await?)
            .await?
            .iter()
            .map(parse_activity)
            .collect()
    }
}
