//! The recovery of an older store: it takes the log of the DID as it was published, if one of its keys may continue it.

use std::path::Path;

use bytes::Bytes;
use serde_json::Value;
use svc_agent_store::{
    AgentStore, AgentStoreError, DocumentVersion, HeadFile, PrivateKey, PublishedHead, StoreSettings,
};
use svc_net::did::verify_own_log;
use svc_wire::timestamp;

use super::{
    document_keys::AGREEMENT_KEY,
    update_keys::{KeyParameters, UpdateKeyError, UpdateKeys, new_secret},
};

/// A log that a store has taken.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct RecoveredLog {
    /// DID.
    pub did: String,
    /// Versions of the store before.
    pub versions_before: usize,
    /// Versions now.
    pub versions: usize,
    /// The newest version.
    pub version_id: String,
}

/// A log that the store cannot take.
#[derive(Debug, thiserror::Error)]
pub enum LogRecoveryError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] AgentStoreError),
    /// The store has no DID with a log.
    #[error("the store has no DID with a log")]
    NoLog,
    /// The log does not verify, or is that of another DID.
    #[error("the log does not prove {did}: {reason}")]
    Invalid {
        /// DID of the store.
        did: String,
        /// The violated rule.
        reason: String,
    },
    /// The log lacks the version that was published last, which the head file names.
    #[error(
        "the log has {found} versions, without {published}, which was published last: a newer copy of the log is needed"
    )]
    BehindHead {
        /// Versions of the log.
        found: usize,
        /// The version that was published last.
        published: String,
    },
    /// The log is shorter than the store's, or another one.
    #[error("the log has {found} versions and the store has {stored}: there is nothing to take")]
    NotLonger {
        /// Versions of the log.
        found: usize,
        /// Versions of the store.
        stored: usize,
    },
    /// No random bytes for a new key.
    #[error(transparent)]
    NewKey(#[from] UpdateKeyError),
    /// No key of the store may sign the next entry.
    #[error(
        "no key of this store may sign the next entry of the log, which has been continued with other keys: {did} cannot be continued \
         with this store. Use the newest copy of the store"
    )]
    NoKey {
        /// DID of the store.
        did: String,
    },
}

/// Lets a stopped store take a longer log of its DID. With the same log only the account's transactions until now become those of the store.
///
/// # Errors
/// When the log does not verify, is not longer, or cannot be continued with the keys of the store. The store is unchanged then.
pub async fn recover_log(settings: StoreSettings, head: &Path, log: Bytes) -> Result<RecoveredLog, LogRecoveryError> {
    // The head is read before anything is changed.
    let (head, published) = HeadFile::open(head)?;
    let store = AgentStore::open(settings).await?;
    let taken = take_log(&store, (&head, published), log).await;
    store.close().await;
    taken
}

async fn take_log(
    store: &AgentStore,
    (head, published): (&HeadFile, Option<PublishedHead>),
    log: Bytes,
) -> Result<RecoveredLog, LogRecoveryError> {
    let identity = store.identity().await?.filter(|identity| identity.did.starts_with("did:webvh:"));
    let did = identity.ok_or(LogRecoveryError::NoLog)?.did;
    let invalid = |reason: String| LogRecoveryError::Invalid { did: did.clone(), reason };
    let (verified_did, verified_log) = (did.clone(), log.clone());
    let verified = tokio::task::spawn_blocking(move || verify_own_log(&verified_did, &verified_log)).await;
    verified.map_err(|error| invalid(error.to_string()))?.map_err(|error| invalid(error.to_string()))?;
    let text = std::str::from_utf8(&log).map_err(|error| invalid(error.to_string()))?;
    let mut parameters = KeyParameters::default();
    let mut versions = Vec::new();
    for (line, number) in text.lines().filter(|line| !line.trim().is_empty()).zip(1..) {
        let entry: Value = serde_json::from_str(line).map_err(|error| invalid(error.to_string()))?;
        parameters.take(&entry["parameters"]);
        let written_at =
            entry["versionTime"].as_str().and_then(timestamp::parse_rfc3339).map_or(0, |time| time.seconds);
        let version_id = entry["versionId"].as_str().unwrap_or_default().to_owned();
        versions.push(DocumentVersion {
            number,
            version_id,
            written_at,
            content: line.trim().to_owned(),
            presented: String::new(),
        });
    }
    let has = |head: &PublishedHead| {
        versions.iter().any(|one: &DocumentVersion| one.number == head.number && one.version_id == head.version_id)
    };
    if let Some(published) = published.filter(|published| published.did == did && !has(published)) {
        return Err(LogRecoveryError::BehindHead { found: versions.len(), published: published.version_id });
    }
    let stored = store.versions().await?;
    // The log does not say which credentials a version presents, and the store does.
    let is_same = versions.iter().map(|one| &one.content).eq(stored.iter().map(|one| &one.content));
    if versions.len() <= stored.len() && !is_same {
        return Err(LogRecoveryError::NotLonger { found: versions.len(), stored: stored.len() });
    }
    let keys = store.private_keys(&did).await?;
    UpdateKeys::find(&keys, &parameters).map_err(|error: UpdateKeyError| {
        tracing::debug!(%error, "the log cannot be continued");
        LogRecoveryError::NoKey { did: did.clone() }
    })?;
    store.replace_versions(&versions).await?;
    // The store does not know which messages were handled since it was copied. With other keys, none of them opens again.
    for key in keys.into_iter().filter(|key| key.name == AGREEMENT_KEY) {
        let secret = new_secret()?;
        store.replace_key(&did, &PrivateKey { secret, ..key }).await?;
    }
    let Some(newest) = versions.last() else { return Err(LogRecoveryError::NoLog) };
    let published = PublishedHead { did: did.clone(), number: newest.number, version_id: newest.version_id.clone() };
    head.record(&published)?;
    let version_id = newest.version_id.clone();
    Ok(RecoveredLog { did, versions_before: stored.len(), versions: versions.len(), version_id })
}
