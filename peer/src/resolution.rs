//! A peer as the own agent describes it.

use serde::{Deserialize, Serialize};

/// The decision about a DID, and its endpoints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PeerResolution {
    /// DID.
    pub did: String,
    /// Whether it is a verifiable service.
    pub trusted: bool,
    /// The participant that the indexer names, which is active at the node where the DID is trusted.
    pub participant_id: Option<String>,
    /// The reasons against it.
    pub reasons: Vec<TrustReason>,
    /// End of the indexer's verdict, RFC 3339.
    pub expires_at: Option<String>,
    /// Whether it can be asked for access over DIDComm.
    pub can_be_asked: bool,
    /// Its endpoints.
    pub endpoints: Vec<PeerEndpoint>,
    /// Why its document, and so its endpoints, cannot be had.
    pub document_problem: Option<String>,
    /// Why the requirements of its endpoints are not known.
    pub requirements_problem: Option<String>,
}

/// A reason against a DID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustReason {
    /// Code.
    pub code: String,
    /// For people.
    pub message: String,
}

/// An endpoint of a peer, with its requirement as far as that is published. The answer in the session decides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PeerEndpoint {
    /// DID URL of the service entry.
    pub id: String,
    /// Type of the entry.
    #[serde(rename = "type")]
    pub kind: String,
    /// URL of the entry.
    pub url: Option<String>,
    /// none, bearer, key or credential; none while it is not known.
    pub material: Option<String>,
    /// The scopes that can be granted.
    pub scopes: Vec<String>,
    /// Those of a request that names none.
    pub default_scopes: Vec<String>,
    /// Schema of the credential, where one is required.
    pub schema_id: Option<String>,
    /// DID of its issuer.
    pub issuer: Option<String>,
}

impl PeerEndpoint {
    /// The requirement in one line.
    pub fn requirement(&self) -> String {
        let scopes = if self.scopes.is_empty() { String::new() } else { format!(" [{}]", self.scopes.join(" ")) };
        match (self.material.as_deref(), &self.schema_id, &self.issuer) {
            (Some("credential"), Some(schema), Some(issuer)) => {
                format!("credential of schema {schema} by {issuer}{scopes}")
            }
            (Some(material), ..) => format!("{material}{scopes}"),
            (None, ..) => "not known".to_owned(),
        }
    }
}
