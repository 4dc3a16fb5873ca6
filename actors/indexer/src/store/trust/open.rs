//! Evaluations that wait for a web server.

use std::collections::BTreeMap;

use serde_json::Value;
use sqlx::{AnyConnection, Row, any::AnyRow};

use crate::store::{columns::index_key, error::IndexStoreError, index_store::IndexStore};

/// An open evaluation as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenRow {
    pub did: String,
    /// First failure, milliseconds since the epoch.
    pub since: i64,
    pub body: Value,
}

/// The open evaluations together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenSummary {
    pub count: u64,
    /// First failure of the oldest one, milliseconds since the epoch.
    pub oldest: Option<i64>,
}

fn parse_row(row: &AnyRow) -> Result<OpenRow, IndexStoreError> {
    let text: String = row.try_get(2)?;
    let body = serde_json::from_str(&text).map_err(|error| IndexStoreError::CorruptRow(error.to_string()))?;
    Ok(OpenRow { did: row.try_get(0)?, since: row.try_get(1)?, body })
}

impl IndexStore {
    /// Returns all open evaluations.
    pub async fn list_open_evaluations(&self) -> Result<Vec<OpenRow>, IndexStoreError> {
        let query = sqlx::query("SELECT did, since, body FROM trust_open ORDER BY did_key");
        query.fetch_all(&mut *self.connection().await?).await?.iter().map(parse_row).collect()
    }

    /// Returns the open evaluation of a DID.
    pub async fn find_open_evaluation(&self, did: &str) -> Result<Option<OpenRow>, IndexStoreError> {
        let query = sqlx::query("SELECT did, since, body FROM trust_open WHERE did_key = $1");
        let row = query.bind(index_key(did).into_owned()).fetch_optional(&mut *self.connection().await?).await?;
        row.as_ref().map(parse_row).transpose()
    }

    /// Returns the number of open evaluations, and the oldest.
    pub async fn open_summary(&self) -> Result<OpenSummary, IndexStoreError> {
        let query = sqlx::query("SELECT COUNT(*), MIN(since) FROM trust_open");
        let row = query.fetch_one(&mut *self.connection().await?).await?;
        Ok(OpenSummary { count: row.try_get::<i64, _>(0)?.unsigned_abs(), oldest: row.try_get(1)? })
    }

    /// Saves the tries of an open evaluation. An evaluation that was closed or replaced meanwhile is left unchanged.
    pub async fn update_open_evaluation(&self, open: &OpenRow) -> Result<(), IndexStoreError> {
        sqlx::query("UPDATE trust_open SET body = $3 WHERE did_key = $1 AND since = $2")
            .bind(index_key(&open.did).into_owned())
            .bind(open.since)
            .bind(open.body.to_string())
            .execute(&mut *self.connection().await?)
            .await?;
        Ok(())
    }
}

/// Writes the difference between the stored open evaluations and these.
pub(super) async fn write_open_evaluations(
    connection: &mut AnyConnection,
    open: &BTreeMap<String, OpenRow>,
) -> Result<(), IndexStoreError> {
    let mut wanted: BTreeMap<String, &OpenRow> =
        open.iter().map(|(did, row)| (index_key(did).into_owned(), row)).collect();
    let stored = sqlx::query("SELECT did, since, body, did_key FROM trust_open").fetch_all(&mut *connection).await?;
    for row in &stored {
        let key: String = row.try_get(3)?;
        let known = parse_row(row)?;
        if wanted.get(&key).is_some_and(|wanted| **wanted == known) {
            wanted.remove(&key);
        } else {
            sqlx::query("DELETE FROM trust_open WHERE did_key = $1").bind(key).execute(&mut *connection).await?;
        }
    }
    for (key, row) in wanted {
        sqlx::query("INSERT INTO trust_open (did_key, did, since, body) VALUES ($1, $2, $3, $4)")
            .bind(key)
            .bind(row.did.as_str())
            .bind(row.since)
            .bind(row.body.to_string())
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}
