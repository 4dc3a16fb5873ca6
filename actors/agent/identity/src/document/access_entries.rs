//! The entry that leads to the requirements of endpoints, and the keys of tokens for peers.
//!
//! Such a key stands under `capabilityDelegation` and nowhere else: it delegates access, and cannot sign credentials or presentations.

use serde_json::{Value, json};
use svc_wire::endpoint_access::{SERVICE_FRAGMENT, SERVICE_TYPE};

use super::{
    did_document::{DidDocument, multikey_method},
    service_entry::ServiceEntry,
};

/// Name of the relationship.
pub(super) const DELEGATION: &str = "capabilityDelegation";

/// The entry of the requirements, and the public keys of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessEntries {
    /// URL of the requirements.
    pub url: String,
    /// The keys as Multikey texts.
    pub keys: Vec<String>,
}

impl DidDocument {
    /// Returns the document with these entries and keys, or without any.
    pub(super) fn with_access(&self, access: Option<&AccessEntries>) -> Self {
        let did = self.did();
        let is_access = |entry: &ServiceEntry| entry.kind.eq_ignore_ascii_case(SERVICE_TYPE);
        let (present, mut entries): (Vec<_>, Vec<_>) = self.services().into_iter().partition(is_access);
        let wanted = access.map(|access| ServiceEntry {
            id: format!("{did}#{SERVICE_FRAGMENT}"),
            kind: SERVICE_TYPE.to_owned(),
            endpoint: json!(access.url),
        });
        let wanted: Vec<ServiceEntry> = wanted.into_iter().collect();
        let document = if present == wanted {
            self.clone()
        } else {
            // Behind the other entries of the settings, which stand first.
            let place = entries.iter().take_while(|entry| entry.is_managed()).count();
            entries.splice(place..place, wanted);
            self.with_services(&entries)
        };
        document.with_token_keys(access.map(|access| access.keys.as_slice()).unwrap_or_default())
    }

    fn with_token_keys(&self, keys: &[String]) -> Self {
        let did = self.did().to_owned();
        let wanted: Vec<Value> = keys.iter().map(|key| json!(format!("{did}#{key}"))).collect();
        let mut changed = self.as_json().clone();
        let before = changed[DELEGATION].as_array().cloned().unwrap_or_default();
        if before == wanted {
            return self.clone();
        }
        let mut methods: Vec<Value> = changed["verificationMethod"].as_array().cloned().unwrap_or_default();
        methods.retain(|method| !before.contains(&method["id"]));
        methods.extend(keys.iter().map(|key| multikey_method(&did, key)));
        changed["verificationMethod"] = methods.into();
        if wanted.is_empty() {
            if let Some(members) = changed.as_object_mut() {
                members.shift_remove(DELEGATION);
            }
        } else {
            changed[DELEGATION] = wanted.into();
        }
        Self::from_json(changed)
    }

    /// The keys of tokens that the document names, as ids of their verification methods.
    pub fn token_keys(&self) -> Vec<&str> {
        self.as_json()[DELEGATION].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{DocumentKeys, KeyChange, ManagedEntries};

    const DID: &str = "did:web:agent.example.com";

    fn managed(keys: Option<&[&str]>) -> ManagedEntries {
        let access = keys.map(|keys| AccessEntries {
            url: "https://agent.example.com/endpoint-access.json".to_owned(),
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        });
        ManagedEntries { admin_api: Some("https://admin.example.com".to_owned()), messaging: Vec::new(), access }
    }

    fn methods(document: &DidDocument) -> Vec<&str> {
        let methods = document.as_json()["verificationMethod"].as_array().into_iter().flatten();
        methods.filter_map(|method| method["publicKeyMultibase"].as_str()).collect()
    }

    #[test]
    fn keys_of_tokens_come_and_go_without_touching_the_others() {
        let pair = |number: u8| DocumentKeys { signing: format!("z6MkS{number}"), agreement: format!("z6LSA{number}") };
        let plain = DidDocument::new(DID, &pair(1)).with_managed(&managed(None));
        let one = plain.with_managed(&managed(Some(&["z6MkT1"])));
        assert_eq!(methods(&one), ["z6MkS1", "z6LSA1", "z6MkT1"]);
        assert_eq!(one.token_keys(), [format!("{DID}#z6MkT1")]);
        assert_eq!(one.as_json()["assertionMethod"], json!([format!("{DID}#z6MkS1")]), "it signs nothing else");
        let kinds: Vec<String> = one.services().into_iter().map(|entry| entry.kind).collect();
        assert_eq!(kinds, ["VsAgentAdminAPI", "EndpointAccess"]);
        assert_eq!(one.with_managed(&managed(Some(&["z6MkT1"]))), one, "nothing to change");
        let two = one.with_managed(&managed(Some(&["z6MkT2", "z6MkT1"])));
        assert_eq!(methods(&two), ["z6MkS1", "z6LSA1", "z6MkT2", "z6MkT1"]);
        // A rotation of the document's own keys leaves those of tokens.
        let mut rotated = two.clone();
        KeyChange::Replace(pair(2)).apply(&mut rotated).expect("applied");
        assert_eq!(methods(&rotated), ["z6MkT2", "z6MkT1", "z6MkS2", "z6LSA2"]);
        assert_eq!(rotated.token_keys(), two.token_keys());
        assert_eq!(two.with_managed(&managed(None)), plain);
    }
}
