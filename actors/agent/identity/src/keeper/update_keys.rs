//! The keys that sign the entries of a log, also with pre-rotation (didwebvh 1.0).
//!
//! With pre-rotation an entry names the hash of the key that signs the next entry: a thief of the active key cannot continue it. So each
//! entry rotates the key. Without pre-rotation an entry rotates it on demand: the old key signs the entry that names the new one.
//!
//! Rows of old keys stay in the store. A version whose commit is unclear may be discarded, and then the old key signs the next one; and
//! no log that has moved on takes an entry of theirs.

use ed25519_dalek::SigningKey;
use serde_json::Value;
use svc_agent_store::PrivateKey;
use zeroize::Zeroizing;

use crate::log::{EntryKeys, encode_multikey, key_hash};

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
    /// Signs the entry.
    signer: UpdateKey,
    pub after: UpdateKeys,
    next_hashes: Option<Vec<String>>,
}

impl KeyStep {
    /// The keys of the entry.
    pub fn entry_keys(&self) -> EntryKeys<'_> {
        let is_replaced = self.after.active.version != self.signer.version;
        let named = is_replaced.then_some(&self.after.active.key);
        EntryKeys { update: &self.signer.key, named, next_hashes: self.next_hashes.clone() }
    }

    /// The keys that were made for the step: the store has to have them before the entry names them.
    pub fn added(&self) -> Vec<PrivateKey> {
        let keys = [Some(&self.after.active), self.after.next.as_ref()].into_iter().flatten();
        keys.filter(|key| key.version > self.signer.version).map(UpdateKey::to_private).collect()
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

    /// The step of the next entry; with `rotates` no entry behind it can be signed by the active key.
    pub fn step(&self, pre_rotation: bool, rotates: bool) -> Result<KeyStep, UpdateKeyError> {
        let signer = self.next.clone().unwrap_or_else(|| self.active.clone());
        // A key whose hash the log names becomes active with its first entry: the one before it is out of use already.
        let is_replaced = rotates && self.next.is_none();
        let active = if is_replaced { UpdateKey::generate(signer.version + 1)? } else { signer.clone() };
        let next = if pre_rotation { Some(UpdateKey::generate(active.version + 1)?) } else { None };
        let is_concerned = self.next.is_some() || next.is_some();
        // An empty list ends the pre-rotation.
        let next_hashes = is_concerned.then(|| next.iter().map(UpdateKey::hash).collect());
        Ok(KeyStep { signer, after: Self { active, next }, next_hashes })
    }
}

#[cfg(test)]
mod tests {
    use svc_net::did::verify_own_log;

    use super::*;
    use crate::{
        document::{DidDocument, DocumentKeys},
        log::{SCID_PLACEHOLDER, encode_public, first_entry, next_entry},
    };

    fn time(second: u64) -> String {
        format!("2024-01-01T00:00:{second:02}Z")
    }

    /// A log of entries, each with pre-rotation or not, and with a rotation on demand or not; returns the log and the keys of each entry.
    fn log_of(first_is_pre_rotated: bool, entries: &[(bool, bool)]) -> (String, Vec<String>, Vec<UpdateKeys>) {
        let signing = encode_multikey(&SigningKey::from_bytes(&[7; 32]));
        let public = DocumentKeys { signing, agreement: encode_public(&[0xec, 0x01], &[9; 32]) };
        let document = DidDocument::new(&format!("did:webvh:{SCID_PLACEHOLDER}:agent.example.com"), &public);
        let mut keys = UpdateKeys::generate(first_is_pre_rotated).expect("random bytes");
        let next_hashes = keys.next.as_ref().map(|next| vec![next.hash()]);
        let entry_keys = EntryKeys { update: &keys.active.key, named: None, next_hashes };
        let mut last = first_entry(document.as_json(), &entry_keys, &time(0)).expect("an entry");
        let did = last.state["id"].as_str().expect("a DID").to_owned();
        let (mut lines, mut used) = (vec![last.line.clone()], vec![keys.clone()]);
        for ((pre_rotation, rotates), number) in entries.iter().zip(1..) {
            let step = keys.step(*pre_rotation, *rotates).expect("random bytes");
            let previous = (number, last.version_id.as_str());
            last = next_entry(previous, &last.state.clone(), &step.entry_keys(), &time(number)).expect("an entry");
            lines.push(last.line.clone());
            keys = step.after;
            used.push(keys.clone());
        }
        (did, lines, used)
    }

    fn active_keys(used: &[UpdateKeys]) -> Vec<String> {
        used.iter().map(|keys| encode_multikey(&keys.active.key)).collect()
    }

    #[test]
    fn a_log_verifies_with_every_mix_of_rotations() {
        let all = [false, true];
        let choices: Vec<(bool, bool)> = all.iter().flat_map(|one| all.map(|other| (*one, other))).collect();
        for first in all {
            for entries in
                choices.iter().flat_map(|one| choices.iter().map(move |other| [*one, *other, (false, false)]))
            {
                let (did, lines, used) = log_of(first, &entries);
                verify_own_log(&did, lines.join("\n").as_bytes()).expect("it verifies");
                // The keys of each entry are found by the parameters up to it.
                let mut parameters = KeyParameters::default();
                let mut stored: Vec<PrivateKey> = Vec::new();
                for (line, keys) in lines.iter().zip(&used) {
                    let entry: Value = serde_json::from_str(line).expect("JSON");
                    parameters.take(&entry["parameters"]);
                    stored.extend(
                        [Some(&keys.active), keys.next.as_ref()].into_iter().flatten().map(UpdateKey::to_private),
                    );
                    let found = UpdateKeys::find(&stored, &parameters).expect("found");
                    assert_eq!(active_keys(&[found]), active_keys(std::slice::from_ref(keys)), "{first} {entries:?}");
                }
            }
        }
    }

    #[test]
    fn a_rotation_on_demand_takes_the_old_key_out_of_use() {
        for (pre_rotation, rotates, is_rotated) in
            [(false, false, false), (false, true, true), (true, false, true), (true, true, true)]
        {
            let (did, mut lines, used) = log_of(pre_rotation, &[(pre_rotation, rotates)]);
            let active = active_keys(&used);
            assert_eq!(active[0] != active[1], is_rotated, "{pre_rotation} {rotates}");
            // The old key signs one more entry.
            let last: Value = serde_json::from_str(&lines[1]).expect("JSON");
            let next_hashes = pre_rotation.then(Vec::new);
            let thief = EntryKeys { update: &used[0].active.key, named: None, next_hashes };
            let previous = (2, last["versionId"].as_str().expect("an id"));
            lines.push(next_entry(previous, &last["state"], &thief, &time(9)).expect("an entry").line);
            let verified = verify_own_log(&did, lines.join("\n").as_bytes());
            assert_eq!(verified.is_err(), is_rotated, "{pre_rotation} {rotates}: {verified:?}");
        }
    }

    #[test]
    fn the_keys_that_a_step_adds_are_those_that_it_makes() {
        let plain = UpdateKeys::generate(false).expect("random bytes");
        let rotated = UpdateKeys::generate(true).expect("random bytes");
        for (keys, pre_rotation, rotates, expected) in [
            (&plain, false, false, vec![]),
            (&plain, false, true, vec![2]),
            (&plain, true, false, vec![2]),
            (&plain, true, true, vec![2, 3]),
            (&rotated, true, false, vec![3]),
            (&rotated, true, true, vec![3]),
            (&rotated, false, true, vec![]),
        ] {
            let added = keys.step(pre_rotation, rotates).expect("random bytes").added();
            let versions: Vec<u64> = added.iter().map(|key| key.version).collect();
            assert_eq!(versions, expected, "{pre_rotation} {rotates}");
        }
    }
}
