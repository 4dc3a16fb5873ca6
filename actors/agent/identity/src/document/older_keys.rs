//! The older form of signing keys. Verifiers of the first generation know a key only as an `Ed25519VerificationKey2020`, and refuse every
//! proof by a Multikey. A document shows each signing key in both forms; in this program it has one, so that both come and go together.

use serde_json::{Value, json};
use svc_trust::proof::{ProofKey, ProofSuite};

const CONTEXT: &str = "https://w3id.org/security/suites/ed25519-2020/v1";
const KIND: &str = "Ed25519VerificationKey2020";
/// End of the id of the older form.
const SUFFIX: &str = "-2020";
/// Relations that signing keys stand in.
const RELATIONS: [&str; 2] = ["authentication", "assertionMethod"];

/// The id of the older form of a key.
pub fn older_method(method: &str) -> String {
    format!("{method}{SUFFIX}")
}

/// The id of a key, from that of either form.
pub fn plain_method(method: &str) -> &str {
    method.strip_suffix(SUFFIX).unwrap_or(method)
}

/// A key under the id by which verifiers of a suite look for it.
pub fn prover_for(suite: ProofSuite, key: &ProofKey) -> ProofKey {
    let verification_method = match suite {
        ProofSuite::Ed25519Signature2020 => older_method(&key.verification_method),
        _ => key.verification_method.clone(),
    };
    ProofKey { verification_method, key: key.key.clone() }
}

/// The suite of the proof of a credential.
pub fn proof_suite(credential: &Value) -> ProofSuite {
    match credential["proof"]["type"].as_str() {
        Some("Ed25519Signature2020") => ProofSuite::Ed25519Signature2020,
        _ => ProofSuite::EddsaJcs2022,
    }
}

/// Whether a document shows the older form of a key.
pub fn shows_older_form(document: &Value, method: &str) -> bool {
    let older = older_method(method);
    list(document, "verificationMethod").any(|one| one["id"] == older.as_str())
}

fn is_older(method: &Value) -> bool {
    method["type"] == KIND && method["id"].as_str().is_some_and(|id| id.ends_with(SUFFIX))
}

/// The document with the older form of each signing key: at the end of the keys, and at the end of each relation.
pub(super) fn with_older_forms(document: &Value) -> Value {
    let mut shown = document.clone();
    let named: Vec<Value> = RELATIONS.iter().flat_map(|relation| list(document, relation)).cloned().collect();
    let methods = list(document, "verificationMethod").filter(|method| named.contains(&method["id"]));
    let older: Vec<Value> = methods
        .filter_map(|method| {
            let id = older_method(method["id"].as_str()?);
            Some(json!({
                "id": id, "type": KIND, "controller": method["controller"],
                "publicKeyMultibase": method["publicKeyMultibase"],
            }))
        })
        .collect();
    if older.is_empty() {
        return shown;
    }
    append(&mut shown, "verificationMethod", older);
    for relation in RELATIONS {
        let older = list(document, relation).filter_map(Value::as_str).map(|id| older_method(id).into());
        append(&mut shown, relation, older.collect());
    }
    append(&mut shown, "@context", vec![CONTEXT.into()]);
    shown
}

/// The document without the older forms.
pub(super) fn without_older_forms(mut document: Value) -> Value {
    let older: Vec<Value> = list(&document, "verificationMethod")
        .filter(|method| is_older(method))
        .map(|method| method["id"].clone())
        .collect();
    if older.is_empty() {
        return document;
    }
    retain(&mut document, "verificationMethod", |method| !is_older(method));
    for relation in RELATIONS {
        retain(&mut document, relation, |id| !older.contains(id));
    }
    retain(&mut document, "@context", |context| context != CONTEXT);
    document
}

fn list<'a>(document: &'a Value, member: &str) -> impl Iterator<Item = &'a Value> {
    document[member].as_array().into_iter().flatten()
}

fn append(document: &mut Value, member: &str, more: Vec<Value>) {
    if let Some(members) = document[member].as_array_mut() {
        members.extend(more);
    }
}

fn retain(document: &mut Value, member: &str, is_kept: impl Fn(&Value) -> bool) {
    if let Some(members) = document[member].as_array_mut() {
        members.retain(is_kept);
    }
}

#[cfg(test)]
mod tests {
    use svc_trust::did_document::{ProofPurpose, verification_key};

    use super::*;
    use crate::document::{DidDocument, DocumentKeys, KeyChange};

    const DID: &str = "did:web:agent.example.com";
    const FIRST: &str = "z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2";
    const SECOND: &str = "z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK";

    fn keys(signing: &str) -> DocumentKeys {
        DocumentKeys {
            signing: signing.to_owned(),
            agreement: "z6LSbysY2xFMRpGMhb7tFTLMpeuPRaqaWM1yECx2AtzE3KCc".to_owned(),
        }
    }

    #[test]
    fn both_forms_of_a_key_are_published_and_one_is_kept() {
        let document = DidDocument::new(DID, &keys(FIRST));
        let shown = document.published_json();
        let id = format!("{DID}#{FIRST}");
        assert_eq!(shown["authentication"], json!([id, older_method(&id)]));
        assert_eq!(shown["assertionMethod"], shown["authentication"]);
        assert_eq!(shown["verificationMethod"].as_array().map(Vec::len), Some(3), "the key for messages has one form");
        for method in [&id, &older_method(&id)] {
            let found = verification_key(&shown, method, ProofPurpose::AssertionMethod, 0).expect("a key");
            assert_eq!(found, verification_key(&shown, &id, ProofPurpose::AssertionMethod, 0).expect("a key"));
        }
        assert_eq!(DidDocument::from_json(shown.clone()), document);
        assert!(document.allows_assertion(&older_method(&id)) && document.allows_assertion(&id));
        assert_eq!(DidDocument::from_json(shown).published_json(), document.published_json());
    }

    #[test]
    fn a_rotation_moves_both_forms_in_each_step() {
        let mut document = DidDocument::new(DID, &keys(FIRST));
        for change in [
            KeyChange::Add(keys(SECOND)),
            KeyChange::Promote(keys(SECOND)),
            KeyChange::RetireOthers(keys(SECOND)),
            KeyChange::Remove(vec![format!("{DID}#{FIRST}")]),
        ] {
            change.apply(&mut document).expect("applied");
            let shown = document.published_json();
            for relation in RELATIONS {
                let ids: Vec<&str> = list(&shown, relation).filter_map(Value::as_str).collect();
                let plain = ids.iter().filter(|id| !id.ends_with(SUFFIX));
                let expected: Vec<String> = plain.map(|id| older_method(id)).collect();
                let older: Vec<&str> = ids.iter().copied().filter(|id| id.ends_with(SUFFIX)).collect();
                assert_eq!(older, expected, "{change:?} {relation}");
            }
        }
        assert!(!document.published_json().to_string().contains(FIRST));
    }
}
