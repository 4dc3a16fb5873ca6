//! The tools as data: one table a surface (`data/`), one file of code a surface. What is listed is filtered once, and the same
//! answer holds at dispatch.

mod cosmos;
mod graph;
mod idx;
mod ledger;
mod selection;
mod vsa;
mod wallet;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
};

use jsonschema::{Validator, error::ValidationErrorKind};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use svc_operator::ChainParams;
use svc_wire::{
    envelope::{Code, ErrorEnvelope},
    schema::SchemaError,
    syntax::DID_PATTERN,
};

pub use cosmos::{CosmosTool, Defaults, Query};
pub use graph::{GraphTool, Question};
pub use idx::IdxTool;
pub use ledger::{Account, LedgerTool};
pub use selection::{Pattern, SURFACES, Selection, Verdict};
pub use vsa::VsaTool;
pub use wallet::WalletTool;

/// What a tool does when it is called.
#[derive(Debug)]
pub enum Action {
    /// Sends a message to the chain.
    Ledger(LedgerTool),
    /// Reads the indexer.
    Idx(IdxTool),
    /// Asks the graph.
    Graph(GraphTool),
    /// Asks an agent.
    Vsa(VsaTool),
    /// Reads the chain.
    Cosmos(CosmosTool),
    /// Tells of the server itself.
    Wallet(WalletTool),
}

/// What a call changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Nothing.
    Reads,
    /// Adds something; each call adds another.
    Creates,
    /// Sets something; a second call changes nothing more.
    Sets,
    /// Sets something and loses what was there.
    Replaces,
    /// Ends something, or cannot be taken back.
    Ends,
}

impl Effect {
    fn annotations(self, title: &str) -> ToolAnnotations {
        ToolAnnotations::with_title(title)
            .read_only(self == Self::Reads)
            .destructive(matches!(self, Self::Replaces | Self::Ends))
            .idempotent(matches!(self, Self::Reads | Self::Sets | Self::Replaces))
            .open_world(true)
    }
}

/// One tool, ready to be listed and called.
pub struct Entry {
    /// As it is listed.
    pub tool: Tool,
    /// What it does.
    pub action: Action,
    /// What a call changes.
    pub effect: Effect,
    /// Type URL a ledger tool sends.
    pub msg_type: Option<String>,
    /// Whether this deployment has it, and what must precede a call.
    pub verdict: Verdict,
    validator: Validator,
}

/// All tools of this server, by name.
pub struct Catalog {
    entries: BTreeMap<String, Arc<Entry>>,
    is_partial: bool,
    is_underscored: bool,
}

/// The catalogue does not fit the chain.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// A message is unknown to the chain.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// A table cannot be read.
    #[error("table of {surface}: {reason}")]
    Table {
        /// Surface.
        surface: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// An input schema is not a JSON Schema.
    #[error("input schema of {tool}: {reason}")]
    InputSchema {
        /// Tool.
        tool: String,
        /// What is wrong.
        reason: String,
    },
}

/// What a tool is, apart from its action.
struct Outline {
    name: String,
    title: String,
    description: String,
    /// Properties of the input.
    input: Map<String, Value>,
    required: Vec<String>,
    /// `$defs` of the input.
    definitions: Option<Value>,
    output: Value,
    effect: Effect,
}

/// A row of a table whose schemas are written out.
#[derive(Debug, Clone, Deserialize)]
struct Row {
    name: String,
    title: String,
    description: String,
    input: Map<String, Value>,
    required: Vec<String>,
    output: Value,
}

impl Row {
    fn outline(self, effect: Effect) -> Outline {
        let Self { name, title, description, mut input, required, output } = self;
        for property in input.values_mut() {
            if property["pattern"] == "$did" {
                property["pattern"] = DID_PATTERN.into();
            }
        }
        Outline { name, title, description, input, required, definitions: None, output, effect }
    }
}

/// Reads a table that is part of the program.
fn table<T: DeserializeOwned>(surface: &'static str, text: &str) -> Result<Vec<T>, CatalogError> {
    serde_json::from_str(text).map_err(|error| CatalogError::Table { surface, reason: error.to_string() })
}

/// What a path segment may hold unescaped.
const SEGMENT: &percent_encoding::AsciiSet = &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// Largest height: the largest number that every JSON reader keeps whole.
const MAX_HEIGHT: u64 = (1 << 53) - 1;

/// Names of all tools, from the tables alone.
pub fn tool_names() -> &'static [String] {
    static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let tables = [
            include_str!("data/ledger.json"),
            include_str!("data/idx.json"),
            include_str!("data/graph.json"),
            include_str!("data/vsa.json"),
            include_str!("data/cosmos.json"),
            include_str!("data/wallet.json"),
        ];
        let rows = tables.iter().flat_map(|text| serde_json::from_str::<Vec<Value>>(text).unwrap_or_default());
        let name = |row: Value| match &row["operation"] {
            Value::String(operation) => format!("svc.idx.{operation}"),
            _ => row["name"].as_str().unwrap_or_default().to_owned(),
        };
        rows.map(name).collect()
    });
    &NAMES
}

/// Every toolset there is: the surfaces, and their modules.
pub fn toolsets() -> BTreeSet<String> {
    let modules = tool_names().iter().filter_map(|name| {
        let segments: Vec<&str> = name.split('.').collect();
        (segments.len() == 4).then(|| format!("{}.{}", segments[1], segments[2]))
    });
    SURFACES.into_iter().map(str::to_owned).chain(modules).collect()
}

/// The argument with which a read waits for a block.
fn min_height(reader: &str) -> Value {
    json!({
        "type": "integer", "minimum": 1, "maximum": MAX_HEIGHT,
        "description": format!("Waits until the {reader} has this block."),
    })
}

impl Catalog {
    /// Builds every tool, with the input schemas of the chain's own messages.
    pub fn build(chain: &ChainParams, selection: &Selection) -> Result<Self, CatalogError> {
        let mut tools: Vec<(Outline, Action, Option<String>)> = Vec::new();
        for (outline, tool, msg_type) in ledger::tools(chain)? {
            tools.push((outline, Action::Ledger(tool), Some(msg_type)));
        }
        tools.extend(idx::tools()?.into_iter().map(|(outline, tool)| (outline, Action::Idx(tool), None)));
        tools.extend(graph::tools()?.into_iter().map(|(outline, tool)| (outline, Action::Graph(tool), None)));
        tools.extend(vsa::tools()?.into_iter().map(|(outline, tool)| (outline, Action::Vsa(tool), None)));
        tools.extend(cosmos::tools()?.into_iter().map(|(outline, tool)| (outline, Action::Cosmos(tool), None)));
        tools.extend(wallet::tools()?.into_iter().map(|(outline, tool)| (outline, Action::Wallet(tool), None)));
        let mut entries = BTreeMap::new();
        for (outline, action, msg_type) in tools {
            let entry = Entry::new(outline, action, msg_type, selection)?;
            entries.insert(entry.tool.name.to_string(), Arc::new(entry));
        }
        let is_partial = entries.values().any(|entry| entry.verdict == Verdict::LeftOut);
        Ok(Self { entries, is_partial, is_underscored: selection.is_underscored })
    }

    /// A tool by name. Some hosts write `_` where a name has a dot; no other part of a name has one.
    pub fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        self.entries.get(name).or_else(|| self.entries.get(&name.replace('_', ".")))
    }

    /// A tool as this deployment lists it.
    pub fn listing(&self, entry: &Entry) -> Tool {
        let mut tool = entry.tool.clone();
        if self.is_underscored {
            tool.name = tool.name.replace('.', "_").into();
        }
        tool
    }

    /// A text with the names of tools as this deployment lists them.
    pub fn spelled(&self, text: String) -> String {
        if !self.is_underscored {
            return text;
        }
        let named: BTreeSet<String> = super::prompts::tools_in(&text).map(str::to_owned).collect();
        // The longest first: one name may begin another.
        let mut named: Vec<String> = named.into_iter().filter(|name| self.entries.contains_key(name)).collect();
        named.sort_by_key(|name| std::cmp::Reverse(name.len()));
        named.iter().fold(text, |text, name| text.replace(name.as_str(), &name.replace('.', "_")))
    }

    /// All tools, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.values()
    }

    /// Whether this deployment leaves tools out.
    pub fn is_partial(&self) -> bool {
        self.is_partial
    }
}

impl Entry {
    fn new(
        outline: Outline,
        action: Action,
        msg_type: Option<String>,
        selection: &Selection,
    ) -> Result<Self, CatalogError> {
        let Outline { name, title, description, mut input, required, definitions, output, effect } = outline;
        // The messages of the chain have 64 bits; everybody else's numbers are those of JSON.
        let largest = if msg_type.is_some() { u64::MAX } else { MAX_HEIGHT };
        for property in input.values_mut().filter(|property| is_whole(property) && property.get("maximum").is_none()) {
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
        let verdict = selection.verdict(&name, effect);
        let tool = Tool::new(name, description, Arc::new(object(schema)))
            .with_title(title.clone())
            .with_raw_output_schema(Arc::new(object(output)))
            .with_annotations(effect.annotations(&title));
        Ok(Self { tool, action, effect, msg_type, verdict, validator })
    }

    /// Surface of the tool: the second segment of its name.
    pub fn surface(&self) -> &str {
        self.tool.name.split('.').nth(1).unwrap_or_default()
    }

    /// Checks arguments against the input schema; the error lists every violation.
    pub fn check(&self, arguments: &Value) -> Result<(), ErrorEnvelope> {
        let mut violations: Vec<Violation> = self.validator.iter_errors(arguments).flat_map(violations_of).collect();
        if let Some(properties) = self.tool.input_schema.get("properties").and_then(Value::as_object) {
            let inexact = inexact_numbers(properties, arguments);
            violations.extend(
                inexact
                    .into_iter()
                    .filter(|one| !violations.iter().any(|other| other.pointer == one.pointer))
                    .collect::<Vec<_>>(),
            );
        }
        match &self.action {
            Action::Vsa(tool) => violations.extend(tool.violations(arguments)),
            Action::Idx(tool) => violations.extend(dotted_segments(tool.path_parameters(), arguments)),
            Action::Ledger(_) | Action::Graph(_) | Action::Cosmos(_) | Action::Wallet(_) => {}
        }
        if violations.is_empty() {
            return Ok(());
        }
        Err(invalid(&self.tool.name, &violations))
    }
}

/// An argument that is refused: where, and why.
pub struct Violation {
    /// JSON pointer into the arguments.
    pub pointer: String,
    /// What is wrong, and what is allowed.
    pub reason: String,
}

/// Path parameters that would lead elsewhere: a URL's `.` and `..` are no names, however they are written.
fn dotted_segments<'a>(parameters: impl Iterator<Item = &'a str>, arguments: &Value) -> Vec<Violation> {
    let leads_elsewhere = |name: &&str| matches!(arguments[*name].as_str(), Some("." | ".."));
    let told = |name: &str| Violation { pointer: format!("/{name}"), reason: "is no name".to_owned() };
    parameters.filter(leads_elsewhere).map(told).collect()
}

/// Numbers without a fraction, however they are written: `5.0` is `5`.
pub fn whole_numbers(value: Value) -> Value {
    const EXACT: f64 = MAX_HEIGHT as f64;
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() <= EXACT => Value::from(float as i64),
            _ => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(whole_numbers).collect(),
        Value::Object(members) => members.into_iter().map(|(name, member)| (name, whole_numbers(member))).collect(),
        other => other,
    }
}

/// Whether a property is a whole number, also if it may be written as text or wrapped.
fn is_whole(schema: &Value) -> bool {
    match &schema["type"] {
        Value::String(kind) => kind == "integer",
        Value::Array(kinds) => kinds.iter().any(|kind| kind == "integer"),
        _ => false,
    }
}

/// Whole numbers beyond their maximum, which a reader of JSON has made floating ones: the validator takes 2^64 for the largest
/// number of 64 bits, and so would the message.
fn inexact_numbers(properties: &Map<String, Value>, arguments: &Value) -> Vec<Violation> {
    let is_inexact = |value: &Value| value.is_f64() && value.as_f64().is_some_and(|float| float.fract() == 0.0);
    let mut found = Vec::new();
    for (name, schema) in properties.iter().filter(|(_, schema)| is_whole(schema)) {
        let pointer = below("", name);
        let reason = format!("is greater than the maximum of {}", schema["maximum"]);
        if is_inexact(&arguments[name]) {
            found.push(Violation { pointer, reason });
        } else if is_inexact(&arguments[name]["value"]) {
            found.push(Violation { pointer: below(&pointer, "value"), reason });
        }
    }
    found
}

/// JSON pointer to a member.
fn below(place: &str, name: &str) -> String {
    format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// The error that lists all violations.
pub fn invalid(tool: &str, violations: &[Violation]) -> ErrorEnvelope {
    let told = |violation: &Violation| {
        let place = violation.pointer.trim_start_matches('/');
        format!("{}: {}", if place.is_empty() { "arguments" } else { place }, violation.reason)
    };
    let reasons: Vec<String> = violations.iter().map(told).collect();
    let message = format!("{tool}: {}", reasons.join("; "));
    let details: Vec<Value> =
        violations.iter().map(|one| json!({"pointer": one.pointer, "reason": one.reason})).collect();
    let hint = "correct the arguments named in details.violations and call again; tools/list shows the schema";
    ErrorEnvelope::new(Code::InputInvalid, message, hint).with_details(json!({ "violations": details }))
}

/// Longest reason: a wrong value may be long, and is not told whole.
const MAX_REASON: usize = 300;

/// One violation a missing or unknown argument, each with the pointer it would have.
fn violations_of(error: jsonschema::ValidationError<'_>) -> Vec<Violation> {
    let place = error.instance_path().to_string();
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            vec![Violation { pointer: below(&place, name), reason: "is required".to_owned() }]
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => unexpected
            .iter()
            .map(|name| Violation {
                pointer: below(&place, name),
                reason: "is not an argument of this tool".to_owned(),
            })
            .collect(),
        _ => {
            let mut reason = error.to_string();
            if reason.len() > MAX_REASON {
                reason.truncate(reason.floor_char_boundary(MAX_REASON));
                reason.push('…');
            }
            vec![Violation { pointer: place, reason }]
        }
    }
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(members) => members,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => JsonObject::new(),
    }
}

#[cfg(test)]
mod tests;
