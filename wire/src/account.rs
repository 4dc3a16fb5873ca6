//! Bech32 account addresses and the ways the Cosmos SDK derives them.

use std::fmt;

use bech32::{Bech32, Hrp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A bech32 account address whose checksum, prefix and length were checked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Address(String);

/// Why a text is not an account address of this chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The text is not bech32.
    #[error("{text:?} is not a bech32 address")]
    Malformed {
        /// What was given.
        text: String,
    },
    /// The prefix belongs to another chain or to another kind of key.
    #[error("address {text:?} has prefix {found:?}, expected {expected:?}")]
    Prefix {
        /// What was given.
        text: String,
        /// Its prefix.
        found: String,
        /// The chain's prefix.
        expected: String,
    },
    /// Accounts have 20 bytes, derived accounts (group policies) 32.
    #[error("address {text:?} holds {length} bytes, expected 20 or 32")]
    Length {
        /// What was given.
        text: String,
        /// Bytes found.
        length: usize,
    },
    /// The prefix itself is not a valid bech32 human-readable part.
    #[error("{prefix:?} is not a bech32 prefix")]
    BadPrefix {
        /// What was given.
        prefix: String,
    },
}

impl Address {
    /// Encodes raw address bytes.
    pub fn from_bytes(prefix: &str, bytes: &[u8]) -> Result<Self, AddressError> {
        let hrp = Hrp::parse(prefix).map_err(|_| AddressError::BadPrefix { prefix: prefix.to_owned() })?;
        let text = bech32::encode::<Bech32>(hrp, bytes)
            .map_err(|_| AddressError::Length { text: hex::encode(bytes), length: bytes.len() })?;
        Ok(Self(text))
    }

    /// Checks a text against the chain's prefix.
    pub fn parse(prefix: &str, text: &str) -> Result<Self, AddressError> {
        let malformed = || AddressError::Malformed { text: text.to_owned() };
        let checked = bech32::primitives::decode::CheckedHrpstring::new::<Bech32>(text).map_err(|_| malformed())?;
        let found = checked.hrp().to_lowercase();
        if found != prefix {
            return Err(AddressError::Prefix { text: text.to_owned(), found, expected: prefix.to_owned() });
        }
        let length = checked.byte_iter().count();
        if !matches!(length, 20 | 32) {
            return Err(AddressError::Length { text: text.to_owned(), length });
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
pub fn module_account(name: &str) -> Vec<u8> {
    Sha256::digest(name.as_bytes())[..20].to_vec()
}

/// Address bytes of the n-th group policy (ADR-028 module credential: `group`, table prefix 0x20, big-endian counter).
pub fn group_policy(counter: u64) -> Vec<u8> {
    let mut key = b"group\0".to_vec();
    key.push(0x20);
    derive(&typed_hash(b"module", &key), &counter.to_be_bytes())
}

fn derive(address: &[u8], key: &[u8]) -> Vec<u8> {
    typed_hash(address, key)
}

fn typed_hash(kind: &[u8], key: &[u8]) -> Vec<u8> {
    Sha256::new().chain_update(Sha256::digest(kind)).chain_update(key).finalize().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_prefix_a_broken_checksum_and_an_odd_length_are_told_apart() {
        let address = Address::from_bytes("svc", &[7; 20]).expect("20 bytes encode");
        assert_eq!(Address::parse("svc", address.as_str()), Ok(address.clone()));
        assert!(matches!(Address::parse("other", address.as_str()), Err(AddressError::Prefix { .. })));
        let broken = address.as_str().replace('q', "p");
        assert!(matches!(Address::parse("svc", &broken), Err(AddressError::Malformed { .. })));
        let short = Address::from_bytes("svc", &[7; 8]).expect("8 bytes encode");
        assert!(matches!(Address::parse("svc", short.as_str()), Err(AddressError::Length { length: 8, .. })));
    }

    /// The gov module account as every Cosmos chain has it.
    #[test]
    fn module_accounts_match_the_sdk() {
        let gov = Address::from_bytes("cosmos", &module_account("gov")).expect("20 bytes encode");
        assert_eq!(gov.as_str(), "cosmos10d07y265gmmuvt4z0w9aw880jnsr700j6zn9kn");
    }

    /// The first group policy of any chain with x/group.
    #[test]
    fn group_policies_match_the_sdk() {
        let first = Address::from_bytes("cosmos", &group_policy(1)).expect("32 bytes encode");
        assert_eq!(first.as_str(), "cosmos1afk9zr2hn2jsac63h4hm60vl9z3e5u69gndzf7c99cqge3vzwjzsfwkgpd");
    }
}
