//! Parameters in a JSON body. The values are as strict as in a query, and no object may repeat a member. Pure.

use serde_json::{Map, Value as Json};
use svc_wire::{
    indexer_reads::{ReadEndpoint, ReadParam, ReadParamType},
    strict_json::{StrictJsonError, parse_strict_json},
};

use super::params::{ArgumentValue, ReadArguments, invalid_value, parse_value};
use crate::read::error::ReadError;

/// Longest body, in bytes.
pub const MAX_BODY_BYTES: usize = 64 * 1024;
/// Deepest nesting; no parameter needs more than three levels.
const MAX_NESTING: usize = 16;

impl ReadArguments {
    /// Parses the parameters of an endpoint from a body. Unknown members are ignored, and null counts as absent. Fails
    /// when a parameter is invalid or missing.
    pub fn from_body(endpoint: &'static ReadEndpoint, body: &[u8]) -> Result<Self, ReadError> {
        if body.len() > MAX_BODY_BYTES {
            return Err(ReadError::InvalidParameter(format!("body: longer than {MAX_BODY_BYTES} bytes")));
        }
        let members = parse_members(body)?;
        Self::collect(endpoint, |param| match members.get(&param.name) {
            None | Some(Json::Null) => Ok(None),
            Some(given) => parse_member(param, given),
        })
    }
}

/// Returns the error for an invalid JSON value. It names the member and the allowed values.
pub fn invalid_json(name: &str, given: &Json, allowed: &str) -> ReadError {
    let shown = match given {
        Json::String(text) => return invalid_value(name, text, allowed),
        Json::Array(_) => "an array".to_owned(),
        Json::Object(_) => "an object".to_owned(),
        other => other.to_string(),
    };
    ReadError::InvalidParameter(format!("{name}: {shown} is not {allowed}"))
}

fn parse_member(param: &ReadParam, given: &Json) -> Result<Option<ArgumentValue>, ReadError> {
    let refused = |allowed: &str| Err(invalid_json(&param.name, given, allowed));
    Ok(Some(match (param.param_type, given) {
        (ReadParamType::Flag, Json::Bool(flag)) => ArgumentValue::Flag(*flag),
        (ReadParamType::Flag, _) => return refused("true or false"),
        (ReadParamType::Selector, Json::Bool(_) | Json::Object(_)) | (ReadParamType::Object, Json::Object(_)) => {
            ArgumentValue::Json(given.clone())
        }
        (ReadParamType::Selector, _) => return refused("true, false or an object"),
        (ReadParamType::Object, _) => return refused("an object"),
        (_, Json::String(text)) if text.trim().is_empty() => return Ok(None),
        (_, Json::String(text)) => parse_value(param, text)?,
        (ReadParamType::Id | ReadParamType::Uint | ReadParamType::Digits, Json::Number(number)) => {
            parse_value(param, &number.to_string())?
        }
        _ => return refused("a text"),
    }))
}

fn parse_members(body: &[u8]) -> Result<Map<String, Json>, ReadError> {
    let refused = |error: StrictJsonError| ReadError::InvalidParameter(format!("body: {error}"));
    match parse_strict_json(body, MAX_NESTING).map_err(refused)? {
        Json::Object(members) => Ok(members),
        other => Err(invalid_json("body", &other, "an object")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use svc_wire::indexer_reads::find_endpoint;

    use super::*;

    fn posted(operation: &str, body: &str) -> Result<ReadArguments, ReadError> {
        ReadArguments::from_body(find_endpoint(operation).expect("an endpoint"), body.as_bytes())
    }

    #[test]
    fn members_are_typed_and_null_and_unknown_ones_are_ignored() {
        let body = r#"{"did": " did:web:a ", "corporation": true, "services": null, "unknown": [1, {"a": 2.5}],
            "participations": {"states": ["REVOKED"]}, "ecosystems": false}"#;
        let params = posted("vt.resolve", body).expect("parameters");
        assert_eq!(params.text("did"), Some("did:web:a"));
        assert_eq!((params.flag("corporation"), params.flag("services")), (Some(true), None));
        assert_eq!(params.json("participations"), Some(&json!({"states": ["REVOKED"]})));
        assert_eq!((params.json("ecosystems"), params.json("presentations")), (Some(&json!(false)), None));
        let query =
            r#"{"authority_id": "a", "entity_id": "b", "action": "Grant_Issue", "resource": "r", "context": {}}"#;
        let params = posted("trqp.authorize", query).expect("parameters");
        assert_eq!((params.text("action"), params.json("context")), (Some("grant_issue"), Some(&json!({}))));
    }

    #[test]
    fn every_error_names_the_member_and_the_allowed_values() {
        for (body, expected) in [
            (r#"{}"#, "did: is required"),
            (r#"{"did": null}"#, "did: is required"),
            (r#"{"did": ""}"#, "did: is required"),
            (r#"{"did": 5}"#, "did: 5 is not a text"),
            (r#"{"did": ["did:web:a"]}"#, "did: an array is not a text"),
            (r#"{"did": {"a": 1}}"#, "did: an object is not a text"),
            ("{\"did\": \"a\\u0000b\"}", "did: \"a\\0b\" is not free of control characters"),
            (r#"{"did": "a", "corporation": "true"}"#, "corporation: \"true\" is not true or false"),
            (r#"{"did": "a", "services": 1}"#, "services: 1 is not true or false"),
            (r#"{"did": "a", "ecosystems": "all"}"#, "ecosystems: \"all\" is not true, false or an object"),
            (r#"{"did": "a", "participations": []}"#, "participations: an array is not true, false or an object"),
        ] {
            assert_eq!(posted("vt.resolve", body).expect_err(body).to_string(), expected);
        }
        let with = |rest: &str| format!(r#"{{"authority_id": "a", "entity_id": "b", "resource": "r"{rest}}}"#);
        for (rest, expected) in [
            ("", "action: is required"),
            (r#", "action": "do""#, "action: \"do\" is not one of issue, verify, grant_issue, grant_verify, govern"),
            (r#", "action": true"#, "action: true is not a text"),
            (r#", "action": "issue", "context": "now""#, "context: \"now\" is not an object"),
            (r#", "action": "issue", "context": true"#, "context: true is not an object"),
        ] {
            assert_eq!(posted("trqp.authorize", &with(rest)).expect_err(rest).to_string(), expected);
        }
        let long = format!(r#"{{"did": "{}"}}"#, "x".repeat(2_049));
        assert_eq!(posted("vt.resolve", &long).expect_err("long").to_string(), "did: longer than 2048 bytes");
    }

    #[test]
    fn a_body_is_one_object_without_repeated_members() {
        let nested =
            |levels: usize| format!(r#"{{"did": "a", "x": {}{}}}"#, "[".repeat(levels - 1), "]".repeat(levels - 1));
        for (body, expected) in [
            ("", "body: is not JSON: EOF while parsing a value at line 1 column 0"),
            ("{", "body: is not JSON: EOF while parsing an object at line 1 column 1"),
            ("did=a", "body: is not JSON: expected value at line 1 column 1"),
            ("{\"did\":\n \"a\",}", "body: is not JSON: trailing comma at line 2 column 6"),
            ("{\"did\": \"a\"} x", "body: is not JSON: trailing characters at line 1 column 14"),
            ("[]", "body: an array is not an object"),
            ("null", "body: null is not an object"),
            ("\"did:web:a\"", "body: \"did:web:a\" is not an object"),
            (r#"{"did": "a", "did": "a"}"#, "body: \"did\" is given more than once at line 1 column 18"),
            (r#"{"did": "a", "x": {"y": 1, "y": 2}}"#, "body: \"y\" is given more than once at line 1 column 30"),
            (&nested(17), "body: is nested in more than 16 levels at line 1 column 35"),
            (&nested(200), "body: is nested in more than 16 levels at line 1 column 34"),
        ] {
            assert_eq!(posted("vt.resolve", body).expect_err(body).to_string(), expected);
        }
        assert!(posted("vt.resolve", &nested(16)).is_ok());
        let invalid = ReadArguments::from_body(find_endpoint("vt.resolve").expect("known"), b"{\"did\": \"\xff\"}")
            .expect_err("not a text");
        assert!(invalid.to_string().starts_with("body: is not JSON: invalid unicode"), "{invalid}");
        let long = format!(r#"{{"did": "a", "x": "{}"}}"#, "y".repeat(MAX_BODY_BYTES));
        assert_eq!(posted("vt.resolve", &long).expect_err("long").to_string(), "body: longer than 65536 bytes");
    }
}
