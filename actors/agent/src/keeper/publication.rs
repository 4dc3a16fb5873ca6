//! Versions of the document: made, verified, stored, and then served whole.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use bytes::Bytes;
use ed25519_dalek::SigningKey;
use serde_json::Value;
use sha2::{Digest, Sha256};
use svc_kit::wall_clock;
use svc_net::did::{DidError, verify_own_log};
use svc_wire::timestamp;
use x25519_dalek::{PublicKey as AgreementKey, StaticSecret};

use super::{
    KeeperArgs,
    update_keys::{KeyParameters, UpdateKey, UpdateKeyError, UpdateKeys, new_secret},
};
use crate::{
    document::{DidDocument, DocumentKeys, ServiceChange},
    identity::{DidMethod, PublicLocation},
    log::{
        EntryKeys, LogEntry, LogEntryError, SCID_PLACEHOLDER, encode_multikey, encode_public, first_entry, next_entry,
    },
    store::{AgentStore, AgentStoreError, DocumentVersion, HeadFile, PrivateKey, PublishedHead, StoredIdentity},
};

/// Entries and bytes of a log, and those that are kept for deletions and changes of keys.
const MAX_ENTRIES: u64 = 10_000;
const MAX_LOG_BYTES: usize = 16 * 1024 * 1024;
const RESERVED_ENTRIES: u64 = 100;
const RESERVED_BYTES: usize = 1024 * 1024;

/// A version that cannot be made, verified or stored.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] AgentStoreError),
    /// The entry cannot be made.
    #[error(transparent)]
    Entry(#[from] LogEntryError),
    /// The resolver refuses the log. Nothing of it is published.
    #[error("the document is not published, because it does not verify: {0}")]
    Verification(#[from] DidError),
    /// The log would exceed the bounds of resolvers.
    #[error("the log of the DID has reached its bound")]
    Bound,
    /// The task was stopped.
    #[error("the document was not written: {0}")]
    Stopped(String),
    /// The keys of the log cannot be made or found.
    #[error(transparent)]
    Keys(#[from] UpdateKeyError),
}

/// A file as it is served.
#[derive(Debug, Clone)]
pub struct PublishedFile {
    /// Content, which readers share.
    pub body: Bytes,
    /// Entity tag, with its quotes.
    pub etag: String,
}

impl PublishedFile {
    fn new(body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let etag = format!("\"{}\"", multibase::encode(multibase::Base::Base16Lower, &Sha256::digest(&body)[..16]));
        Self { body, etag }
    }
}

/// The distance of a document to the bounds of its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundDistance {
    /// Every change is taken.
    Far,
    /// Deletions and changes of keys are taken.
    Reserve,
    /// Nothing is taken.
    Reached,
}

/// The document that is served.
#[derive(Debug, Clone)]
pub struct PublishedDocument {
    /// The newest version.
    pub version: DocumentVersion,
    /// The document.
    pub document: DidDocument,
    /// `did.json`.
    pub did_json: PublishedFile,
    /// `did.jsonl`; `None` for did:web.
    pub did_log: Option<PublishedFile>,
}

impl BoundDistance {
    /// The distance of a log with so many entries and bytes.
    fn of(entries: u64, bytes: usize) -> Self {
        if entries >= MAX_ENTRIES || bytes >= MAX_LOG_BYTES {
            Self::Reached
        } else if entries >= MAX_ENTRIES - RESERVED_ENTRIES || bytes >= MAX_LOG_BYTES - RESERVED_BYTES {
            Self::Reserve
        } else {
            Self::Far
        }
    }

    /// Whether a change is taken: near the bound deletions are, and nothing at it.
    pub fn admits(self, change: &ServiceChange) -> bool {
        match self {
            Self::Far => true,
            Self::Reserve => change.is_deletion(),
            Self::Reached => false,
        }
    }
}

impl PublishedDocument {
    fn new(version: DocumentVersion, log: Option<Bytes>, document: Value, location: &PublicLocation) -> Self {
        let document = DidDocument::from_json(document);
        let did_json = match (&log, scid_of(document.did())) {
            (Some(_), Some(scid)) => document.to_parallel_web(scid, location.base_url()).to_string(),
            _ => document.as_json().to_string(),
        };
        Self { version, document, did_json: PublishedFile::new(did_json), did_log: log.map(PublishedFile::new) }
    }

    /// Bytes of the log; 0 for did:web.
    pub fn log_bytes(&self) -> usize {
        self.did_log.as_ref().map_or(0, |log| log.body.len())
    }

    /// How full the log is, in percent of the nearer of its bounds.
    pub fn log_fill(&self) -> u64 {
        let Some(log) = &self.did_log else { return 0 };
        let bytes = log.body.len() as u64 * 100 / MAX_LOG_BYTES as u64;
        (self.version.number * 100 / MAX_ENTRIES).max(bytes)
    }

    /// The distance of the log to its bounds.
    pub fn bound_distance(&self) -> BoundDistance {
        match &self.did_log {
            Some(log) => BoundDistance::of(self.version.number, log.body.len()),
            None => BoundDistance::Far,
        }
    }
}

fn scid_of(did: &str) -> Option<&str> {
    did.strip_prefix("did:webvh:")?.split(':').next()
}

/// Writes versions, and holds the one that is served.
pub(super) struct DocumentWriter {
    store: AgentStore,
    location: PublicLocation,
    head: Option<HeadFile>,
    /// Whether each entry of the log names the hash of the key that signs the next one.
    pre_rotation: bool,
    /// `None` for did:web.
    update_keys: Mutex<Option<UpdateKeys>>,
    current: ArcSwap<PublishedDocument>,
}

impl DocumentWriter {
    /// Loads the newest version, or makes the DID of an empty store.
    pub async fn open(args: KeeperArgs) -> Result<Self, DocumentError> {
        let KeeperArgs { store, method, location, admin_api, head, pre_rotation, .. } = args;
        let (published, update_keys) = match store.identity().await? {
            None => {
                let origin = admin_api.as_deref();
                create_identity(&store, NewIdentity { method, location: &location, pre_rotation, origin }).await?
            }
            Some(identity) if identity.base_url != location.base_url() => {
                let (found, found_base) = (identity.did, identity.base_url);
                let error = AgentStoreError::OtherPlace { found, found_base, base: location.base_url().to_owned() };
                return Err(error.into());
            }
            Some(identity) => {
                let keys = store.private_keys(&identity.did).await?;
                let (published, parameters) = load_newest(&store, &identity.did, &location).await?;
                (published, parameters.map(|parameters| UpdateKeys::find(&keys, &parameters)).transpose()?)
            }
        };
        let current = ArcSwap::from_pointee(published);
        let writer = Self { store, location, head, pre_rotation, update_keys: Mutex::new(update_keys), current };
        writer.record_head();
        Ok(writer)
    }

    /// Returns the document that is served.
    pub fn published(&self) -> Arc<PublishedDocument> {
        self.current.load_full()
    }

    /// Writes a version with another document, and serves it. After an error the old one is served.
    pub async fn write(&self, document: Value) -> Result<Arc<PublishedDocument>, DocumentError> {
        let before = self.published();
        let (number, written_at) = (before.version.number + 1, wall_clock::now().seconds);
        let did = before.document.did();
        let step = {
            let keys = self.update_keys.lock().unwrap_or_else(PoisonError::into_inner);
            keys.as_ref().map(|keys| keys.step(self.pre_rotation)).transpose()?
        };
        let (version, log, added_keys) = match (&before.did_log, &step) {
            (Some(log), Some(step)) => {
                let previous = (before.version.number, before.version.version_id.as_str());
                let entry = next_entry(previous, &document, &step.entry_keys(), &entry_time(written_at))?;
                let log = Bytes::from([&log.body, &b"\n"[..], entry.line.as_bytes()].concat());
                if number > MAX_ENTRIES || log.len() > MAX_LOG_BYTES {
                    return Err(DocumentError::Bound);
                }
                verify(did, log.clone()).await?;
                let LogEntry { version_id, line, .. } = entry;
                let version = DocumentVersion { number, version_id, written_at, content: line };
                (version, Some(log), step.after.next.as_ref().map(UpdateKey::to_private).into_iter().collect())
            }
            _ => (web_version(number, written_at, &document), None, Vec::new()),
        };
        self.store.write_version(did, &version, &added_keys).await?;
        *self.update_keys.lock().unwrap_or_else(PoisonError::into_inner) = step.map(|step| step.after);
        self.current.store(Arc::new(PublishedDocument::new(version, log, document, &self.location)));
        self.record_head();
        Ok(self.published())
    }

    /// Removes a version that was not served. To be called after a failure of the store, before the next write.
    pub async fn discard_unserved(&self) -> Result<(), AgentStoreError> {
        self.store.discard_versions_after(self.published().version.number).await
    }

    /// The head is older than the store after a failure here, which a restored backup is not.
    fn record_head(&self) {
        let Some(file) = &self.head else { return };
        let published = self.published();
        let DocumentVersion { number, version_id, .. } = published.version.clone();
        let head = PublishedHead { did: published.document.did().to_owned(), number, version_id };
        if let Err(error) = file.record(&head) {
            tracing::error!(%error, "the head of the document cannot be noted");
        }
    }
}

/// Names of private keys in the store.
const SIGNING_KEY: &str = "signing";
const AGREEMENT_KEY: &str = "agreement";

fn entry_time(seconds: i64) -> String {
    timestamp::iso_seconds(&prost_types::Timestamp { seconds, nanos: 0 })
}

fn web_version(number: u64, written_at: i64, document: &Value) -> DocumentVersion {
    DocumentVersion { number, version_id: number.to_string(), written_at, content: document.to_string() }
}

/// Verifies a log in a blocking thread.
async fn verify(did: &str, log: Bytes) -> Result<(), DocumentError> {
    let did = did.to_owned();
    let verified = tokio::task::spawn_blocking(move || verify_own_log(&did, &log)).await;
    verified.map_err(|error| DocumentError::Stopped(error.to_string()))??;
    Ok(())
}

/// A DID that is still to be made.
struct NewIdentity<'a> {
    method: DidMethod,
    location: &'a PublicLocation,
    pre_rotation: bool,
    /// Origin of the admin API.
    origin: Option<&'a str>,
}

/// Makes the keys and the first version of a DID. They are stored in one transaction, so that no document names a key that is not there.
async fn create_identity(
    store: &AgentStore,
    wanted: NewIdentity<'_>,
) -> Result<(PublishedDocument, Option<UpdateKeys>), DocumentError> {
    let NewIdentity { method, location, pre_rotation, origin } = wanted;
    let (signing, agreement) = (new_secret()?, new_secret()?);
    let public = DocumentKeys {
        signing: encode_multikey(&SigningKey::from_bytes(&signing)),
        agreement: encode_public(&[0xec, 0x01], AgreementKey::from(&StaticSecret::from(*agreement)).as_bytes()),
    };
    let key = |name: &str, secret| PrivateKey { name: name.to_owned(), version: 1, secret };
    let mut keys = vec![key(SIGNING_KEY, signing), key(AGREEMENT_KEY, agreement)];
    let written_at = wall_clock::now().seconds;
    let (version, log, document, update_keys) = match method {
        DidMethod::Web => {
            let did = format!("did:web:{}", location.did_location());
            let document = DidDocument::new(&did, &public).with_admin_api(origin).as_json().clone();
            (web_version(1, written_at, &document), None, document, None)
        }
        DidMethod::WebVh => {
            let update_keys = UpdateKeys::generate(pre_rotation)?;
            keys.extend(
                [Some(&update_keys.active), update_keys.next.as_ref()].into_iter().flatten().map(UpdateKey::to_private),
            );
            let did = format!("did:webvh:{SCID_PLACEHOLDER}:{}", location.did_location());
            let document = DidDocument::new(&did, &public).with_admin_api(origin);
            let next_hashes = update_keys.next.as_ref().map(|next| vec![next.hash()]);
            let entry_keys = EntryKeys { update: &update_keys.active.key, next_hashes };
            let LogEntry { version_id, line, state } =
                first_entry(document.as_json(), &entry_keys, &entry_time(written_at))?;
            let log = Bytes::from(line.clone());
            verify(state["id"].as_str().unwrap_or_default(), log.clone()).await?;
            let version = DocumentVersion { number: 1, version_id, written_at, content: line };
            (version, Some(log), state, Some(update_keys))
        }
    };
    let did = document["id"].as_str().unwrap_or_default().to_owned();
    let identity = StoredIdentity { did, base_url: location.base_url().to_owned() };
    store.write_identity(&identity, &keys, &version).await?;
    tracing::info!(did = identity.did, "made a DID");
    Ok((PublishedDocument::new(version, log, document, location), update_keys))
}

/// Loads the newest version of the store, and verifies its log. Returns it with the parameters of the log that are valid now.
async fn load_newest(
    store: &AgentStore,
    did: &str,
    location: &PublicLocation,
) -> Result<(PublishedDocument, Option<KeyParameters>), DocumentError> {
    let versions = store.versions().await?;
    let corrupt = |reason: &str| AgentStoreError::CorruptRow(reason.to_owned());
    let newest = versions.last().cloned().ok_or_else(|| corrupt("the DID has no document"))?;
    let parse = |text: &str| serde_json::from_str::<Value>(text).map_err(|error| corrupt(&error.to_string()));
    let content = parse(&newest.content)?;
    if scid_of(did).is_none() {
        return Ok((PublishedDocument::new(newest, None, content, location), None));
    }
    let lines: Vec<&str> = versions.iter().map(|version| version.content.as_str()).collect();
    let log = Bytes::from(lines.join("\n"));
    verify(did, log.clone()).await?;
    let mut parameters = KeyParameters::default();
    for line in lines {
        parameters.take(&parse(line)?["parameters"]);
    }
    Ok((PublishedDocument::new(newest, Some(log), content["state"].clone(), location), Some(parameters)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::document::ServiceIdPath;

    #[test]
    fn the_last_entries_and_bytes_of_a_log_are_for_deletions() {
        let id = || ServiceIdPath::new("a");
        let add = ServiceChange::Add { id: Some(id()), kind: "MCP".to_owned(), endpoint: json!("https://example.com") };
        let delete = ServiceChange::Delete { id: id() };
        for (entries, bytes, adds, deletes) in [
            (1, 2_000, true, true),
            (9_899, 15 * 1024 * 1024 - 1, true, true),
            (9_900, 2_000, false, true),
            (1, 15 * 1024 * 1024, false, true),
            (9_999, 2_000, false, true),
            (10_000, 2_000, false, false),
            (1, 16 * 1024 * 1024, false, false),
        ] {
            let distance = BoundDistance::of(entries, bytes);
            assert_eq!((distance.admits(&add), distance.admits(&delete)), (adds, deletes), "{entries} {bytes}");
        }
    }
}
