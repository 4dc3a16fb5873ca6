//! The proofs of entries and of witnesses.

use affinidi_data_integrity::{DataIntegrityProof, VerifyOptions, crypto_suites::CryptoSuite};
use didwebvh_rs::log_entry::PublicKey;
use serde::Serialize;

use crate::excerpt::excerpt;

/// The key of a proof: its verification method is a did:key. The fragment repeats the key; agents of the first generation leave it out, and
/// their logs can never be written again. A fragment of another key is no repetition: the signature is verified with the key before it.
pub(super) fn key_of_method(method: &str) -> Option<&str> {
    let key = method.strip_prefix("did:key:")?;
    match key.split_once('#') {
        None => Some(key),
        Some((key, fragment)) => (key == fragment).then_some(key),
    }
}

/// Verifies the signature of a proof as it is written.
pub(super) fn verify_proof(proof: &DataIntegrityProof, signed: &impl Serialize) -> Result<(), String> {
    if proof.proof_purpose != "assertionMethod" {
        let purpose = excerpt(&proof.proof_purpose);
        return Err(format!("the purpose of its proof is {purpose:?}, not \"assertionMethod\""));
    }
    // Another suite would read the same bytes as a key of its own.
    if proof.cryptosuite != CryptoSuite::EddsaJcs2022 {
        return Err("the cryptosuite of its proof is not eddsa-jcs-2022".to_owned());
    }
    let key = proof.get_public_key_bytes().map_err(|error| error.to_string())?;
    let verified = proof.verify_with_public_key(signed, &key, VerifyOptions::new());
    verified.map_err(|error| format!("its signature does not verify: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fragment_repeats_the_key_or_is_left_out() {
        for (method, key) in [
            ("did:key:z6MkA#z6MkA", Some("z6MkA")),
            ("did:key:z6MkA", Some("z6MkA")),
            ("did:key:z6MkA#z6MkB", None),
            ("did:key:z6MkA#", None),
            ("did:key:z6MkA#z6MkA#z6MkA", None),
            ("did:web:z6MkA", None),
            ("z6MkA", None),
        ] {
            assert_eq!(key_of_method(method), key, "{method}");
        }
    }
}
