//! Endpoints for DIDComm in a DID Document.

use serde_json::Value;

/// Endpoints of one document that are looked at.
const MAX_ENDPOINTS: usize = 16;

/// How an endpoint takes messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// One message per frame.
    WebSocket,
    /// One message per POST.
    Http,
}

/// An endpoint that takes messages of DIDComm v2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The URL as the document has it.
    pub uri: String,
    /// By its scheme.
    pub transport: Transport,
}

/// The endpoints of a document, in its order. Those in clear text are left out unless `clear_text` is allowed; so is one that
/// wants mediators, since nothing is forwarded.
pub fn endpoints(document: &Value, clear_text: bool) -> Vec<Endpoint> {
    let services =
        document["service"].as_array().into_iter().flatten().filter(|service| is_messaging(&service["type"]));
    let entries = services.flat_map(|service| match &service["serviceEndpoint"] {
        Value::Array(several) => several.iter().collect(),
        one => vec![one],
    });
    entries.filter_map(|entry| endpoint(entry, clear_text)).take(MAX_ENDPOINTS).collect()
}

fn is_messaging(kind: &Value) -> bool {
    const MESSAGING: &str = "DIDCommMessaging";
    kind == MESSAGING || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == MESSAGING))
}

fn endpoint(entry: &Value, clear_text: bool) -> Option<Endpoint> {
    let uri = entry.as_str().or_else(|| entry["uri"].as_str())?;
    // A list without v2 is one of another version; without a list, v2 is the only one of this type.
    let accepts = entry["accept"].as_array().is_none_or(|list| list.iter().any(|profile| profile == "didcomm/v2"));
    let is_direct = entry["routingKeys"].as_array().is_none_or(Vec::is_empty);
    let (scheme, _) = uri.split_once("://")?;
    let transport = match scheme.to_ascii_lowercase().as_str() {
        "wss" => Transport::WebSocket,
        "https" => Transport::Http,
        "ws" if clear_text => Transport::WebSocket,
        "http" if clear_text => Transport::Http,
        _ => return None,
    };
    (accepts && is_direct && uri.len() <= 2048).then(|| Endpoint { uri: uri.to_owned(), transport })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_endpoints_that_take_our_messages_are_used() {
        let service = |endpoint: Value| json!({"id": "#a", "type": "DIDCommMessaging", "serviceEndpoint": endpoint});
        let document = json!({"service": [
            {"id": "#v1", "type": "did-communication", "serviceEndpoint": "wss://v1.example"},
            service(json!({"uri": "wss://a.example", "accept": ["didcomm/v2"]})),
            service(json!([{"uri": "https://b.example"}, {"uri": "ws://c.example"}])),
            service(json!({"uri": "wss://old.example", "accept": ["didcomm/aip1"]})),
            service(json!({"uri": "wss://routed.example", "routingKeys": ["did:x:y#z"]})),
            service(json!({"uri": "did:x:mediator"})),
            {"id": "#several", "type": ["X", "DIDCommMessaging"], "serviceEndpoint": "https://d.example"},
        ]});
        let found = |clear_text| endpoints(&document, clear_text).into_iter().map(|one| one.uri).collect::<Vec<_>>();
        assert_eq!(found(false), ["wss://a.example", "https://b.example", "https://d.example"]);
        assert_eq!(found(true), ["wss://a.example", "https://b.example", "ws://c.example", "https://d.example"]);
        assert_eq!(endpoints(&json!({"service": {}}), true), []);
    }
}
