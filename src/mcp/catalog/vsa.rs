//! Surface `vsa`: requests to the admin APIs of the corporation's agents.

use http::Method;
use percent_encoding::utf8_percent_encode;
use serde::Deserialize;
use serde_json::{Map, Value};
use svc_operator::AgentRequest;
use svc_wire::syntax::plain_text;

use super::{
    arguments::{ArgumentViolation, PATH_SEGMENT, dot_segment_violations},
    definition::ToolDefinition,
    table::{CatalogError, ToolRow},
};
use crate::tools::{TableError, ToolEffect, read_table};

/// A request as a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VsaTool {
    operation: &'static str,
    method: Method,
    path: String,
    sends_body: bool,
}

#[derive(Deserialize)]
struct VsaRow {
    #[serde(flatten)]
    row: ToolRow,
    method: String,
    path: String,
    place: ArgumentPlacement,
    effect: ToolEffect,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum ArgumentPlacement {
    Query,
    Body,
}

/// Names of the requests. The set is bounded: they are attributes of spans.
const OPERATIONS: [&str; 11] = [
    "listFlows",
    "getFlow",
    "editCredentialClaims",
    "sendOobLink",
    "startValidation",
    "validateFlow",
    "rejectFlow",
    "listServiceEndpoints",
    "addServiceEndpoint",
    "updateServiceEndpoint",
    "deleteServiceEndpoint",
];

pub(super) fn tools() -> Result<Vec<(ToolDefinition, VsaTool)>, CatalogError> {
    let rows: Vec<VsaRow> = read_table("vsa", include_str!("data/vsa.json"))?;
    rows.into_iter()
        .map(|VsaRow { row, method, path, place, effect }| {
            let broken = |reason: String| CatalogError::Table(TableError { surface: "vsa", reason });
            let verb = row.name.rsplit('.').next().unwrap_or_default();
            let operation = OPERATIONS.into_iter().find(|operation| *operation == verb);
            let operation = operation.ok_or_else(|| broken(format!("no operation {verb}")))?;
            let method = Method::from_bytes(method.as_bytes()).map_err(|error| broken(error.to_string()))?;
            let tool = VsaTool { operation, method, path, sends_body: place == ArgumentPlacement::Body };
            Ok((row.into_definition(effect), tool))
        })
        .collect()
}

impl VsaTool {
    /// The DID of the agent, and the request for validated arguments.
    pub fn build_request(&self, arguments: &Value) -> (String, AgentRequest) {
        let mut members = arguments.as_object().cloned().unwrap_or_default();
        let did = members.shift_remove("agent_did").as_ref().map(plain_text).unwrap_or_default();
        let mut path = self.path.clone();
        members.retain(|name, value| {
            let placeholder = format!("{{{name}}}");
            let is_in_path = path.contains(&placeholder);
            if is_in_path {
                path = path.replace(&placeholder, &utf8_percent_encode(&plain_text(value), PATH_SEGMENT).to_string());
            }
            !is_in_path
        });
        let (path, body) =
            if self.sends_body { (path, Some(Value::Object(members))) } else { (with_query(path, members), None) };
        (did, AgentRequest { method: self.method.clone(), operation: self.operation, path, body })
    }

    /// Violations that the JSON Schema cannot express.
    pub fn check_arguments(&self, arguments: &Value) -> Vec<ArgumentViolation> {
        let is_empty_update = self.operation == "updateServiceEndpoint"
            && arguments.get("type").is_none()
            && arguments.get("serviceEndpoint").is_none();
        let reason = || "one of type and serviceEndpoint is required".to_owned();
        let empty = is_empty_update.then(|| ArgumentViolation { pointer: String::new(), reason: reason() });
        let in_path = arguments.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
        let in_path = in_path.filter(|name| self.path.contains(&format!("{{{name}}}")));
        empty.into_iter().chain(dot_segment_violations(in_path, arguments)).collect()
    }
}

fn with_query(path: String, members: Map<String, Value>) -> String {
    let mut pairs: Vec<(String, Value)> = members.into_iter().filter(|(_, value)| !value.is_null()).collect();
    // A client may write the members in another order when it repeats a call that a person has confirmed.
    pairs.sort_by(|one, other| one.0.cmp(&other.0));
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(pairs.into_iter().map(|(name, value)| (name, plain_text(&value))));
    let query = query.finish();
    if query.is_empty() { path } else { format!("{path}?{query}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_become_agent_path_query_and_body() {
        let tool = |name: &str| {
            let found = tools().expect("the table").into_iter().find(|(definition, _)| definition.name.ends_with(name));
            found.expect("known").1
        };
        let (did, request) =
            tool("listFlows").build_request(&json!({"agent_did": "did:web:a", "role": "validator", "limit": 5}));
        assert_eq!((did.as_str(), request.path.as_str()), ("did:web:a", "/v2/vt/flows?limit=5&role=validator"));
        let arguments = json!({"agent_did": "did:web:a", "serviceEndpointId": "did:web:a#mcp", "type": "MCP"});
        let (_, request) = tool("updateServiceEndpoint").build_request(&arguments);
        assert_eq!(request.path, "/v2/vt/service-endpoints/did%3Aweb%3Aa%23mcp");
        assert_eq!((request.method, request.body), (Method::PATCH, Some(json!({"type": "MCP"}))));
        let update = tool("updateServiceEndpoint");
        assert_eq!(update.check_arguments(&json!({"agent_did": "did:web:a", "serviceEndpointId": ".."})).len(), 2);
        assert!(update.check_arguments(&arguments).is_empty());
    }
}
