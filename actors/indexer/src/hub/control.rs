//! What subscribers say. Pure; every refusal is the reason the connection is closed with.

use std::collections::BTreeSet;

use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::{Filter, View};

/// Longest control message.
pub const MAX_CONTROL_BYTES: usize = 64 * 1024;

/// A close reason may hold so many bytes.
const MAX_REASON_BYTES: usize = 123;

/// A control message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Control<V = ()> {
    /// Replaces the subscription.
    Subscribe(Filter<V>),
    /// Ends it; the connection stays.
    Unsubscribe,
}

impl<V: View> Control<V> {
    /// Reads a control message; the error is the close reason, cut to fit.
    pub fn parse(text: &str) -> Result<Self, String> {
        read(text).map_err(|mut reason| {
            reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
            reason
        })
    }
}

fn read<V: View>(text: &str) -> Result<Control<V>, String> {
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
        Some("unsubscribe") => Ok(Control::Unsubscribe),
        Some("subscribe") => {
            let corporation_id = corporation_id(members.get("corporationId"))?;
            let dids = dids(members.get("dids"))?;
            Ok(Control::Subscribe(Filter { dids, corporation_id, view: V::read(members)? }))
        }
        _ => Err(unknown()),
    }
}

/// A positive integer; as in the reference, numeric text and `true` count as numbers.
fn corporation_id(value: Option<&Value>) -> Result<Option<u64>, String> {
    let number = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Number(number)) => number.as_u64().or_else(|| whole(number.as_f64()?)),
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

/// `42.0` is an integer in JSON's own eyes; beyond 2^53 a float names no integer for certain.
fn whole(number: f64) -> Option<u64> {
    let is_exact = number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number);
    is_exact.then_some(number as u64)
}

fn dids(value: Option<&Value>) -> Result<BTreeSet<String>, String> {
    let items = match value {
        None | Some(Value::Null) => return Ok(BTreeSet::new()),
        Some(Value::Array(items)) => items,
        Some(_) => return Err("'dids' must be an array of DID strings".to_owned()),
    };
    let mut found = BTreeSet::new();
    for item in items {
        let known = found.len();
        found.extend(item.as_str().into_iter().flat_map(did_spellings));
        if found.len() == known && item.as_str().and_then(normal_did).is_none() {
            let shown = svc_wire::syntax::plain(item);
            return Err(format!("Invalid DID in 'dids': {shown}"));
        }
    }
    Ok(found)
}

/// A DID as a filter means it: percent-decoded, and as it stands, since a DID may hold `%3A` on the chain. None when it is none.
pub fn did_spellings(text: &str) -> impl Iterator<Item = String> {
    let decoded = normal_did(text);
    let as_it_stands = decoded.as_ref().map(|_| text.trim().to_owned()).filter(|own| Some(own) != decoded.as_ref());
    decoded.into_iter().chain(as_it_stands)
}

/// A DID trimmed and percent-decoded where that is possible; `None` when it is none.
pub fn normal_did(text: &str) -> Option<String> {
    let trimmed = text.trim();
    let decoded =
        percent_decode_str(trimmed).decode_utf8().map_or_else(|_| trimmed.to_owned(), |text| text.into_owned());
    let lower = decoded.to_ascii_lowercase();
    let (method, specific) = lower.strip_prefix("did:")?.split_once(':')?;
    let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (is_method && !specific.is_empty() && !decoded.contains(char::is_control)).then_some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_messages_are_read_as_the_contract_says() {
        let subscribe = |dids: &[&str], corporation_id| {
            let dids = dids.iter().map(|did| (*did).to_owned()).collect();
            Control::Subscribe(Filter { dids, corporation_id, view: () })
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
            (r#"{"action":"unsubscribe"}"#, Control::Unsubscribe),
        ] {
            assert_eq!(Control::parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn bad_control_messages_close_with_their_reason() {
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
            assert_eq!(Control::<()>::parse(text), Err(reason.to_owned()), "{text}");
        }
        let long = format!(r#"{{"action":"subscribe","dids":["{}"]}}"#, format_args!("x{}", "é".repeat(100)));
        let reason = Control::<()>::parse(&long).expect_err("no DID");
        assert_eq!(reason.len(), 122, "a long reason is cut between characters: {reason}");
    }
}
