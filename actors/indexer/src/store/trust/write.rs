//! The transaction that writes a round of verdicts.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sqlx::{AnyConnection, Row};
use svc_wire::trust_stream::RecordedDidChange;

use crate::store::{
    chain::{
        entity::EntityChange,
        entity_kind::EntityKind,
        entity_write::{EntityRows, next_entity_id},
    },
    columns::{from_column, index_key, to_column},
    error::IndexStoreError,
    index_store::IndexStore,
    trust::open::{OpenRow, write_open_evaluations},
};

/// A new verdict.
#[derive(Debug, Clone)]
pub struct VerdictWrite {
    pub did: String,
    pub corporation_id: u64,
    /// `None` for a DID that the registry no longer contains.
    pub body: Option<Value>,
    /// Keys of all evidence that the verdict depends on.
    pub evidence_keys: Vec<String>,
    /// Keys of the evidence that was fetched for the verdict, used in the end or not.
    pub fetched_keys: Vec<String>,
}

/// The verdict on a DID stays, because its evaluation waits for a web server.
#[derive(Debug, Clone)]
pub struct KeptVerdict {
    pub did: String,
    /// Keys of the evidence that the open evaluation depends on, beside that of the verdict.
    pub evidence_keys: Vec<String>,
}

/// All rows of a round: the heights from one checkpoint to the next.
#[derive(Debug, Clone, Default)]
pub struct TrustWrite {
    /// Last height of the round; the verdicts are as of this height.
    pub height: u64,
    pub verdicts: Vec<VerdictWrite>,
    pub kept_verdicts: Vec<KeptVerdict>,
    /// All evaluations that wait for a web server.
    pub open_evaluations: BTreeMap<String, OpenRow>,
    pub changes: BTreeMap<u64, Vec<RecordedDidChange>>,
    /// DIDs that are still to be evaluated, each with whether its evidence must be fetched again.
    pub pending_dids: BTreeMap<String, bool>,
}

impl IndexStore {
    /// Writes a round in one transaction. A round that is already stored is left unchanged.
    pub async fn write_trust(&self, write: &TrustWrite) -> Result<(), IndexStoreError> {
        if self.trust_checkpoint().await?.height >= write.height {
            return Ok(());
        }
        let mut transaction = self.writer.begin().await?;
        let connection = &mut *transaction;
        for verdict in &write.verdicts {
            write_verdict(connection, write.height, verdict).await?;
        }
        for kept in &write.kept_verdicts {
            write_inputs(connection, &kept.did, &kept.evidence_keys).await?;
        }
        write_open_evaluations(connection, &write.open_evaluations).await?;
        for (height, changes) in &write.changes {
            for change in changes {
                write_change(connection, *height, change).await?;
            }
        }
        write_pending_dids(connection, &write.pending_dids).await?;
        sqlx::query(
            "INSERT INTO meta (name, value) VALUES ('trust_height', $1) ON CONFLICT (name) DO UPDATE SET value = $1",
        )
        .bind(write.height.to_string())
        .execute(&mut *connection)
        .await?;
        transaction.commit().await?;
        Ok(())
    }
}

/// Writes the difference between the stored DIDs and those that are to be evaluated: most rounds leave many as they are.
async fn write_pending_dids(
    connection: &mut AnyConnection,
    pending: &BTreeMap<String, bool>,
) -> Result<(), IndexStoreError> {
    let mut wanted: BTreeMap<String, (&str, bool)> =
        pending.iter().map(|(did, is_fresh)| (index_key(did).into_owned(), (did.as_str(), *is_fresh))).collect();
    let stored = sqlx::query("SELECT did_key, fresh FROM trust_job").fetch_all(&mut *connection).await?;
    for row in stored {
        let (key, fresh): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
        if wanted.get(&key).is_some_and(|(_, is_fresh)| i64::from(*is_fresh) == fresh) {
            wanted.remove(&key);
        } else {
            sqlx::query("DELETE FROM trust_job WHERE did_key = $1").bind(key).execute(&mut *connection).await?;
        }
    }
    for (key, (did, is_fresh)) in wanted {
        sqlx::query("INSERT INTO trust_job (did_key, did, fresh) VALUES ($1, $2, $3)")
            .bind(key)
            .bind(did)
            .bind(i64::from(is_fresh))
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

async fn write_change(
    connection: &mut AnyConnection,
    height: u64,
    change: &RecordedDidChange,
) -> Result<(), IndexStoreError> {
    let body = serde_json::to_string(change).map_err(|error| IndexStoreError::CorruptRow(error.to_string()))?;
    sqlx::query(
        "INSERT INTO trust_change (height, did_key, corporation_id, former_corporation_id, body) VALUES ($1, $2, $3, $4, $5)",
    )
        .bind(to_column(height))
        .bind(index_key(&change.did).into_owned())
        .bind(to_column(change.corporation_id))
        .bind(change.former_corporation_id.map(to_column))
        .bind(body)
        .execute(connection)
        .await?;
    Ok(())
}

async fn write_verdict(
    connection: &mut AnyConnection,
    height: u64,
    verdict: &VerdictWrite,
) -> Result<(), IndexStoreError> {
    let did_key = index_key(&verdict.did).into_owned();
    // A DID keeps its id when its owner changes.
    let sql = "SELECT id FROM entity_lookup WHERE kind = $1 AND attribute = 'name' AND value = $2 LIMIT 1";
    let known = sqlx::query(sql)
        .bind(EntityKind::Verdict.as_str())
        .bind(did_key.as_str())
        .fetch_optional(&mut *connection)
        .await?;
    let id = match known {
        Some(row) => from_column(row.try_get(0)?),
        None => next_entity_id(connection, EntityKind::Verdict).await?,
    };
    let change = EntityChange {
        corporation_id: Some(verdict.corporation_id),
        did: Some(verdict.did.clone()),
        name: Some(verdict.did.clone()),
        ..EntityChange::new(EntityKind::Verdict, Some(id), verdict.body.clone())
    };
    let mut rows = EntityRows::new(false);
    rows.write(connection, height, &change).await?;
    rows.flush(connection).await?;
    let rows = sqlx::query("SELECT need FROM trust_input WHERE did_key = $1").bind(did_key.as_str());
    let mut former: BTreeSet<String> = verdict.fetched_keys.iter().map(|need| index_key(need).into_owned()).collect();
    for row in rows.fetch_all(&mut *connection).await? {
        former.insert(row.try_get(0)?);
    }
    sqlx::query("DELETE FROM trust_input WHERE did_key = $1").bind(did_key.as_str()).execute(&mut *connection).await?;
    let inputs: &[String] = if verdict.body.is_some() { &verdict.evidence_keys } else { &[] };
    write_inputs(connection, &verdict.did, inputs).await?;
    // Evidence that no verdict depends on is deleted.
    for need in former {
        sqlx::query(
            "DELETE FROM trust_material WHERE need = $1 AND NOT EXISTS (SELECT 1 FROM trust_input WHERE need = $1)",
        )
        .bind(need)
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

async fn write_inputs(connection: &mut AnyConnection, did: &str, keys: &[String]) -> Result<(), IndexStoreError> {
    for need in keys {
        sqlx::query(
            "INSERT INTO trust_input (did_key, need, did) VALUES ($1, $2, $3) ON CONFLICT (did_key, need) DO NOTHING",
        )
        .bind(index_key(did).into_owned())
        .bind(index_key(need).into_owned())
        .bind(did)
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}
