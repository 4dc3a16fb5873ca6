//! The description of a peer for a caller: the decision about its DID, the facts behind it, and the endpoints with their requirements.

use std::time::Duration;

use serde_json::Value;
use svc_agent_core::error::{Refusal, RefusalCode};
use svc_didcomm::endpoint::endpoints;
use svc_net::fetch::FetchLimits;
use svc_wire::{
    endpoint_access::{
        AccessDocument, EndpointLine, MAX_DOCUMENT_BYTES, Material, SERVICE_FRAGMENT, SERVICE_TYPE, endpoint_url,
    },
    verification_method::absolute_did_url,
};

use super::{refusals::verdict_unknown, resolver::DocumentUse, service::PeerService, settings::allows_clear_text};

/// Entries of a document that are described.
const MAX_ENDPOINTS: usize = 100;
/// Limits of the document of requirements.
const REQUIREMENTS_LIMITS: FetchLimits = FetchLimits {
    max_bytes: MAX_DOCUMENT_BYTES,
    max_json_memory: 8 * 1024 * 1024,
    timeout: Duration::from_secs(4),
    max_redirects: 0,
};
/// Types of entries that are for messages, presentations, files, the owner and this protocol itself: no endpoints for a peer to call.
const OWN_TYPES: [&str; 6] = [
    "DIDCommMessaging",
    "did-communication",
    "LinkedVerifiablePresentation",
    "VsAgentAdminAPI",
    "relativeRef",
    SERVICE_TYPE,
];

/// A peer as this agent sees it now.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerResolution {
    /// DID.
    pub did: String,
    /// Whether it is a verifiable service.
    pub is_trusted: bool,
    /// The participant by which it is one, which is active at the node.
    pub participant: Option<u64>,
    /// Codes and texts of the reasons against it.
    pub reasons: Vec<(String, String)>,
    /// End of the indexer's verdict, as the indexer writes it.
    pub expires_at: Option<String>,
    /// Whether its document has an endpoint for DIDComm v2, by which it can be asked for access.
    pub can_be_asked: bool,
    /// Its endpoints; none where it is not trusted.
    pub endpoints: Vec<PeerEndpoint>,
    /// The reason for which its document, and so its endpoints, cannot be had.
    pub document_problem: Option<String>,
    /// The reason for which the requirements of the endpoints are not known.
    pub requirements_problem: Option<String>,
}

/// An endpoint of a peer.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerEndpoint {
    /// DID URL of the service entry.
    pub id: String,
    /// Type of the entry.
    pub kind: String,
    /// URL of the entry.
    pub url: Option<String>,
    /// Its requirement; none while that is not known.
    pub requirement: Option<EndpointLine>,
}

impl PeerService {
    /// Decides about a DID now, and describes its endpoints as its document has them now.
    ///
    /// # Errors
    /// When the index or the node does not answer, so that nothing can be decided.
    pub async fn resolve_peer(&self, did: &str) -> Result<PeerResolution, Refusal> {
        if did.len() > 2048 || !did.starts_with("did:") || did.contains(['#', '?', '/']) {
            let rule = "allowed is a DID, such as did:web:peer.example";
            return Err(Refusal::of_member(RefusalCode::InvalidInput, "did", rule));
        }
        let decision = self.0.parts.gate.explain(did).await.map_err(|error| verdict_unknown(&error))?;
        let mut found = PeerResolution {
            did: did.to_owned(),
            is_trusted: decision.is_trusted,
            participant: decision.participant,
            reasons: decision.reasons,
            expires_at: decision.expires_at,
            can_be_asked: false,
            endpoints: Vec::new(),
            document_problem: None,
            requirements_problem: None,
        };
        if !decision.is_trusted {
            self.0.parts.asker.forget_peer(did);
            return Ok(found);
        }
        let document = self.0.parts.resolver.resolve(did, true, DocumentUse::Outbound).await;
        let document = match document {
            Ok(document) => document,
            Err(error) => return Ok(PeerResolution { document_problem: Some(error.to_string()), ..found }),
        };
        found.can_be_asked = !endpoints(&document, allows_clear_text(self.0.parts.client.policy())).is_empty();
        let requirements = self.requirements(did, &document).await;
        found.endpoints = endpoints_of(did, &document, requirements.as_ref().ok().map(Option::as_ref));
        found.requirements_problem = requirements.err();
        Ok(found)
    }

    /// The document of requirements; none when the peer publishes none.
    async fn requirements(&self, did: &str, document: &Value) -> Result<Option<AccessDocument>, String> {
        let entry = format!("{did}#{SERVICE_FRAGMENT}");
        let is_entry = |service: &&Value| service["id"].as_str().is_some_and(|id| absolute_did_url(did, id) == entry);
        let Some(service) = document["service"].as_array().into_iter().flatten().find(is_entry) else {
            return Ok(None);
        };
        let url = endpoint_url(&service["serviceEndpoint"]).ok_or("its entry #endpoint-access has no URL")?;
        let fetched =
            self.0.parts.fetcher.get_within(url, &REQUIREMENTS_LIMITS).await.map_err(|error| error.to_string())?;
        let read: Value = serde_json::from_slice(&fetched.body).map_err(|error| format!("{url}: no JSON: {error}"))?;
        let read = AccessDocument::read(&read, did);
        read.map(Some).ok_or_else(|| format!("{url} is of another DID, or of another version of the protocol"))
    }
}

/// The entries that a peer can call. `requirements` is none while they are not known, and holds none when the peer publishes none.
fn endpoints_of(did: &str, document: &Value, requirements: Option<Option<&AccessDocument>>) -> Vec<PeerEndpoint> {
    let services = document["service"].as_array().into_iter().flatten();
    let described = services.filter_map(|service| {
        let id = absolute_did_url(did, service["id"].as_str()?);
        let kind = match &service["type"] {
            Value::Array(several) => several.first()?.as_str()?,
            one => one.as_str()?,
        };
        let requirement = requirements.map(|known| {
            let line = known.and_then(|known| known.line(&id)).cloned();
            line.unwrap_or_else(|| EndpointLine {
                id: id.clone(),
                material: Material::None,
                scopes: Vec::new(),
                default_scopes: Vec::new(),
                schema_id: None,
                issuer: None,
            })
        });
        let url = endpoint_url(&service["serviceEndpoint"]).map(str::to_owned);
        (!OWN_TYPES.contains(&kind)).then(|| PeerEndpoint { id, kind: kind.to_owned(), url, requirement })
    });
    described.take(MAX_ENDPOINTS).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_endpoint_requires_what_its_line_says_nothing_without_one_and_is_open_while_that_is_not_known() {
        let did = "did:web:a.example";
        let document = json!({"service": [
            {"id": "#mcp", "type": "MCP", "serviceEndpoint": "https://a.example/mcp"},
            {"id": format!("{did}#site"), "type": ["Website"], "serviceEndpoint": {"uri": "https://a.example/"}},
            {"id": "#didcomm", "type": "DIDCommMessaging", "serviceEndpoint": {"uri": "wss://a.example"}},
            {"id": "#endpoint-access", "type": "EndpointAccess", "serviceEndpoint": "https://a.example/e.json"},
            {"id": 7, "type": "MCP"},
        ]});
        let line = EndpointLine {
            id: format!("{did}#mcp"),
            material: Material::Bearer,
            scopes: vec!["mcp:read".into()],
            default_scopes: Vec::new(),
            schema_id: None,
            issuer: None,
        };
        let known = AccessDocument::new(did, "https://a.example", 600, vec![line]);
        let materials = |requirements: Option<Option<&AccessDocument>>| -> Vec<(String, Option<Material>)> {
            let found = endpoints_of(did, &document, requirements).into_iter();
            found.map(|one| (one.id, one.requirement.map(|line| line.material))).collect()
        };
        let (mcp, site) = (format!("{did}#mcp"), format!("{did}#site"));
        let expected = |first, second| vec![(mcp.clone(), first), (site.clone(), second)];
        assert_eq!(materials(Some(Some(&known))), expected(Some(Material::Bearer), Some(Material::None)));
        assert_eq!(materials(Some(None)), expected(Some(Material::None), Some(Material::None)));
        assert_eq!(materials(None), expected(None, None));
    }
}
