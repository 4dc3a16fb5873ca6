//! The bodies of the route that decides about a peer and describes its endpoints.

use serde::Serialize;
use svc_agent::{PeerEndpoint, PeerResolution};
use utoipa::ToSchema;

/// A DID to decide about.
#[derive(ToSchema)]
#[allow(dead_code)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct ResolvedDid {
    /// DID.
    #[schema(pattern = "^did:[^#?/]+$", max_length = 2048)]
    did: String,
}

/// A peer as the agent sees it now.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::admin) struct PeerResolutionBody {
    /// DID.
    did: String,
    /// Whether it is a verifiable service: the indexer calls it trusted, and the participant is active at the node.
    trusted: bool,
    /// The participant that the indexer names for its service credential.
    participant_id: Option<String>,
    /// The reasons against it.
    reasons: Vec<TrustReason>,
    /// End of the indexer's verdict.
    expires_at: Option<String>,
    /// Whether it can be asked for access over DIDComm.
    can_be_asked: bool,
    /// Its endpoints; none where it is not trusted.
    endpoints: Vec<PeerEndpointBody>,
    /// Why its document, and so its endpoints, cannot be had.
    document_problem: Option<String>,
    /// Why the requirements of the endpoints are not known.
    requirements_problem: Option<String>,
}

/// A reason against a DID.
#[derive(Serialize, ToSchema)]
struct TrustReason {
    /// Code.
    code: String,
    /// For people.
    message: String,
}

/// An endpoint of a peer.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct PeerEndpointBody {
    /// DID URL of the service entry.
    id: String,
    /// Type of the entry.
    #[serde(rename = "type")]
    kind: String,
    /// URL of the entry.
    url: Option<String>,
    /// none, bearer, key or credential; null while it is not known.
    material: Option<&'static str>,
    /// The scopes that can be granted.
    scopes: Vec<String>,
    /// Those of a request that names none.
    default_scopes: Vec<String>,
    /// Schema of the credential, where one is required.
    schema_id: Option<String>,
    /// DID of its issuer.
    issuer: Option<String>,
}

impl From<PeerResolution> for PeerResolutionBody {
    fn from(peer: PeerResolution) -> Self {
        let reason = |(code, message)| TrustReason { code, message };
        Self {
            did: peer.did,
            trusted: peer.is_trusted,
            participant_id: peer.participant.map(|id| id.to_string()),
            reasons: peer.reasons.into_iter().map(reason).collect(),
            expires_at: peer.expires_at,
            can_be_asked: peer.can_be_asked,
            endpoints: peer.endpoints.into_iter().map(PeerEndpointBody::from).collect(),
            document_problem: peer.document_problem,
            requirements_problem: peer.requirements_problem,
        }
    }
}

impl From<PeerEndpoint> for PeerEndpointBody {
    fn from(endpoint: PeerEndpoint) -> Self {
        let line = endpoint.requirement;
        let (scopes, default_scopes) =
            line.as_ref().map(|line| (line.scopes.clone(), line.default_scopes.clone())).unwrap_or_default();
        Self {
            id: endpoint.id,
            kind: endpoint.kind,
            url: endpoint.url,
            material: line.as_ref().map(|line| line.material.as_str()),
            scopes,
            default_scopes,
            schema_id: line.as_ref().and_then(|line| line.schema_id.clone()),
            issuer: line.and_then(|line| line.issuer),
        }
    }
}
