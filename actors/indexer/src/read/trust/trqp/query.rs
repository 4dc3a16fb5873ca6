//! TRQP queries: action, resource and context, and the instant of the decision. Pure.

use serde_json::Value;

use super::registry_id::RegistryId;
use crate::{
    read::{
        arguments::{
            json_body::invalid_json,
            params::{ReadArguments, invalid_value, parse_instant_param, parse_uuid},
        },
        error::ReadError,
    },
    store::iso_millis,
};
use svc_wire::timestamp::parse_instant;

/// The actions, each with the role that it requires.
pub const ACTION_ROLES: [(&str, &str); 5] = [
    ("issue", "ISSUER"),
    ("verify", "VERIFIER"),
    ("grant_issue", "ISSUER_GRANTOR"),
    ("grant_verify", "VERIFIER_GRANTOR"),
    ("govern", "ECOSYSTEM"),
];

/// The form of a resource.
pub const RESOURCE_GRAMMAR: &str = "vpr:<word>:<chain id>:cs:<schema id>";

/// A credential schema of a registry.
#[derive(Debug, PartialEq, Eq)]
pub struct TrqpResource<'a> {
    pub text: &'a str,
    pub network: RegistryId<'a>,
    pub schema_id: u64,
}

impl<'a> TrqpResource<'a> {
    /// Parses a resource. A chain id may contain a colon; no part may contain whitespace.
    fn parse(text: &'a str) -> Result<Self, ReadError> {
        let parts = || {
            let (word, rest) = text.strip_prefix("vpr:")?.split_once(':')?;
            let (chain_id, digits) = rest.rsplit_once(":cs:")?;
            let is_canonical = !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
            let is_whole = !word.is_empty() && !chain_id.is_empty() && !text.contains(char::is_whitespace);
            let schema_id = digits.parse().ok().filter(|_| is_canonical && is_whole)?;
            Some(Self { text, network: RegistryId { namespace: word, chain_id }, schema_id })
        };
        parts().ok_or_else(|| invalid_value("resource", text, RESOURCE_GRAMMAR))
    }
}

/// The instant of a query. Other members of a context are ignored: the protocol allows any.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TrqpContext<'a> {
    /// Nanoseconds since the epoch.
    pub time: Option<i128>,
    /// Id of a participant session; it takes precedence over the time.
    pub session: Option<&'a str>,
}

impl<'a> TrqpContext<'a> {
    fn parse(context: Option<&'a Value>) -> Result<Self, ReadError> {
        // An empty text counts as absent, as in every parameter.
        let text = |key: &str, allowed: &str| match context.and_then(|context| context.get(key)) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim()).filter(|text| !text.is_empty())),
            Some(other) => Err(invalid_json(&format!("context.{key}"), other, allowed)),
        };
        let time = text("time", "an RFC 3339 instant")?;
        let session = text("session_id", "a UUID")?;
        if let Some(session) = session {
            parse_uuid("context.session_id", session)?;
        }
        Ok(Self { time: time.map(|time| parse_instant_param("context.time", time)).transpose()?, session })
    }
}

/// A query.
#[derive(Debug)]
pub struct TrqpQuery<'a> {
    pub authority: &'a str,
    pub entity: &'a str,
    pub action: &'a str,
    /// The role that the action requires.
    pub role: &'static str,
    pub resource: TrqpResource<'a>,
    pub context: TrqpContext<'a>,
}

impl<'a> TrqpQuery<'a> {
    /// Parses a query from its parameters. Fails when one is invalid.
    pub fn parse(params: &'a ReadArguments) -> Result<Self, ReadError> {
        let text = |name: &str| params.text(name).unwrap_or_default();
        let action = text("action");
        let role = ACTION_ROLES.iter().find(|(known, _)| *known == action).map(|(_, role)| *role);
        Ok(Self {
            authority: text("authority_id"),
            entity: text("entity_id"),
            action,
            role: role
                .ok_or_else(|| invalid_value("action", action, &ACTION_ROLES.map(|(known, _)| known).join(", ")))?,
            resource: TrqpResource::parse(text("resource"))?,
            context: TrqpContext::parse(params.json("context"))?,
        })
    }
}

/// The instant and the block of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionPoint {
    /// Time of the query, or of the block; nanoseconds since the epoch.
    pub requested_time: i128,
    /// Time at which states are derived; nanoseconds since the epoch.
    pub evaluated_time: i128,
    pub height: u64,
    /// Remark for the answer.
    pub note: Option<String>,
}

const MILLISECOND: i128 = 1_000_000;

/// Returns the end of the millisecond of an instant. Answers contain block times in milliseconds, so a query for such a
/// time means the state after the block.
pub fn end_of_millisecond(instant: i128) -> i128 {
    (instant.div_euclid(MILLISECOND) + 1) * MILLISECOND
}

/// Returns the instant of a query for a participant session: its last record. A session extends from its first record
/// (`created`) to its last (`modified`); the chain has no other end of it. Changes after the last record do not count,
/// neither a revocation nor a validation; changes between the records count.
pub fn session_time(session: &Value) -> Option<i128> {
    parse_instant(session, "modified").or_else(|| parse_instant(session, "created"))
}

/// Returns the remark for a time after the block. Such a query is decided on the scheduled changes of the block, for
/// example the end of a participant; changes by later blocks are unknown.
pub fn future_time_note(evaluated: i128, height: u64, now: i128) -> Option<String> {
    (evaluated >= end_of_millisecond(now)).then(|| {
        format!("context.time is after block {height} ({}): decided by what that block knows", iso_millis(now))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_resource_is_a_schema_of_a_registry() {
        for (text, namespace, chain_id, schema_id) in [
            ("vpr:svc:svc-devnet-1:cs:1", "svc", "svc-devnet-1", 1),
            ("vpr:acme:a:b:cs:18446744073709551615", "acme", "a:b", u64::MAX),
            ("vpr:svc:c:cs:2:cs:3", "svc", "c:cs:2", 3),
        ] {
            let found = TrqpResource::parse(text).expect(text);
            assert_eq!(found, TrqpResource { text, network: RegistryId { namespace, chain_id }, schema_id });
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
            let error = TrqpResource::parse(text).expect_err(text).to_string();
            assert_eq!(error, format!("resource: {text:?} is not vpr:<word>:<chain id>:cs:<schema id>"));
        }
    }

    #[test]
    fn a_context_has_an_instant_or_a_session_and_other_members() {
        let session = "6ba7b810-9dad-41d1-80b4-00c04fd430c8";
        for (context, time, found) in [
            (json!({}), None, None),
            (json!({"time": null, "session_id": null, "locator": 5}), None, None),
            (json!({"time": " ", "session_id": ""}), None, None),
            (json!({"time": "1970-01-01T00:00:01Z"}), Some(1_000_000_000), None),
            (json!({"time": "1970-01-01T01:00:00.5+01:00"}), Some(500_000_000), None),
            (json!({"time": "1970-01-01T00:00:01Z", "session_id": session}), Some(1_000_000_000), Some(session)),
        ] {
            let context = TrqpContext::parse(Some(&context)).expect("a context").pair();
            assert_eq!(context, (time, found));
        }
        assert_eq!(TrqpContext::parse(None).expect("none"), TrqpContext::default());
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
            // A session takes precedence over the time, but an invalid time is an error.
            (json!({"time": "x", "session_id": session}), "context.time: \"x\" is not an RFC 3339 instant"),
        ] {
            let error = TrqpContext::parse(Some(&context)).expect_err("malformed").to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    impl<'a> TrqpContext<'a> {
        fn pair(&self) -> (Option<i128>, Option<&'a str>) {
            (self.time, self.session)
        }
    }

    #[test]
    fn an_instant_stands_for_its_whole_millisecond() {
        for (instant, expected) in
            [(0, 1_000_000), (999_999, 1_000_000), (1_000_000, 2_000_000), (-1, 0), (-1_000_001, -1_000_000)]
        {
            assert_eq!(end_of_millisecond(instant), expected, "{instant}");
        }
        // The time of the block is 5.000123 s; answers show it as 5.000.
        let now = 5_000_123_000;
        for (evaluated, is_after) in [(5_000_000_000, false), (5_000_999_999, false), (5_001_000_000, true)] {
            assert_eq!(future_time_note(evaluated, 7, now).is_some(), is_after, "{evaluated}");
        }
        let note = future_time_note(i128::MAX, 7, now).expect("a note");
        assert_eq!(note, "context.time is after block 7 (1970-01-01T00:00:05.000Z): decided by what that block knows");
    }

    #[test]
    fn the_instant_of_a_session_is_its_last_record() {
        let at = |created: Value, modified: Value| session_time(&json!({"created": created, "modified": modified}));
        let [one, two] = ["1970-01-01T00:00:01.000Z", "1970-01-01T00:00:02.000Z"].map(Value::from);
        assert_eq!(at(one.clone(), two), Some(2_000_000_000));
        assert_eq!(at(one, Value::Null), Some(1_000_000_000));
        assert_eq!(at(Value::Null, Value::Null), None);
    }
}
