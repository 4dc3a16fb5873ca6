//! Assertions on the events of a transaction and on JSON values.

use serde_json::Value;
use svc_ledger::TxOutcome;

/// Returns the attributes of the first event of a type, without `msg_index`.
pub fn event(outcome: &TxOutcome, kind: &str) -> Vec<(String, String)> {
    let found = outcome.events.iter().find(|event| event.kind == kind);
    let found = found.unwrap_or_else(|| panic!("{kind} is not in {:?}", outcome.events));
    found.attributes.iter().filter(|(key, _)| key != "msg_index").cloned().collect()
}

pub fn has_event(outcome: &TxOutcome, kind: &str) -> bool {
    outcome.events.iter().any(|event| event.kind == kind)
}

/// Asserts the attributes of an event, in order.
pub fn assert_event(outcome: &TxOutcome, kind: &str, expected: &[(&str, &str)]) {
    let expected: Vec<_> = expected.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    assert_eq!(event(outcome, kind), expected, "{kind}");
}

/// Returns the types of the events of messages, in order.
pub fn event_types(outcome: &TxOutcome) -> Vec<&str> {
    let of_messages = outcome.events.iter().filter(|event| event.attributes.iter().any(|(key, _)| key == "msg_index"));
    of_messages.map(|event| event.kind.as_str()).collect()
}

pub fn attribute(outcome: &TxOutcome, kind: &str, key: &str) -> String {
    let found = event(outcome, kind);
    found.into_iter().find(|(name, _)| name == key).map(|(_, value)| value).expect("the attribute")
}

/// Asserts that `found` has every member of `expected`.
pub fn assert_has(found: &Value, expected: &Value) {
    for (name, value) in expected.as_object().expect("an object") {
        assert_eq!(&found[name], value, "{name} of {found}");
    }
}
