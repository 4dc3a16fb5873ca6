//! DID Documents as JSON.

use serde_json::Value;
use svc_wire::strict_json::parse_strict_json;

use crate::{excerpt::excerpt, json_memory};

/// Largest memory of a document. The document of a service takes a hundredth of it.
const MAX_JSON_MEMORY: usize = 1024 * 1024;

/// Deepest nesting, a little below that of the JSON library.
const MAX_LEVELS: usize = 120;

/// Parses untrusted JSON. An object that repeats a member is refused: two readers could take different values.
pub(super) fn parse_json(body: &[u8]) -> Result<Value, String> {
    parse_strict_json(body, MAX_LEVELS).map_err(|error| error.to_string())
}

/// Checks that a document is that of a DID, and small enough for the cache.
pub(super) fn check_document(document: &Value, did: &str) -> Result<(), String> {
    match &document["id"] {
        _ if json_memory::of_value(document) > MAX_JSON_MEMORY => {
            Err(format!("it takes more than {MAX_JSON_MEMORY} bytes of memory"))
        }
        Value::String(id) if id == did => Ok(()),
        Value::String(id) => Err(format!("its id is {:?}", excerpt(id))),
        _ => Err("it has no id".to_owned()),
    }
}

/// Returns the endpoint of the first service of a type in a DID Document, as an origin: `scheme://host[:port]` without a path.
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
    fn invalid_json_and_a_large_document_are_refused() {
        for (text, expected) in [
            ("[".repeat(500_000), "nested in more than 120 levels"),
            ("{\"id\":\"did:web:a\",\"id\":\"did:web:b\"}".to_owned(), "id"),
            (String::new(), "EOF"),
            ("<html></html>".to_owned(), "expected value"),
            ("{}{}".to_owned(), "trailing characters"),
            ("{\"id\":\"\u{fffd}\"".replace('\u{fffd}', "\\ud800") + "}", "escape"),
        ] {
            let error = parse_json(text.as_bytes()).expect_err("refused");
            assert!(error.contains(expected), "{error}");
        }
        assert!(parse_json(b"{\"id\":\"\xff\"}").is_err());
        let large = json!({"id": "did:web:a", "service": vec![json!({"a": 0}); 2_000]});
        assert!(check_document(&large, "did:web:a").is_err_and(|reason| reason.contains("1048576 bytes of memory")));
    }
}
