//! Surface `idx`: one tool a read of the indexer. Texts are in `data/idx.json`; parameters and answers in the table of reads
//! that the indexer itself is made from.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use svc_wire::{
    reads::{Endpoint, Method, Param, ParamType, Place, endpoint},
    syntax::{DID_PATTERN, plain},
};

use super::{CatalogError, Effect, MAX_HEIGHT, Outline, SEGMENT, min_height, table};

/// A read as a tool.
#[derive(Debug, Clone, Copy)]
pub struct IdxTool(&'static Endpoint);

#[derive(Deserialize)]
struct Text {
    operation: String,
    title: String,
    description: String,
}

/// Reads that tell of the indexer, not of the registry: they have no past.
const WITHOUT_HEIGHT: [&str; 5] =
    ["indexer.getBlockHeight", "indexer.getStatus", "indexer.getVersion", "indexer.listEvents", "trqp.getProfile"];

/// Longest text and longest list that fit into a URL any indexer takes.
const MAX_TEXT: usize = 2_048;
const MAX_ITEMS: usize = 256;

pub(super) fn tools() -> Result<Vec<(Outline, IdxTool)>, CatalogError> {
    let texts: Vec<Text> = table("idx", include_str!("data/idx.json"))?;
    texts
        .into_iter()
        .map(|text| {
            let found = endpoint(&text.operation);
            let missing = || CatalogError::Table { surface: "idx", reason: format!("no read {}", text.operation) };
            let tool = IdxTool(found.ok_or_else(missing)?);
            Ok((tool.outline(&text), tool))
        })
        .collect()
}

/// A read ready to be asked.
#[derive(Debug, PartialEq)]
pub struct Asked {
    /// Path with its parameter.
    pub path: String,
    /// Query pairs.
    pub query: Vec<(String, String)>,
    /// Body, where the read takes one.
    pub body: Option<Value>,
    /// `At-Block-Height`.
    pub at_block_height: Option<u64>,
}

impl IdxTool {
    /// Bounded name of the read, for spans.
    pub fn operation(&self) -> &'static str {
        &self.0.operation
    }

    /// Names of the parameters that stand in the path.
    pub fn path_parameters(self) -> impl Iterator<Item = &'static str> {
        self.0.params.iter().filter(|param| param.place == Place::Path).map(|param| param.name.as_str())
    }

    /// Whether it is there only where the indexer answers trust reads.
    pub fn needs_trust(&self) -> bool {
        self.0.needs_trust()
    }

    fn outline(&self, text: &Text) -> Outline {
        let endpoint = self.0;
        let mut input: Map<String, Value> =
            endpoint.params.iter().map(|param| (param.name.clone(), schema(param))).collect();
        if !WITHOUT_HEIGHT.contains(&endpoint.operation.as_str()) {
            let description = "Reads the state after this block instead of the newest.";
            input.insert(
                "at_block_height".into(),
                json!({"type": "integer", "minimum": 0, "maximum": MAX_HEIGHT, "description": description}),
            );
        }
        input.insert("min_height".into(), min_height("indexer"));
        let required = endpoint.params.iter().filter(|param| param.required || param.place == Place::Path);
        Outline {
            name: format!("svc.idx.{}", text.operation),
            title: text.title.clone(),
            description: text.description.clone(),
            input,
            required: required.map(|param| param.name.clone()).collect(),
            definitions: None,
            output: endpoint.response.schema(false),
            effect: Effect::Reads,
        }
    }

    /// The request for validated arguments.
    pub fn ask(&self, arguments: &Value) -> Asked {
        let text = |value: &Value| match value {
            Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
            other => plain(other),
        };
        let (mut path, mut query, mut body) = (self.0.path.clone(), Vec::new(), Map::new());
        for param in &self.0.params {
            let Some(value) = arguments.get(&param.name).filter(|value| !value.is_null()) else { continue };
            match param.place {
                Place::Path => {
                    let encoded = percent_encoding::utf8_percent_encode(&text(value), SEGMENT).to_string();
                    path = path.replace(&format!("{{{}}}", param.name), &encoded);
                }
                Place::Query => query.push((param.name.clone(), text(value))),
                Place::Body => {
                    body.insert(param.name.clone(), value.clone());
                }
            }
        }
        Asked {
            path,
            query,
            body: (self.0.method == Method::Post).then_some(Value::Object(body)),
            at_block_height: arguments.get("at_block_height").and_then(Value::as_u64),
        }
    }
}

/// A parameter as a property of the input.
fn schema(param: &Param) -> Value {
    let id = || json!({"type": ["integer", "string"], "minimum": 1, "pattern": "^0*[1-9][0-9]{0,18}$"});
    let text = || json!({"type": "string", "minLength": 1, "maxLength": MAX_TEXT});
    let list = |items: Value| json!({"type": "array", "items": items, "minItems": 1, "maxItems": MAX_ITEMS});
    let mut schema = match param.kind {
        ParamType::Id => id(),
        ParamType::Uint if param.max.is_some() => json!({"type": "integer", "minimum": param.min.unwrap_or(0)}),
        ParamType::Uint => {
            json!({"type": ["integer", "string"], "minimum": param.min.unwrap_or(0), "pattern": "^[0-9]{1,19}$"})
        }
        ParamType::Digits => json!({"type": ["integer", "string"], "minimum": 0, "pattern": "^[0-9]+$"}),
        ParamType::Flag => json!({"type": "boolean"}),
        ParamType::Enum => json!({"type": "string", "enum": param.allowed}),
        ParamType::Instant => json!({"type": "string", "format": "date-time"}),
        ParamType::Uuid => json!({"type": "string", "format": "uuid"}),
        ParamType::Text if param.name == "did" => {
            json!({"type": "string", "pattern": DID_PATTERN, "maxLength": MAX_TEXT})
        }
        ParamType::Text | ParamType::Cursor => text(),
        ParamType::Texts if !param.allowed.is_empty() => list(json!({"type": "string", "enum": param.allowed})),
        ParamType::Texts | ParamType::Dids => list(text()),
        ParamType::Ids => list(id()),
        ParamType::Selector => json!({"type": ["boolean", "object"]}),
        ParamType::Object => json!({"type": "object"}),
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
        let tool = |operation: &str| IdxTool(endpoint(operation).expect("known"));
        let asked = tool("es.getEcosystem").ask(&json!({"id": "7", "gf_data": "all", "at_block_height": 5}));
        let query = vec![("gf_data".to_owned(), "all".to_owned())];
        let expected = Asked { path: "/v4/ecosystem/get/7".into(), query, body: None, at_block_height: Some(5) };
        assert_eq!(asked, expected);
        let asked = tool("indexer.listEvents").ask(&json!({"dids": ["did:web:a", "did:web:b"], "limit": 3}));
        assert_eq!(asked.query[0].1, "did:web:a,did:web:b");
        let asked = tool("di.getDigest").ask(&json!({"digest": "sha384-a/b+c="}));
        assert!(asked.path.ends_with("/sha384-a%2Fb%2Bc%3D"), "{}", asked.path);
        let asked = tool("vt.resolve").ask(&json!({"did": "did:web:a", "services": true, "min_height": 4}));
        assert_eq!(asked.body, Some(json!({"did": "did:web:a", "services": true})));
    }
}
