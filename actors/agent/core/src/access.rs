//! Grants of access to this agent's endpoints, as the store has them.

use svc_didcomm::{
    access::{Denied, GrantLimits, GrantTerms},
    protocol::endpoint_access::{AccessRequest, DenyCode},
};
use svc_wire::endpoint_access::Material;

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

impl StoredGrant {
    /// Its state at a time, in seconds since the epoch.
    pub fn state(&self, now: i64) -> GrantState {
        match self.revoked_at {
            Some(_) => GrantState::Revoked,
            None if self.expires_at > now => GrantState::Active,
            None => GrantState::Expired,
        }
    }
}

/// A grant that the facts of the moment allow.
#[derive(Debug, Clone)]
pub struct OfferedGrant {
    /// Its conditions.
    pub terms: GrantTerms,
    /// The part of its material that is no secret.
    pub details: GrantDetails,
    /// The bounds of valid grants.
    pub limits: GrantLimits,
}

/// The part of access in a message: a request, with the decision by the facts of the moment.
#[derive(Debug, Clone)]
pub enum AccessPart {
    /// The rows of grants decide.
    Offered {
        /// The request.
        request: AccessRequest,
        /// The grant.
        offered: OfferedGrant,
    },
    /// The request is denied.
    Denied {
        /// Id of the request.
        request_id: String,
        /// Its endpoint; none when the request could not be read.
        endpoint: Option<String>,
        /// The denial.
        denied: Denied,
    },
}

impl AccessPart {
    /// The part of a request that could be read.
    pub fn of(request: AccessRequest, decision: Result<OfferedGrant, Denied>) -> Self {
        match decision {
            Ok(offered) => Self::Offered { request, offered },
            Err(denied) => Self::Denied { request_id: request.id, endpoint: Some(request.endpoint), denied },
        }
    }
}

/// The decision about a peer's request for access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessOutcome {
    /// The peer has a grant.
    Granted,
    /// The peer gets a denial.
    Denied(DenyCode),
}

impl AccessOutcome {
    /// The name for telemetry.
    pub fn label(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Denied(code) => code.as_str(),
        }
    }
}
