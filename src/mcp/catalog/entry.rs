//! One tool of the catalog: its listing, its action, its policy, and the check of its arguments.

use std::sync::Arc;

use jsonschema::{Validator, error::ValidationErrorKind};
use rmcp::model::{JsonObject, Tool};
use serde_json::{Map, Value, json};
use svc_wire::error_envelope::ErrorEnvelope;

use super::{
    arguments::{ArgumentViolation, dot_segment_violations, invalid_arguments},
    cosmos::CosmosTool,
    definition::{MAX_HEIGHT, ToolDefinition, ToolEffect},
    graph::GraphTool,
    idx::IdxTool,
    ledger::LedgerTool,
    selection::{CallPolicy, ToolSelection},
    table::CatalogError,
    vsa::VsaTool,
    wallet::WalletTool,
};

/// The action of a tool.
#[derive(Debug)]
pub enum ToolAction {
    /// Sends a message to the chain.
    Ledger(LedgerTool),
    /// Reads the indexer.
    Idx(IdxTool),
    /// Queries the graph.
    Graph(GraphTool),
    /// Sends a request to an agent.
    Vsa(VsaTool),
    /// Reads the chain.
    Cosmos(CosmosTool),
    /// Reads the server's own state.
    Wallet(WalletTool),
}

/// One tool, ready to be listed and called.
pub struct CatalogEntry {
    /// The tool with its dotted name.
    pub tool: Tool,
    /// The action of a call.
    pub action: ToolAction,
    /// The effect of a call.
    pub effect: ToolEffect,
    /// Whether this deployment has the tool, and the confirmation that a call needs.
    pub call_policy: CallPolicy,
    validator: Validator,
}

impl CatalogEntry {
    /// Fails when the input schema is not a JSON Schema.
    pub(super) fn new(
        definition: ToolDefinition,
        action: ToolAction,
        selection: &ToolSelection,
    ) -> Result<Self, CatalogError> {
        let ToolDefinition { name, title, description, mut input, required, definitions, output, effect } = definition;
        // Integers of the chain's messages have 64 bits; other integers must be exact in every JSON reader.
        let largest = if matches!(action, ToolAction::Ledger(_)) { u64::MAX } else { MAX_HEIGHT };
        for property in input.values_mut().filter(|property| is_integer(property) && property.get("maximum").is_none())
        {
            property["maximum"] = largest.into();
            if property["properties"]["value"].is_object() {
                property["properties"]["value"]["maximum"] = largest.into();
            }
        }
        let mut schema = json!({"type": "object", "properties": input, "additionalProperties": false});
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        if let Some(definitions) = definitions {
            schema["$defs"] = definitions;
        }
        let validator = jsonschema::draft202012::options()
            .should_validate_formats(true)
            .build(&schema)
            .map_err(|error| CatalogError::InputSchema { tool: name.clone(), reason: error.to_string() })?;
        let call_policy = selection.policy_for(&name, effect);
        let tool = Tool::new(name, description, Arc::new(into_object(schema)))
            .with_title(title.clone())
            .with_raw_output_schema(Arc::new(into_object(output)))
            .with_annotations(effect.tool_annotations(&title));
        Ok(Self { tool, action, effect, call_policy, validator })
    }

    /// Surface of the tool: the second segment of its name.
    pub fn surface(&self) -> &str {
        self.tool.name.split('.').nth(1).unwrap_or_default()
    }

    /// Checks arguments against the input schema. The error lists every violation.
    pub fn check_arguments(&self, arguments: &Value) -> Result<(), ErrorEnvelope> {
        let mut violations: Vec<ArgumentViolation> =
            self.validator.iter_errors(arguments).flat_map(to_violations).collect();
        if let Some(properties) = self.tool.input_schema.get("properties").and_then(Value::as_object) {
            let inexact = inexact_integers(properties, arguments);
            violations.extend(
                inexact
                    .into_iter()
                    .filter(|one| !violations.iter().any(|other| other.pointer == one.pointer))
                    .collect::<Vec<_>>(),
            );
        }
        match &self.action {
            ToolAction::Vsa(tool) => violations.extend(tool.check_arguments(arguments)),
            ToolAction::Idx(tool) => violations.extend(dot_segment_violations(tool.path_parameters(), arguments)),
            ToolAction::Ledger(_) | ToolAction::Graph(_) | ToolAction::Cosmos(_) | ToolAction::Wallet(_) => {}
        }
        if violations.is_empty() {
            return Ok(());
        }
        Err(invalid_arguments(&self.tool.name, &violations))
    }
}

/// Replaces floating-point numbers without a fraction by integers: `5.0` becomes `5`.
pub fn normalize_integers(value: Value) -> Value {
    const EXACT: f64 = MAX_HEIGHT as f64;
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() <= EXACT => Value::from(float as i64),
            _ => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(normalize_integers).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(name, member)| (name, normalize_integers(member))).collect()
        }
        other => other,
    }
}

/// Whether a property is an integer, also one that may be written as text or wrapped in an object.
fn is_integer(schema: &Value) -> bool {
    match &schema["type"] {
        Value::String(kind) => kind == "integer",
        Value::Array(kinds) => kinds.iter().any(|kind| kind == "integer"),
        _ => false,
    }
}

/// Violations of integers above their maximum that the JSON reader has made floating-point numbers. The validator does not find
/// them: it compares 2^64 as equal to the largest integer of 64 bits.
fn inexact_integers(properties: &Map<String, Value>, arguments: &Value) -> Vec<ArgumentViolation> {
    let is_inexact = |value: &Value| value.is_f64() && value.as_f64().is_some_and(|float| float.fract() == 0.0);
    let mut violations = Vec::new();
    for (name, schema) in properties.iter().filter(|(_, schema)| is_integer(schema)) {
        let pointer = child_pointer("", name);
        let reason = format!("is greater than the maximum of {}", schema["maximum"]);
        if is_inexact(&arguments[name]) {
            violations.push(ArgumentViolation { pointer, reason });
        } else if is_inexact(&arguments[name]["value"]) {
            violations.push(ArgumentViolation { pointer: child_pointer(&pointer, "value"), reason });
        }
    }
    violations
}

/// JSON pointer to a member of the value at `parent`.
fn child_pointer(parent: &str, name: &str) -> String {
    format!("{parent}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// Longest reason of a violation. A wrong value may be long, so the reason that quotes it is truncated.
const MAX_REASON_BYTES: usize = 300;

/// The violations of one validation error: one for each missing or unknown argument.
fn to_violations(error: jsonschema::ValidationError<'_>) -> Vec<ArgumentViolation> {
    let parent = error.instance_path().to_string();
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            vec![ArgumentViolation { pointer: child_pointer(&parent, name), reason: "is required".to_owned() }]
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => unexpected
            .iter()
            .map(|name| ArgumentViolation {
                pointer: child_pointer(&parent, name),
                reason: "is not an argument of this tool".to_owned(),
            })
            .collect(),
        _ => {
            let mut reason = error.to_string();
            if reason.len() > MAX_REASON_BYTES {
                reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
                reason.push('…');
            }
            vec![ArgumentViolation { pointer: parent, reason }]
        }
    }
}

fn into_object(value: Value) -> JsonObject {
    match value {
        Value::Object(members) => members,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => JsonObject::new(),
    }
}
