//! The log: from text to the DID Document that it proves.

#[cfg(test)]
mod tests;

use std::time::SystemTime;

use didwebvh_rs::{DIDWebVHState, log_entry::LogEntryMethods};
use serde_json::Value;
use tracing::dispatcher::{self, Dispatch};

use super::{
    entry_chain::verify_entries,
    entry_checks::{EntryPosition, check_entry, check_entry_ids, check_scid},
    error::{DidLogError, to_log_error},
    witness_checks::{check_witness_count, parse_witness_proofs, verify_witnesses},
};
use crate::{did::document, excerpt::excerpt};

/// Largest number of entries of a log.
const MAX_ENTRIES: usize = 10_000;

/// A log whose first entry matches the SCID of its DID.
#[derive(Debug)]
pub(in crate::did) struct DidLog {
    did: String,
    /// The entries are parsed again when the witnesses are there: parsed ones take many times the memory of their text.
    text: String,
    needs_witnesses: bool,
    version_ids: Vec<String>,
}

/// The document that a log proves.
#[derive(Debug, PartialEq)]
pub(in crate::did) struct VerifiedDocument {
    /// The DID Document, with the services the method adds.
    pub document: Value,
    /// Cache time in seconds, when the controller states one.
    pub ttl: Option<u32>,
}

impl DidLog {
    /// Parses a log, and checks its limits and that it is the log of the DID.
    ///
    /// # Errors
    /// Every [`DidLogError`] except `InvalidDocument` and `Deactivated`.
    pub fn parse(did: &str, scid: &str, body: &[u8]) -> Result<Self, DidLogError> {
        without_tracing(|| {
            let text = std::str::from_utf8(body).map_err(|error| DidLogError::InvalidLog(error.to_string()))?;
            if text.lines().count() > MAX_ENTRIES {
                return Err(DidLogError::TooLong(format!("it has more than {MAX_ENTRIES} entries")));
            }
            let entries = DIDWebVHState::parse_log_entries(text).map_err(to_log_error)?;
            let first = entries.first().ok_or_else(|| DidLogError::InvalidLog("it is empty".to_owned()))?;
            for (index, (entry, line)) in entries.iter().zip(text.lines()).enumerate() {
                let position = EntryPosition { number: index + 1, is_last: index + 1 == entries.len() };
                check_entry(&entry.log_entry, line, position)
                    .map_err(|reason| DidLogError::InvalidLog(format!("entry {}: {reason}", position.number)))?;
            }
            check_scid(&first.log_entry, scid)?;
            check_entry_ids(&entries, scid)?;
            check_witness_count(&entries)?;
            let needs_witnesses = DIDWebVHState::needs_witness_proofs(&entries);
            let version_ids = entries.iter().map(|entry| entry.log_entry.get_version_id().to_owned()).collect();
            Ok(Self { did: did.to_owned(), text: text.to_owned(), needs_witnesses, version_ids })
        })
    }

    /// Whether the verification needs the proofs of witnesses.
    pub fn needs_witnesses(&self) -> bool {
        self.needs_witnesses
    }

    /// The `versionId` of each entry, the oldest first.
    pub fn version_ids(&self) -> &[String] {
        &self.version_ids
    }

    /// Verifies the log, with the text of the proofs of its witnesses.
    ///
    /// # Errors
    /// Every [`DidLogError`] except `TooLong` and `ScidMismatch`.
    pub fn verify(&self, witnesses: Option<&[u8]>) -> Result<VerifiedDocument, DidLogError> {
        without_tracing(|| {
            let proofs = witnesses.map(parse_witness_proofs).transpose()?.unwrap_or_default();
            let entries = DIDWebVHState::parse_log_entries(&self.text).map_err(to_log_error)?;
            let in_force = verify_entries(&entries, SystemTime::now())?;
            verify_witnesses(&entries, &in_force, &proofs)?;
            let (Some(last), Some(parameters)) = (entries.last(), in_force.last()) else {
                return Err(DidLogError::log("it is empty"));
            };
            if entries.iter().all(|entry| entry.log_entry.get_state()["id"] != self.did) {
                return Err(DidLogError::log("none of its entries is of this DID"));
            }
            if parameters.deactivated == Some(true) {
                return Err(DidLogError::Deactivated);
            }
            let entry = &last.log_entry;
            document::check_document(entry.get_state(), &self.did).map_err(DidLogError::InvalidDocument)?;
            let document =
                entry.get_did_document().map_err(|error| DidLogError::InvalidDocument(excerpt(&error.to_string())))?;
            Ok(VerifiedDocument { document, ttl: parameters.ttl })
        })
    }
}

/// Runs `work` without log lines: the crate logs every error of an untrusted log, and this module returns it.
fn without_tracing<R>(work: impl FnOnce() -> R) -> R {
    dispatcher::with_default(&Dispatch::none(), work)
}
