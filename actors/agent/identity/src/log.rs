//! Entries of a did:webvh log (didwebvh 1.0): the first one, and each that follows. Pure; the resolver verifies the log before it is
//! published, with code of its own.

use ed25519_dalek::SigningKey;
use multibase::Base;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use svc_trust::{
    did_document::ProofPurpose,
    digest::canonical_json,
    proof::{ProofKey, ProofSuite, add_proof},
};

/// Stands for the SCID while the SCID is computed.
pub const SCID_PLACEHOLDER: &str = "{SCID}";
const METHOD: &str = "did:webvh:1.0";

/// Why an entry cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("an entry of the log cannot be made: {0}")]
pub struct LogEntryError(String);

/// An entry with its proof.
#[derive(Debug, Clone, PartialEq)]
pub struct LogEntry {
    /// Number and hash.
    pub version_id: String,
    /// One line of the log, without its end.
    pub line: String,
    /// The DID Document.
    pub state: Value,
}

/// The public key of a key, as Multikey text.
pub fn encode_multikey(key: &SigningKey) -> String {
    encode_public(&[0xed, 0x01], key.verifying_key().as_bytes())
}

/// A public key with the prefix of its kind, as Multikey text.
pub fn encode_public(prefix: &[u8], key: &[u8]) -> String {
    multibase::encode(Base::Base58Btc, [prefix, key].concat())
}

/// An item of `nextKeyHashes`.
pub fn key_hash(multikey: &str) -> String {
    multihash(multikey.as_bytes())
}

fn multihash(bytes: &[u8]) -> String {
    Base::Base58Btc.encode([&[0x12, 0x20][..], &Sha256::digest(bytes)].concat())
}

fn canonical(value: &Value) -> Result<String, LogEntryError> {
    canonical_json(value).ok_or_else(|| LogEntryError("it has no canonical form".to_owned()))
}

/// The keys of one entry.
pub struct EntryKeys<'a> {
    /// Signs the entry.
    pub update: &'a SigningKey,
    /// Signs the entries behind it, when it is another key; never with the first entry, nor when the log names hashes of the next keys.
    pub named: Option<&'a SigningKey>,
    /// Hashes of the keys that may sign the next entry, with pre-rotation; `None` leaves the parameters of the log as they are.
    pub next_hashes: Option<Vec<String>>,
}

/// Makes the first entry. The document has [`SCID_PLACEHOLDER`] in place of the SCID.
pub fn first_entry(document: &Value, keys: &EntryKeys<'_>, time: &str) -> Result<LogEntry, LogEntryError> {
    let mut parameters = json!({
        "method": METHOD, "scid": SCID_PLACEHOLDER, "updateKeys": [encode_multikey(keys.update)], "portable": false,
    });
    if let Some(hashes) = &keys.next_hashes {
        parameters["nextKeyHashes"] = json!(hashes);
    }
    let entry =
        json!({"versionId": SCID_PLACEHOLDER, "versionTime": time, "parameters": parameters, "state": document});
    let scid = multihash(canonical(&entry)?.as_bytes());
    let entry = entry.to_string().replace(SCID_PLACEHOLDER, &scid);
    let entry = serde_json::from_str(&entry).map_err(|error| LogEntryError(error.to_string()))?;
    finish(entry, 1, keys.update, time)
}

/// Makes the entry behind `previous`, which is the number and the version id of the last one.
pub fn next_entry(
    previous: (u64, &str),
    document: &Value,
    keys: &EntryKeys<'_>,
    time: &str,
) -> Result<LogEntry, LogEntryError> {
    let (number, version_id) = previous;
    let update_keys = [encode_multikey(keys.named.unwrap_or(keys.update))];
    let parameters = match (&keys.next_hashes, keys.named) {
        (Some(hashes), _) => json!({"updateKeys": update_keys, "nextKeyHashes": hashes}),
        (None, Some(_)) => json!({"updateKeys": update_keys}),
        (None, None) => json!({}),
    };
    let entry = json!({"versionId": version_id, "versionTime": time, "parameters": parameters, "state": document});
    finish(entry, number + 1, keys.update, time)
}

/// Hashes and signs an entry whose `versionId` is that of its predecessor, or the SCID.
fn finish(mut entry: Value, number: u64, key: &SigningKey, time: &str) -> Result<LogEntry, LogEntryError> {
    if number == 1 {
        entry["versionId"] = entry["parameters"]["scid"].clone();
    }
    let version_id = format!("{number}-{}", multihash(canonical(&entry)?.as_bytes()));
    entry["versionId"] = version_id.as_str().into();
    let multikey = encode_multikey(key);
    let prover = ProofKey { verification_method: format!("did:key:{multikey}#{multikey}"), key: key.clone() };
    add_proof(&mut entry, &prover, ProofSuite::EddsaJcs2022, ProofPurpose::AssertionMethod, time)
        .map_err(|reason| LogEntryError(reason.message))?;
    entry["proof"] = json!([entry["proof"].take()]);
    Ok(LogEntry { version_id, line: entry.to_string(), state: entry["state"].take() })
}

#[cfg(test)]
mod tests {
    //! Logs for other implementations, and logs of theirs. `tests/interop` runs these tests with the files.

    use svc_net::did::verify_own_log;
    use svc_wire::timestamp;

    use super::*;
    use crate::document::{DidDocument, DocumentKeys};

    /// Time of the first entry: others refuse entries in the future.
    const FIRST: i64 = 1_700_000_000;

    /// A log with an entry a second, by a test clock.
    fn long_log(entries: u64) -> (String, String) {
        let key = SigningKey::from_bytes(&[7; 32]);
        let keys = || EntryKeys { update: &key, named: None, next_hashes: None };
        let time = |number: u64| {
            let seconds = FIRST + i64::try_from(number).unwrap_or(0);
            timestamp::iso_seconds(&prost_types::Timestamp { seconds, nanos: 0 })
        };
        let public = DocumentKeys { signing: encode_multikey(&key), agreement: encode_public(&[0xec, 0x01], &[9; 32]) };
        let document = DidDocument::new(&format!("did:webvh:{SCID_PLACEHOLDER}:agent.example.com"), &public);
        let mut last = first_entry(document.as_json(), &keys(), &time(1)).expect("an entry");
        let mut lines = vec![last.line.clone()];
        for number in 2..=entries {
            let mut document = last.state.clone();
            let id = format!("{}#entry", document["id"].as_str().unwrap_or_default());
            document["service"] =
                json!([{"id": id, "type": "MCP", "serviceEndpoint": format!("https://example.com/{number}")}]);
            last = next_entry((number - 1, &last.version_id), &document, &keys(), &time(number)).expect("an entry");
            lines.push(last.line.clone());
        }
        (last.state["id"].as_str().unwrap_or_default().to_owned(), lines.join("\n") + "\n")
    }

    fn file(variable: &str) -> String {
        std::env::var(variable).unwrap_or_else(|_| panic!("{variable} names a file"))
    }

    #[test]
    fn a_long_log_verifies_and_one_flipped_bit_fails() {
        let (did, log) = long_log(20);
        verify_own_log(&did, log.as_bytes()).expect("verifies");
        for position in (0..log.len()).step_by(997) {
            let mut damaged = log.clone().into_bytes();
            damaged[position] ^= 1;
            assert!(verify_own_log(&did, &damaged).is_err(), "byte {position}");
        }
    }

    #[test]
    #[ignore = "writes a log for other implementations: SVC_WRITE_LOG names the file"]
    fn a_log_for_other_implementations() {
        let (did, log) = long_log(1_000);
        verify_own_log(&did, log.as_bytes()).expect("verifies");
        std::fs::write(file("SVC_WRITE_LOG"), log).expect("written");
    }

    #[test]
    #[ignore = "reads a log of another implementation: SVC_READ_LOG names the file"]
    fn a_log_of_another_implementation() {
        let log = std::fs::read(file("SVC_READ_LOG")).expect("read");
        let line = log.split(|byte| *byte == b'\n').rfind(|line| !line.is_empty()).expect("an entry");
        let entry: Value = serde_json::from_slice(line).expect("JSON");
        let did = entry["state"]["id"].as_str().expect("a DID");
        verify_own_log(did, &log).expect("verifies");
        let mut damaged = log.clone();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 1;
        assert!(verify_own_log(did, &damaged).is_err());
    }
}
