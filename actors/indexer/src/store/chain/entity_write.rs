//! The write of entities: their versions, and the values by which they are found.

use std::collections::{BTreeMap, HashMap, HashSet};

use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::{
    entity::{EntityChange, NEWEST_VERSION},
    entity_kind::EntityKind,
};
use crate::store::{
    columns::{from_column, index_key, to_column},
    error::IndexStoreError,
    row_insert::RowInsert,
};

const DELETE_VERSION: &str = "DELETE FROM entity WHERE kind = $1 AND id = $2 AND from_height = $3";
const CLOSE_VERSION: &str = "UPDATE entity SET until_height = $3 WHERE kind = $1 AND id = $2 AND until_height IS NULL \
    AND from_height = (SELECT MAX(from_height) FROM entity WHERE kind = $1 AND id = $2)";

/// The versions of entities that a transaction writes, those of several heights together.
pub(in crate::store) struct EntityRows {
    /// Whether the database may have versions of the height that is written: a first state is written in several transactions.
    is_start: bool,
    waiting: BTreeMap<(EntityKind, u64), WaitingVersions>,
    lookups: RowInsert<4>,
    /// The lookup rows of this transaction so far: most changes of an entity repeat them.
    known_lookups: HashSet<(EntityKind, u64, &'static str, String)>,
    /// Height of the last change, and the entities that it has changed so far.
    height: u64,
    changed: HashSet<(EntityKind, u64)>,
    ids: AssignedIds,
}

/// The versions of one entity that are not in the database yet.
struct WaitingVersions {
    /// Height at which the version in the database ends.
    stored_until: u64,
    /// Whether a version in the database may begin at that height: these versions replace it.
    may_replace_stored: bool,
    versions: Vec<Version>,
}

struct Version {
    from: u64,
    until: Option<u64>,
    corporation: Option<i64>,
    parent: Option<i64>,
    name: Option<String>,
    did: Option<String>,
    body: String,
}

impl EntityRows {
    pub fn new(is_start: bool) -> Self {
        let lookups = RowInsert::with_ending(
            "entity_lookup (kind, attribute, value, id)",
            "ON CONFLICT (kind, attribute, value, id) DO NOTHING",
        );
        Self {
            is_start,
            waiting: BTreeMap::new(),
            lookups,
            known_lookups: HashSet::new(),
            height: 0,
            changed: HashSet::new(),
            ids: AssignedIds::default(),
        }
    }

    /// Whether versions of an entity wait.
    pub fn has_entity(&self, kind: EntityKind, id: u64) -> bool {
        self.waiting.contains_key(&(kind, id))
    }

    /// Whether versions of any entity of a kind wait.
    pub fn has_kind(&self, kind: EntityKind) -> bool {
        self.waiting.range((kind, 0)..=(kind, u64::MAX)).next().is_some()
    }

    /// Takes in a change of a height, which is not below that of the last change: the previous version ends at this height, and a second
    /// change of the height replaces the first.
    pub async fn write(
        &mut self,
        connection: &mut AnyConnection,
        height: u64,
        change: &EntityChange,
    ) -> Result<(), IndexStoreError> {
        if self.height != height {
            self.height = height;
            self.changed.clear();
        }
        let kind = change.kind;
        let id = match change.id.or_else(|| self.ids.find(change)) {
            Some(id) => id,
            None => {
                // The search in the database needs the changes before.
                self.flush(connection).await?;
                match self.ids.find_or_assign(connection, change).await? {
                    Some(id) => id,
                    None => return Ok(()),
                }
            }
        };
        let may_replace_stored = !self.changed.insert((kind, id)) || self.is_start;
        let waiting = self.waiting.entry((kind, id));
        let waiting =
            waiting.or_insert(WaitingVersions { stored_until: height, may_replace_stored, versions: Vec::new() });
        match waiting.versions.last_mut() {
            Some(last) if last.from == height => drop(waiting.versions.pop()),
            Some(last) => last.until = last.until.or(Some(height)),
            None => {}
        }
        let Some(body) = change.stored_body(id) else {
            // One that came and went within a block has no id any more.
            self.ids.forget(change);
            return Ok(());
        };
        let [corporation, parent] = [change.corporation_id, change.parent_id].map(|id| id.map(to_column));
        let [name, did] =
            [&change.name, &change.did].map(|text| text.as_deref().map(|text| index_key(text).into_owned()));
        let values = [
            ("all", Some(String::new())),
            ("corporation", corporation.map(|id| id.to_string())),
            ("parent", parent.map(|id| id.to_string())),
            ("name", name.clone()),
            ("did", did.clone()),
        ];
        let body = body.to_string();
        waiting.versions.push(Version { from: height, until: None, corporation, parent, name, did, body });
        for (attribute, value) in values {
            let Some(value) = value else { continue };
            if self.known_lookups.insert((kind, id, attribute, value.clone())) {
                self.lookups.push([kind.as_str().into(), attribute.into(), value.into(), to_column(id).into()]);
            }
        }
        Ok(())
    }

    /// Gives all versions to the database, and the values by which the entities are found at any height.
    pub async fn flush(&mut self, connection: &mut AnyConnection) -> Result<(), IndexStoreError> {
        let mut rows =
            RowInsert::new("entity (kind, id, from_height, until_height, corporation_id, parent_id, name, did, body)");
        for ((kind, id), waiting) in std::mem::take(&mut self.waiting) {
            let (kind, id) = (kind.as_str(), to_column(id));
            let statements: &[&'static str] =
                if waiting.may_replace_stored { &[DELETE_VERSION, CLOSE_VERSION] } else { &[CLOSE_VERSION] };
            for statement in statements {
                let query = sqlx::query(*statement).bind(kind).bind(id).bind(to_column(waiting.stored_until));
                query.execute(&mut *connection).await?;
            }
            for version in waiting.versions {
                rows.push([
                    kind.into(),
                    id.into(),
                    to_column(version.from).into(),
                    version.until.map(to_column).into(),
                    version.corporation.into(),
                    version.parent.into(),
                    version.name.into(),
                    version.did.into(),
                    version.body.into(),
                ]);
            }
        }
        rows.execute(connection).await?;
        self.lookups.execute(connection).await
    }
}

/// The ids of entities that their names identify, as far as a transaction has found or assigned them.
#[derive(Default)]
struct AssignedIds {
    known: HashMap<(EntityKind, u64, u64, Option<String>), u64>,
    /// The next free id of each kind that got one.
    next: HashMap<EntityKind, u64>,
}

impl AssignedIds {
    fn key(change: &EntityChange) -> (EntityKind, u64, u64, Option<String>) {
        let (corporation, parent) = (change.corporation_id.unwrap_or(0), change.parent_id.unwrap_or(0));
        (change.kind, corporation, parent, change.name.as_deref().map(|name| index_key(name).into_owned()))
    }

    fn find(&self, change: &EntityChange) -> Option<u64> {
        self.known.get(&Self::key(change)).copied()
    }

    fn forget(&mut self, change: &EntityChange) {
        self.known.remove(&Self::key(change));
    }

    /// Returns the id that the entity has in the database, or the next free one of its kind; `None` for the removal of an entity that
    /// the database does not have.
    async fn find_or_assign(
        &mut self,
        connection: &mut AnyConnection,
        change: &EntityChange,
    ) -> Result<Option<u64>, IndexStoreError> {
        let key = Self::key(change);
        let statement = format!(
            "SELECT e.id FROM entity_lookup k CROSS JOIN entity e WHERE k.kind = $1 AND k.attribute = 'name' AND k.value = $2 \
             AND e.kind = k.kind AND e.id = k.id AND e.from_height = ({NEWEST_VERSION}) \
             AND COALESCE(e.corporation_id, 0) = $3 AND COALESCE(e.parent_id, 0) = $4 LIMIT 1"
        );
        let stored = sqlx::query(AssertSqlSafe(statement))
            .bind(key.0.as_str())
            .bind(key.3.clone())
            .bind(to_column(key.1))
            .bind(to_column(key.2))
            .fetch_optional(&mut *connection)
            .await?;
        let id = match stored {
            Some(row) => from_column(row.try_get(0)?),
            None if change.body.is_none() => return Ok(None),
            None => {
                let next = match self.next.get(&change.kind) {
                    Some(next) => *next,
                    None => next_entity_id(connection, change.kind).await?,
                };
                self.next.insert(change.kind, next + 1);
                next
            }
        };
        self.known.insert(key, id);
        Ok(Some(id))
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
