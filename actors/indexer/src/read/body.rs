//! Parameters in a JSON body: each as strict as in a query, in an object that says each of them once. Pure.

use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value as Json, error::Category};
use svc_wire::reads::{Endpoint, Param, ParamType};

use super::{
    ReadError,
    params::{Params, Value, bad, value},
};

/// Longest body, in bytes.
pub const MAX_BODY_BYTES: usize = 64 * 1024;
/// Deepest nesting; no parameter needs more than three levels.
const MAX_LEVELS: usize = 16;

impl Params {
    /// Reads what a body gives for an endpoint's parameters. Unknown members are ignored, and null counts as absent.
    pub fn posted(endpoint: &'static Endpoint, body: &[u8]) -> Result<Self, ReadError> {
        if body.len() > MAX_BODY_BYTES {
            return Err(ReadError::Parameter(format!("body: longer than {MAX_BODY_BYTES} bytes")));
        }
        let members = members(body)?;
        Self::collect(endpoint, |param| match members.get(&param.name) {
            None | Some(Json::Null) => Ok(None),
            Some(given) => member(param, given),
        })
    }
}

/// The complaint about a JSON value, which names the member and what is allowed.
pub fn bad_json(name: &str, given: &Json, allowed: &str) -> ReadError {
    let shown = match given {
        Json::String(text) => return bad(name, text, allowed),
        Json::Array(_) => "an array".to_owned(),
        Json::Object(_) => "an object".to_owned(),
        other => other.to_string(),
    };
    ReadError::Parameter(format!("{name}: {shown} is not {allowed}"))
}

fn member(param: &Param, given: &Json) -> Result<Option<Value>, ReadError> {
    let refused = |allowed: &str| Err(bad_json(&param.name, given, allowed));
    Ok(Some(match (param.kind, given) {
        (ParamType::Flag, Json::Bool(flag)) => Value::Flag(*flag),
        (ParamType::Flag, _) => return refused("true or false"),
        (ParamType::Selector, Json::Bool(_) | Json::Object(_)) | (ParamType::Object, Json::Object(_)) => {
            Value::Json(given.clone())
        }
        (ParamType::Selector, _) => return refused("true, false or an object"),
        (ParamType::Object, _) => return refused("an object"),
        (_, Json::String(text)) if text.trim().is_empty() => return Ok(None),
        (_, Json::String(text)) => value(param, text)?,
        (ParamType::Id | ParamType::Uint | ParamType::Digits, Json::Number(number)) => {
            value(param, &number.to_string())?
        }
        _ => return refused("a text"),
    }))
}

fn members(body: &[u8]) -> Result<Map<String, Json>, ReadError> {
    let refused = |error: serde_json::Error| match error.classify() {
        // What this reader itself refuses is JSON.
        Category::Data => ReadError::Parameter(format!("body: {error}")),
        Category::Io | Category::Syntax | Category::Eof => ReadError::Parameter(format!("body: is not JSON: {error}")),
    };
    let mut reader = serde_json::Deserializer::from_slice(body);
    let found = Strict { levels: MAX_LEVELS }.deserialize(&mut reader).map_err(refused)?;
    reader.end().map_err(refused)?;
    match found {
        Json::Object(members) => Ok(members),
        other => Err(bad_json("body", &other, "an object")),
    }
}

/// JSON in which no object says a member twice, nested in no more than so many levels.
#[derive(Clone, Copy)]
struct Strict {
    levels: usize,
}

impl Strict {
    fn inner<E: Error>(self) -> Result<Self, E> {
        let levels = self.levels.checked_sub(1);
        let levels = levels.ok_or_else(|| E::custom(format_args!("is nested in more than {MAX_LEVELS} levels")))?;
        Ok(Self { levels })
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Json;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Json;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Json, E> {
        Ok(flag.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Json, E> {
        Ok(number.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Json, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Json, E> {
        Ok(number.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let inner = self.inner()?;
        let mut found = Vec::new();
        while let Some(item) = items.next_element_seed(inner)? {
            found.push(item);
        }
        Ok(found.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let inner = self.inner()?;
        let mut found = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if found.contains_key(&name) {
                let shown: String = name.chars().take(64).collect();
                return Err(A::Error::custom(format_args!("{shown:?} is given more than once")));
            }
            found.insert(name, members.next_value_seed(inner)?);
        }
        Ok(found.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use svc_wire::reads::endpoint;

    use super::*;

    fn posted(operation: &str, body: &str) -> Result<Params, ReadError> {
        Params::posted(endpoint(operation).expect("an endpoint"), body.as_bytes())
    }

    #[test]
    fn members_are_typed_and_null_and_unknown_ones_are_passed_over() {
        let body = r#"{"did": " did:web:a ", "corporation": true, "services": null, "unknown": [1, {"a": 2.5}],
            "participations": {"states": ["REVOKED"]}, "ecosystems": false}"#;
        let params = posted("vt.resolve", body).expect("parameters");
        assert_eq!(params.text("did"), Some("did:web:a"));
        assert_eq!((params.flag("corporation"), params.flag("services")), (Some(true), None));
        assert_eq!(params.json("participations"), Some(&json!({"states": ["REVOKED"]})));
        assert_eq!((params.json("ecosystems"), params.json("presentations")), (Some(&json!(false)), None));
        let question =
            r#"{"authority_id": "a", "entity_id": "b", "action": "Grant_Issue", "resource": "r", "context": {}}"#;
        let params = posted("trqp.authorize", question).expect("parameters");
        assert_eq!((params.text("action"), params.json("context")), (Some("grant_issue"), Some(&json!({}))));
    }

    #[test]
    fn every_complaint_names_the_member_and_what_is_allowed() {
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
    fn a_body_is_one_object_that_says_each_thing_once() {
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
        let invalid =
            Params::posted(endpoint("vt.resolve").expect("known"), b"{\"did\": \"\xff\"}").expect_err("no text");
        assert!(invalid.to_string().starts_with("body: is not JSON: invalid unicode"), "{invalid}");
        let long = format!(r#"{{"did": "a", "x": "{}"}}"#, "y".repeat(MAX_BODY_BYTES));
        assert_eq!(posted("vt.resolve", &long).expect_err("long").to_string(), "body: longer than 65536 bytes");
    }
}
