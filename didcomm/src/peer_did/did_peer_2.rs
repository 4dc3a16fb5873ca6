//! did:peer, method 2: a list of keys and services. Read, and never made.

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};
use svc_wire::strict_json::parse_strict_json;

use super::PeerDidError;
use crate::{json_shape, limits};

pub(super) fn resolve(did: &str) -> Result<Value, PeerDidError> {
    let parts = did.strip_prefix("did:peer:2.").ok_or(PeerDidError::Form)?;
    let (mut methods, mut services) = (Vec::new(), Vec::new());
    let mut relations: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for part in parts.split('.') {
        let purpose = part.chars().next().ok_or(PeerDidError::Form)?;
        let rest = &part[purpose.len_utf8()..];
        let relation = match purpose {
            'A' => "assertionMethod",
            'D' => "capabilityDelegation",
            'E' => "keyAgreement",
            'I' => "capabilityInvocation",
            'V' => "authentication",
            'S' => {
                services.push(service(rest, &service_id(services.len()))?);
                continue;
            }
            _ => return Err(PeerDidError::Form),
        };
        multibase::decode(rest).map_err(|_| PeerDidError::Form)?;
        // Keys of all purposes are numbered in one order.
        let id = format!("#key-{}", methods.len() + 1);
        methods.push(json!({"id": id, "type": "Multikey", "controller": did, "publicKeyMultibase": rest}));
        relations.entry(relation).or_default().push(id);
    }
    let mut document = json!({"id": did, "verificationMethod": methods, "service": services});
    for (relation, ids) in relations {
        document[relation] = json!(ids);
    }
    Ok(document)
}

fn service_id(index: usize) -> String {
    if index == 0 { "#service".to_owned() } else { format!("#service-{index}") }
}

/// A service with short names, written out.
fn service(encoded: &str, id: &str) -> Result<Value, PeerDidError> {
    let text = BASE64_URL_SAFE_NO_PAD.decode(encoded).map_err(|_| PeerDidError::Document)?;
    json_shape::check(&text).map_err(|_| PeerDidError::Document)?;
    let short = parse_strict_json(&text, limits::MAX_JSON_LEVELS).map_err(|_| PeerDidError::Document)?;
    let mut service = written_out(short.as_object().ok_or(PeerDidError::Document)?);
    service.entry("id").or_insert_with(|| json!(id));
    if service.get("type").is_some_and(|kind| kind == "dm") {
        service.insert("type".to_owned(), json!("DIDCommMessaging"));
    }
    // Older DIDs have the endpoint as a text, and the rest beside it.
    if let Some(Value::String(uri)) = service.get("serviceEndpoint").cloned() {
        let mut endpoint = Map::from_iter([("uri".to_owned(), json!(uri))]);
        for name in ["accept", "routingKeys"] {
            if let Some(value) = service.remove(name) {
                endpoint.insert(name.to_owned(), value);
            }
        }
        service.insert("serviceEndpoint".to_owned(), Value::Object(endpoint));
    }
    Ok(Value::Object(service))
}

fn written_out(short: &Map<String, Value>) -> Map<String, Value> {
    let name = |name: &str| match name {
        "t" => "type".to_owned(),
        "s" => "serviceEndpoint".to_owned(),
        "r" => "routingKeys".to_owned(),
        "a" => "accept".to_owned(),
        other => other.to_owned(),
    };
    let value = |value: &Value| match value {
        Value::Object(members) => Value::Object(written_out(members)),
        other => other.clone(),
    };
    short.iter().map(|(key, found)| (name(key), value(found))).collect()
}

#[cfg(test)]
mod tests {
    use svc_wire::verification_method::{KeyKind, KeyRelation, method_key, multikey};

    use super::*;

    #[test]
    fn keys_are_numbered_and_services_are_written_out() {
        let (signs, agrees) = (multikey(KeyKind::Ed25519, &[1; 32]), multikey(KeyKind::X25519, &[2; 32]));
        let nested = BASE64_URL_SAFE_NO_PAD.encode(r#"{"t":"dm","s":{"uri":"wss://a.example","a":["didcomm/v2"]}}"#);
        let flat = BASE64_URL_SAFE_NO_PAD.encode(r#"{"t":"dm","s":"https://a.example","a":["didcomm/v2"]}"#);
        let did = format!("did:peer:2.V{signs}.E{agrees}.S{nested}.S{flat}");
        let document = resolve(&did).expect("a document");
        let key = |id: &str, relation, kind| method_key(&document, &format!("{did}{id}"), relation, kind, 0);
        assert_eq!(key("#key-1", KeyRelation::Authentication, KeyKind::Ed25519), Ok([1; 32]));
        assert_eq!(key("#key-2", KeyRelation::KeyAgreement, KeyKind::X25519), Ok([2; 32]));
        let endpoint = |uri: &str| json!({"uri": uri, "accept": ["didcomm/v2"]});
        assert_eq!(
            document["service"],
            json!([
                {"id": "#service", "type": "DIDCommMessaging", "serviceEndpoint": endpoint("wss://a.example")},
                {"id": "#service-1", "type": "DIDCommMessaging", "serviceEndpoint": endpoint("https://a.example")},
            ])
        );
    }
}
