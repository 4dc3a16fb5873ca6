//! Surface `ledger`: one tool a message. Texts and rules are in `data/ledger.json`; types come from the chain's descriptors.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use svc_operator::{ChainParams, MAX_KEY_CHARACTERS};
use svc_wire::{
    schema::{Registry, SchemaError, input_schema},
    syntax::{DID_PATTERN, DIGEST_SRI_PATTERN, MAX_LANGUAGE_BYTES},
};

use super::{CatalogError, Effect, Outline, Violation, table};

/// An account the server fills in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Account {
    /// The corporation's policy address.
    Corporation,
    /// The operator's own address.
    Operator,
}

/// A message as a tool.
#[derive(Debug)]
pub struct LedgerTool {
    /// Accounts the server fills in, by field.
    pub accounts: BTreeMap<String, Account>,
    /// Whether an authorization of the corporation is needed.
    pub needs_grant: bool,
    /// Numbers of the names a field accepts.
    names: BTreeMap<String, BTreeMap<String, i32>>,
    /// Fields that hold JSON as text.
    json_texts: Vec<String>,
    /// Fields of 64 bits, which may be written as text.
    numbers: Vec<String>,
}

#[derive(Deserialize)]
struct LedgerRow {
    name: String,
    title: String,
    description: String,
    module: String,
    message: String,
    accounts: BTreeMap<String, Account>,
    needs_grant: bool,
    effect: Effect,
    fields: Vec<Field>,
    verified_by: String,
    returns: Vec<String>,
}

/// A field as a model must understand it.
#[derive(Deserialize)]
struct Field {
    name: String,
    required: bool,
    rule: Rule,
    description: String,
    #[serde(rename = "enum")]
    names: Option<String>,
    minimum: Option<u64>,
    maximum: Option<u64>,
    examples: Option<Vec<Value>>,
    /// Keywords of JSON Schema besides.
    #[serde(default)]
    also: Map<String, Value>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Rule {
    AsDeclared,
    Did,
    LanguageShort,
    Language,
    HttpUrl,
    DigestSri,
    PositiveId,
    Version,
    NonEmptyList,
    JsonObjectText,
    Named,
}

/// The denom the table's examples are written in.
const EXAMPLE_DENOM: &str = "usvc";

pub(super) fn tools(chain: &ChainParams) -> Result<Vec<(Outline, LedgerTool, String)>, CatalogError> {
    let text = include_str!("data/ledger.json").replace(EXAMPLE_DENOM, &chain.denom);
    let rows: Vec<LedgerRow> = table("ledger", &text)?;
    rows.into_iter()
        .map(|row| {
            let msg_type = chain.registry.namespace().type_url(&row.module, &row.message);
            let (outline, tool) = row.build(&chain.registry, &msg_type)?;
            Ok((outline, tool, msg_type))
        })
        .collect()
}

impl LedgerRow {
    fn build(self, registry: &Registry, msg_type: &str) -> Result<(Outline, LedgerTool), SchemaError> {
        let hidden: Vec<&str> = self.accounts.keys().map(String::as_str).collect();
        let mut schema = input_schema(&registry.message(msg_type)?, &hidden);
        let (mut names, mut json_texts, mut numbers) = (BTreeMap::new(), Vec::new(), Vec::new());
        for field in &self.fields {
            let property = &mut schema["properties"][&field.name];
            field.apply(property);
            if let Some(kind) = &field.names {
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
            if field.rule == Rule::JsonObjectText {
                json_texts.push(field.name.clone());
            }
        }
        let mut input = match schema["properties"].take() {
            Value::Object(properties) => properties,
            _ => Map::new(),
        };
        input.insert(
            "dry_run".into(),
            json!({"type": "boolean", "description": "true: simulates, shows message, gas and fee; signs and sends nothing."}),
        );
        input.insert(
            "idempotency_key".into(),
            json!({
                "type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARACTERS,
                "description": "Any text of your choice: the same write under the same key happens once, and is answered alike.",
            }),
        );
        let outline = Outline {
            name: self.name,
            title: self.title,
            description: format!("{} Verify with {}.", self.description, self.verified_by),
            input,
            required: self.fields.iter().filter(|field| field.required).map(|field| field.name.clone()).collect(),
            definitions: schema.get("$defs").cloned(),
            output: receipt_schema(&self.returns),
            effect: self.effect,
        };
        Ok((outline, LedgerTool { accounts: self.accounts, needs_grant: self.needs_grant, names, json_texts, numbers }))
    }
}

impl Field {
    fn apply(&self, schema: &mut Value) {
        schema["description"] = self.description.as_str().into();
        match self.rule {
            Rule::AsDeclared | Rule::Named => {}
            Rule::Did => schema["pattern"] = DID_PATTERN.into(),
            Rule::Language | Rule::LanguageShort => {
                schema["minLength"] = 1.into();
                schema["pattern"] = "^[A-Za-z0-9]+(-[A-Za-z0-9]+)*$".into();
                if self.rule == Rule::LanguageShort {
                    schema["maxLength"] = MAX_LANGUAGE_BYTES.into();
                }
            }
            Rule::HttpUrl => schema["pattern"] = "^https?://[^/\\s]".into(),
            Rule::DigestSri => schema["pattern"] = DIGEST_SRI_PATTERN.into(),
            Rule::PositiveId => {
                schema["minimum"] = 1.into();
                schema["pattern"] = "^0*[1-9][0-9]{0,19}$".into();
            }
            Rule::Version => schema["minimum"] = 1.into(),
            Rule::NonEmptyList => schema["minItems"] = 1.into(),
            Rule::JsonObjectText => schema["minLength"] = 2.into(),
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
    /// The message's fields from validated arguments: what only the tool knows is left out, names become numbers.
    pub fn message(&self, arguments: &Value) -> Result<Value, Vec<Violation>> {
        let mut message = arguments.clone();
        let mut violations = Vec::new();
        if let Some(members) = message.as_object_mut() {
            members.remove("dry_run");
            members.remove("idempotency_key");
            for (field, numbers) in &self.names {
                if let Some(number) = members.get(field).and_then(Value::as_str).and_then(|name| numbers.get(name)) {
                    members.insert(field.clone(), (*number).into());
                }
            }
            for field in &self.numbers {
                let Some(text) = members.get(field).and_then(Value::as_str) else { continue };
                if text.parse::<u64>().is_err() {
                    let reason = format!("{text:?} is more than {}", u64::MAX);
                    violations.push(Violation { pointer: format!("/{field}"), reason });
                }
            }
            for field in &self.json_texts {
                let Some(text) = members.get(field).and_then(Value::as_str) else { continue };
                let reason = match serde_json::from_str::<Value>(text) {
                    Ok(Value::Object(_)) => continue,
                    Ok(_) => "is JSON, but not an object".to_owned(),
                    Err(error) => format!("is not JSON: {error}"),
                };
                violations.push(Violation { pointer: format!("/{field}"), reason });
            }
        }
        if violations.is_empty() { Ok(message) } else { Err(violations) }
    }
}

fn receipt_schema(returns: &[String]) -> Value {
    let response: Map<String, Value> = returns.iter().map(|name| (name.clone(), json!({}))).collect();
    json!({
        "type": "object",
        "properties": {
            "tx_hash": {"type": "string"},
            "block_height": {"type": "integer"},
            "code": {"type": "integer"},
            "gas_used": {"type": "integer"},
            "gas_wanted": {"type": "integer"},
            "raw_log": {"type": "string"},
            "events": {"type": "array"},
            "indexer_synced": {"type": "boolean", "description": "false: included, but reads may not show it yet."},
            "indexer_height": {"type": "integer"},
            "response": {"type": "object", "properties": response},
            "fee_payer": {"type": "string"},
            "timings_ms": {"type": "object"},
            "dry_run": {"const": true},
            "message": {"type": "object"},
            "message_digest": {"type": "string"},
            "fee": {"type": "object"},
            "policy": {"type": "string"}
        },
        "anyOf": [
            {"required": ["tx_hash", "block_height", "code", "indexer_synced", "response"]},
            {"required": ["dry_run", "message", "gas_used", "fee"]}
        ]
    })
}
