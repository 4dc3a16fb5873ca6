//! One tool of the catalog: its listing, its action, its policy, and the check of its arguments.

use std::sync::Arc;

use jsonschema::{Validator, error::ValidationErrorKind};
use rmcp::model::{JsonObject, Tool};
use serde_json::{Value, json};
use svc_wire::error_envelope::ErrorEnvelope;

use super::{
    arguments::{ArgumentViolation, invalid_arguments},
    cosmos::CosmosTool,
    definition::{MAX_HEIGHT, ToolDefinition, tool_annotations},
    graph::GraphTool,
    idx::IdxTool,
    ledger::LedgerTool,
    listed_schema::{SchemaSide, listed_schema},
    normalization::normalize_arguments,
    selection::{CallPolicy, ToolSelection},
    table::CatalogError,
    vsa::VsaTool,
    wallet::WalletTool,
};
use crate::{principals::ToolFacts, tools::ToolEffect};

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
    /// Calls a reading tool that is not listed.
    UnlistedRead,
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
    /// Whether the tool is left out of the listing and is called through `svc.wallet.readTool`.
    pub is_unlisted: bool,
    /// The schema that dispatch checks. The listed one of the tool is shorter.
    schema: Value,
    validator: Validator,
}

impl CatalogEntry {
    /// Fails when the input schema is not a JSON Schema.
    pub(super) fn new(
        definition: ToolDefinition,
        action: ToolAction,
        selection: &ToolSelection,
    ) -> Result<Self, CatalogError> {
        let ToolDefinition { name, title, description, input, required, definitions, output, effect, listed } =
            definition;
        let mut schema = json!({"type": "object", "properties": input, "additionalProperties": false});
        // Integers of the chain's messages have 64 bits; other integers must be exact in every JSON reader.
        bound_integers(&mut schema, if matches!(action, ToolAction::Ledger(_)) { u64::MAX } else { MAX_HEIGHT });
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
        let is_unlisted = selection.is_unlisted_read(&name, effect) && call_policy != CallPolicy::Excluded;
        let listed_input = into_object(listed.apply(listed_schema(&schema, SchemaSide::Input)));
        let listed_output = into_object(listed_schema(&output, SchemaSide::Output));
        let tool = Tool::new(name, description, Arc::new(listed_input))
            .with_title(title.clone())
            .with_raw_output_schema(Arc::new(listed_output))
            .with_annotations(tool_annotations(effect, &title));
        Ok(Self { tool, action, effect, call_policy, is_unlisted, schema, validator })
    }

    /// Surface of the tool: the second segment of its name.
    pub fn surface(&self) -> &str {
        self.tool.name.split('.').nth(1).unwrap_or_default()
    }

    /// The facts that the rights of a principal are decided by.
    pub fn facts(&self) -> ToolFacts<'_> {
        let msg_type = match &self.action {
            ToolAction::Ledger(tool) => Some(tool.msg_type.as_str()),
            _ => None,
        };
        ToolFacts { name: &self.tool.name, surface: self.surface(), effect: self.effect, msg_type }
    }

    /// The tool as a deployment lists it: with `_` in place of each dot of its name, or with dots.
    pub fn listed_tool(&self, is_underscored: bool) -> Tool {
        let mut tool = self.tool.clone();
        if is_underscored {
            tool.name = tool.name.replace('.', "_").into();
        }
        tool
    }

    /// The schema that dispatch checks.
    pub fn strict_schema(&self) -> &Value {
        &self.schema
    }

    /// Brings arguments into the form that dispatch checks.
    pub fn normalize(&self, arguments: Value) -> Value {
        normalize_arguments(&self.schema, arguments, self.effect)
    }

    /// Checks normal arguments against the strict schema. The error lists every violation.
    pub fn check_arguments(&self, arguments: &Value) -> Result<(), ErrorEnvelope> {
        let mut violations: Vec<ArgumentViolation> =
            self.validator.iter_errors(arguments).flat_map(to_violations).collect();
        let inexact = inexact_integers(&self.schema, arguments, "");
        let is_new = |one: &ArgumentViolation| !violations.iter().any(|other| other.pointer == one.pointer);
        violations.extend(inexact.into_iter().filter(is_new).collect::<Vec<_>>());
        match &self.action {
            ToolAction::Vsa(tool) => violations.extend(tool.check_arguments(arguments)),
            ToolAction::Idx(tool) => violations.extend(tool.check_arguments(arguments)),
            ToolAction::Ledger(_) | ToolAction::Graph(_) | ToolAction::Cosmos(_) => {}
            ToolAction::Wallet(_) | ToolAction::UnlistedRead => {}
        }
        if violations.is_empty() {
            return Ok(());
        }
        Err(invalid_arguments(&self.tool.name, &violations))
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

/// Sets the greatest value of every integer that has none.
fn bound_integers(schema: &mut Value, largest: u64) {
    if is_integer(schema) && schema.get("maximum").is_none() {
        schema["maximum"] = largest.into();
    }
    if let Some(members) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        members.values_mut().for_each(|member| bound_integers(member, largest));
    }
}

/// Violations of integers above their maximum that the JSON reader has made floating-point numbers. The validator does not find
/// them: it compares 2^64 as equal to the largest integer of 64 bits.
fn inexact_integers(schema: &Value, value: &Value, pointer: &str) -> Vec<ArgumentViolation> {
    if is_integer(schema) && value.is_f64() && value.as_f64().is_some_and(|float| float.fract() == 0.0) {
        let reason = format!("is greater than the maximum of {}", schema["maximum"]);
        return vec![ArgumentViolation { pointer: pointer.to_owned(), reason }];
    }
    let members = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let given = members.filter_map(|(name, member)| Some((name, member, value.get(name)?)));
    given.flat_map(|(name, member, value)| inexact_integers(member, value, &child_pointer(pointer, name))).collect()
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
