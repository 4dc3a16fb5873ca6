//! The rebase of a store: everything in it that rests on blocks which the chain has lost is looked at again.

#[cfg(test)]
mod tests;

use sqlx::{AnyConnection, AssertSqlSafe, Row};
use svc_agent_core::{flows::FlowBefore, lost_blocks::LostBlocks};
use svc_store::StatementBatch;

use crate::{
    agent_store::AgentStore,
    chain_rows::insert_transaction,
    credential_rows::{CHAIN_CHANGED, COLUMNS, CredentialKind, CredentialState, StoredCredential, parse_all},
    error::AgentStoreError,
    flow_rows::records,
    outbox::{EventGap, lose_events},
};

/// Flows that are read at once.
const PAGE: i64 = 100;

/// The rows that a rebase has changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RebasedStore {
    /// Heights of lost blocks whose events were stored, with the number of events that were still stored.
    pub events: Option<EventGap>,
    /// Credentials whose digests are looked for at the node.
    pub credentials: u64,
    /// Flows whose validations and payments are looked for at the node.
    pub flows: u64,
    /// Whether the document is resolved again, unless the journal has the transaction.
    pub resolves: bool,
}

/// State and reason of a credential whose digest is looked for again; `None` for one that stays as it is. Pure.
fn after_loss(
    kind: CredentialKind,
    is_of_flow: bool,
    tx_hash: Option<&str>,
    lost: &LostBlocks,
) -> Option<CredentialState> {
    match kind {
        // Its issuer anchors it, and its flow pays for it.
        CredentialKind::Received => None,
        CredentialKind::Issued if is_of_flow => None,
        _ if !lost.may_have(tx_hash) => None,
        CredentialKind::Issued => Some(CredentialState::Signed),
        // It stays in the document until the node was asked: most transactions are in a block of the new history too.
        CredentialKind::Own | CredentialKind::Schema => Some(CredentialState::Anchored),
    }
}

async fn doubt_credentials(connection: &mut AnyConnection, lost: &LostBlocks) -> Result<u64, AgentStoreError> {
    let sql = "SELECT id, kind, body, tx_hash FROM credential WHERE state = 'anchored' AND COALESCE(reason, '') <> $1 ORDER BY id";
    let rows = sqlx::query(sql).bind(CHAIN_CHANGED).fetch_all(&mut *connection).await?;
    let mut doubted = 0;
    for row in &rows {
        let (id, kind, body): (String, String, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let tx_hash: Option<String> = row.try_get(3)?;
        let kind = CredentialKind::parse(&kind);
        let kind = kind.ok_or_else(|| AgentStoreError::CorruptRow(format!("credential {id:?}")))?;
        let Some(state) = after_loss(kind, body.is_empty(), tx_hash.as_deref(), lost) else { continue };
        let sql = "UPDATE credential SET state = $2, reason = $3 WHERE id = $1";
        let update = sqlx::query(sql).bind(id).bind(state.as_str()).bind(CHAIN_CHANGED);
        update.execute(&mut *connection).await?;
        doubted += 1;
    }
    Ok(doubted)
}

async fn doubt_flows(connection: &mut AnyConnection, lost: &LostBlocks, now: i64) -> Result<u64, AgentStoreError> {
    let sql = format!("SELECT {}, id, due_at FROM flow WHERE id > $1 ORDER BY id LIMIT $2", records::COLUMNS);
    let (mut after, mut doubted) = (String::new(), 0);
    loop {
        let page = sqlx::query(AssertSqlSafe(sql.clone())).bind(after.clone()).bind(PAGE);
        let rows = page.fetch_all(&mut *connection).await?;
        let Some(last) = rows.last() else { return Ok(doubted) };
        after = last.try_get("id")?;
        for row in &rows {
            let before = records::read(row)?;
            let mut record = before.clone();
            let is_doubted = record.look_again(lost.newest_kept, |hash| lost.may_have(hash));
            if record == before {
                continue;
            }
            doubted += u64::from(is_doubted);
            let due_at = if is_doubted { Some(now) } else { row.try_get("due_at")? };
            let mut batch = StatementBatch::default();
            records::put(&mut batch, &record, &FlowBefore::of(&before), due_at)?;
            let written = batch.run(connection).await?;
            if written.first().is_none_or(Vec::is_empty) {
                return Err(AgentStoreError::WrongFacts);
            }
        }
    }
}

async fn doubt_resolution(connection: &mut AnyConnection, lost: &LostBlocks) -> Result<bool, AgentStoreError> {
    let row = sqlx::query("SELECT done, tx_hash FROM resolution WHERE one = 1").fetch_one(&mut *connection).await?;
    let (done, tx_hash): (i64, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
    let is_doubted = done > 0 && lost.may_have(tx_hash.as_deref());
    if is_doubted {
        sqlx::query("UPDATE resolution SET done = 0 WHERE one = 1").execute(connection).await?;
    }
    Ok(is_doubted)
}

impl AgentStore {
    /// Rebases the store below blocks that the chain has lost, in one transaction: the events above them are read again, and digests,
    /// payments and the resolution in them are looked for at the node before anything is sent. A repetition changes nothing. `now` is in
    /// milliseconds since the epoch.
    pub async fn rebase(&self, lost: &LostBlocks, now: i64) -> Result<RebasedStore, AgentStoreError> {
        let mut transaction = self.begin().await?;
        // In a block of the new history too, they show no other copy of this store.
        for hash in lost.transactions.iter().flatten() {
            insert_transaction(&mut transaction, hash).await?;
        }
        let rebased = RebasedStore {
            events: lose_events(&mut transaction, lost).await?,
            credentials: doubt_credentials(&mut transaction, lost).await?,
            flows: doubt_flows(&mut transaction, lost, now).await?,
            resolves: doubt_resolution(&mut transaction, lost).await?,
        };
        transaction.commit().await?;
        Ok(rebased)
    }

    /// Returns the presented credentials whose digests are still to be looked for at the node, since the chain has lost their blocks.
    pub async fn doubtful_credentials(&self) -> Result<Vec<StoredCredential>, AgentStoreError> {
        let sql = AssertSqlSafe(format!(
            "SELECT {COLUMNS} FROM credential WHERE state = 'anchored' AND reason = $1 ORDER BY created_at, id"
        ));
        parse_all(&sqlx::query(sql).bind(CHAIN_CHANGED).fetch_all(self.reader()).await?)
    }

    /// Notes whether the node shows the digest of a doubtful credential. One that it does not show waits for its digest.
    pub async fn settle_doubt(&self, id: &str, is_shown: bool) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        let sql = if is_shown {
            "UPDATE credential SET reason = NULL WHERE id = $1 AND state = 'anchored' AND reason = $2"
        } else {
            "UPDATE credential SET state = 'signed' WHERE id = $1 AND state = 'anchored' AND reason = $2"
        };
        sqlx::query(sql).bind(id).bind(CHAIN_CHANGED).execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }

    /// Notes the transaction that has anchored a credential once more.
    pub async fn note_anchoring_transaction(&self, id: &str, tx_hash: &str) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        let sql = "UPDATE credential SET tx_hash = $2 WHERE id = $1 AND state = 'anchored'";
        sqlx::query(sql).bind(id).bind(tx_hash).execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }
}
