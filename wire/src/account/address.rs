//! Bech32 account addresses, and the addresses that the Cosmos SDK derives for modules and group policies.

use std::fmt;

use bech32::{Bech32, Hrp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A bech32 account address with a valid checksum, prefix and length.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Address(String);

/// A text is not an account address of this chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The text is not bech32.
    #[error("{text:?} is not a bech32 address")]
    Malformed {
        /// The given text.
        text: String,
    },
    /// The prefix belongs to another chain or to another kind of key.
    #[error("address {text:?} has prefix {found:?}, expected {expected:?}")]
    PrefixMismatch {
        /// The given text.
        text: String,
        /// Its prefix.
        found: String,
        /// The chain's prefix.
        expected: String,
    },
    /// The address has neither 20 bytes (accounts) nor 32 (derived accounts, such as group policies).
    #[error("address {text:?} holds {length} bytes, expected 20 or 32")]
    InvalidLength {
        /// The given text, or the bytes in hex.
        text: String,
        /// Number of bytes found.
        length: usize,
    },
    /// The prefix itself is not a valid bech32 human-readable part.
    #[error("{prefix:?} is not a bech32 prefix")]
    InvalidPrefix {
        /// The given prefix.
        prefix: String,
    },
}

impl Address {
    /// Encodes raw address bytes. Fails when the prefix is no human-readable part or the bytes are too many for bech32.
    pub fn from_bytes(prefix: &str, bytes: &[u8]) -> Result<Self, AddressError> {
        let hrp = Hrp::parse(prefix).map_err(|_| AddressError::InvalidPrefix { prefix: prefix.to_owned() })?;
        let text = bech32::encode::<Bech32>(hrp, bytes)
            .map_err(|_| AddressError::InvalidLength { text: hex::encode(bytes), length: bytes.len() })?;
        Ok(Self(text))
    }

    /// Returns the prefix of a text that is an address.
    pub fn prefix_of(text: &str) -> Option<String> {
        let (prefix, _) = text.rsplit_once('1')?;
        Self::parse(prefix, text).is_ok().then(|| prefix.to_owned())
    }

    /// Checks checksum, prefix and length of a text.
    pub fn parse(prefix: &str, text: &str) -> Result<Self, AddressError> {
        let malformed = || AddressError::Malformed { text: text.to_owned() };
        let checked = bech32::primitives::decode::CheckedHrpstring::new::<Bech32>(text).map_err(|_| malformed())?;
        let found = checked.hrp().to_lowercase();
        if found != prefix {
            return Err(AddressError::PrefixMismatch { text: text.to_owned(), found, expected: prefix.to_owned() });
        }
        let length = checked.byte_iter().count();
        if !matches!(length, 20 | 32) {
            return Err(AddressError::InvalidLength { text: text.to_owned(), length });
        }
        Ok(Self(text.to_lowercase()))
    }

    /// The bech32 text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Address bytes of a module account: the first 20 bytes of SHA-256 of its name.
pub fn module_account_address(name: &str) -> Vec<u8> {
    Sha256::digest(name.as_bytes())[..20].to_vec()
}

/// Address bytes of the n-th group policy (ADR-028 module credential: `group`, table prefix 0x20, big-endian counter).
pub fn group_policy_address(counter: u64) -> Vec<u8> {
    let mut key = b"group\0".to_vec();
    key.push(0x20);
    // ADR-028 derives a sub-address as the typed hash of the parent address.
    typed_hash(&typed_hash(b"module", &key), &counter.to_be_bytes())
}

fn typed_hash(kind: &[u8], key: &[u8]) -> Vec<u8> {
    Sha256::new().chain_update(Sha256::digest(kind)).chain_update(key).finalize().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_prefix_a_wrong_checksum_and_a_wrong_length_are_different_errors() {
        let address = Address::from_bytes("svc", &[7; 20]).expect("20 bytes encode");
        assert_eq!(Address::parse("svc", address.as_str()), Ok(address.clone()));
        assert!(matches!(Address::parse("other", address.as_str()), Err(AddressError::PrefixMismatch { .. })));
        let wrong_checksum = address.as_str().replace('q', "p");
        assert!(matches!(Address::parse("svc", &wrong_checksum), Err(AddressError::Malformed { .. })));
        let short = Address::from_bytes("svc", &[7; 8]).expect("8 bytes encode");
        assert!(matches!(Address::parse("svc", short.as_str()), Err(AddressError::InvalidLength { length: 8, .. })));
    }

    /// The gov module account of the Cosmos Hub.
    #[test]
    fn module_accounts_match_the_sdk() {
        let gov = Address::from_bytes("cosmos", &module_account_address("gov")).expect("20 bytes encode");
        assert_eq!(gov.as_str(), "cosmos10d07y265gmmuvt4z0w9aw880jnsr700j6zn9kn");
    }

    /// The first group policy of any chain with x/group.
    #[test]
    fn group_policies_match_the_sdk() {
        let first = Address::from_bytes("cosmos", &group_policy_address(1)).expect("32 bytes encode");
        assert_eq!(first.as_str(), "cosmos1afk9zr2hn2jsac63h4hm60vl9z3e5u69gndzf7c99cqge3vzwjzsfwkgpd");
    }
}
