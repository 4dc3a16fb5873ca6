//! Tests of claims: names, types, problems, hostile schemas and hostile texts.

use super::*;

const SERVICE: EssentialCredential = EssentialCredential::Service;

fn texts(pairs: &[(&str, &str)]) -> ConfiguredClaims {
    let texts = pairs.iter().map(|(suffix, text)| ((*suffix).to_owned(), (*text).to_owned()));
    ConfiguredClaims { texts: texts.collect(), ..ConfiguredClaims::default() }
}

fn shown(schema: &str, pairs: &[(&str, &str)]) -> String {
    problems_text(&claims_for(schema, SERVICE, &texts(pairs)).expect_err("refused")).replace("; ECS", "\nECS")
}

const ALL: [(&str, &str); 10] = [
    ("NAME", "Café"),
    ("TYPE", "Shop"),
    ("DESCRIPTION", "Sells"),
    ("LOGO_URI", "https://shop.example/logo"),
    ("LOGO_DIGEST_SRI", "sha384-logo"),
    ("MINIMUM_AGE_REQUIRED", "18"),
    ("TERMS_AND_CONDITIONS_URI", "https://shop.example/terms"),
    ("TERMS_AND_CONDITIONS_DIGEST_SRI", "sha384-terms"),
    ("PRIVACY_POLICY_URI", "https://shop.example/privacy"),
    ("PRIVACY_POLICY_DIGEST_SRI", "sha384-privacy"),
];

#[test]
fn variables_give_the_properties_of_their_names() {
    let mut all = ALL.to_vec();
    all.extend([("LOGO", "https://shop.example/other"), ("ID", "did:web:other"), ("", "x")]);
    let found = claims_for(SERVICE.schema(), SERVICE, &texts(&all)).expect("complete");
    let expected = json!({
        "name": "Café", "type": "Shop", "description": "Sells", "minimumAgeRequired": 18,
        "logoUri": "https://shop.example/logo", "logoDigestSri": "sha384-logo",
        "termsAndConditionsUri": "https://shop.example/terms", "termsAndConditionsDigestSri": "sha384-terms",
        "privacyPolicyUri": "https://shop.example/privacy", "privacyPolicyDigestSri": "sha384-privacy",
    });
    assert_eq!(Value::Object(found.claims), expected);
    assert_eq!(found.settings["logoUri"], "ECS_CLAIMS_SERVICE_LOGO_URI");
    let unused = unused_settings(SERVICE.schema(), SERVICE, &texts(&all));
    assert_eq!(unused, ["ECS_CLAIMS_SERVICE_", "ECS_CLAIMS_SERVICE_ID", "ECS_CLAIMS_SERVICE_LOGO"]);
    // A schema with the names of the first generation.
    let older = r#"{"properties": {"credentialSubject": {"properties": {"privacyPolicy": {"type": "string"}}}}}"#;
    let found = claims_for(older, SERVICE, &texts(&ALL)).expect("complete");
    assert_eq!(Value::Object(found.claims), json!({"privacyPolicy": "https://shop.example/privacy"}));
}

#[test]
fn a_variable_wins_over_a_member_of_the_file() {
    let members = json!({
        "name": "Of the file", "controllerCountryCode": "EE", "description": 7, "descriptionFormat": "text/plain",
        "other": 1,
    });
    let persona = EssentialCredential::Persona;
    let members = members.as_object().cloned().expect("an object");
    let mut configured = ConfiguredClaims { members, ..texts(&[("NAME", "Of the variable")]) };
    let problems = claims_for(persona.schema(), persona, &configured).expect_err("refused");
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].setting, "ECS_CLAIMS_FILE persona.description");
    configured.texts.insert("DESCRIPTION".to_owned(), "7".to_owned());
    let found = claims_for(persona.schema(), persona, &configured).expect("complete");
    let expected = json!({
        "name": "Of the variable", "controllerCountryCode": "EE", "description": "7", "descriptionFormat": "text/plain",
    });
    assert_eq!(Value::Object(found.claims), expected);
    assert_eq!(found.settings["controllerCountryCode"], "ECS_CLAIMS_FILE persona.controllerCountryCode");
    assert_eq!(unused_settings(persona.schema(), persona, &configured), ["ECS_CLAIMS_FILE persona.other"]);
}

#[test]
fn every_problem_names_its_setting_and_the_allowed_values() {
    let found = shown(SERVICE.schema(), &[("NAME", "a\u{202e}b"), ("TYPE", "Shop"), ("MINIMUM_AGE_REQUIRED", "18.5")]);
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(lines.len(), 9, "{found}");
    let begins = |line: &str, rest: &str| assert!(line.starts_with(&format!("ECS_CLAIMS_SERVICE_{rest}")), "{found}");
    begins(lines[0], "NAME: has the character U+202E; allowed: a text");
    begins(lines[1], "DESCRIPTION: not set; allowed: a text, maxLength 4096");
    begins(lines[2], "LOGO_DIGEST_SRI: not set");
    begins(lines[3], "LOGO_URI: not set");
    begins(lines[8], "MINIMUM_AGE_REQUIRED: ");
    assert!(lines[8].contains("18.5") && lines[8].ends_with("allowed: an integer, minimum 0, maximum 255"), "{found}");

    let older = r#"{"properties": {"credentialSubject": {"properties": {"privacyPolicy": {"type": "string"}}}}}"#;
    assert_eq!(
        shown(older, &[("PRIVACY_POLICY_URI", "https://a"), ("PRIVACY_POLICY", "https://b")]),
        "ECS_CLAIMS_SERVICE_PRIVACY_POLICY_URI: gives privacyPolicy, as ECS_CLAIMS_SERVICE_PRIVACY_POLICY does; allowed: one of the two"
    );
    let organization = EssentialCredential::Organization;
    let problems = claims_for(organization.schema(), organization, &texts(&[("COUNTRY_CODE", "Germany")]));
    let found = problems_text(&problems.expect_err("refused"));
    assert!(found.contains("ECS_CLAIMS_ORG_COUNTRY_CODE: \"Germany\" does not match"), "{found}");
    assert!(found.contains("ECS_CLAIMS_ORG_REGISTRY_ID: not set") && !found.contains("LEI"), "{found}");
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
        (subject(snake), "ECS_CLAIMS_FILE service.first_name: not set, and no variable gives it"),
        (subject(json!({"properties": name, "minProperties": 5})), "ECS_CLAIMS_SERVICE_*: "),
    ] {
        let found = shown(&schema, &[("NAME", "x")]);
        assert!(found.contains(expected), "{found}");
    }
    let open = subject(json!({"properties": {"name": {"type": "string"}}, "additionalProperties": true}));
    let found = claims_for(&open, SERVICE, &texts(&[("NAME", "x"), ("OTHER", "y")]));
    assert!(found.is_ok_and(|found| found.claims.len() == 1));
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
