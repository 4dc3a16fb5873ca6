//! The DID of the store, its private keys, and the versions of its document.

use sqlx::{AnyConnection, Row};
use svc_kit::wall_clock;

use super::{
    access_rows::void_tokens,
    agent_store::{AgentStore, DocumentVersion, StoredIdentity},
    chain_rows::want_resolution,
    columns::to_column,
    error::AgentStoreError,
    sealing::{PrivateKey, StoreKeys},
};

impl AgentStore {
    /// Writes the DID of an empty store, with its keys and its first version.
    pub async fn write_identity(
        &self,
        identity: &StoredIdentity,
        keys: &[PrivateKey],
        first: &DocumentVersion,
    ) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        sqlx::query("INSERT INTO identity (one, did, base_url) VALUES (1, $1, $2)")
            .bind(&identity.did)
            .bind(&identity.base_url)
            .execute(&mut *transaction)
            .await?;
        insert_keys(&mut transaction, self.keys(), &identity.did, keys).await?;
        insert_version(&mut transaction, first).await?;
        Ok(transaction.commit().await?)
    }

    /// Returns every version, in order.
    pub async fn versions(&self) -> Result<Vec<DocumentVersion>, AgentStoreError> {
        let sql = "SELECT number, version_id, written_at, content, presented FROM document_version ORDER BY number";
        let rows = sqlx::query(sql).fetch_all(self.reader()).await?;
        let parse = |row: &sqlx::any::AnyRow| -> Result<DocumentVersion, sqlx::Error> {
            let number: i64 = row.try_get(0)?;
            let (version_id, written_at) = (row.try_get(1)?, row.try_get(2)?);
            let (content, presented) = (row.try_get(3)?, row.try_get(4)?);
            Ok(DocumentVersion { number: number.unsigned_abs(), version_id, written_at, content, presented })
        };
        let versions: Vec<DocumentVersion> = rows.iter().map(parse).collect::<Result<_, _>>()?;
        let is_complete = versions.iter().zip(1..).all(|(version, number)| version.number == number);
        if is_complete {
            Ok(versions)
        } else {
            Err(AgentStoreError::CorruptRow("a version of the document is missing".to_owned()))
        }
    }

    /// Removes the versions behind a number, which were never published: the commit of a failed write may have happened.
    pub async fn discard_versions_after(&self, number: u64) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        let sql = "DELETE FROM document_version WHERE number > $1";
        sqlx::query(sql).bind(to_column(number)).execute(&mut *transaction).await?;
        let sql = "UPDATE resolution SET wanted = $1 WHERE wanted > $1";
        sqlx::query(sql).bind(to_column(number)).execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }

    /// Replaces every version. The account's transactions until now count as those of this store.
    pub async fn replace_versions(&self, versions: &[DocumentVersion]) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        sqlx::query("DELETE FROM document_version").execute(&mut *transaction).await?;
        for version in versions {
            insert_version(&mut transaction, version).await?;
        }
        sqlx::query("UPDATE resolution SET submitted = wanted, done = 0").execute(&mut *transaction).await?;
        // The store does not know the grants that were revoked since it was copied.
        void_tokens(&mut transaction, wall_clock::now().seconds).await?;
        // The store meets the chain as for the first time: it takes its height and the transactions of the journal at that moment.
        sqlx::query("DELETE FROM chain").execute(&mut *transaction).await?;
        let sql = "INSERT INTO chain (one, chain_id, account, height) VALUES (1, '', '', 0)";
        sqlx::query(sql).execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }

    /// Writes a version with the private keys that it names first.
    pub async fn write_version(
        &self,
        did: &str,
        version: &DocumentVersion,
        keys: &[PrivateKey],
    ) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        insert_keys(&mut transaction, self.keys(), did, keys).await?;
        insert_version(&mut transaction, version).await?;
        Ok(transaction.commit().await?)
    }
}

async fn insert_keys(
    connection: &mut AnyConnection,
    keys: &StoreKeys,
    did: &str,
    added: &[PrivateKey],
) -> Result<(), AgentStoreError> {
    for key in added {
        let sql = "INSERT INTO private_key (name, version, sealed) VALUES ($1, $2, $3) \
                   ON CONFLICT (name, version) DO UPDATE SET sealed = $3";
        sqlx::query(sql)
            .bind(&key.name)
            .bind(to_column(key.version))
            .bind(keys.seal(did, key)?)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

async fn insert_version(connection: &mut AnyConnection, version: &DocumentVersion) -> Result<(), AgentStoreError> {
    let sql =
        "INSERT INTO document_version (number, version_id, written_at, content, presented) VALUES ($1, $2, $3, $4, $5)";
    sqlx::query(sql)
        .bind(to_column(version.number))
        .bind(&version.version_id)
        .bind(version.written_at)
        .bind(&version.content)
        .bind(&version.presented)
        .execute(&mut *connection)
        .await?;
    want_resolution(connection, version.number, version.written_at).await
}
