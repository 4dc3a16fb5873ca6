//! Feeds random bytes to the reader of envelopes. It must not panic, and no envelope opens: none was made with the keys here.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use svc_didcomm::envelope::{Envelope, KeyAgreementKey};
use svc_wire::verification_method::{KeyKind, did_of_url, multikey};

static KEY: LazyLock<KeyAgreementKey> = LazyLock::new(|| KeyAgreementKey::from_bytes(&[7; 32]));

fuzz_target!(|data: &[u8]| {
    let Ok(envelope) = Envelope::read(data) else { return };
    let document: Option<Value> = envelope.sender_key_id().map(|id| {
        let (did, key) = (did_of_url(id), multikey(KeyKind::X25519, &[9; 32]));
        json!({"id": did, "keyAgreement": [{"id": id, "publicKeyMultibase": key}]})
    });
    for recipient in envelope.recipients() {
        let did = did_of_url(recipient);
        assert!(envelope.open(recipient, &KEY, did, document.as_ref(), 1_800_000_000).is_err());
    }
});
