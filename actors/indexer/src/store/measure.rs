//! Figures of scopes after each height, and the buckets of the statistics.

use std::collections::HashMap;

use sqlx::{AnyConnection, Row};
use time::{OffsetDateTime, Time};

use super::{Store, StoreError, column_time, next_id, signed, unsigned};
use crate::derive::measures::{Deltas, Measures, Scope};

/// Length of a bucket, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Granularity {
    Hour,
    Day,
    Month,
}

impl Granularity {
    /// All, the longest first.
    pub const ALL: [Self; 3] = [Self::Month, Self::Day, Self::Hour];

    /// Name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hour => "HOUR",
            Self::Day => "DAY",
            Self::Month => "MONTH",
        }
    }

    /// From its name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|granularity| granularity.as_str() == text)
    }

    /// Start of the bucket that holds an instant.
    pub fn opens(self, nanos: i128) -> i128 {
        let at = OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let hour = at.replace_time(Time::from_hms(at.hour(), 0, 0).unwrap_or(Time::MIDNIGHT));
        let opens = match self {
            Self::Hour => hour,
            Self::Day => at.replace_time(Time::MIDNIGHT),
            Self::Month => at.replace_day(1).unwrap_or(at).replace_time(Time::MIDNIGHT),
        };
        opens.unix_timestamp_nanos()
    }

    /// End of the bucket that opens at an instant, exclusively.
    pub fn closes(self, opens: i128) -> i128 {
        let long_enough = match self {
            Self::Hour => 3_600,
            Self::Day => 86_400,
            Self::Month => 31 * 86_400,
        };
        self.opens(opens + long_enough * 1_000_000_000)
    }
}

/// A bucket of the statistics in which something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    pub id: u64,
    pub granularity: Granularity,
    /// Nanoseconds since the epoch.
    pub opens: i128,
    pub scope: Scope,
}

pub(super) async fn write(
    connection: &mut AnyConnection,
    height: u64,
    time: i128,
    deltas: &Deltas,
) -> Result<(), StoreError> {
    for (scope, change) in deltas.changes() {
        let (kind, id) = scope.key();
        let before = newest(&mut *connection, scope, height).await?;
        sqlx::query("INSERT INTO measure (scope, scope_id, height, time, body) VALUES ($1, $2, $3, $4, $5)")
            .bind(kind)
            .bind(signed(id))
            .bind(signed(height))
            .bind(column_time(time))
            .bind(before.plus(change).to_text())
            .execute(&mut *connection)
            .await?;
        if let Scope::Corporation(_) = scope {
            continue;
        }
        for granularity in Granularity::ALL {
            let next = next_id(connection, "SELECT COALESCE(MAX(id), 0) FROM bucket").await?;
            sqlx::query(
                "INSERT INTO bucket (id, granularity, opens, scope, scope_id, from_height) VALUES ($1, $2, $3, $4, $5, $6) \
                 ON CONFLICT (scope, scope_id, granularity, opens) DO NOTHING",
            )
            .bind(signed(next))
            .bind(granularity.as_str())
            .bind(column_time(granularity.opens(time)))
            .bind(kind)
            .bind(signed(id))
            .bind(signed(height))
            .execute(&mut *connection)
            .await?;
        }
    }
    Ok(())
}

fn parse(text: &str) -> Result<Measures, StoreError> {
    Measures::from_text(text).ok_or_else(|| StoreError::Corrupt(format!("figures {text:?}")))
}

async fn newest(connection: &mut AnyConnection, scope: Scope, height: u64) -> Result<Measures, StoreError> {
    let (kind, id) = scope.key();
    let row = sqlx::query(
        "SELECT body FROM measure WHERE scope = $1 AND scope_id = $2 AND height <= $3 ORDER BY height DESC LIMIT 1",
    )
    .bind(kind)
    .bind(signed(id))
    .bind(signed(height))
    .fetch_optional(connection)
    .await?;
    row.map_or_else(|| Ok(Measures::default()), |row| parse(&row.try_get::<String, _>(0)?))
}

fn parse_bucket(row: &sqlx::any::AnyRow) -> Result<Bucket, StoreError> {
    let (id, name, opens): (i64, String, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    let (kind, scope_id): (i64, i64) = (row.try_get(3)?, row.try_get(4)?);
    let corrupt = || StoreError::Corrupt(format!("bucket {id}"));
    Ok(Bucket {
        id: unsigned(id),
        granularity: Granularity::parse(&name).ok_or_else(corrupt)?,
        opens: opens.into(),
        scope: Scope::from_key(unsigned(kind), unsigned(scope_id)).ok_or_else(corrupt)?,
    })
}

const BUCKET: &str = "SELECT id, granularity, opens, scope, scope_id FROM bucket";

impl Store {
    /// Figures of a scope at a height; all 0 when nothing was ever counted.
    pub async fn measures(&self, scope: Scope, height: u64) -> Result<Measures, StoreError> {
        let mut connection = self.pool.acquire().await?;
        newest(&mut connection, scope, height).await
    }

    /// Figures at a height of scopes of one kind.
    pub async fn measures_of(
        &self,
        scope: fn(u64) -> Scope,
        ids: &[u64],
        height: u64,
    ) -> Result<HashMap<u64, Measures>, StoreError> {
        let list: Vec<String> = ids.iter().map(|id| signed(*id).to_string()).collect();
        let statement = format!(
            "SELECT m.scope_id, m.body FROM measure m JOIN (SELECT scope_id, MAX(height) AS height FROM measure \
             WHERE scope = $1 AND scope_id IN ({}) AND height <= $2 GROUP BY scope_id) newest \
             ON m.scope = $1 AND m.scope_id = newest.scope_id AND m.height = newest.height",
            list.join(", ")
        );
        let query = sqlx::query(sqlx::AssertSqlSafe(statement)).bind(scope(0).key().0).bind(signed(height));
        let rows = query.fetch_all(&self.pool).await?;
        rows.iter().map(|row| Ok((unsigned(row.try_get(0)?), parse(&row.try_get::<String, _>(1)?)?))).collect()
    }

    /// Figures of a scope just before an instant, as known at a height.
    pub async fn measures_before(&self, scope: Scope, instant: i128, height: u64) -> Result<Measures, StoreError> {
        let (kind, id) = scope.key();
        let row = sqlx::query(
            "SELECT body FROM measure WHERE scope = $1 AND scope_id = $2 AND time < $3 AND height <= $4 \
             ORDER BY height DESC LIMIT 1",
        )
        .bind(kind)
        .bind(signed(id))
        .bind(column_time(instant))
        .bind(signed(height))
        .fetch_optional(&self.pool)
        .await?;
        row.map_or_else(|| Ok(Measures::default()), |row| parse(&row.try_get::<String, _>(0)?))
    }

    /// A bucket by its id.
    pub async fn bucket(&self, id: u64, height: u64) -> Result<Option<Bucket>, StoreError> {
        let statement = format!("{BUCKET} WHERE id = $1 AND from_height <= $2");
        let query = sqlx::query(sqlx::AssertSqlSafe(statement)).bind(signed(id)).bind(signed(height));
        query.fetch_optional(&self.pool).await?.map(|row| parse_bucket(&row)).transpose()
    }

    /// Buckets of a scope that open in `[from, until)`, in order.
    pub async fn buckets(
        &self,
        scope: Scope,
        granularity: Granularity,
        (from, until): (i128, i128),
        height: u64,
    ) -> Result<Vec<Bucket>, StoreError> {
        let (kind, id) = scope.key();
        let statement = format!(
            "{BUCKET} WHERE scope = $1 AND scope_id = $2 AND granularity = $3 AND opens >= $4 AND opens < $5 \
             AND from_height <= $6 ORDER BY opens"
        );
        let query = sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(kind)
            .bind(signed(id))
            .bind(granularity.as_str())
            .bind(column_time(from))
            .bind(column_time(until))
            .bind(signed(height));
        query.fetch_all(&self.pool).await?.iter().map(parse_bucket).collect()
    }
}

#[cfg(test)]
mod tests {
    use svc_wire::instant;

    use super::*;

    fn nanos(text: &str) -> i128 {
        instant::nanos(&instant::parse_rfc3339(text).expect("an instant"))
    }

    #[test]
    fn buckets_open_and_close_in_utc() {
        let at = nanos("2024-02-29T23:59:59.5Z");
        for (granularity, opens, closes) in [
            (Granularity::Hour, "2024-02-29T23:00:00Z", "2024-03-01T00:00:00Z"),
            (Granularity::Day, "2024-02-29T00:00:00Z", "2024-03-01T00:00:00Z"),
            (Granularity::Month, "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"),
        ] {
            assert_eq!(granularity.opens(at), nanos(opens));
            assert_eq!(granularity.closes(nanos(opens)), nanos(closes));
        }
        assert_eq!(Granularity::Month.closes(nanos("2025-12-01T00:00:00Z")), nanos("2026-01-01T00:00:00Z"));
    }
}
