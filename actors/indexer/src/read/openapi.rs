//! The OpenAPI document, generated from the table of reads.

use serde_json::{Map, Value, json};
use svc_wire::indexer_reads::{
    HttpMethod, ParamLocation, ReadEndpoint, ReadParam, ReadParamType, ReadTableError, SchemaDetail, read_endpoints,
};

/// Returns the document, in OpenAPI 3.1.
pub fn document() -> Result<Value, ReadTableError> {
    let mut paths = Map::new();
    for endpoint in read_endpoints()? {
        paths.insert(endpoint.path.clone(), json!({method(endpoint): operation(endpoint)}));
    }
    Ok(json!({
        "openapi": "3.1.0",
        "info": {
            "title": "svc indexer", "version": env!("CARGO_PKG_VERSION"),
            "description": "Reads of the trust registry at the newest or any past height. \
                The block subscription is the WebSocket /v4/indexer/subscribe.",
        },
        "paths": paths,
        "components": {
            "parameters": {"AtBlockHeight": {
                "name": "At-Block-Height", "in": "header", "required": false,
                "description": "Height the answer is about; the newest when it is left out.",
                "schema": {"type": "integer", "minimum": 0},
            }},
            "headers": {
                "X-Height": {"description": "Newest indexed height.", "schema": {"type": "integer"}},
                "X-Query-At": {"description": "Time of the request.", "schema": {"type": "string", "format": "date-time"}},
                "X-Index-Ts": {"description": "Time of the newest block.", "schema": {"type": "string", "format": "date-time"}},
                "X-Response-Time-Ms": {"description": "Milliseconds that the answer took.", "schema": {"type": "number"}},
            },
            "responses": {"Error": {
                "description": "The request cannot be answered; error names the offending parameter.",
                "content": {"application/json": {"schema": {
                    "type": "object", "required": ["error", "code"],
                    "properties": {"error": {"type": "string"}, "code": {"type": "integer"}},
                }}},
            }},
        },
    }))
}

fn method(endpoint: &ReadEndpoint) -> &'static str {
    match endpoint.method {
        HttpMethod::Get => "get",
        HttpMethod::Post => "post",
    }
}

fn operation(endpoint: &ReadEndpoint) -> Value {
    let outside = endpoint.params.iter().filter(|param| param.location != ParamLocation::Body);
    let mut parameters: Vec<Value> = outside.map(parameter).collect();
    parameters.push(json!({"$ref": "#/components/parameters/AtBlockHeight"}));
    let names = ["X-Height", "X-Query-At", "X-Index-Ts", "X-Response-Time-Ms"];
    let header = |name: &str| (name.to_owned(), json!({"$ref": format!("#/components/headers/{name}")}));
    let headers: Map<String, Value> = names.into_iter().map(header).collect();
    let mut operation = json!({
        "operationId": endpoint.operation,
        "tags": [endpoint.operation.split('.').next().unwrap_or_default()],
        "parameters": parameters,
        "responses": {
            "200": {"description": "The answer.", "headers": headers, "content": {"application/json": {"schema": endpoint.response_schema(SchemaDetail::Documented)}}},
            "default": {"$ref": "#/components/responses/Error"},
        },
    });
    if endpoint.method == HttpMethod::Post {
        operation["requestBody"] = json!({
            "required": true, "content": {"application/json": {"schema": body(&endpoint.params)}},
        });
    }
    operation
}

/// Returns the schema of a request body.
fn body(params: &[ReadParam]) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for param in params.iter().filter(|param| param.location == ParamLocation::Body) {
        let mut member = schema(param);
        member["description"] = param.description.as_str().into();
        properties.insert(param.name.clone(), member);
        if param.required {
            required.push(param.name.as_str());
        }
    }
    json!({"type": "object", "required": required, "properties": properties})
}

fn parameter(param: &ReadParam) -> Value {
    let place = if param.location == ParamLocation::Path { "path" } else { "query" };
    json!({
        "name": param.name, "in": place, "required": param.required, "description": param.description,
        "schema": schema(param),
    })
}

fn schema(param: &ReadParam) -> Value {
    let mut schema = match param.param_type {
        ReadParamType::Id => json!({"type": "integer", "minimum": 1}),
        ReadParamType::Uint => json!({"type": "integer", "minimum": param.min.unwrap_or(0)}),
        ReadParamType::Digits => json!({"type": "string", "pattern": "^[0-9]+$"}),
        ReadParamType::Flag => json!({"type": "boolean"}),
        ReadParamType::Enum => json!({"type": "string", "enum": param.allowed}),
        ReadParamType::Instant => json!({"type": "string", "format": "date-time"}),
        ReadParamType::Uuid => json!({"type": "string", "format": "uuid"}),
        ReadParamType::Text
        | ReadParamType::Texts
        | ReadParamType::Dids
        | ReadParamType::Ids
        | ReadParamType::Cursor => {
            json!({"type": "string"})
        }
        ReadParamType::Selector => json!({"type": ["boolean", "object"]}),
        ReadParamType::Object => json!({"type": "object"}),
    };
    if let (ReadParamType::Uint, Some(max)) = (param.param_type, param.max) {
        schema["maximum"] = max.into();
    }
    if let Some(default) = &param.default {
        schema["default"] = match param.param_type {
            ReadParamType::Uint => default.parse::<u64>().map_or(Value::Null, Value::from),
            ReadParamType::Flag => default.eq_ignore_ascii_case("true").into(),
            _ => default.as_str().into(),
        };
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_every_read_with_its_parameters() {
        let document = document().expect("a document");
        let paths = document["paths"].as_object().expect("paths");
        assert_eq!(paths.len(), read_endpoints().expect("the table of reads").len());
        for endpoint in read_endpoints().expect("the table of reads") {
            let described = &paths[&endpoint.path][method(endpoint)];
            let outside = described["parameters"].as_array().map_or(0, Vec::len);
            let body = &described["requestBody"]["content"]["application/json"]["schema"]["properties"];
            let inside = body.as_object().map_or(0, Map::len);
            assert_eq!(outside + inside, endpoint.params.len() + 1, "{}", endpoint.operation);
            assert_eq!(described.get("requestBody").is_some(), endpoint.method == HttpMethod::Post);
        }
        let asked = &paths["/v4/trqp/v2/authorization"]["post"]["requestBody"];
        assert_eq!(asked["required"], true);
        let body = &asked["content"]["application/json"]["schema"];
        assert_eq!(body["required"], json!(["authority_id", "entity_id", "action", "resource"]));
        assert_eq!(
            (&body["properties"]["action"]["enum"][0], &body["properties"]["context"]["type"]),
            (&json!("issue"), &json!("object"))
        );
        let participant = &paths["/v4/participant/get/{id}"]["get"]["responses"]["200"];
        let fields = &participant["content"]["application/json"]["schema"]["properties"]["participant"]["properties"];
        assert_eq!(fields["did"]["type"], json!(["string", "null"]));
        assert_eq!(fields["id"]["type"], "integer");
    }
}
