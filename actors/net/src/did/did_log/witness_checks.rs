//! Checks of the witnesses of a log and of their proofs.

use std::sync::Arc;

use didwebvh_rs::{
    DIDWebVHState,
    log_entry::LogEntryMethods,
    log_entry_state::LogEntryState,
    witness::{WitnessVerifyOptions, Witnesses},
};

use super::{
    entry_checks::check_proof_lengths,
    error::{DidLogError, to_log_error},
};
use crate::did::document;

/// Largest number of witness checks of a log: the witnesses in force, summed over all entries.
const MAX_WITNESS_CHECKS: usize = 10_000;

/// Checks the text of the proofs of the witnesses, and returns it.
pub(super) fn check_witness_proofs(body: &[u8]) -> Result<&str, DidLogError> {
    let text = std::str::from_utf8(body).map_err(|error| DidLogError::InvalidWitness(error.to_string()))?;
    let proofs = document::parse_json(body)
        .map_err(|error| DidLogError::InvalidWitness(format!("did-witness.json: {error}")))?;
    for version in proofs.as_array().into_iter().flatten() {
        check_proof_lengths(&version["proof"]).map_err(DidLogError::InvalidWitness)?;
    }
    Ok(text)
}

/// Limits the checks: each entry is checked against each witness in force at that entry.
pub(super) fn check_witness_count(entries: &[LogEntryState]) -> Result<(), DidLogError> {
    let (mut checks, mut in_force) = (0_usize, 0);
    for entry in entries {
        let before = in_force;
        if let Some(witnesses) = entry.log_entry.get_parameters().witness {
            in_force = witnesses.witnesses().map_or(0, <[_]>::len);
        }
        checks = checks.saturating_add(before.max(in_force));
    }
    if checks > MAX_WITNESS_CHECKS {
        return Err(DidLogError::TooLong(format!("its witnesses had to approve more than {MAX_WITNESS_CHECKS} times")));
    }
    Ok(())
}

/// Verifies that the first witnesses approve the entry that names them. The crate starts with the entry after it.
pub(super) fn verify_new_witnesses(state: &mut DIDWebVHState) -> Result<(), DidLogError> {
    let has_witnesses = |witnesses: &Option<Arc<Witnesses>>| witnesses.as_ref().is_some_and(|some| !some.is_empty());
    let entries = state.log_entries();
    let highest = entries.last().map_or(0, |last| last.version_number);
    let naming_entries: Vec<LogEntryState> = entries
        .iter()
        .filter(|entry| {
            has_witnesses(&entry.validated_parameters.witness)
                && !has_witnesses(&entry.validated_parameters.active_witness)
        })
        .cloned()
        .collect();
    for mut entry in naming_entries {
        entry.validated_parameters.active_witness = entry.validated_parameters.witness.clone();
        let approval = state.witness_proofs_mut().validate_log_entry(&entry, highest, &WitnessVerifyOptions::new());
        approval.map_err(to_log_error)?;
    }
    Ok(())
}
