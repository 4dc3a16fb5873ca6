//! The bodies of the rotation of keys.

use serde::Serialize;
use svc_agent::RotationAnswer;
use utoipa::{IntoResponses, ToSchema};

use crate::admin::format::schema::ErrorBody;

/// The keys to rotate.
#[derive(ToSchema)]
#[allow(dead_code)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct KeyRotation {
    /// update: the key of the log. document: the keys of the DID Document. store: the key that encrypts the private keys.
    #[schema(pattern = "^(update|document|store)$")]
    kind: String,
    /// Whether a thief may have the keys of the document: they leave it at once.
    #[schema(nullable = false)]
    compromised: Option<bool>,
    /// Whether own credentials are issued again, so that the old key can leave the document earlier.
    #[schema(nullable = false)]
    reissue: Option<bool>,
}

/// A rotation that has begun, or has ended where it is one step.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::admin) struct RotatedKeys {
    /// Id of the newest version of the document.
    version_id: String,
    /// Version of the document's new keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    key_version: Option<u64>,
    /// Ids of credentials of others that have lost their proof.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    lost_credentials: Vec<String>,
    /// Ids of credentials of own schemas that have lost their proof.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    lost_schema_credentials: Vec<String>,
    /// Private keys that had the previous store key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    resealed: Option<u64>,
}

impl From<RotationAnswer> for RotatedKeys {
    fn from(rotated: RotationAnswer) -> Self {
        Self {
            version_id: rotated.version_id,
            key_version: rotated.key_version,
            lost_credentials: rotated.lost_credentials,
            lost_schema_credentials: rotated.lost_schema_credentials,
            resealed: rotated.resealed,
        }
    }
}

/// The refusals of a rotation.
#[derive(IntoResponses)]
#[allow(dead_code)]
pub(in crate::admin) enum RotationRefusals {
    /// INVALID_STATE: another rotation runs, or no store key is being changed.
    #[response(status = 409)]
    Conflict(ErrorBody),
}
