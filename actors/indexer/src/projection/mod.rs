//! Projections of the chain's entities to the indexer's JSON. Pure.
//!
//! Members that begin with an underscore are internal: derived values are computed from them, and no answer contains
//! them.

pub mod authorizations;
pub mod governance;
pub mod groups;
pub mod registry_entities;

use prost_types::Timestamp;
use serde_json::Value;
use svc_wire::timestamp::iso_millis;

/// Returns a time, or null.
pub(crate) fn time_or_null(instant: Option<&Timestamp>) -> Value {
    instant.map_or(Value::Null, |instant| iso_millis(instant).into())
}

/// Returns a text, or null for an empty one.
fn text_or_null(value: &str) -> Value {
    if value.is_empty() { Value::Null } else { value.into() }
}

/// Returns an id, or null for 0.
fn id_or_null(value: u64) -> Value {
    if value == 0 { Value::Null } else { value.into() }
}

/// Returns the name of an enum value without the name of the enum; null for the unspecified value.
fn enum_or_null(name: &str, prefix: &str) -> Value {
    match name.trim_start_matches(prefix) {
        "UNSPECIFIED" => Value::Null,
        name if name.ends_with("_UNSPECIFIED") => Value::Null,
        name => name.into(),
    }
}

/// Removes the internal members.
pub fn public_members(mut body: Value) -> Value {
    if let Some(object) = body.as_object_mut() {
        object.retain(|key, _| !key.starts_with('_'));
    }
    body
}

/// Returns the public members that differ, with their new values: all members of a new entity, and null for a removed
/// member.
pub fn changed_members(before: Option<&Value>, after: Option<&Value>) -> Option<Value> {
    let empty = serde_json::Map::new();
    let members = |body: Option<&Value>| body.and_then(Value::as_object).unwrap_or(&empty).clone();
    let (before, after) = (members(before), members(after));
    let mut changed = serde_json::Map::new();
    for (key, value) in &after {
        if !key.starts_with('_') && before.get(key) != Some(value) {
            changed.insert(key.clone(), value.clone());
        }
    }
    // The id is never a change: the store assigns one to an entity that the node does not number.
    let is_told = |key: &&String| !key.starts_with('_') && *key != "id";
    for key in before.keys().filter(is_told).filter(|key| !after.contains_key(*key)) {
        changed.insert(key.clone(), Value::Null);
    }
    (!changed.is_empty()).then_some(Value::Object(changed))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_are_the_public_members_that_differ() {
        let (before, after) =
            (json!({"id": 9, "a": 1, "b": 2, "_c": 3, "d": 4}), json!({"a": 1, "b": 5, "_c": 6, "e": null}));
        assert_eq!(changed_members(Some(&before), Some(&after)), Some(json!({"b": 5, "e": null, "d": null})));
        assert_eq!(changed_members(None, Some(&json!({"a": 1}))), Some(json!({"a": 1})));
        assert_eq!(changed_members(Some(&json!({"_x": 1})), Some(&json!({"_x": 2}))), None);
        assert_eq!(public_members(json!({"a": 1, "_b": 2})), json!({"a": 1}));
    }

    #[test]
    fn enums_lose_their_prefix_and_the_unspecified_is_null() {
        assert_eq!(enum_or_null("ISSUER_ONBOARDING_MODE_OPEN", "ISSUER_ONBOARDING_MODE_"), "OPEN");
        assert_eq!(enum_or_null("UNSPECIFIED", ""), Value::Null);
        assert_eq!(enum_or_null("ONBOARDING_STATE_UNSPECIFIED", ""), Value::Null);
    }
}
