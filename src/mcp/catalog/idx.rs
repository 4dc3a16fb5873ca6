//! Surface `idx`: a tool per read of the indexer. The texts are in `data/idx.json`; the parameters and answers come from the table
//! of reads, from which the indexer builds its routes.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use svc_wire::{
    indexer_reads::{HttpMethod, ParamLocation, ReadEndpoint, ReadParam, ReadParamType, ReadTableError, find_endpoint},
    syntax::{DID_PATTERN, plain_text},
};

use super::{
    arguments::PATH_SEGMENT,
    definition::{MAX_HEIGHT, ToolDefinition, ToolEffect, min_height_schema},
    table::{CatalogError, read_table},
};

/// A read as a tool.
#[derive(Debug, Clone, Copy)]
pub struct IdxTool {
    endpoint: &'static ReadEndpoint,
}

#[derive(Deserialize)]
struct IdxRow {
    operation: String,
    title: String,
    description: String,
}

/// Reads about the indexer itself. They have no state at a past height.
const OPERATIONS_WITHOUT_HEIGHT: [&str; 5] =
    ["indexer.getBlockHeight", "indexer.getStatus", "indexer.getVersion", "indexer.listEvents", "trqp.getProfile"];

/// Longest text and longest list. Both fit into a URL that every indexer accepts.
const MAX_TEXT_CHARACTERS: usize = 2_048;
const MAX_LIST_ITEMS: usize = 256;

pub(super) fn tools() -> Result<Vec<(ToolDefinition, IdxTool)>, CatalogError> {
    let texts: Vec<IdxRow> = read_table("idx", include_str!("data/idx.json"))?;
    texts
        .into_iter()
        .map(|text| {
            let found = find_endpoint(&text.operation);
            let missing = |error: ReadTableError| CatalogError::Table { surface: "idx", reason: error.to_string() };
            let tool = IdxTool { endpoint: found.map_err(missing)? };
            Ok((tool.definition(&text), tool))
        })
        .collect()
}

/// The HTTP request of a read.
#[derive(Debug, PartialEq)]
pub struct IndexerRequest {
    /// Path with its parameters filled in.
    pub path: String,
    /// Query pairs.
    pub query: Vec<(String, String)>,
    /// Body of a POST request.
    pub body: Option<Value>,
    /// Value of the header `At-Block-Height`.
    pub at_block_height: Option<u64>,
}

impl IdxTool {
    /// Name of the read, from a bounded set: it is an attribute of spans.
    pub fn operation(&self) -> &'static str {
        &self.endpoint.operation
    }

    /// Names of the path parameters.
    pub fn path_parameters(self) -> impl Iterator<Item = &'static str> {
        self.endpoint
            .params
            .iter()
            .filter(|param| param.location == ParamLocation::Path)
            .map(|param| param.name.as_str())
    }

    /// Whether only an indexer that evaluates trust has the read.
    pub fn needs_trust(&self) -> bool {
        self.endpoint.needs_trust()
    }

    fn definition(&self, text: &IdxRow) -> ToolDefinition {
        let endpoint = self.endpoint;
        let mut input: Map<String, Value> =
            endpoint.params.iter().map(|param| (param.name.clone(), param_schema(param))).collect();
        if !OPERATIONS_WITHOUT_HEIGHT.contains(&endpoint.operation.as_str()) {
            let description = "Reads the state after this block instead of the newest.";
            input.insert(
                "at_block_height".into(),
                json!({"type": "integer", "minimum": 0, "maximum": MAX_HEIGHT, "description": description}),
            );
        }
        input.insert("min_height".into(), min_height_schema("indexer"));
        let required = endpoint.params.iter().filter(|param| param.required || param.location == ParamLocation::Path);
        ToolDefinition {
            name: format!("svc.idx.{}", text.operation),
            title: text.title.clone(),
            description: text.description.clone(),
            input,
            required: required.map(|param| param.name.clone()).collect(),
            definitions: None,
            output: endpoint.response.json_schema(false),
            effect: ToolEffect::Reads,
        }
    }

    /// The request for validated arguments.
    pub fn build_request(&self, arguments: &Value) -> IndexerRequest {
        let text = |value: &Value| match value {
            Value::Array(items) => items.iter().map(plain_text).collect::<Vec<_>>().join(","),
            other => plain_text(other),
        };
        let (mut path, mut query, mut body) = (self.endpoint.path.clone(), Vec::new(), Map::new());
        for param in &self.endpoint.params {
            let Some(value) = arguments.get(&param.name).filter(|value| !value.is_null()) else { continue };
            match param.location {
                ParamLocation::Path => {
                    let encoded = percent_encoding::utf8_percent_encode(&text(value), PATH_SEGMENT).to_string();
                    path = path.replace(&format!("{{{}}}", param.name), &encoded);
                }
                ParamLocation::Query => query.push((param.name.clone(), text(value))),
                ParamLocation::Body => {
                    body.insert(param.name.clone(), value.clone());
                }
            }
        }
        IndexerRequest {
            path,
            query,
            body: (self.endpoint.method == HttpMethod::Post).then_some(Value::Object(body)),
            at_block_height: arguments.get("at_block_height").and_then(Value::as_u64),
        }
    }
}

/// The schema of a parameter, as a property of the input.
fn param_schema(param: &ReadParam) -> Value {
    let id = || json!({"type": ["integer", "string"], "minimum": 1, "pattern": "^0*[1-9][0-9]{0,18}$"});
    let text = || json!({"type": "string", "minLength": 1, "maxLength": MAX_TEXT_CHARACTERS});
    let list = |items: Value| json!({"type": "array", "items": items, "minItems": 1, "maxItems": MAX_LIST_ITEMS});
    let mut schema = match param.param_type {
        ReadParamType::Id => id(),
        ReadParamType::Uint if param.max.is_some() => json!({"type": "integer", "minimum": param.min.unwrap_or(0)}),
        ReadParamType::Uint => {
            json!({"type": ["integer", "string"], "minimum": param.min.unwrap_or(0), "pattern": "^[0-9]{1,19}$"})
        }
        ReadParamType::Digits => json!({"type": ["integer", "string"], "minimum": 0, "pattern": "^[0-9]+$"}),
        ReadParamType::Flag => json!({"type": "boolean"}),
        ReadParamType::Enum => json!({"type": "string", "enum": param.allowed}),
        ReadParamType::Instant => json!({"type": "string", "format": "date-time"}),
        ReadParamType::Uuid => json!({"type": "string", "format": "uuid"}),
        ReadParamType::Text if param.name == "did" => {
            json!({"type": "string", "pattern": DID_PATTERN, "maxLength": MAX_TEXT_CHARACTERS})
        }
        ReadParamType::Text | ReadParamType::Cursor => text(),
        ReadParamType::Texts if !param.allowed.is_empty() => list(json!({"type": "string", "enum": param.allowed})),
        ReadParamType::Texts | ReadParamType::Dids => list(text()),
        ReadParamType::Ids => list(id()),
        ReadParamType::Selector => json!({"type": ["boolean", "object"]}),
        ReadParamType::Object => json!({"type": "object"}),
    };
    if let Some(max) = param.max {
        let limit = if schema["type"] == "array" { "maxItems" } else { "maximum" };
        schema[limit] = max.into();
    }
    schema["description"] = param.description.as_str().into();
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_become_path_query_body_and_header() {
        let tool = |operation: &str| IdxTool { endpoint: find_endpoint(operation).expect("known") };
        let request =
            tool("es.getEcosystem").build_request(&json!({"id": "7", "gf_data": "all", "at_block_height": 5}));
        let query = vec![("gf_data".to_owned(), "all".to_owned())];
        let expected =
            IndexerRequest { path: "/v4/ecosystem/get/7".into(), query, body: None, at_block_height: Some(5) };
        assert_eq!(request, expected);
        let request =
            tool("indexer.listEvents").build_request(&json!({"dids": ["did:web:a", "did:web:b"], "limit": 3}));
        assert_eq!(request.query[0].1, "did:web:a,did:web:b");
        let request = tool("di.getDigest").build_request(&json!({"digest": "sha384-a/b+c="}));
        assert!(request.path.ends_with("/sha384-a%2Fb%2Bc%3D"), "{}", request.path);
        let request = tool("vt.resolve").build_request(&json!({"did": "did:web:a", "services": true, "min_height": 4}));
        assert_eq!(request.body, Some(json!({"did": "did:web:a", "services": true})));
    }
}
