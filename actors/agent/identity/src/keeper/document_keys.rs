//! The private keys of the document: the pairs of the store, and the choice among them.
//!
//! A pair has a version in the store and no version in the document, which names public keys only. The order of the published document
//! decides which key signs (`document/key_change.rs`): a key that was just added is known to resolvers before it is used.

use std::cmp::Reverse;

use ed25519_dalek::SigningKey;
use serde_json::Value;
use svc_agent_store::PrivateKey;
use svc_didcomm::envelope::KeyAgreementKey;
use svc_trust::{did_document::ProofPurpose, proof::ProofKey};
use x25519_dalek::{PublicKey as AgreementKey, StaticSecret};
use zeroize::Zeroizing;

use super::update_keys::{UpdateKeyError, new_secret};
use crate::{
    document::DocumentKeys,
    log::{encode_multikey, encode_public},
};

/// Names of the keys in the store.
const SIGNING_KEY: &str = "signing";
pub(super) const AGREEMENT_KEY: &str = "agreement";
/// Prefix of a public X25519 key.
const X25519_PREFIX: [u8; 2] = [0xec, 0x01];

/// The private keys of one version: one signs, and peers encrypt for the other.
pub(super) struct KeyPair {
    version: u64,
    signing: Zeroizing<[u8; 32]>,
    agreement: Zeroizing<[u8; 32]>,
}

impl KeyPair {
    /// Makes a pair.
    pub fn generate(version: u64) -> Result<Self, UpdateKeyError> {
        Ok(Self { version, signing: new_secret()?, agreement: new_secret()? })
    }

    /// The pairs of the store, the newest first.
    fn stored(keys: &[PrivateKey]) -> Vec<Self> {
        let find = |name: &str, version: u64| keys.iter().find(|key| key.name == name && key.version == version);
        let signing = keys.iter().filter(|key| key.name == SIGNING_KEY);
        let mut pairs: Vec<Self> = signing
            .filter_map(|key| {
                let agreement = find(AGREEMENT_KEY, key.version)?.secret.clone();
                Some(Self { version: key.version, signing: key.secret.clone(), agreement })
            })
            .collect();
        pairs.sort_by_key(|pair| Reverse(pair.version));
        pairs
    }

    /// The public keys.
    pub fn public(&self) -> DocumentKeys {
        let agreement = AgreementKey::from(&StaticSecret::from(*self.agreement));
        DocumentKeys {
            signing: encode_multikey(&SigningKey::from_bytes(&self.signing)),
            agreement: encode_public(&X25519_PREFIX, agreement.as_bytes()),
        }
    }

    /// The keys as the store has them.
    pub fn into_private(self) -> [PrivateKey; 2] {
        let Self { version, signing, agreement } = self;
        let key = |name: &str, secret| PrivateKey { name: name.to_owned(), version, secret };
        [key(SIGNING_KEY, signing), key(AGREEMENT_KEY, agreement)]
    }
}

/// A pair that the document can name.
struct DocumentKey {
    version: u64,
    /// Id of the verification method of its signing key.
    method: String,
    public: DocumentKeys,
    key: SigningKey,
    /// Id of the verification method of its key for messages.
    agreement_method: String,
    agreement: KeyAgreementKey,
}

/// The pairs that the store has, the newest first.
pub(crate) struct DocumentKeyring(Vec<DocumentKey>);

impl DocumentKeyring {
    /// Takes the pairs of a DID among the keys of the store.
    pub(super) fn new(did: &str, stored: &[PrivateKey]) -> Self {
        let pairs = KeyPair::stored(stored).into_iter().map(|pair| {
            let public = pair.public();
            let method = format!("{did}#{}", public.signing);
            let agreement_method = format!("{did}#{}", public.agreement);
            DocumentKey {
                version: pair.version,
                method,
                public,
                key: SigningKey::from_bytes(&pair.signing),
                agreement_method,
                agreement: KeyAgreementKey::from_bytes(&pair.agreement),
            }
        });
        Self(pairs.collect())
    }

    /// The key that a document uses for a purpose: the first one of the relation that the store has.
    pub(crate) fn prover(&self, document: &Value, purpose: ProofPurpose) -> Option<ProofKey> {
        let allowed = document[purpose.as_str()].as_array()?;
        let found = allowed.iter().find_map(|id| self.0.iter().find(|one| id == one.method.as_str()))?;
        Some(ProofKey { verification_method: found.method.clone(), key: found.key.clone() })
    }

    /// The key for messages with an id, where a document names it for that.
    pub(crate) fn agreement_key(&self, document: &Value, key_id: &str) -> Option<&KeyAgreementKey> {
        let is_named = document["keyAgreement"].as_array().is_some_and(|ids| ids.iter().any(|id| id == key_id));
        let found = self.0.iter().find(|one| one.agreement_method == key_id);
        found.filter(|_| is_named).map(|one| &one.agreement)
    }

    /// The key that a document uses to encrypt messages, with its id: the first one that the store has.
    pub(crate) fn sending_key(&self, document: &Value) -> Option<(&str, &KeyAgreementKey)> {
        let named = document["keyAgreement"].as_array()?;
        let found = named.iter().find_map(|id| self.0.iter().find(|one| id == one.agreement_method.as_str()))?;
        Some((&found.agreement_method, &found.agreement))
    }

    /// The public key for messages that a document should name in the place of those that the store does not have: that of the pair which
    /// signs. Nothing while the store has one of them.
    pub(crate) fn missing_agreement(&self, document: &Value) -> Option<String> {
        if self.sending_key(document).is_some() {
            return None;
        }
        let signing = document[ProofPurpose::Authentication.as_str()].as_array()?;
        let pair = signing.iter().find_map(|id| self.0.iter().find(|one| id == one.method.as_str()))?;
        Some(pair.public.agreement.clone())
    }

    /// The newest version of the store; 0 without keys.
    pub(crate) fn newest_version(&self) -> u64 {
        self.0.first().map_or(0, |newest| newest.version)
    }

    /// The public keys of a version.
    pub(crate) fn public(&self, version: u64) -> Option<&DocumentKeys> {
        self.0.iter().find(|one| one.version == version).map(|one| &one.public)
    }

    /// The signing keys that no credential of a document can be proven with any more, by the ids of their verification methods.
    pub(crate) fn removed_from(&self, document: &Value) -> Vec<String> {
        let proves = |method: &str| {
            let allowed = document[ProofPurpose::AssertionMethod.as_str()].as_array();
            allowed.is_some_and(|ids| ids.iter().any(|id| id == method))
        };
        self.0.iter().filter(|one| !proves(&one.method)).map(|one| one.method.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use svc_trust::did_document::verification_key;

    use super::*;
    use crate::document::{DidDocument, KeyChange};

    const DID: &str = "did:web:agent.example.com";
    const PURPOSES: [ProofPurpose; 2] = [ProofPurpose::Authentication, ProofPurpose::AssertionMethod];

    /// A pair with known secrets, as the store has it.
    fn rows(version: u64) -> Vec<PrivateKey> {
        let secret = |byte: u64| Zeroizing::new([u8::try_from(byte).expect("small"); 32]);
        KeyPair { version, signing: secret(version), agreement: secret(100 + version) }.into_private().into()
    }

    fn keyring(versions: &[u64]) -> DocumentKeyring {
        // The store returns its rows by name, not by version.
        let mut stored: Vec<PrivateKey> = versions.iter().flat_map(|version| rows(*version)).collect();
        stored.sort_by(|one, other| one.name.cmp(&other.name));
        DocumentKeyring::new(DID, &stored)
    }

    fn public(version: u64) -> DocumentKeys {
        keyring(&[version]).public(version).expect("a pair").clone()
    }

    fn document(changes: &[KeyChange]) -> DidDocument {
        let mut document = DidDocument::new(DID, &public(1));
        changes.iter().for_each(|change| change.apply(&mut document).expect("applied"));
        document
    }

    /// The versions that sign presentations and credentials.
    fn signers(keyring: &DocumentKeyring, document: &DidDocument) -> [Option<u64>; 2] {
        PURPOSES.map(|purpose| {
            let prover = keyring.prover(document.as_json(), purpose)?;
            keyring.0.iter().find(|one| one.method == prover.verification_method).map(|one| one.version)
        })
    }

    #[test]
    fn the_order_of_the_document_decides_which_key_signs() {
        let [add, promote, retire] =
            [KeyChange::Add, KeyChange::Promote, KeyChange::RetireOthers].map(|step| step(public(2)));
        let replace = KeyChange::Replace(public(3));
        for (changes, versions, expected) in [
            (vec![], vec![1], Some(1)),
            // A pair that no document names yet.
            (vec![], vec![1, 2], Some(1)),
            (vec![add.clone()], vec![1, 2], Some(1)),
            (vec![add.clone(), promote.clone()], vec![1, 2], Some(2)),
            (vec![add.clone(), promote.clone(), retire.clone()], vec![1, 2], Some(2)),
            (vec![add.clone(), replace.clone()], vec![1, 2, 3], Some(3)),
            // The store is a copy from before the rotation.
            (vec![add.clone(), promote.clone()], vec![1], Some(1)),
            (vec![replace.clone()], vec![1, 2], None),
        ] {
            assert_eq!(
                signers(&keyring(&versions), &document(&changes)),
                [expected; 2],
                "{changes:?} with {versions:?}"
            );
        }
    }

    #[test]
    fn a_resolver_takes_the_key_that_signs_for_its_purpose() {
        let document = document(&[KeyChange::Add(public(2)), KeyChange::Promote(public(2))]);
        for purpose in PURPOSES {
            let prover = keyring(&[1, 2]).prover(document.as_json(), purpose).expect("a key");
            let found = verification_key(document.as_json(), &prover.verification_method, purpose, 0).expect("allowed");
            assert_eq!(found, prover.key.verifying_key());
        }
    }

    #[test]
    fn a_retired_key_proves_credentials_and_no_presentations() {
        let changes = [KeyChange::Add, KeyChange::Promote, KeyChange::RetireOthers].map(|step| step(public(2)));
        let document = document(&changes);
        let [method] = <[String; 1]>::try_from(document.retired_keys()).expect("one key");
        let [presents, proves] =
            PURPOSES.map(|purpose| verification_key(document.as_json(), &method, purpose, 0).is_ok());
        assert_eq!((presents, proves), (false, true));
        assert!(keyring(&[1, 2]).removed_from(document.as_json()).is_empty());
        let mut removed = document.clone();
        KeyChange::Remove(vec![method.clone()]).apply(&mut removed).expect("removed");
        assert_eq!(keyring(&[1, 2]).removed_from(removed.as_json()), [method]);
    }

    #[test]
    fn generated_pairs_are_found_again_and_differ() {
        let pairs = [1, 2].map(|version| KeyPair::generate(version).expect("random bytes"));
        let [first, second] = pairs.each_ref().map(KeyPair::public);
        assert!(first.signing.starts_with("z6Mk") && first.agreement.starts_with("z6LS"), "{first:?}");
        assert!(first.signing != second.signing && first.agreement != second.agreement);
        let stored: Vec<PrivateKey> = pairs.into_iter().flat_map(KeyPair::into_private).collect();
        let keyring = DocumentKeyring::new(DID, &stored);
        assert_eq!((keyring.public(1), keyring.public(2), keyring.public(3)), (Some(&first), Some(&second), None));
        assert_eq!((keyring.newest_version(), DocumentKeyring::new(DID, &[]).newest_version()), (2, 0));
    }
}
