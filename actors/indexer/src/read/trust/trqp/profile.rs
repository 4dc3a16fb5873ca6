//! The profile document of TRQP: endpoints, actions, resources and extensions of this registry. It is generated from
//! the tables that the answers use.

use serde_json::{Map, Value, json};
use svc_wire::indexer_reads::{HttpMethod, ReadTableError, find_endpoint};

use super::{
    decision::{AUTHORIZATION_EXTENSION, AUTHORIZED_KEY, RECOGNITION_EXTENSION, RECOGNIZED_KEY},
    query::{ACTION_ROLES, RESOURCE_GRAMMAR},
    registry_id::RegistryId,
};

/// Version of the profile; it increases when the meaning of an answer changes.
const PROFILE_VERSION: &str = "1.0";
const TRQP_VERSION: &str = "2.0";
const TRQP_SPECIFICATION: &str = "https://trustoverip.github.io/tswg-trust-registry-protocol/";
/// Names in the profile, and `$id`s, of the protocol's schemas.
const PROTOCOL_SCHEMAS: [(&str, &str); 4] = [
    ("authorization_request", "trqp-authorization-request"),
    ("authorization_response", "trqp-authorization-response"),
    ("recognition_request", "trqp-recognition-request"),
    ("recognition_response", "trqp-recognition-response"),
];
/// Names in the profile, and operations, of the endpoints.
const PROFILE_ENDPOINTS: [(&str, &str); 3] =
    [("authorization", "trqp.authorize"), ("recognition", "trqp.recognize"), ("profile", "trqp.getProfile")];

/// Returns the profile document of a registry. Fails when the table of reads lacks one of its endpoints.
pub fn document(network: &RegistryId<'_>) -> Result<Value, ReadTableError> {
    let mut endpoints = Map::new();
    for (name, operation) in PROFILE_ENDPOINTS {
        let endpoint = find_endpoint(operation)?;
        let method = if endpoint.method == HttpMethod::Post { "POST" } else { "GET" };
        endpoints.insert(name.to_owned(), json!({"method": method, "path": endpoint.path}));
    }
    let schemas: Map<String, Value> =
        PROTOCOL_SCHEMAS.iter().map(|(name, id)| ((*name).to_owned(), (*id).into())).collect();
    let actions = ACTION_ROLES.map(|(action, role)| json!({"action": action, "role": role}));
    Ok(json!({
        "name": format!("{} trust registry", network.namespace),
        "profile_version": PROFILE_VERSION, "trqp_version": TRQP_VERSION,
        "endpoints": endpoints,
        "upstream_schemas": {"specification": TRQP_SPECIFICATION, "schemas": schemas},
        "actions": actions,
        "resource_grammar": {
            "syntax": RESOURCE_GRAMMAR, "word": network.namespace, "chain_id": network.chain_id,
            "here": format!("{network}:cs:<schema id>"),
            "description": "A credential schema; it is the $id of its JSON Schema. One of another registry is answered with false.",
        },
        "identifiers": {
            "authorization": {"authority_id": "DID of the schema's ecosystem", "entity_id": "DID of a corporation"},
            "recognition": {"authority_id": "DID of a corporation", "entity_id": "DID of an ecosystem"},
        },
        "decisions": {
            AUTHORIZED_KEY: "The corporation has a participant with the action's role in the schema, ACTIVE at the time.",
            RECOGNIZED_KEY: "The corporation controls the ecosystem, which is not archived and has the schema; the same for every action.",
        },
        "context_extensions": {
            "time": "RFC 3339. The registry as it was then; after the newest block, as that block knows it. Absent: the block that is asked for.",
            "session_id": "UUID of a participant session. The registry as it was at the session's last record; goes before time.",
        },
        "extension": {
            "key": network.namespace, "authorization": AUTHORIZATION_EXTENSION, "recognition": RECOGNITION_EXTENSION,
        },
    }))
}
