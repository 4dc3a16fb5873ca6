//! The settings of the credentials.

use super::claims::ClaimTexts;

/// The party that issues the service credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialMode {
    /// None: the DID gets no credentials, as in a test of other parts.
    Off,
    /// The agent itself, which also issues the credential of its organisation or person.
    Standalone {
        /// Texts of the claims, by the credential that has them.
        claims: ClaimTexts,
    },
    /// Another agent. This one issues nothing to itself.
    Delegated {
        /// DID of the other agent.
        parent: String,
    },
}

/// The settings of the credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialSettings {
    /// The party that issues the service credential.
    pub mode: CredentialMode,
    /// DIDs of the ecosystems whose essential schemas count. The first that has a schema gives it.
    pub trusted_ecosystems: Vec<String>,
    /// Longest validity of an issued credential, in days.
    pub days: u32,
    /// Days before the end of an own credential at which the next one is issued.
    pub renew_days: u32,
}

impl CredentialSettings {
    /// Longest validity without a setting, in days.
    pub const DEFAULT_DAYS: u32 = 365;
    /// Days of the renewal without a setting.
    pub const DEFAULT_RENEW_DAYS: u32 = 30;

    /// The settings of an agent that issues nothing to itself.
    pub fn off() -> Self {
        Self {
            mode: CredentialMode::Off,
            trusted_ecosystems: Vec::new(),
            days: Self::DEFAULT_DAYS,
            renew_days: Self::DEFAULT_RENEW_DAYS,
        }
    }
}
