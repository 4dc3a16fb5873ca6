//! Surface `graph`: one tool a traversal, one tool a searchable surface.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{CatalogError, Effect, Outline, Row, min_height, table};

/// A question to the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// Traversal `A1` to `G1`.
    Traverse(String),
    /// Search of a surface.
    Search(String),
}

/// A question as a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphTool(pub Question);

#[derive(Deserialize)]
struct GraphRow {
    #[serde(flatten)]
    row: Row,
    query: Option<String>,
    surface: Option<String>,
}

/// Arguments that are not input of the question itself.
const BESIDE: [&str; 3] = ["limit", "cursor", "min_height"];

pub(super) fn tools() -> Result<Vec<(Outline, GraphTool)>, CatalogError> {
    let rows: Vec<GraphRow> = table("graph", include_str!("data/graph.json"))?;
    rows.into_iter()
        .map(|GraphRow { row, query, surface }| {
            let question = match (query, surface) {
                (Some(query), None) => Question::Traverse(query),
                (None, Some(surface)) => Question::Search(surface),
                _ => {
                    let reason = format!("{} has not exactly one of query and surface", row.name);
                    return Err(CatalogError::Table { surface: "graph", reason });
                }
            };
            let mut outline = row.outline(Effect::Reads);
            outline.input.insert("min_height".into(), min_height("graph"));
            Ok((outline, GraphTool(question)))
        })
        .collect()
}

impl GraphTool {
    /// Input of a traversal, and its page.
    pub fn input(arguments: &Value) -> (Value, Value) {
        let members = arguments.as_object().cloned().unwrap_or_default();
        let (page, input): (Map<String, Value>, Map<String, Value>) =
            members.into_iter().partition(|(name, _)| BESIDE.contains(&name.as_str()));
        (Value::Object(input), Value::Object(page))
    }

    /// Body of a search.
    pub fn search(surface: &str, arguments: &Value) -> Value {
        let mut body = arguments.clone();
        if let Some(members) = body.as_object_mut() {
            members.remove("min_height");
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
    fn arguments_become_the_question() {
        let (input, page) = GraphTool::input(&json!({"did": "did:web:a", "limit": 5, "min_height": 7}));
        assert_eq!((input, page), (json!({"did": "did:web:a"}), json!({"limit": 5, "min_height": 7})));
        let body = GraphTool::search("Did", &json!({"freeText": "bank", "min_height": 7}));
        assert_eq!(body, json!({"surface": "Did", "freeText": "bank", "filters": {}}));
    }
}
