//! Bodies and queries, read strictly: everything that is not known is refused by name.

use std::time::Duration;

use axum::{
    body::{HttpBody, to_bytes},
    extract::{Path, Request, rejection::PathRejection},
    http::{HeaderMap, header::CONTENT_TYPE},
};
use http_body_util::LengthLimitError;
use serde_json::{Map, Value};
use svc_agent::{Refusal, RefusalCode};
use svc_wire::strict_json::parse_strict_json;

/// Longest body, in bytes.
const MAX_BODY_BYTES: usize = 5_242_880;
/// Longest body of a login, which strangers send too.
const MAX_LOGIN_BYTES: usize = 16 * 1024;
/// Parameters of a query; no route has as many.
const MAX_PARAMETERS: usize = 16;
/// Deepest nesting of a body.
const MAX_NESTING: usize = 32;
/// Longest wait for a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

fn invalid(path: &str, rule: impl Into<String>) -> Refusal {
    Refusal::of_member(RefusalCode::InvalidInput, path, rule)
}

/// The members of a body. Each is taken once; those that are left are unknown.
pub(in crate::admin) struct BodyMembers(Map<String, Value>);

impl BodyMembers {
    /// Reads the body of a request.
    pub async fn read(request: Request) -> Result<Self, Refusal> {
        Self::read_within(request, MAX_BODY_BYTES).await
    }

    /// Reads the body of a login.
    pub async fn read_login(request: Request) -> Result<Self, Refusal> {
        Self::read_within(request, MAX_LOGIN_BYTES).await
    }

    async fn read_within(request: Request, limit: usize) -> Result<Self, Refusal> {
        require_json(request.headers())?;
        let too_long = || Refusal::new(RefusalCode::BodyTooLong, format!("the body is longer than {limit} bytes"));
        let read = tokio::time::timeout(BODY_TIMEOUT, to_bytes(request.into_body(), limit)).await;
        let late = || invalid("body", format!("it did not arrive within {} s", BODY_TIMEOUT.as_secs()));
        let bytes = read.map_err(|_| late())?.map_err(|error| {
            let is_too_long = std::error::Error::source(&error).is_some_and(|cause| cause.is::<LengthLimitError>());
            if is_too_long { too_long() } else { invalid("body", "it did not arrive whole") }
        })?;
        match parse_strict_json(&bytes, MAX_NESTING).map_err(|error| invalid("body", error.to_string()))? {
            Value::Object(members) => Ok(Self(members)),
            _ => Err(invalid("body", "it is no JSON object")),
        }
    }

    /// Reads the body of a request that needs none: an absent one has no members.
    pub async fn read_optional(request: Request) -> Result<Self, Refusal> {
        if !request.headers().contains_key(CONTENT_TYPE) && request.body().is_end_stream() {
            return Ok(Self(Map::new()));
        }
        Self::read(request).await
    }

    /// Takes a member of any kind but null.
    pub fn take(&mut self, name: &str) -> Result<Option<Value>, Refusal> {
        match self.0.remove(name) {
            Some(Value::Null) => Err(invalid(name, "null is not allowed; leave the member out")),
            value => Ok(value),
        }
    }

    /// Takes a text.
    pub fn take_text(&mut self, name: &str) -> Result<Option<String>, Refusal> {
        match self.take(name)? {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(invalid(name, "it is no text")),
        }
    }

    /// Takes a member that is true or false.
    pub fn take_flag(&mut self, name: &str) -> Result<Option<bool>, Refusal> {
        match self.take(name)? {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(_) => Err(invalid(name, "allowed are true and false")),
        }
    }

    /// Takes a text that must be there.
    pub fn require_text(&mut self, name: &str) -> Result<String, Refusal> {
        self.take_text(name)?.ok_or_else(|| invalid(name, "it is missing"))
    }

    /// Takes a member that must be there.
    pub fn require(&mut self, name: &str) -> Result<Value, Refusal> {
        self.take(name)?.ok_or_else(|| invalid(name, "it is missing"))
    }

    /// Refuses the members that are left. `allowed` are the names of all known ones.
    pub fn finish(self, allowed: &str) -> Result<(), Refusal> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => Err(invalid(&shown(name), format!("it is unknown; allowed: {allowed}"))),
        }
    }
}

fn require_json(headers: &HeaderMap) -> Result<(), Refusal> {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default().to_ascii_lowercase();
    let mut parts = text.split(';').map(str::trim);
    let is_json = parts.next() == Some("application/json")
        && parts.all(|parameter| matches!(parameter, "charset=utf-8" | "charset=\"utf-8\""));
    if is_json {
        return Ok(());
    }
    let message = format!("the Content-Type is {:?}; allowed is application/json", shown(&text));
    Err(Refusal::new(RefusalCode::UnsupportedMediaType, message))
}

/// The parameters of a query. Each is taken once; those that are left are unknown.
pub(in crate::admin) struct QueryParameters(Vec<(String, String)>);

impl QueryParameters {
    /// Parses the query of a request.
    pub fn parse(query: Option<&str>) -> Result<Self, Refusal> {
        let pairs: Vec<(String, String)> =
            url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned().collect();
        if pairs.len() > MAX_PARAMETERS {
            return Err(invalid("query", format!("it has more than {MAX_PARAMETERS} parameters")));
        }
        let is_repeated = |place: usize| pairs[..place].iter().any(|(name, _)| *name == pairs[place].0);
        match (0..pairs.len()).find(|place| is_repeated(*place)) {
            None => Ok(Self(pairs)),
            Some(place) => Err(invalid(&shown(&pairs[place].0), "it is given more than once")),
        }
    }

    /// Takes a parameter.
    pub fn take(&mut self, name: &str) -> Option<String> {
        let place = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(place).1)
    }

    /// Takes a parameter that is true or false.
    pub fn take_flag(&mut self, name: &str) -> Result<Option<bool>, Refusal> {
        let parse = |text: String| text.parse().map_err(|_| invalid(name, "allowed are true and false"));
        self.take(name).map(parse).transpose()
    }

    /// Takes the size of a page.
    pub fn take_limit(&mut self) -> Result<usize, Refusal> {
        const DEFAULT: usize = 100;
        let parse = |text: String| {
            let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let number = text.parse().ok().filter(|number| is_plain && (1..=500).contains(number));
            number.ok_or_else(|| invalid("limit", "allowed is a whole number from 1 to 500"))
        };
        self.take("limit").map(parse).transpose().map(|limit| limit.unwrap_or(DEFAULT))
    }

    /// Refuses the parameters that are left. `allowed` are the names of all known ones.
    pub fn finish(self, allowed: &str) -> Result<(), Refusal> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => Err(invalid(&shown(name), format!("it is unknown; allowed: {allowed}"))),
        }
    }
}

/// The parameter of a path.
pub(in crate::admin) fn parse_path(path: Result<Path<String>, PathRejection>) -> Result<String, Refusal> {
    path.map(|Path(text)| text).map_err(|_| invalid("id", "it is not UTF-8"))
}

/// The begin of a text of a caller.
fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}
