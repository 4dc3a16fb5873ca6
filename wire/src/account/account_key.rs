//! Account keys: secp256k1, derived from a BIP-39 phrase on the BIP-44 path `m/44'/118'/0'/0/0`.

use bip32::DerivationPath;
use bip39::Mnemonic;
use cosmrs::crypto::secp256k1::SigningKey;
use k256::ecdsa::{Signature, VerifyingKey, signature::Verifier};
use zeroize::Zeroizing;

use crate::address::{Address, AddressError};

/// Derivation path of the operator account. The chain's own clients use the same coin type.
const DERIVATION_PATH: &str = "m/44'/118'/0'/0/0";

/// A compressed secp256k1 public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; 33]);

/// A secp256k1 account key. It has no `Debug`, no `Clone` and no `Serialize`, so that the key material stays in one place.
pub struct AccountKey {
    signing_key: SigningKey,
    public_key: PublicKey,
}

/// A key or a signature could not be made. Carries no key material.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The phrase is not a BIP-39 phrase. The reason names positions and counts, never words.
    #[error("the mnemonic is not a BIP-39 English phrase: {reason}")]
    Mnemonic {
        /// The rule that the phrase breaks.
        reason: String,
    },
    /// Derivation or decoding of the private key failed.
    #[error("no secp256k1 key could be derived")]
    Derivation,
    /// The bytes are not a compressed point of the curve.
    #[error("not a compressed secp256k1 public key")]
    PublicKey,
    /// The signature could not be computed.
    #[error("signing failed")]
    Signing,
}

impl AccountKey {
    /// Derives the key of a BIP-39 phrase (English word list, no passphrase).
    pub fn from_mnemonic(phrase: &str) -> Result<Self, KeyError> {
        let mnemonic = Mnemonic::parse_normalized(phrase.trim()).map_err(|error| KeyError::Mnemonic {
            reason: match error {
                bip39::Error::BadWordCount(count) => {
                    format!("it has {count} words")
                }
                bip39::Error::UnknownWord(index) => {
                    format!("word {} is not in the word list", index + 1)
                }
                bip39::Error::InvalidChecksum => "its checksum does not match".to_owned(),
                bip39::Error::BadEntropyBitCount(_) | bip39::Error::AmbiguousLanguages(_) => {
                    "its length or language is not supported".to_owned()
                }
            },
        })?;
        let seed = Zeroizing::new(mnemonic.to_seed_normalized(""));
        let path: DerivationPath = DERIVATION_PATH.parse().map_err(|_| KeyError::Derivation)?;
        let signing_key = SigningKey::derive_from_path(seed.as_slice(), &path).map_err(|_| KeyError::Derivation)?;
        Self::from_signing_key(signing_key)
    }

    /// Takes a raw 32-byte private key, the form of test vectors.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, KeyError> {
        Self::from_signing_key(SigningKey::from_slice(bytes).map_err(|_| KeyError::Derivation)?)
    }

    fn from_signing_key(signing_key: SigningKey) -> Result<Self, KeyError> {
        let public_key = PublicKey::from_bytes(&signing_key.public_key().to_bytes())?;
        Ok(Self { signing_key, public_key })
    }

    /// The public half.
    pub fn public_key(&self) -> PublicKey {
        self.public_key
    }

    /// Signs SHA-256 of `message`. The signature is 64 bytes r‖s, deterministic (RFC 6979), with low S.
    pub fn sign(&self, message: &[u8]) -> Result<[u8; 64], KeyError> {
        let signature = self.signing_key.sign(message).map_err(|_| KeyError::Signing)?;
        let mut bytes = [0; 64];
        bytes.copy_from_slice(&signature.to_bytes());
        Ok(bytes)
    }
}

impl PublicKey {
    /// Checks that the bytes are a compressed point of the curve.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyError> {
        let compressed: [u8; 33] = bytes.try_into().map_err(|_| KeyError::PublicKey)?;
        VerifyingKey::from_sec1_bytes(&compressed).map_err(|_| KeyError::PublicKey)?;
        Ok(Self(compressed))
    }

    /// The 33 compressed bytes.
    pub fn as_bytes(&self) -> &[u8; 33] {
        &self.0
    }

    /// The account address: bech32 of RIPEMD-160 of SHA-256 of the key.
    pub fn address(&self, prefix: &str) -> Result<Address, AddressError> {
        let bad_prefix = || AddressError::InvalidPrefix { prefix: prefix.to_owned() };
        let key = cosmrs::tendermint::PublicKey::from_raw_secp256k1(&self.0).ok_or_else(bad_prefix)?;
        let account = cosmrs::crypto::PublicKey::from(key).account_id(prefix).map_err(|_| bad_prefix())?;
        Address::parse(prefix, account.as_ref())
    }

    /// Verifies a 64-byte signature over SHA-256 of `message`. Refuses a high S, as the chain does.
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        let (Ok(key), Ok(signature)) = (VerifyingKey::from_sec1_bytes(&self.0), Signature::from_slice(signature))
        else {
            return false;
        };
        signature.normalize_s().is_none() && key.verify(message, &signature).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHRASE: &str =
        "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about";

    #[test]
    fn the_public_test_phrase_derives_the_known_address() {
        let key = AccountKey::from_mnemonic(PHRASE).expect("a valid phrase");
        let address = key.public_key().address("cosmos").expect("a valid prefix");
        assert_eq!(address.as_str(), "cosmos19rl4cm2hmr8afy4kldpxz3fka4jguq0auqdal4");
    }

    #[test]
    fn the_error_for_an_invalid_phrase_contains_no_word_of_the_phrase() {
        for (phrase, expected) in [
            ("abandon abandon", "2 words"),
            (&PHRASE.replace("about", "zzzsecret"), "word 12"),
            (&PHRASE.replace("about", "abandon"), "checksum"),
        ] {
            let Err(error) = AccountKey::from_mnemonic(phrase) else { panic!("{expected}: accepted") };
            let text = error.to_string();
            assert!(text.contains(expected), "{text}");
            assert!(!text.contains("abandon") && !text.contains("zzzsecret"), "{text}");
        }
    }

    #[test]
    fn a_changed_message_or_a_high_s_does_not_verify() {
        let key = AccountKey::from_bytes(&[1; 32]).expect("a valid key");
        let signature = key.sign(b"message").expect("signing works");
        assert!(key.public_key().verify(b"message", &signature));
        assert!(!key.public_key().verify(b"messagf", &signature));
        let parsed = Signature::from_slice(&signature).expect("64 bytes");
        let (r, s) = parsed.split_scalars();
        let high = Signature::from_scalars(r.to_bytes(), (-*s.as_ref()).to_bytes()).expect("valid scalars");
        assert!(!key.public_key().verify(b"message", &high.to_bytes()));
    }
}
