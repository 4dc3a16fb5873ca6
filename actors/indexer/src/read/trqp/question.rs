//! What a TRQP question says: action, resource, context; and which instant it is about. Pure.

use std::fmt;

use serde_json::Value;

use super::{ReadError, instant_of, iso_millis};
use crate::read::{
    body::bad_json,
    params::{Params, bad, instant, uuid},
};

/// Each action, and the role that may take it.
pub const ACTIONS: [(&str, &str); 5] = [
    ("issue", "ISSUER"),
    ("verify", "VERIFIER"),
    ("grant_issue", "ISSUER_GRANTOR"),
    ("grant_verify", "VERIFIER_GRANTOR"),
    ("govern", "ECOSYSTEM"),
];

/// The form of a resource.
pub const GRAMMAR: &str = "vpr:<word>:<chain id>:cs:<schema id>";

/// A registry: its namespace word and its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network<'a> {
    pub word: &'a str,
    pub chain_id: &'a str,
}

impl fmt::Display for Network<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "vpr:{}:{}", self.word, self.chain_id)
    }
}

/// A credential schema of some registry.
#[derive(Debug, PartialEq, Eq)]
pub struct Resource<'a> {
    pub text: &'a str,
    pub network: Network<'a>,
    pub schema_id: u64,
}

impl<'a> Resource<'a> {
    /// Takes a resource apart. A chain id may hold a colon; nothing holds a blank.
    fn read(text: &'a str) -> Result<Self, ReadError> {
        let parts = || {
            let (word, rest) = text.strip_prefix("vpr:")?.split_once(':')?;
            let (chain_id, digits) = rest.rsplit_once(":cs:")?;
            let is_canonical = !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
            let is_whole = !word.is_empty() && !chain_id.is_empty() && !text.contains(char::is_whitespace);
            let schema_id = digits.parse().ok().filter(|_| is_canonical && is_whole)?;
            Some(Self { text, network: Network { word, chain_id }, schema_id })
        };
        parts().ok_or_else(|| bad("resource", text, GRAMMAR))
    }
}

/// When the question is about. Other members of a context are ignored, as the protocol leaves them open.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Context<'a> {
    /// Nanoseconds since the epoch.
    pub time: Option<i128>,
    /// A participant session; it goes before the time.
    pub session: Option<&'a str>,
}

impl<'a> Context<'a> {
    fn read(context: Option<&'a Value>) -> Result<Self, ReadError> {
        // A blank counts as absent, as in every parameter.
        let text = |key: &str, allowed: &str| match context.and_then(|context| context.get(key)) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim()).filter(|text| !text.is_empty())),
            Some(other) => Err(bad_json(&format!("context.{key}"), other, allowed)),
        };
        let time = text("time", "an RFC 3339 instant")?;
        let session = text("session_id", "a UUID")?;
        if let Some(session) = session {
            uuid("context.session_id", session)?;
        }
        Ok(Self { time: time.map(|time| instant("context.time", time)).transpose()?, session })
    }
}

/// One question.
#[derive(Debug)]
pub struct Question<'a> {
    pub authority: &'a str,
    pub entity: &'a str,
    pub action: &'a str,
    /// The role that may take the action.
    pub role: &'static str,
    pub resource: Resource<'a>,
    pub context: Context<'a>,
}

impl<'a> Question<'a> {
    pub fn read(params: &'a Params) -> Result<Self, ReadError> {
        let text = |name: &str| params.text(name).unwrap_or_default();
        let action = text("action");
        let role = ACTIONS.iter().find(|(known, _)| *known == action).map(|(_, role)| *role);
        Ok(Self {
            authority: text("authority_id"),
            entity: text("entity_id"),
            action,
            role: role.ok_or_else(|| bad("action", action, &ACTIONS.map(|(known, _)| known).join(", ")))?,
            resource: Resource::read(text("resource"))?,
            context: Context::read(params.json("context"))?,
        })
    }
}

/// The instant a question is decided at, and the block whose rows decide it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// The time that was asked about, or that of the block.
    pub requested: i128,
    /// The time at which states are derived.
    pub evaluated: i128,
    pub height: u64,
    /// What has to be said about it.
    pub note: Option<String>,
}

const MILLISECOND: i128 = 1_000_000;

/// The end of an instant's millisecond. Times travel in milliseconds: who asks about the time of a block, as it was told,
/// means the state after it.
pub fn a_millisecond_later(instant: i128) -> i128 {
    (instant.div_euclid(MILLISECOND) + 1) * MILLISECOND
}

/// The window of a participant session is from its first record (`created`) to its last (`modified`); the chain knows no
/// other end of it. A question about a session is about its last record: nothing after the window counts, neither a later
/// revocation nor a later validation, and what changed within it counts.
pub fn instant_of_session(session: &Value) -> Option<i128> {
    instant_of(session, "modified").or_else(|| instant_of(session, "created"))
}

/// A time after the block is answered from what the block has scheduled: a participant that ends before it is over by then.
/// What later blocks will change nobody knows, and the answer says so.
pub fn note_on_the_future(evaluated: i128, height: u64, now: i128) -> Option<String> {
    (evaluated >= a_millisecond_later(now)).then(|| {
        format!("context.time is after block {height} ({}): decided by what that block knows", iso_millis(now))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_resource_is_a_schema_of_a_registry() {
        for (text, word, chain_id, schema_id) in [
            ("vpr:svc:svc-devnet-1:cs:1", "svc", "svc-devnet-1", 1),
            ("vpr:acme:a:b:cs:18446744073709551615", "acme", "a:b", u64::MAX),
            ("vpr:svc:c:cs:2:cs:3", "svc", "c:cs:2", 3),
        ] {
            let found = Resource::read(text).expect(text);
            assert_eq!(found, Resource { text, network: Network { word, chain_id }, schema_id });
            assert_eq!(format!("{}:cs:{schema_id}", found.network), text);
        }
        for text in [
            "",
            "1",
            "vpr",
            "vpr:svc:c:cs",
            "vpr:svc:c:cs:",
            "vpr:svc:c:cs:0",
            "vpr:svc:c:cs:01",
            "vpr:svc:c:cs:-1",
            "vpr:svc:c:cs:+1",
            "vpr:svc:c:cs:1.5",
            "vpr:svc:c:cs:x",
            "vpr:svc:c:cs:18446744073709551616",
            "vpr::c:cs:1",
            "vpr:svc::cs:1",
            "vpr:svc:cs:1",
            "VPR:svc:c:cs:1",
            "vpr:svc:c:CS:1",
            "vpr:svc:c:es:1",
            "did:web:a",
            "vpr:svc:c d:cs:1",
            "vpr:svc:c:cs: 1",
            "vpr:svc:c/cs/v1/js/1",
        ] {
            let error = Resource::read(text).expect_err(text).to_string();
            assert_eq!(error, format!("resource: {text:?} is not vpr:<word>:<chain id>:cs:<schema id>"));
        }
    }

    #[test]
    fn a_context_names_an_instant_or_a_session_and_may_hold_more() {
        let session = "6ba7b810-9dad-41d1-80b4-00c04fd430c8";
        for (context, time, found) in [
            (json!({}), None, None),
            (json!({"time": null, "session_id": null, "locator": 5}), None, None),
            (json!({"time": " ", "session_id": ""}), None, None),
            (json!({"time": "1970-01-01T00:00:01Z"}), Some(1_000_000_000), None),
            (json!({"time": "1970-01-01T01:00:00.5+01:00"}), Some(500_000_000), None),
            (json!({"time": "1970-01-01T00:00:01Z", "session_id": session}), Some(1_000_000_000), Some(session)),
        ] {
            let context = Context::read(Some(&context)).expect("a context").pair();
            assert_eq!(context, (time, found));
        }
        assert_eq!(Context::read(None).expect("none"), Context::default());
        for (context, expected) in [
            (json!({"time": "yesterday"}), "context.time: \"yesterday\" is not an RFC 3339 instant"),
            (json!({"time": "2026-01-01"}), "context.time: \"2026-01-01\" is not an RFC 3339 instant"),
            (
                json!({"time": "2026-01-01T00:00:00"}),
                "context.time: \"2026-01-01T00:00:00\" is not an RFC 3339 instant",
            ),
            (json!({"time": "2026-02-30T00:00:00Z"}), "context.time: \"2026-02-30T00:00:00Z\" is not"),
            (json!({"time": "9999-12-31T23:59:59-01:00"}), "context.time: \"9999-12-31T23:59:59-01:00\" is not"),
            (json!({"time": "0000-01-01T00:00:00+01:00"}), "context.time: \"0000-01-01T00:00:00+01:00\" is not"),
            (json!({"time": 1_767_225_600}), "context.time: 1767225600 is not an RFC 3339 instant"),
            (json!({"time": {}}), "context.time: an object is not an RFC 3339 instant"),
            (json!({"session_id": 5}), "context.session_id: 5 is not a UUID"),
            (json!({"session_id": "the last one"}), "context.session_id: \"the last one\" is not a UUID"),
            // A session goes before the time, but a mistake is told all the same.
            (json!({"time": "x", "session_id": session}), "context.time: \"x\" is not an RFC 3339 instant"),
        ] {
            let error = Context::read(Some(&context)).expect_err("malformed").to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    impl<'a> Context<'a> {
        fn pair(&self) -> (Option<i128>, Option<&'a str>) {
            (self.time, self.session)
        }
    }

    #[test]
    fn an_instant_means_its_whole_millisecond() {
        for (instant, expected) in
            [(0, 1_000_000), (999_999, 1_000_000), (1_000_000, 2_000_000), (-1, 0), (-1_000_001, -1_000_000)]
        {
            assert_eq!(a_millisecond_later(instant), expected, "{instant}");
        }
        // The block is of 5.000123 s, told as 5.000.
        let now = 5_000_123_000;
        for (evaluated, is_after) in [(5_000_000_000, false), (5_000_999_999, false), (5_001_000_000, true)] {
            assert_eq!(note_on_the_future(evaluated, 7, now).is_some(), is_after, "{evaluated}");
        }
        let note = note_on_the_future(i128::MAX, 7, now).expect("a note");
        assert_eq!(note, "context.time is after block 7 (1970-01-01T00:00:05.000Z): decided by what that block knows");
    }

    #[test]
    fn a_session_is_about_its_last_record() {
        let at =
            |created: Value, modified: Value| instant_of_session(&json!({"created": created, "modified": modified}));
        let [one, two] = ["1970-01-01T00:00:01.000Z", "1970-01-01T00:00:02.000Z"].map(Value::from);
        assert_eq!(at(one.clone(), two), Some(2_000_000_000));
        assert_eq!(at(one, Value::Null), Some(1_000_000_000));
        assert_eq!(at(Value::Null, Value::Null), None);
    }
}
