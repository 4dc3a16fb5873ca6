//! The receipt of a write as a caller sees it: the useful part first, and the chain's events as a line each. Pure.

use serde_json::{Value, json};
use svc_operator::WriteReceipt;
use svc_wire::syntax::plain_text;

/// Events of the SDK that accompany a message. They move coins and repeat the request, and say nothing of the registry.
const ACCOMPANYING_EVENTS: [&str; 7] = ["message", "tx", "transfer", "coin_spent", "coin_received", "coinbase", "burn"];
/// Attribute with the index of the message that emitted an event. Events without it belong to the transaction.
const MESSAGE_INDEX: &str = "msg_index";

/// The receipt as the content of an answer. With `includes_events`, it ends with the chain's log and events.
pub fn receipt_content(receipt: &WriteReceipt, includes_events: bool) -> Value {
    let mut content = json!({
        "response": receipt.response,
        "indexer_synced": receipt.indexer_synced,
        "block_height": receipt.block_height,
        "tx_hash": receipt.tx_hash,
        "fee": fee_of(&receipt.events),
        "fee_payer": receipt.fee_payer,
        "code": receipt.code,
        "gas_used": receipt.gas_used,
        "gas_wanted": receipt.gas_wanted,
        "indexer_height": receipt.indexer_height,
        "registry_events": event_lines(&receipt.events),
        "timings_ms": receipt.timings_ms,
    });
    if includes_events {
        content["raw_log"] = receipt.raw_log.as_str().into();
        content["events"] = receipt.events.clone();
    }
    content
}

/// The state of a transaction with its events as lines. With `includes_events`, the chain's events stay.
pub fn tx_content(mut status: Value, includes_events: bool) -> Value {
    if let Some(events) = status.get("events").cloned() {
        status["registry_events"] = event_lines(&events).into();
    }
    if let Some(members) = status.as_object_mut().filter(|_| !includes_events) {
        members.shift_remove("events");
    }
    status
}

fn attributes(event: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let list = event["attributes"].as_array().into_iter().flatten();
    list.filter_map(|attribute| Some((attribute["key"].as_str()?, &attribute["value"])))
}

/// The fee that was paid, with its denom; `None` where the chain's events do not say.
fn fee_of(events: &Value) -> Option<&str> {
    let of_transaction = events.as_array().into_iter().flatten().filter(|event| event["type"] == "tx");
    of_transaction.flat_map(attributes).find(|(key, _)| *key == "fee").and_then(|(_, fee)| fee.as_str())
}

/// The value of an attribute. One that could be read as further attributes is quoted: strangers choose some of the values.
fn attribute_text(value: &Value) -> String {
    let text = plain_text(value);
    let is_plain = !text.chars().any(|one| one.is_whitespace() || one.is_control() || matches!(one, '=' | '"'));
    if is_plain { text } else { Value::from(text).to_string() }
}

/// A line for each event of the registry: `create_ecosystem ecosystem_id=7 did=did:web:a`.
fn event_lines(events: &Value) -> Vec<String> {
    let of_message = |event: &&Value| attributes(event).any(|(key, _)| key == MESSAGE_INDEX);
    let kind = |event: &Value| event["type"].as_str().unwrap_or_default().to_owned();
    let line = |event: &Value| {
        let shown = attributes(event).filter(|(key, value)| *key != MESSAGE_INDEX && **value != "");
        shown.fold(kind(event), |line, (key, value)| format!("{line} {key}={}", attribute_text(value)))
    };
    let all = events.as_array().into_iter().flatten();
    all.filter(of_message).filter(|event| !ACCOMPANYING_EVENTS.contains(&kind(event).as_str())).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt() -> WriteReceipt {
        let event = |kind: &str, attributes: &[(&str, &str)]| {
            let list: Vec<Value> = attributes.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
            json!({"type": kind, "attributes": list})
        };
        WriteReceipt {
            tx_hash: "AB".into(),
            block_height: 7,
            code: 0,
            gas_used: 5,
            gas_wanted: 6,
            raw_log: String::new(),
            events: json!([
                event("tx", &[("fee", "3379usvc"), ("fee_payer", "svc1co")]),
                event("use_feegrant", &[("granter", "svc1co")]),
                event("message", &[("action", "/svc.ec.v1.MsgCreateEcosystem"), ("msg_index", "0")]),
                event("transfer", &[("amount", "1usvc"), ("msg_index", "0")]),
                event(
                    "create_ecosystem",
                    &[("ecosystem_id", "1"), ("language", ""), ("did", "did:web:a"), ("msg_index", "0")]
                ),
            ]),
            indexer_synced: true,
            indexer_height: 8,
            response: json!({"ecosystem_id": "1"}),
            fee_payer: "corporation".into(),
            timings_ms: json!({"submit": 1}),
        }
    }

    #[test]
    fn the_response_comes_first_and_each_registry_event_is_a_line() {
        let light = receipt_content(&receipt(), false);
        let members: Vec<&str> = light.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(members[..4], ["response", "indexer_synced", "block_height", "tx_hash"]);
        assert_eq!(light["fee"], "3379usvc");
        assert_eq!(light["registry_events"], json!(["create_ecosystem ecosystem_id=1 did=did:web:a"]));
        assert!(light.get("events").is_none() && light.get("raw_log").is_none());
    }

    #[test]
    fn the_chains_events_come_when_they_are_wanted() {
        let whole = receipt_content(&receipt(), true);
        assert_eq!((&whole["events"], &whole["raw_log"]), (&receipt().events, &json!("")));
    }

    #[test]
    fn a_value_cannot_pass_for_further_attributes() {
        assert_eq!(attribute_text(&json!("did:web:a")), "did:web:a");
        assert_eq!(attribute_text(&json!("x participant_id=9")), r#""x participant_id=9""#);
        assert_eq!(attribute_text(&json!("a\nb")), r#""a\nb""#);
    }

    #[test]
    fn a_transaction_has_its_events_as_lines() {
        let status = json!({"found": true, "events": receipt().events});
        let light = tx_content(status.clone(), false);
        assert_eq!(light, json!({"found": true, "registry_events": ["create_ecosystem ecosystem_id=1 did=did:web:a"]}));
        assert_eq!(tx_content(status, true)["events"], receipt().events);
        assert_eq!(tx_content(json!({"found": false}), false), json!({"found": false}));
    }

    #[test]
    fn a_receipt_without_events_has_no_fee() {
        let bare = WriteReceipt { events: Value::Null, ..receipt() };
        let content = receipt_content(&bare, false);
        assert_eq!((&content["fee"], &content["registry_events"]), (&Value::Null, &json!([])));
    }
}
