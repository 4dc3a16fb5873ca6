//! The members of a frame, each read by its rule.

use serde_json::{Map, Value};
use svc_wire::endpoint_access::{MAX_SCOPES, is_scope};

use super::MAX_URL_BYTES;

/// A rule that a frame breaks.
pub(super) struct BrokenRule(pub(super) String);

impl BrokenRule {
    pub(super) fn of(member: &str, rule: &str) -> Self {
        Self(format!("{member} {rule}"))
    }
}

pub(super) fn text(members: &Map<String, Value>, name: &str, max_bytes: usize) -> Result<String, BrokenRule> {
    optional_text(members, name, max_bytes)?.ok_or_else(|| BrokenRule::of(name, "is missing"))
}

pub(super) fn optional_text(
    members: &Map<String, Value>,
    name: &str,
    max_bytes: usize,
) -> Result<Option<String>, BrokenRule> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if !text.is_empty() && text.len() <= max_bytes => Ok(Some(text.clone())),
        Some(_) => Err(BrokenRule::of(name, &format!("is no text of 1 to {max_bytes} bytes"))),
    }
}

pub(super) fn uuid(members: &Map<String, Value>) -> Result<String, BrokenRule> {
    let id = text(members, "id", 36)?;
    let is_digit = |(place, byte): (usize, u8)| match place {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
    };
    let is_uuid = id.len() == 36 && id.bytes().enumerate().all(is_digit);
    if is_uuid { Ok(id) } else { Err(BrokenRule::of("id", "is no UUID in lower case")) }
}

/// A DID URL with a fragment.
pub(super) fn did_url(members: &Map<String, Value>, name: &str) -> Result<String, BrokenRule> {
    let url = text(members, name, MAX_URL_BYTES)?;
    let is_url = url.starts_with("did:")
        && url.split_once('#').is_some_and(|(did, fragment)| !did.contains(['?', '/']) && !fragment.is_empty())
        && !url.chars().any(|one| one.is_control() || one.is_whitespace());
    if is_url { Ok(url) } else { Err(BrokenRule::of(name, "is no DID URL with a fragment")) }
}

pub(super) fn list<T>(
    members: &Map<String, Value>,
    name: &str,
    max: usize,
    item: impl Fn(&str) -> Option<T>,
) -> Result<Option<Vec<T>>, BrokenRule> {
    let wrong = || BrokenRule::of(name, &format!("is no list of at most {max} known texts"));
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(items)) if items.len() <= max => {
            let read = items.iter().map(|one| one.as_str().and_then(&item)).collect::<Option<Vec<T>>>();
            read.map(Some).ok_or_else(wrong)
        }
        Some(_) => Err(wrong()),
    }
}

pub(super) fn scopes(members: &Map<String, Value>) -> Result<Option<Vec<String>>, BrokenRule> {
    let scopes = list(members, "scopes", MAX_SCOPES, |one| is_scope(one).then(|| one.to_owned()))?;
    // One that is named twice is one.
    Ok(scopes.map(|mut scopes| {
        let mut seen = std::collections::BTreeSet::new();
        scopes.retain(|scope| seen.insert(scope.clone()));
        scopes
    }))
}
