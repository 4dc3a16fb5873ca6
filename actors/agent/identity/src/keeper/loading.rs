//! The document at the start: made for an empty store, or loaded from the store with the parameters of its log.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use svc_agent_store::{AgentStore, AgentStoreError, DocumentVersion, PrivateKey, StoredIdentity};
use svc_kit::wall_clock;
use svc_net::did::verify_own_log;
use svc_wire::timestamp;

use super::{
    document_keys::KeyPair,
    published::{DocumentError, PublishedDocument, scid_of},
    update_keys::{KeyParameters, UpdateKey, UpdateKeys},
};
use crate::{
    document::{DidDocument, ManagedEntries},
    identity::{DidMethod, PublicLocation},
    log::{EntryKeys, LogEntry, SCID_PLACEHOLDER, first_entry},
};

/// The time of an entry as the log has it.
pub(super) fn entry_time(seconds: i64) -> String {
    timestamp::iso_seconds(&prost_types::Timestamp { seconds, nanos: 0 })
}

/// A version of a did:web document, which has no log.
pub(super) fn web_version(number: u64, written_at: i64, document: &Value) -> DocumentVersion {
    DocumentVersion {
        number,
        version_id: number.to_string(),
        written_at,
        content: document.to_string(),
        presented: String::new(),
    }
}

/// Verifies a log in a blocking thread.
pub(super) async fn verify(did: &str, log: Bytes) -> Result<(), DocumentError> {
    let did = did.to_owned();
    let verified = tokio::task::spawn_blocking(move || verify_own_log(&did, &log)).await;
    verified.map_err(|error| DocumentError::Stopped(error.to_string()))??;
    Ok(())
}

/// A DID that is still to be made.
pub(super) struct NewIdentity<'a> {
    pub method: DidMethod,
    pub location: &'a PublicLocation,
    pub pre_rotation: bool,
    /// Entries of the settings.
    pub managed: &'a ManagedEntries,
}

/// Makes the keys and the first version of a DID. They are stored in one transaction, so that no document names a key that is not there.
pub(super) async fn create_identity(
    store: &AgentStore,
    wanted: NewIdentity<'_>,
) -> Result<(PublishedDocument, Option<UpdateKeys>), DocumentError> {
    let NewIdentity { method, location, pre_rotation, managed } = wanted;
    let pair = KeyPair::generate(1)?;
    let public = pair.public();
    let mut keys: Vec<PrivateKey> = pair.into_private().into();
    let written_at = wall_clock::now().seconds;
    let (version, log, document, update_keys) = match method {
        DidMethod::Web => {
            let did = format!("did:web:{}", location.did_location());
            let document = DidDocument::new(&did, &public).with_managed(managed).published_json();
            (web_version(1, written_at, &document), None, document, None)
        }
        DidMethod::WebVh => {
            let update_keys = UpdateKeys::generate(pre_rotation)?;
            keys.extend(
                [Some(&update_keys.active), update_keys.next.as_ref()].into_iter().flatten().map(UpdateKey::to_private),
            );
            let did = format!("did:webvh:{SCID_PLACEHOLDER}:{}", location.did_location());
            let document = DidDocument::new(&did, &public).with_managed(managed);
            let next_hashes = update_keys.next.as_ref().map(|next| vec![next.hash()]);
            let entry_keys = EntryKeys { update: &update_keys.active.key, named: None, next_hashes };
            let LogEntry { version_id, line, state } =
                first_entry(&document.published_json(), &entry_keys, &entry_time(written_at))?;
            let log = Bytes::from(line.clone());
            verify(state["id"].as_str().unwrap_or_default(), log.clone()).await?;
            let version =
                DocumentVersion { number: 1, version_id, written_at, content: line, presented: String::new() };
            (version, Some(log), state, Some(update_keys))
        }
    };
    let did = document["id"].as_str().unwrap_or_default().to_owned();
    let identity = StoredIdentity { did, base_url: location.base_url().to_owned() };
    store.write_identity(&identity, &keys, &version).await?;
    tracing::info!(did = identity.did, "made a DID");
    Ok((PublishedDocument::new(version, log, document, location, Arc::default()), update_keys))
}

/// Loads the newest version of the store, and verifies its log. Returns it with the parameters of the log that are valid now.
pub(super) async fn load_newest(
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
        return Ok((PublishedDocument::new(newest, None, content, location, Arc::default()), None));
    }
    let lines: Vec<&str> = versions.iter().map(|version| version.content.as_str()).collect();
    let log = Bytes::from(lines.join("\n"));
    verify(did, log.clone()).await?;
    let mut parameters = KeyParameters::default();
    for line in lines {
        parameters.take(&parse(line)?["parameters"]);
    }
    let document = content["state"].clone();
    Ok((PublishedDocument::new(newest, Some(log), document, location, Arc::default()), Some(parameters)))
}
