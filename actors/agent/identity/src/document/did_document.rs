//! The DID Document as a value.

use serde_json::{Value, json};
use svc_trust::digest::canonical_json;

use super::{
    access_entries::AccessEntries,
    older_keys::{plain_method, with_older_forms, without_older_forms},
    service_entry::ServiceEntry,
};

/// Largest document, in bytes of canonical JSON.
pub const MAX_DOCUMENT_BYTES: usize = 65_536;
/// Type and id of the entry that leads to the admin API.
const ADMIN_API_TYPE: &str = "VsAgentAdminAPI";
const ADMIN_API_FRAGMENT: &str = "admin-api";
/// Type of the entries that lead to presentations of credentials.
pub const LINKED_PRESENTATION_TYPE: &str = "LinkedVerifiablePresentation";

/// Type and first part of the fragments of the entries for messages of peers.
const MESSAGING_TYPE: &str = "DIDCommMessaging";
const MESSAGING_FRAGMENT: &str = "didcomm-messaging";

/// The entries that the agent writes by its settings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ManagedEntries {
    /// Origin of the admin API; none while no external caller is served.
    pub admin_api: Option<String>,
    /// Endpoints for messages of peers, in their order.
    pub messaging: Vec<String>,
    /// The requirements of endpoints, and the keys of tokens; none while the agent grants no access by conditions.
    pub access: Option<AccessEntries>,
}

/// The public keys of a document, as Multikey texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentKeys {
    /// Ed25519, for authentication and assertions.
    pub signing: String,
    /// X25519, for key agreement.
    pub agreement: String,
}

/// The verification method of a public key.
pub(super) fn multikey_method(did: &str, key: &str) -> Value {
    json!({"id": format!("{did}#{key}"), "type": "Multikey", "controller": did, "publicKeyMultibase": key})
}

/// A DID Document of this agent.
#[derive(Debug, Clone, PartialEq)]
pub struct DidDocument(Value);

impl DidDocument {
    /// Makes the first document of a DID.
    pub fn new(did: &str, keys: &DocumentKeys) -> Self {
        let [signing, agreement] = [&keys.signing, &keys.agreement].map(|key| format!("{did}#{key}"));
        Self(json!({
            "@context": ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/multikey/v1"],
            "id": did,
            "verificationMethod": [multikey_method(did, &keys.signing), multikey_method(did, &keys.agreement)],
            "authentication": [signing],
            "assertionMethod": [signing],
            "keyAgreement": [agreement],
            "service": [],
        }))
    }

    /// Takes a document that this agent has published.
    pub fn from_json(document: Value) -> Self {
        Self(without_older_forms(document))
    }

    /// Returns the document, with one form of each key.
    pub fn as_json(&self) -> &Value {
        &self.0
    }

    /// Returns the document as it is published, with both forms of each signing key.
    pub fn published_json(&self) -> Value {
        with_older_forms(&self.0)
    }

    /// Returns the DID.
    pub fn did(&self) -> &str {
        self.0["id"].as_str().unwrap_or_default()
    }

    /// Returns the service entries, in the order of the document.
    pub fn services(&self) -> Vec<ServiceEntry> {
        self.0["service"].as_array().into_iter().flatten().map(ServiceEntry::from_json).collect()
    }

    /// Returns the document with other service entries.
    pub(super) fn with_services(&self, entries: &[ServiceEntry]) -> Self {
        let mut document = self.0.clone();
        document["service"] = entries.iter().map(ServiceEntry::to_json).collect();
        Self(document)
    }

    /// Returns the document with the entry of the admin API at an origin, or without one.
    pub fn with_admin_api(&self, origin: Option<&str>) -> Self {
        let mut entries = self.services();
        entries.retain(|entry| !entry.kind.eq_ignore_ascii_case(ADMIN_API_TYPE));
        if let Some(origin) = origin {
            let id = format!("{}#{ADMIN_API_FRAGMENT}", self.did());
            entries.insert(0, ServiceEntry { id, kind: ADMIN_API_TYPE.to_owned(), endpoint: origin.into() });
        }
        self.with_services(&entries)
    }

    /// Returns the document with the entries of the settings and no others of their types.
    pub fn with_managed(&self, managed: &ManagedEntries) -> Self {
        let document = self.with_admin_api(managed.admin_api.as_deref()).with_access(managed.access.as_ref());
        let did = document.did();
        let wanted = managed.messaging.iter().enumerate().map(|(index, uri)| ServiceEntry {
            id: format!("{did}#{MESSAGING_FRAGMENT}-{index}"),
            kind: MESSAGING_TYPE.to_owned(),
            endpoint: json!({"uri": uri, "accept": ["didcomm/v2"]}),
        });
        let wanted: Vec<ServiceEntry> = wanted.collect();
        let is_messaging = |entry: &ServiceEntry| entry.kind.eq_ignore_ascii_case(MESSAGING_TYPE);
        let (present, mut entries): (Vec<_>, Vec<_>) = document.services().into_iter().partition(is_messaging);
        if present == wanted {
            return document;
        }
        let place = usize::from(managed.admin_api.is_some()).min(entries.len());
        entries.splice(place..place, wanted);
        document.with_services(&entries)
    }

    /// Returns the document with these linked presentations and no others.
    pub fn with_presentations(&self, presentations: &[ServiceEntry]) -> Self {
        let is_linked = |entry: &ServiceEntry| entry.kind.eq_ignore_ascii_case(LINKED_PRESENTATION_TYPE);
        let (linked, mut entries): (Vec<_>, Vec<_>) = self.services().into_iter().partition(is_linked);
        if linked == presentations {
            return self.clone();
        }
        entries.extend_from_slice(presentations);
        self.with_services(&entries)
    }

    /// Whether a verification method may make assertions.
    pub fn allows_assertion(&self, method: &str) -> bool {
        self.0["assertionMethod"]
            .as_array()
            .is_some_and(|methods| methods.iter().any(|one| one == plain_method(method)))
    }

    /// Whether a service entry or a verification method has an id.
    pub(super) fn has_id(&self, id: &str) -> bool {
        let members = ["service", "verificationMethod"].map(|list| self.0[list].as_array());
        members.into_iter().flatten().flatten().any(|member| member["id"] == id)
    }

    /// Returns the length of the document as canonical JSON.
    pub fn canonical_length(&self) -> usize {
        canonical_json(&self.published_json()).map_or(usize::MAX, |text| text.len())
    }

    /// Returns the did:web document that stands beside a did:webvh document: every `did:webvh:<SCID>` is `did:web`, the did:webvh DID is
    /// an alias, and the entries that the method implies are written out. `base` is the URL of the directory of the DID's files.
    pub fn to_parallel_web(&self, scid: &str, base: &str) -> Value {
        let (did, prefix) = (self.did(), format!("did:webvh:{scid}"));
        let text = self.published_json().to_string().replace(&prefix, "did:web");
        let mut web: Value = serde_json::from_str(&text).unwrap_or_default();
        let web_did = did.replace(&prefix, "did:web");
        web["alsoKnownAs"] = json!([did]);
        let implied = [
            json!({"id": format!("{web_did}#files"), "type": "relativeRef", "serviceEndpoint": base}),
            json!({
                "@context": "https://identity.foundation/linked-vp/contexts/v1", "id": format!("{web_did}#whois"),
                "type": "LinkedVerifiablePresentation", "serviceEndpoint": format!("{}/whois.vp", base.trim_end_matches('/')),
            }),
        ];
        if let Some(services) = web["service"].as_array_mut() {
            services.extend(implied);
        }
        web
    }
}
