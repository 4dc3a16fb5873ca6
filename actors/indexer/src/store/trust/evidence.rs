//! Evidence: the documents and resources that were fetched for verdicts, and the verdicts that depend on them.

use serde_json::Value;
use sqlx::{AssertSqlSafe, Row};

use crate::store::{
    columns::{index_key, placeholders},
    error::IndexStoreError,
    index_store::IndexStore,
};

/// Most parameters of a statement, in either database.
const MAX_PARAMETERS: usize = 256;

impl IndexStore {
    /// Returns the DIDs whose verdicts depend on one of these evidence keys.
    pub async fn list_dependents(&self, keys: &[String]) -> Result<Vec<String>, IndexStoreError> {
        let mut found = Vec::new();
        for chunk in keys.chunks(MAX_PARAMETERS) {
            let statement =
                format!("SELECT DISTINCT did FROM trust_input WHERE need IN ({})", placeholders(chunk.len(), 1));
            let mut query = sqlx::query(AssertSqlSafe(statement));
            for key in chunk {
                query = query.bind(index_key(key).into_owned());
            }
            for row in query.fetch_all(&mut *self.connection().await?).await? {
                found.push(row.try_get(0)?);
            }
        }
        Ok(found)
    }

    /// Returns the evidence that was last fetched under a key.
    pub async fn find_evidence(&self, need: &str) -> Result<Option<Value>, IndexStoreError> {
        let row = sqlx::query("SELECT body FROM trust_material WHERE need = $1")
            .bind(index_key(need).into_owned())
            .fetch_optional(&mut *self.connection().await?)
            .await?;
        let parse = |row: sqlx::any::AnyRow| {
            let text: String = row.try_get(0)?;
            serde_json::from_str(&text).map_err(|error| IndexStoreError::CorruptRow(error.to_string()))
        };
        row.map(parse).transpose()
    }

    /// Returns the keys of all evidence that the verdict on a DID depends on.
    pub async fn list_inputs(&self, did: &str) -> Result<Vec<String>, IndexStoreError> {
        let rows = sqlx::query("SELECT need FROM trust_input WHERE did_key = $1")
            .bind(index_key(did).into_owned())
            .fetch_all(&mut *self.connection().await?)
            .await?;
        Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
    }

    /// Saves fetched evidence under a key. `None` deletes the earlier evidence: the last fetch failed.
    pub async fn save_evidence(&self, need: &str, body: Option<&Value>) -> Result<(), IndexStoreError> {
        let need = index_key(need).into_owned();
        match body {
            Some(body) => {
                sqlx::query(
                    "INSERT INTO trust_material (need, body) VALUES ($1, $2) ON CONFLICT (need) DO UPDATE SET body = $2",
                )
                .bind(need)
                .bind(body.to_string())
                .execute(&mut *self.connection().await?)
                .await?;
            }
            None => {
                sqlx::query("DELETE FROM trust_material WHERE need = $1")
                    .bind(need)
                    .execute(&mut *self.connection().await?)
                    .await?;
            }
        }
        Ok(())
    }

    /// Deletes evidence that no verdict depends on: it was fetched for verdicts that were not written.
    pub async fn delete_unused_evidence(&self) -> Result<(), IndexStoreError> {
        let unused = "DELETE FROM trust_material WHERE need NOT IN (SELECT need FROM trust_input)";
        sqlx::query(unused).execute(&mut *self.connection().await?).await?;
        Ok(())
    }
}
