//! The definition of a tool, before it becomes an entry of the catalog.

use rmcp::model::ToolAnnotations;
use serde_json::{Map, Value, json};

use crate::tools::ToolEffect;

/// The hints of MCP for an effect.
pub(super) fn tool_annotations(effect: ToolEffect, title: &str) -> ToolAnnotations {
    ToolAnnotations::with_title(title)
        .read_only(effect == ToolEffect::Reads)
        .destructive(matches!(effect, ToolEffect::Replaces | ToolEffect::Ends))
        .idempotent(matches!(effect, ToolEffect::Reads | ToolEffect::Sets | ToolEffect::Replaces))
        .open_world(true)
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
    pub(super) listed: ListedArguments,
}

/// The arguments that are listed in another form than the one that dispatch checks.
#[derive(Default)]
pub(super) struct ListedArguments {
    /// Arguments that dispatch takes and the listing leaves out.
    pub(super) hidden: Vec<String>,
    /// Arguments with the schema that is listed.
    pub(super) replaced: Vec<(String, Value)>,
}

impl ListedArguments {
    /// Applies the differences to a listed schema.
    pub(super) fn apply(self, mut schema: Value) -> Value {
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            properties.retain(|name, _| !self.hidden.contains(name));
            for (name, listed) in self.replaced {
                properties.insert(name, listed);
            }
        }
        schema
    }
}

/// Largest height: the largest integer that every JSON reader represents exactly.
pub(super) const MAX_HEIGHT: u64 = (1 << 53) - 1;

/// Schema of the argument with which a read waits for a block.
pub(super) fn min_height_schema() -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": MAX_HEIGHT, "description": "Waits for this block."})
}
