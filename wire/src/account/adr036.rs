//! ADR-036 off-chain signatures (`sign/MsgSignData`, amino JSON). An account logs in to an agent with them.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::json;

use crate::{
    account_key::{AccountKey, KeyError, PublicKey},
    address::Address,
    amino_json::amino_json,
};

/// Bytes of the sign document for `payload`, equal to those of the amino JSON signers of other clients.
pub fn arbitrary_sign_bytes(payload: &str, signer: &Address) -> Vec<u8> {
    let document = json!({
        "account_number": "0",
        "chain_id": "",
        "fee": {"amount": [], "gas": "0"},
        "memo": "",
        "msgs": [{"type": "sign/MsgSignData", "value": {"data": STANDARD.encode(payload), "signer": signer.as_str()}}],
        "sequence": "0",
    });
    amino_json(&document).into_bytes()
}

/// Signs `payload` for `signer`. Returns the 64-byte signature in standard padded base64.
pub fn sign_arbitrary(key: &AccountKey, payload: &str, signer: &Address) -> Result<String, KeyError> {
    Ok(STANDARD.encode(key.sign(&arbitrary_sign_bytes(payload, signer))?))
}

/// Verifies a 64-byte signature over `payload` by `signer`. Either S is taken, as other verifiers of such signatures do.
pub fn verify_arbitrary(key: &PublicKey, payload: &str, signer: &Address, signature: &[u8]) -> bool {
    let Ok(parsed) = k256::ecdsa::Signature::from_slice(signature) else { return false };
    let normalised = parsed.normalize_s().unwrap_or(parsed);
    key.verify(&arbitrary_sign_bytes(payload, signer), &normalised.to_bytes())
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    /// The other one of the two signatures of equal value.
    fn with_other_s(signature: &[u8]) -> Vec<u8> {
        let parsed = k256::ecdsa::Signature::from_slice(signature).expect("a signature");
        let (r, s) = parsed.split_scalars();
        k256::ecdsa::Signature::from_scalars(r, -*s).expect("a signature").to_bytes().to_vec()
    }

    #[test]
    fn signatures_equal_those_of_the_reference_library() {
        let key = AccountKey::from_bytes(&[1; 32]).expect("a valid key");
        let account = key.public_key().address("svc").expect("a valid prefix");
        assert_eq!(account.as_str(), "svc10xcqpzrky6eff2g52qdye53xkk9jxkvr5ufh93");
        assert_eq!(STANDARD.encode(key.public_key().as_bytes()), "AxuExVZ7EmRAmV0+1aq6BWXXHhg0YEgZ/5wX9enV3QeP");
        for (payload, digest, signature) in [
            (
                "vs-agent-admin-auth:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
                "0b6e4aea1480f1942a01b00c50c53ece3124dbd2a969ba3b5f39267da8ad8fee",
                "1fTK10F4cXGVG3gYOIpysbXmLom6r53PEhYkNR0ioYdCkx+ywxWbd22klXkMbX3qtSSmM7ytdXPoLaQywzCgZA==",
            ),
            (
                "vs-agent-admin-auth:https://admin.agent.example.com:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
                "cdab185e0c5df83f19b553f2f180567a135d5a9c1b38e2b08f115409f733c32a",
                "JpXz4GQawS0zj1UCNjWNfbHL8HyAfghb5t6SEA7hA+BmebiNALlwDJydEvUlDBj39xepz4HSyBJYzxLHZYlVqg==",
            ),
        ] {
            assert_eq!(hex::encode(Sha256::digest(arbitrary_sign_bytes(payload, &account))), digest);
            assert_eq!(sign_arbitrary(&key, payload, &account).expect("signing works"), signature);
            let signature = STANDARD.decode(signature).expect("base64");
            assert!(verify_arbitrary(&key.public_key(), payload, &account, &signature));
            assert!(verify_arbitrary(&key.public_key(), payload, &account, &with_other_s(&signature)));
            assert!(!verify_arbitrary(&key.public_key(), "another payload", &account, &signature));
            assert!(!verify_arbitrary(&key.public_key(), payload, &account, &signature[1..]));
        }
    }
}
