//! The keys that sign the entries of a log, also with pre-rotation (didwebvh 1.0).
//!
//! With pre-rotation an entry names the hash of the key that signs the next entry: a thief of the active key cannot continue it.

use ed25519_dalek::SigningKey;
use serde_json::Value;
use zeroize::Zeroizing;

use crate::{
    log::{EntryKeys, encode_multikey, key_hash},
    store::PrivateKey,
};

/// Name of these keys in the store.
const UPDATE_KEY: &str = "update";

/// The keys of a log cannot be made or found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateKeyError {
    /// The system yields no random bytes.
    #[error("no random bytes: {0}")]
    NoRandom(String),
    /// The store lacks the key that the log names: nothing can continue the log.
    #[error("the store has no key that may sign the next entry of the log")]
    Missing,
}

/// Makes a private key.
pub(super) fn new_secret() -> Result<Zeroizing<[u8; 32]>, UpdateKeyError> {
    let mut secret = Zeroizing::new([0; 32]);
    getrandom::fill(secret.as_mut_slice()).map_err(|error| UpdateKeyError::NoRandom(error.to_string()))?;
    Ok(secret)
}

/// A key that may sign an entry.
#[derive(Clone)]
pub(super) struct UpdateKey {
    version: u64,
    pub key: SigningKey,
}

impl UpdateKey {
    fn generate(version: u64) -> Result<Self, UpdateKeyError> {
        Ok(Self { version, key: SigningKey::from_bytes(&*new_secret()?) })
    }

    /// The key as the store has it.
    pub fn to_private(&self) -> PrivateKey {
        let secret = Zeroizing::new(self.key.to_bytes());
        PrivateKey { name: UPDATE_KEY.to_owned(), version: self.version, secret }
    }

    /// The key as an item of `nextKeyHashes`.
    pub fn hash(&self) -> String {
        key_hash(&encode_multikey(&self.key))
    }
}

/// The parameters of a log that concern its keys.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct KeyParameters {
    update_keys: Vec<String>,
    next_hashes: Vec<String>,
}

impl KeyParameters {
    /// Takes in the parameters of the next entry; absent ones stay.
    pub fn take(&mut self, parameters: &Value) {
        let texts = |name: &str| {
            let list = parameters[name].as_array()?;
            Some(list.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect())
        };
        self.update_keys = texts("updateKeys").unwrap_or_else(|| std::mem::take(&mut self.update_keys));
        self.next_hashes = texts("nextKeyHashes").unwrap_or_else(|| std::mem::take(&mut self.next_hashes));
    }
}

/// The keys of a log.
#[derive(Clone)]
pub(super) struct UpdateKeys {
    /// Has signed the newest entry.
    pub active: UpdateKey,
    /// Signs the next entry, with pre-rotation.
    pub next: Option<UpdateKey>,
}

/// One step of the keys: the entry that they sign, and the keys after it.
pub(super) struct KeyStep {
    pub after: UpdateKeys,
    next_hashes: Option<Vec<String>>,
}

impl KeyStep {
    /// The keys of the entry.
    pub fn entry_keys(&self) -> EntryKeys<'_> {
        EntryKeys { update: &self.after.active.key, next_hashes: self.next_hashes.clone() }
    }
}

impl UpdateKeys {
    /// Makes the keys of a first entry.
    pub fn generate(pre_rotation: bool) -> Result<Self, UpdateKeyError> {
        let next = if pre_rotation { Some(UpdateKey::generate(2)?) } else { None };
        Ok(Self { active: UpdateKey::generate(1)?, next })
    }

    /// Finds the keys that a log names among those of the store.
    pub fn find(stored: &[PrivateKey], parameters: &KeyParameters) -> Result<Self, UpdateKeyError> {
        let keys = stored.iter().filter(|key| key.name == UPDATE_KEY);
        let keys: Vec<UpdateKey> =
            keys.map(|key| UpdateKey { version: key.version, key: SigningKey::from_bytes(&key.secret) }).collect();
        let active = keys.iter().find(|one| parameters.update_keys.contains(&encode_multikey(&one.key)));
        let next = keys.iter().find(|one| parameters.next_hashes.contains(&one.hash()));
        match (active, next) {
            (Some(active), Some(next)) => Ok(Self { active: active.clone(), next: Some(next.clone()) }),
            (Some(active), None) if parameters.next_hashes.is_empty() => {
                Ok(Self { active: active.clone(), next: None })
            }
            _ => Err(UpdateKeyError::Missing),
        }
    }

    /// The step of the next entry.
    pub fn step(&self, pre_rotation: bool) -> Result<KeyStep, UpdateKeyError> {
        let active = self.next.clone().unwrap_or_else(|| self.active.clone());
        let next = if pre_rotation { Some(UpdateKey::generate(active.version + 1)?) } else { None };
        let is_concerned = self.next.is_some() || next.is_some();
        // An empty list ends the pre-rotation.
        let next_hashes = is_concerned.then(|| next.iter().map(UpdateKey::hash).collect());
        Ok(KeyStep { after: Self { active, next }, next_hashes })
    }
}
