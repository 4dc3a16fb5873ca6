//! A grant as a row.

use serde_json::{Map, Value, json};
use sqlx::{Row, any::AnyRow};
use svc_store::StatementBatch;
use svc_wire::endpoint_access::{Material, scope_list, scope_text};

use crate::store::error::AgentStoreError;

/// A grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredGrant {
    /// Id, and that of its token.
    pub id: String,
    /// DID of the peer.
    pub peer: String,
    /// Id of the peer's request.
    pub request_id: String,
    /// The connection that it was granted over.
    pub connection_id: String,
    /// DID URL of the service entry.
    pub endpoint: String,
    /// Its URL then.
    pub url: String,
    /// The material.
    pub material: Material,
    /// The part of the material that is no secret.
    pub details: GrantDetails,
    /// The scopes.
    pub scopes: Vec<String>,
    /// Begin, in seconds since the epoch.
    pub issued_at: i64,
    /// End, in seconds since the epoch.
    pub expires_at: i64,
    /// When it was revoked, in seconds since the epoch.
    pub revoked_at: Option<i64>,
    /// Why.
    pub reason: Option<String>,
}

/// The part of a grant's material that is no secret.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GrantDetails {
    /// Verification method of the key that signs the token.
    pub key_id: Option<String>,
    /// Name of the header of a key.
    pub header: Option<String>,
    /// Schema of the credential.
    pub schema_id: Option<String>,
    /// Its issuer.
    pub issuer: Option<String>,
}

impl GrantDetails {
    fn to_text(&self) -> String {
        let members = [
            ("key_id", &self.key_id),
            ("header", &self.header),
            ("schema_id", &self.schema_id),
            ("issuer", &self.issuer),
        ];
        let present = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value.as_ref()?))));
        Value::Object(present.collect::<Map<_, _>>()).to_string()
    }

    fn read(text: &str) -> Option<Self> {
        let details: Value = serde_json::from_str(text).ok()?;
        let member = |name: &str| details[name].as_str().map(str::to_owned);
        let (key_id, header) = (member("key_id"), member("header"));
        Some(Self { key_id, header, schema_id: member("schema_id"), issuer: member("issuer") })
    }
}

/// State of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantState {
    /// It is valid.
    Active,
    /// Its time is over.
    Expired,
    /// It was taken back.
    Revoked,
}

impl GrantState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Active, Self::Expired, Self::Revoked];

    /// Returns the name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }

    /// The state with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == name)
    }
}

pub(super) const COLUMNS: &str = "id, peer, request_id, connection_id, endpoint, url, material, details, scopes, issued_at, \
                                  expires_at, revoked_at, reason";

impl StoredGrant {
    pub(super) fn read(row: &AnyRow) -> Result<Self, AgentStoreError> {
        let corrupt = || AgentStoreError::CorruptRow("a grant of access".to_owned());
        let (material, details, scopes): (String, String, String) =
            (row.try_get("material")?, row.try_get("details")?, row.try_get("scopes")?);
        Ok(Self {
            id: row.try_get("id")?,
            peer: row.try_get("peer")?,
            request_id: row.try_get("request_id")?,
            connection_id: row.try_get("connection_id")?,
            endpoint: row.try_get("endpoint")?,
            url: row.try_get("url")?,
            material: Material::from_name(&material).ok_or_else(corrupt)?,
            details: GrantDetails::read(&details).ok_or_else(corrupt)?,
            scopes: scope_list(&scopes).ok_or_else(corrupt)?,
            issued_at: row.try_get("issued_at")?,
            expires_at: row.try_get("expires_at")?,
            revoked_at: row.try_get("revoked_at")?,
            reason: row.try_get("reason")?,
        })
    }

    /// Writes the row of a new grant.
    pub(in crate::store) fn insert(&self, batch: &mut StatementBatch) {
        let sql = "INSERT INTO access_grant (id, peer, request_id, connection_id, endpoint, url, material, details, scopes, \
                   issued_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
        batch.add(
            sql,
            [
                self.id.as_str().into(),
                self.peer.as_str().into(),
                self.request_id.as_str().into(),
                self.connection_id.as_str().into(),
                self.endpoint.as_str().into(),
                self.url.as_str().into(),
                self.material.as_str().into(),
                self.details.to_text().into(),
                scope_text(&self.scopes).into(),
                self.issued_at.into(),
                self.expires_at.into(),
            ],
        );
    }

    /// Its state at a time, in seconds since the epoch.
    pub fn state(&self, now: i64) -> GrantState {
        match self.revoked_at {
            Some(_) => GrantState::Revoked,
            None if self.expires_at > now => GrantState::Active,
            None => GrantState::Expired,
        }
    }
}
