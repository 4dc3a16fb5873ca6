//! The rows of the embedded tables, and the tools that follow from them.

use serde::Deserialize;
use serde_json::{Map, Value};
use svc_wire::{proto_registry::ProtoRegistryError, syntax::DID_PATTERN};

use super::definition::{ListedArguments, ToolDefinition};
use crate::tools::{TableError, ToolEffect};

/// The embedded tables cannot be used with this chain.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// The chain does not have a message of the ledger table.
    #[error(transparent)]
    Schema(#[from] ProtoRegistryError),
    /// The node takes no message of the ledger table. The text is the reason against the first message.
    #[error("the node takes no message of any tool as this release means it: {0}")]
    NothingTaken(String),
    /// A table cannot be read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// An input schema is not a JSON Schema.
    #[error("input schema of {tool}: {reason}")]
    InputSchema {
        /// Name of the tool.
        tool: String,
        /// The problem.
        reason: String,
    },
}

/// A row of a table that contains whole schemas.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ToolRow {
    pub(super) name: String,
    title: String,
    description: String,
    input: Map<String, Value>,
    required: Vec<String>,
    output: Value,
}

impl ToolRow {
    /// The definition of the tool, with the pattern `$did` expanded.
    pub(super) fn into_definition(self, effect: ToolEffect) -> ToolDefinition {
        let Self { name, title, description, mut input, required, output } = self;
        for property in input.values_mut() {
            if property["pattern"] == "$did" {
                property["pattern"] = DID_PATTERN.into();
            }
        }
        ToolDefinition {
            name,
            title,
            description,
            input,
            required,
            definitions: None,
            output,
            effect,
            listed: ListedArguments::default(),
        }
    }
}
