//! Versions of the document: made, verified, stored, and then served whole.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use bytes::Bytes;
use serde_json::Value;
use svc_agent_store::{
    AgentStore, AgentStoreError, DocumentVersion, HeadFile, PrivateKey, PublishedHead, StoredCredential,
};
use svc_kit::wall_clock;
use svc_trust::{did_document::ProofPurpose, digest::matches_jcs, proof::ProofKey};

use super::{
    KeeperArgs,
    access_keys::{AccessKeyring, TOKEN_KEY},
    document_keys::{DocumentKeyring, KeyPair},
    loading::{NewIdentity, create_identity, entry_time, load_newest, verify, web_version},
    presentations::{PresentationKey, PresentationSet, PresentationSource, make_presentations, shown_credentials},
    published::{DocumentError, MAX_ENTRIES, MAX_LOG_BYTES, PublishedDocument},
    update_keys::{UpdateKeys, new_secret},
};
use crate::{
    document::{DocumentKeys, shows_older_form},
    identity::PublicLocation,
    log::{LogEntry, next_entry},
};

/// The keys of a version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WriteKeys {
    /// Whether the entry names another update key. With pre-rotation each entry does.
    pub rotates_update: bool,
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
    keyring: ArcSwap<DocumentKeyring>,
    access_keys: ArcSwap<AccessKeyring>,
    current: ArcSwap<PublishedDocument>,
}

impl DocumentWriter {
    /// Loads the newest version, or makes the DID of an empty store.
    pub async fn open(args: KeeperArgs) -> Result<Self, DocumentError> {
        let KeeperArgs { store, method, location, managed, head, pre_rotation, .. } = args;
        let (published, update_keys) = match store.identity().await? {
            None => {
                create_identity(&store, NewIdentity { method, location: &location, pre_rotation, managed: &managed })
                    .await?
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
        let did = published.document.did().to_owned();
        let keyring = DocumentKeyring::new(&did, &store.private_keys(&did).await?);
        let (update_keys, keyring) = (Mutex::new(update_keys), ArcSwap::from_pointee(keyring));
        let (access_keys, current) = (ArcSwap::default(), ArcSwap::from_pointee(published));
        let writer = Self { store, location, head, pre_rotation, update_keys, keyring, access_keys, current };
        writer.load_access_keys().await?;
        // The first key of tokens is used at once: no resolver has a document with another one.
        if managed.access.is_some() && writer.access_keys().newest_version() == 0 {
            writer.add_access_key(0).await?;
        }
        let published = writer.published();
        writer.install(writer.load_presentations(published.document.as_json()).await?);
        writer.record_head();
        Ok(writer)
    }

    /// Returns the document that is served.
    pub fn published(&self) -> Arc<PublishedDocument> {
        self.current.load_full()
    }

    /// Returns the key that the published document uses for a purpose.
    pub fn prover(&self, purpose: ProofPurpose) -> Option<ProofKey> {
        self.keyring.load().prover(self.published().document.as_json(), purpose)
    }

    /// Returns the pairs of the store.
    pub fn keyring(&self) -> Arc<DocumentKeyring> {
        self.keyring.load_full()
    }

    /// Returns the public keys of a version, which is made if the store has none: a document can name it then. A repetition finds it.
    pub async fn prepare_keys(&self, version: u64) -> Result<DocumentKeys, DocumentError> {
        if let Some(known) = self.keyring.load().public(version) {
            return Ok(known.clone());
        }
        let did = self.published().document.did().to_owned();
        self.store.write_new_keys(&did, &KeyPair::generate(version)?.into_private()).await?;
        let keyring = DocumentKeyring::new(&did, &self.store.private_keys(&did).await?);
        let made = keyring.public(version).cloned();
        self.keyring.store(Arc::new(keyring));
        made.ok_or_else(|| AgentStoreError::CorruptRow(format!("the keys of version {version} are not there")).into())
    }

    /// Returns the keys of tokens.
    pub fn access_keys(&self) -> Arc<AccessKeyring> {
        self.access_keys.load_full()
    }

    async fn load_access_keys(&self) -> Result<(), AgentStoreError> {
        let did = self.published().document.did().to_owned();
        let (stored, times) = (self.store.private_keys(&did).await?, self.store.access_key_times().await?);
        self.access_keys.store(Arc::new(AccessKeyring::new(&did, &stored, &times)));
        Ok(())
    }

    /// Makes another key of tokens. No document names it yet.
    pub async fn add_access_key(&self, used_from: i64) -> Result<(), DocumentError> {
        let version = self.access_keys.load().newest_version() + 1;
        let key = PrivateKey { name: TOKEN_KEY.to_owned(), version, secret: new_secret()? };
        let did = self.published().document.did().to_owned();
        self.store.add_access_key(&did, &key, used_from).await?;
        Ok(self.load_access_keys().await?)
    }

    /// Notes the time from which a key of tokens is used.
    pub async fn use_access_key(&self, version: u64, used_from: i64) -> Result<(), AgentStoreError> {
        self.store.use_access_key(version, used_from).await?;
        self.load_access_keys().await
    }

    /// Forgets keys of tokens.
    pub async fn drop_access_keys(&self, versions: &[u64]) -> Result<(), DocumentError> {
        self.store.drop_access_keys(TOKEN_KEY, versions).await?;
        Ok(self.load_access_keys().await?)
    }

    /// Makes the presentations of the credentials that the store has now, for a document that may not be published yet. Equal ones are not
    /// signed again.
    pub async fn load_presentations(&self, document: &Value) -> Result<Arc<PresentationSet>, DocumentError> {
        let stored = self.store.held_credentials().await?;
        let shown = shown_credentials(&stored);
        let published = self.published();
        let Some(key) = self.presentation_key(document).filter(|_| !shown.is_empty()) else {
            return Ok(Arc::default());
        };
        if published.presentations.source == PresentationSource::new(&shown, &key) {
            return Ok(Arc::clone(&published.presentations));
        }
        shown.iter().try_for_each(|one| check_row(one))?;
        let at = entry_time(wall_clock::now().seconds);
        Ok(Arc::new(make_presentations(published.document.did(), &self.location, &shown, &key, &at)?))
    }

    /// The key that signs the presentations beside a document, which may be the next one.
    fn presentation_key(&self, document: &Value) -> Option<PresentationKey> {
        let key = self.keyring.load().prover(document, ProofPurpose::Authentication)?;
        let is_shown = shows_older_form(document, &key.verification_method);
        Some(PresentationKey { has_older_form: is_shown || self.published().shows_older_keys(), key })
    }

    /// Returns presentations that the key of a document has signed: those given, or others in their place. They may have been made for a
    /// document with another key.
    async fn sign_for(
        &self,
        presentations: Arc<PresentationSet>,
        document: &Value,
    ) -> Result<Arc<PresentationSet>, DocumentError> {
        let is_signed = self.presentation_key(document).is_some_and(|key| presentations.source.is_signed_by(&key));
        if is_signed || presentations.files.is_empty() {
            return Ok(presentations);
        }
        self.load_presentations(document).await
    }

    /// Serves other presentations beside the same document.
    pub async fn serve(&self, presentations: Arc<PresentationSet>) -> Result<Arc<PublishedDocument>, DocumentError> {
        let published = self.published();
        let presentations = self.sign_for(presentations, published.document.as_json()).await?;
        self.install(presentations);
        Ok(self.published())
    }

    fn install(&self, presentations: Arc<PresentationSet>) {
        let published = self.published();
        self.current.store(Arc::new(PublishedDocument { presentations, ..PublishedDocument::clone(&published) }));
    }

    /// Writes a version with another document, and serves it with its presentations. After an error the old one is served.
    pub async fn write(
        &self,
        document: Value,
        presentations: Arc<PresentationSet>,
        WriteKeys { rotates_update }: WriteKeys,
    ) -> Result<Arc<PublishedDocument>, DocumentError> {
        let presentations = self.sign_for(presentations, &document).await?;
        let before = self.published();
        let (number, written_at) = (before.version.number + 1, wall_clock::now().seconds);
        let did = before.document.did();
        let presented = presentations.source.digest();
        let step = {
            let keys = self.update_keys.lock().unwrap_or_else(PoisonError::into_inner);
            keys.as_ref().map(|keys| keys.step(self.pre_rotation, rotates_update)).transpose()?
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
                let version = DocumentVersion { number, version_id, written_at, content: line, presented };
                (version, Some(log), step.added())
            }
            _ => {
                let version = web_version(number, written_at, &document);
                (DocumentVersion { presented, ..version }, None, Vec::new())
            }
        };
        self.store.write_version(did, &version, &added_keys).await?;
        *self.update_keys.lock().unwrap_or_else(PoisonError::into_inner) = step.map(|step| step.after);
        let published = PublishedDocument::new(version, log, document, &self.location, presentations);
        self.current.store(Arc::new(published));
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

/// Refuses a row whose credential is not the one that was stored.
fn check_row(credential: &StoredCredential) -> Result<(), AgentStoreError> {
    let body: Option<Value> = serde_json::from_str(&credential.body).ok();
    let is_whole =
        body.is_some_and(|body| body["id"] == credential.id.as_str() && matches_jcs(&body, &credential.digest));
    let corrupt = || AgentStoreError::CorruptRow(format!("credential {:?} does not match its digest", credential.id));
    if is_whole { Ok(()) } else { Err(corrupt()) }
}
