//! A grant as a row.

use serde_json::{Map, Value, json};
use sqlx::{Row, any::AnyRow};
use svc_agent_core::access::{GrantDetails, StoredGrant};
use svc_store::StatementBatch;
use svc_wire::endpoint_access::{Material, scope_list, scope_text};

use crate::{columns::to_column, error::AgentStoreError};

fn details_text(details: &GrantDetails) -> String {
    let members = [
        ("key_id", &details.key_id),
        ("header", &details.header),
        ("schema_id", &details.schema_id),
        ("issuer", &details.issuer),
    ];
    let present = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value.as_ref()?))));
    Value::Object(present.collect::<Map<_, _>>()).to_string()
}

fn read_details(text: &str) -> Option<GrantDetails> {
    let details: Value = serde_json::from_str(text).ok()?;
    let member = |name: &str| details[name].as_str().map(str::to_owned);
    let (key_id, header) = (member("key_id"), member("header"));
    Some(GrantDetails { key_id, header, schema_id: member("schema_id"), issuer: member("issuer") })
}

pub const COLUMNS: &str = "id, peer, request_id, connection_id, endpoint, url, material, details, scopes, issued_at, \
                                  expires_at, revoked_at, reason";

pub fn read_grant(row: &AnyRow) -> Result<StoredGrant, AgentStoreError> {
    let corrupt = || AgentStoreError::CorruptRow("a grant of access".to_owned());
    let (material, details, scopes): (String, String, String) =
        (row.try_get("material")?, row.try_get("details")?, row.try_get("scopes")?);
    Ok(StoredGrant {
        id: row.try_get("id")?,
        peer: row.try_get("peer")?,
        request_id: row.try_get("request_id")?,
        connection_id: row.try_get("connection_id")?,
        endpoint: row.try_get("endpoint")?,
        url: row.try_get("url")?,
        material: Material::from_name(&material).ok_or_else(corrupt)?,
        details: read_details(&details).ok_or_else(corrupt)?,
        scopes: scope_list(&scopes).ok_or_else(corrupt)?,
        issued_at: row.try_get("issued_at")?,
        expires_at: row.try_get("expires_at")?,
        revoked_at: row.try_get("revoked_at")?,
        reason: row.try_get("reason")?,
    })
}

/// Writes the row of a new grant, while the numbers of valid grants are those that were counted at a time: of the peer for the endpoint, and
/// of all up to a bound. Returns no row where they are not, or where the peer has a grant of the same request.
pub fn insert_grant(
    batch: &mut StatementBatch,
    grant: &StoredGrant,
    counted_at: i64,
    of_peer: u64,
    (all, max_counted): (u64, u64),
) {
    let sql = "INSERT INTO access_grant (id, peer, request_id, connection_id, endpoint, url, material, details, scopes, \
               issued_at, expires_at) SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11 \
               WHERE NOT EXISTS (SELECT 1 FROM access_grant WHERE peer = $2 AND request_id = $3) \
               AND (SELECT COUNT(*) FROM access_grant WHERE peer = $2 AND endpoint = $5 AND expires_at > $12 \
               AND revoked_at IS NULL) = $13 \
               AND (SELECT COUNT(*) FROM (SELECT 1 AS one FROM access_grant WHERE expires_at > $12 AND revoked_at IS NULL \
               LIMIT $14) AS counted) = $15 \
               AND (SELECT valid_from FROM access_validity WHERE one = 1) <= $10 RETURNING id";
    batch.add(
        sql,
        [
            grant.id.as_str().into(),
            grant.peer.as_str().into(),
            grant.request_id.as_str().into(),
            grant.connection_id.as_str().into(),
            grant.endpoint.as_str().into(),
            grant.url.as_str().into(),
            grant.material.as_str().into(),
            details_text(&grant.details).into(),
            scope_text(&grant.scopes).into(),
            grant.issued_at.into(),
            grant.expires_at.into(),
            counted_at.into(),
            to_column(of_peer).into(),
            to_column(max_counted).into(),
            to_column(all).into(),
        ],
    );
}
