//! Feeds random presentations of credentials to their reader and verification. It must not panic, and none verifies: no input has a
//! signature.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use svc_trust::access::AccessPresentation;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    // {"alg":"EdDSA","typ":"vp+jwt","kid":"did:web:b.example#k"}
    let head = "eyJhbGciOiJFZERTQSIsInR5cCI6InZwK2p3dCIsImtpZCI6ImRpZDp3ZWI6Yi5leGFtcGxlI2sifQ";
    for presentation in [text.to_string(), format!("{head}.{text}")] {
        let Ok(presentation) = AccessPresentation::read(&presentation) else { continue };
        let holder = presentation.holder().to_owned();
        // A key whose private part is unknown: that of a vector of the EdDSA specifications.
        let method = json!({"id": format!("{holder}#k"), "type": "Multikey", "controller": holder,
            "publicKeyMultibase": "z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2"});
        let document = json!({"id": holder, "verificationMethod": [method], "authentication": [format!("{holder}#k")]});
        assert!(presentation.verify("https://a.example/members", &document, 1_800_000_000).is_err());
    }
});
