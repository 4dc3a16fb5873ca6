//! Who a service is: its DID, its keys, its document.

use ed25519_dalek::{SigningKey, VerifyingKey};
use multibase::Base;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use svc_trust::proof::Prover;

use super::part::{Fault, Method};

/// Label of the key every service has.
pub const KEY: &str = "key-1";
/// Label of the key that faulty documents treat wrongly.
pub const SECOND_KEY: &str = "key-2";

/// A service's DID, and where its material is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Name of the service.
    pub name: String,
    /// Its DID.
    pub did: String,
    /// Method of that.
    pub method: Method,
}

impl Identity {
    /// A key with the name under which the document has it. Every label has its key, whether the document knows it or not.
    pub fn prover(&self, label: &str) -> Prover {
        Prover { method: format!("{}#{label}", self.did), key: signing_key(&self.name, label) }
    }

    /// Path of its document, or of its log.
    pub fn path(&self) -> String {
        let file = if self.method == Method::Webvh { "did.jsonl" } else { "did.json" };
        format!("/{}/{file}", self.name)
    }
}

/// Keys follow from names: runs are alike, and nothing of this is a secret.
pub(super) fn signing_key(service: &str, label: &str) -> SigningKey {
    let seed = Sha256::digest(format!("svc devnet, service {service:?}, key {label:?}"));
    SigningKey::from_bytes(&seed.into())
}

/// A public key in the form of documents and logs.
pub(super) fn multikey(key: &VerifyingKey) -> String {
    let bytes: Vec<u8> = [0xed, 0x01].into_iter().chain(key.to_bytes()).collect();
    multibase::encode(Base::Base58Btc, bytes)
}

/// A verification method of a document.
pub fn verification_method(did: &str, service: &str, label: &str) -> Value {
    json!({
        "id": format!("{did}#{label}"), "type": "Multikey", "controller": did,
        "publicKeyMultibase": multikey(&signing_key(service, label).verifying_key()),
    })
}

/// A document with the key every service has. `at` is the time of writing.
pub(super) fn document(did: &str, service: &str, services: &[Value], fault: Option<Fault>, at: &str) -> Value {
    let key = format!("{did}#{KEY}");
    let mut document = json!({
        "@context": ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/multikey/v1"],
        "id": did,
        "verificationMethod": [verification_method(did, service, KEY)],
        "authentication": [key],
        "assertionMethod": [key],
        "service": services,
    });
    let mut second = verification_method(did, service, SECOND_KEY);
    let purpose = match fault {
        Some(Fault::KeyForAuthentication) => "authentication",
        Some(Fault::KeyRevoked) => {
            second["revoked"] = at.into();
            "assertionMethod"
        }
        Some(Fault::KeyUnusable) => {
            second["publicKeyMultibase"] = "z6MkThisIsNoKey".into();
            "assertionMethod"
        }
        _ => return document,
    };
    let id = second["id"].clone();
    for (list, entry) in [("verificationMethod", second), (purpose, id)] {
        if let Some(list) = document[list].as_array_mut() {
            list.push(entry);
        }
    }
    document
}
