//! Surface `graph`: a tool per traversal, and a tool per searchable surface.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    definition::{ToolDefinition, min_height_schema},
    table::{CatalogError, ToolRow},
};
use crate::tools::{TableError, ToolEffect, read_table};

/// A query of the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GraphQuery {
    /// Traversal `A1` to `G1`.
    Traversal(String),
    /// Search of a surface of the graph.
    SurfaceSearch(String),
}

/// A query as a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphTool {
    /// The query.
    pub query: GraphQuery,
}

#[derive(Deserialize)]
struct GraphRow {
    #[serde(flatten)]
    row: ToolRow,
    query: Option<String>,
    surface: Option<String>,
}

/// Arguments that are not input of the query.
const CONTROL_ARGUMENTS: [&str; 3] = ["limit", "cursor", "min_height"];

pub(super) fn tools() -> Result<Vec<(ToolDefinition, GraphTool)>, CatalogError> {
    let rows: Vec<GraphRow> = read_table("graph", include_str!("data/graph.json"))?;
    rows.into_iter()
        .map(|GraphRow { row, query, surface }| {
            let query = match (query, surface) {
                (Some(query), None) => GraphQuery::Traversal(query),
                (None, Some(surface)) => GraphQuery::SurfaceSearch(surface),
                _ => {
                    let reason = format!("{} has not exactly one of query and surface", row.name);
                    return Err(CatalogError::Table(TableError { surface: "graph", reason }));
                }
            };
            let mut definition = row.into_definition(ToolEffect::Reads);
            definition.input.insert("min_height".into(), min_height_schema());
            Ok((definition, GraphTool { query }))
        })
        .collect()
}

impl GraphTool {
    /// The input of a traversal and the arguments of its page, each a JSON object.
    pub fn traversal_input(arguments: &Value) -> (Value, Value) {
        let members = arguments.as_object().cloned().unwrap_or_default();
        let (page, input): (Map<String, Value>, Map<String, Value>) =
            members.into_iter().partition(|(name, _)| CONTROL_ARGUMENTS.contains(&name.as_str()));
        (Value::Object(input), Value::Object(page))
    }

    /// The JSON body of a search.
    pub fn search_body(surface: &str, arguments: &Value) -> Value {
        let mut body = arguments.clone();
        if let Some(members) = body.as_object_mut() {
            members.shift_remove("min_height");
            members.insert("surface".into(), surface.into());
            members.entry("filters").or_insert_with(|| json!({}));
        }
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_become_the_query() {
        let (input, page) = GraphTool::traversal_input(&json!({"did": "did:web:a", "limit": 5, "min_height": 7}));
        assert_eq!((input, page), (json!({"did": "did:web:a"}), json!({"limit": 5, "min_height": 7})));
        let body = GraphTool::search_body("Did", &json!({"freeText": "bank", "min_height": 7}));
        assert_eq!(body, json!({"surface": "Did", "freeText": "bank", "filters": {}}));
    }
}
