//! Feeds random bytes to the readers of DID Documents and of did:webvh logs. They must not panic, and no key is taken from a document that
//! does not allow it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use svc_net::did::{check_own_document, service_origin, verify_own_log};
use svc_trust::did_document::{ProofPurpose, linked_presentations, offered_services, verification_key};

const DID: &str = "did:webvh:QmaJp6pmb6RUk4oaDyWQcjeqYbvxsc3kvmHWPpz7B5JwDU:a.example";

fuzz_target!(|data: &[u8]| {
    let _ = verify_own_log(DID, data);
    let Ok(document) = serde_json::from_slice::<Value>(data) else { return };
    let _ = check_own_document(&document, "did:web:a");
    let _ = service_origin(&document, "VsAgentAdminAPI");
    let _ = linked_presentations(&document);
    let _ = offered_services(&document);
    let methods = document["verificationMethod"].as_array().into_iter().flatten();
    for method in methods.filter_map(|method| method["id"].as_str()).take(8) {
        let key = verification_key(&document, method, ProofPurpose::AssertionMethod, 0);
        if key.is_ok() {
            assert!(document["assertionMethod"].is_array());
        }
    }
});
