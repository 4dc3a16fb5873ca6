//! The chain of a store, the transactions that it knows, and the state of the resolution of its document.

use sqlx::{AnyConnection, Row};

use super::{
    agent_store::AgentStore,
    columns::{from_column, to_column},
    error::AgentStoreError,
};

/// The knowledge of a store about its chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KnownChain {
    /// It has met none.
    Unmet,
    /// It was recovered from a backup: the account's transactions until it meets the chain count as its own.
    Recovered,
    /// The chain that it has met.
    Met(StoredChain),
}

/// The chain for which a store was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredChain {
    /// Chain id.
    pub chain_id: String,
    /// Address of the agent's account.
    pub account: String,
    /// Height at which the store met the chain: it knows all transactions of the account above it.
    pub height: u64,
}

/// The versions of the document that the indexer has been made to resolve, and those that it has not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResolutionProgress {
    /// The newest version.
    pub wanted: u64,
    /// Time of the first version that no attempt has covered yet, seconds since the epoch.
    pub first_change_at: i64,
    /// Time of the newest version.
    pub last_change_at: i64,
    /// The newest version for which a transaction was about to be sent.
    pub submitted: u64,
    /// The newest version for which a transaction is in a block.
    pub done: u64,
    /// The transaction of the newest one in a block.
    pub tx_hash: Option<String>,
}

/// Notes a version that is to be resolved, within the transaction that writes it.
pub(super) async fn want_resolution(
    connection: &mut AnyConnection,
    version: u64,
    written_at: i64,
) -> Result<(), AgentStoreError> {
    let sql = "UPDATE resolution SET wanted = $1, last_change_at = $2, \
               first_change_at = CASE WHEN wanted > submitted THEN first_change_at ELSE $2 END WHERE one = 1";
    sqlx::query(sql).bind(to_column(version)).bind(written_at).execute(connection).await?;
    Ok(())
}

pub(super) async fn insert_transaction(connection: &mut AnyConnection, hash: &str) -> Result<(), AgentStoreError> {
    let sql = "INSERT INTO own_transaction (hash) VALUES ($1) ON CONFLICT (hash) DO NOTHING";
    sqlx::query(sql).bind(hash).execute(connection).await?;
    Ok(())
}

impl AgentStore {
    /// Returns the state of the resolution.
    pub async fn resolution_progress(&self) -> Result<ResolutionProgress, AgentStoreError> {
        let sql =
            "SELECT wanted, first_change_at, last_change_at, submitted, done, tx_hash FROM resolution WHERE one = 1";
        let row = sqlx::query(sql).fetch_one(self.reader()).await?;
        Ok(ResolutionProgress {
            wanted: from_column(row.try_get(0)?),
            first_change_at: row.try_get(1)?,
            last_change_at: row.try_get(2)?,
            submitted: from_column(row.try_get(3)?),
            done: from_column(row.try_get(4)?),
            tx_hash: row.try_get(5)?,
        })
    }

    /// Notes that a transaction for a version is about to be sent.
    pub async fn begin_resolution(&self, version: u64) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        let sql = "UPDATE resolution SET submitted = $1 WHERE one = 1 AND submitted < $1";
        sqlx::query(sql).bind(to_column(version)).execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }

    /// Notes a transaction of the agent's account.
    pub async fn note_transaction(&self, hash: &str) -> Result<(), AgentStoreError> {
        self.note_transactions(&[hash]).await
    }

    /// Notes transactions of the agent's account.
    pub async fn note_transactions(&self, hashes: &[&str]) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        for hash in hashes {
            insert_transaction(&mut transaction, hash).await?;
        }
        Ok(transaction.commit().await?)
    }

    /// Whether a transaction of the agent's account was noted.
    pub async fn knows_transaction(&self, hash: &str) -> Result<bool, AgentStoreError> {
        let sql = "SELECT hash FROM own_transaction WHERE hash = $1";
        Ok(sqlx::query(sql).bind(hash).fetch_optional(self.reader()).await?.is_some())
    }

    /// Notes that a block has the transaction for a version.
    pub async fn end_resolution(&self, version: u64, tx_hash: &str) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        let sql = "UPDATE resolution SET done = $1, tx_hash = $2 WHERE one = 1 AND done <= $1";
        sqlx::query(sql).bind(to_column(version)).bind(tx_hash).execute(&mut *transaction).await?;
        insert_transaction(&mut transaction, tx_hash).await?;
        Ok(transaction.commit().await?)
    }

    /// Returns the chain of the store.
    pub async fn chain(&self) -> Result<KnownChain, AgentStoreError> {
        let row = sqlx::query("SELECT chain_id, account, height FROM chain").fetch_optional(self.reader()).await?;
        let Some(row) = row else { return Ok(KnownChain::Unmet) };
        let (chain_id, height): (String, _) = (row.try_get("chain_id")?, from_column(row.try_get("height")?));
        if chain_id.is_empty() {
            return Ok(KnownChain::Recovered);
        }
        Ok(KnownChain::Met(StoredChain { chain_id, account: row.try_get("account")?, height }))
    }

    /// Writes the chain of a store, or its new account there.
    pub async fn write_chain(&self, chain: &StoredChain) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        let sql = "INSERT INTO chain (one, chain_id, account, height) VALUES (1, $1, $2, $3) \
                   ON CONFLICT (one) DO UPDATE SET chain_id = $1, account = $2, height = $3";
        sqlx::query(sql)
            .bind(&chain.chain_id)
            .bind(&chain.account)
            .bind(to_column(chain.height))
            .execute(&mut *transaction)
            .await?;
        Ok(transaction.commit().await?)
    }
}
