//! JSON Schemas of the registry: which one a credential means, and whether it fits. Schemas and credentials are both written by
//! strangers, so the work one validation can cause is bounded beforehand.

use std::collections::HashMap;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

use crate::reason::{Code, Reason};

/// Most subschemas one validation may walk through, references followed.
const MOST_STEPS: u64 = 2_000;
/// Most work of one validation: subschemas, each looking at each byte of the credential.
const MOST_WORK: u64 = 20_000_000;

/// The id of the schema that a reference `vpr:<word>:<chain id>:cs:<id>` names, if it is of the registry with this prefix
/// (`vpr:<word>:<chain id>:cs:`).
pub fn id_of(reference: &str, prefix: &str) -> Option<u64> {
    let digits = reference.strip_prefix(prefix)?;
    let is_plain = !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_plain)
}

/// Validates a credential as a whole, of so many bytes, against the text of a schema.
pub fn validate(schema: &str, credential: &Value, length: usize) -> Result<(), Reason> {
    let unusable = |why: &dyn std::fmt::Display| Reason::new(Code::SchemaUnusable, why);
    let schema: Value = serde_json::from_str(schema).map_err(|error| unusable(&error))?;
    let steps = bound(&schema).map_err(|why| unusable(&why))?;
    if steps.saturating_mul(length as u64) > MOST_WORK {
        let size = format!("a credential of {length} bytes for a JSON Schema of {steps} subschemas");
        return Err(Reason::new(Code::TooLarge, size));
    }
    let validator = compile(&schema).map_err(|why| unusable(&why))?;
    validator.validate(credential).map_err(|error| {
        let place = error.instance_path().to_string();
        let place = if place.is_empty() { "the credential".to_owned() } else { place };
        Reason::new(Code::SchemaMismatch, format!("{place}: {error}"))
    })
}

fn compile(schema: &Value) -> Result<Validator, String> {
    // Patterns run in linear time; nothing is fetched.
    let options = jsonschema::options().with_draft(Draft::Draft202012).with_pattern_options(PatternOptions::regex());
    options.build(schema).map_err(|error| error.to_string())
}

/// Refuses schemas whose references lead in circles or multiply.
fn bound(schema: &Value) -> Result<u64, String> {
    let mut costs = HashMap::new();
    let steps = cost(schema, schema, &mut Vec::new(), &mut costs)?;
    if steps > MOST_STEPS { Err(format!("it has {steps} subschemas; at most {MOST_STEPS}")) } else { Ok(steps) }
}

fn cost<'a>(
    root: &'a Value,
    value: &'a Value,
    path: &mut Vec<&'a str>,
    costs: &mut HashMap<&'a str, u64>,
) -> Result<u64, String> {
    match value {
        Value::Array(items) => {
            items.iter().try_fold(1u64, |sum, item| Ok(sum.saturating_add(cost(root, item, path, costs)?)))
        }
        Value::Object(members) => members.iter().try_fold(1u64, |sum, (name, inner)| {
            let steps = match (name.as_str(), inner) {
                // References inside of what is only data would be counted too; that refuses too much, never too little.
                ("$ref", Value::String(reference)) => reference_cost(root, reference, path, costs)?,
                // They give places other names than the one that is counted here.
                ("$dynamicRef" | "$recursiveRef" | "$anchor" | "$dynamicAnchor", Value::String(_)) => {
                    return Err(format!("it uses {name}"));
                }
                ("$id" | "$schema", Value::String(_)) if !std::ptr::eq(root, value) => {
                    return Err(format!("it uses {name} below its root"));
                }
                _ => cost(root, inner, path, costs)?,
            };
            Ok(sum.saturating_add(steps))
        }),
        _ => Ok(1),
    }
}

fn reference_cost<'a>(
    root: &'a Value,
    reference: &'a str,
    path: &mut Vec<&'a str>,
    costs: &mut HashMap<&'a str, u64>,
) -> Result<u64, String> {
    if let Some(known) = costs.get(reference) {
        return Ok(*known);
    }
    if path.contains(&reference) {
        return Err(format!("its reference {reference} leads in a circle"));
    }
    let pointer = reference.strip_prefix('#').ok_or_else(|| format!("its reference {reference} leads out of it"))?;
    if pointer.contains('%') {
        return Err(format!("its reference {reference} is written with percent signs"));
    }
    let target = root.pointer(pointer).ok_or_else(|| format!("its reference {reference} leads nowhere"))?;
    path.push(reference);
    let steps = cost(root, target, path, costs)?;
    path.pop();
    costs.insert(reference, steps);
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reference_names_a_schema_of_its_own_registry_alone() {
        let prefix = "vpr:svc:net-1:cs:";
        for (reference, expected) in [
            ("vpr:svc:net-1:cs:7", Some(7)),
            ("vpr:svc:net-2:cs:7", None),
            ("vpr:svc:net-1:cs:07", None),
            ("vpr:svc:net-1:cs:+7", None),
            ("vpr:svc:net-1:cs:", None),
            ("vpr:svc:net-1:cs:18446744073709551616", None),
        ] {
            assert_eq!(id_of(reference, prefix), expected, "{reference}");
        }
    }

    #[test]
    fn a_credential_fits_or_is_told_where_it_does_not() {
        let schema = crate::essential::Essential::Persona.schema();
        let fits = json!({"credentialSubject": {"id": "did:web:a", "name": "A", "controllerCountryCode": "DE"}});
        assert_eq!(validate(schema, &fits, 100), Ok(()));
        let mut wrong = fits;
        wrong["credentialSubject"]["controllerCountryCode"] = "Germany".into();
        let reason = validate(schema, &wrong, 100).expect_err("refused");
        assert_eq!(reason.code, Code::SchemaMismatch);
        assert!(reason.message.contains("/credentialSubject/controllerCountryCode"), "{}", reason.message);
    }

    #[test]
    fn schemas_that_could_cause_endless_work_are_unusable() {
        let mut doubling = json!({"$defs": {"0": {"type": "object"}}});
        for level in 1..40 {
            let below = json!({"$ref": format!("#/$defs/{}", level - 1)});
            doubling["$defs"][level.to_string()] = json!({"anyOf": [below, below, false]});
        }
        doubling["$ref"] = "#/$defs/39".into();
        for (schema, expected) in [
            (doubling, "subschemas"),
            (json!({"$ref": "#"}), "circle"),
            (json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}), "circle"),
            (json!({"$ref": "https://schemas.example/x"}), "out of it"),
            (json!({"$ref": "#/$defs/none"}), "nowhere"),
            (json!({"$dynamicRef": "#x"}), "$dynamicRef"),
            (json!({"$defs": {"a": {"$anchor": "x"}}}), "$anchor"),
            (json!({"$defs": {"a": {"$id": "https://a/b"}}}), "$id below its root"),
            (json!({"$defs": {"%62": true, "b": true}, "$ref": "#/$defs/%62"}), "percent"),
            (json!({"type": "nothing"}), "nothing"),
            (json!({"pattern": "(a(?=b))"}), "regex"),
            (json!({"$id": "vpr:svc:x:cs:1", "properties": {"a": {"$ref": "#/properties/a"}}}), "circle"),
        ] {
            let reason = validate(&schema.to_string(), &json!({}), 2).expect_err("refused");
            assert_eq!(reason.code, Code::SchemaUnusable, "{schema}");
            assert!(reason.message.contains(expected), "{}", reason.message);
        }
        assert_eq!(validate("{}", &json!({}), 20_000_001).expect_err("refused").code, Code::TooLarge);
        assert_eq!(validate("{", &json!({}), 2).expect_err("refused").code, Code::SchemaUnusable);
    }
}
