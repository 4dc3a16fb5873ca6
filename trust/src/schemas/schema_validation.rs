//! Validation of a credential against a JSON Schema of the registry. Other parties write both, so the work of a validation is
//! bounded before it starts.

use std::collections::HashMap;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

use crate::rejection::{RejectionCode, RejectionReason};

/// Subschemas of one validation, references followed.
const MAX_SUBSCHEMAS: u64 = 2_000;
/// Work of one validation: subschemas times bytes of the credential.
const MAX_VALIDATION_WORK: u64 = 20_000_000;

/// The schema id in a reference `vpr:<namespace>:<chain id>:cs:<id>`. None unless the reference begins with `prefix`, that is
/// `vpr:<namespace>:<chain id>:cs:` of the registry.
pub fn schema_id_of(reference: &str, prefix: &str) -> Option<u64> {
    let digits = reference.strip_prefix(prefix)?;
    let is_plain = !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_plain)
}

/// Validates a whole credential against the text of a schema. `length` is the length of the credential as JSON, in bytes.
/// Fails when the schema cannot be used, the work is too much, or the credential does not match.
pub fn validate_credential(schema: &str, credential: &Value, length: usize) -> Result<(), RejectionReason> {
    let unusable = |cause: &dyn std::fmt::Display| RejectionReason::new(RejectionCode::SchemaUnusable, cause);
    let schema: Value = serde_json::from_str(schema).map_err(|error| unusable(&error))?;
    let steps = count_subschemas(&schema).map_err(|cause| unusable(&cause))?;
    if steps.saturating_mul(length as u64) > MAX_VALIDATION_WORK {
        let size = format!("a credential of {length} bytes for a JSON Schema of {steps} subschemas");
        return Err(RejectionReason::new(RejectionCode::TooLarge, size));
    }
    let validator = compile(&schema).map_err(|cause| unusable(&cause))?;
    validator.validate(credential).map_err(|error| {
        let path = error.instance_path().to_string();
        let member = if path.is_empty() { "the credential".to_owned() } else { path };
        RejectionReason::new(RejectionCode::SchemaMismatch, format!("{member}: {error}"))
    })
}

fn compile(schema: &Value) -> Result<Validator, String> {
    // This engine matches patterns in linear time. No reference is fetched.
    let options = jsonschema::options().with_draft(Draft::Draft202012).with_pattern_options(PatternOptions::regex());
    options.build(schema).map_err(|error| error.to_string())
}

/// Counts the subschemas that a validation visits. Fails for references in a cycle and for too many subschemas.
fn count_subschemas(schema: &Value) -> Result<u64, String> {
    let mut costs = HashMap::new();
    let steps = subschema_cost(schema, schema, &mut Vec::new(), &mut costs)?;
    if steps > MAX_SUBSCHEMAS { Err(format!("it has {steps} subschemas; at most {MAX_SUBSCHEMAS}")) } else { Ok(steps) }
}

fn subschema_cost<'a>(
    root: &'a Value,
    value: &'a Value,
    path: &mut Vec<&'a str>,
    costs: &mut HashMap<&'a str, u64>,
) -> Result<u64, String> {
    match value {
        Value::Array(items) => {
            items.iter().try_fold(1u64, |sum, item| Ok(sum.saturating_add(subschema_cost(root, item, path, costs)?)))
        }
        Value::Object(members) => members.iter().try_fold(1u64, |sum, (name, inner)| {
            let steps = match (name.as_str(), inner) {
                // A `$ref` inside of plain data counts too. That can refuse a usable schema, and never takes a costly one.
                ("$ref", Value::String(reference)) => reference_cost(root, reference, path, costs)?,
                // These give a subschema a second name, which the count does not follow.
                ("$dynamicRef" | "$recursiveRef" | "$anchor" | "$dynamicAnchor", Value::String(_)) => {
                    return Err(format!("it uses {name}"));
                }
                ("$id" | "$schema", Value::String(_)) if !std::ptr::eq(root, value) => {
                    return Err(format!("it uses {name} below its root"));
                }
                _ => subschema_cost(root, inner, path, costs)?,
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
    let steps = subschema_cost(root, target, path, costs)?;
    path.pop();
    costs.insert(reference, steps);
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reference_names_a_schema_of_its_own_registry_only() {
        let prefix = "vpr:svc:net-1:cs:";
        for (reference, expected) in [
            ("vpr:svc:net-1:cs:7", Some(7)),
            ("vpr:svc:net-2:cs:7", None),
            ("vpr:svc:net-1:cs:07", None),
            ("vpr:svc:net-1:cs:+7", None),
            ("vpr:svc:net-1:cs:", None),
            ("vpr:svc:net-1:cs:18446744073709551616", None),
        ] {
            assert_eq!(schema_id_of(reference, prefix), expected, "{reference}");
        }
    }

    #[test]
    fn a_mismatch_names_the_member_of_the_credential() {
        let schema = crate::schemas::essential_schema::EssentialCredential::Persona.schema();
        let fits = json!({"credentialSubject": {"id": "did:web:a", "name": "A", "controllerCountryCode": "DE"}});
        assert_eq!(validate_credential(schema, &fits, 100), Ok(()));
        let mut wrong = fits;
        wrong["credentialSubject"]["controllerCountryCode"] = "Germany".into();
        let reason = validate_credential(schema, &wrong, 100).expect_err("refused");
        assert_eq!(reason.code, RejectionCode::SchemaMismatch);
        assert!(reason.message.contains("/credentialSubject/controllerCountryCode"), "{}", reason.message);
    }

    #[test]
    fn a_schema_with_unbounded_work_is_unusable() {
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
            let reason = validate_credential(&schema.to_string(), &json!({}), 2).expect_err("refused");
            assert_eq!(reason.code, RejectionCode::SchemaUnusable, "{schema}");
            assert!(reason.message.contains(expected), "{}", reason.message);
        }
        assert_eq!(
            validate_credential("{}", &json!({}), 20_000_001).expect_err("refused").code,
            RejectionCode::TooLarge
        );
        assert_eq!(validate_credential("{", &json!({}), 2).expect_err("refused").code, RejectionCode::SchemaUnusable);
    }
}
