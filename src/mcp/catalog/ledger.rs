//! Surface `ledger`: a tool per message of the chain. Texts and rules are in `data/ledger.json`; types come from the chain's
//! descriptors.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use svc_operator::{MAX_KEY_CHARACTERS, RegistryChain};
use svc_wire::{
    proto_registry::{ProtoRegistry, ProtoRegistryError, input_schema},
    syntax::{DID_PATTERN, MAX_LANGUAGE_BYTES},
};

use super::{
    arguments::ArgumentViolation,
    definition::{ListedArguments, ToolDefinition},
    table::CatalogError,
};
use crate::tools::{ToolEffect, read_table};

/// The role of an account that the server fills into a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccountRole {
    /// The policy address of the corporation.
    Corporation,
    /// The address of the operator.
    Operator,
}

/// A message as a tool.
#[derive(Debug)]
pub struct LedgerTool {
    /// Type URL of the message.
    pub msg_type: String,
    /// Roles of the accounts that the server fills in, by field.
    pub accounts: BTreeMap<String, AccountRole>,
    /// Whether the message needs an authorization of the corporation.
    pub needs_grant: bool,
    /// Numbers of the enum names that a field accepts, by field.
    enum_numbers: BTreeMap<String, BTreeMap<String, i32>>,
    /// Fields that contain JSON as text.
    json_text_fields: Vec<String>,
    /// 64-bit fields, which may be written as text.
    uint64_fields: Vec<String>,
}

#[derive(Deserialize)]
struct LedgerRow {
    name: String,
    title: String,
    description: String,
    module: String,
    message: String,
    accounts: BTreeMap<String, AccountRole>,
    needs_grant: bool,
    effect: ToolEffect,
    fields: Vec<LedgerField>,
    verified_by: String,
    /// Members of the message's response, each in words.
    returns: BTreeMap<String, String>,
}

/// A field of the message, with its rule and its description for a model.
#[derive(Deserialize)]
struct LedgerField {
    name: String,
    required: bool,
    rule: FieldRule,
    description: String,
    #[serde(rename = "enum")]
    enum_type: Option<String>,
    minimum: Option<u64>,
    maximum: Option<u64>,
    examples: Option<Vec<Value>>,
    /// Further keywords of JSON Schema.
    #[serde(default)]
    also: Map<String, Value>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FieldRule {
    AsDeclared,
    Did,
    LanguageShort,
    Language,
    HttpUrl,
    /// The shape of a digest is the node's to judge: the oldest nodes take integrity texts only, later ones any text.
    Digest,
    PositiveId,
    Version,
    NonEmptyList,
    JsonObjectText,
    Named,
}

/// Argument for the raw events of the chain in the answer.
pub const INCLUDE_EVENTS: &str = "include_events";
/// Arguments of the tool itself, which are no field of the message.
const CONTROL_ARGUMENTS: [&str; 3] = ["dry_run", "idempotency_key", INCLUDE_EVENTS];
/// The denom of the table's examples.
const EXAMPLE_DENOM: &str = "usvc";

pub(super) fn tools(chain: &RegistryChain) -> Result<Vec<(ToolDefinition, LedgerTool)>, CatalogError> {
    let text = include_str!("data/ledger.json").replace(EXAMPLE_DENOM, &chain.params.denom);
    let rows: Vec<LedgerRow> = read_table("ledger", &text)?;
    let namespace = chain.registry.namespace();
    let problem = |row: &LedgerRow| chain.release.problem_of(&namespace.type_url(&row.module, &row.message));
    // A server whose every write the node would misread must not start.
    if let Some(problems) = rows.iter().map(problem).collect::<Option<Vec<String>>>() {
        return Err(CatalogError::NothingTaken(problems.into_iter().next().unwrap_or_default()));
    }
    // With the descriptors of the node a message that it lacks has no arguments.
    let is_known =
        |row: &LedgerRow| chain.registry.message_descriptor(&namespace.type_url(&row.module, &row.message)).is_ok();
    rows.into_iter()
        .filter(is_known)
        .map(|row| {
            let msg_type = chain.registry.namespace().type_url(&row.module, &row.message);
            Ok(row.into_tool(&chain.registry, msg_type)?)
        })
        .collect()
}

impl LedgerRow {
    fn into_tool(
        self,
        registry: &ProtoRegistry,
        msg_type: String,
    ) -> Result<(ToolDefinition, LedgerTool), ProtoRegistryError> {
        let hidden: Vec<&str> = self.accounts.keys().map(String::as_str).collect();
        let mut schema = input_schema(&registry.message_descriptor(&msg_type)?, &hidden);
        let (mut names, mut json_texts, mut numbers) = (BTreeMap::new(), Vec::new(), Vec::new());
        for field in &self.fields {
            let property = &mut schema["properties"][&field.name];
            field.apply_to_schema(property);
            if let Some(kind) = &field.enum_type {
                let values = registry.enum_values(&registry.namespace().full_name(&self.module, kind));
                let numbers: BTreeSet<i32> = values.iter().map(|(_, number)| *number).collect();
                let allowed: Vec<Value> = values
                    .iter()
                    .map(|(name, _)| json!(name))
                    .chain(numbers.iter().map(|number| json!(number)))
                    .collect();
                *property = json!({"enum": allowed, "description": field.description});
                names.insert(field.name.clone(), values.into_iter().collect());
            }
            if property["type"] == json!(["integer", "string"]) {
                numbers.push(field.name.clone());
            }
            if field.rule == FieldRule::JsonObjectText {
                json_texts.push(field.name.clone());
            }
        }
        let mut input = match schema["properties"].take() {
            Value::Object(properties) => properties,
            _ => Map::new(),
        };
        input.insert("dry_run".into(), json!({"type": "boolean", "description": "Only simulates."}));
        input.insert(
            "idempotency_key".into(),
            json!({
                "type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARACTERS,
                "description": "The same key writes once.",
            }),
        );
        input.insert(INCLUDE_EVENTS.into(), json!({"type": "boolean", "description": "Adds raw events."}));
        let definition = ToolDefinition {
            name: self.name,
            title: self.title,
            description: format!("{} Verify with {}.", self.description, self.verified_by),
            input,
            required: self.fields.iter().filter(|field| field.required).map(|field| field.name.clone()).collect(),
            definitions: schema.get("$defs").cloned(),
            output: receipt_schema(&self.returns),
            effect: self.effect,
            listed: ListedArguments::default(),
        };
        Ok((
            definition,
            LedgerTool {
                msg_type,
                accounts: self.accounts,
                needs_grant: self.needs_grant,
                enum_numbers: names,
                json_text_fields: json_texts,
                uint64_fields: numbers,
            },
        ))
    }
}

impl LedgerField {
    fn apply_to_schema(&self, schema: &mut Value) {
        schema["description"] = self.description.as_str().into();
        match self.rule {
            FieldRule::AsDeclared | FieldRule::Named => {}
            FieldRule::Did => schema["pattern"] = DID_PATTERN.into(),
            FieldRule::Language | FieldRule::LanguageShort => {
                schema["minLength"] = 1.into();
                schema["pattern"] = "^[A-Za-z0-9]+(-[A-Za-z0-9]+)*$".into();
                if self.rule == FieldRule::LanguageShort {
                    schema["maxLength"] = MAX_LANGUAGE_BYTES.into();
                }
            }
            FieldRule::HttpUrl => schema["pattern"] = "^https?://[^/\\s]".into(),
            FieldRule::Digest => schema["minLength"] = 1.into(),
            FieldRule::PositiveId => {
                schema["minimum"] = 1.into();
                schema["pattern"] = "^0*[1-9][0-9]{0,19}$".into();
            }
            FieldRule::Version => schema["minimum"] = 1.into(),
            FieldRule::NonEmptyList => schema["minItems"] = 1.into(),
            FieldRule::JsonObjectText => schema["minLength"] = 2.into(),
        }
        for (keyword, bound) in [("minimum", self.minimum), ("maximum", self.maximum)] {
            if let Some(bound) = bound {
                schema[keyword] = bound.into();
            }
        }
        for (keyword, value) in &self.also {
            schema[keyword] = value.clone();
        }
        if let Some(examples) = &self.examples {
            schema["examples"] = examples.as_slice().into();
        }
    }
}

impl LedgerTool {
    /// The fields of the message from validated arguments: without the arguments of the tool itself, and with enum names replaced
    /// by numbers. Fails with the violations that a JSON Schema cannot express.
    pub fn build_message(&self, arguments: &Value) -> Result<Value, Vec<ArgumentViolation>> {
        let mut message = arguments.clone();
        let mut violations = Vec::new();
        if let Some(members) = message.as_object_mut() {
            members.retain(|name, _| !CONTROL_ARGUMENTS.contains(&name.as_str()));
            for (field, numbers) in &self.enum_numbers {
                if let Some(number) = members.get(field).and_then(Value::as_str).and_then(|name| numbers.get(name)) {
                    members.insert(field.clone(), (*number).into());
                }
            }
            for field in &self.uint64_fields {
                let Some(text) = members.get(field).and_then(Value::as_str) else { continue };
                if text.parse::<u64>().is_err() {
                    let reason = format!("{text:?} is more than {}", u64::MAX);
                    violations.push(ArgumentViolation { pointer: format!("/{field}"), reason });
                }
            }
            for field in &self.json_text_fields {
                let Some(text) = members.get(field).and_then(Value::as_str) else { continue };
                let reason = match serde_json::from_str::<Value>(text) {
                    Ok(Value::Object(_)) => continue,
                    Ok(_) => "is JSON, but not an object".to_owned(),
                    Err(error) => format!("is not JSON: {error}"),
                };
                violations.push(ArgumentViolation { pointer: format!("/{field}"), reason });
            }
        }
        if violations.is_empty() { Ok(message) } else { Err(violations) }
    }
}

/// The schema of a receipt, or of the estimate of a dry run.
fn receipt_schema(returns: &BTreeMap<String, String>) -> Value {
    let response: Map<String, Value> =
        returns.iter().map(|(name, words)| (name.clone(), json!({"description": words}))).collect();
    let of = |kind: &str, words: &str| json!({"type": kind, "description": words});
    json!({
        "type": "object",
        "properties": {
            "response": {"type": "object", "properties": response, "description": "Answer of the message, decoded"},
            "indexer_synced": of("boolean", "Whether the indexer has the block; false: included, but reads may not show it yet"),
            "block_height": of("integer", "Height of the block with the transaction"),
            "tx_hash": of("string", "Hash of the transaction, upper-case hex"),
            "fee": {"description": "Fee paid, with its denom; of a dry run: {amount, denom} that would be paid"},
            "fee_payer": of("string", "corporation (fee allowance) or operator"),
            "code": of("integer", "0: success"),
            "gas_used": of("integer", "Gas used, or simulated in a dry run"),
            "gas_wanted": of("integer", "Gas limit"),
            "indexer_height": of("integer", "Height of the indexer"),
            "registry_events": {"type": "array", "items": {"type": "string"},
                                "description": "A line for each event of the registry, e.g. create_ecosystem ecosystem_id=7"},
            "timings_ms": of("object", "Milliseconds of each stage"),
            "raw_log": of("string", "Log of the chain, with include_events; empty after success"),
            "events": of("array", "Raw events of the chain, with include_events"),
            "dry_run": {"const": true, "description": "Present in the answer of a dry run: nothing was signed or sent"},
            "message": of("object", "Message of a dry run, decoded from the bytes that would be signed"),
            "message_digest": of("string", "SHA-256 of those bytes, hex"),
            "policy": of("string", "Confirmation that a real call needs: allow, ask, confirm or deny"),
        },
        "anyOf": [
            {"required": ["tx_hash", "block_height", "code", "indexer_synced", "response"]},
            {"required": ["dry_run", "message", "gas_used", "fee"]}
        ]
    })
}
