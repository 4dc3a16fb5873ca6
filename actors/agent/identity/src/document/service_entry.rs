//! Service entries, and the changes that callers make to them.

use serde_json::{Value, json};
use svc_agent_core::error::{Refusal, RefusalCode};
use svc_net::{did::check_own_document, host_policy::HostPolicy};

use super::{
    did_document::{DidDocument, MAX_DOCUMENT_BYTES},
    service_endpoint::check_endpoint,
    service_id::{ServiceIdPath, fragment_of, slug_of_type},
};

const MAX_TYPE_CHARS: usize = 128;

/// A service entry of the document.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceEntry {
    /// The whole DID URL.
    pub id: String,
    /// Type.
    pub kind: String,
    /// A URI, an object, or several of these.
    pub endpoint: Value,
}

impl ServiceEntry {
    pub(super) fn from_json(service: &Value) -> Self {
        let text = |name: &str| service[name].as_str().unwrap_or_default().to_owned();
        Self { id: text("id"), kind: text("type"), endpoint: service["serviceEndpoint"].clone() }
    }

    /// Returns the entry as the document has it.
    pub fn to_json(&self) -> Value {
        json!({"id": self.id, "type": self.kind, "serviceEndpoint": self.endpoint})
    }

    /// Whether the agent writes this entry itself.
    pub fn is_managed(&self) -> bool {
        refusal_of_type(&self.kind).is_some()
    }
}

/// The new values of an entry; those that are absent stay.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServiceUpdate {
    /// Type.
    pub kind: Option<String>,
    /// Endpoint.
    pub endpoint: Option<Value>,
}

/// A change of the service entries.
#[derive(Debug, Clone, PartialEq)]
pub enum ServiceChange {
    /// Adds an entry.
    Add {
        /// Id; made of the type when absent.
        id: Option<ServiceIdPath>,
        /// Type.
        kind: String,
        /// Endpoint.
        endpoint: Value,
    },
    /// Changes an entry.
    Update {
        /// Id.
        id: ServiceIdPath,
        /// The new values.
        update: ServiceUpdate,
    },
    /// Removes an entry.
    Delete {
        /// Id.
        id: ServiceIdPath,
    },
}

impl ServiceChange {
    /// Whether the change only removes: a document or log at its bound still takes it.
    pub fn is_deletion(&self) -> bool {
        matches!(self, Self::Delete { .. })
    }

    /// Applies the change to a document; returns the entry after it, or the removed one. After a refusal the document is unchanged.
    pub fn apply(&self, document: &mut DidDocument, hosts: HostPolicy) -> Result<ServiceEntry, Refusal> {
        let mut entries = document.services();
        let entry = match self {
            Self::Add { id, kind, endpoint } => {
                check_type(kind)?;
                check_endpoint(endpoint, hosts)?;
                let id = new_id(document, id.as_ref(), kind)?;
                let entry = ServiceEntry { id, kind: kind.clone(), endpoint: endpoint.clone() };
                entries.push(entry.clone());
                entry
            }
            Self::Update { id, update } => {
                let place = find_own(document, &entries, id)?;
                let mut entry = entries[place].clone();
                if let Some(kind) = &update.kind {
                    check_type(kind)?;
                    entry.kind.clone_from(kind);
                }
                if let Some(endpoint) = &update.endpoint {
                    check_endpoint(endpoint, hosts)?;
                    entry.endpoint.clone_from(endpoint);
                }
                entries[place] = entry.clone();
                entry
            }
            Self::Delete { id } => entries.remove(find_own(document, &entries, id)?),
        };
        let changed = document.with_services(&entries);
        let (before, after) = (document.canonical_length(), changed.canonical_length());
        if after > MAX_DOCUMENT_BYTES && after > before {
            let rule =
                format!("the document would have {after} bytes of canonical JSON; {MAX_DOCUMENT_BYTES} are allowed");
            return Err(Refusal::of_member(RefusalCode::InvalidServiceEndpoint, "serviceEndpoint", rule));
        }
        if let Err(rule) = check_own_document(changed.as_json(), changed.did()) {
            let rule = format!("no resolver would take the document: {rule}");
            return Err(Refusal::of_member(RefusalCode::InvalidServiceEndpoint, "serviceEndpoint", rule));
        }
        *document = changed;
        Ok(entry)
    }
}

/// The id of an entry that is added.
fn new_id(document: &DidDocument, id: Option<&ServiceIdPath>, kind: &str) -> Result<String, Refusal> {
    let did = document.did();
    let Some(id) = id else {
        let is_in_use = |fragment: &str| document.has_id(&format!("{did}#{fragment}"));
        return Ok(format!("{did}#{}", slug_of_type(kind, is_in_use)));
    };
    let id = id.resolve_new(did)?;
    if document.has_id(&id) {
        let rule = format!("the document has {:?} already; update it, or take another id", fragment_of(&id));
        return Err(Refusal::of_member(RefusalCode::DuplicateId, "id", rule));
    }
    Ok(id)
}

/// The place of an entry that callers may change.
fn find_own(document: &DidDocument, entries: &[ServiceEntry], id: &ServiceIdPath) -> Result<usize, Refusal> {
    let id = id.resolve(document.did())?;
    let place = entries.iter().position(|entry| entry.id == id);
    let place =
        place.ok_or_else(|| Refusal::new(RefusalCode::UnknownId, format!("no service entry has the id {id:?}")))?;
    match refusal_of_type(&entries[place].kind) {
        Some(code) => Err(Refusal::new(code, format!("the agent manages the entry {id:?} itself"))),
        None => Ok(place),
    }
}

fn check_type(kind: &str) -> Result<(), Refusal> {
    let length = kind.chars().count();
    if !(1..=MAX_TYPE_CHARS).contains(&length) || kind.chars().any(char::is_control) {
        let rule = format!("a type has 1 to {MAX_TYPE_CHARS} characters, none of them a control character");
        return Err(Refusal::of_member(RefusalCode::InvalidInput, "type", rule));
    }
    match refusal_of_type(kind) {
        Some(code) => {
            Err(Refusal::of_member(code, "type", format!("the agent manages entries of the type {kind:?} itself")))
        }
        None => Ok(()),
    }
}

/// The code with which changes of entries of a type are refused; `None` for those of callers.
fn refusal_of_type(kind: &str) -> Option<RefusalCode> {
    const MANAGED: [(&str, RefusalCode); 7] = [
        ("DIDCommMessaging", RefusalCode::DidCommEntry),
        ("did-communication", RefusalCode::DidCommEntry),
        ("LinkedVerifiablePresentation", RefusalCode::LinkedPresentationEntry),
        ("VsAgentAdminAPI", RefusalCode::AdminApiEntry),
        ("AnonCredsRegistry", RefusalCode::InvalidInput),
        ("relativeRef", RefusalCode::InvalidInput),
        ("EndpointAccess", RefusalCode::InvalidInput),
    ];
    MANAGED.into_iter().find(|(managed, _)| managed.eq_ignore_ascii_case(kind)).map(|(_, code)| code)
}
