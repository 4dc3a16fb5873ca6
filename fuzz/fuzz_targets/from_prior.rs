//! Feeds random tokens to the reader of `from_prior`. It must not panic, and none verifies: no input has a signature.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use svc_didcomm::from_prior::FromPrior;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let with_head = format!("eyJhbGciOiJFZERTQSIsImtpZCI6IiNrIn0.{text}");
    for jwt in [text.as_ref(), &with_head] {
        let Ok(prior) = FromPrior::read(jwt) else { continue };
        // A key whose private part is unknown: that of a vector of the EdDSA specifications.
        let method = json!({"id": "#k", "publicKeyMultibase": "z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2"});
        let document = json!({"id": prior.issuer, "verificationMethod": [method], "authentication": ["#k"]});
        assert!(prior.verify(&document, prior.issued_at).is_err());
    }
});
