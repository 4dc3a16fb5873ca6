//! The tools as data: one file a surface. What is listed is filtered once, and the same answer holds at dispatch.

mod cosmos;
mod idx;
mod ledger;
mod wallet;

use std::{collections::BTreeMap, sync::Arc};

use jsonschema::Validator;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};
use svc_operator::ChainParams;
use svc_wire::{
    envelope::{Code, ErrorEnvelope},
    schema::SchemaError,
};

pub use idx::IdxTool;
pub use ledger::{Account, LedgerTool};
pub use wallet::WalletTool;

/// What a tool does when it is called.
#[derive(Debug, Clone, Copy)]
pub enum Action {
    /// Sends a message to the chain.
    Ledger(&'static LedgerTool),
    /// Reads the indexer.
    Idx(&'static IdxTool),
    /// Reads the chain: a transaction by hash.
    GetTx,
    /// Tells of the server itself.
    Wallet(WalletTool),
}

/// Truthful hints of a tool.
#[derive(Debug, Clone, Copy)]
pub struct Hints {
    /// Changes nothing.
    pub read_only: bool,
    /// May undo or end something.
    pub destructive: bool,
    /// Calling it again with the same arguments changes nothing more.
    pub idempotent: bool,
}

impl Hints {
    /// Of every read.
    pub const READ: Self = Self { read_only: true, destructive: false, idempotent: true };
}

/// One tool, ready to be listed and called.
pub struct Entry {
    /// As it is listed.
    pub tool: Tool,
    /// What it does.
    pub action: Action,
    /// Type URL a ledger tool sends.
    pub msg_type: Option<String>,
    validator: Validator,
}

/// All tools of this server, by name.
pub struct Catalog(BTreeMap<&'static str, Arc<Entry>>);

/// The catalogue does not fit the chain.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// A message is unknown to the chain.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// An input schema is not a JSON Schema.
    #[error("input schema of {tool}: {reason}")]
    InputSchema {
        /// Tool.
        tool: &'static str,
        /// What is wrong.
        reason: String,
    },
}

/// What a tool is, apart from its action.
struct Outline {
    name: &'static str,
    title: &'static str,
    description: String,
    input: Value,
    output: Value,
    hints: Hints,
}

impl Catalog {
    /// Builds every tool, with the input schemas of the chain's own messages.
    pub fn build(chain: &ChainParams) -> Result<Self, CatalogError> {
        let mut entries = BTreeMap::new();
        let mut add = |outline: Outline, action: Action, msg_type: Option<String>| {
            let entry = Entry::new(outline, action, msg_type)?;
            entries.insert(entry.0, Arc::new(entry.1));
            Ok::<(), CatalogError>(())
        };
        for tool in ledger::TOOLS {
            let msg_type = chain.registry.namespace().type_url(tool.module, tool.message);
            add(tool.outline(&chain.registry, &msg_type)?, Action::Ledger(tool), Some(msg_type))?;
        }
        for tool in idx::TOOLS {
            add(tool.outline(), Action::Idx(tool), None)?;
        }
        add(cosmos::get_tx(), Action::GetTx, None)?;
        for tool in WalletTool::ALL {
            add(tool.outline(), Action::Wallet(tool), None)?;
        }
        Ok(Self(entries))
    }

    /// A tool by name.
    pub fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        self.0.get(name)
    }

    /// All tools, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.0.values()
    }
}

impl Entry {
    fn new(outline: Outline, action: Action, msg_type: Option<String>) -> Result<(&'static str, Self), CatalogError> {
        let name = outline.name;
        let broken = |reason: String| CatalogError::InputSchema { tool: name, reason };
        let validator = jsonschema::options()
            .should_validate_formats(true)
            .build(&outline.input)
            .map_err(|error| broken(error.to_string()))?;
        let annotations = ToolAnnotations::with_title(outline.title)
            .read_only(outline.hints.read_only)
            .destructive(outline.hints.destructive)
            .idempotent(outline.hints.idempotent)
            .open_world(true);
        let tool = Tool::new(name, outline.description, Arc::new(object(outline.input)))
            .with_title(outline.title)
            .with_raw_output_schema(Arc::new(object(outline.output)))
            .with_annotations(annotations);
        Ok((name, Self { tool, action, msg_type, validator }))
    }

    /// Surface of the tool: the second segment of its name.
    pub fn surface(&self) -> &str {
        self.tool.name.split('.').nth(1).unwrap_or_default()
    }

    /// Checks arguments against the input schema; the error lists every violation.
    pub fn check(&self, arguments: &Value) -> Result<(), ErrorEnvelope> {
        let violations: Vec<Value> = self
            .validator
            .iter_errors(arguments)
            .map(|error| json!({"pointer": error.instance_path().to_string(), "reason": error.to_string()}))
            .collect();
        let told = |violation: &Value| {
            let (pointer, reason) = (violation["pointer"].as_str().unwrap_or_default(), violation["reason"].as_str());
            let place = pointer.trim_start_matches('/');
            format!("{}: {}", if place.is_empty() { "arguments" } else { place }, reason.unwrap_or_default())
        };
        if violations.is_empty() {
            return Ok(());
        }
        let reasons: Vec<String> = violations.iter().map(told).collect();
        let message = format!("{}: {}", self.tool.name, reasons.join("; "));
        let hint = "correct the arguments named in details.violations and call again; tools/list shows the schema";
        Err(ErrorEnvelope::new(Code::InputInvalid, message, hint).with_details(json!({ "violations": violations })))
    }
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(members) => members,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => JsonObject::new(),
    }
}

#[cfg(test)]
mod tests {
    use svc_wire::schema::{Namespace, Registry};

    use super::*;

    fn catalog() -> Catalog {
        let registry = Registry::compiled(&Namespace::compiled()).expect("compiled descriptors load");
        let chain = ChainParams {
            chain_id: "c".into(),
            denom: "usvc".into(),
            prefix: "svc".into(),
            registry: Arc::new(registry),
            gas_price_micros: 1,
        };
        Catalog::build(&chain).expect("builds")
    }

    #[test]
    fn every_tool_is_complete_and_named_as_the_contract_says() {
        for entry in catalog().iter() {
            let tool = &entry.tool;
            let segments = tool.name.split('.').count();
            assert_eq!(segments, if entry.surface() == "wallet" { 3 } else { 4 }, "{}", tool.name);
            assert!(tool.title.is_some() && tool.output_schema.is_some(), "{}", tool.name);
            assert!(tool.description.as_ref().is_some_and(|text| text.len() > 40), "{}", tool.name);
            let hints = tool.annotations.as_ref().expect("annotations");
            assert_eq!(hints.read_only_hint, Some(entry.surface() != "ledger"), "{}", tool.name);
            let properties =
                tool.input_schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
            for (name, schema) in properties {
                assert!(schema["description"].is_string(), "{}: {name} has no description", tool.name);
            }
            assert_eq!(tool.input_schema["additionalProperties"], false, "{}", tool.name);
        }
    }

    #[test]
    fn ledger_tools_hide_the_accounts_the_server_fills_in() {
        let catalog = catalog();
        for entry in catalog.iter().filter(|entry| entry.surface() == "ledger") {
            for hidden in ["corporation", "operator", "authority", "signer"] {
                assert!(entry.tool.input_schema["properties"].get(hidden).is_none(), "{}: {hidden}", entry.tool.name);
            }
        }
    }

    #[test]
    fn every_violation_is_listed_with_its_place() {
        let catalog = catalog();
        let entry = catalog.get("svc.ledger.es.createEcosystem").expect("listed");
        let error = entry.check(&json!({"did": "web:x", "language": 1, "color": "red"})).expect_err("refused");
        let violations = error.details["violations"].as_array().expect("violations");
        let pointers: Vec<_> =
            violations.iter().map(|violation| violation["pointer"].as_str().expect("text")).collect();
        assert!(pointers.contains(&"/did") && pointers.contains(&"/language"), "{pointers:?}");
        assert!(error.message.contains("color") && error.message.contains("doc_url"), "{}", error.message);
    }

    /// What clients see; a change of a name or a schema shows here, and needs a line in the changelog.
    #[test]
    fn the_listing_is_the_recorded_one() {
        let listing: Vec<Value> = catalog()
            .iter()
            .map(|entry| json!({"name": entry.tool.name, "input": &*entry.tool.input_schema}))
            .collect();
        let text = serde_json::to_string_pretty(&listing).expect("serialises") + "\n";
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tools.json");
        if std::env::var_os("SVC_RECORD").is_some() {
            std::fs::write(path, &text).expect("recorded");
        }
        let recorded = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            recorded == text,
            "the listing differs from tests/fixtures/tools.json; run with SVC_RECORD=1 and look at the change"
        );
    }
}
