//! Checks of the witnesses of a log and of their proofs.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use affinidi_data_integrity::DataIntegrityProof;
use didwebvh_rs::{
    log_entry::LogEntryMethods,
    log_entry_state::LogEntryState,
    parameters::Parameters,
    witness::{Witnesses, proofs::WitnessProof},
};
use serde_json::json;

use super::{
    entry_checks::check_proof_lengths,
    error::DidLogError,
    proof_checks::{key_of_method, verify_proof},
};
use crate::{did::document, excerpt::excerpt};

/// Largest number of witness checks of a log: the witnesses in force, summed over all entries.
const MAX_WITNESS_CHECKS: usize = 10_000;

/// Parses the proofs of the witnesses.
pub(super) fn parse_witness_proofs(body: &[u8]) -> Result<Vec<WitnessProof>, DidLogError> {
    let invalid = |reason: &str| DidLogError::witness(&format!("did-witness.json: {reason}"));
    let proofs = document::parse_json(body).map_err(|reason| invalid(&reason))?;
    for version in proofs.as_array().into_iter().flatten() {
        check_proof_lengths(&version["proof"]).map_err(DidLogError::InvalidWitness)?;
    }
    serde_json::from_value(proofs).map_err(|error| invalid(&error.to_string()))
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

/// Verifies that witnesses approve each entry while they are in force, and the entry that names the first ones. A witness that approves an
/// entry approves those before it.
pub(super) fn verify_witnesses(
    entries: &[LogEntryState],
    in_force: &[Parameters],
    proofs: &[WitnessProof],
) -> Result<(), DidLogError> {
    let numbers: HashMap<&str, usize> =
        entries.iter().enumerate().map(|(index, entry)| (entry.log_entry.get_version_id(), index + 1)).collect();
    let mut newest: HashMap<&str, (usize, &str, &DataIntegrityProof)> = HashMap::new();
    // A proof of a version that is not in this log says nothing about it: the witness may have approved another log.
    for approved in proofs {
        let Some(number) = numbers.get(approved.version_id.as_str()) else { continue };
        for proof in &approved.proof {
            let Some(witness) = key_of_method(&proof.verification_method) else { continue };
            let known = newest.entry(witness).or_insert((*number, &approved.version_id, proof));
            if *number > known.0 {
                *known = (*number, &approved.version_id, proof);
            }
        }
    }
    let mut verified: HashSet<String> = HashSet::new();
    for (index, parameters) in in_force.iter().enumerate() {
        let some = |witnesses: &Option<Arc<Witnesses>>| witnesses.clone().filter(|some| !some.is_empty());
        let Some(witnesses) = some(&parameters.active_witness).or_else(|| some(&parameters.witness)) else { continue };
        let number = index + 1;
        // One key counts once, in all of its forms.
        let mut approved_by = HashSet::new();
        for witness in witnesses.witnesses().unwrap_or_default() {
            let did = witness.as_did();
            let Some(key) = key_of_method(&did) else { continue };
            if approved_by.contains(key) {
                continue;
            }
            let Some((_, version_id, proof)) = newest.get(key).filter(|(approved, ..)| *approved >= number) else {
                continue;
            };
            if !verified.contains(key) {
                verify_proof(proof, &json!({"versionId": version_id})).map_err(|reason| {
                    DidLogError::witness(&format!("the approval of {version_id} by {}: {reason}", excerpt(&did)))
                })?;
                verified.insert(key.to_owned());
            }
            approved_by.insert(key.to_owned());
        }
        let threshold = witnesses.threshold().map_or(usize::MAX, |threshold| threshold as usize);
        if approved_by.len() < threshold {
            let approvals = approved_by.len();
            return Err(DidLogError::witness(&format!(
                "entry {number} has {approvals} approvals; its threshold is {threshold}"
            )));
        }
    }
    Ok(())
}
