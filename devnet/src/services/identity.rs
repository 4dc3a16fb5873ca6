//! The identity of a service: DID, keys, DID Document.

use ed25519_dalek::{SigningKey, VerifyingKey};
use multibase::Base;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use svc_trust::proof::ProofKey;

use super::first_form;
use crate::scenario::{IntendedFlaw, ServiceDidMethod, ServiceForm};

/// Label of the key of every service.
pub const MAIN_KEY_LABEL: &str = "key-1";
/// Label of the second key, which flawed documents contain.
pub const SECOND_KEY_LABEL: &str = "key-2";

/// Name and DID of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceIdentity {
    /// Name of the service.
    pub name: String,
    /// DID.
    pub did: String,
    /// Method of the DID.
    pub method: ServiceDidMethod,
    /// Form of log, document and credentials.
    #[serde(default)]
    pub form: ServiceForm,
}

impl ServiceIdentity {
    /// Returns the key with a label and its verification method. Every label has a key, also one that the document lacks.
    pub fn prover(&self, label: &str) -> ProofKey {
        let verification_method = match self.form {
            ServiceForm::FirstGeneration if label == MAIN_KEY_LABEL => first_form::proof_method(&self.did, &self.name),
            _ => format!("{}#{label}", self.did),
        };
        ProofKey { verification_method, key: derive_signing_key(&self.name, label) }
    }

    /// Returns the path of the document, or of the log.
    pub fn document_path(&self) -> String {
        let file = if self.method == ServiceDidMethod::Webvh { "did.jsonl" } else { "did.json" };
        format!("/{}/{file}", self.name)
    }
}

/// Derives a key from names, so that runs are equal. These keys are no secrets.
pub(super) fn derive_signing_key(service: &str, label: &str) -> SigningKey {
    let seed = Sha256::digest(format!("svc devnet, service {service:?}, key {label:?}"));
    SigningKey::from_bytes(&seed.into())
}

/// Encodes a public key for documents and logs.
pub(super) fn encode_multikey(key: &VerifyingKey) -> String {
    let bytes: Vec<u8> = [0xed, 0x01].into_iter().chain(key.to_bytes()).collect();
    multibase::encode(Base::Base58Btc, bytes)
}

/// Returns a verification method of a document.
pub fn verification_method(did: &str, service: &str, label: &str) -> Value {
    json!({
        "id": format!("{did}#{label}"), "type": "Multikey", "controller": did,
        "publicKeyMultibase": encode_multikey(&derive_signing_key(service, label).verifying_key()),
    })
}

/// Builds a document with the main key, and with the flaw of the service. `at` is the time of writing.
pub(super) fn build_document(
    did: &str,
    service: &str,
    services: &[Value],
    fault: Option<IntendedFlaw>,
    at: &str,
) -> Value {
    let key = format!("{did}#{MAIN_KEY_LABEL}");
    let mut document = json!({
        "@context": ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/multikey/v1"],
        "id": did,
        "verificationMethod": [verification_method(did, service, MAIN_KEY_LABEL)],
        "authentication": [key],
        "assertionMethod": [key],
        "service": services,
    });
    let mut second = verification_method(did, service, SECOND_KEY_LABEL);
    let purpose = match fault {
        Some(IntendedFlaw::KeyForAuthentication) => "authentication",
        Some(IntendedFlaw::KeyRevoked) => {
            second["revoked"] = at.into();
            "assertionMethod"
        }
        Some(IntendedFlaw::KeyUnusable) => {
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
