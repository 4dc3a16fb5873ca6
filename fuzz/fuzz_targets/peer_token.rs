//! Feeds random tokens of peers to their reader and verification. It must not panic, and none verifies: no input has a signature.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use svc_trust::access::{AccessRules, AccessToken};
use svc_wire::endpoint_access::RevocationList;

const ISSUER: &str = "did:web:a.example";

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    // {"alg":"EdDSA","typ":"at+jwt","kid":"did:web:a.example#k"}
    let head = "eyJhbGciOiJFZERTQSIsInR5cCI6ImF0K2p3dCIsImtpZCI6ImRpZDp3ZWI6YS5leGFtcGxlI2sifQ";
    // A key whose private part is unknown: that of a vector of the EdDSA specifications.
    let method = json!({"id": "#k", "type": "Multikey", "controller": ISSUER,
        "publicKeyMultibase": "z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2"});
    let document = json!({"id": ISSUER, "verificationMethod": [method], "capabilityDelegation": ["#k"]});
    let revoked = RevocationList::new(ISSUER, 0, 0, []);
    let rules = AccessRules { issuer: ISSUER, audience: "https://a.example/mcp", knows_scope: &|_| true };
    for token in [text.to_string(), format!("{head}.{text}")] {
        let Ok(token) = AccessToken::read(&token) else { continue };
        let _ = token.has_key_in(&document, 1_800_000_000);
        assert!(token.verify(&rules, &document, &revoked, 1_800_000_000).is_err());
    }
});
