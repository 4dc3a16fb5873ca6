//! Validation of a credential against a JSON Schema of the registry. Other parties write both, so the work of a validation is
//! bounded before it starts.

use std::collections::HashMap;

use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::Value;

use crate::rejection::{RejectionCode, RejectionReason};

/// Subschemas of one validation, references followed.
const MAX_SUBSCHEMAS: u64 = 2_000;
/// Work of one validation: subschemas times bytes of the credential. The longest badge of the published schema takes half of it.
const MAX_VALIDATION_WORK: u64 = 60_000_000;
/// Memory that the violations of one validation may take, in bytes: the validator collects all of them before it returns the first.
const MAX_VIOLATION_MEMORY: u64 = 32 * 1024 * 1024;
/// Memory of one violation without its path, in bytes.
const VIOLATION_MEMORY: u64 = 256;
/// Violations that are returned.
const MAX_VIOLATIONS: usize = 16;
/// Longest path and longest message of a violation, in bytes: other parties write the texts in them.
const MAX_TEXT_BYTES: usize = 400;

/// A rule of a schema that a credential breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaViolation {
    /// JSON Pointer to the member of the credential; empty for the whole credential.
    pub path: String,
    /// The value and the rule.
    pub message: String,
}

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
    let violations = credential_violations(schema, credential, length)?;
    let Some(SchemaViolation { path, message }) = violations.first() else { return Ok(()) };
    let member = if path.is_empty() { "the credential" } else { path };
    Err(RejectionReason::new(RejectionCode::SchemaMismatch, format!("{member}: {message}")))
}

/// The violations of the text of a schema by a whole credential, sorted by their paths and at most 16; none when the credential matches.
/// `length` is the length of the credential as JSON, in bytes. Fails when the schema cannot be used or the work is too much.
pub fn credential_violations(
    schema: &str,
    credential: &Value,
    length: usize,
) -> Result<Vec<SchemaViolation>, RejectionReason> {
    let unusable = |cause: &dyn std::fmt::Display| RejectionReason::new(RejectionCode::SchemaUnusable, cause);
    let schema: Value = serde_json::from_str(schema).map_err(|error| unusable(&error))?;
    let steps = count_subschemas(&schema).map_err(|cause| unusable(&cause))?;
    if steps.saturating_mul(length as u64) > MAX_VALIDATION_WORK {
        let size = format!("a credential of {length} bytes for a JSON Schema of {steps} subschemas");
        return Err(RejectionReason::new(RejectionCode::TooLarge, size));
    }
    let validator = compile(&schema).map_err(|cause| unusable(&cause))?;
    // This answer takes no memory, unlike that of `validate`, which collects the violations of every branch of an `anyOf`.
    if validator.is_valid(credential) {
        return Ok(Vec::new());
    }
    // Each subschema may be violated at each value.
    let mut violations = if steps.saturating_mul(violation_memory(credential, 0)) > MAX_VIOLATION_MEMORY {
        Vec::new()
    } else {
        describe_violations(&validator, credential)
    };
    if violations.is_empty() {
        let message = "it breaks a rule; it has too many values for the details".to_owned();
        violations.push(SchemaViolation { path: String::new(), message });
    }
    Ok(violations)
}

/// The memory of one violation at each value in a value, in bytes. `path` is the length of the path of the value.
fn violation_memory(value: &Value, path: u64) -> u64 {
    let own = path.saturating_add(VIOLATION_MEMORY);
    match value {
        Value::Array(items) => {
            // An index has at most 20 digits.
            items.iter().fold(own, |sum, item| sum.saturating_add(violation_memory(item, path.saturating_add(21))))
        }
        Value::Object(members) => members.iter().fold(own, |sum, (name, inner)| {
            // An escape in a JSON Pointer doubles a character.
            let inner_path = path.saturating_add(2 * name.len() as u64 + 1);
            sum.saturating_add(violation_memory(inner, inner_path))
        }),
        _ => own,
    }
}

fn describe_violations(validator: &Validator, credential: &Value) -> Vec<SchemaViolation> {
    let mut found: Vec<(String, ValidationError<'_>)> =
        validator.iter_errors(credential).map(|error| (error.instance_path().to_string(), error)).collect();
    // The validator keeps the properties of a large schema in a map without an order.
    found.sort_by(|(left, _), (right, _)| left.cmp(right));
    let cut = |mut text: String| {
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
        text
    };
    // A long value would leave no room for the rule.
    let describe = |error: ValidationError<'_>| match error.to_string() {
        text if text.len() > MAX_TEXT_BYTES => cut(error.masked_with("the value").to_string()),
        text => text,
    };
    found
        .into_iter()
        .take(MAX_VIOLATIONS)
        .map(|(path, error)| SchemaViolation { path: cut(path), message: describe(error) })
        .collect()
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
        // The rule is named for a value of any length.
        wrong["credentialSubject"]["controllerCountryCode"] = "Germany".repeat(1_000).into();
        let reason = validate_credential(schema, &wrong, 100_000).expect_err("refused");
        assert!(reason.message.contains("the value ") && reason.message.len() < 600, "{}", reason.message);
    }

    #[test]
    fn a_badge_with_the_longest_photo_fits() {
        let schema = crate::schemas::essential_schema::EssentialCredential::Badge.schema();
        let start = "data:image/png;base64,";
        let photo = format!("{start}{}", "A".repeat(262_144 - start.len()));
        let mut badge = json!({"credentialSubject": {"badgeNumber": "7", "name": "A", "photo": photo}});
        // The longest credential that agents exchange.
        assert_eq!(validate_credential(schema, &badge, 768 * 1024), Ok(()));
        badge["credentialSubject"]["photo"] = format!("{photo}A").into();
        let reason = validate_credential(schema, &badge, 768 * 1024).expect_err("one character too long");
        assert_eq!(reason.code, RejectionCode::SchemaMismatch);
    }

    #[test]
    fn every_violation_is_listed_in_the_order_of_the_paths() {
        let schema = crate::schemas::essential_schema::EssentialCredential::Organization.schema();
        let subject = json!({
            "id": "did:web:a", "name": "", "registryId": "7", "countryCode": "Germany", "lei": "é".repeat(500),
            "logoUri": "https://a.example/logo", "logoDigestSri": "sha384-a",
        });
        let credential = json!({"credentialSubject": subject});
        let found = credential_violations(schema, &credential, 1_200).expect("usable");
        let paths: Vec<&str> = found.iter().map(|one| one.path.as_str()).collect();
        let subject = "/credentialSubject";
        assert_eq!(
            paths,
            [subject, &format!("{subject}/countryCode"), &format!("{subject}/lei"), &format!("{subject}/name")]
        );
        assert!(found[0].message.contains("address") && found[1].message.contains("Germany"), "{found:?}");
        assert!(found.iter().all(|one| one.message.len() <= MAX_TEXT_BYTES), "{found:?}");

        let numbers = Value::from(vec![1; 40]);
        let found = credential_violations(r#"{"items": {"type": "string"}}"#, &numbers, 100).expect("usable");
        assert_eq!(found.len(), MAX_VIOLATIONS);
    }

    #[test]
    fn violations_that_would_take_much_memory_have_no_details() {
        // A thousand subschemas refuse each of five thousand values, and an `anyOf` collects the refusals of its branches.
        let refusing = json!({"anyOf": [{"items": {"allOf": vec![false; 1_000]}}]});
        let numbers = Value::from(vec![1; 5_000]);
        let found = credential_violations(&refusing.to_string(), &numbers, 10_001).expect("within the work");
        assert_eq!((found.len(), found[0].path.as_str()), (1, ""));
        let reason = validate_credential(&refusing.to_string(), &numbers, 10_001).expect_err("refused");
        assert_eq!(reason.code, RejectionCode::SchemaMismatch);
        let long_names = json!({"a".repeat(1_000_000): vec![1; 40]});
        assert!(violation_memory(&long_names, 0) > MAX_VIOLATION_MEMORY);
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
            validate_credential("{}", &json!({}), 60_000_001).expect_err("refused").code,
            RejectionCode::TooLarge
        );
        assert_eq!(validate_credential("{", &json!({}), 2).expect_err("refused").code, RejectionCode::SchemaUnusable);
    }
}
