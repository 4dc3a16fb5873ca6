//! Measures of each scope by height, and the buckets of the statistics.

use std::collections::{HashMap, HashSet};

use sqlx::{AnyConnection, Row};
use time::{OffsetDateTime, Time};

use crate::{
    derive::stats::{StatsDeltas, StatsMeasures, StatsScope},
    store::{
        columns::{from_column, next_id, time_to_column, to_column},
        error::IndexStoreError,
        index_store::IndexStore,
        row_insert::RowInsert,
    },
};

/// Length of a bucket, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Granularity {
    Hour,
    Day,
    Month,
}

impl Granularity {
    /// All lengths, the longest first.
    pub const ALL: [Self; 3] = [Self::Month, Self::Day, Self::Hour];

    /// Returns the name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hour => "HOUR",
            Self::Day => "DAY",
            Self::Month => "MONTH",
        }
    }

    /// Returns the granularity with a name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|granularity| granularity.as_str() == text)
    }

    /// Returns the start of the bucket that contains an instant.
    pub fn bucket_start(self, nanos: i128) -> i128 {
        let at = OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let hour = at.replace_time(Time::from_hms(at.hour(), 0, 0).unwrap_or(Time::MIDNIGHT));
        let opens = match self {
            Self::Hour => hour,
            Self::Day => at.replace_time(Time::MIDNIGHT),
            Self::Month => at.replace_day(1).unwrap_or(at).replace_time(Time::MIDNIGHT),
        };
        opens.unix_timestamp_nanos()
    }

    /// Returns the exclusive end of the bucket that starts at an instant.
    pub fn bucket_end(self, opens: i128) -> i128 {
        let long_enough = match self {
            Self::Hour => 3_600,
            Self::Day => 86_400,
            Self::Month => 31 * 86_400,
        };
        self.bucket_start(opens + long_enough * 1_000_000_000)
    }
}

/// A bucket of the statistics with at least one change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatsBucket {
    pub id: u64,
    pub granularity: Granularity,
    /// Nanoseconds since the epoch.
    pub start: i128,
    pub scope: StatsScope,
}

/// The measures and buckets that a transaction writes.
pub(in crate::store) struct MeasureRows {
    measures: RowInsert<5>,
    buckets: RowInsert<6>,
    /// The newest measures of the scopes that this transaction has read or written.
    newest: HashMap<StatsScope, StatsMeasures>,
    known_buckets: HashSet<(StatsScope, Granularity, i128)>,
    next_bucket: Option<u64>,
}

impl MeasureRows {
    pub fn new() -> Self {
        Self {
            // The pages of a first state are of one height.
            measures: RowInsert::with_ending(
                "measure (scope, scope_id, height, time, body)",
                "ON CONFLICT (scope, scope_id, height) DO UPDATE SET body = excluded.body",
            ),
            buckets: RowInsert::new("bucket (id, granularity, opens, scope, scope_id, from_height)"),
            newest: HashMap::new(),
            known_buckets: HashSet::new(),
            next_bucket: None,
        }
    }

    /// Takes in the changes of a block.
    pub async fn write(
        &mut self,
        connection: &mut AnyConnection,
        (height, time): (u64, i128),
        deltas: &StatsDeltas,
    ) -> Result<(), IndexStoreError> {
        for (scope, change) in deltas.changes() {
            let before = match self.newest.remove(&scope) {
                Some(known) => known,
                None => read_measures(&mut *connection, scope, height).await?,
            };
            let (kind, id) = scope.key();
            let after = before.plus(change);
            self.measures.push([
                kind.into(),
                to_column(id).into(),
                to_column(height).into(),
                time_to_column(time).into(),
                after.to_text().into(),
            ]);
            self.newest.insert(scope, after);
            if !matches!(scope, StatsScope::Corporation(_)) {
                self.write_buckets(connection, (height, time), scope).await?;
            }
        }
        Ok(())
    }

    /// Takes in the buckets that a change of a scope opens.
    async fn write_buckets(
        &mut self,
        connection: &mut AnyConnection,
        (height, time): (u64, i128),
        scope: StatsScope,
    ) -> Result<(), IndexStoreError> {
        let all = Granularity::ALL.map(|granularity| (scope, granularity, granularity.bucket_start(time)));
        if all.iter().all(|bucket| self.known_buckets.contains(bucket)) {
            return Ok(());
        }
        self.known_buckets
            .extend(stored_buckets(connection, scope, all.map(|(_, length, start)| (length, start))).await?);
        let (kind, id) = scope.key();
        for bucket @ (_, granularity, opens) in all {
            if !self.known_buckets.insert(bucket) {
                continue;
            }
            let number = match self.next_bucket {
                Some(next) => next,
                None => next_id(connection, "SELECT COALESCE(MAX(id), 0) FROM bucket").await?,
            };
            self.next_bucket = Some(number + 1);
            let [number, height, id] = [number, height, id].map(|number| to_column(number).into());
            let opens = time_to_column(opens).into();
            self.buckets.push([number, granularity.as_str().into(), opens, kind.into(), id, height]);
        }
        Ok(())
    }

    /// Gives all rows to the database.
    pub async fn flush(&mut self, connection: &mut AnyConnection) -> Result<(), IndexStoreError> {
        self.measures.execute(connection).await?;
        self.buckets.execute(connection).await
    }
}

/// Returns those of the buckets that the database has.
async fn stored_buckets(
    connection: &mut AnyConnection,
    scope: StatsScope,
    buckets: [(Granularity, i128); 3],
) -> Result<Vec<(StatsScope, Granularity, i128)>, IndexStoreError> {
    let (kind, id) = scope.key();
    let mut query = sqlx::query(
        "SELECT granularity FROM bucket WHERE scope = $1 AND scope_id = $2 AND ((granularity = $3 AND opens = $4) \
         OR (granularity = $5 AND opens = $6) OR (granularity = $7 AND opens = $8))",
    )
    .bind(kind)
    .bind(to_column(id));
    for (granularity, opens) in buckets {
        query = query.bind(granularity.as_str()).bind(time_to_column(opens));
    }
    let mut stored = Vec::new();
    for row in query.fetch_all(connection).await? {
        let name: String = row.try_get(0)?;
        let found = buckets.iter().find(|(granularity, _)| granularity.as_str() == name);
        stored.extend(found.map(|(granularity, opens)| (scope, *granularity, *opens)));
    }
    Ok(stored)
}

fn parse_measures(text: &str) -> Result<StatsMeasures, IndexStoreError> {
    StatsMeasures::from_text(text).ok_or_else(|| IndexStoreError::CorruptRow(format!("measures {text:?}")))
}

async fn read_measures(
    connection: &mut AnyConnection,
    scope: StatsScope,
    height: u64,
) -> Result<StatsMeasures, IndexStoreError> {
    let (kind, id) = scope.key();
    let row = sqlx::query(
        "SELECT body FROM measure WHERE scope = $1 AND scope_id = $2 AND height <= $3 ORDER BY height DESC LIMIT 1",
    )
    .bind(kind)
    .bind(to_column(id))
    .bind(to_column(height))
    .fetch_optional(connection)
    .await?;
    row.map_or_else(|| Ok(StatsMeasures::default()), |row| parse_measures(&row.try_get::<String, _>(0)?))
}

fn parse_bucket(row: &sqlx::any::AnyRow) -> Result<StatsBucket, IndexStoreError> {
    let (id, name, opens): (i64, String, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    let (kind, scope_id): (i64, i64) = (row.try_get(3)?, row.try_get(4)?);
    let corrupt = || IndexStoreError::CorruptRow(format!("bucket {id}"));
    Ok(StatsBucket {
        id: from_column(id),
        granularity: Granularity::parse(&name).ok_or_else(corrupt)?,
        start: opens.into(),
        scope: StatsScope::from_key(from_column(kind), from_column(scope_id)).ok_or_else(corrupt)?,
    })
}

const SELECT_BUCKET: &str = "SELECT id, granularity, opens, scope, scope_id FROM bucket";

impl IndexStore {
    /// Returns the measures of a scope at a height; all are 0 before the first change.
    pub async fn measures(&self, scope: StatsScope, height: u64) -> Result<StatsMeasures, IndexStoreError> {
        let mut connection = self.connection().await?;
        read_measures(&mut connection, scope, height).await
    }

    /// Returns the measures at a height of several scopes of one kind, by id.
    pub async fn measures_of(
        &self,
        scope: fn(u64) -> StatsScope,
        ids: &[u64],
        height: u64,
    ) -> Result<HashMap<u64, StatsMeasures>, IndexStoreError> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let list: Vec<String> = ids.iter().map(|id| format!("({})", to_column(*id))).collect();
        let statement = format!(
            "WITH wanted (id) AS (VALUES {}) SELECT m.scope_id, m.body FROM wanted CROSS JOIN measure m WHERE m.scope = $1 \
             AND m.scope_id = wanted.id AND m.height = (SELECT MAX(n.height) FROM measure n WHERE n.scope = $1 \
             AND n.scope_id = wanted.id AND n.height <= $2)",
            list.join(", ")
        );
        let query = sqlx::query(sqlx::AssertSqlSafe(statement)).bind(scope(0).key().0).bind(to_column(height));
        let rows = query.fetch_all(&mut *self.connection().await?).await?;
        rows.iter()
            .map(|row| Ok((from_column(row.try_get(0)?), parse_measures(&row.try_get::<String, _>(1)?)?)))
            .collect()
    }

    /// Returns the measures of a scope just before an instant, as known at a height.
    pub async fn measures_before(
        &self,
        scope: StatsScope,
        instant: i128,
        height: u64,
    ) -> Result<StatsMeasures, IndexStoreError> {
        // Times of blocks grow with their heights.
        match self.block_before(instant, height).await? {
            Some(block) => self.measures(scope, block.height).await,
            None => Ok(StatsMeasures::default()),
        }
    }

    /// Returns the bucket with an id.
    pub async fn bucket(&self, id: u64, height: u64) -> Result<Option<StatsBucket>, IndexStoreError> {
        let statement = format!("{SELECT_BUCKET} WHERE id = $1 AND from_height <= $2");
        let query = sqlx::query(sqlx::AssertSqlSafe(statement)).bind(to_column(id)).bind(to_column(height));
        query.fetch_optional(&mut *self.connection().await?).await?.map(|row| parse_bucket(&row)).transpose()
    }

    /// Returns the buckets of a scope that start in `[from, until)`, in order.
    pub async fn buckets(
        &self,
        scope: StatsScope,
        granularity: Granularity,
        (from, until): (i128, i128),
        height: u64,
    ) -> Result<Vec<StatsBucket>, IndexStoreError> {
        let (kind, id) = scope.key();
        let statement = format!(
            "{SELECT_BUCKET} WHERE scope = $1 AND scope_id = $2 AND granularity = $3 AND opens >= $4 AND opens < $5 \
             AND from_height <= $6 ORDER BY opens"
        );
        let query = sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(kind)
            .bind(to_column(id))
            .bind(granularity.as_str())
            .bind(time_to_column(from))
            .bind(time_to_column(until))
            .bind(to_column(height));
        query.fetch_all(&mut *self.connection().await?).await?.iter().map(parse_bucket).collect()
    }
}

#[cfg(test)]
mod tests {
    use svc_wire::timestamp;

    use super::*;

    fn nanos(text: &str) -> i128 {
        timestamp::unix_nanos(&timestamp::parse_rfc3339(text).expect("an instant"))
    }

    #[test]
    fn buckets_open_and_close_in_utc() {
        let at = nanos("2024-02-29T23:59:59.5Z");
        for (granularity, opens, closes) in [
            (Granularity::Hour, "2024-02-29T23:00:00Z", "2024-03-01T00:00:00Z"),
            (Granularity::Day, "2024-02-29T00:00:00Z", "2024-03-01T00:00:00Z"),
            (Granularity::Month, "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"),
        ] {
            assert_eq!(granularity.bucket_start(at), nanos(opens));
            assert_eq!(granularity.bucket_end(nanos(opens)), nanos(closes));
        }
        assert_eq!(Granularity::Month.bucket_end(nanos("2025-12-01T00:00:00Z")), nanos("2026-01-01T00:00:00Z"));
    }
}
