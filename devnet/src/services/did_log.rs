//! Logs of did:webvh.

use std::sync::Arc;

use affinidi_secrets_resolver::secrets::Secret;
use didwebvh_rs::{DIDWebVHError, DIDWebVHState, Multibase, log_entry::LogEntry, parameters::Parameters};
use serde_json::Value;
use svc_trust::{
    did_document::ProofPurpose,
    proof::{ProofKey, ProofSuite, add_proof},
};

use super::identity::{derive_signing_key, encode_multikey};

/// A log cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum DidLogWriteError {
    /// The library refuses the log.
    #[error(transparent)]
    Log(#[from] DIDWebVHError),
    /// The log is no JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// An entry cannot be signed, or a time is malformed.
    #[error("{0}")]
    Entry(String),
}

/// Writes the log of a service. The key is derived from the name of the service.
pub(super) struct DidLogWriter {
    multikey: String,
    secret: Secret,
    prover: ProofKey,
}

impl DidLogWriter {
    pub fn for_service(service: &str) -> Self {
        let key = derive_signing_key(service, "update");
        let multikey = encode_multikey(&key.verifying_key());
        let method = format!("did:key:{multikey}#{multikey}");
        let secret = Secret::generate_ed25519(Some(&method), Some(&key.to_bytes()));
        Self { multikey, secret, prover: ProofKey { verification_method: method, key } }
    }

    /// Creates a log with one entry; returns (DID, log). The document has `{SCID}` in place of the identifier.
    pub async fn create_log(&self, document: &Value, at: &str) -> Result<(String, String), DidLogWriteError> {
        let update_keys = Some(Arc::new(vec![Multibase::new(self.multikey.clone())]));
        let parameters = Parameters { update_keys, ..Parameters::default() };
        let mut state = DIDWebVHState::default();
        let time = at.parse().map_err(|_| DidLogWriteError::Entry(format!("{at:?} is not a time")))?;
        let entry = state.create_log_entry(Some(time), document, &parameters, &self.secret).await?;
        let (line, did) = self.sign_entry(&entry.log_entry, at)?;
        verify_log(&did, &line).await?;
        Ok((did, line))
    }

    /// Appends an entry; returns the new log. `ends` deactivates the DID.
    pub async fn append_entry(
        &self,
        log: &str,
        document: &Value,
        at: &str,
        ends: bool,
    ) -> Result<String, DidLogWriteError> {
        let did = document["id"].as_str().unwrap_or_default();
        let mut state = verify_log(did, log).await?;
        let last = state.log_entries().last().map(|entry| entry.validated_parameters.clone()).unwrap_or_default();
        let parameters = Parameters { deactivated: ends.then_some(true).or(last.deactivated), ..last };
        let time = at.parse().map_err(|_| DidLogWriteError::Entry(format!("{at:?} is not a time")))?;
        let entry = state.create_log_entry(Some(time), document, &parameters, &self.secret).await?;
        let (line, _) = self.sign_entry(&entry.log_entry, at)?;
        let log = format!("{log}\n{line}");
        verify_log(did, &log).await?;
        Ok(log)
    }

    /// Signs an entry; returns (line of the log, DID). The library dates its proof by the wall clock; this proof has the time of
    /// the entry, so that equal runs have equal logs.
    fn sign_entry(&self, entry: &LogEntry, at: &str) -> Result<(String, String), DidLogWriteError> {
        let mut entry = serde_json::to_value(entry)?;
        add_proof(&mut entry, &self.prover, ProofSuite::EddsaJcs2022, ProofPurpose::AssertionMethod, at)
            .map_err(|reason| DidLogWriteError::Entry(reason.message))?;
        entry["proof"] = Value::Array(vec![entry["proof"].take()]);
        let did = entry["state"]["id"].as_str().unwrap_or_default().to_owned();
        Ok((entry.to_string(), did))
    }
}

/// Verifies a log as a resolver does.
pub async fn verify_log(did: &str, log: &str) -> Result<DIDWebVHState, DidLogWriteError> {
    let mut state = DIDWebVHState::default();
    state.resolve_log(did, log, None).await?;
    Ok(state)
}

/// Returns a member of the newest entry of a log.
pub(super) fn newest_entry_member(log: &str, member: &str) -> Option<Value> {
    let entry: Value = serde_json::from_str(log.lines().last()?).ok()?;
    entry.get(member).cloned()
}
