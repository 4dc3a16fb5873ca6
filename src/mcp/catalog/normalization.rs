//! Arguments as clients write them, brought into the form that the schema checks. Only a value with one possible meaning changes.
//! Pure.

use serde_json::{Map, Value};

use super::definition::MAX_HEIGHT;
use crate::tools::ToolEffect;

/// Brings arguments into the form of their strict schema. An optional argument that is null is absent, and so is a filter of a read
/// with an empty text that the schema refuses: frameworks fill every optional argument in. An empty text of a write stays, and is
/// refused: an idempotency key that is lost protects from nothing. A number, a truth value, a list and an object may be text where
/// text is no value, and `5.0` is 5.
pub fn normalize_arguments(schema: &Value, arguments: Value, effect: ToolEffect) -> Value {
    Normalizer { definitions: &schema["$defs"], effect }.members(schema, with_integers(arguments))
}

struct Normalizer<'a> {
    definitions: &'a Value,
    effect: ToolEffect,
}

impl<'a> Normalizer<'a> {
    /// The schema itself, or the definition that it refers to.
    fn resolved(&self, schema: &'a Value) -> &'a Value {
        let name = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/"));
        name.and_then(|name| self.definitions.get(name)).unwrap_or(schema)
    }

    fn members(&self, schema: &'a Value, arguments: Value) -> Value {
        let Value::Object(members) = arguments else { return arguments };
        let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut normal = Map::new();
        for (name, value) in members {
            let is_required = required.iter().any(|one| *one == name);
            match schema["properties"].get(&name).map(|property| self.resolved(property)) {
                Some(property) if !is_required && self.is_absent(property, &value) => {}
                Some(property) => {
                    normal.insert(name, self.value(property, value));
                }
                None => {
                    normal.insert(name, value);
                }
            }
        }
        Value::Object(normal)
    }

    /// Whether a value stands for an argument that is left out.
    fn is_absent(&self, schema: &Value, value: &Value) -> bool {
        match value {
            Value::Null => !allows(schema, "null"),
            Value::String(text) => self.effect == ToolEffect::Reads && text.is_empty() && !allows_empty_text(schema),
            Value::Array(items) => {
                self.effect == ToolEffect::Reads && items.is_empty() && schema["minItems"].as_u64().unwrap_or(0) > 0
            }
            _ => false,
        }
    }

    fn value(&self, schema: &'a Value, value: Value) -> Value {
        match value {
            Value::String(text) => match read_text(schema, text.trim_ascii()) {
                Some(read) => self.nested(schema, with_integers(read)),
                None => Value::String(text),
            },
            other => self.nested(schema, other),
        }
    }

    fn nested(&self, schema: &'a Value, value: Value) -> Value {
        match value {
            Value::Object(_) if schema["properties"].is_object() => self.members(schema, value),
            Value::Array(items) if schema["items"].is_object() => {
                let schema = self.resolved(&schema["items"]);
                items.into_iter().map(|item| self.value(schema, item)).collect()
            }
            other => other,
        }
    }
}

fn allows(schema: &Value, kind: &str) -> bool {
    match &schema["type"] {
        Value::String(one) => one == kind,
        Value::Array(several) => several.iter().any(|one| one == kind),
        // Without a type, an enumeration names the values, and anything else is allowed.
        _ => schema.get("enum").is_none(),
    }
}

fn allows_empty_text(schema: &Value) -> bool {
    let refuses = ["pattern", "format", "enum"].iter().any(|keyword| schema.get(keyword).is_some());
    allows(schema, "string") && !refuses && schema["minLength"].as_u64().unwrap_or(0) == 0
}

/// The value that a text stands for; `None` for a text that is meant as such.
fn read_text(schema: &Value, text: &str) -> Option<Value> {
    schema.get("type")?;
    let is_text = allows(schema, "string");
    let plain = if allows(schema, "integer") && !is_text {
        text.parse::<u64>().ok().filter(|number| *number <= MAX_HEIGHT).map(Value::from)
    } else if allows(schema, "boolean") && !is_text {
        text.parse::<bool>().ok().map(Value::from)
    } else {
        None
    };
    // The text of a list or an object is never the plain text of an argument that may be either.
    plain.or_else(|| {
        let read: Value = serde_json::from_str(text).ok()?;
        let is_allowed = (allows(schema, "object") && read.is_object()) || (allows(schema, "array") && read.is_array());
        is_allowed.then_some(read)
    })
}

/// Replaces floating-point numbers without a fraction by integers: `5.0` becomes `5`.
fn with_integers(value: Value) -> Value {
    const EXACT: f64 = MAX_HEIGHT as f64;
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() <= EXACT => Value::from(float as i64),
            _ => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(with_integers).collect(),
        Value::Object(members) => members.into_iter().map(|(name, member)| (name, with_integers(member))).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_value_with_one_meaning_changes() {
        let schema = json!({
            "properties": {
                "id": {"type": ["integer", "string"]},
                "limit": {"type": "integer"},
                "only_active": {"type": "boolean"},
                "did": {"type": "string", "minLength": 1},
                "metadata": {"type": "string"},
                "state": {"type": "string", "enum": ["ACTIVE"]},
                "mode": {"enum": ["OPEN", 1]},
                "until": {"type": ["string", "null"]},
                "ids": {"type": "array"},
                "endpoint": {"type": ["string", "object"]},
                "fees": {"type": ["object", "integer"], "properties": {"value": {"type": "integer"}}},
                "figures": {"type": "object", "properties": {"min_weight": {"type": ["integer", "string"], "pattern": "^[0-9]+$"}}},
                "fields": {"type": "array", "items": {"type": "string"}, "minItems": 1},
                "rows": {"type": "array", "items": {"$ref": "#/$defs/Row"}},
                "needed": {"type": "string", "minLength": 1},
            },
            "$defs": {"Row": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}},
            "required": ["needed"],
        });
        for (written, normal) in [
            (json!({"id": null, "limit": null, "did": null, "mode": null, "figures": null}), json!({})),
            (
                json!({"id": "7", "limit": "20", "only_active": "true"}),
                json!({"id": "7", "limit": 20, "only_active": true}),
            ),
            (json!({"limit": "", "did": "", "state": "", "mode": "", "ids": ""}), json!({})),
            (json!({"metadata": "", "until": null}), json!({"metadata": "", "until": null})),
            (json!({"needed": null}), json!({"needed": null})),
            (json!({"needed": ""}), json!({"needed": ""})),
            (json!({"unknown": null, "other": ""}), json!({"unknown": null, "other": ""})),
            (json!({"limit": "twenty", "only_active": "yes"}), json!({"limit": "twenty", "only_active": "yes"})),
            (json!({"limit": "99999999999999999999"}), json!({"limit": "99999999999999999999"})),
            (
                json!({"ids": "[1, 2]", "figures": "{\"min_weight\": 1}"}),
                json!({"ids": [1, 2], "figures": {"min_weight": 1}}),
            ),
            (json!({"figures": {"min_weight": null}}), json!({"figures": {}})),
            (json!({"endpoint": "{\"uri\": \"a:b\"}"}), json!({"endpoint": {"uri": "a:b"}})),
            (json!({"endpoint": "https://a.example/{id}"}), json!({"endpoint": "https://a.example/{id}"})),
            (json!({"endpoint": "7", "metadata": "{}"}), json!({"endpoint": "7", "metadata": "{}"})),
            (json!({"fees": {"value": 5.0}, "limit": 7.0}), json!({"fees": {"value": 5}, "limit": 7})),
            (json!({"fees": "5"}), json!({"fees": 5})),
            (json!({"fields": [], "rows": [{"a": null, "b": "7"}]}), json!({"rows": [{"b": 7}]})),
            (json!({"rows": "[{\"b\": \"7\", \"a\": null}]"}), json!({"rows": [{"b": 7}]})),
            (json!([1.0]), json!([1])),
        ] {
            assert_eq!(normalize_arguments(&schema, written.clone(), ToolEffect::Reads), normal, "{written}");
        }
        let (empty, null) = (json!({"did": "", "limit": ""}), json!({"did": null}));
        assert_eq!(normalize_arguments(&schema, empty.clone(), ToolEffect::Creates), empty, "an empty text of a write");
        assert_eq!(normalize_arguments(&schema, null, ToolEffect::Creates), json!({}));
    }
}
