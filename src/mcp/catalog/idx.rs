//! Surface `idx`: a tool per read of the indexer. The texts are in `data/idx.json`; the parameters and answers come from the table
//! of reads, from which the indexer builds its routes.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use svc_wire::{
    indexer_reads::{
        HttpMethod, ParamLocation, ReadEndpoint, ReadParam, ReadParamType, ReadTableError, ResponseLayout,
        SchemaDetail, find_endpoint,
    },
    syntax::{DID_PATTERN, plain_text},
};

use super::{
    arguments::{ArgumentViolation, PATH_SEGMENT, dot_segment_violations},
    definition::{ListedArguments, MAX_HEIGHT, ToolDefinition, min_height_schema},
    table::CatalogError,
};
use crate::tools::{TableError, ToolEffect, read_table};

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

/// Longest text and longest list. Both fit into a URL that every indexer accepts.
const MAX_TEXT_CHARACTERS: usize = 2_048;
const MAX_LIST_ITEMS: usize = 256;

/// Rows of a page when a caller names no limit. The indexer's own default is several times as many.
pub const DEFAULT_ROWS: u64 = 20;
/// Argument with the members of each row that the caller wants.
const FIELDS: &str = "fields";
/// Argument for the indexer's answer as it is.
const RAW: &str = "raw";
/// Argument of the reads that answer for another instant.
const CONTEXT: &str = "context";
/// Argument that has the bounds of figures, which are many and seldom used.
const FIGURES: &str = "figures";
/// Argument for the governance frameworks in the rows of a list, and the value without them.
const FRAMEWORKS: (&str, &str) = ("gf_data", "none");

/// The list in the answers of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListShape {
    /// Member of the answer that has the rows.
    pub rows: &'static str,
    /// Member of a row that pages are bounded by.
    pub key: &'static str,
    /// The way to the next page.
    pub next_page: NextPage,
}

/// The way to the next page of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextPage {
    /// By a bound on the id of the rows.
    ById,
    /// By an argument with the value of a member of the answer.
    ByMember {
        /// The argument.
        argument: &'static str,
        /// The member.
        member: &'static str,
    },
    /// There is none: only a greater limit shows more.
    Unpaged,
}

pub(super) fn tools() -> Result<Vec<(ToolDefinition, IdxTool)>, CatalogError> {
    let texts: Vec<IdxRow> = read_table("idx", include_str!("data/idx.json"))?;
    texts
        .into_iter()
        .map(|text| {
            let found = find_endpoint(&text.operation);
            let missing =
                |error: ReadTableError| CatalogError::Table(TableError { surface: "idx", reason: error.to_string() });
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
    fn path_parameters(self) -> impl Iterator<Item = &'static str> {
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

    fn has_param(self, name: &str) -> bool {
        self.endpoint.params.iter().any(|param| param.name == name)
    }

    /// The list of the answers; `None` for a read of one thing, and for a list without pages.
    pub fn list_shape(self) -> Option<ListShape> {
        if !self.has_param("limit") {
            return None;
        }
        let rows = match (self.endpoint.response.kind, &self.endpoint.response.wrapper) {
            (ResponseLayout::Array, Some(wrapper)) => wrapper.as_str(),
            (ResponseLayout::Flat, None) => self.endpoint.response.fields.iter().find_map(|field| {
                let (rows, _) = field.name.split_once("[].")?;
                Some(rows)
            })?,
            _ => return None,
        };
        let next_page = match self.endpoint.operation.as_str() {
            "indexer.listEvents" => NextPage::ByMember { argument: "cursor", member: "next_cursor" },
            "vt.listIndexedDids" => NextPage::ByMember { argument: "cursor", member: "nextCursor" },
            "vt.listChanges" => NextPage::ByMember { argument: "fromBlock", member: "nextFromBlock" },
            _ if self.has_param("min_id") => NextPage::ById,
            _ => NextPage::Unpaged,
        };
        let is_of_members = self.endpoint.operation == "gr.listCorporationsByMember";
        Some(ListShape { rows, key: if is_of_members { "corporation_id" } else { "id" }, next_page })
    }

    /// Members of a row.
    fn row_members(self) -> Vec<&'static str> {
        let nested = self.endpoint.response.kind == ResponseLayout::Flat;
        let mut members: Vec<&str> = Vec::new();
        for field in &self.endpoint.response.fields {
            let name = match (nested, field.name.split_once("[].")) {
                (true, Some((_, inner))) => inner,
                (true, None) => continue,
                (false, _) => field.name.as_str(),
            };
            let head = name.split('.').next().unwrap_or_default().trim_end_matches("[]");
            if !head.starts_with('<') && !members.contains(&head) {
                members.push(head);
            }
        }
        members
    }

    fn definition(&self, text: &IdxRow) -> ToolDefinition {
        let endpoint = self.endpoint;
        let mut input: Map<String, Value> =
            endpoint.params.iter().map(|param| (param.name.clone(), param_schema(param))).collect();
        let mut listed = ListedArguments::default();
        self.add_figures(&mut input, &mut listed);
        if let Some(context) = input.get_mut(CONTEXT) {
            // Members say more than the text of an object.
            context["properties"] = json!({
                "time": {"type": "string", "description": "RFC 3339 instant asked about."},
                "session_id": {"type": "string", "description": "UUID of a participant session; it goes before time."},
            });
        }
        if self.list_shape().is_some() {
            if let Some(frameworks) = input.get_mut(FRAMEWORKS.0) {
                frameworks["description"] = "Governance framework versions; default none.".into();
            }
            input["limit"]["description"] = format!("Rows; default {DEFAULT_ROWS}.").into();
            let members = self.row_members();
            if !members.is_empty() {
                let description = "Only these row members.";
                let items = json!({"type": "string", "enum": members});
                input.insert(
                    FIELDS.into(),
                    json!({"type": "array", "items": items, "minItems": 1, "maxItems": MAX_LIST_ITEMS, "description": description}),
                );
                let listed_fields = json!({"type": "array", "items": {"type": "string"}, "description": description});
                listed.replaced.push((FIELDS.into(), listed_fields));
            }
            input.insert(RAW.into(), json!({"type": "boolean", "description": "The indexer's answer unchanged."}));
        }
        if endpoint.has_height() {
            let description = "State after this block.";
            input.insert(
                "at_block_height".into(),
                json!({"type": "integer", "minimum": 0, "maximum": MAX_HEIGHT, "description": description}),
            );
        }
        input.insert("min_height".into(), min_height_schema());
        let required = endpoint.params.iter().filter(|param| param.required || param.location == ParamLocation::Path);
        let mut output = endpoint.response_schema(SchemaDetail::Listed);
        if self.list_shape().is_some() {
            let description = "What was left out of the rows, and the arguments that show it. Absent when nothing was.";
            output["properties"]["note"] = json!({"type": "string", "description": description});
        }
        ToolDefinition {
            name: format!("svc.idx.{}", text.operation),
            title: text.title.clone(),
            description: self.described(&text.description),
            input,
            required: required.map(|param| param.name.clone()).collect(),
            definitions: None,
            output,
            effect: ToolEffect::Reads,
            listed,
        }
    }

    /// The description of the tool, with the rules that no single argument can state.
    fn described(&self, text: &str) -> String {
        let rules = self.endpoint.rules.iter().map(|rule| format!(" {}", rule.describe()));
        std::iter::once(text.to_owned()).chain(rules).collect()
    }

    /// Adds the argument for bounds of figures to a list that has them. Dispatch takes each bound as an argument of its own too.
    fn add_figures(&self, input: &mut Map<String, Value>, listed: &mut ListedArguments) {
        let bounds: Vec<&ReadParam> = self.endpoint.params.iter().filter(|param| is_figure_bound(param)).collect();
        if bounds.is_empty() {
            return;
        }
        let description = "Bounds of figures: min_ inclusive, max_ exclusive.";
        let unnamed = |bound: &ReadParam| {
            let mut schema = param_schema(bound);
            schema.as_object_mut().map(|keywords| keywords.shift_remove("description"));
            schema
        };
        let properties: Map<String, Value> = bounds.iter().map(|bound| (bound.name.clone(), unnamed(bound))).collect();
        input.insert(
            FIGURES.into(),
            json!({"type": "object", "properties": properties, "additionalProperties": false, "description": description}),
        );
        listed.hidden = bounds.iter().map(|bound| bound.name.clone()).collect();
    }

    /// Whether the request leaves out governance frameworks, which the indexer would nest into each row.
    pub fn omits_frameworks(self, arguments: &Value) -> bool {
        let of_frameworks = [FRAMEWORKS.0, "active_gf_only", "preferred_language"];
        let is_asked = of_frameworks.iter().any(|name| arguments.get(*name).is_some());
        self.list_shape().is_some()
            && self.has_param(FRAMEWORKS.0)
            && !Self::is_raw(arguments)
            && !is_asked
            && !Self::chosen_fields(arguments).contains(&"versions")
    }

    /// Whether the caller wants the indexer's answer as it is.
    pub fn is_raw(arguments: &Value) -> bool {
        arguments[RAW] == true
    }

    /// Members of each row that the caller has named.
    pub fn chosen_fields(arguments: &Value) -> Vec<&str> {
        arguments[FIELDS].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Violations that the JSON Schema cannot express.
    pub fn check_arguments(self, arguments: &Value) -> Vec<ArgumentViolation> {
        let mut violations = dot_segment_violations(self.path_parameters(), arguments);
        if Self::is_raw(arguments) && arguments.get(FIELDS).is_some() {
            let reason = format!("excludes {RAW}: an unchanged answer has every member");
            violations.push(ArgumentViolation { pointer: format!("/{FIELDS}"), reason });
        }
        let given = |name: &str| match &arguments[name] {
            Value::Null => None,
            Value::Array(items) if items.is_empty() => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        };
        for (name, reason) in self.endpoint.rules.iter().filter_map(|rule| rule.violation(given)) {
            violations.push(ArgumentViolation { pointer: format!("/{name}"), reason });
        }
        for (name, bound) in arguments[FIGURES].as_object().into_iter().flatten() {
            if arguments.get(name).is_some_and(|other| other != bound) {
                let reason = format!("excludes {FIGURES}.{name}, which has another value");
                violations.push(ArgumentViolation { pointer: format!("/{name}"), reason });
            }
        }
        violations
    }

    /// The request for validated arguments.
    pub fn build_request(&self, arguments: &Value) -> IndexerRequest {
        let text = |value: &Value| match value {
            Value::Array(items) => items.iter().map(plain_text).collect::<Vec<_>>().join(","),
            other => plain_text(other),
        };
        let (mut path, mut query, mut body) = (self.endpoint.path.clone(), Vec::new(), Map::new());
        for param in &self.endpoint.params {
            let given = arguments.get(&param.name).or_else(|| arguments[FIGURES].get(&param.name));
            let Some(value) = given.filter(|value| !value.is_null()) else { continue };
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
        if self.list_shape().is_some() && !Self::is_raw(arguments) && arguments.get("limit").is_none() {
            query.push(("limit".to_owned(), DEFAULT_ROWS.to_string()));
        }
        if self.omits_frameworks(arguments) {
            query.push((FRAMEWORKS.0.to_owned(), FRAMEWORKS.1.to_owned()));
        }
        IndexerRequest {
            path,
            query,
            body: (self.endpoint.method == HttpMethod::Post).then_some(Value::Object(body)),
            at_block_height: arguments.get("at_block_height").and_then(Value::as_u64),
        }
    }
}

/// Whether a parameter is a bound of a figure, such as `min_participants`. The bounds of ids lead to the next page.
fn is_figure_bound(param: &ReadParam) -> bool {
    let figure = param.name.strip_prefix("min_").or_else(|| param.name.strip_prefix("max_"));
    figure.is_some_and(|figure| figure != "id")
}

/// Shared arguments in few words: a model reads them in the listing of every tool that has them.
const SHARED_WORDS: [(&str, &str); 9] = [
    ("min_id", "Least id."),
    ("max_id", "Ids below this."),
    ("sort", "Default -id: newest first."),
    ("modified_after", "Changed after this instant."),
    ("preferred_language", "BCP 47 tag of the documents that come first."),
    ("gf_data", "Governance framework versions in the answer."),
    ("trust_data", "Adds the verdict on each DID; full: with credentials."),
    ("cursor", "The page after the one that gave it."),
    ("only_active", "Only active ones."),
];

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
    let shared = SHARED_WORDS.iter().find(|(name, _)| *name == param.name).map(|(_, words)| *words);
    schema["description"] = shared.unwrap_or(param.description.as_str()).into();
    schema
}

#[cfg(test)]
mod tests;
