//! The changes that a rotation of keys makes to a document. Pure.
//!
//! The order of a relation is a choice: the first key of `authentication` signs presentations, the first of `assertionMethod` signs
//! credentials, and peers encrypt for the first of `keyAgreement`. A pair that is added stands last and is not used, so that resolvers
//! can learn it before its first signature. The choice is part of the published document: a restart finds it there.
//!
//! Each change can be applied twice, since a step of a rotation is repeated after a crash.

use serde_json::{Value, json};
use svc_agent_core::error::{Refusal, RefusalCode};
use svc_net::did::check_own_document;

use super::access_entries::DELEGATION;
use super::did_document::{DidDocument, DocumentKeys, MAX_DOCUMENT_BYTES, multikey_method};

/// A change of the keys of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyChange {
    /// Adds a pair behind the others.
    Add(DocumentKeys),
    /// Puts a pair before the others: from this version on it signs.
    Promote(DocumentKeys),
    /// Takes all other pairs out of authentication and key agreement. Their signing keys stay for the credentials that they signed.
    RetireOthers(DocumentKeys),
    /// Takes retired keys out of the document, by the ids of their verification methods.
    Remove(Vec<String>),
    /// Puts a pair in the place of all others.
    Replace(DocumentKeys),
    /// Puts a key for messages, which is a Multikey text, in the place of all others. The signing keys stay.
    ReplaceAgreement(String),
}

impl KeyChange {
    /// Applies the change. After a refusal the document is unchanged.
    pub fn apply(&self, document: &mut DidDocument) -> Result<(), Refusal> {
        let did = document.did().to_owned();
        let mut relations = KeyRelations::of(document);
        let mut added = Vec::new();
        match self {
            Self::Add(keys) => {
                relations.add(&KeyPairIds::new(&did, keys));
                added = vec![&keys.signing, &keys.agreement];
            }
            Self::Promote(keys) => {
                let pair = KeyPairIds::new(&did, keys);
                if !relations.has(&pair) {
                    return Err(refused(format!("the document does not have the key {:?} yet", pair.signing)));
                }
                relations.promote(&pair);
            }
            Self::RetireOthers(keys) => {
                let pair = KeyPairIds::new(&did, keys);
                if relations.authentication.first() != Some(&pair.signing) || !relations.has(&pair) {
                    return Err(refused(format!("the key {:?} does not sign yet: the others stay", pair.signing)));
                }
                relations.retire_others(&pair);
            }
            Self::Remove(methods) => {
                if let Some(used) = methods.iter().find(|method| relations.authentication.contains(method)) {
                    return Err(refused(format!("the key {used:?} is not retired: it stays")));
                }
                relations.assertion.retain(|id| !methods.contains(id));
            }
            Self::Replace(keys) => {
                relations = relations.only(KeyPairIds::new(&did, keys));
                added = vec![&keys.signing, &keys.agreement];
            }
            Self::ReplaceAgreement(key) => {
                relations.agreement = vec![format!("{did}#{key}")];
                added = vec![key];
            }
        }
        let changed = relations.write_to(document, &added);
        let (before, after) = (document.canonical_length(), changed.canonical_length());
        if after > MAX_DOCUMENT_BYTES && after > before {
            let rule = format!(
                "the document would have {after} bytes of canonical JSON, and {MAX_DOCUMENT_BYTES} are allowed: a service entry has to be \
                 deleted first"
            );
            return Err(refused(rule));
        }
        check_own_document(changed.as_json(), &did)
            .map_err(|rule| refused(format!("no resolver would take the document: {rule}")))?;
        *document = changed;
        Ok(())
    }
}

fn refused(message: String) -> Refusal {
    Refusal::new(RefusalCode::InvalidState, message)
}

/// Ids of the verification methods of a pair.
struct KeyPairIds {
    signing: String,
    agreement: String,
}

impl KeyPairIds {
    fn new(did: &str, keys: &DocumentKeys) -> Self {
        Self { signing: format!("{did}#{}", keys.signing), agreement: format!("{did}#{}", keys.agreement) }
    }
}

/// The relations of a document, each in its order.
struct KeyRelations {
    authentication: Vec<String>,
    assertion: Vec<String>,
    agreement: Vec<String>,
    /// The keys of tokens, which a rotation leaves as they are.
    delegation: Vec<String>,
}

impl KeyRelations {
    fn of(document: &DidDocument) -> Self {
        let ids = |relation: &str| -> Vec<String> {
            let members = document.as_json()[relation].as_array();
            members.into_iter().flatten().filter_map(|id| id.as_str().map(str::to_owned)).collect()
        };
        let (authentication, assertion) = (ids("authentication"), ids("assertionMethod"));
        Self { authentication, assertion, agreement: ids("keyAgreement"), delegation: ids(DELEGATION) }
    }

    fn only(self, pair: KeyPairIds) -> Self {
        let KeyPairIds { signing, agreement } = pair;
        Self { authentication: vec![signing.clone()], assertion: vec![signing], agreement: vec![agreement], ..self }
    }

    fn has(&self, pair: &KeyPairIds) -> bool {
        self.authentication.contains(&pair.signing)
            && self.assertion.contains(&pair.signing)
            && self.agreement.contains(&pair.agreement)
    }

    fn names(&self, id: &str) -> bool {
        let relations = [&self.authentication, &self.assertion, &self.agreement, &self.delegation];
        relations.into_iter().flatten().any(|named| named == id)
    }

    /// Each relation with the member of a pair that it concerns.
    fn with_members<'a>(&'a mut self, pair: &'a KeyPairIds) -> [(&'a mut Vec<String>, &'a String); 3] {
        [
            (&mut self.authentication, &pair.signing),
            (&mut self.assertion, &pair.signing),
            (&mut self.agreement, &pair.agreement),
        ]
    }

    fn add(&mut self, pair: &KeyPairIds) {
        for (relation, id) in self.with_members(pair) {
            if !relation.contains(id) {
                relation.push(id.clone());
            }
        }
    }

    fn promote(&mut self, pair: &KeyPairIds) {
        for (relation, id) in self.with_members(pair) {
            relation.retain(|other| other != id);
            relation.insert(0, id.clone());
        }
    }

    fn retire_others(&mut self, pair: &KeyPairIds) {
        self.authentication.retain(|id| *id == pair.signing);
        self.agreement.retain(|id| *id == pair.agreement);
    }

    /// The document with these relations. Verification methods that none of them names leave it.
    fn write_to(&self, document: &DidDocument, added: &[&String]) -> DidDocument {
        let did = document.did();
        let mut changed = document.as_json().clone();
        let mut methods: Vec<Value> = changed["verificationMethod"].as_array().cloned().unwrap_or_default();
        for key in added {
            let method = multikey_method(did, key);
            if !methods.iter().any(|known| known["id"] == method["id"]) {
                methods.push(method);
            }
        }
        methods.retain(|method| method["id"].as_str().is_some_and(|id| self.names(id)));
        changed["verificationMethod"] = methods.into();
        changed["authentication"] = json!(self.authentication);
        changed["assertionMethod"] = json!(self.assertion);
        changed["keyAgreement"] = json!(self.agreement);
        DidDocument::from_json(changed)
    }
}

impl DidDocument {
    /// Whether the document names a pair, for each of its purposes.
    pub fn has_keys(&self, keys: &DocumentKeys) -> bool {
        KeyRelations::of(self).has(&KeyPairIds::new(self.did(), keys))
    }

    /// Returns the keys that prove credentials of the past and nothing more, by the ids of their verification methods.
    pub fn retired_keys(&self) -> Vec<String> {
        let KeyRelations { authentication, mut assertion, .. } = KeyRelations::of(self);
        assertion.retain(|id| !authentication.contains(id));
        assertion
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::ServiceEntry;

    const DID: &str = "did:web:agent.example.com";

    fn keys(number: u32) -> DocumentKeys {
        DocumentKeys { signing: format!("z6MkSigning{number}"), agreement: format!("z6LSAgreement{number}") }
    }

    fn method(number: u32) -> String {
        format!("{DID}#z6MkSigning{number}")
    }

    fn first() -> DidDocument {
        DidDocument::new(DID, &keys(1)).with_admin_api(Some("https://admin.example.com"))
    }

    fn after(changes: &[KeyChange]) -> DidDocument {
        let mut document = first();
        changes.iter().for_each(|change| change.apply(&mut document).expect("applied"));
        document
    }

    /// The numbers of the keys in each relation, and of the verification methods.
    fn numbers(document: &DidDocument) -> [Vec<u32>; 4] {
        let number =
            |id: &str| -> u32 { id.trim_start_matches(|one: char| !one.is_ascii_digit()).parse().expect("a number") };
        let ids = |relation: &str| -> Vec<u32> {
            let members = document.as_json()[relation].as_array().expect("a list").iter();
            members.map(|id| number(id.as_str().expect("an id").rsplit_once("#z6").expect("a key").1)).collect()
        };
        let methods = document.as_json()["verificationMethod"].as_array().expect("a list").iter();
        let methods =
            methods.filter(|one| one["publicKeyMultibase"].as_str().is_some_and(|key| key.starts_with("z6Mk")));
        let methods = methods.map(|one| number(one["publicKeyMultibase"].as_str().expect("a key").split_at(2).1));
        [ids("authentication"), ids("assertionMethod"), ids("keyAgreement"), methods.collect()]
    }

    #[test]
    fn each_step_of_a_rotation_changes_the_relations_and_can_be_repeated() {
        let mut document = first();
        let service = document.services();
        for (change, expected) in [
            (KeyChange::Add(keys(2)), [vec![1, 2], vec![1, 2], vec![1, 2], vec![1, 2]]),
            (KeyChange::Promote(keys(2)), [vec![2, 1], vec![2, 1], vec![2, 1], vec![1, 2]]),
            (KeyChange::RetireOthers(keys(2)), [vec![2], vec![2, 1], vec![2], vec![1, 2]]),
            (KeyChange::Add(keys(3)), [vec![2, 3], vec![2, 1, 3], vec![2, 3], vec![1, 2, 3]]),
            (KeyChange::Promote(keys(3)), [vec![3, 2], vec![3, 2, 1], vec![3, 2], vec![1, 2, 3]]),
            (KeyChange::RetireOthers(keys(3)), [vec![3], vec![3, 2, 1], vec![3], vec![1, 2, 3]]),
            (KeyChange::Remove(vec![method(1)]), [vec![3], vec![3, 2], vec![3], vec![2, 3]]),
            (KeyChange::Remove(vec![method(2), method(1)]), [vec![3], vec![3], vec![3], vec![3]]),
        ] {
            change.apply(&mut document).expect("applied");
            assert_eq!(numbers(&document), expected, "{change:?}");
            let once = document.clone();
            change.apply(&mut document).expect("applied again");
            assert_eq!(document, once, "{change:?}");
        }
        assert_eq!(document.services(), service);
        assert_eq!(
            document.canonical_length(),
            DidDocument::canonical_length(&first()),
            "nothing of the others is left"
        );
    }

    #[test]
    fn the_agreement_key_of_a_retired_pair_leaves_the_document() {
        let document = after(&[KeyChange::Add(keys(2)), KeyChange::Promote(keys(2)), KeyChange::RetireOthers(keys(2))]);
        assert!(!document.as_json().to_string().contains("z6LSAgreement1"));
        assert_eq!(document.retired_keys(), [method(1)]);
        assert_eq!((document.has_keys(&keys(1)), document.has_keys(&keys(2))), (false, true));
        assert!(first().retired_keys().is_empty());
    }

    #[test]
    fn a_compromised_pair_leaves_the_document_at_once_in_every_state() {
        let steps = [KeyChange::Add(keys(2)), KeyChange::Promote(keys(2)), KeyChange::RetireOthers(keys(2))];
        for count in 0..=steps.len() {
            let mut document = after(&steps[..count]);
            KeyChange::Replace(keys(7)).apply(&mut document).expect("applied");
            assert_eq!(numbers(&document), [[7], [7], [7], [7]].map(Vec::from), "{count} steps");
            let once = document.clone();
            KeyChange::Replace(keys(7)).apply(&mut document).expect("applied again");
            assert_eq!(document, once);
        }
    }

    #[test]
    fn a_step_out_of_order_is_refused() {
        for (before, change) in [
            (vec![], KeyChange::Promote(keys(2))),
            (vec![], KeyChange::RetireOthers(keys(2))),
            (vec![KeyChange::Add(keys(2))], KeyChange::RetireOthers(keys(2))),
            (vec![KeyChange::Add(keys(2))], KeyChange::Remove(vec![method(2)])),
            (vec![], KeyChange::Remove(vec![method(1)])),
        ] {
            let mut document = after(&before);
            let unchanged = document.clone();
            let refusal = change.apply(&mut document).expect_err("refused");
            assert_eq!((refusal.code, &document), (RefusalCode::InvalidState, &unchanged), "{change:?}");
        }
    }

    #[test]
    fn a_full_document_takes_another_pair_in_the_place_of_its_own() {
        let room = MAX_DOCUMENT_BYTES - first().canonical_length() - 200;
        let endpoint = json!({"text": "x".repeat(room)});
        let entry = ServiceEntry { id: format!("{DID}#a"), kind: "MCP".to_owned(), endpoint };
        let mut document = first().with_services(&[entry]);
        let refusal = KeyChange::Add(keys(2)).apply(&mut document).expect_err("no room");
        assert_eq!(refusal.code, RefusalCode::InvalidState);
        KeyChange::Replace(keys(2)).apply(&mut document).expect("the same length");
    }
}
