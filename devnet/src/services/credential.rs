//! A proof that only a flawed credential has.

use ed25519_dalek::Signer;
use multibase::Base;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use svc_trust::{digest::canonical_json, proof::ProofKey};

/// Signs a credential over its canonical JSON, with a proof that expires.
pub(super) fn sign_with_expiry(credential: &mut Value, prover: &ProofKey, at: &str, expires: &str) {
    let mut proof = json!({
        "@context": credential["@context"], "type": "DataIntegrityProof", "cryptosuite": "eddsa-jcs-2022",
        "created": at, "expires": expires, "verificationMethod": prover.verification_method, "proofPurpose": "assertionMethod",
    });
    let hash = |part: &Value| -> [u8; 32] { Sha256::digest(canonical_json(part).unwrap_or_default()).into() };
    let signature = prover.key.sign(&[hash(&proof), hash(credential)].concat());
    proof["proofValue"] = multibase::encode(Base::Base58Btc, signature.to_bytes()).into();
    credential["proof"] = proof;
}
