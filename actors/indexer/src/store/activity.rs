//! What was done to each entity, by which message.

use serde_json::Value;
use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::{Range, Store, StoreError, next_id, signed, unsigned};

/// One thing done to an entity in a block.
#[derive(Debug, Clone, PartialEq)]
pub struct Activity {
    pub entity_type: &'static str,
    /// Id or name, as text.
    pub entity_key: String,
    /// Name of the message.
    pub msg: String,
    /// Signer, when a transaction did it.
    pub account: Option<String>,
    /// Changed keys with their new values; `None` when a later activity of the same block tells them.
    pub changes: Option<Value>,
}

/// An activity as read.
#[derive(Debug, Clone)]
pub struct ActivityRow {
    pub id: u64,
    pub height: u64,
    /// Time of the block, nanoseconds since the epoch.
    pub time: i128,
    pub entity_type: String,
    pub entity_key: String,
    pub msg: String,
    pub account: Option<String>,
    pub changes: Option<Value>,
}

pub(super) async fn write(
    connection: &mut AnyConnection,
    height: u64,
    activity: &[Activity],
) -> Result<(), StoreError> {
    if activity.is_empty() {
        return Ok(());
    }
    let mut id = next_id(connection, "SELECT COALESCE(MAX(id), 0) FROM activity").await?;
    for row in activity {
        sqlx::query(
            "INSERT INTO activity (id, height, entity_type, entity_key, msg, account, changes) \
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(signed(id))
        .bind(signed(height))
        .bind(row.entity_type)
        .bind(row.entity_key.as_str())
        .bind(row.msg.as_str())
        .bind(row.account.clone())
        .bind(row.changes.as_ref().map(Value::to_string))
        .execute(&mut *connection)
        .await?;
        id += 1;
    }
    Ok(())
}

const COLUMNS: &str = "SELECT a.id, a.height, b.time, a.entity_type, a.entity_key, a.msg, a.account, a.changes \
                       FROM activity a JOIN block b ON b.height = a.height";

fn parse(row: &sqlx::any::AnyRow) -> Result<ActivityRow, StoreError> {
    let changes: Option<String> = row.try_get(7)?;
    let changes = changes.map(|text| serde_json::from_str(&text)).transpose();
    Ok(ActivityRow {
        id: unsigned(row.try_get(0)?),
        height: unsigned(row.try_get(1)?),
        time: row.try_get::<i64, _>(2)?.into(),
        entity_type: row.try_get(3)?,
        entity_key: row.try_get(4)?,
        msg: row.try_get(5)?,
        account: row.try_get(6)?,
        changes: changes.map_err(|error| StoreError::Corrupt(error.to_string()))?,
    })
}

impl Store {
    /// What was done to an entity up to `height`, a page of it.
    pub async fn history(
        &self,
        entity_type: &str,
        entity_key: &str,
        height: u64,
        range: Range,
        limit: usize,
    ) -> Result<Vec<ActivityRow>, StoreError> {
        let order = if range.is_descending { "DESC" } else { "ASC" };
        let statement = format!(
            "{COLUMNS} WHERE a.entity_type = $1 AND a.entity_key = $2 AND a.height <= $3 AND a.id >= $4 AND a.id < $5 \
             ORDER BY a.id {order} LIMIT {limit}"
        );
        let query = sqlx::query(AssertSqlSafe(statement))
            .bind(entity_type)
            .bind(entity_key)
            .bind(signed(height))
            .bind(signed(range.min_id.unwrap_or(0)))
            .bind(signed(range.max_id.unwrap_or(u64::MAX)));
        query.fetch_all(&self.pool).await?.iter().map(parse).collect()
    }

    /// Everything done in one block.
    pub async fn activity_at(&self, height: u64) -> Result<Vec<ActivityRow>, StoreError> {
        let statement = format!("{COLUMNS} WHERE a.height = $1 ORDER BY a.entity_type, a.entity_key, a.id");
        sqlx::query(AssertSqlSafe(statement))
            .bind(signed(height))
            .fetch_all(&self.pool)
            .await?
            .iter()
            .map(parse)
            .collect()
    }
}
