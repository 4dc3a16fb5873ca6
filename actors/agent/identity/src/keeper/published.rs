//! The document as it is served: its files, and the distance of its log to the bounds of resolvers.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use sha2::{Digest, Sha256};
use svc_agent_store::{AgentStoreError, DocumentVersion};
use svc_net::did::DidError;

use super::{presentations::PresentationSet, update_keys::UpdateKeyError};
use crate::{
    document::{DidDocument, ServiceChange},
    identity::PublicLocation,
    log::LogEntryError,
};

/// Entries and bytes of a log, and those that are kept for deletions and changes of keys.
pub(super) const MAX_ENTRIES: u64 = 10_000;
pub(super) const MAX_LOG_BYTES: usize = 16 * 1024 * 1024;
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
    /// A presentation cannot be signed.
    #[error("a presentation cannot be signed: {0}")]
    Presentation(String),
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
    /// The file with this content, and the tag of its digest.
    pub fn new(body: impl Into<Bytes>) -> Self {
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
    /// Whether an earlier release has published it in another form.
    pub(super) is_outdated: bool,
    /// `did.json`.
    pub did_json: PublishedFile,
    /// `did.jsonl`; `None` for did:web.
    pub did_log: Option<PublishedFile>,
    /// The presentations that the document links to.
    pub(super) presentations: Arc<PresentationSet>,
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
    pub(super) fn new(
        version: DocumentVersion,
        log: Option<Bytes>,
        document: Value,
        location: &PublicLocation,
        presentations: Arc<PresentationSet>,
    ) -> Self {
        let published = document;
        let document = DidDocument::from_json(published.clone());
        let is_outdated = document.published_json() != published;
        let did_json = match (&log, scid_of(document.did())) {
            (Some(_), Some(scid)) => document.to_parallel_web(scid, location.base_url()).to_string(),
            _ => document.published_json().to_string(),
        };
        let (did_json, did_log) = (PublishedFile::new(did_json), log.map(PublishedFile::new));
        Self { version, document, is_outdated, did_json, did_log, presentations }
    }

    /// The document as it is served.
    pub fn served_json(&self) -> Value {
        if self.is_outdated { self.document.as_json().clone() } else { self.document.published_json() }
    }

    /// Whether it shows the older form of each signing key. One of an earlier release does not, until its next version is written.
    pub fn shows_older_keys(&self) -> bool {
        !self.is_outdated
    }

    /// Returns the file of a presentation, or of the credential of a schema, by the path of its URL.
    pub fn presentation_file(&self, path: &str) -> Option<&PublishedFile> {
        self.presentations.files.get(path)
    }

    /// The presentations of the document.
    pub(super) fn presentations(&self) -> &Arc<PresentationSet> {
        &self.presentations
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

pub(super) fn scid_of(did: &str) -> Option<&str> {
    did.strip_prefix("did:webvh:")?.split(':').next()
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
