//! Feeds random files of access to their readers: the conditions of the operator, and the public files of another agent. None must panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use svc_agent::{AccessTerms, MaterialSecret};
use svc_wire::endpoint_access::{AccessDocument, RevocationList};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    for conditions in [text.to_string(), format!("[[endpoint]]\nid = \"a\"\nmaterial = \"bearer\"\nallow = {text}")] {
        let value = |_: &std::path::Path| Ok(MaterialSecret::new("value".to_owned()));
        if let Err(problems) = AccessTerms::parse(&conditions, 600, value) {
            assert!(!problems.is_empty(), "a refusal has a reason");
        }
    }
    if let Ok(json) = serde_json::from_slice(data) {
        let did = "did:web:a.example";
        if let Some(read) = AccessDocument::read(&json, did) {
            assert_eq!(AccessDocument::read(&read.to_json(), did), Some(read));
        }
        let _ = RevocationList::read(&json, did);
    }
});
