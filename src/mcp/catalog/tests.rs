use serde_json::{Value, json};
use svc_operator::{ChainParams, FeePolicy};
use svc_wire::proto_registry::{Namespace, ProtoRegistry};

use super::*;
use crate::tools::{SURFACES, ToolEffect, ToolNames};

fn catalog() -> ToolCatalog {
    let registry = ProtoRegistry::compiled(&Namespace::compiled()).expect("compiled descriptors load");
    let params =
        ChainParams { chain_id: "c".into(), denom: "usvc".into(), prefix: "svc".into(), fees: FeePolicy::at_price(1) };
    let chain = RegistryChain {
        params,
        served: Arc::new(registry.clone()),
        registry: Arc::new(registry),
        release: Arc::default(),
        prices: svc_pipeline::GasPriceWatch::new(FeePolicy::at_price(25_000), true, "usvc"),
        denom_doubt: None,
    };
    ToolCatalog::build(&chain, &ToolSelection::default()).expect("builds")
}

#[test]
fn every_tool_has_all_its_parts_and_a_name_of_the_contract() {
    for entry in catalog().iter() {
        let tool = &entry.tool;
        let segments = tool.name.split('.').count();
        assert_eq!(segments, if entry.surface() == "wallet" { 3 } else { 4 }, "{}", tool.name);
        assert!(tool.title.is_some() && tool.output_schema.is_some(), "{}", tool.name);
        assert!(tool.description.as_ref().is_some_and(|text| text.len() > 40), "{}", tool.name);
        let hints = tool.annotations.as_ref().expect("annotations");
        assert_eq!(hints.read_only_hint, Some(entry.effect == ToolEffect::Reads), "{}", tool.name);
        let properties = tool.input_schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
        for (name, schema) in properties {
            assert!(schema["description"].is_string(), "{}: {name} has no description", tool.name);
        }
        assert_eq!(entry.strict_schema()["additionalProperties"], false, "{}", tool.name);
        jsonschema::draft202012::meta::validate(&Value::Object(
            (**tool.output_schema.as_ref().expect("a schema")).clone(),
        ))
        .unwrap_or_else(|error| panic!("{}: {error}", tool.name));
    }
}

/// Calls `check` on every schema inside a schema, with its path.
fn each_schema(schema: &Value, path: &str, check: &mut impl FnMut(&Value, &str)) {
    check(schema, path);
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        each_schema(member, &format!("{path}.{name}"), check);
    }
    if let Some(items) = schema.get("items") {
        each_schema(items, &format!("{path}[]"), check);
    }
    for one in schema["anyOf"].as_array().into_iter().flatten() {
        each_schema(one, path, check);
    }
}

#[test]
fn every_listed_schema_is_one_that_converters_take() {
    for entry in catalog().iter() {
        let input = Value::Object((*entry.tool.input_schema).clone());
        let output = Value::Object((**entry.tool.output_schema.as_ref().expect("a schema")).clone());
        for (side, schema) in [("input", &input), ("output", &output)] {
            each_schema(schema, &format!("{} {side}", entry.tool.name), &mut |schema, path| {
                for refused in ["additionalProperties", "pattern", "$ref", "$defs", "$schema", "patternProperties"] {
                    assert!(schema.get(refused).is_none(), "{path}: {refused}");
                }
                assert!(!schema["type"].is_array(), "{path}: {}", schema["type"]);
                let values = schema["enum"].as_array().into_iter().flatten();
                values.for_each(|value| assert!(value.as_str().is_some_and(|text| text != "null"), "{path}: {value}"));
            });
        }
    }
}

#[test]
fn every_field_of_an_answer_is_described() {
    for entry in catalog().iter() {
        let output = Value::Object((**entry.tool.output_schema.as_ref().expect("a schema")).clone());
        each_schema(&output, &entry.tool.name, &mut |schema, path| {
            for (name, member) in schema["properties"].as_object().into_iter().flatten() {
                let is_wrapper = member["properties"].is_object() || member["items"].is_object();
                assert!(is_wrapper || member["description"].is_string(), "{path}.{name} has no description");
            }
        });
    }
}

#[test]
fn the_names_are_exactly_those_of_the_contract() {
    let recorded: Vec<String> =
        serde_json::from_str(include_str!("../../../tests/fixtures/tool_names.json")).expect("a list of names");
    let names: Vec<String> = catalog().iter().map(|entry| entry.tool.name.to_string()).collect();
    let ours = ["svc.wallet.findTools", "svc.wallet.readTool"];
    let found: Vec<&String> = names.iter().filter(|name| !ours.contains(&name.as_str())).collect();
    assert_eq!(found.len(), 134);
    assert_eq!(found, recorded.iter().collect::<Vec<_>>());
}

#[test]
fn the_toolsets_are_the_surfaces_and_modules_of_the_tools() {
    let mut found = std::collections::BTreeSet::from(["core".to_owned()]);
    for entry in catalog().iter() {
        let segments: Vec<&str> = entry.tool.name.split('.').collect();
        found.insert(segments[1].to_owned());
        if segments.len() == 4 {
            found.insert(format!("{}.{}", segments[1], segments[2]));
        }
    }
    assert_eq!(found, ToolNames::load().expect("the tables").toolsets());
}

#[test]
fn every_tool_that_a_text_names_exists() {
    let catalog = catalog();
    for entry in catalog.iter() {
        let text = serde_json::to_string(&entry.tool).expect("serialises");
        for name in tool_names_in(&text) {
            let segments: Vec<&str> = name.split('.').collect();
            // Names of protobuf messages also begin with svc, and patterns such as svc.graph.did.* name no tool.
            let is_tool = SURFACES.contains(&segments[1]) && segments.len() == 3 + usize::from(segments[1] != "wallet");
            assert!(!is_tool || catalog.get(name).is_some(), "{} names {name}", entry.tool.name);
        }
    }
}

#[test]
fn ledger_tools_hide_the_accounts_that_the_server_fills_in() {
    let catalog = catalog();
    for entry in catalog.iter().filter(|entry| entry.surface() == "ledger") {
        let ToolAction::Ledger(tool) = &entry.action else { panic!("{}", entry.tool.name) };
        for hidden in tool.accounts.keys() {
            assert!(entry.tool.input_schema["properties"].get(hidden).is_none(), "{}: {hidden}", entry.tool.name);
        }
        for account in ["corporation", "operator", "authority", "signer"] {
            assert!(entry.tool.input_schema["properties"].get(account).is_none(), "{}: {account}", entry.tool.name);
        }
    }
}

#[test]
fn every_violation_is_listed_with_its_pointer() {
    let catalog = catalog();
    let entry = catalog.get("svc.ledger.es.createEcosystem").expect("listed");
    let error = entry.check_arguments(&json!({"did": "web:x", "language": 1, "color": "red"})).expect_err("refused");
    let violations = error.details["violations"].as_array().expect("violations");
    let pointers: Vec<_> = violations.iter().map(|violation| violation["pointer"].as_str().expect("text")).collect();
    for expected in ["/did", "/language", "/color", "/doc_url", "/doc_digest_sri"] {
        assert!(pointers.contains(&expected), "{expected}: {pointers:?}");
    }
    assert!(error.message.contains("color: is not an argument of this tool"), "{}", error.message);
}

#[test]
fn rules_of_some_generations_are_left_to_the_node() {
    let catalog = catalog();
    let of = |tool: &str, arguments: Value| catalog.get(tool).expect("known").check_arguments(&arguments);
    let taken = [
        ("svc.ledger.pp.createRootParticipant", json!({"schema_id": 1, "did": "did:web:a.example"})),
        (
            "svc.ledger.pp.selfCreateParticipant",
            json!({"role": "ISSUER", "validator_participant_id": 1, "did": "did:web:a.example"}),
        ),
        ("svc.ledger.di.storeDigest", json!({"digest": "AAEC"})),
        ("svc.ledger.pp.setParticipantOpToValidated", json!({"id": 1, "op_summary_digest": "sha3-256:AAEC"})),
    ];
    for (tool, arguments) in taken {
        of(tool, arguments).unwrap_or_else(|error| panic!("{tool}: {}", error.message));
    }
    // No generation takes an empty digest, and an argument that is given is meant.
    for (tool, arguments) in [
        ("svc.ledger.di.storeDigest", json!({"digest": ""})),
        ("svc.ledger.pp.setParticipantOpToValidated", json!({"id": 1, "op_summary_digest": ""})),
    ] {
        assert!(of(tool, arguments).is_err(), "{tool}");
    }
}

#[test]
fn a_message_has_enum_numbers_and_only_valid_json_texts() {
    let catalog = catalog();
    let entry = catalog.get("svc.ledger.cs.createCredentialSchema").expect("known");
    let ToolAction::Ledger(tool) = &entry.action else { panic!("a ledger tool") };
    let message = tool
        .build_message(
            &json!({"issuer_onboarding_mode": "OPEN", "pricing_asset_type": 2, "json_schema": "{}", "dry_run": true}),
        )
        .unwrap_or_else(|_| panic!("valid"));
    assert_eq!(message, json!({"issuer_onboarding_mode": 1, "pricing_asset_type": 2, "json_schema": "{}"}));
    for (text, expected) in [("{", "is not JSON"), ("[]", "not an object")] {
        let violations = tool.build_message(&json!({"json_schema": text})).map(drop);
        let Err(violations) = violations else { panic!("{text} is accepted") };
        assert!(violations[0].pointer == "/json_schema" && violations[0].reason.contains(expected));
    }
}

/// Asserts that a text is the recorded one, or records it.
fn assert_recorded(name: &str, text: &str) {
    let path = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("SVC_RECORD").is_some() {
        std::fs::write(&path, text).expect("recorded");
    }
    let recorded = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(recorded == text, "tests/fixtures/{name} differs; run with SVC_RECORD=1 and look at the change");
}

/// The listing that clients see. A change of a name or a schema needs a line in the changelog.
#[test]
fn the_listing_equals_the_recorded_one() {
    let catalog = catalog();
    let lines: Vec<String> =
        catalog.iter().map(|entry| serde_json::to_string(&entry.tool).expect("serialises")).collect();
    assert_recorded("tools.json", &format!("[\n{}\n]\n", lines.join(",\n")));
}

/// The schemas that dispatch checks, which the fuzzer reads.
#[test]
fn the_strict_schemas_equal_the_recorded_ones() {
    let catalog = catalog();
    let lines: Vec<String> =
        catalog.iter().map(|entry| format!("{}: {}", json!(entry.tool.name), entry.strict_schema())).collect();
    assert_recorded("strict_schemas.json", &format!("{{\n{}\n}}\n", lines.join(",\n")));
}
