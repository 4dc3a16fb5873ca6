//! The bodies of the credential routes, as they are sent and as the OpenAPI document describes them.

use serde::Serialize;
use serde_json::{Map, Value};
use svc_agent::{CredentialState, StoredCredential};
use utoipa::{IntoResponses, ToSchema};

use crate::admin::format::{answer::iso_seconds, schema::ErrorBody};

/// A credential of the agent, without its content.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::admin) struct ListedCredential {
    /// Id in the credential.
    id: String,
    /// own, received, issued or schema.
    kind: &'static str,
    /// Name of its presentation.
    name: String,
    /// Schema of the registry.
    schema_id: String,
    /// DID of the issuer.
    issuer: String,
    /// DID of the subject; for the credential of a schema the reference to the schema.
    subject: String,
    /// signed while it waits for its digest, anchored, or withdrawn.
    state: &'static str,
    /// Whether the document links to a presentation of it.
    presented: bool,
    /// Digest as the chain has it.
    digest: String,
    /// The reason for which it waits or was withdrawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reason: Option<String>,
    /// Transaction that has anchored the digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    tx_hash: Option<String>,
    /// End of its validity.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    valid_until: Option<String>,
    /// Time at which it was signed or imported.
    #[schema(format = DateTime)]
    created_at: String,
}

impl From<StoredCredential> for ListedCredential {
    fn from(one: StoredCredential) -> Self {
        Self {
            kind: one.kind.as_str(),
            state: one.state.as_str(),
            presented: one.state == CredentialState::Anchored && one.kind.is_presented(),
            schema_id: one.schema_id.to_string(),
            valid_until: one.valid_until.map(iso_seconds),
            created_at: iso_seconds(one.created_at),
            id: one.id,
            name: one.name,
            issuer: one.issuer,
            subject: one.subject,
            digest: one.digest,
            reason: one.reason,
            tx_hash: one.tx_hash,
        }
    }
}

/// A credential of the agent with its content.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::admin) struct HeldCredential {
    #[serde(flatten)]
    listed: ListedCredential,
    /// The credential.
    #[schema(value_type = Object)]
    credential: Value,
}

impl From<StoredCredential> for HeldCredential {
    fn from(one: StoredCredential) -> Self {
        let credential = serde_json::from_str(&one.body).unwrap_or_default();
        Self { credential, listed: one.into() }
    }
}

/// A credential that another DID has issued to this one.
#[derive(ToSchema)]
#[allow(dead_code)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct NewHeldCredential {
    /// The credential as its issuer has signed it.
    #[schema(value_type = Object)]
    credential: Value,
}

/// A credential to issue.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct NewIssuedCredential {
    /// DID of the subject.
    #[schema(pattern = "^did:")]
    did: String,
    /// Id of the schema.
    #[schema(pattern = "^[1-9][0-9]*$")]
    schema_id: String,
    /// Claims of the schema, without the id of the subject.
    #[schema(value_type = Object)]
    claims: Map<String, Value>,
    /// End of the validity; the longest that is allowed when absent.
    #[schema(nullable = false, format = DateTime)]
    valid_until: Option<String>,
}

/// An issued credential.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::admin) struct IssuedCredential {
    /// The credential, as a file for its subject.
    #[schema(value_type = Object)]
    credential: Value,
    /// Digest as the chain has it.
    digest: String,
    /// Transaction that has anchored the digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    tx_hash: Option<String>,
}

impl From<StoredCredential> for IssuedCredential {
    fn from(one: StoredCredential) -> Self {
        let credential = serde_json::from_str(&one.body).unwrap_or_default();
        Self { credential, digest: one.digest, tx_hash: one.tx_hash }
    }
}

/// The refusals of a change of credentials.
#[derive(IntoResponses)]
#[allow(dead_code)]
pub(in crate::admin) enum CredentialRefusals {
    /// UNKNOWN_ID: no presented credential has this id.
    #[response(status = 404)]
    Unknown(ErrorBody),
    /// NOT_AUTHORIZED: the agent may not issue it. PEER_NOT_AUTHORIZED: the subject may not hold it. INVALID_STATE: the agent's settings
    /// or the number of presentations do not allow it.
    #[response(status = 409)]
    Conflict(ErrorBody),
    /// INVALID_CLAIMS: the claims do not fit the schema.
    #[response(status = 422)]
    Claims(ErrorBody),
}
