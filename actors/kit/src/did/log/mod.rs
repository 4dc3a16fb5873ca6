//! The log of a did:webvh DID: from text to the DID Document that it proves.
//!
//! Hashes, keys, proofs, times and witnesses are verified by the `didwebvh-rs` crate. Here stands what it leaves open: bounds on its work,
//! that nothing in a log is outside of what its hashes and proofs cover, and the rules of didwebvh 1.0 it does not enforce.

#[cfg(test)]
mod tests;

use didwebvh_rs::{
    DIDWebVHError, DIDWebVHState, SCID_HOLDER,
    log_entry::{LogEntry, LogEntryMethods},
    log_entry_state::LogEntryState,
    witness::{WitnessVerifyOptions, Witnesses},
};
use futures::FutureExt;
use serde_json::Value;
use tracing::dispatcher::{self, Dispatch};

use super::document;
use crate::fetch::{cut, shown};

/// Most entries of a log.
const MAX_ENTRIES: usize = 1_000;
/// Most proofs of witnesses that a log may ask for: witnesses, each time they had to approve an entry.
const MAX_WITNESSING: usize = 10_000;
/// Longest key or signature of a proof; base58 takes time by the square of the length.
const MAX_PROOF_TEXT: usize = 512;
/// Most keys, and most hashes of keys, that an entry names: each is compared with each.
const MAX_KEYS: usize = 100;
/// Longest reason the crate gives that a message repeats; it puts one error into the other.
const MAX_REASON: usize = 600;
/// The only version of the method.
const METHOD: &str = "did:webvh:1.0";

/// What is wrong with a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LogError {
    TooLong(String),
    Scid(String),
    Invalid(String),
    Witness(String),
    Document(String),
    Deactivated,
}

/// A log that begins with the entry its DID was made from.
#[derive(Debug)]
pub(super) struct Log {
    did: String,
    text: String,
    needs_witnesses: bool,
}

/// What a log proves.
#[derive(Debug, PartialEq)]
pub(super) struct Verified {
    /// The DID Document, with the services the method adds.
    pub document: Value,
    /// Seconds its controller lets it be kept, if it says so.
    pub ttl: Option<u32>,
}

impl Log {
    /// Reads a log, and sees that it can be the DID's.
    pub fn read(did: &str, scid: &str, body: &[u8]) -> Result<Self, LogError> {
        quietly(|| {
            let text = std::str::from_utf8(body).map_err(|error| LogError::Invalid(error.to_string()))?;
            if text.lines().count() > MAX_ENTRIES {
                return Err(LogError::TooLong(format!("it has more than {MAX_ENTRIES} entries")));
            }
            let entries = DIDWebVHState::parse_log_entries(text).map_err(failed)?;
            let first = entries.first().ok_or_else(|| LogError::Invalid("it is empty".to_owned()))?;
            for (index, (entry, line)) in entries.iter().zip(text.lines()).enumerate() {
                let place = Place { number: index + 1, is_last: index + 1 == entries.len() };
                is_covered(&entry.log_entry, line, place)
                    .map_err(|reason| LogError::Invalid(format!("entry {}: {reason}", place.number)))?;
            }
            has_scid(&first.log_entry, scid)?;
            are_of_scid(&entries, scid)?;
            is_witnessed_in_bounds(&entries)?;
            let needs_witnesses = DIDWebVHState::needs_witness_proofs(&entries);
            Ok(Self { did: did.to_owned(), text: text.to_owned(), needs_witnesses })
        })
    }

    /// Whether it takes the proofs of witnesses to verify it.
    pub fn needs_witnesses(&self) -> bool {
        self.needs_witnesses
    }

    /// Verifies it, with the text of the proofs of its witnesses.
    pub fn verify(&self, witnesses: Option<&[u8]>) -> Result<Verified, LogError> {
        quietly(|| {
            let witnesses = witnesses.map(witness_text).transpose()?;
            let mut state = DIDWebVHState::default();
            let resolved = state.resolve_log_owned(&self.did, &self.text, witnesses).now_or_never();
            let (entry, metadata) = resolved
                .ok_or_else(|| LogError::Invalid("its verification waits for something".to_owned()))?
                .map_err(failed)?;
            are_new_witnesses_heard(&mut state)?;
            if metadata.deactivated {
                return Err(LogError::Deactivated);
            }
            document::is_of(entry.get_state(), &self.did).map_err(LogError::Document)?;
            let document = entry.get_did_document().map_err(|error| LogError::Document(shown(&error.to_string())))?;
            let ttl = state.log_entries().last().and_then(|last| last.validated_parameters.ttl);
            Ok(Verified { document, ttl })
        })
    }
}

/// The crate warns, at length, of what is wrong with somebody else's log; here it is an answer, not an event.
fn quietly<R>(work: impl FnOnce() -> R) -> R {
    dispatcher::with_default(&Dispatch::none(), work)
}

fn failed(error: DIDWebVHError) -> LogError {
    match error {
        // Keys of entries are reported within other errors; this one is a witness's.
        DIDWebVHError::WitnessProofError(reason) | DIDWebVHError::InvalidMethodIdentifier(reason) => {
            LogError::Witness(cut(&reason, MAX_REASON))
        }
        other => LogError::Invalid(cut(&other.to_string(), MAX_REASON)),
    }
}

/// The SCID is the hash of the first entry as it was before it had a SCID.
fn has_scid(first: &LogEntry, scid: &str) -> Result<(), LogError> {
    if first.get_scid() != Some(scid) {
        let found =
            first.get_scid().map_or_else(|| "no SCID".to_owned(), |other| format!("the SCID {:?}", shown(other)));
        return Err(LogError::Scid(format!("it has {found}")));
    }
    let mut preliminary = first.clone();
    preliminary.clear_proofs();
    preliminary.set_version_id(SCID_HOLDER);
    let text = serde_json::to_string(&preliminary).map_err(|error| LogError::Invalid(error.to_string()))?;
    let made_from = LogEntry::from_string_to_known_version(&text.replace(scid, SCID_HOLDER), first.get_webvh_version())
        .and_then(|entry| entry.generate_log_entry_hash())
        .map_err(failed)?;
    if made_from == scid { Ok(()) } else { Err(LogError::Scid(format!("its first entry makes the SCID {made_from}"))) }
}

/// Every entry is about the DID of this SCID; the last may be empty when it ends it. The crate compares an entry with the one before, and
/// asks whether the DID may move, only where both say whose they are.
fn are_of_scid(entries: &[LogEntryState], scid: &str) -> Result<(), LogError> {
    let prefix = format!("did:webvh:{scid}:");
    for (index, entry) in entries.iter().enumerate() {
        let is_end = index + 1 == entries.len() && entry.log_entry.get_parameters().deactivated == Some(true);
        match &entry.log_entry.get_state()["id"] {
            Value::Null if is_end => {}
            Value::String(id) if id.starts_with(&prefix) => {}
            other => {
                let id = shown(&other.to_string());
                return Err(LogError::Invalid(format!("entry {}: its id {id} is no DID with this SCID", index + 1)));
            }
        }
    }
    Ok(())
}

/// What the crate takes from an entry is all that stands in it: hashes and proofs are made over what it took, so that a member it does
/// not know, or a number or a time more exact than it keeps, could be changed by anybody.
fn is_covered(entry: &LogEntry, line: &str, place: Place) -> Result<(), String> {
    let written: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let taken = serde_json::to_value(entry).map_err(|error| error.to_string())?;
    if written != taken {
        return Err(format!("{} cannot be verified as it is written", difference(&written, &taken)));
    }
    if !svc_wire::syntax::has_plain_integers(&written) {
        return Err("it has an integer that a double does not hold exactly".to_owned());
    }
    let number = written["versionId"].as_str().and_then(|id| id.split_once('-')).map(|(number, _)| number);
    if number != Some(place.number.to_string().as_str()) {
        return Err(format!("its versionId is {}", shown(&written["versionId"].to_string())));
    }
    let parameters = &written["parameters"];
    match &parameters["method"] {
        Value::String(method) if method == METHOD => {}
        Value::Null if place.number > 1 => {}
        other => return Err(format!("its method is {}, not {METHOD:?}", shown(&other.to_string()))),
    }
    // Without keys nobody may sign what follows. The crate would go on with the keys before.
    let update_keys = parameters.get("updateKeys");
    let has_ended = update_keys.is_some_and(|keys| keys.is_null() || keys.as_array().is_some_and(Vec::is_empty));
    if has_ended && !place.is_last {
        return Err("it takes all update keys away, yet entries follow".to_owned());
    }
    for name in ["updateKeys", "nextKeyHashes"] {
        if parameters[name].as_array().is_some_and(|keys| keys.len() > MAX_KEYS) {
            return Err(format!("it has more than {MAX_KEYS} {name}"));
        }
    }
    proofs_are_short(&written["proof"])
}

/// Which entry of a log it is.
#[derive(Clone, Copy)]
struct Place {
    /// From 1 on.
    number: usize,
    is_last: bool,
}

/// The first member that differs.
fn difference(written: &Value, taken: &Value) -> String {
    let (Value::Object(written), Value::Object(taken)) = (written, taken) else { return "a value".to_owned() };
    match written.iter().find(|(key, value)| taken.get(*key) != Some(value)) {
        Some((key, inner @ Value::Object(_))) if taken.get(key).is_some_and(Value::is_object) => {
            format!("{} in {:?}", difference(inner, &taken[key]), shown(key))
        }
        Some((key, _)) => format!("{:?}", shown(key)),
        None => "a member that is missing".to_owned(),
    }
}

fn proofs_are_short(proofs: &Value) -> Result<(), String> {
    let texts =
        proofs.as_array().into_iter().flatten().flat_map(|proof| [&proof["proofValue"], &proof["verificationMethod"]]);
    let is_short = |text: &Value| text.as_str().is_none_or(|text| text.len() <= MAX_PROOF_TEXT);
    if texts.clone().all(is_short) {
        Ok(())
    } else {
        Err(format!("a proof has a key or a signature of more than {MAX_PROOF_TEXT} characters"))
    }
}

fn witness_text(body: &[u8]) -> Result<&str, LogError> {
    let text = std::str::from_utf8(body).map_err(|error| LogError::Witness(error.to_string()))?;
    let proofs = document::parse(body).map_err(|error| LogError::Witness(format!("did-witness.json: {error}")))?;
    for version in proofs.as_array().into_iter().flatten() {
        proofs_are_short(&version["proof"]).map_err(LogError::Witness)?;
    }
    Ok(text)
}

/// Each entry is checked against each of the witnesses then in force.
fn is_witnessed_in_bounds(entries: &[LogEntryState]) -> Result<(), LogError> {
    let (mut witnessing, mut in_force) = (0_usize, 0);
    for entry in entries {
        let before = in_force;
        if let Some(witnesses) = entry.log_entry.get_parameters().witness {
            in_force = witnesses.witnesses().map_or(0, <[_]>::len);
        }
        witnessing = witnessing.saturating_add(before.max(in_force));
    }
    if witnessing > MAX_WITNESSING {
        return Err(LogError::TooLong(format!("its witnesses had to approve more than {MAX_WITNESSING} times")));
    }
    Ok(())
}

/// Witnesses named where there were none approve the entry that names them. The crate begins with the entry after it.
fn are_new_witnesses_heard(state: &mut DIDWebVHState) -> Result<(), LogError> {
    let has_witnesses =
        |witnesses: &Option<std::sync::Arc<Witnesses>>| witnesses.as_ref().is_some_and(|some| !some.is_empty());
    let entries = state.log_entries();
    let highest = entries.last().map_or(0, |last| last.version_number);
    let beginnings: Vec<LogEntryState> = entries
        .iter()
        .filter(|entry| {
            has_witnesses(&entry.validated_parameters.witness)
                && !has_witnesses(&entry.validated_parameters.active_witness)
        })
        .cloned()
        .collect();
    for mut entry in beginnings {
        entry.validated_parameters.active_witness = entry.validated_parameters.witness.clone();
        let heard = state.witness_proofs_mut().validate_log_entry(&entry, highest, &WitnessVerifyOptions::new());
        heard.map_err(failed)?;
    }
    Ok(())
}
