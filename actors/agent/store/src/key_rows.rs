//! Changes of private keys in a store, the state of a rotation, and the credentials that each key proves.

use sqlx::Row;

use super::{
    agent_store::AgentStore,
    columns::{from_column, to_column},
    credential_rows::CredentialKind,
    error::AgentStoreError,
    sealing::{PrivateKey, ResealedKey},
};

/// The kind of the rotations that have several steps; the others are one write.
const DOCUMENT_KIND: &str = "document";

/// The newest step of a rotation of the document's keys that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RotationPhase {
    /// Nothing is published yet.
    Requested,
    /// The document names the new pair behind the old one.
    Added,
    /// The new pair signs presentations and credentials.
    Resigned,
    /// The old pair proves credentials of the past and nothing more.
    Retired,
    /// Own credentials are proven by the new pair.
    Reissued,
    /// The new pair has taken the place of all others at once.
    Replaced,
}

impl RotationPhase {
    const ALL: [Self; 6] =
        [Self::Requested, Self::Added, Self::Resigned, Self::Retired, Self::Reissued, Self::Replaced];

    /// Returns the name in the store and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Added => "added",
            Self::Resigned => "resigned",
            Self::Retired => "retired",
            Self::Reissued => "reissued",
            Self::Replaced => "replaced",
        }
    }
}

/// A rotation of the document's keys that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredRotation {
    /// Version of the new pair.
    pub new_version: u64,
    /// The newest step that has ended.
    pub phase: RotationPhase,
    /// Time at which it ended, seconds since the epoch.
    pub since: i64,
    /// Whether own credentials are to be proven by the new pair.
    pub reissue: bool,
    /// Whether the old pairs leave the document at once.
    pub is_compromised: bool,
}

/// The number of live credentials that a key proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyUse {
    /// Id of the verification method.
    pub method: String,
    /// Credentials that are neither withdrawn nor at their end, with those that wait for their digest.
    pub credentials: u64,
}

/// Private keys that were encrypted once more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResealedKeys {
    /// All of them.
    pub keys: u64,
    /// Those that the previous store key had encrypted.
    pub from_previous: u64,
}

impl AgentStore {
    /// Writes private keys that no document names yet. A key that is there stays as it is.
    pub async fn write_new_keys(&self, did: &str, keys: &[PrivateKey]) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        for key in keys {
            let sql = "INSERT INTO private_key (name, version, sealed) VALUES ($1, $2, $3) \
                       ON CONFLICT (name, version) DO NOTHING";
            sqlx::query(sql)
                .bind(&key.name)
                .bind(to_column(key.version))
                .bind(self.keys().seal(did, key)?)
                .execute(&mut *transaction)
                .await?;
        }
        Ok(transaction.commit().await?)
    }

    /// Puts another secret in the place of a private key.
    pub async fn replace_key(&self, did: &str, key: &PrivateKey) -> Result<(), AgentStoreError> {
        let sealed = self.keys().seal(did, key)?;
        let mut transaction = self.begin().await?;
        let sql = "UPDATE private_key SET sealed = $3 WHERE name = $1 AND version = $2";
        let query = sqlx::query(sql).bind(key.name.clone()).bind(to_column(key.version)).bind(sealed);
        query.execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }

    /// Whether the store key is being changed: a previous one is configured.
    pub fn has_previous_key(&self) -> bool {
        self.keys().previous.is_some()
    }

    /// Encrypts every private key with the current store key, in one transaction: after it the previous one opens none of them. A
    /// repetition encrypts them once more. Fails when one of them does not open; then all stay as they are.
    pub async fn reseal_keys(&self, did: &str) -> Result<ResealedKeys, AgentStoreError> {
        // The transaction is the only writer: no key comes in between.
        let mut transaction = self.begin().await?;
        let sql = "SELECT name, version, sealed FROM private_key ORDER BY name, version";
        let rows = sqlx::query(sql).fetch_all(&mut *transaction).await?;
        let mut resealed = ResealedKeys::default();
        for row in &rows {
            let (name, version, sealed): (String, i64, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            let ResealedKey { sealed, was_current } = self.keys().reseal(did, &name, from_column(version), &sealed)?;
            let sql = "UPDATE private_key SET sealed = $3 WHERE name = $1 AND version = $2";
            sqlx::query(sql).bind(&name).bind(version).bind(sealed).execute(&mut *transaction).await?;
            resealed.keys += 1;
            resealed.from_previous += u64::from(!was_current);
        }
        transaction.commit().await?;
        Ok(resealed)
    }

    /// Returns the rotation that has not ended.
    pub async fn rotation(&self) -> Result<Option<StoredRotation>, AgentStoreError> {
        let sql = "SELECT phase, since, new_version, reissue, compromised FROM key_rotation WHERE one = 1";
        let row = sqlx::query(sql).fetch_optional(self.reader()).await?;
        let Some(row) = row else { return Ok(None) };
        let phase: String = row.try_get("phase")?;
        let known = RotationPhase::ALL.into_iter().find(|known| known.as_str() == phase);
        let phase = known.ok_or_else(|| AgentStoreError::CorruptRow(format!("the phase {phase:?} of a rotation")))?;
        let flag = |column: &str| Ok::<_, sqlx::Error>(row.try_get::<i64, _>(column)? != 0);
        Ok(Some(StoredRotation {
            phase,
            since: row.try_get("since")?,
            new_version: from_column(row.try_get("new_version")?),
            reissue: flag("reissue")?,
            is_compromised: flag("compromised")?,
        }))
    }

    /// Writes the state of a rotation, in the place of an earlier one.
    pub async fn write_rotation(&self, rotation: &StoredRotation) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        let sql = "INSERT INTO key_rotation (one, kind, phase, since, new_version, reissue, compromised) \
                   VALUES (1, $1, $2, $3, $4, $5, $6) ON CONFLICT (one) DO UPDATE SET \
                   kind = $1, phase = $2, since = $3, new_version = $4, reissue = $5, compromised = $6";
        sqlx::query(sql)
            .bind(DOCUMENT_KIND)
            .bind(rotation.phase.as_str())
            .bind(rotation.since)
            .bind(to_column(rotation.new_version))
            .bind(i64::from(rotation.reissue))
            .bind(i64::from(rotation.is_compromised))
            .execute(&mut *transaction)
            .await?;
        Ok(transaction.commit().await?)
    }

    /// Removes a rotation that has ended. One of another version stays.
    pub async fn end_rotation(&self, new_version: u64) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        let sql = "DELETE FROM key_rotation WHERE new_version = $1";
        sqlx::query(sql).bind(to_column(new_version)).execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }

    /// Counts the live credentials of the DID that each of these keys proves, own ones and those of others. `now` is in seconds since
    /// the epoch.
    pub async fn key_uses(&self, methods: &[String], now: i64) -> Result<Vec<KeyUse>, AgentStoreError> {
        let sql = "SELECT CAST(COUNT(*) AS BIGINT) FROM credential WHERE proof_method = $1 AND kind <> 'received' \
                   AND state <> 'withdrawn' AND (valid_until IS NULL OR valid_until > $2)";
        let mut uses = Vec::new();
        for method in methods {
            let count: i64 = sqlx::query_scalar(sql).bind(method).bind(now).fetch_one(self.reader()).await?;
            uses.push(KeyUse { method: method.clone(), credentials: from_column(count) });
        }
        Ok(uses)
    }

    /// Returns the ids of the live credentials of a kind that these keys prove.
    pub async fn credentials_of_keys(
        &self,
        methods: &[String],
        kind: CredentialKind,
        now: i64,
    ) -> Result<Vec<String>, AgentStoreError> {
        let sql = "SELECT id FROM credential WHERE proof_method = $1 AND kind = $2 AND state <> 'withdrawn' \
                   AND (valid_until IS NULL OR valid_until > $3) ORDER BY id";
        let mut ids = Vec::new();
        for method in methods {
            let query = sqlx::query_scalar(sql).bind(method).bind(kind.as_str()).bind(now);
            let found: Vec<String> = query.fetch_all(self.reader()).await?;
            ids.extend(found);
        }
        Ok(ids)
    }
}
