//! Builds valid and invalid logs of did:webvh DIDs for tests, from the text of didwebvh 1.0 and without the crate that verifies them.

use ed25519_dalek::{Signer, SigningKey};
use multibase::Base;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const SCID_PLACEHOLDER: &str = "{SCID}";

/// A key that signs entries.
pub struct LogSigningKey {
    signing: SigningKey,
    pub public: String,
    method: String,
}

impl LogSigningKey {
    pub fn new(seed: u8) -> Self {
        let signing = SigningKey::from_bytes(&[seed; 32]);
        let multicodec = [&[0xed, 0x01][..], signing.verifying_key().as_bytes()].concat();
        let public = multibase::encode(Base::Base58Btc, multicodec);
        let method = format!("did:key:{public}#{public}");
        Self { signing, public, method }
    }

    /// A key whose proofs name the did:key without a fragment, as agents of the first generation write them.
    pub fn without_fragment(seed: u8) -> Self {
        let key = Self::new(seed);
        Self { method: key.did_key(), ..key }
    }

    /// A key whose proofs claim the key of another one in the fragment.
    pub fn with_fragment_of(&self, other: &Self) -> Self {
        let method = format!("did:key:{}#{}", self.public, other.public);
        Self { signing: self.signing.clone(), public: self.public.clone(), method }
    }

    /// Returns the key as an item of `nextKeyHashes`.
    pub fn hash(&self) -> String {
        multihash(self.public.as_bytes())
    }

    /// Returns the key as the id of a witness.
    pub fn did_key(&self) -> String {
        format!("did:key:{}", self.public)
    }

    /// Makes a proof over a document.
    pub fn proof(&self, document: &Value) -> Value {
        let mut proof = json!({
            "type": "DataIntegrityProof", "cryptosuite": "eddsa-jcs-2022", "created": "2020-01-01T00:00:00Z",
            "verificationMethod": self.method, "proofPurpose": "assertionMethod",
        });
        let signed = [Sha256::digest(canonical(&proof)), Sha256::digest(canonical(document))].concat();
        proof["proofValue"] = multibase::encode(Base::Base58Btc, self.signing.sign(&signed).to_bytes()).into();
        proof
    }
}

fn canonical(value: &Value) -> String {
    serde_json_canonicalizer::to_string(value).expect("canonical")
}

fn multihash(bytes: &[u8]) -> String {
    let digest = [&[0x12, 0x20][..], &Sha256::digest(bytes)].concat();
    Base::Base58Btc.encode(digest)
}

/// A log that grows.
pub struct DidLogBuilder {
    pub entries: Vec<Value>,
    pub did: String,
    pub scid: String,
}

impl DidLogBuilder {
    /// Makes a log of one entry; `change` changes the entry before its hash is computed.
    pub fn new(location: &str, key: &LogSigningKey, change: impl FnOnce(&mut Value)) -> Self {
        let did = format!("did:webvh:{SCID_PLACEHOLDER}:{location}");
        let mut entry = json!({
            "versionId": SCID_PLACEHOLDER, "versionTime": "2020-01-01T00:00:00Z",
            "parameters": {"method": "did:webvh:1.0", "scid": SCID_PLACEHOLDER, "updateKeys": [key.public]},
            "state": {"@context": ["https://www.w3.org/ns/did/v1"], "id": did},
        });
        change(&mut entry);
        let scid = multihash(canonical(&entry).as_bytes());
        let entry = serde_json::from_str(&entry.to_string().replace(SCID_PLACEHOLDER, &scid)).expect("an entry");
        let mut log = Self { entries: Vec::new(), did: did.replace(SCID_PLACEHOLDER, &scid), scid };
        log.sign_entry(entry, key);
        log
    }

    /// Adds an entry with the last state; `change` changes the entry before its hash is computed.
    pub fn add_entry(&mut self, key: &LogSigningKey, change: impl FnOnce(&mut Value)) -> &mut Self {
        let number = self.entries.len();
        let (day, month, year) = (number % 28 + 1, number / 28 % 12 + 1, 2020 + number / 28 / 12);
        let mut entry = json!({
            "versionId": self.last_entry()["versionId"], "versionTime": format!("{year}-{month:02}-{day:02}T00:00:00Z"),
            "parameters": {}, "state": self.last_entry()["state"],
        });
        change(&mut entry);
        self.sign_entry(entry, key);
        self
    }

    /// Replaces the SCID of the first entry, and hashes and signs it again, as an attacker would to take over another DID.
    pub fn claim_scid(&mut self, scid: &str, key: &LogSigningKey) {
        let mut entry = self.entries.remove(0);
        entry.as_object_mut().expect("an entry").shift_remove("proof");
        entry["versionId"] = self.scid.as_str().into();
        let entry = serde_json::from_str(&entry.to_string().replace(&self.scid, scid)).expect("an entry");
        self.did = self.did.replace(&self.scid, scid);
        scid.clone_into(&mut self.scid);
        self.sign_entry(entry, key);
    }

    /// Adds the hash and the proof to an entry whose `versionId` is that of its predecessor.
    fn sign_entry(&mut self, mut entry: Value, key: &LogSigningKey) {
        if self.entries.is_empty() {
            entry["versionId"] = self.scid.as_str().into();
        }
        let hash = multihash(canonical(&entry).as_bytes());
        entry["versionId"] = format!("{}-{hash}", self.entries.len() + 1).into();
        entry["proof"] = json!([key.proof(&entry)]);
        self.entries.push(entry);
    }

    pub fn last_entry(&self) -> &Value {
        self.entries.last().expect("an entry")
    }

    /// Returns the text of the log.
    pub fn text(&self) -> String {
        self.entries.iter().map(|entry| format!("{entry}\n")).collect()
    }

    /// Makes the proofs of witnesses for an entry.
    pub fn witness_proof(&self, entry: usize, witnesses: &[&LogSigningKey]) -> Value {
        let version = &self.entries[entry]["versionId"];
        let proofs: Vec<Value> =
            witnesses.iter().map(|witness| witness.proof(&json!({"versionId": version}))).collect();
        json!({"versionId": version, "proof": proofs})
    }
}

/// Makes a `witness` parameter.
pub fn witness_parameter(threshold: usize, witnesses: &[&LogSigningKey]) -> Value {
    let ids: Vec<Value> = witnesses.iter().map(|witness| json!({"id": witness.did_key()})).collect();
    json!({"threshold": threshold, "witnesses": ids})
}
