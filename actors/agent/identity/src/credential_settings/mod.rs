//! The settings of the credentials: the party that issues the service credential, the claims of each, and the forms in which they are
//! published. Pure.

mod claims;
mod forms;

use svc_trust::{EssentialCredential, EssentialSchemas};

use crate::registry::SchemaOnChain;

pub use self::{
    claims::{
        CLAIM_PLACES, CLAIMS_FILE, ClaimProblem, ClaimSettings, ConfiguredClaims, FoundClaims, check_claim_texts,
        claims_for, problems_text,
    },
    forms::{CredentialForm, PublishedProofs},
};
pub(crate) use self::{
    claims::{claim_violations, claims_digest, unused_settings},
    forms::{FormChange, FoundForm, plain_name},
};

/// Schemas of own ecosystems whose credentials are presented: a reader of their document looks at no more.
pub(crate) const MAX_SCHEMAS: usize = 64;

/// The agent's own DID among the ecosystems: an operator cannot know it before the first start.
pub const OWN_DID: &str = "self";

/// The party that issues the service credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialMode {
    /// None: the DID gets no credentials, as in a test of other parts.
    Off,
    /// The agent itself, which also issues the credential of its organisation or person.
    Standalone {
        /// The claims, by the credential that has them.
        claims: ClaimSettings,
    },
    /// Another agent. This one issues nothing to itself.
    Delegated {
        /// DID of the other agent.
        parent: String,
        /// The claims that it is asked for.
        claims: ConfiguredClaims,
    },
}

/// The settings of the credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialSettings {
    /// The party that issues the service credential.
    pub mode: CredentialMode,
    /// DIDs of the ecosystems whose essential credentials the DID issues to itself and takes. The first that has a schema gives it.
    pub trusted_ecosystems: Vec<String>,
    /// The schemas that are essential where this agent decides about others.
    pub essential_schemas: EssentialSchemas,
    /// Longest validity of an issued credential, in days.
    pub days: u32,
    /// Days before the end of an own credential at which the next one is issued.
    pub renew_days: u32,
    /// Proofs of the credentials that are issued outside of flows, and of the credentials of schemas.
    pub proofs: PublishedProofs,
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
            essential_schemas: EssentialSchemas::default(),
            days: Self::DEFAULT_DAYS,
            renew_days: Self::DEFAULT_RENEW_DAYS,
            proofs: PublishedProofs::DataIntegrity,
        }
    }

    /// The same settings with the DID in the place of [`OWN_DID`], once it is known.
    #[must_use]
    pub fn with_did(self, did: &str) -> Self {
        let name = |one: &str| if one == OWN_DID { did.to_owned() } else { one.to_owned() };
        let trusted_ecosystems = self.trusted_ecosystems.iter().map(|one| name(one)).collect();
        let relied_on: Vec<String> = self.essential_schemas.ecosystems().map(name).collect();
        let essential_schemas = self.essential_schemas.in_ecosystems(relied_on);
        Self { trusted_ecosystems, essential_schemas, ..self }
    }

    /// The schemas that are essential for the DID's own credentials.
    pub fn own_essential_schemas(&self) -> EssentialSchemas {
        let known = self.essential_schemas.clone();
        if self.trusted_ecosystems.is_empty() { known } else { known.in_ecosystems(self.trusted_ecosystems.clone()) }
    }

    /// Kind of a schema that is essential for the DID's own credentials.
    pub fn own_essential(&self, schema: &SchemaOnChain) -> Option<EssentialCredential> {
        schema.essential(&self.own_essential_schemas())
    }

    /// Kind of an essential schema that has the content of this one.
    pub fn essential_content(&self, schema: &SchemaOnChain) -> Option<EssentialCredential> {
        self.essential_schemas.content(&schema.schema.json_schema).map(|(kind, _)| kind)
    }
}
