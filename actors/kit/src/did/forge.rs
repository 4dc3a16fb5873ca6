//! Logs of did:webvh DIDs for tests, true and false ones, made after the text of didwebvh 1.0 and without the crate that verifies them.

use ed25519_dalek::{Signer, SigningKey};
use multibase::Base;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const HOLDER: &str = "{SCID}";

/// A key that signs entries.
pub struct Key {
    signing: SigningKey,
    pub public: String,
}

impl Key {
    pub fn new(seed: u8) -> Self {
        let signing = SigningKey::from_bytes(&[seed; 32]);
        let multicodec = [&[0xed, 0x01][..], signing.verifying_key().as_bytes()].concat();
        Self { signing, public: multibase::encode(Base::Base58Btc, multicodec) }
    }

    /// The key as it stands in `nextKeyHashes`.
    pub fn hash(&self) -> String {
        multihash(self.public.as_bytes())
    }

    /// The key as a witness.
    pub fn did(&self) -> String {
        format!("did:key:{}", self.public)
    }

    /// A proof over a document.
    pub fn proof(&self, document: &Value) -> Value {
        let mut proof = json!({
            "type": "DataIntegrityProof", "cryptosuite": "eddsa-jcs-2022", "created": "2020-01-01T00:00:00Z",
            "verificationMethod": format!("did:key:{0}#{0}", self.public), "proofPurpose": "assertionMethod",
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
pub struct Forge {
    pub entries: Vec<Value>,
    pub did: String,
    pub scid: String,
}

impl Forge {
    /// A log with its first entry, changed before anything is hashed.
    pub fn new(location: &str, key: &Key, change: impl FnOnce(&mut Value)) -> Self {
        let did = format!("did:webvh:{HOLDER}:{location}");
        let mut entry = json!({
            "versionId": HOLDER, "versionTime": "2020-01-01T00:00:00Z",
            "parameters": {"method": "did:webvh:1.0", "scid": HOLDER, "updateKeys": [key.public]},
            "state": {"@context": ["https://www.w3.org/ns/did/v1"], "id": did},
        });
        change(&mut entry);
        let scid = multihash(canonical(&entry).as_bytes());
        let entry = serde_json::from_str(&entry.to_string().replace(HOLDER, &scid)).expect("an entry");
        let mut forge = Self { entries: Vec::new(), did: did.replace(HOLDER, &scid), scid };
        forge.seal(entry, key);
        forge
    }

    /// One more entry with the last state, changed before it is hashed.
    pub fn add(&mut self, key: &Key, change: impl FnOnce(&mut Value)) -> &mut Self {
        let number = self.entries.len();
        let (day, month, year) = (number % 28 + 1, number / 28 % 12 + 1, 2020 + number / 28 / 12);
        let mut entry = json!({
            "versionId": self.last()["versionId"], "versionTime": format!("{year}-{month:02}-{day:02}T00:00:00Z"),
            "parameters": {}, "state": self.last()["state"],
        });
        change(&mut entry);
        self.seal(entry, key);
        self
    }

    /// Replaces an entry's SCID by another one, and hashes and signs it again: what somebody does who wants another's DID.
    pub fn claim(&mut self, scid: &str, key: &Key) {
        let mut entry = self.entries.remove(0);
        entry.as_object_mut().expect("an entry").remove("proof");
        entry["versionId"] = self.scid.as_str().into();
        let entry = serde_json::from_str(&entry.to_string().replace(&self.scid, scid)).expect("an entry");
        self.did = self.did.replace(&self.scid, scid);
        scid.clone_into(&mut self.scid);
        self.seal(entry, key);
    }

    /// Hash and proof. `versionId` is the predecessor's until then.
    fn seal(&mut self, mut entry: Value, key: &Key) {
        if self.entries.is_empty() {
            entry["versionId"] = self.scid.as_str().into();
        }
        let hash = multihash(canonical(&entry).as_bytes());
        entry["versionId"] = format!("{}-{hash}", self.entries.len() + 1).into();
        entry["proof"] = json!([key.proof(&entry)]);
        self.entries.push(entry);
    }

    pub fn last(&self) -> &Value {
        self.entries.last().expect("an entry")
    }

    /// The log as it is published.
    pub fn text(&self) -> String {
        self.entries.iter().map(|entry| format!("{entry}\n")).collect()
    }

    /// What witnesses say of an entry.
    pub fn approval(&self, entry: usize, witnesses: &[&Key]) -> Value {
        let version = &self.entries[entry]["versionId"];
        let proofs: Vec<Value> =
            witnesses.iter().map(|witness| witness.proof(&json!({"versionId": version}))).collect();
        json!({"versionId": version, "proof": proofs})
    }
}

/// A `witness` parameter.
pub fn witnessed_by(threshold: usize, witnesses: &[&Key]) -> Value {
    let ids: Vec<Value> = witnesses.iter().map(|witness| json!({"id": witness.did()})).collect();
    json!({"threshold": threshold, "witnesses": ids})
}
