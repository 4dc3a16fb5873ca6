//! Surface `cosmos`: reads of the chain's own platform.

use serde_json::json;

use super::{Hints, Outline};

pub(super) fn get_tx() -> Outline {
    Outline {
        name: "svc.cosmos.tx.getTx",
        title: "Get a transaction",
        description: "What became of a transaction: included with its result, still possible, or never executable any more. Use it after \
            BCAST_TIMEOUT instead of repeating the write."
            .to_owned(),
        input: json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
            "properties": {"hash": {
                "type": "string", "pattern": "^(0x)?[0-9A-Fa-f]{64}$",
                "description": "Transaction hash, 64 hex digits, as a write returned it.",
            }},
            "required": ["hash"], "additionalProperties": false,
        }),
        output: json!({
            "type": "object",
            "properties": {
                "found": {"type": "boolean"},
                "state": {"type": "string", "enum": ["included", "pending", "expired", "unknown"]},
                "tx_hash": {"type": "string"},
                "node_height": {"type": "integer"},
            },
            "required": ["found", "state", "tx_hash", "node_height"],
        }),
        hints: Hints::READ,
    }
}
