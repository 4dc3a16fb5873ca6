//! Settings of the flows.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use svc_agent_identity::credential_settings::ClaimSettings;
use svc_didcomm::protocol::credential_format::CredentialFormat;

/// How the agent takes part in flows.
#[derive(Debug, Clone)]
pub struct FlowSettings {
    /// Folder with a file of claims `<schema id>.json` for each schema.
    pub claims_directory: Option<PathBuf>,
    /// Texts of claims, by the essential credential that has them.
    pub claims: ClaimSettings,
    /// Schemas whose received credentials stand in the DID Document beside essential ones.
    pub published_schemas: PublishedSchemas,
    /// Flows of one peer that have not ended.
    pub per_peer: u64,
    /// Flows that work at the same time.
    pub actors: usize,
    /// The most that one credential may cost its issuer, in base units of the denomination of fees.
    pub session_cost: Option<u128>,
    /// Wait for the session and the digest of a received credential.
    pub verify_time: Duration,
    /// Format of the offers.
    pub format: FlowFormat,
    /// Whether the terms of a credential are sent before its offer.
    pub sends_terms: bool,
}

/// The schemas whose received credentials are presented.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublishedSchemas {
    /// Every schema, in the order of acceptance, up to the bound of presentations.
    All,
    /// Those with these ids.
    These(BTreeSet<u64>),
}

impl Default for PublishedSchemas {
    fn default() -> Self {
        Self::These(BTreeSet::new())
    }
}

impl PublishedSchemas {
    /// Reads ids with commas between them, or `*`.
    pub fn parse(text: &str) -> Option<Self> {
        if text.trim() == "*" {
            return Some(Self::All);
        }
        let ids = text.split(',').map(|id| id.trim().parse().ok().filter(|id| *id > 0));
        ids.collect::<Option<BTreeSet<u64>>>().map(Self::These)
    }

    /// Whether a received credential of a schema is presented. `told` is the wish of its issuer, which counts where no schema is named.
    pub fn wants(&self, schema_id: u64, told: Option<bool>) -> bool {
        match self {
            Self::All => told != Some(false),
            Self::These(ids) => ids.contains(&schema_id),
        }
    }
}

/// The format of the credentials that are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FlowFormat {
    /// VC 2.0 with a Data Integrity proof.
    #[default]
    DataIntegrity,
    /// VC 1.1 with a linked-data proof.
    LdProof,
}

impl FlowFormat {
    /// Reads the name of a setting.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "w3c-di" => Some(Self::DataIntegrity),
            "ld-proof" => Some(Self::LdProof),
            _ => None,
        }
    }

    pub(crate) fn to_wire(self) -> CredentialFormat {
        match self {
            Self::DataIntegrity => CredentialFormat::DataIntegrity,
            Self::LdProof => CredentialFormat::LdProof,
        }
    }
}

impl Default for FlowSettings {
    fn default() -> Self {
        Self {
            claims_directory: None,
            claims: ClaimSettings::new(),
            published_schemas: PublishedSchemas::default(),
            per_peer: 100,
            actors: 1_000,
            session_cost: None,
            verify_time: Duration::from_secs(30),
            format: FlowFormat::default(),
            sends_terms: false,
        }
    }
}
