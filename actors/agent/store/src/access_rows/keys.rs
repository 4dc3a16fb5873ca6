//! The keys of tokens, and the time from which tokens are valid.

use sqlx::{AnyConnection, Row};
use svc_wire::endpoint_access::{RevocationList, RevokedGrant};

use crate::{
    agent_store::AgentStore,
    columns::{from_column, to_column},
    error::AgentStoreError,
    sealing::PrivateKey,
};

/// The time from which a key of tokens is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessKeyTime {
    /// Version of the key.
    pub version: u64,
    /// The time, in seconds since the epoch.
    pub used_from: i64,
}

/// Makes every token void that was issued until a time, in seconds since the epoch. The granter takes their grants back.
pub async fn void_tokens(connection: &mut AnyConnection, now: i64) -> Result<(), sqlx::Error> {
    // A token of this very second may be older than the call.
    let sql = "UPDATE access_validity SET valid_from = $1 WHERE valid_from < $1";
    sqlx::query(sql).bind(now + 1).execute(&mut *connection).await?;
    Ok(())
}

impl AgentStore {
    /// Returns the times of the keys of tokens.
    pub async fn access_key_times(&self) -> Result<Vec<AccessKeyTime>, AgentStoreError> {
        let rows = sqlx::query("SELECT version, used_from FROM access_key").fetch_all(self.reader()).await?;
        let read = |row: &sqlx::any::AnyRow| {
            let version: i64 = row.try_get(0)?;
            Ok(AccessKeyTime { version: from_column(version), used_from: row.try_get(1)? })
        };
        rows.iter().map(read).collect()
    }

    /// Stores another key of tokens.
    pub async fn add_access_key(&self, did: &str, key: &PrivateKey, used_from: i64) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        sqlx::query("INSERT INTO private_key (name, version, sealed) VALUES ($1, $2, $3)")
            .bind(&key.name)
            .bind(to_column(key.version))
            .bind(self.keys().seal(did, key)?)
            .execute(&mut *transaction)
            .await?;
        sqlx::query("INSERT INTO access_key (version, used_from) VALUES ($1, $2)")
            .bind(to_column(key.version))
            .bind(used_from)
            .execute(&mut *transaction)
            .await?;
        Ok(transaction.commit().await?)
    }

    /// Notes the time from which a key of tokens is used.
    pub async fn use_access_key(&self, version: u64, used_from: i64) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        let sql = "UPDATE access_key SET used_from = $2 WHERE version = $1";
        sqlx::query(sql).bind(to_column(version)).bind(used_from).execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }

    /// Removes keys of tokens.
    pub async fn drop_access_keys(&self, name: &str, versions: &[u64]) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        for version in versions {
            sqlx::query("DELETE FROM access_key WHERE version = $1")
                .bind(to_column(*version))
                .execute(&mut *transaction)
                .await?;
            sqlx::query("DELETE FROM private_key WHERE name = $1 AND version = $2")
                .bind(name.to_owned())
                .bind(to_column(*version))
                .execute(&mut *transaction)
                .await?;
        }
        Ok(transaction.commit().await?)
    }

    /// Makes every token void that was issued until now. Returns the time from which tokens are valid.
    pub async fn void_access_tokens(&self, now: i64) -> Result<i64, AgentStoreError> {
        let mut transaction = self.begin().await?;
        void_tokens(&mut transaction, now).await?;
        transaction.commit().await?;
        self.tokens_valid_from().await
    }

    /// Returns the time from which tokens are valid, in seconds since the epoch.
    pub async fn tokens_valid_from(&self) -> Result<i64, AgentStoreError> {
        let sql = "SELECT valid_from FROM access_validity WHERE one = 1";
        Ok(sqlx::query_scalar(sql).fetch_one(self.reader()).await?)
    }

    /// Returns the list of revoked grants at a time, in seconds since the epoch.
    pub async fn revocation_list(&self, did: &str, now: i64) -> Result<RevocationList, AgentStoreError> {
        let valid_from = self.tokens_valid_from().await?;
        let sql = "SELECT id, expires_at FROM access_grant WHERE expires_at > $1 AND revoked_at IS NOT NULL";
        // Those that ended a minute ago are still listed: clocks differ.
        let rows = sqlx::query(sql).bind(now - 60).fetch_all(self.reader()).await?;
        let read = |row: &sqlx::any::AnyRow| {
            Ok::<_, sqlx::Error>(RevokedGrant { id: row.try_get(0)?, expires_at: row.try_get(1)? })
        };
        let revoked: Vec<RevokedGrant> = rows.iter().map(read).collect::<Result<_, _>>()?;
        Ok(RevocationList::new(did, now, valid_from, revoked))
    }
}
