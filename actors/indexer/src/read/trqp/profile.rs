//! The profile document: how TRQP is spoken here. Made from the tables the answers are made from.

use serde_json::{Map, Value, json};
use svc_wire::reads::{Method, endpoint};

use super::{
    decide::{AUTHORIZED, OF_AUTHORIZATION, OF_RECOGNITION, RECOGNIZED},
    question::{ACTIONS, GRAMMAR, Network},
};

/// Changes with the meaning of an answer.
const VERSION: &str = "1.0";
/// The protocol, and where its documents are.
const TRQP: (&str, &str) = ("2.0", "https://trustoverip.github.io/tswg-trust-registry-protocol/");
/// `$id` of the protocol's schemas.
const SCHEMAS: [(&str, &str); 4] = [
    ("authorization_request", "trqp-authorization-request"),
    ("authorization_response", "trqp-authorization-response"),
    ("recognition_request", "trqp-recognition-request"),
    ("recognition_response", "trqp-recognition-response"),
];
const ENDPOINTS: [(&str, &str); 3] =
    [("authorization", "trqp.authorize"), ("recognition", "trqp.recognize"), ("profile", "trqp.getProfile")];

pub fn document(network: &Network<'_>) -> Value {
    let mut endpoints = Map::new();
    for (name, operation) in ENDPOINTS {
        if let Some(found) = endpoint(operation) {
            let method = if found.method == Method::Post { "POST" } else { "GET" };
            endpoints.insert(name.to_owned(), json!({"method": method, "path": found.path}));
        }
    }
    let schemas: Map<String, Value> = SCHEMAS.iter().map(|(name, id)| ((*name).to_owned(), (*id).into())).collect();
    let actions = ACTIONS.map(|(action, role)| json!({"action": action, "role": role}));
    json!({
        "name": format!("{} trust registry", network.word),
        "profile_version": VERSION, "trqp_version": TRQP.0,
        "endpoints": endpoints,
        "upstream_schemas": {"specification": TRQP.1, "schemas": schemas},
        "actions": actions,
        "resource_grammar": {
            "syntax": GRAMMAR, "word": network.word, "chain_id": network.chain_id,
            "here": format!("{network}:cs:<schema id>"),
            "description": "A credential schema; it is the $id of its JSON Schema. One of another registry is answered with false.",
        },
        "identifiers": {
            "authorization": {"authority_id": "DID of the schema's ecosystem", "entity_id": "DID of a corporation"},
            "recognition": {"authority_id": "DID of a corporation", "entity_id": "DID of an ecosystem"},
        },
        "decisions": {
            AUTHORIZED: "The corporation has a participant with the action's role in the schema, ACTIVE at the time.",
            RECOGNIZED: "The corporation controls the ecosystem, which is not archived and has the schema; the same for every action.",
        },
        "context_extensions": {
            "time": "RFC 3339. The registry as it was then; after the newest block, as that block knows it. Absent: the block that is asked for.",
            "session_id": "UUID of a participant session. The registry as it was at the session's last record; goes before time.",
        },
        "extension": {
            "key": network.word, "authorization": OF_AUTHORIZATION, "recognition": OF_RECOGNITION,
        },
    })
}
