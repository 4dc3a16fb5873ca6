//! Versions of entities. Each version is valid from a height, inclusive, to another height, exclusive.

use serde_json::Value;
use sqlx::{AssertSqlSafe, Row};

use super::entity_kind::EntityKind;
use crate::store::{
    columns::{from_column, index_key, time_to_column, to_column},
    error::IndexStoreError,
    index_store::{IndexStore, ReadScope},
};

/// The change of one entity by a block.
#[derive(Debug, Clone, PartialEq)]
pub struct EntityChange {
    pub kind: EntityKind,
    /// Id of the ledger; `None` for an entity that its name identifies, with its corporation or parent: the store
    /// assigns an id.
    pub id: Option<u64>,
    pub corporation_id: Option<u64>,
    /// Schema of a participant, ecosystem of a schema, proposal of a vote, group id of a group.
    pub parent_id: Option<u64>,
    /// Policy address, operator, grantee, voter, uuid, digest, module.
    pub name: Option<String>,
    pub did: Option<String>,
    /// New state; `None` when the block removed the entity.
    pub body: Option<Value>,
}

impl EntityChange {
    /// Creates a change of an entity that only its id identifies.
    pub fn new(kind: EntityKind, id: Option<u64>, body: Option<Value>) -> Self {
        Self { kind, id, corporation_id: None, parent_id: None, name: None, did: None, body }
    }

    /// Returns the new state as the store has it, with the id of the entity.
    pub fn stored_body(&self, id: u64) -> Option<Value> {
        let mut body = self.body.clone()?;
        if self.kind.has_id_member() {
            body["id"] = id.into();
        }
        Some(body)
    }
}

/// A version of an entity.
#[derive(Debug, Clone)]
pub struct StoredEntity {
    pub id: u64,
    pub body: Value,
}

/// An entity with a scheduled change that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueEntity {
    pub kind: EntityKind,
    pub id: u64,
}

/// The ids of a list and their order.
#[derive(Debug, Clone, Copy, Default)]
pub struct IdRange {
    /// Inclusive.
    pub min_id: Option<u64>,
    /// Exclusive.
    pub max_id: Option<u64>,
    pub is_descending: bool,
}

/// The filters that the database applies. All others are applied to the bodies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct EntityFilter {
    pub corporation_id: Option<u64>,
    pub parent_id: Option<u64>,
    pub name: Option<String>,
    pub did: Option<String>,
}

impl EntityFilter {
    /// The filter that finds an entity by the attributes that identify it beside an id.
    pub fn identity(change: &EntityChange) -> Self {
        Self {
            corporation_id: change.corporation_id,
            parent_id: change.parent_id,
            name: change.name.clone(),
            did: None,
        }
    }

    /// Whether an entity passes the filter after a change.
    pub fn passes(&self, change: &EntityChange) -> bool {
        fn is_wanted<T: PartialEq>(wanted: &Option<T>, found: &Option<T>) -> bool {
            wanted.is_none() || wanted == found
        }
        is_wanted(&self.corporation_id, &change.corporation_id)
            && is_wanted(&self.parent_id, &change.parent_id)
            && is_wanted(&self.name, &change.name)
            && is_wanted(&self.did, &change.did)
    }

    /// The attribute with the fewest entities by which they are looked up, and its value.
    fn narrowest(&self) -> (&'static str, String) {
        let text = |text: &String| index_key(text).into_owned();
        let id = |id: u64| to_column(id).to_string();
        let attributes = [
            ("did", self.did.as_ref().map(text)),
            ("name", self.name.as_ref().map(text)),
            ("parent", self.parent_id.map(id)),
            ("corporation", self.corporation_id.map(id)),
        ];
        let wanted = attributes.into_iter().find_map(|(attribute, value)| Some((attribute, value?)));
        wanted.unwrap_or(("all", String::new()))
    }
}

/// The newest version of the entity of a lookup row `k`.
pub(super) const NEWEST_VERSION: &str = "SELECT MAX(v.from_height) FROM entity v WHERE v.kind = k.kind AND v.id = k.id";

fn parse_entity(row: &sqlx::any::AnyRow) -> Result<StoredEntity, IndexStoreError> {
    let (id, text): (i64, String) = (row.try_get(0)?, row.try_get(1)?);
    let body = serde_json::from_str(&text).map_err(|error| IndexStoreError::CorruptRow(error.to_string()))?;
    Ok(StoredEntity { id: from_column(id), body })
}

impl IndexStore {
    /// Returns the version of an entity that is valid at `height`.
    pub async fn entity(&self, kind: EntityKind, id: u64, height: u64) -> Result<Option<Value>, IndexStoreError> {
        let row = sqlx::query(
            "SELECT id, body FROM (SELECT id, body, until_height FROM entity WHERE kind = $1 AND id = $2 AND from_height <= $3 \
             ORDER BY from_height DESC LIMIT 1) newest WHERE until_height IS NULL OR until_height > $3",
        )
        .bind(kind.as_str())
        .bind(to_column(id))
        .bind(to_column(height))
        .fetch_optional(&mut *self.connection_for(ReadScope::Entity(kind, id)).await?)
        .await?;
        row.map(|row| parse_entity(&row).map(|stored| stored.body)).transpose()
    }

    /// Returns the first entity of a kind that passes the filter at `height`.
    pub async fn find_entity(
        &self,
        kind: EntityKind,
        filter: &EntityFilter,
        height: u64,
    ) -> Result<Option<StoredEntity>, IndexStoreError> {
        Ok(self.list_page(kind, height, filter, IdRange::default(), 1).await?.pop())
    }

    /// Returns up to `limit` entities that are valid at `height` and pass the filter, in the order of ids.
    pub async fn list_page(
        &self,
        kind: EntityKind,
        height: u64,
        filter: &EntityFilter,
        range: IdRange,
        limit: usize,
    ) -> Result<Vec<StoredEntity>, IndexStoreError> {
        let (attribute, value) = filter.narrowest();
        let mut statement = format!(
            "SELECT e.id, e.body FROM entity_lookup k CROSS JOIN entity e WHERE k.kind = $1 AND k.attribute = $5 AND k.value = $6 \
             AND k.id >= $3 AND k.id < $4 AND e.kind = k.kind AND e.id = k.id \
             AND e.from_height = ({NEWEST_VERSION} AND v.from_height <= $2) AND (e.until_height IS NULL OR e.until_height > $2)"
        );
        let mut place = 6;
        let mut condition = |is_wanted: bool, column: &str| {
            if is_wanted {
                place += 1;
                statement += &format!(" AND e.{column} = ${place}");
            }
        };
        condition(filter.corporation_id.is_some(), "corporation_id");
        condition(filter.parent_id.is_some(), "parent_id");
        condition(filter.name.is_some(), "name");
        condition(filter.did.is_some(), "did");
        let order = if range.is_descending { "DESC" } else { "ASC" };
        statement += &format!(" ORDER BY k.id {order} LIMIT {limit}");
        let mut query = sqlx::query(AssertSqlSafe(statement))
            .bind(kind.as_str())
            .bind(to_column(height))
            .bind(to_column(range.min_id.unwrap_or(0)))
            .bind(to_column(range.max_id.unwrap_or(u64::MAX)))
            .bind(attribute)
            .bind(value);
        for id in [filter.corporation_id, filter.parent_id].into_iter().flatten() {
            query = query.bind(to_column(id));
        }
        for text in [&filter.name, &filter.did].into_iter().flatten() {
            query = query.bind(index_key(text).into_owned());
        }
        let mut connection = self.connection_for(ReadScope::Kind(kind)).await?;
        query.fetch_all(&mut *connection).await?.iter().map(parse_entity).collect()
    }

    /// Returns all entities that are valid at `height` and pass the filter, in the order of ids.
    pub async fn list_all(
        &self,
        kind: EntityKind,
        height: u64,
        filter: &EntityFilter,
    ) -> Result<Vec<StoredEntity>, IndexStoreError> {
        const CHUNK: usize = 1_024;
        let mut found: Vec<StoredEntity> = Vec::new();
        loop {
            let range = IdRange { min_id: found.last().map(|last| last.id + 1), ..IdRange::default() };
            let chunk = self.list_page(kind, height, filter, range, CHUNK).await?;
            let is_last = chunk.len() < CHUNK;
            found.extend(chunk);
            if is_last {
                return Ok(found);
            }
        }
    }

    /// Returns the entities that time alone changes in `(after, until]`.
    pub async fn list_due(&self, after: i128, until: i128) -> Result<Vec<DueEntity>, IndexStoreError> {
        let rows = sqlx::query("SELECT DISTINCT kind, id FROM schedule WHERE due > $1 AND due <= $2 ORDER BY kind, id")
            .bind(time_to_column(after))
            .bind(time_to_column(until))
            .fetch_all(&mut *self.connection_for(ReadScope::Schedule).await?)
            .await?;
        let mut found = Vec::new();
        for row in &rows {
            let (name, id): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
            let kind = EntityKind::parse(&name);
            let kind = kind.ok_or_else(|| IndexStoreError::CorruptRow(format!("schedule of {name:?}")))?;
            found.push(DueEntity { kind, id: from_column(id) });
        }
        Ok(found)
    }

    /// Returns the next instant after `after` at which time alone changes an entity.
    pub async fn next_due_after(&self, after: i128) -> Result<Option<i128>, IndexStoreError> {
        let row = sqlx::query("SELECT MIN(due) FROM schedule WHERE due > $1")
            .bind(time_to_column(after))
            .fetch_one(&mut *self.connection_for(ReadScope::Schedule).await?)
            .await?;
        Ok(row.try_get::<Option<i64>, _>(0)?.map(i128::from))
    }

    /// Returns the first height after `height` with any activity.
    pub async fn next_change_after(&self, height: u64) -> Result<Option<u64>, IndexStoreError> {
        let row = sqlx::query("SELECT MIN(height) FROM activity WHERE height > $1")
            .bind(to_column(height))
            .fetch_one(&mut *self.connection().await?)
            .await?;
        Ok(row.try_get::<Option<i64>, _>(0)?.map(from_column))
    }
}
