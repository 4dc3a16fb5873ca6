//! endpoint-access/1: the access of a peer to an endpoint of a DID. Its messages, its tokens and the files of the DID share these words.

mod access_document;
mod revocation_list;
mod scope;

pub use self::{
    access_document::{AccessDocument, EndpointLine},
    revocation_list::{RevocationList, RevokedGrant},
    scope::{MAX_SCOPES, is_scope, scope_list, scope_text},
};

/// The version of the protocol, as each frame and document names it.
pub const VERSION: &str = "endpoint-access/1";
/// Beginning of every version.
pub const VERSION_PREFIX: &str = "endpoint-access/";
/// Type of the service entry that leads to the requirements.
pub const SERVICE_TYPE: &str = "EndpointAccess";
/// Fragment of that entry.
pub const SERVICE_FRAGMENT: &str = "endpoint-access";
/// File of the requirements, below the public URL.
pub const DOCUMENT_FILE: &str = "endpoint-access.json";
/// File of the keys of tokens.
pub const JWKS_FILE: &str = "endpoint-access-jwks.json";
/// File of the grants that were revoked.
pub const REVOKED_FILE: &str = "endpoint-access-revoked.json";
/// Longest life of a token, in seconds.
pub const MAX_TOKEN_SECONDS: i64 = 900;
/// Longest token, in bytes.
pub const MAX_TOKEN_BYTES: usize = 8192;
/// Longest document of a DID about its endpoints, in bytes.
pub const MAX_DOCUMENT_BYTES: usize = 262_144;
/// Seconds for which a list of revoked grants may be used.
pub const LIST_MAX_AGE_SECONDS: i64 = 120;

/// The material that a peer needs to call an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Material {
    /// Nothing: the session was the proof of trust.
    None,
    /// A token of the agent that owns the endpoint.
    Bearer,
    /// A header with a value that the operator of the endpoint has written down.
    Key,
    /// A credential that the peer holds and presents by itself.
    Credential,
}

impl Material {
    /// Every material.
    pub const ALL: [Self; 4] = [Self::None, Self::Bearer, Self::Key, Self::Credential];

    /// Returns the name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Bearer => "bearer",
            Self::Key => "key",
            Self::Credential => "credential",
        }
    }

    /// The material with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == name)
    }
}

/// Returns the URL of a service entry's `serviceEndpoint`: a text, or the first `uri` of an object.
pub fn endpoint_url(endpoint: &serde_json::Value) -> Option<&str> {
    let first = match endpoint {
        serde_json::Value::Array(several) => several.first()?,
        one => one,
    };
    first.as_str().or_else(|| first["uri"].as_str())
}
