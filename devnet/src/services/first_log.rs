//! Logs of did:webvh in the form of the registry's first agents: each proof names its did:key without a fragment. The library of the other
//! logs refuses that, so the entries are made here, by the text of the method.

use multibase::Base;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use svc_net::did::verify_own_log;
use svc_trust::{
    did_document::ProofPurpose,
    digest::canonical_json,
    proof::{ProofKey, ProofSuite, add_proof},
};

use super::{
    did_log::DidLogWriteError,
    identity::{derive_signing_key, encode_multikey},
};

const SCID_PLACEHOLDER: &str = "{SCID}";

/// Writes the log of a service. The key is derived from the name of the service.
pub(super) struct FirstLogWriter {
    multikey: String,
    prover: ProofKey,
}

impl FirstLogWriter {
    pub fn for_service(service: &str) -> Self {
        let key = derive_signing_key(service, "update");
        let multikey = encode_multikey(&key.verifying_key());
        let prover = ProofKey { verification_method: format!("did:key:{multikey}"), key };
        Self { multikey, prover }
    }

    /// Creates a log with one entry; returns (DID, log). The document has `{SCID}` in place of the identifier.
    pub fn create_log(&self, document: &Value, at: &str) -> Result<(String, String), DidLogWriteError> {
        let entry = json!({
            "versionId": SCID_PLACEHOLDER, "versionTime": at,
            "parameters": {
                "method": "did:webvh:1.0", "scid": SCID_PLACEHOLDER, "updateKeys": [self.multikey],
                "portable": false, "nextKeyHashes": [], "watchers": [], "witness": {}, "deactivated": false,
            },
            "state": document,
        });
        let scid = multihash(&entry)?;
        let entry: Value = serde_json::from_str(&entry.to_string().replace(SCID_PLACEHOLDER, &scid))?;
        let did = entry["state"]["id"].as_str().unwrap_or_default().to_owned();
        let line = self.sign_entry(entry, 1, at)?;
        verify(&did, &line)?;
        Ok((did, line))
    }

    /// Appends an entry with another document; returns the new log.
    pub fn append_entry(&self, log: &str, document: &Value, at: &str) -> Result<String, DidLogWriteError> {
        let last: Value = serde_json::from_str(log.lines().last().unwrap_or_default())?;
        let entry = json!({"versionId": last["versionId"], "versionTime": at, "parameters": {}, "state": document});
        let log = format!("{log}\n{}", self.sign_entry(entry, log.lines().count() + 1, at)?);
        verify(document["id"].as_str().unwrap_or_default(), &log)?;
        Ok(log)
    }

    /// Adds the hash and the proof to an entry whose `versionId` is that of its predecessor.
    fn sign_entry(&self, mut entry: Value, number: usize, at: &str) -> Result<String, DidLogWriteError> {
        entry["versionId"] = format!("{number}-{}", multihash(&entry)?).into();
        add_proof(&mut entry, &self.prover, ProofSuite::EddsaJcs2022, ProofPurpose::AssertionMethod, at)
            .map_err(|reason| DidLogWriteError::Entry(reason.message))?;
        entry["proof"] = Value::Array(vec![entry["proof"].take()]);
        Ok(entry.to_string())
    }
}

fn multihash(entry: &Value) -> Result<String, DidLogWriteError> {
    let text =
        canonical_json(entry).ok_or_else(|| DidLogWriteError::Entry("the entry has no canonical form".to_owned()))?;
    Ok(Base::Base58Btc.encode([&[0x12, 0x20][..], &Sha256::digest(text)].concat()))
}

/// Verifies a log as the resolver of this project does.
fn verify(did: &str, log: &str) -> Result<(), DidLogWriteError> {
    verify_own_log(did, log.as_bytes()).map(drop).map_err(|error| DidLogWriteError::Entry(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::first_form;

    /// A proof with a fragment would not show that the logs of these agents are read.
    #[test]
    fn each_proof_of_a_log_names_its_key_without_a_fragment() {
        let writer = FirstLogWriter::for_service("elder");
        let did = format!("did:webvh:{SCID_PLACEHOLDER}:localhost%3A4000:elder");
        let document = first_form::build_document(&did, "elder", "http://localhost:4000/elder/didcomm", &[]);
        let (did, log) = writer.create_log(&document, "2026-01-01T00:00:00Z").expect("a log");
        let other = first_form::build_document(&did, "elder", "http://localhost:4000/elder/other", &[]);
        let log = writer.append_entry(&log, &other, "2026-01-01T00:00:01Z").expect("a longer log");
        let methods: Vec<String> = log
            .lines()
            .map(|line| {
                let entry: Value = serde_json::from_str(line).expect("JSON");
                entry["proof"][0]["verificationMethod"].as_str().expect("a text").to_owned()
            })
            .collect();
        assert_eq!(methods, [format!("did:key:{}", writer.multikey), format!("did:key:{}", writer.multikey)]);
        assert!(
            super::super::did_log::newest_entry_member(&log, "state").is_some_and(|state| state["id"] == did.as_str())
        );
    }
}
