//! The reasons of denials.

/// The reason of a denial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DenyCode {
    /// The peer is no verifiable service.
    NotTrusted,
    /// The document has no such entry.
    UnknownEndpoint,
    /// A scope is outside of those that the peer may have.
    ScopeRefused,
    /// The asker does not take the material that the endpoint needs.
    MaterialUnsupported,
    /// The peer is trusted, and not among those that may call.
    NotAllowed,
    /// Too many requests or grants of this peer.
    RateLimited,
    /// Storage, key or verdict is missing.
    Unavailable,
    /// Another version of the protocol.
    UnsupportedVersion,
    /// The request cannot be read.
    InvalidRequest,
    /// A code that this version does not have.
    Other,
}

impl DenyCode {
    /// The codes of this version.
    pub const ALL: [Self; 9] = [
        Self::NotTrusted,
        Self::UnknownEndpoint,
        Self::ScopeRefused,
        Self::MaterialUnsupported,
        Self::NotAllowed,
        Self::RateLimited,
        Self::Unavailable,
        Self::UnsupportedVersion,
        Self::InvalidRequest,
    ];

    /// Returns the name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotTrusted => "not_trusted",
            Self::UnknownEndpoint => "unknown_endpoint",
            Self::ScopeRefused => "scope_refused",
            Self::MaterialUnsupported => "material_unsupported",
            Self::NotAllowed => "not_allowed",
            Self::RateLimited => "rate_limited",
            Self::Unavailable => "unavailable",
            Self::UnsupportedVersion => "unsupported_version",
            Self::InvalidRequest => "invalid_request",
            Self::Other => "other",
        }
    }

    /// The code with this name.
    pub fn from_name(name: &str) -> Self {
        Self::ALL.into_iter().find(|one| one.as_str() == name).unwrap_or(Self::Other)
    }
}
