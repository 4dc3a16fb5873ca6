//! The credentials of a store: those that the DID presents, and those that it has issued.

use sqlx::{AnyConnection, Row, any::AnyRow};
use svc_store::GroupTransaction;

use super::{
    agent_store::AgentStore,
    columns::{from_column, to_column},
    error::AgentStoreError,
};

/// The part that a credential has for the DID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CredentialKind {
    /// Issued by the DID to itself.
    Own,
    /// Issued to the DID by another.
    Received,
    /// Issued by the DID to another.
    Issued,
    /// The credential of a schema of an ecosystem with this DID.
    Schema,
}

/// The state of a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialState {
    /// Signed and stored; its digest is not at the node yet.
    Signed,
    /// Its digest is at the node. Those about the DID itself, and those of schemas, are presented.
    Anchored,
    /// It does not count any more: another one has replaced it, or a participant has ended.
    Withdrawn,
}

impl CredentialKind {
    const ALL: [Self; 4] = [Self::Own, Self::Received, Self::Issued, Self::Schema];

    /// Returns the name in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Received => "received",
            Self::Issued => "issued",
            Self::Schema => "schema",
        }
    }

    /// Reads the name in the store.
    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == name)
    }

    /// Whether the document links to a presentation of it.
    pub fn is_presented(self) -> bool {
        self != Self::Issued
    }
}

impl CredentialState {
    const ALL: [Self; 3] = [Self::Signed, Self::Anchored, Self::Withdrawn];

    /// Returns the name in the store and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Signed => "signed",
            Self::Anchored => "anchored",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// A credential of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCredential {
    /// Id in the credential.
    pub id: String,
    /// Its part for the DID.
    pub kind: CredentialKind,
    /// Name of its presentation: `service`, `org`, `persona`, or the id of the schema.
    pub name: String,
    /// Schema of the registry.
    pub schema_id: u64,
    /// DID of the issuer.
    pub issuer: String,
    /// DID of the subject; for the credential of a schema the reference to the schema.
    pub subject: String,
    /// Participant of the issuer by which it was issued; 0 for the credential of a schema.
    pub issuer_participant: u64,
    /// Digest as the chain has it, `sha384-…`.
    pub digest: String,
    /// Digest of the claims, by which equal ones are known again.
    pub claims_digest: String,
    /// Verification method of its proof.
    pub proof_method: String,
    /// The credential as JSON.
    pub body: String,
    /// State.
    pub state: CredentialState,
    /// The reason for which it waits or was withdrawn.
    pub reason: Option<String>,
    /// Transaction that has anchored the digest.
    pub tx_hash: Option<String>,
    /// End of its validity, seconds since the epoch.
    pub valid_until: Option<i64>,
    /// Time at which it was stored, seconds since the epoch.
    pub created_at: i64,
}

impl StoredCredential {
    /// The credential as JSON; null where the row has none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

/// The reason of a credential that was withdrawn before anything of it was sent, because its key had left the document.
pub const KEY_REMOVED: &str = "KEY_REMOVED";
/// The reason of one whose digest was in a block that the chain has lost: it is looked for at the node before anything is sent.
pub const CHAIN_CHANGED: &str = "CHAIN_CHANGED";
/// The reason of one that was withdrawn before anything of it was sent, because it was out of date.
pub const NOT_SENT: &str = "NOT_SENT";

pub(super) const COLUMNS: &str = "id, kind, name, schema_id, issuer, subject, issuer_participant, digest, claims_digest, proof_method, body, state, reason, \
                       tx_hash, valid_until, created_at";

fn parse_credential(row: &AnyRow) -> Result<StoredCredential, AgentStoreError> {
    let (id, kind, state): (String, String, String) = (row.try_get("id")?, row.try_get("kind")?, row.try_get("state")?);
    let corrupt = || AgentStoreError::CorruptRow(format!("credential {id:?}"));
    let kind = CredentialKind::parse(&kind).ok_or_else(corrupt)?;
    let state = CredentialState::ALL.into_iter().find(|known| known.as_str() == state).ok_or_else(corrupt)?;
    Ok(StoredCredential {
        kind,
        state,
        name: row.try_get("name")?,
        schema_id: from_column(row.try_get("schema_id")?),
        issuer: row.try_get("issuer")?,
        subject: row.try_get("subject")?,
        issuer_participant: from_column(row.try_get("issuer_participant")?),
        digest: row.try_get("digest")?,
        claims_digest: row.try_get("claims_digest")?,
        proof_method: row.try_get("proof_method")?,
        body: row.try_get("body")?,
        reason: row.try_get("reason")?,
        tx_hash: row.try_get("tx_hash")?,
        valid_until: row.try_get("valid_until")?,
        created_at: row.try_get("created_at")?,
        id,
    })
}

pub(super) fn parse_all(rows: &[AnyRow]) -> Result<Vec<StoredCredential>, AgentStoreError> {
    rows.iter().map(parse_credential).collect()
}

impl AgentStore {
    /// Returns the credentials about the DID itself and those of its schemas that are not withdrawn, the newest last.
    pub async fn held_credentials(&self) -> Result<Vec<StoredCredential>, AgentStoreError> {
        let sql = sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS} FROM credential WHERE state IN ('signed', 'anchored') AND kind IN ('own', 'received', 'schema') \
             ORDER BY created_at, id"
        ));
        parse_all(&sqlx::query(sql).fetch_all(self.reader()).await?)
    }

    /// Returns credentials that the DID has issued and that wait for their digest. They are chosen by chance, so that those which wait for
    /// ever hold up none of the others.
    pub async fn waiting_credentials(&self, limit: u32) -> Result<Vec<StoredCredential>, AgentStoreError> {
        let sql = sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS} FROM credential WHERE state = 'signed' AND kind = 'issued' ORDER BY RANDOM() LIMIT $1"
        ));
        parse_all(&sqlx::query(sql).bind(i64::from(limit)).fetch_all(self.reader()).await?)
    }

    /// Returns a page of issued credentials behind an id, in the order of their ids.
    pub async fn issued_credentials(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredCredential>, AgentStoreError> {
        let sql = sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS} FROM credential WHERE kind IN ('own', 'issued') AND id > $1 ORDER BY id LIMIT $2"
        ));
        let rows = sqlx::query(sql)
            .bind(after.unwrap_or_default())
            .bind(i64::try_from(limit).unwrap_or(i64::MAX))
            .fetch_all(self.reader())
            .await?;
        parse_all(&rows)
    }

    /// Returns a credential.
    pub async fn credential(&self, id: &str) -> Result<Option<StoredCredential>, AgentStoreError> {
        let sql = sqlx::AssertSqlSafe(format!("SELECT {COLUMNS} FROM credential WHERE id = $1"));
        let row = sqlx::query(sql).bind(id).fetch_optional(self.reader()).await?;
        row.as_ref().map(parse_credential).transpose()
    }

    /// Returns the newest issued credential with these claims that is not withdrawn.
    pub async fn find_issued(
        &self,
        subject: &str,
        schema_id: u64,
        claims_digest: &str,
    ) -> Result<Option<StoredCredential>, AgentStoreError> {
        let sql = sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS} FROM credential WHERE subject = $1 AND schema_id = $2 AND claims_digest = $3 AND kind = 'issued' \
             AND state <> 'withdrawn' ORDER BY created_at DESC, id DESC LIMIT 1"
        ));
        let row = sqlx::query(sql)
            .bind(subject)
            .bind(to_column(schema_id))
            .bind(claims_digest)
            .fetch_optional(self.reader())
            .await?;
        row.as_ref().map(parse_credential).transpose()
    }

    /// Returns the time at which the DID last issued itself a credential of a schema with this name, and the participant by which it did. One
    /// that was withdrawn before anything of it was sent does not count.
    pub async fn last_own_issue(&self, schema_id: u64, name: &str) -> Result<Option<(i64, u64)>, AgentStoreError> {
        let sql = "SELECT created_at, issuer_participant FROM credential WHERE kind = 'own' AND schema_id = $1 AND name = $2 \
                   AND NOT (state = 'withdrawn' AND reason IN ($3, $4)) \
                   ORDER BY created_at DESC LIMIT 1";
        let row = sqlx::query(sql)
            .bind(to_column(schema_id))
            .bind(name)
            .bind(KEY_REMOVED)
            .bind(NOT_SENT)
            .fetch_optional(self.reader())
            .await?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some((row.try_get(0)?, from_column(row.try_get(1)?))))
    }

    /// Writes a new credential. One that is already there stays as it is.
    pub async fn write_credential(&self, credential: &StoredCredential) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        insert_credential(&mut transaction, credential).await?;
        Ok(transaction.commit().await?)
    }

    /// Notes that the digest of a credential is at the node. An older one about the same subject, of the same schema and kind, is
    /// replaced by it.
    pub async fn note_anchored(
        &self,
        credential: &StoredCredential,
        tx_hash: Option<&str>,
    ) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        let sql = "UPDATE credential SET state = 'anchored', reason = NULL, tx_hash = COALESCE($2, tx_hash) \
                   WHERE id = $1 AND state = 'signed'";
        let updated = sqlx::query(sql).bind(&credential.id).bind(tx_hash).execute(&mut *transaction).await?;
        // One that was withdrawn meanwhile replaces none.
        if updated.rows_affected() == 1 && credential.kind.is_presented() {
            withdraw_others(&mut transaction, credential).await?;
        }
        Ok(transaction.commit().await?)
    }

    /// Takes a credential that was received from its issuer, in place of the one with the same name. Returns whether it was taken: not when
    /// another credential has its id, which is text of its issuer.
    pub async fn replace_received(&self, credential: &StoredCredential) -> Result<bool, AgentStoreError> {
        let mut transaction = self.begin().await?;
        let sql = "DELETE FROM credential WHERE id = $1 AND kind = 'received' AND issuer = $2 AND schema_id = $3";
        sqlx::query(sql)
            .bind(&credential.id)
            .bind(&credential.issuer)
            .bind(to_column(credential.schema_id))
            .execute(&mut *transaction)
            .await?;
        let is_taken = insert_credential(&mut transaction, credential).await?;
        if is_taken {
            withdraw_others(&mut transaction, credential).await?;
        }
        transaction.commit().await?;
        Ok(is_taken)
    }

    /// Gives a credential another name, in place of the one that has it.
    pub async fn rename_credential(&self, credential: &StoredCredential, name: &str) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        let sql = "UPDATE credential SET name = $2 WHERE id = $1 AND state <> 'withdrawn'";
        let renamed = sqlx::query(sql).bind(&credential.id).bind(name).execute(&mut *transaction).await?;
        // One that waits replaces none before it is anchored.
        if renamed.rows_affected() == 1 && credential.state == CredentialState::Anchored {
            withdraw_others(&mut transaction, &StoredCredential { name: name.to_owned(), ..credential.clone() })
                .await?;
        }
        Ok(transaction.commit().await?)
    }

    /// Returns the verification methods that the proofs of a kind of credentials in use need.
    pub async fn proof_methods(&self, kind: CredentialKind) -> Result<Vec<String>, AgentStoreError> {
        let sql = "SELECT DISTINCT proof_method FROM credential WHERE state IN ('signed', 'anchored') AND kind = $1";
        let rows = sqlx::query(sql).bind(kind.as_str()).fetch_all(self.reader()).await?;
        Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
    }

    /// Takes all credentials of a kind out of use that a key has proven.
    pub async fn withdraw_of_method(
        &self,
        kind: CredentialKind,
        method: &str,
        reason: &str,
    ) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        let sql = "UPDATE credential SET state = 'withdrawn', reason = $3 \
                   WHERE kind = $1 AND proof_method = $2 AND state <> 'withdrawn'";
        sqlx::query(sql).bind(kind.as_str()).bind(method).bind(reason).execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }

    /// Notes the reason for which a credential waits.
    pub async fn note_waiting(&self, id: &str, reason: &str) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        let sql = "UPDATE credential SET reason = $2 WHERE id = $1 AND state = 'signed'";
        sqlx::query(sql).bind(id).bind(reason).execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }

    /// Takes credentials out of use, each with its reason.
    pub async fn withdraw_credentials(&self, withdrawn: &[(String, String)]) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        for (id, reason) in withdrawn {
            let sql = "UPDATE credential SET state = 'withdrawn', reason = $2 WHERE id = $1";
            sqlx::query(sql).bind(id).bind(reason).execute(&mut *transaction).await?;
        }
        Ok(transaction.commit().await?)
    }
}

async fn insert_credential(
    transaction: &mut GroupTransaction,
    credential: &StoredCredential,
) -> Result<bool, AgentStoreError> {
    let sql = sqlx::AssertSqlSafe(format!(
        "INSERT INTO credential ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) \
         ON CONFLICT (id) DO NOTHING"
    ));
    let connection: &mut AnyConnection = transaction;
    let inserted = sqlx::query(sql)
        .bind(&credential.id)
        .bind(credential.kind.as_str())
        .bind(&credential.name)
        .bind(to_column(credential.schema_id))
        .bind(&credential.issuer)
        .bind(&credential.subject)
        .bind(to_column(credential.issuer_participant))
        .bind(&credential.digest)
        .bind(&credential.claims_digest)
        .bind(&credential.proof_method)
        .bind(&credential.body)
        .bind(credential.state.as_str())
        .bind(credential.reason.as_deref())
        .bind(credential.tx_hash.as_deref())
        .bind(credential.valid_until)
        .bind(credential.created_at)
        .execute(connection)
        .await?;
    Ok(inserted.rows_affected() == 1)
}

/// A DID presents one credential of a name: the others about it are replaced, also those of an earlier schema.
async fn withdraw_others(
    transaction: &mut GroupTransaction,
    credential: &StoredCredential,
) -> Result<(), AgentStoreError> {
    let sql = "UPDATE credential SET state = 'withdrawn', reason = 'REPLACED' \
               WHERE name = $1 AND subject = $2 AND id <> $3 AND kind <> 'issued' AND state <> 'withdrawn'";
    let connection: &mut AnyConnection = transaction;
    sqlx::query(sql).bind(&credential.name).bind(&credential.subject).bind(&credential.id).execute(connection).await?;
    Ok(())
}
