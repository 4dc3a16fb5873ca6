//! What the evaluation of trust keeps: its own checkpoint, changes, what verdicts depend on, fetched material, and what is still
//! to be judged. Verdicts themselves are entities. One database transaction a height.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::BoxFuture;
use serde_json::Value;
use sqlx::{AnyConnection, AssertSqlSafe, Row};
use svc_wire::trust::{RecordedBlock, RecordedChange};

use super::{Change, Checkpoint, Filter, Kind, Store, StoreError, entity, iso_millis, key, next_id, signed, unsigned};
use crate::{derive::measures::Scope, hub::TrustSource};

/// A new verdict.
#[derive(Debug, Clone)]
pub struct VerdictWrite {
    pub did: String,
    pub corporation_id: u64,
    /// None for a DID that nothing in the registry names any more.
    pub body: Option<Value>,
    /// Keys of everything it depends on.
    pub inputs: Vec<String>,
    /// Keys of what was fetched on the way to it, needed in the end or not.
    pub fetched: Vec<String>,
}

/// Everything the heights up to one write.
#[derive(Debug, Clone, Default)]
pub struct TrustWrite {
    /// The last of them, at which the verdicts are given.
    pub height: u64,
    pub verdicts: Vec<VerdictWrite>,
    pub changes: BTreeMap<u64, Vec<RecordedChange>>,
    /// DIDs still to be judged, and whether their material has to be fetched again.
    pub jobs: BTreeMap<String, bool>,
}

/// An entity a block touched, as it was before or is since.
#[derive(Debug, Clone)]
pub struct Touched {
    pub kind: Kind,
    pub body: Value,
}

/// Which changes are wanted.
#[derive(Debug, Clone, Default)]
pub struct ChangeQuery {
    /// One of these DIDs; empty: any.
    pub dids: Vec<String>,
    pub corporation_id: Option<u64>,
    /// First and last height.
    pub from: u64,
    pub until: u64,
    /// At most so many rows.
    pub limit: usize,
}

/// Parameters one statement takes of every database.
const CHUNK: usize = 256;

fn places(count: usize, first: usize) -> String {
    (first..first + count).map(|place| format!("${place}")).collect::<Vec<_>>().join(", ")
}

impl Store {
    /// Newest height whose verdicts are written.
    pub async fn trust_checkpoint(&self) -> Result<Checkpoint, StoreError> {
        let mut connection = self.pool.acquire().await?;
        let row =
            sqlx::query("SELECT value FROM meta WHERE name = 'trust_height'").fetch_optional(&mut *connection).await?;
        let height = match row {
            Some(row) => {
                let text: String = row.try_get(0)?;
                text.parse().map_err(|_| StoreError::Corrupt(format!("trust_height {text:?}")))?
            }
            // A store that began in the middle of a chain has nothing to judge before it.
            None => {
                let first: Option<i64> =
                    sqlx::query("SELECT MIN(height) FROM block").fetch_one(&mut *connection).await?.try_get(0)?;
                first.map_or(0, |first| unsigned(first).saturating_sub(1))
            }
        };
        drop(connection);
        Ok(Checkpoint { height, time: self.block_time(height).await?.unwrap_or(0) })
    }

    /// Writes heights, all of them or nothing. What is there already is left as it is.
    pub async fn write_trust(&self, write: &TrustWrite) -> Result<(), StoreError> {
        if self.trust_checkpoint().await?.height >= write.height {
            return Ok(());
        }
        let mut transaction = self.pool.begin().await?;
        let connection = &mut *transaction;
        for verdict in &write.verdicts {
            write_verdict(connection, write.height, verdict).await?;
        }
        for (height, changes) in &write.changes {
            for change in changes {
                write_change(connection, *height, change).await?;
            }
        }
        sqlx::query("DELETE FROM trust_job").execute(&mut *connection).await?;
        for (did, is_fresh) in &write.jobs {
            sqlx::query("INSERT INTO trust_job (did_key, did, fresh) VALUES ($1, $2, $3)")
                .bind(key(did).into_owned())
                .bind(did.as_str())
                .bind(i64::from(*is_fresh))
                .execute(&mut *connection)
                .await?;
        }
        sqlx::query(
            "INSERT INTO meta (name, value) VALUES ('trust_height', $1) ON CONFLICT (name) DO UPDATE SET value = $1",
        )
        .bind(write.height.to_string())
        .execute(&mut *connection)
        .await?;
        transaction.commit().await?;
        Ok(())
    }

    /// DIDs that are still to be judged, and whether their material has to be fetched again.
    pub async fn trust_jobs(&self) -> Result<BTreeMap<String, bool>, StoreError> {
        let rows = sqlx::query("SELECT did, fresh FROM trust_job").fetch_all(&self.pool).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get::<i64, _>(1)? != 0))).collect()
    }

    /// DIDs whose verdict depends on one of these.
    pub async fn dependents(&self, needs: &[String]) -> Result<Vec<String>, StoreError> {
        let mut found = Vec::new();
        for chunk in needs.chunks(CHUNK) {
            let statement = format!("SELECT DISTINCT did FROM trust_input WHERE need IN ({})", places(chunk.len(), 1));
            let mut query = sqlx::query(AssertSqlSafe(statement));
            for need in chunk {
                query = query.bind(key(need).into_owned());
            }
            for row in query.fetch_all(&self.pool).await? {
                found.push(row.try_get(0)?);
            }
        }
        Ok(found)
    }

    /// Times of blocks, nanoseconds since the epoch.
    pub async fn block_times(&self, first: u64, last: u64) -> Result<BTreeMap<u64, i128>, StoreError> {
        let rows = sqlx::query("SELECT height, time FROM block WHERE height >= $1 AND height <= $2")
            .bind(signed(first))
            .bind(signed(last))
            .fetch_all(&self.pool)
            .await?;
        rows.iter().map(|row| Ok((unsigned(row.try_get(0)?), row.try_get::<i64, _>(1)?.into()))).collect()
    }

    /// Heights at which a block did anything that trust could depend on.
    pub async fn eventful(&self, first: u64, last: u64) -> Result<Vec<u64>, StoreError> {
        let rows = sqlx::query(
            "SELECT from_height AS height FROM entity WHERE from_height >= $1 AND from_height <= $2 AND kind <> 'verdict' \
             UNION SELECT until_height FROM entity WHERE until_height >= $1 AND until_height <= $2 AND kind <> 'verdict' \
             UNION SELECT height FROM measure WHERE height >= $1 AND height <= $2 \
             UNION SELECT height FROM activity WHERE height >= $1 AND height <= $2 AND msg = 'TriggerResolver' ORDER BY 1",
        )
        .bind(signed(first))
        .bind(signed(last))
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(|row| Ok(unsigned(row.try_get(0)?))).collect()
    }

    /// Entities a block touched, before it and after it.
    pub async fn touched_at(&self, height: u64) -> Result<Vec<Touched>, StoreError> {
        let rows = sqlx::query("SELECT kind, body FROM entity WHERE from_height = $1 UNION ALL SELECT kind, body FROM entity WHERE until_height = $1")
            .bind(signed(height))
            .fetch_all(&self.pool)
            .await?;
        let mut found = Vec::new();
        for row in &rows {
            let (name, text): (String, String) = (row.try_get(0)?, row.try_get(1)?);
            let Some(kind) = Kind::named(&name) else { continue };
            let body = serde_json::from_str(&text).map_err(|error| StoreError::Corrupt(error.to_string()))?;
            found.push(Touched { kind, body });
        }
        Ok(found)
    }

    /// Ids of participants for whose DIDs a block asks that everything is fetched again.
    pub async fn asked_at(&self, height: u64) -> Result<Vec<u64>, StoreError> {
        let rows = sqlx::query(
            "SELECT DISTINCT entity_key FROM activity WHERE height = $1 AND entity_type = $2 AND msg = 'TriggerResolver'",
        )
        .bind(signed(height))
        .bind(Kind::Participant.entity_type())
        .fetch_all(&self.pool)
        .await?;
        rows.iter()
            .map(|row| {
                let text: String = row.try_get(0)?;
                text.parse().map_err(|_| StoreError::Corrupt(format!("participant {text:?}")))
            })
            .collect()
    }

    /// Scopes with figures that a block changed.
    pub async fn measured_at(&self, height: u64) -> Result<Vec<Scope>, StoreError> {
        let rows = sqlx::query("SELECT scope, scope_id FROM measure WHERE height = $1")
            .bind(signed(height))
            .fetch_all(&self.pool)
            .await?;
        rows.iter()
            .map(|row| Ok(Scope::from_key(unsigned(row.try_get(0)?), unsigned(row.try_get(1)?))))
            .filter_map(Result::transpose)
            .collect()
    }

    /// The corporation behind a DID: whose own DID it is, else the owner of a participant or an ecosystem with it. None when
    /// nothing in the registry names it.
    pub async fn corporation_of(&self, did: &str, height: u64) -> Result<Option<u64>, StoreError> {
        let by_did = Filter { did: Some(did.to_owned()), ..Filter::default() };
        if let Some(own) = self.find(Kind::Corporation, &by_did, height).await? {
            return Ok(Some(own.id));
        }
        for kind in [Kind::Participant, Kind::Ecosystem] {
            let found = self.find(kind, &by_did, height).await?;
            if let Some(owner) = found.and_then(|stored| stored.body["corporation_id"].as_u64()) {
                return Ok(Some(owner));
            }
        }
        Ok(None)
    }

    /// The verdict on a DID that holds at `height`.
    pub async fn verdict(&self, did: &str, height: u64) -> Result<Option<Value>, StoreError> {
        let filter = Filter { name: Some(did.to_owned()), ..Filter::default() };
        Ok(self.find(Kind::Verdict, &filter, height).await?.map(|stored| stored.body))
    }

    /// What was last fetched for a need.
    pub async fn material(&self, need: &str) -> Result<Option<Value>, StoreError> {
        let row = sqlx::query("SELECT body FROM trust_material WHERE need = $1")
            .bind(key(need).into_owned())
            .fetch_optional(&self.pool)
            .await?;
        let parse = |row: sqlx::any::AnyRow| {
            let text: String = row.try_get(0)?;
            serde_json::from_str(&text).map_err(|error| StoreError::Corrupt(error.to_string()))
        };
        row.map(parse).transpose()
    }

    /// Forgets material that no verdict rests on: what was fetched for verdicts that were not written.
    pub async fn forget_unused_material(&self) -> Result<(), StoreError> {
        let unused = "DELETE FROM trust_material WHERE need NOT IN (SELECT need FROM trust_input)";
        sqlx::query(unused).execute(&self.pool).await?;
        Ok(())
    }

    /// Keeps what was fetched for a need, or forgets what was fetched before it could not be.
    pub async fn keep_material(&self, need: &str, body: Option<&Value>) -> Result<(), StoreError> {
        let need = key(need).into_owned();
        match body {
            Some(body) => {
                sqlx::query(
                    "INSERT INTO trust_material (need, body) VALUES ($1, $2) ON CONFLICT (need) DO UPDATE SET body = $2",
                )
                .bind(need)
                .bind(body.to_string())
                .execute(&self.pool)
                .await?;
            }
            None => {
                sqlx::query("DELETE FROM trust_material WHERE need = $1").bind(need).execute(&self.pool).await?;
            }
        }
        Ok(())
    }

    /// Changes in the order of heights and DIDs, by block.
    pub async fn trust_changes(&self, wanted: &ChangeQuery) -> Result<Vec<RecordedBlock>, StoreError> {
        let mut statement = String::from(
            "SELECT c.height, b.time, c.body FROM trust_change c JOIN block b ON b.height = c.height \
             WHERE c.height >= $1 AND c.height <= $2",
        );
        let mut place = 3;
        if wanted.corporation_id.is_some() {
            statement += &format!(" AND (c.corporation_id = ${place} OR c.former_corporation_id = ${place})");
            place += 1;
        }
        if !wanted.dids.is_empty() {
            statement += &format!(" AND c.did_key IN ({})", places(wanted.dids.len(), place));
        }
        statement += &format!(" ORDER BY c.height, c.did_key LIMIT {}", wanted.limit);
        let mut query = sqlx::query(AssertSqlSafe(statement)).bind(signed(wanted.from)).bind(signed(wanted.until));
        if let Some(id) = wanted.corporation_id {
            query = query.bind(signed(id));
        }
        for did in &wanted.dids {
            query = query.bind(key(did).into_owned());
        }
        let mut blocks: Vec<RecordedBlock> = Vec::new();
        for row in &query.fetch_all(&self.pool).await? {
            let (height, time, body): (i64, i64, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            let height = unsigned(height);
            let change = serde_json::from_str(&body).map_err(|error| StoreError::Corrupt(error.to_string()))?;
            match blocks.last_mut().filter(|last| last.block == height) {
                Some(block) => block.changes.push(change),
                None => blocks.push(RecordedBlock {
                    block: height,
                    block_time: iso_millis(time.into()),
                    changes: vec![change],
                }),
            }
        }
        Ok(blocks)
    }

    /// Judged heights from one to another, with their changes, as subscribers get them.
    pub async fn trust_blocks(&self, first: u64, last: u64) -> Result<Vec<RecordedBlock>, StoreError> {
        let last = last.min(self.trust_checkpoint().await?.height);
        let query = ChangeQuery { from: first, until: last, limit: usize::MAX >> 1, ..ChangeQuery::default() };
        let mut changes: BTreeMap<u64, RecordedBlock> =
            self.trust_changes(&query).await?.into_iter().map(|block| (block.block, block)).collect();
        let times = self.block_times(first, last).await?;
        let told = times.into_iter().map(|(block, time)| {
            let empty = || RecordedBlock { block, block_time: iso_millis(time), changes: Vec::new() };
            changes.remove(&block).unwrap_or_else(empty)
        });
        Ok(told.collect())
    }
}

impl TrustSource for Store {
    fn checkpoint(&self) -> BoxFuture<'_, Result<Checkpoint, StoreError>> {
        Box::pin(self.trust_checkpoint())
    }

    fn blocks(&self, first: u64, last: u64) -> BoxFuture<'_, Result<Vec<RecordedBlock>, StoreError>> {
        Box::pin(self.trust_blocks(first, last))
    }
}

async fn write_change(connection: &mut AnyConnection, height: u64, change: &RecordedChange) -> Result<(), StoreError> {
    let body = serde_json::to_string(change).map_err(|error| StoreError::Corrupt(error.to_string()))?;
    sqlx::query(
        "INSERT INTO trust_change (height, did_key, corporation_id, former_corporation_id, body) VALUES ($1, $2, $3, $4, $5)",
    )
        .bind(signed(height))
        .bind(key(&change.did).into_owned())
        .bind(signed(change.corporation_id))
        .bind(change.former_corporation_id.map(signed))
        .bind(body)
        .execute(connection)
        .await?;
    Ok(())
}

async fn write_verdict(connection: &mut AnyConnection, height: u64, verdict: &VerdictWrite) -> Result<(), StoreError> {
    let did_key = key(&verdict.did).into_owned();
    // A DID keeps its number whoever owns it.
    let known = sqlx::query("SELECT id FROM entity WHERE kind = $1 AND name = $2 LIMIT 1")
        .bind(Kind::Verdict.as_str())
        .bind(did_key.as_str())
        .fetch_optional(&mut *connection)
        .await?;
    let id = match known {
        Some(row) => unsigned(row.try_get(0)?),
        None => next_id(connection, "SELECT COALESCE(MAX(id), 0) FROM entity WHERE kind = 'verdict'").await?,
    };
    let change = Change {
        corporation_id: Some(verdict.corporation_id),
        did: Some(verdict.did.clone()),
        name: Some(verdict.did.clone()),
        ..Change::new(Kind::Verdict, Some(id), verdict.body.clone())
    };
    entity::write(connection, height, &change).await?;
    let rows = sqlx::query("SELECT need FROM trust_input WHERE did_key = $1").bind(did_key.as_str());
    let mut former: BTreeSet<String> = verdict.fetched.iter().map(|need| key(need).into_owned()).collect();
    for row in rows.fetch_all(&mut *connection).await? {
        former.insert(row.try_get(0)?);
    }
    sqlx::query("DELETE FROM trust_input WHERE did_key = $1").bind(did_key.as_str()).execute(&mut *connection).await?;
    let inputs: &[String] = if verdict.body.is_some() { &verdict.inputs } else { &[] };
    for need in inputs {
        sqlx::query(
            "INSERT INTO trust_input (did_key, need, did) VALUES ($1, $2, $3) ON CONFLICT (did_key, need) DO NOTHING",
        )
        .bind(did_key.as_str())
        .bind(key(need).into_owned())
        .bind(verdict.did.as_str())
        .execute(&mut *connection)
        .await?;
    }
    // What no verdict rests on any more is not kept.
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
