//! Feeds random DIDs to the resolution of did:peer. It must not panic; a document has the DID that it was asked for.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use svc_didcomm::{endpoint::endpoints, peer_did};
use svc_wire::verification_method::{KeyKind, KeyRelation, method_key, methods_of};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let mut dids = vec![text.to_string(), format!("did:peer:2{text}"), format!("did:peer:4{text}")];
    // A document with its own hash gets past the first check.
    if let Ok(document) = serde_json::from_slice::<Value>(data) {
        dids.push(peer_did::encode(&document).long);
    }
    for did in dids {
        let _ = peer_did::comparable(&did);
        let Ok(document) = peer_did::resolve(&did) else { continue };
        assert_eq!(document["id"], did.as_str());
        let _ = endpoints(&document, true);
        for method in methods_of(&document, KeyRelation::KeyAgreement).into_iter().take(8) {
            let _ = method_key(&document, &method, KeyRelation::KeyAgreement, KeyKind::X25519, 0);
        }
    }
});
