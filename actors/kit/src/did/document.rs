//! DID Documents as JSON.

use serde_json::Value;

/// Most objects a text may have. One of a single member takes some 600 bytes of memory for 8 of text, so that the length of a text alone
/// does not bound what reading it takes.
const MAX_OBJECTS: usize = 50_000;

/// Reads somebody else's JSON.
pub(super) fn parse(body: &[u8]) -> Result<Value, String> {
    few_objects(body)?;
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

/// Whether a text can be read in little memory.
pub(super) fn few_objects(body: &[u8]) -> Result<(), String> {
    let objects = body.iter().filter(|byte| **byte == b'{').count();
    if objects > MAX_OBJECTS { Err(format!("it has more than {MAX_OBJECTS} objects")) } else { Ok(()) }
}

/// Whether a document is the one of a DID.
pub(super) fn is_of(document: &Value, did: &str) -> Result<(), String> {
    match &document["id"] {
        Value::String(id) if id == did => Ok(()),
        Value::String(id) => Err(format!("its id is {:?}", crate::fetch::shown(id))),
        _ => Err("it has no id".to_owned()),
    }
}

/// The memory a value takes, about.
pub(super) fn weight(value: &Value) -> usize {
    let inside = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        // Nodes of the map have room for eleven members.
        Value::Object(members) => {
            let node = 11 * (size_of::<String>() + size_of::<Value>());
            node * members.len().div_ceil(6)
                + members.iter().map(|(key, value)| key.len() + weight(value)).sum::<usize>()
        }
    };
    size_of::<Value>() + inside
}

/// The first service of a type in a DID Document, as an origin: `scheme://host[:port]` without a path.
pub fn service_origin(document: &Value, kind: &str) -> Option<String> {
    let is_kind = |service: &&Value| match &service["type"] {
        Value::String(one) => one == kind,
        Value::Array(several) => several.iter().any(|one| one == kind),
        _ => false,
    };
    let service = document["service"].as_array()?.iter().find(is_kind)?;
    let text = service["serviceEndpoint"].as_str()?;
    let url = url::Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())?;
    Some(url.origin().ascii_serialization())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_service_is_found_by_its_type_alone() {
        let document = json!({"service": [
            {"id": "#a", "type": "LinkedDomains", "serviceEndpoint": "https://example.org"},
            {"id": "#b", "type": ["X", "VsAgentAdminAPI"], "serviceEndpoint": "https://agent.example.org:3000/"},
            {"id": "#c", "type": "Odd", "serviceEndpoint": {"uri": "https://example.org"}},
        ]});
        let found = service_origin(&document, "VsAgentAdminAPI");
        assert_eq!(found.as_deref(), Some("https://agent.example.org:3000"));
        assert_eq!(service_origin(&document, "Odd"), None);
        assert_eq!(service_origin(&json!({}), "Odd"), None);
    }

    #[test]
    fn a_text_that_would_take_much_memory_is_not_read() {
        for (text, told) in [
            ("[".repeat(500_000), "recursion limit"),
            (format!("[{}0]", r#"{"":0},"#.repeat(100_000)), "more than 50000 objects"),
            (String::new(), "EOF"),
            ("<html></html>".to_owned(), "expected value"),
            ("{}{}".to_owned(), "trailing characters"),
            ("{\"id\":\"\u{fffd}\"".replace('\u{fffd}', "\\ud800") + "}", "escape"),
        ] {
            let error = parse(text.as_bytes()).expect_err("refused");
            assert!(error.contains(told), "{error}");
        }
        assert!(parse(b"{\"id\":\"\xff\"}").is_err());
    }

    #[test]
    fn what_is_kept_is_weighed_by_the_memory_it_takes() {
        assert!(weight(&json!("x".repeat(1000))) >= 1000);
        assert!(weight(&json!([[], [], []])) >= 4 * size_of::<Value>());
        assert!(weight(&json!({"a": 0})) >= 600);
    }
}
