//! The bodies of the routes about access, as the OpenAPI document describes them.

use utoipa::{IntoResponses, ToSchema};

use crate::admin::format::schema::ErrorBody;

/// A request for access to an endpoint of a peer.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code)]
pub(in crate::admin) struct NewAccessRequest {
    /// DID URL of a service entry of the peer.
    #[schema(pattern = "^did:[^#]+#.+$", max_length = 2048)]
    endpoint: String,
    /// Scopes, at most 16; those of the endpoint by default.
    #[schema(nullable = false, max_items = 16)]
    scopes: Option<Vec<String>>,
    /// Materials that the caller can use: none, bearer, key, credential; all by default.
    #[schema(nullable = false, max_items = 16)]
    accept: Option<Vec<String>>,
    /// Wait for the peer's answer, from 1000 to 120000 milliseconds; ENDPOINT_ACCESS_TIMEOUT_MS by default.
    #[schema(nullable = false, minimum = 1000, maximum = 120_000)]
    timeout_ms: Option<u32>,
    /// requestId of a material that the endpoint has refused: it is not used again, and the peer is asked for another one.
    #[schema(nullable = false)]
    replaces: Option<String>,
}

/// The material of an endpoint of a peer. The agent keeps it in memory only.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code)]
pub(in crate::admin) struct AccessMaterial {
    /// UUID of the request.
    request_id: String,
    /// DID URL of the service entry.
    endpoint: String,
    /// Its URL, to which alone the material may be sent.
    url: String,
    /// none, bearer, key or credential.
    material: String,
    /// The scopes.
    scopes: Vec<String>,
    /// End of the grant.
    #[schema(format = DateTime)]
    expires_at: Option<String>,
    /// Of bearer: the token, for the header Authorization.
    #[schema(nullable = false)]
    token: Option<String>,
    /// Of key: name of the header.
    #[schema(nullable = false)]
    header: Option<String>,
    /// Of key: its value.
    #[schema(nullable = false)]
    value: Option<String>,
    /// Of credential: schema of the credential that the caller presents.
    #[schema(nullable = false)]
    schema_id: Option<String>,
    /// Of credential: DID of its issuer.
    #[schema(nullable = false)]
    issuer: Option<String>,
}

/// The grant for whose endpoint a credential is presented.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct NewAccessPresentation {
    /// requestId of a material of kind credential.
    #[schema(max_length = 128)]
    request_id: String,
}

/// A presentation for one endpoint.
#[derive(ToSchema)]
#[allow(dead_code)]
pub(in crate::admin) struct AccessPresentation {
    /// The endpoint's URL, to which alone it may be sent.
    url: String,
    /// `vp+jwt`, for the header Authorization; valid for five minutes, and once.
    presentation: String,
}

/// A grant of this agent. It has no token and no key.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code)]
pub(in crate::admin) struct AccessGrant {
    /// UUID, and the id of its token.
    id: String,
    /// DID of the peer.
    peer_did: String,
    /// DID URL of the service entry.
    endpoint: String,
    /// Its URL when the grant was given.
    url: String,
    /// none, bearer, key or credential.
    material: String,
    /// The scopes.
    scopes: Vec<String>,
    #[schema(format = DateTime)]
    issued_at: String,
    #[schema(format = DateTime)]
    expires_at: String,
    /// active, expired or revoked.
    state: String,
    #[schema(nullable = false, format = DateTime)]
    revoked_at: Option<String>,
    /// Why it was taken back.
    #[schema(nullable = false)]
    reason: Option<String>,
}

/// The reason of a revocation.
#[derive(ToSchema)]
#[allow(dead_code)]
pub(in crate::admin) struct RevocationReason {
    /// For people, and for the peer; no control characters.
    #[schema(nullable = false, min_length = 1, max_length = 500)]
    reason: Option<String>,
}

/// A key of tokens.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code)]
pub(in crate::admin) struct TokenKey {
    /// DID URL of the key's verification method.
    verification_method: String,
}

/// The refusals of a request for access.
#[derive(IntoResponses)]
#[allow(dead_code)]
pub(in crate::admin) enum AccessRefusals {
    /// PEER_UNREACHABLE: no endpoint of the peer took the message.
    #[response(status = 502)]
    Unreachable(ErrorBody),
    /// PEER_UNANSWERED: the peer did not answer in time; whether it acted is unknown.
    #[response(status = 504)]
    Unanswered(ErrorBody),
}
