//! The chain of the entries: each is proven by a key that the one before authorises.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use didwebvh_rs::{
    Multibase,
    log_entry::{LogEntry, LogEntryMethods},
    log_entry_state::LogEntryState,
    parameters::Parameters,
};
use serde_json::Value;

use super::{
    error::{DidLogError, to_log_error},
    proof_checks::{key_of_method, verify_proof},
};
use crate::excerpt::excerpt;

/// Verifies the entries in their order, and returns the parameters that each leaves in force.
pub(super) fn verify_entries(entries: &[LogEntryState], now: SystemTime) -> Result<Vec<Parameters>, DidLogError> {
    let mut in_force: Vec<Parameters> = Vec::with_capacity(entries.len());
    for (index, state) in entries.iter().enumerate() {
        let before = index.checked_sub(1).map(|previous| (&entries[previous].log_entry, &in_force[previous]));
        let number = index + 1;
        if before.is_some_and(|(_, parameters)| parameters.deactivated == Some(true)) {
            return Err(DidLogError::log(&format!("entry {number} goes on past the deactivation")));
        }
        let parameters = state
            .log_entry
            .get_parameters()
            .validate(before.map(|(_, parameters)| parameters))
            .map_err(|error| named(number, to_log_error(error)))?;
        verify_entry(&state.log_entry, before, &parameters, now)
            .map_err(|reason| DidLogError::log(&format!("entry {number}: {reason}")))?;
        in_force.push(parameters);
    }
    Ok(in_force)
}

/// The error with the number of the entry.
fn named(number: usize, error: DidLogError) -> DidLogError {
    match error {
        DidLogError::InvalidLog(reason) | DidLogError::InvalidWitness(reason) => {
            DidLogError::log(&format!("entry {number}: {reason}"))
        }
        other => other,
    }
}

fn verify_entry(
    entry: &LogEntry,
    before: Option<(&LogEntry, &Parameters)>,
    parameters: &Parameters,
    now: SystemTime,
) -> Result<(), String> {
    let proof = entry.get_proofs().first().ok_or("it has no proof")?;
    let method = proof.verification_method.as_str();
    let is_authorized = |key: &str| authorized_keys(before, parameters).iter().any(|known| known.as_str() == key);
    if !key_of_method(method).is_some_and(is_authorized) {
        return Err(format!("its signing key {} is not authorized", excerpt(method)));
    }
    let mut unsigned = entry.clone();
    unsigned.clear_proofs();
    verify_proof(proof, &unsigned)?;
    check_hash(&mut unsigned, before.map(|(previous, _)| previous))?;
    check_time(entry, before.map(|(previous, _)| previous), now)?;
    match before {
        Some((previous, _)) => check_move(entry.get_state(), previous.get_state(), parameters),
        None => Ok(()),
    }
}

/// Keys that may sign the entry. They are those that the entry before leaves in force. Where that one announces the next keys, and in the
/// first entry, they are the entry's own.
fn authorized_keys<'a>(
    before: Option<(&LogEntry, &'a Parameters)>,
    parameters: &'a Parameters,
) -> &'a Arc<Vec<Multibase>> {
    match before {
        Some((_, previous)) if !previous.pre_rotation_active => &previous.active_update_keys,
        _ => &parameters.active_update_keys,
    }
}

/// Checks that the versionId has the hash of the entry, which continues the versionId before.
fn check_hash(unsigned: &mut LogEntry, previous: Option<&LogEntry>) -> Result<(), String> {
    let (_, hash) = unsigned.get_version_id_fields().map_err(|error| error.to_string())?;
    let continued = match previous {
        Some(previous) => previous.get_version_id().to_owned(),
        None => unsigned.get_scid().ok_or("it has no SCID")?.to_owned(),
    };
    unsigned.set_version_id(&continued);
    let computed = unsigned.generate_log_entry_hash().map_err(|error| error.to_string())?;
    if computed == hash { Ok(()) } else { Err(format!("its hash is {computed}, and its versionId has another one")) }
}

fn check_time(entry: &LogEntry, previous: Option<&LogEntry>, now: SystemTime) -> Result<(), String> {
    let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let time = entry.get_version_time();
    if u64::try_from(time.timestamp()).is_ok_and(|time| time > now) {
        return Err(format!("its versionTime {} is in the future", entry.get_version_time_string()));
    }
    match previous {
        Some(previous) if time <= previous.get_version_time() => {
            Err(format!("its versionTime {} is not after the one before", entry.get_version_time_string()))
        }
        _ => Ok(()),
    }
}

/// Checks that a DID that has moved may move, and names the one before.
fn check_move(state: &Value, previous: &Value, parameters: &Parameters) -> Result<(), String> {
    let (Some(id), Some(previous)) = (state["id"].as_str(), previous["id"].as_str()) else { return Ok(()) };
    if id == previous {
        return Ok(());
    }
    if parameters.portable != Some(true) {
        return Err("its DID has changed, and the DID is not portable".to_owned());
    }
    let also_known_as = state["alsoKnownAs"].as_array().map_or(&[][..], Vec::as_slice);
    if also_known_as.iter().any(|known| known == previous) {
        Ok(())
    } else {
        Err("its DID has changed, and its alsoKnownAs lacks the one before".to_owned())
    }
}
