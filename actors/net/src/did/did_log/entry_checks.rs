//! Checks of the entries of a log.

use didwebvh_rs::{
    SCID_HOLDER,
    log_entry::{LogEntry, LogEntryMethods},
    log_entry_state::LogEntryState,
};
use serde_json::Value;

use super::error::{DidLogError, to_log_error};
use crate::{did::document, excerpt::excerpt};

/// Longest key or signature of a proof: the time of base58 grows with the square of the length.
pub(super) const MAX_PROOF_CHARS: usize = 512;
/// Largest number of keys, and of hashes of keys, in one entry: each is compared with each.
const MAX_KEYS: usize = 100;
/// The supported version of the method.
const SUPPORTED_VERSION: &str = "did:webvh:1.0";

/// Checks that the SCID is the hash of the first entry with a placeholder for the SCID.
pub(super) fn check_scid(first: &LogEntry, scid: &str) -> Result<(), DidLogError> {
    if first.get_scid() != Some(scid) {
        let found =
            first.get_scid().map_or_else(|| "no SCID".to_owned(), |other| format!("the SCID {:?}", excerpt(other)));
        return Err(DidLogError::ScidMismatch(format!("it has {found}")));
    }
    let mut preliminary = first.clone();
    preliminary.clear_proofs();
    preliminary.set_version_id(SCID_HOLDER);
    let text = serde_json::to_string(&preliminary).map_err(|error| DidLogError::InvalidLog(error.to_string()))?;
    let computed = LogEntry::from_string_to_known_version(&text.replace(scid, SCID_HOLDER), first.get_webvh_version())
        .and_then(|entry| entry.generate_log_entry_hash())
        .map_err(to_log_error)?;
    if computed == scid {
        Ok(())
    } else {
        Err(DidLogError::ScidMismatch(format!("its first entry makes the SCID {computed}")))
    }
}

/// Checks that every entry has a DID with this SCID; the entry that deactivates the DID may have none. The crate compares the ids of
/// consecutive entries, and checks whether the DID may move, only when both entries have an id.
pub(super) fn check_entry_ids(entries: &[LogEntryState], scid: &str) -> Result<(), DidLogError> {
    let prefix = format!("did:webvh:{scid}:");
    for (index, entry) in entries.iter().enumerate() {
        let is_end = index + 1 == entries.len() && entry.log_entry.get_parameters().deactivated == Some(true);
        match &entry.log_entry.get_state()["id"] {
            Value::Null if is_end => {}
            Value::String(id) if id.starts_with(&prefix) => {}
            other => {
                let id = excerpt(&other.to_string());
                return Err(DidLogError::InvalidLog(format!(
                    "entry {}: its id {id} is no DID with this SCID",
                    index + 1
                )));
            }
        }
    }
    Ok(())
}

/// Checks one entry against its text. The crate computes hashes and proofs over the parsed entry: without this check an attacker could
/// change unknown members, and numbers and times of a higher precision.
pub(super) fn check_entry(entry: &LogEntry, line: &str, position: EntryPosition) -> Result<(), String> {
    let written: Value = document::parse_json(line.as_bytes())?;
    let taken = serde_json::to_value(entry).map_err(|error| error.to_string())?;
    if written != taken {
        return Err(format!("{} cannot be verified as it is written", first_difference(&written, &taken)));
    }
    if !svc_wire::syntax::has_exact_integers(&written) {
        return Err("it has an integer that a double does not hold exactly".to_owned());
    }
    let number = written["versionId"].as_str().and_then(|id| id.split_once('-')).map(|(number, _)| number);
    if number != Some(position.number.to_string().as_str()) {
        return Err(format!("its versionId is {}", excerpt(&written["versionId"].to_string())));
    }
    let parameters = &written["parameters"];
    match &parameters["method"] {
        Value::String(method) if method == SUPPORTED_VERSION => {}
        Value::Null if position.number > 1 => {}
        other => return Err(format!("its method is {}, not {SUPPORTED_VERSION:?}", excerpt(&other.to_string()))),
    }
    // Without update keys no entry may follow. The crate would continue with the earlier keys.
    let update_keys = parameters.get("updateKeys");
    let has_ended = update_keys.is_some_and(|keys| keys.is_null() || keys.as_array().is_some_and(Vec::is_empty));
    if has_ended && !position.is_last {
        return Err("it takes all update keys away, yet entries follow".to_owned());
    }
    let witnesses = parameters["witness"]["witnesses"].as_array().into_iter().flatten();
    if witnesses.filter_map(|witness| witness["id"].as_str()).any(|id| id.len() > MAX_PROOF_CHARS) {
        return Err(format!("it has a witness with an id of more than {MAX_PROOF_CHARS} characters"));
    }
    for name in ["updateKeys", "nextKeyHashes"] {
        if parameters[name].as_array().is_some_and(|keys| keys.len() > MAX_KEYS) {
            return Err(format!("it has more than {MAX_KEYS} {name}"));
        }
    }
    check_proof_lengths(&written["proof"])
}

/// Position of an entry in its log.
#[derive(Clone, Copy)]
pub(super) struct EntryPosition {
    /// Number of the entry, starting at 1.
    pub number: usize,
    pub is_last: bool,
}

/// Names the first member that differs.
fn first_difference(written: &Value, taken: &Value) -> String {
    let (Value::Object(written), Value::Object(taken)) = (written, taken) else { return "a value".to_owned() };
    match written.iter().find(|(key, value)| taken.get(*key) != Some(value)) {
        Some((key, inner @ Value::Object(_))) if taken.get(key).is_some_and(Value::is_object) => {
            format!("{} in {:?}", first_difference(inner, &taken[key]), excerpt(key))
        }
        Some((key, _)) => format!("{:?}", excerpt(key)),
        None => "a member that is missing".to_owned(),
    }
}

/// Checks the lengths of keys and signatures in an array of proofs.
pub(super) fn check_proof_lengths(proofs: &Value) -> Result<(), String> {
    let texts =
        proofs.as_array().into_iter().flatten().flat_map(|proof| [&proof["proofValue"], &proof["verificationMethod"]]);
    let is_short = |text: &Value| text.as_str().is_none_or(|text| text.len() <= MAX_PROOF_CHARS);
    if texts.clone().all(is_short) {
        Ok(())
    } else {
        Err(format!("a proof has a key or a signature of more than {MAX_PROOF_CHARS} characters"))
    }
}
