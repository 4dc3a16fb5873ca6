//! The resources of the suite. Their names and texts are those of the suite.

use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};

use super::media::PNG;

const TEXT_URI: &str = "test://static-text";
const BINARY_URI: &str = "test://static-binary";
const WATCHED_URI: &str = "test://watched-resource";
/// A template URI: the text before and after the identifier.
const TEMPLATE_URI: (&str, &str) = ("test://template/", "/data");

/// The listed resources.
pub(super) fn resources() -> Vec<Resource> {
    [
        (TEXT_URI, "static-text", "Text that never changes", "text/plain"),
        (BINARY_URI, "static-binary", "An image that never changes", "image/png"),
        (WATCHED_URI, "watched-resource", "Text a client may subscribe to", "text/plain"),
    ]
    .map(|(uri, name, description, mime)| Resource::new(uri, name).with_description(description).with_mime_type(mime))
    .to_vec()
}

/// The templates of resources that are not listed.
pub(super) fn templates() -> Vec<ResourceTemplate> {
    let (before, after) = TEMPLATE_URI;
    let template = ResourceTemplate::new(format!("{before}{{id}}{after}"), "template")
        .with_description("Tells the identifier it was read with")
        .with_mime_type("application/json");
    vec![template]
}

/// Reads a fixture resource or template; `None` for any other URI.
pub(super) fn read(uri: &str) -> Option<ReadResourceResult> {
    let contents = match uri {
        TEXT_URI => {
            ResourceContents::text("This is the content of the static text resource.", uri).with_mime_type("text/plain")
        }
        BINARY_URI => ResourceContents::blob(PNG, uri).with_mime_type("image/png"),
        WATCHED_URI => {
            ResourceContents::text("This is the content of the watched resource.", uri).with_mime_type("text/plain")
        }
        _ => {
            let (before, after) = TEMPLATE_URI;
            let id = uri.strip_prefix(before)?.strip_suffix(after)?;
            let data = serde_json::json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            ResourceContents::text(data.to_string(), uri).with_mime_type("application/json")
        }
    };
    Some(ReadResourceResult::new(vec![contents]))
}

/// Whether the URI is that of a fixture, to which a client may subscribe.
pub(super) fn is_fixture_uri(uri: &str) -> bool {
    read(uri).is_some()
}
