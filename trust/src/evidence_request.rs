//! The request for one piece of evidence.

use serde::{Deserialize, Serialize};

/// Request for one piece of evidence. A verdict lists the requests that it depends on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum EvidenceRequest {
    /// The DID Document of a DID.
    Document(String),
    /// The text at a URL.
    Resource(String),
    /// The registry participants of a DID.
    Participants(String),
    /// A credential schema of the registry.
    Schema(u64),
    /// The time at which a digest was anchored. The digest has the form of the chain, `sha384-…`.
    Digest(String),
}
