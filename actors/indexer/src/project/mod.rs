//! From the chain's entities to the indexer's JSON. Pure.
//!
//! Members that begin with an underscore are the store's own: they hold what derived values are computed from, and no answer
//! shows them.

pub mod delegation;
pub mod framework;
pub mod group;
pub mod market;

use prost_types::Timestamp;
use serde_json::Value;
use svc_wire::instant::iso_millis;

/// A time, or null.
pub(crate) fn millis(instant: Option<&Timestamp>) -> Value {
    instant.map_or(Value::Null, |instant| iso_millis(instant).into())
}

/// A text, or null where the chain has none.
fn text(value: &str) -> Value {
    if value.is_empty() { Value::Null } else { value.into() }
}

/// An id, or null where the chain has 0.
fn id(value: u64) -> Value {
    if value == 0 { Value::Null } else { value.into() }
}

/// Name of an enum's value without the enum's own name; null for the unspecified value.
fn choice(name: &str, prefix: &str) -> Value {
    match name.trim_start_matches(prefix) {
        "UNSPECIFIED" => Value::Null,
        name if name.ends_with("_UNSPECIFIED") => Value::Null,
        name => name.into(),
    }
}

/// Takes the store's own members out.
pub fn public(mut body: Value) -> Value {
    if let Some(object) = body.as_object_mut() {
        object.retain(|key, _| !key.starts_with('_'));
    }
    body
}

/// The public members that differ, with their new values; everything for what is new, and null for what is gone.
pub fn changes(before: Option<&Value>, after: Option<&Value>) -> Option<Value> {
    let empty = serde_json::Map::new();
    let members = |body: Option<&Value>| body.and_then(Value::as_object).unwrap_or(&empty).clone();
    let (before, after) = (members(before), members(after));
    let mut changed = serde_json::Map::new();
    for (key, value) in &after {
        if !key.starts_with('_') && before.get(key) != Some(value) {
            changed.insert(key.clone(), value.clone());
        }
    }
    // An id never goes: what the node does not number, the store does.
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
        assert_eq!(changes(Some(&before), Some(&after)), Some(json!({"b": 5, "e": null, "d": null})));
        assert_eq!(changes(None, Some(&json!({"a": 1}))), Some(json!({"a": 1})));
        assert_eq!(changes(Some(&json!({"_x": 1})), Some(&json!({"_x": 2}))), None);
        assert_eq!(public(json!({"a": 1, "_b": 2})), json!({"a": 1}));
    }

    #[test]
    fn enums_lose_their_prefix_and_the_unspecified_is_null() {
        assert_eq!(choice("ISSUER_ONBOARDING_MODE_OPEN", "ISSUER_ONBOARDING_MODE_"), "OPEN");
        assert_eq!(choice("UNSPECIFIED", ""), Value::Null);
        assert_eq!(choice("ONBOARDING_STATE_UNSPECIFIED", ""), Value::Null);
    }
}
