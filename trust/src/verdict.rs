//! The verdict of an evaluation.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{EssentialCredential, EvidenceRequest, RejectionCode, RejectionReason};

/// The party that vouches for a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrustPattern {
    /// The service itself, which presents the credential of its operator.
    #[serde(rename = "self")]
    SelfVouched,
    /// The service that issued its service credential.
    Parent,
}

/// A credential that passed every check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedCredential {
    /// Its id; without one, the URL of its presentation with its index.
    pub id: String,
    /// Kind of an essential credential, with the version of its schema. None when the schema is not essential.
    pub essential: Option<(EssentialCredential, String)>,
    /// Id of its schema.
    pub schema_id: u64,
    /// Id of the ecosystem of the schema.
    pub ecosystem_id: u64,
    /// DID of its issuer.
    pub issuer: String,
    /// Id of the participant that authorised the issuer.
    pub issuer_participant_id: u64,
    /// Id of the participant that authorises the holder, or else of that of the issuer.
    pub participant_id: u64,
    /// Digest of the whole credential, base64.
    pub digest_jcs: String,
    /// Time of issuance: the anchoring of the digest, nanoseconds since the epoch. Dates inside of the credential do not count.
    pub issued_at: i128,
    /// Start of validity in the credential, nanoseconds since the epoch.
    pub valid_from: Option<i128>,
    /// End of validity in the credential, nanoseconds since the epoch.
    pub valid_until: Option<i128>,
    /// End of the participant of the holder, nanoseconds since the epoch.
    pub anchored_until: Option<i128>,
    /// Its `credentialSubject`.
    pub subject: Value,
}

impl AcceptedCredential {
    /// Earliest end of the credential and the participant of its holder.
    pub fn expires_at(&self) -> Option<i128> {
        self.valid_until.into_iter().chain(self.anchored_until).min()
    }
}

/// A presentation with the results for its credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresentationSummary {
    /// Its id, or its URL.
    pub id: String,
    /// Id of the service that links to it.
    pub service: String,
    /// Ids of accepted credentials.
    pub credentials: Vec<String>,
    /// Ids of credentials with evidence that could not be fetched.
    pub unresolvable: Vec<String>,
    /// Ids of rejected credentials.
    pub invalid: Vec<String>,
}

/// Result of an evaluation: whether a DID is trusted, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustVerdict {
    /// The party that vouches for the DID. None when it is not trusted.
    pub pattern: Option<TrustPattern>,
    /// Earliest end of the credentials that the verdict rests on and of the participants of their holders, nanoseconds since
    /// the epoch.
    pub expires_at: Option<i128>,
    /// Every rejection, and the reasons for which accepted credentials are not essential. A trusted DID can have rejected credentials.
    pub reasons: Vec<RejectionReason>,
    /// Accepted credentials.
    pub credentials: Vec<AcceptedCredential>,
    /// Its presentations.
    pub presentations: Vec<PresentationSummary>,
    /// The other services of its document.
    pub services: Vec<Value>,
    /// DIDs of the chain of services that vouch for it, the nearest first.
    pub parents: Vec<String>,
    /// The credential of the operator that the verdict rests on. With [`TrustPattern::Parent`] another service presents it.
    #[serde(default)]
    pub operator: Option<Box<AcceptedCredential>>,
    /// DIDs of all services that the evaluation asked, trusted or not.
    pub consulted: BTreeSet<String>,
    /// Requests that the verdict depends on.
    pub inputs: Vec<EvidenceRequest>,
    /// Requests that failed for a reason that may pass, and on which the outcome depends. Empty when the DID is trusted.
    #[serde(default)]
    pub unanswered: BTreeSet<EvidenceRequest>,
}

impl TrustVerdict {
    /// Verdict of an abandoned evaluation: not trusted. It depends on `used`, and on document and participants of the DID.
    pub fn abandoned(did: &str, used: Vec<EvidenceRequest>, cause: impl std::fmt::Display) -> Self {
        let own = [EvidenceRequest::Document(did.to_owned()), EvidenceRequest::Participants(did.to_owned())];
        Self {
            pattern: None,
            expires_at: None,
            reasons: vec![RejectionReason::new(RejectionCode::EvaluationAbandoned, cause)],
            credentials: Vec::new(),
            presentations: Vec::new(),
            services: Vec::new(),
            parents: Vec::new(),
            operator: None,
            consulted: BTreeSet::new(),
            unanswered: BTreeSet::new(),
            inputs: used.into_iter().chain(own).collect::<BTreeSet<_>>().into_iter().collect(),
        }
    }

    /// Whether the DID is trusted.
    pub fn is_trusted(&self) -> bool {
        self.pattern.is_some()
    }
}
