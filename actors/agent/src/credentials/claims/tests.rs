//! Tests of claims: names, types, problems, hostile schemas and hostile texts.

use super::*;

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(suffix, text)| ((*suffix).to_owned(), (*text).to_owned())).collect()
}

fn shown(schema: &str, pairs: &[(&str, &str)]) -> String {
    let problems = claims_for(schema, &texts(pairs)).expect_err("refused");
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

const SERVICE: [(&str, &str); 6] = [
    ("NAME", "Café"),
    ("TYPE", "Shop"),
    ("DESCRIPTION", "Sells"),
    ("MINIMUM_AGE_REQUIRED", "18"),
    ("TERMS_AND_CONDITIONS_URI", "https://shop.example/terms"),
    ("PRIVACY_POLICY_URI", "https://shop.example/privacy"),
];

#[test]
fn variables_give_the_properties_of_their_names() {
    let schema = EssentialCredential::Service.schema();
    let mut all = SERVICE.to_vec();
    all.extend([("LOGO_URI", "https://shop.example/logo"), ("ID", "did:web:other"), ("", "x")]);
    let claims = claims_for(schema, &texts(&all)).expect("complete");
    let expected = json!({
        "name": "Café", "type": "Shop", "description": "Sells", "minimumAgeRequired": 18,
        "termsAndConditions": "https://shop.example/terms", "privacyPolicy": "https://shop.example/privacy",
    });
    assert_eq!(Value::Object(claims), expected);
    assert_eq!(texts_without_property(schema, &texts(&all)), ["", "ID", "LOGO_URI"]);
}

#[test]
fn every_problem_names_its_variable_and_the_allowed_values() {
    let schema = EssentialCredential::Service.schema();
    let found = shown(schema, &[("NAME", "a\u{202e}b"), ("TYPE", "Shop"), ("MINIMUM_AGE_REQUIRED", "18.5")]);
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(lines.len(), 5, "{found}");
    assert!(lines[0].starts_with("NAME: has the character U+202E; allowed: a text"), "{found}");
    assert!(lines[1].starts_with("DESCRIPTION: not set; allowed: a text, minLength 1, maxLength 4096"), "{found}");
    assert!(lines[2].starts_with("PRIVACY_POLICY_URI: not set"), "{found}");
    assert!(lines[3].starts_with("TERMS_AND_CONDITIONS_URI: not set"), "{found}");
    assert!(lines[4].starts_with("MINIMUM_AGE_REQUIRED: ") && lines[4].contains("18.5"), "{found}");
    assert!(lines[4].ends_with("allowed: an integer, minimum 0, maximum 255"), "{found}");

    let mut twice = SERVICE.to_vec();
    twice.push(("PRIVACY_POLICY", "https://shop.example/other"));
    assert_eq!(
        shown(schema, &twice),
        "PRIVACY_POLICY_URI: gives privacyPolicy, as PRIVACY_POLICY does; allowed: one of the two"
    );
    let found = shown(EssentialCredential::Organization.schema(), &[("COUNTRY_CODE", "Germany")]);
    assert!(found.contains("COUNTRY_CODE: \"Germany\" does not match"), "{found}");
    assert!(found.contains("REGISTRY_ID: not set") && !found.contains("LEI"), "{found}");
}

#[test]
fn a_text_becomes_a_value_of_the_first_type_that_it_fits() {
    for (kind, text, expected) in [
        (json!("integer"), "18", json!(18)),
        (json!("integer"), "-1", json!(-1)),
        (json!("integer"), "1.0", json!("1.0")),
        (json!("integer"), "018", json!("018")),
        (json!("integer"), "9007199254740993", json!("9007199254740993")),
        (json!("number"), "1.5", json!(1.5)),
        (json!("number"), "1e999", json!("1e999")),
        (json!("number"), "NaN", json!("NaN")),
        (json!("boolean"), "true", json!(true)),
        (json!("boolean"), "yes", json!("yes")),
        (json!("string"), "18", json!("18")),
        (json!(["integer", "string"]), "18", json!(18)),
        (json!(["integer", "string"]), "x", json!("x")),
        (json!("array"), "[]", json!("[]")),
        (Value::Null, "18", json!("18")),
    ] {
        assert_eq!(to_value(text, &json!({"type": kind})), expected, "{kind} {text}");
    }
}

#[test]
fn a_schema_of_another_party_is_refused_within_the_bounds() {
    let subject = |subject: Value| json!({"properties": {"credentialSubject": subject}}).to_string();
    let name = json!({"name": {"type": "string"}});
    let mut doubling = json!({"properties": {"credentialSubject": {"properties": {"name": {"$ref": "#/$defs/0"}}}}});
    for level in 0..40 {
        let next = json!({"$ref": format!("#/$defs/{}", level + 1)});
        doubling["$defs"][level.to_string()] = json!({"anyOf": [next, next]});
    }
    doubling["$defs"]["40"] = true.into();
    let snake = json!({"properties": name, "required": ["name", "first_name"]});
    for (schema, expected) in [
        ("{".to_owned(), "cannot be used"),
        (json!({"$ref": "#"}).to_string(), "circle"),
        (doubling.to_string(), "subschemas"),
        (subject(json!({"properties": {"name": {"pattern": "(a(?=b))"}}})), "cannot be used"),
        (subject(snake), "no variable gives \"first_name\""),
        (subject(json!({"properties": name, "minProperties": 5})), "all: "),
    ] {
        let found = shown(&schema, &[("NAME", "x")]);
        assert!(found.contains(expected), "{found}");
    }
    let open = subject(json!({"properties": {"name": {"type": "string"}}, "additionalProperties": true}));
    assert!(claims_for(&open, &texts(&[("NAME", "x"), ("OTHER", "y")])).is_ok_and(|claims| claims.len() == 1));
}

#[test]
fn characters_that_deceive_a_reader_are_refused_at_any_depth() {
    let claims = |value: Value| value.as_object().cloned().expect("members");
    let plain = claims(json!({"name": "Zoë שלום 东京 👩‍👩‍👧", "list": ["a", {"b": 1}]}));
    assert_eq!(check_claim_texts(&plain), Ok(()));
    let hostile = claims(json!({
        "name": "a\u{202e}b", "list": ["a", {"b\u{2066}": "c"}], "line": "a\nb", "mark": "\u{61c}", "c1": "\u{85}",
    }));
    let violations = check_claim_texts(&hostile).expect_err("refused");
    let paths: Vec<&str> = violations.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(paths, ["claims.name", "claims.list[1].b\\u{2066}", "claims.line", "claims.mark", "claims.c1"]);
    assert!(violations[0].message.starts_with("has the character U+202E; allowed is a text"));
    let many = claims(json!({"list": vec!["\u{200e}"; 40]}));
    assert_eq!(check_claim_texts(&many).expect_err("refused").len(), MAX_VIOLATIONS);
}

#[test]
fn a_violation_is_named_as_the_request_has_it() {
    for (pointer, expected) in [
        ("", "credential"),
        ("/validUntil", "credential.validUntil"),
        ("/credentialSubject", "claims"),
        ("/credentialSubject/list/1/a~1b", "claims.list[1].a/b"),
    ] {
        assert_eq!(place_in_request(pointer), expected);
    }
    let schema = EssentialCredential::Persona.schema();
    let subject = json!({"id": "did:web:a", "name": "A", "controllerCountryCode": "de"});
    let found = claim_violations(schema, &json!({"credentialSubject": subject})).expect("usable");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].path, "claims.controllerCountryCode");
}

#[test]
fn equal_claims_have_one_digest() {
    let digest = |text: &str| claims_digest(&serde_json::from_str(text).expect("members"));
    assert_eq!(digest(r#"{"a": 1, "b": "x"}"#), digest(r#"{"b": "x", "a": 1.0}"#));
    assert_ne!(digest(r#"{"a": 1}"#), digest(r#"{"a": 2}"#));
    assert_ne!(digest(r#"{"a": 9007199254740993}"#), digest(r#"{"a": 9007199254740992}"#));
}
