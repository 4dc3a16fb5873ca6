//! The definition of a tool, before it becomes an entry of the catalog.

use rmcp::model::ToolAnnotations;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The effect of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolEffect {
    /// Changes nothing.
    Reads,
    /// Adds something; each call adds another.
    Creates,
    /// Sets something; a second call changes nothing more.
    Sets,
    /// Sets something and discards the previous value.
    Replaces,
    /// Ends something, or cannot be undone.
    Ends,
}

impl ToolEffect {
    /// The hints of MCP for the effect.
    pub(super) fn tool_annotations(self, title: &str) -> ToolAnnotations {
        ToolAnnotations::with_title(title)
            .read_only(self == Self::Reads)
            .destructive(matches!(self, Self::Replaces | Self::Ends))
            .idempotent(matches!(self, Self::Reads | Self::Sets | Self::Replaces))
            .open_world(true)
    }
}

/// A tool without its action.
pub(super) struct ToolDefinition {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) description: String,
    /// Properties of the input.
    pub(super) input: Map<String, Value>,
    pub(super) required: Vec<String>,
    /// `$defs` of the input.
    pub(super) definitions: Option<Value>,
    pub(super) output: Value,
    pub(super) effect: ToolEffect,
}

/// Largest height: the largest integer that every JSON reader represents exactly.
pub(super) const MAX_HEIGHT: u64 = (1 << 53) - 1;

/// Schema of the argument with which a read waits for a block.
pub(super) fn min_height_schema(reader: &str) -> Value {
    json!({
        "type": "integer", "minimum": 1, "maximum": MAX_HEIGHT,
        "description": format!("Waits until the {reader} has this block."),
    })
}
