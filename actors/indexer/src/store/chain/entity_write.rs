//! The write of entities: their versions, the values by which they are found, and the instants at which time changes them.

use std::collections::BTreeSet;

use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::{
    block::ScheduledChange,
    entity::{EntityChange, EntityKind, NEWEST_VERSION},
};
use crate::store::{
    columns::{from_column, index_key, time_to_column, to_column},
    error::IndexStoreError,
    row_insert::RowInsert,
};

const DELETE_VERSION: &str = "DELETE FROM entity WHERE kind = $1 AND id = $2 AND from_height = $3";
const CLOSE_VERSION: &str = "UPDATE entity SET until_height = $3 WHERE kind = $1 AND id = $2 AND until_height IS NULL \
    AND from_height = (SELECT MAX(from_height) FROM entity WHERE kind = $1 AND id = $2)";

/// Writes the changes of one height.
pub(in crate::store) struct EntityWriter {
    height: u64,
    /// Entities that have a version of this height already.
    written: BTreeSet<(&'static str, u64)>,
    lookups: RowInsert<4>,
}

impl EntityWriter {
    pub fn new(height: u64) -> Self {
        let lookups = RowInsert::with_ending(
            "entity_lookup (kind, attribute, value, id)",
            "ON CONFLICT (kind, attribute, value, id) DO NOTHING",
        );
        Self { height, written: BTreeSet::new(), lookups }
    }

    /// Writes a change: the previous version ends at this height, and a second change of the height replaces the first.
    pub async fn write(
        &mut self,
        connection: &mut AnyConnection,
        change: &EntityChange,
    ) -> Result<(), IndexStoreError> {
        let kind = change.kind.as_str();
        let id = match change.id {
            Some(id) => id,
            None => {
                // The search needs the values of the changes before.
                self.finish(connection).await?;
                find_or_assign_id(connection, change).await?
            }
        };
        let is_repeated = !self.written.insert((kind, id));
        let statements: &[&'static str] = if is_repeated { &[DELETE_VERSION, CLOSE_VERSION] } else { &[CLOSE_VERSION] };
        for statement in statements {
            sqlx::query(*statement)
                .bind(kind)
                .bind(to_column(id))
                .bind(to_column(self.height))
                .execute(&mut *connection)
                .await?;
        }
        let Some(body) = &change.body else { return Ok(()) };
        let mut body = body.clone();
        if change.kind.has_id_member() {
            body["id"] = id.into();
        }
        let [corporation, parent] = [change.corporation_id, change.parent_id].map(|id| id.map(to_column));
        let [name, did] =
            [&change.name, &change.did].map(|text| text.as_deref().map(|text| index_key(text).into_owned()));
        sqlx::query(
            "INSERT INTO entity (kind, id, from_height, until_height, corporation_id, parent_id, name, did, body) \
             VALUES ($1, $2, $3, NULL, $4, $5, $6, $7, $8)",
        )
        .bind(kind)
        .bind(to_column(id))
        .bind(to_column(self.height))
        .bind(corporation)
        .bind(parent)
        .bind(name.as_deref())
        .bind(did.as_deref())
        .bind(body.to_string())
        .execute(&mut *connection)
        .await?;
        let values = [
            ("all", Some(String::new())),
            ("corporation", corporation.map(|id| id.to_string())),
            ("parent", parent.map(|id| id.to_string())),
            ("name", name),
            ("did", did),
        ];
        for (attribute, value) in values {
            if let Some(value) = value {
                self.lookups.push([kind.into(), attribute.into(), value.into(), to_column(id).into()]);
            }
        }
        Ok(())
    }

    /// Writes the values by which the entities are found, at any height.
    pub async fn finish(&mut self, connection: &mut AnyConnection) -> Result<(), IndexStoreError> {
        self.lookups.execute(connection).await
    }
}

/// Returns the id of an entity that its name identifies: the one it has, or the next free one of its kind.
async fn find_or_assign_id(connection: &mut AnyConnection, change: &EntityChange) -> Result<u64, IndexStoreError> {
    let statement = format!(
        "SELECT e.id FROM entity_lookup k CROSS JOIN entity e WHERE k.kind = $1 AND k.attribute = 'name' AND k.value = $2 \
         AND e.kind = k.kind AND e.id = k.id AND e.from_height = ({NEWEST_VERSION}) \
         AND COALESCE(e.corporation_id, 0) = $3 AND COALESCE(e.parent_id, 0) = $4 LIMIT 1"
    );
    let known = sqlx::query(AssertSqlSafe(statement))
        .bind(change.kind.as_str())
        .bind(change.name.as_deref().map(|name| index_key(name).into_owned()))
        .bind(change.corporation_id.map_or(0, to_column))
        .bind(change.parent_id.map_or(0, to_column))
        .fetch_optional(&mut *connection)
        .await?;
    match known {
        Some(row) => Ok(from_column(row.try_get(0)?)),
        None => next_entity_id(connection, change.kind).await,
    }
}

/// Returns the next free id of a kind for which the store assigns ids.
pub(in crate::store) async fn next_entity_id(
    connection: &mut AnyConnection,
    kind: EntityKind,
) -> Result<u64, IndexStoreError> {
    let sql = "SELECT COALESCE(MAX(id), 0) FROM entity_lookup WHERE kind = $1 AND attribute = 'all' AND value = ''";
    let highest: i64 = sqlx::query(sql).bind(kind.as_str()).fetch_one(connection).await?.try_get(0)?;
    Ok(from_column(highest) + 1)
}

/// Writes the instants at which time alone changes entities.
pub(in crate::store) async fn write_schedule(
    connection: &mut AnyConnection,
    schedule: &[ScheduledChange],
) -> Result<(), IndexStoreError> {
    let mut rows = RowInsert::with_ending("schedule (due, kind, id)", "ON CONFLICT (due, kind, id) DO NOTHING");
    for ScheduledChange { due, kind, id } in schedule {
        rows.push([time_to_column(*due).into(), kind.as_str().into(), to_column(*id).into()]);
    }
    rows.execute(connection).await
}
