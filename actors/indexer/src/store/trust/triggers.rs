//! The parts of a block that can change verdicts, and the registry state that verdicts are about.

use std::collections::BTreeMap;

use serde_json::Value;
use sqlx::Row;

use crate::{
    derive::stats::StatsScope,
    store::{
        chain::{entity::EntityFilter, entity_kind::EntityKind},
        columns::{from_column, to_column},
        error::IndexStoreError,
        index_store::IndexStore,
    },
};

/// A version of an entity that a block ended or began.
#[derive(Debug, Clone)]
pub struct TouchedEntity {
    pub kind: EntityKind,
    pub body: Value,
    /// Whether the block began this version.
    pub is_new: bool,
}

impl IndexStore {
    /// Returns the DIDs that are still to be evaluated, each with whether its evidence must be fetched again.
    pub async fn list_pending_dids(&self) -> Result<BTreeMap<String, bool>, IndexStoreError> {
        let rows = sqlx::query("SELECT did, fresh FROM trust_job").fetch_all(&mut *self.connection().await?).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get::<i64, _>(1)? != 0))).collect()
    }

    /// Has every DID with a verdict evaluated again when the verdicts were made with other rules than these. Returns whether they were.
    pub async fn adopt_trust_rules(&self, rules: &str) -> Result<bool, IndexStoreError> {
        let mut transaction = self.writer.begin().await?;
        let known = sqlx::query("SELECT value FROM meta WHERE name = 'trust_rules'");
        let known = known.fetch_optional(&mut *transaction).await?;
        let known: Option<String> = known.map(|row| row.try_get(0)).transpose()?;
        if known.as_deref() == Some(rules) {
            return Ok(false);
        }
        sqlx::query(
            "INSERT INTO trust_job (did_key, did, fresh) SELECT did_key, MIN(did), 0 FROM trust_input WHERE 1 = 1 GROUP BY did_key \
             ON CONFLICT (did_key) DO NOTHING",
        )
        .execute(&mut *transaction)
        .await?;
        sqlx::query(
            "INSERT INTO meta (name, value) VALUES ('trust_rules', $1) ON CONFLICT (name) DO UPDATE SET value = $1",
        )
        .bind(rules)
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(true)
    }

    /// Returns the heights of blocks that changed state on which verdicts can depend.
    pub async fn list_changed_heights(&self, first: u64, last: u64) -> Result<Vec<u64>, IndexStoreError> {
        let rows = sqlx::query(
            "SELECT from_height AS height FROM entity WHERE from_height >= $1 AND from_height <= $2 AND kind <> 'verdict' \
             UNION SELECT until_height FROM entity WHERE until_height >= $1 AND until_height <= $2 AND kind <> 'verdict' \
             UNION SELECT height FROM measure WHERE height >= $1 AND height <= $2 \
             UNION SELECT height FROM activity WHERE height >= $1 AND height <= $2 AND msg = 'TriggerResolver' ORDER BY 1",
        )
        .bind(to_column(first))
        .bind(to_column(last))
        .fetch_all(&mut *self.connection().await?)
        .await?;
        rows.iter().map(|row| Ok(from_column(row.try_get(0)?))).collect()
    }

    /// Returns the entities that a block touched, as they were before it and after it.
    pub async fn list_touched_entities(&self, height: u64) -> Result<Vec<TouchedEntity>, IndexStoreError> {
        let rows = sqlx::query("SELECT kind, body, 1 AS is_new FROM entity WHERE from_height = $1 UNION ALL SELECT kind, body, 0 AS is_new FROM entity WHERE until_height = $1")
            .bind(to_column(height))
            .fetch_all(&mut *self.connection().await?)
            .await?;
        let mut found = Vec::new();
        for row in &rows {
            let (name, text): (String, String) = (row.try_get(0)?, row.try_get(1)?);
            let Some(kind) = EntityKind::parse(&name) else { continue };
            let body = serde_json::from_str(&text).map_err(|error| IndexStoreError::CorruptRow(error.to_string()))?;
            found.push(TouchedEntity { kind, body, is_new: row.try_get::<i64, _>(2)? != 0 });
        }
        Ok(found)
    }

    /// Returns the ids of the participants for whose DIDs a block requests fresh evidence.
    pub async fn list_refresh_requests(&self, height: u64) -> Result<Vec<u64>, IndexStoreError> {
        let rows = sqlx::query(
            "SELECT DISTINCT entity_key FROM activity WHERE height = $1 AND entity_type = $2 AND msg = 'TriggerResolver'",
        )
        .bind(to_column(height))
        .bind(EntityKind::Participant.entity_type())
        .fetch_all(&mut *self.connection().await?)
        .await?;
        rows.iter()
            .map(|row| {
                let text: String = row.try_get(0)?;
                text.parse().map_err(|_| IndexStoreError::CorruptRow(format!("participant {text:?}")))
            })
            .collect()
    }

    /// Returns the scopes with measures that a block changed.
    pub async fn list_changed_scopes(&self, height: u64) -> Result<Vec<StatsScope>, IndexStoreError> {
        let rows = sqlx::query("SELECT scope, scope_id FROM measure WHERE height = $1")
            .bind(to_column(height))
            .fetch_all(&mut *self.connection().await?)
            .await?;
        rows.iter()
            .map(|row| Ok(StatsScope::from_key(from_column(row.try_get(0)?), from_column(row.try_get(1)?))))
            .filter_map(Result::transpose)
            .collect()
    }

    /// Returns the corporation of a DID: the corporation that has the DID, else the owner of a participant or an
    /// ecosystem that has it. `None` when the registry does not contain the DID.
    pub async fn find_owner(&self, did: &str, height: u64) -> Result<Option<u64>, IndexStoreError> {
        let by_did = EntityFilter { did: Some(did.to_owned()), ..EntityFilter::default() };
        if let Some(own) = self.find_entity(EntityKind::Corporation, &by_did, height).await? {
            return Ok(Some(own.id));
        }
        for kind in [EntityKind::Participant, EntityKind::Ecosystem] {
            let found = self.find_entity(kind, &by_did, height).await?;
            if let Some(owner) = found.and_then(|stored| stored.body["corporation_id"].as_u64()) {
                return Ok(Some(owner));
            }
        }
        Ok(None)
    }

    /// Returns the verdict on a DID that is valid at `height`.
    pub async fn verdict(&self, did: &str, height: u64) -> Result<Option<Value>, IndexStoreError> {
        let filter = EntityFilter { name: Some(did.to_owned()), ..EntityFilter::default() };
        Ok(self.find_entity(EntityKind::Verdict, &filter, height).await?.map(|stored| stored.body))
    }
}
