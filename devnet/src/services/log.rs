//! Logs of did:webvh.

use std::sync::Arc;

use affinidi_secrets_resolver::secrets::Secret;
use didwebvh_rs::{DIDWebVHError, DIDWebVHState, Multibase, log_entry::LogEntry, parameters::Parameters};
use serde_json::Value;
use svc_trust::{
    document::Purpose,
    proof::{Prover, Suite, prove},
};

use super::identity::{multikey, signing_key};

/// A log that could not be written.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The library refuses.
    #[error(transparent)]
    Log(#[from] DIDWebVHError),
    /// It is no JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// An entry cannot be signed, or a time is none.
    #[error("{0}")]
    Entry(String),
}

/// Who may continue a log. Keys follow from the service's name.
pub(super) struct Updater {
    multikey: String,
    secret: Secret,
    prover: Prover,
}

impl Updater {
    pub fn of(service: &str) -> Self {
        let key = signing_key(service, "update");
        let multikey = multikey(&key.verifying_key());
        let method = format!("did:key:{multikey}#{multikey}");
        let secret = Secret::generate_ed25519(Some(&method), Some(&key.to_bytes()));
        Self { multikey, secret, prover: Prover { method, key } }
    }

    /// A log of one entry for a document that says `{SCID}` where its DID has the identifier; and the DID.
    pub async fn begin(&self, document: &Value, at: &str) -> Result<(String, String), LogError> {
        let update_keys = Some(Arc::new(vec![Multibase::new(self.multikey.clone())]));
        let parameters = Parameters { update_keys, ..Parameters::default() };
        let mut state = DIDWebVHState::default();
        let time = at.parse().map_err(|_| LogError::Entry(format!("{at:?} is no instant")))?;
        let entry = state.create_log_entry(Some(time), document, &parameters, &self.secret).await?;
        let (line, did) = self.line(&entry.log_entry, at)?;
        check(&did, &line).await?;
        Ok((did, line))
    }

    /// The log with one more entry.
    pub async fn append(&self, log: &str, document: &Value, at: &str, ends: bool) -> Result<String, LogError> {
        let did = document["id"].as_str().unwrap_or_default();
        let mut state = check(did, log).await?;
        let last = state.log_entries().last().map(|entry| entry.validated_parameters.clone()).unwrap_or_default();
        let parameters = Parameters { deactivated: ends.then_some(true).or(last.deactivated), ..last };
        let time = at.parse().map_err(|_| LogError::Entry(format!("{at:?} is no instant")))?;
        let entry = state.create_log_entry(Some(time), document, &parameters, &self.secret).await?;
        let (line, _) = self.line(&entry.log_entry, at)?;
        let log = format!("{log}\n{line}");
        check(did, &log).await?;
        Ok(log)
    }

    /// An entry as it stands in a log. The library dates its proof by the wall clock; ours has the time of the entry, so that
    /// equal runs have equal logs.
    fn line(&self, entry: &LogEntry, at: &str) -> Result<(String, String), LogError> {
        let mut entry = serde_json::to_value(entry)?;
        prove(&mut entry, &self.prover, Suite::EddsaJcs2022, Purpose::AssertionMethod, at)
            .map_err(|reason| LogError::Entry(reason.message))?;
        entry["proof"] = Value::Array(vec![entry["proof"].take()]);
        let did = entry["state"]["id"].as_str().unwrap_or_default().to_owned();
        Ok((entry.to_string(), did))
    }
}

/// Verifies a log as any resolver would.
pub async fn check(did: &str, log: &str) -> Result<DIDWebVHState, LogError> {
    let mut state = DIDWebVHState::default();
    state.resolve_log(did, log, None).await?;
    Ok(state)
}

/// What a member of the newest entry of a log says.
pub(super) fn newest(log: &str, member: &str) -> Option<Value> {
    let entry: Value = serde_json::from_str(log.lines().last()?).ok()?;
    entry.get(member).cloned()
}
