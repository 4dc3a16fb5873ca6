//! The forms of the registry's first agents: their documents, credentials and presentations. The agents of this project have other forms,
//! and read these.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use svc_didcomm::envelope::KeyAgreementKey;
use svc_trust::digest::bare_digest;
use svc_wire::{
    proto_registry::NodeGeneration,
    verification_method::{KeyKind, multikey},
};

use super::identity::{MAIN_KEY_LABEL, derive_signing_key, encode_multikey};

/// Contexts of everything that they sign. The last one gives a meaning to each name that the others do not define.
const SIGNED_CONTEXTS: [&str; 3] = [
    "https://www.w3.org/2018/credentials/v1",
    "https://w3id.org/security/suites/ed25519-2020/v1",
    "https://www.w3.org/ns/credentials/examples/v2",
];
/// Contexts of their documents.
const DOCUMENT_CONTEXTS: [&str; 3] = [
    "https://www.w3.org/ns/did/v1",
    "https://w3id.org/security/multikey/v1",
    "https://w3id.org/security/suites/ed25519-2020/v1",
];
/// Fragment of the key for messages.
const AGREEMENT_FRAGMENT: &str = "key-agreement-1";

/// Returns the multikey of the signing key of a service, which is the fragment of its method.
fn signing_multikey(service: &str) -> String {
    encode_multikey(&derive_signing_key(service, MAIN_KEY_LABEL).verifying_key())
}

/// Returns the method that proofs name: the older form of the signing key.
pub(super) fn proof_method(did: &str, service: &str) -> String {
    format!("{did}#{}-2020", signing_multikey(service))
}

/// Returns the id of the key for messages.
pub(crate) fn agreement_method(did: &str) -> String {
    format!("{did}#{AGREEMENT_FRAGMENT}")
}

/// Derives the key for messages from the name of the service. It is no secret.
pub(crate) fn agreement_key(service: &str) -> KeyAgreementKey {
    let seed = Sha256::digest(format!("svc devnet, service {service:?}, key agreement"));
    KeyAgreementKey::from_bytes(&seed.into())
}

/// Returns the path at which messages for a service arrive.
pub(crate) fn inbox_path(service: &str) -> String {
    format!("/{service}/didcomm")
}

/// Builds a document: the signing key in both forms, the update key without a purpose, and messages by both versions of DIDComm.
pub(super) fn build_document(did: &str, service: &str, inbox: &str, links: &[Value]) -> Value {
    let update = encode_multikey(&derive_signing_key(service, "update").verifying_key());
    let (_, update_end) = update.split_at(update.len().saturating_sub(8));
    let signing = signing_multikey(service);
    let (plain, older) = (format!("{did}#{signing}"), proof_method(did, service));
    let agreement = multikey(KeyKind::X25519, &agreement_key(service).public_key());
    let method =
        |id: &str, kind: &str, key: &str| json!({"id": id, "type": kind, "controller": did, "publicKeyMultibase": key});
    let mut services = vec![
        json!({
            "id": format!("{did}#did-communication"), "type": "did-communication", "priority": 0,
            "recipientKeys": [agreement_method(did)], "routingKeys": [], "serviceEndpoint": inbox,
        }),
        json!({
            "id": format!("{did}#didcomm-messaging-0"), "type": "DIDCommMessaging",
            "serviceEndpoint": {"uri": inbox, "accept": ["didcomm/v2"]},
        }),
    ];
    services.extend(links.iter().cloned());
    json!({
        "@context": DOCUMENT_CONTEXTS,
        "id": did,
        "verificationMethod": [
            method(&format!("{did}#{update_end}"), "Multikey", &update),
            method(&plain, "Multikey", &signing),
            method(&older, "Ed25519VerificationKey2020", &signing),
            method(&agreement_method(did), "Multikey", &agreement),
        ],
        "authentication": [plain, older],
        "assertionMethod": [plain, older],
        "keyAgreement": [agreement_method(did)],
        "service": services,
    })
}

/// Gives an unsigned credential or presentation the contexts of these agents.
pub(crate) fn set_contexts(unsigned: &mut Value) {
    unsigned["@context"] = json!(SIGNED_CONTEXTS);
}

/// Returns a presentation of a credential before its proof.
pub(crate) fn unsigned_presentation(holder: &str, credential: Value) -> Value {
    let mut presentation =
        json!({"type": ["VerifiablePresentation"], "holder": holder, "verifiableCredential": [credential]});
    set_contexts(&mut presentation);
    presentation
}

/// Returns the form in which these agents anchor a digest: the base64 alone, or the integrity text that the oldest nodes demand.
pub(crate) fn anchored_form(digest: &str, generation: NodeGeneration) -> String {
    let bare = bare_digest(digest).filter(|_| generation > NodeGeneration::N0);
    bare.unwrap_or(digest).to_owned()
}
