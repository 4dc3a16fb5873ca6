//! Versions of entities: each holds from a height until, exclusively, another.

use serde_json::Value;
use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::{Store, StoreError, signed, unsigned};

/// What an entity is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Corporation,
    Ecosystem,
    OperatorAuthorization,
    VsOperatorAuthorization,
    FeeGrant,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Corporation => "corporation",
            Self::Ecosystem => "ecosystem",
            Self::OperatorAuthorization => "operator_authorization",
            Self::VsOperatorAuthorization => "vs_operator_authorization",
            Self::FeeGrant => "fee_grant",
        }
    }
}

/// What a block does to one entity.
#[derive(Debug, Clone)]
pub struct Change {
    pub kind: Kind,
    /// The ledger's id; `None` for fee grants, which are known by corporation and account and get an id of the store's.
    pub id: Option<u64>,
    pub corporation_id: Option<u64>,
    /// Policy address, operator or grantee.
    pub account: Option<String>,
    /// New state; `None` when the entity is gone.
    pub body: Option<Value>,
}

/// A version as read.
#[derive(Debug, Clone)]
pub struct Stored {
    pub id: u64,
    pub body: Value,
}

/// Which ids a list covers, in which order.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    /// Inclusive.
    pub min_id: Option<u64>,
    /// Exclusive.
    pub max_id: Option<u64>,
    pub is_descending: bool,
}

pub(super) async fn write(connection: &mut AnyConnection, height: u64, change: &Change) -> Result<(), StoreError> {
    let id = match change.id {
        Some(id) => id,
        None => key_of(connection, change).await?,
    };
    let kind = change.kind.as_str();
    // A second change in the same block replaces the first; otherwise the version before ends here.
    sqlx::query("DELETE FROM entity WHERE kind = $1 AND id = $2 AND from_height = $3")
        .bind(kind)
        .bind(signed(id))
        .bind(signed(height))
        .execute(&mut *connection)
        .await?;
    sqlx::query("UPDATE entity SET until_height = $3 WHERE kind = $1 AND id = $2 AND until_height IS NULL")
        .bind(kind)
        .bind(signed(id))
        .bind(signed(height))
        .execute(&mut *connection)
        .await?;
    let Some(body) = &change.body else { return Ok(()) };
    let mut body = body.clone();
    body["id"] = id.into();
    sqlx::query(
        "INSERT INTO entity (kind, id, from_height, until_height, corporation_id, account, body) \
         VALUES ($1, $2, $3, NULL, $4, $5, $6)",
    )
    .bind(kind)
    .bind(signed(id))
    .bind(signed(height))
    .bind(change.corporation_id.map(signed))
    .bind(change.account.clone())
    .bind(body.to_string())
    .execute(connection)
    .await?;
    Ok(())
}

async fn key_of(connection: &mut AnyConnection, change: &Change) -> Result<u64, StoreError> {
    let known = sqlx::query("SELECT id FROM entity WHERE kind = $1 AND corporation_id = $2 AND account = $3 LIMIT 1")
        .bind(change.kind.as_str())
        .bind(change.corporation_id.map(signed))
        .bind(change.account.clone())
        .fetch_optional(&mut *connection)
        .await?;
    if let Some(row) = known {
        return Ok(unsigned(row.try_get(0)?));
    }
    let row = sqlx::query("SELECT COALESCE(MAX(id), 0) FROM entity WHERE kind = $1")
        .bind(change.kind.as_str())
        .fetch_one(connection)
        .await?;
    let highest: i64 = row.try_get(0)?;
    Ok(unsigned(highest) + 1)
}

fn parse(row: &sqlx::any::AnyRow) -> Result<Stored, StoreError> {
    let (id, text): (i64, String) = (row.try_get(0)?, row.try_get(1)?);
    let body = serde_json::from_str(&text).map_err(|error| StoreError::Corrupt(error.to_string()))?;
    Ok(Stored { id: unsigned(id), body })
}

impl Store {
    /// The version of an entity that holds at `height`.
    pub async fn entity(&self, kind: Kind, id: u64, height: u64) -> Result<Option<Value>, StoreError> {
        let row = sqlx::query(
            "SELECT id, body FROM entity WHERE kind = $1 AND id = $2 AND from_height <= $3 \
             AND (until_height IS NULL OR until_height > $3)",
        )
        .bind(kind.as_str())
        .bind(signed(id))
        .bind(signed(height))
        .fetch_optional(&self.pool)
        .await?;
        row.map(|row| parse(&row).map(|stored| stored.body)).transpose()
    }

    /// The newest entity of `kind` with this account, and of this corporation if one is given.
    pub async fn entity_by_account(
        &self,
        kind: Kind,
        account: &str,
        corporation_id: Option<u64>,
    ) -> Result<Option<Stored>, StoreError> {
        let row = sqlx::query(
            "SELECT id, body FROM entity WHERE kind = $1 AND account = $2 AND until_height IS NULL \
             AND ($3 = 0 OR corporation_id = $3) LIMIT 1",
        )
        .bind(kind.as_str())
        .bind(account)
        .bind(signed(corporation_id.unwrap_or(0)))
        .fetch_optional(&self.pool)
        .await?;
        row.map(|row| parse(&row)).transpose()
    }

    /// Up to `limit` entities that hold at `height` and pass `is_wanted`, in id order.
    pub async fn entities(
        &self,
        kind: Kind,
        height: u64,
        range: Range,
        limit: usize,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> Result<Vec<Value>, StoreError> {
        const CHUNK: usize = 512;
        let order = if range.is_descending { "DESC" } else { "ASC" };
        let statement = format!(
            "SELECT id, body FROM entity WHERE kind = $1 AND from_height <= $2 \
             AND (until_height IS NULL OR until_height > $2) AND id >= $3 AND id < $4 ORDER BY id {order} LIMIT {CHUNK}"
        );
        let (mut low, mut high) = (signed(range.min_id.unwrap_or(0)), signed(range.max_id.unwrap_or(u64::MAX)));
        let mut found = Vec::new();
        loop {
            let rows = sqlx::query(AssertSqlSafe(statement.clone()))
                .bind(kind.as_str())
                .bind(signed(height))
                .bind(low)
                .bind(high)
                .fetch_all(&self.pool)
                .await?;
            for row in &rows {
                let stored = parse(row)?;
                if is_wanted(&stored.body) {
                    found.push(stored.body);
                }
                if range.is_descending {
                    high = signed(stored.id)
                } else {
                    low = signed(stored.id) + 1
                }
                if found.len() == limit {
                    return Ok(found);
                }
            }
            if rows.len() < CHUNK {
                return Ok(found);
            }
        }
    }
}
