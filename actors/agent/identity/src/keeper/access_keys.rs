//! The keys of tokens for peers: the newest one that is in use signs, and older ones stay until their last token has ended.

use std::cmp::Reverse;

use ed25519_dalek::SigningKey;
use svc_agent_store::{AccessKeyTime, PrivateKey};
use svc_wire::endpoint_access::MAX_TOKEN_SECONDS;

use crate::log::encode_multikey;

/// Name of the keys in the store.
pub(super) const TOKEN_KEY: &str = "access";
/// Seconds after its last token for which an older key stays: clocks differ.
const KEPT_AFTER_LAST: i64 = 60;

/// A key of tokens.
#[derive(Clone)]
pub struct AccessKey {
    /// Version in the store.
    pub version: u64,
    /// Id of its verification method.
    pub method: String,
    /// Multikey text of its public key.
    pub public: String,
    /// The key.
    pub key: SigningKey,
    used_from: i64,
}

impl AccessKey {
    /// Whether no time is known from which it is used.
    pub fn is_unused(&self) -> bool {
        self.used_from == i64::MAX
    }
}

/// The keys of tokens, the newest first.
#[derive(Clone, Default)]
pub struct AccessKeyring(Vec<AccessKey>);

impl AccessKeyring {
    /// Takes the keys of a DID among those of the store.
    pub fn new(did: &str, stored: &[PrivateKey], times: &[AccessKeyTime]) -> Self {
        let of_time = |time: &AccessKeyTime| {
            let stored = stored.iter().find(|key| key.name == TOKEN_KEY && key.version == time.version)?;
            let key = SigningKey::from_bytes(&stored.secret);
            let public = encode_multikey(&key);
            Some(AccessKey {
                version: time.version,
                method: format!("{did}#{public}"),
                public,
                key,
                used_from: time.used_from,
            })
        };
        let mut keys: Vec<AccessKey> = times.iter().filter_map(of_time).collect();
        keys.sort_by_key(|key| Reverse(key.version));
        Self(keys)
    }

    /// Version of the newest key; 0 without one.
    pub fn newest_version(&self) -> u64 {
        self.0.first().map_or(0, |key| key.version)
    }

    /// The public keys as the document names them.
    pub fn public(&self) -> Vec<String> {
        self.0.iter().map(|key| key.public.clone()).collect()
    }

    /// The keys, the newest first.
    pub fn keys(&self) -> &[AccessKey] {
        &self.0
    }

    /// The key that signs at a time, in seconds since the epoch: the newest one in use that a document names.
    pub fn signer(&self, named: &[&str], now: i64) -> Option<&AccessKey> {
        self.0.iter().find(|key| key.used_from <= now && named.contains(&key.method.as_str()))
    }

    /// The key of a verification method.
    pub fn find(&self, method: &str) -> Option<&AccessKey> {
        self.0.iter().find(|key| key.method == method)
    }

    /// The versions whose last token has ended: a newer key has been used for longer than a token lasts.
    pub fn outlived(&self, now: i64) -> Vec<u64> {
        let in_use =
            self.0.iter().position(|key| key.used_from.saturating_add(MAX_TOKEN_SECONDS + KEPT_AFTER_LAST) <= now);
        let older = in_use.map(|place| &self.0[place + 1..]).unwrap_or_default();
        older.iter().map(|key| key.version).collect()
    }
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;

    #[test]
    fn a_key_is_used_when_resolvers_know_it_and_leaves_after_its_last_token() {
        let secret = |version: u64| PrivateKey {
            name: TOKEN_KEY.to_owned(),
            version,
            secret: Zeroizing::new([u8::try_from(version).expect("small"); 32]),
        };
        let time = |version, used_from| AccessKeyTime { version, used_from };
        let keyring = AccessKeyring::new("did:web:a", &[1, 2].map(secret), &[time(1, 0), time(2, 1_000)]);
        let methods: Vec<&str> = keyring.keys().iter().map(|key| key.method.as_str()).collect();
        let signer = |named: &[&str], now| keyring.signer(named, now).map(|key| key.version);
        assert_eq!((signer(&methods, 999), signer(&methods, 1_000)), (Some(1), Some(2)));
        assert_eq!(signer(&methods[1..], 1_000), Some(1), "a document without the new one");
        assert_eq!(signer(&[], 1_000), None);
        assert_eq!((keyring.outlived(1_959), keyring.outlived(1_960)), (vec![], vec![1]));
        assert_eq!(keyring.newest_version(), 2);
        assert!(keyring.find(methods[1]).is_some_and(|key| key.version == 1) && keyring.find("x").is_none());
    }
}
