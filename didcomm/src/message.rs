//! A message of DIDComm v2: known members by name, all others kept.

use serde_json::{Map, Value, json};
use svc_wire::{strict_json::parse_strict_json, timestamp};

use crate::{json_shape, limits, refusal::Refusal};

/// Media type of a message, which its member `typ` names.
pub const PLAIN_TYPE: &str = "application/didcomm-plain+json";

/// A message as it stands inside of an envelope.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Unique for its sender.
    pub id: String,
    /// URI of protocol, version and name.
    pub kind: String,
    /// DID of the sender.
    pub from: Option<String>,
    /// DIDs of the recipients.
    pub to: Vec<String>,
    /// The id of the first message of its thread.
    pub thid: Option<String>,
    /// The thread that the thread belongs to.
    pub pthid: Option<String>,
    /// Seconds since the epoch.
    pub created_time: Option<i64>,
    /// Seconds since the epoch, after which the message is void.
    pub expires_time: Option<i64>,
    /// Proof that `from` continues another DID.
    pub from_prior: Option<String>,
    /// Content.
    pub body: Map<String, Value>,
    /// Every other member, such as `attachments`, `lang`, and the members that others move out of the body.
    pub other: Map<String, Value>,
}

impl Message {
    /// Returns a message that begins a thread. The first message of a thread carries its own id as `thid`.
    pub fn new(id: impl Into<String>, kind: &str, body: Value) -> Self {
        let id = id.into();
        let Value::Object(body) = body else { return Self::new(id, kind, json!({})) };
        Self {
            thid: Some(id.clone()),
            id,
            kind: kind.to_owned(),
            from: None,
            to: Vec::new(),
            pthid: None,
            created_time: None,
            expires_time: None,
            from_prior: None,
            body,
            other: Map::new(),
        }
    }

    /// Continues a thread.
    #[must_use]
    pub fn in_thread(mut self, thid: &str) -> Self {
        self.thid = Some(thid.to_owned());
        self
    }

    /// Parses the content of an envelope.
    pub fn parse(text: &[u8]) -> Result<Self, Refusal> {
        json_shape::check(text)?;
        let Value::Object(members) = parse_strict_json(text, limits::MAX_JSON_LEVELS).map_err(|_| Refusal::NotJson)?
        else {
            return Err(Refusal::NotAMessage);
        };
        // No database keeps the character in a text, and no message needs it.
        if text.windows(6).any(|part| part == br"\u0000") && json_shape::has_nul(&Value::Object(members.clone())) {
            return Err(Refusal::NotAMessage);
        }
        Self::from_members(members)
    }

    fn from_members(mut members: Map<String, Value>) -> Result<Self, Refusal> {
        let is_envelope =
            ["ciphertext", "protected", "payload", "signatures"].iter().any(|name| members.contains_key(*name));
        if is_envelope && !members.contains_key("type") {
            return Err(Refusal::Nested);
        }
        let kind = required(&mut members, "type", limits::MAX_TYPE_BYTES)?;
        let message = Self {
            id: required(&mut members, "id", limits::MAX_ID_BYTES)?,
            from: text(&mut members, "from", limits::MAX_DID_BYTES)?,
            to: recipients(members.remove("to"))?,
            thid: text(&mut members, "thid", limits::MAX_ID_BYTES)?,
            pthid: text(&mut members, "pthid", limits::MAX_ID_BYTES)?,
            created_time: members.remove("created_time").as_ref().and_then(seconds),
            expires_time: take_expiry(&mut members, &kind)?,
            from_prior: text(&mut members, "from_prior", limits::MAX_HEADER_BYTES)?,
            body: match members.remove("body") {
                None | Some(Value::Null) => Map::new(),
                Some(Value::Object(body)) => body,
                Some(_) => return Err(Refusal::NotAMessage),
            },
            kind,
            other: {
                members.remove("typ");
                members
            },
        };
        Ok(message)
    }

    /// The message as JSON, with `typ`: some readers refuse one without it.
    pub fn to_json(&self) -> Value {
        let mut members = Map::new();
        let mut put = |name: &str, value: Value| {
            if !value.is_null() {
                members.insert(name.to_owned(), value);
            }
        };
        put("id", json!(self.id));
        put("typ", json!(PLAIN_TYPE));
        put("type", json!(self.kind));
        put("from", json!(self.from));
        put("to", if self.to.is_empty() { Value::Null } else { json!(self.to) });
        put("thid", json!(self.thid));
        put("pthid", json!(self.pthid));
        put("created_time", json!(self.created_time));
        put("expires_time", json!(self.expires_time));
        put("from_prior", json!(self.from_prior));
        put("body", Value::Object(self.body.clone()));
        for (name, value) in &self.other {
            members.entry(name.clone()).or_insert_with(|| value.clone());
        }
        Value::Object(members)
    }

    /// The thread of the message: a message without `thid` begins its own.
    pub fn thread(&self) -> &str {
        self.thid.as_deref().unwrap_or(&self.id)
    }

    /// Whether a moment, in seconds since the epoch, is after its end.
    pub fn has_expired(&self, now: i64) -> bool {
        self.expires_time.is_some_and(|end| end <= now)
    }

    /// The protocol of the message: its type without the name.
    pub fn protocol(&self) -> &str {
        self.kind.rsplit_once('/').map_or(&self.kind, |(protocol, _)| protocol)
    }

    /// A text in the body.
    pub fn body_text(&self, name: &str) -> Option<&str> {
        self.body.get(name).and_then(Value::as_str)
    }
}

fn required(members: &mut Map<String, Value>, name: &str, max_bytes: usize) -> Result<String, Refusal> {
    text(members, name, max_bytes)?.ok_or(Refusal::NotAMessage)
}

/// A text without control characters; an empty one is refused.
fn text(members: &mut Map<String, Value>, name: &str, max_bytes: usize) -> Result<Option<String>, Refusal> {
    match members.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text))
            if !text.is_empty() && text.len() <= max_bytes && !text.chars().any(char::is_control) =>
        {
            Ok(Some(text))
        }
        Some(_) => Err(Refusal::NotAMessage),
    }
}

fn recipients(to: Option<Value>) -> Result<Vec<String>, Refusal> {
    let list = match to {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) if list.len() <= limits::MAX_RECIPIENTS => list,
        Some(_) => return Err(Refusal::NotAMessage),
    };
    let did = |value| match value {
        Value::String(did) if did.len() <= limits::MAX_DID_BYTES => Ok(did),
        _ => Err(Refusal::NotAMessage),
    };
    list.into_iter().map(did).collect()
}

/// Takes the end of the message. Others move a member `expires_time` of a body out of it, as the text that it is there: with an
/// out-of-band link it is the end of the link, and stays among the other members.
fn take_expiry(members: &mut Map<String, Value>, kind: &str) -> Result<Option<i64>, Refusal> {
    match members.get("expires_time") {
        None => Ok(None),
        Some(Value::String(_)) if kind.ends_with("/oob-link") => Ok(None),
        Some(value) => {
            let end = seconds(value).ok_or(Refusal::NotAMessage)?;
            members.remove("expires_time");
            Ok(Some(end))
        }
    }
}

/// Seconds since the epoch, from a number or from a text of RFC 3339.
pub(crate) fn seconds(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64().or_else(|| number.as_f64().map(|seconds| seconds as i64)),
        Value::String(text) => {
            let nanos = timestamp::unix_nanos(&timestamp::parse_rfc3339(text)?);
            i64::try_from(nanos / 1_000_000_000).ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_keeps_what_it_does_not_know() {
        let text = json!({"id": "1", "typ": PLAIN_TYPE, "type": "https://x.example/p/1.0/m", "from": "did:x:a", "to": ["did:x:b"],
            "thid": "0", "pthid": "p", "created_time": 7, "expires_time": 9, "body": {"a": [1]}, "lang": "en",
            "return_route": "all", "attachments": [{"id": "x"}]});
        let message = Message::parse(text.to_string().as_bytes()).expect("a message");
        assert_eq!(message.to_json(), text);
        assert_eq!((message.thread(), message.protocol()), ("0", "https://x.example/p/1.0"));
        assert!(message.has_expired(9) && !message.has_expired(8));
    }

    #[test]
    fn a_message_without_its_members_or_of_another_shape_is_refused() {
        let with = |name: &str, value: Value| {
            let mut members = json!({"id": "1", "type": "t/1.0/m", "body": {}});
            members[name] = value;
            members
        };
        for (value, expected) in [
            (with("id", json!("x".repeat(limits::MAX_ID_BYTES))), Ok(())),
            (with("id", json!("x".repeat(limits::MAX_ID_BYTES + 1))), Err(Refusal::NotAMessage)),
            (with("id", json!("")), Err(Refusal::NotAMessage)),
            (with("id", json!(7)), Err(Refusal::NotAMessage)),
            (with("id", json!("a\nb")), Err(Refusal::NotAMessage)),
            (with("type", json!(null)), Err(Refusal::NotAMessage)),
            (with("to", json!("did:x:a")), Err(Refusal::NotAMessage)),
            (with("to", json!(vec!["did:x:a"; 9])), Err(Refusal::NotAMessage)),
            (with("from", json!("d".repeat(limits::MAX_DID_BYTES + 1))), Err(Refusal::NotAMessage)),
            (with("body", json!([])), Err(Refusal::NotAMessage)),
            (with("expires_time", json!("soon")), Err(Refusal::NotAMessage)),
            (with("expires_time", json!("2027-01-01T00:00:00.000Z")), Ok(())),
            (json!({"protected": "", "ciphertext": ""}), Err(Refusal::Nested)),
            (json!({"payload": "", "signatures": []}), Err(Refusal::Nested)),
            (with("body", json!({"content": "a\u{0}"})), Err(Refusal::NotAMessage)),
            (with("body", json!({"content": "a\\u0000"})), Ok(())),
            (json!([1]), Err(Refusal::NotAMessage)),
        ] {
            assert_eq!(Message::parse(value.to_string().as_bytes()).map(|_| ()), expected, "{value:.80}");
        }
        assert_eq!(Message::parse(b"{\"id\":\"1\",\"id\":\"2\"}"), Err(Refusal::NotJson));
        assert_eq!(Message::parse(b"{\"id\":\"\xff\"}"), Err(Refusal::NotJson));
    }

    #[test]
    fn the_end_of_a_link_is_not_that_of_its_message() {
        let link = json!({"id": "1", "type": "https://didcomm.org/vt-flow/1.0/oob-link", "body": {},
            "expires_time": "2001-01-01T00:00:00.000Z"});
        let message = Message::parse(link.to_string().as_bytes()).expect("a message");
        assert_eq!(message.expires_time, None);
        assert_eq!(message.other["expires_time"], link["expires_time"]);
    }
}
