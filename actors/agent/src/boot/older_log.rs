//! The log at the agent's public URL, compared with that of the store: a longer one was written with a newer copy of the store.

use std::time::Duration;

use bytes::Bytes;
use svc_agent_identity::keeper::PublishedDocument;
use svc_net::{
    did::{DidResolver, verify_own_log},
    host_policy::HostPolicy,
};

/// Longest wait for the public URL.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// A log at the public URL that the store's is not a continuation of.
#[derive(Debug, thiserror::Error)]
#[error(
    "the store is older than the log of {did} at its public URL: the store ends with version {stored}, the log there has {published} \
     entries and {relation}. Use the newest copy of the store, or continue that log with `svc agent recover`"
)]
pub struct OtherPublicLog {
    did: String,
    stored: String,
    published: usize,
    relation: &'static str,
}

/// Refuses a store whose log is older than the one at its public URL. A URL that does not answer, or a log that does not verify, proves
/// nothing.
pub(super) async fn check_public_log(own: &PublishedDocument) -> Result<(), OtherPublicLog> {
    let Some(own_log) = own.did_log.as_ref().map(|log| log.body.clone()) else { return Ok(()) };
    let did = own.document.did().to_owned();
    // The URL is the agent's own setting: the policy for hosts in documents does not concern it.
    let Ok(resolver) = DidResolver::new(HostPolicy::AllowPrivate) else { return Ok(()) };
    let fetched = tokio::time::timeout(FETCH_TIMEOUT, resolver.fetch_published_log(&did)).await;
    let Ok(Ok(published)) = fetched else {
        tracing::info!(did, "the log at the public URL does not answer yet, and is not compared with the store");
        return Ok(());
    };
    let compared = tokio::task::spawn_blocking(move || compare(&did, &own_log, &published)).await;
    match compared {
        Ok(Some((published, relation))) => {
            let (did, stored) = (own.document.did().to_owned(), own.version.version_id.clone());
            Err(OtherPublicLog { did, stored, published, relation })
        }
        _ => Ok(()),
    }
}

/// The entries of a published log that the store does not lead to, and their relation to the store's; `None` for one that it leads to.
fn compare(did: &str, own: &Bytes, published: &Bytes) -> Option<(usize, &'static str)> {
    let lines = |log: &Bytes| -> Vec<Vec<u8>> {
        let lines = log.split(|byte| *byte == b'\n');
        lines.filter(|line| !line.trim_ascii().is_empty()).map(|line| line.trim_ascii().to_vec()).collect()
    };
    let (own, there) = (lines(own), lines(published));
    let relation = if own.starts_with(&there) {
        return None;
    } else if there.starts_with(&own) {
        "continues the store's"
    } else {
        "differs from the store's"
    };
    verify_own_log(did, published).is_ok().then_some((there.len(), relation))
}
