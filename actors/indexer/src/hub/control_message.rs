//! Control messages of subscribers. Pure. The error of an invalid message is the reason with which its connection is
//! closed.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{filter::SubscriptionFilter, topics::View};
use crate::derive::did_forms::{did_forms, normalize_did};

/// Longest control message, in bytes.
pub const MAX_CONTROL_MESSAGE_BYTES: usize = 64 * 1024;

/// Longest reason in a close frame, in bytes.
const MAX_REASON_BYTES: usize = 123;

/// A control message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlMessage<V = ()> {
    /// Replaces the subscription.
    Subscribe(SubscriptionFilter<V>),
    /// Ends the subscription; the connection stays open.
    Unsubscribe,
}

impl<V: View> ControlMessage<V> {
    /// Parses a control message. The error is the reason of the close frame, cut to its length.
    pub fn parse(text: &str) -> Result<Self, String> {
        parse_control_message(text).map_err(|mut reason| {
            reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
            reason
        })
    }
}

fn parse_control_message<V: View>(text: &str) -> Result<ControlMessage<V>, String> {
    let value: Value = serde_json::from_str(text).map_err(|_| "Invalid JSON".to_owned())?;
    let unknown = || "Unknown action. Expected 'subscribe' or 'unsubscribe'".to_owned();
    let members = match &value {
        Value::Object(members) => members,
        Value::Array(_) => return Err(unknown()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            return Err("Control message must be an object".to_owned());
        }
    };
    match members.get("action").and_then(Value::as_str) {
        Some("unsubscribe") => Ok(ControlMessage::Unsubscribe),
        Some("subscribe") => {
            let corporation_id = parse_corporation_id(members.get("corporationId"))?;
            let dids = parse_dids(members.get("dids"))?;
            Ok(ControlMessage::Subscribe(SubscriptionFilter { dids, corporation_id, view: V::read(members)? }))
        }
        _ => Err(unknown()),
    }
}

/// Parses a positive integer. As in the reference, a numeric text and `true` count as numbers.
fn parse_corporation_id(value: Option<&Value>) -> Result<Option<u64>, String> {
    let number = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Number(number)) => number.as_u64().or_else(|| exact_integer(number.as_f64()?)),
        Some(Value::String(text)) => text.trim().parse().ok(),
        Some(Value::Bool(true)) => Some(1),
        Some(Value::Bool(false) | Value::Array(_) | Value::Object(_)) => None,
    };
    let shown = match value {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    number
        .filter(|id| *id > 0)
        .map(Some)
        .ok_or_else(|| format!("'corporationId' must be a positive integer; got {shown}"))
}

/// Returns the integer of a float without a fraction, such as `42.0`. Floats above 2^53 are not exact.
fn exact_integer(number: f64) -> Option<u64> {
    let is_exact = number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number);
    is_exact.then_some(number as u64)
}

fn parse_dids(value: Option<&Value>) -> Result<BTreeSet<String>, String> {
    let items = match value {
        None | Some(Value::Null) => return Ok(BTreeSet::new()),
        Some(Value::Array(items)) => items,
        Some(_) => return Err("'dids' must be an array of DID strings".to_owned()),
    };
    let mut found = BTreeSet::new();
    for item in items {
        let known = found.len();
        found.extend(item.as_str().into_iter().flat_map(did_forms));
        if found.len() == known && item.as_str().and_then(normalize_did).is_none() {
            let shown = svc_wire::syntax::plain_text(item);
            return Err(format!("Invalid DID in 'dids': {shown}"));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_messages_are_parsed_as_the_contract_specifies() {
        let subscribe = |dids: &[&str], corporation_id| {
            let dids = dids.iter().map(|did| (*did).to_owned()).collect();
            ControlMessage::Subscribe(SubscriptionFilter { dids, corporation_id, view: () })
        };
        for (text, expected) in [
            (r#"{"action":"subscribe"}"#, subscribe(&[], None)),
            (r#"{"action":"subscribe","dids":[],"corporationId":null,"x":1}"#, subscribe(&[], None)),
            (r#"{"action":"subscribe","corporationId":"42"}"#, subscribe(&[], Some(42))),
            (r#"{"action":"subscribe","corporationId":true}"#, subscribe(&[], Some(1))),
            (
                r#"{"action":"subscribe","dids":[" did:web:a%3A8 ","did:web:a:8"]}"#,
                subscribe(&["did:web:a%3A8", "did:web:a:8"], None),
            ),
            (r#"{"action":"subscribe","corporationId":42.0}"#, subscribe(&[], Some(42))),
            (
                r#"{"action":"subscribe","dids":["did:web:%FF","did:WEB:b+c"]}"#,
                subscribe(&["did:web:%FF", "did:WEB:b+c"], None),
            ),
            (r#"{"action":"unsubscribe"}"#, ControlMessage::Unsubscribe),
        ] {
            assert_eq!(ControlMessage::parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn invalid_control_messages_have_a_reason() {
        let unknown = "Unknown action. Expected 'subscribe' or 'unsubscribe'";
        for (text, reason) in [
            ("{", "Invalid JSON"),
            ("null", "Control message must be an object"),
            ("1", "Control message must be an object"),
            ("[]", unknown),
            ("{}", unknown),
            (r#"{"action":"pause"}"#, unknown),
            (
                r#"{"action":"subscribe","corporationId":0,"dids":1}"#,
                "'corporationId' must be a positive integer; got 0",
            ),
            (
                r#"{"action":"subscribe","corporationId":1e300}"#,
                "'corporationId' must be a positive integer; got 1e+300",
            ),
            (r#"{"action":"subscribe","corporationId":-1}"#, "'corporationId' must be a positive integer; got -1"),
            (r#"{"action":"subscribe","corporationId":1.5}"#, "'corporationId' must be a positive integer; got 1.5"),
            (r#"{"action":"subscribe","corporationId":""}"#, "'corporationId' must be a positive integer; got "),
            (r#"{"action":"subscribe","dids":"did:web:a"}"#, "'dids' must be an array of DID strings"),
            (r#"{"action":"subscribe","dids":["x"]}"#, "Invalid DID in 'dids': x"),
        ] {
            assert_eq!(ControlMessage::<()>::parse(text), Err(reason.to_owned()), "{text}");
        }
        let long = format!(r#"{{"action":"subscribe","dids":["{}"]}}"#, format_args!("x{}", "é".repeat(100)));
        let reason = ControlMessage::<()>::parse(&long).expect_err("not a DID");
        assert_eq!(reason.len(), 122, "a long reason is cut between characters: {reason}");
    }
}
