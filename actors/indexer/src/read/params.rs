//! Parameters of a read: typed, bounded, and named in every complaint. Pure.

use std::{collections::HashMap, ops::RangeInclusive};

use svc_wire::{
    instant,
    reads::{Endpoint, Param, ParamType, Place},
};
use uuid::Uuid;

use super::ReadError;
use crate::{derive::measures::Metric, hub::did_spellings, store::Range};

/// Longest value of a parameter that is no list, in bytes.
const MAX_TEXT: usize = 2_048;
/// Longest list, in bytes.
const MAX_LIST: usize = 65_536;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Number(u64),
    Flag(bool),
    Instant(i128),
    Text(String),
    List(Vec<String>),
    Json(serde_json::Value),
}

/// Parameters of one request. Unknown ones are ignored.
#[derive(Debug, Default)]
pub struct Params(HashMap<&'static str, Value>);

/// Which part of a list.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// Most rows.
    pub limit: usize,
    /// Which ids, in which order.
    pub range: Range,
}

/// The complaint about a value, which names the parameter and what is allowed.
pub(super) fn bad(name: &str, value: &str, allowed: &str) -> ReadError {
    let shown: String = value.chars().take(64).collect();
    let cut = if shown.len() < value.len() { "…" } else { "" };
    ReadError::Parameter(format!("{name}: {shown:?}{cut} is not {allowed}"))
}

fn number(param: &Param, text: &str, least: u64) -> Result<u64, ReadError> {
    let (low, high) = (param.min.unwrap_or(least), param.max.unwrap_or(u64::MAX));
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = text.parse().ok().filter(|number| is_digits && (low..=high).contains(number));
    let allowed = || match param.max {
        Some(high) => format!("a whole number from {low} to {high}"),
        None => format!("a whole number of {low} or more"),
    };
    parsed.ok_or_else(|| bad(&param.name, text, &allowed()))
}

/// A UUID as the ledger takes it, in any of its forms.
pub(super) fn uuid(name: &str, text: &str) -> Result<String, ReadError> {
    match Uuid::try_parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(bad(name, text, "a UUID")),
    }
}

/// Seconds of the years 0 to 9999 in UTC: an offset may lead out of what RFC 3339 can write.
const WRITABLE: RangeInclusive<i64> = -62_167_219_200..=253_402_300_799;

/// An instant in nanoseconds since the epoch.
pub(super) fn instant(name: &str, text: &str) -> Result<i128, ReadError> {
    let instant = instant::parse_rfc3339(text).filter(|instant| WRITABLE.contains(&instant.seconds));
    instant.as_ref().map(instant::nanos).ok_or_else(|| bad(name, text, "an RFC 3339 instant"))
}

/// A value of a parameter from its text.
pub(super) fn value(param: &Param, raw: &str) -> Result<Value, ReadError> {
    let name = param.name.as_str();
    let is_list = matches!(param.kind, ParamType::Texts | ParamType::Dids | ParamType::Ids);
    let most = if is_list { MAX_LIST } else { MAX_TEXT };
    if raw.len() > most {
        return Err(ReadError::Parameter(format!("{name}: longer than {most} bytes")));
    }
    if raw.contains(char::is_control) {
        return Err(bad(name, raw, "free of control characters"));
    }
    let text = raw.trim();
    let elements = || text.split(',').map(str::trim);
    Ok(match param.kind {
        ParamType::Id => Value::Number(number(param, text, 1)?),
        ParamType::Uint => Value::Number(number(param, text, 0)?),
        ParamType::Digits if text.bytes().all(|byte| byte.is_ascii_digit()) => Value::Text(text.to_owned()),
        ParamType::Digits => return Err(bad(name, text, "a whole number of 0 or more")),
        ParamType::Flag => Value::Flag(match text {
            "true" | "1" | "on" => true,
            "false" | "0" | "off" => false,
            _ => return Err(bad(name, text, "true or false")),
        }),
        ParamType::Enum => {
            let found = param.allowed.iter().find(|allowed| allowed.eq_ignore_ascii_case(text));
            Value::Text(found.ok_or_else(|| bad(name, text, &format!("one of {}", param.allowed.join(", "))))?.clone())
        }
        ParamType::Instant => Value::Instant(instant(name, text)?),
        ParamType::Text | ParamType::Selector | ParamType::Object => Value::Text(text.to_owned()),
        ParamType::Texts => {
            let most = param.max.unwrap_or(u64::MAX);
            let list: Vec<String> = elements().map(str::to_owned).collect();
            if list.iter().any(String::is_empty) || list.len() as u64 > most {
                return Err(bad(name, text, &format!("1 to {most} values behind commas, none empty")));
            }
            Value::List(list)
        }
        ParamType::Dids => {
            let strict = param.min.is_some();
            if let Some(wrong) = elements().find(|element| strict && did_spellings(element).next().is_none()) {
                return Err(bad(name, wrong, "a DID"));
            }
            Value::List(elements().flat_map(did_spellings).collect())
        }
        ParamType::Ids => {
            for element in elements() {
                number(param, element, 1)?;
            }
            Value::List(elements().map(str::to_owned).collect())
        }
        ParamType::Uuid => Value::Text(uuid(name, text)?),
        ParamType::Cursor => {
            let parts = text.split_once('.');
            let is_ours = parts
                .is_some_and(|(height, position)| height.parse::<u64>().is_ok() && position.parse::<u64>().is_ok());
            if !is_ours {
                return Err(bad(name, text, "a cursor this indexer gave"));
            }
            Value::Text(text.to_owned())
        }
    })
}

impl Params {
    /// Reads what path and query give for an endpoint's parameters.
    pub fn read<'a>(
        endpoint: &'static Endpoint,
        path: impl IntoIterator<Item = (&'a str, &'a str)>,
        query: &str,
    ) -> Result<Self, ReadError> {
        let mut given: HashMap<String, Vec<String>> = HashMap::new();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            given.entry(name.into_owned()).or_default().push(value.into_owned());
        }
        let path: HashMap<&str, &str> = path.into_iter().collect();
        Self::collect(endpoint, |param| {
            let name = param.name.as_str();
            let raw = match param.place {
                Place::Path => path.get(name).copied(),
                Place::Query => match given.get(name).map(Vec::as_slice) {
                    None => None,
                    Some([one]) => Some(one.as_str()),
                    Some(_) => return Err(ReadError::Parameter(format!("{name}: given more than once"))),
                },
                Place::Body => None,
            };
            // An empty value counts as absent, but a list of DIDs without one finds nothing.
            let raw = raw.filter(|raw| !raw.trim().is_empty() || param.kind == ParamType::Dids);
            raw.map(|raw| value(param, raw)).transpose()
        })
    }

    /// Asks for the value of each parameter; what is absent takes its default, or is missed.
    pub(super) fn collect(
        endpoint: &'static Endpoint,
        given: impl Fn(&'static Param) -> Result<Option<Value>, ReadError>,
    ) -> Result<Self, ReadError> {
        let mut params = Self::default();
        let mut missing = None;
        for param in &endpoint.params {
            let name = param.name.as_str();
            let found = match given(param)? {
                None => param.default.as_deref().map(|raw| value(param, raw)).transpose()?,
                found => found,
            };
            match found {
                Some(found) => {
                    params.0.insert(name, found);
                }
                None if param.required => missing = missing.or(Some(name)),
                None => {}
            }
        }
        match missing {
            Some(name) => Err(ReadError::Parameter(format!("{name}: is required"))),
            None => Ok(params),
        }
    }

    /// A number.
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.0.get(name) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// True or false.
    pub fn flag(&self, name: &str) -> Option<bool> {
        match self.0.get(name) {
            Some(Value::Flag(flag)) => Some(*flag),
            _ => None,
        }
    }

    /// Nanoseconds since the epoch.
    pub fn instant(&self, name: &str) -> Option<i128> {
        match self.0.get(name) {
            Some(Value::Instant(instant)) => Some(*instant),
            _ => None,
        }
    }

    /// A text.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.0.get(name) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// A list.
    pub fn list(&self, name: &str) -> Option<&[String]> {
        match self.0.get(name) {
            Some(Value::List(list)) => Some(list),
            _ => None,
        }
    }

    /// An object, or `true` or `false` where a selector was given.
    pub fn json(&self, name: &str) -> Option<&serde_json::Value> {
        match self.0.get(name) {
            Some(Value::Json(json)) => Some(json),
            _ => None,
        }
    }

    /// A number that must be there.
    pub fn required(&self, name: &str) -> Result<u64, ReadError> {
        self.number(name).ok_or_else(|| ReadError::Parameter(format!("{name}: is required")))
    }

    /// Page of a list.
    pub fn page(&self) -> Page {
        Page {
            limit: usize::try_from(self.number("limit").unwrap_or(64)).unwrap_or(usize::MAX),
            range: Range {
                min_id: self.number("min_id"),
                max_id: self.number("max_id"),
                is_descending: self.text("sort").is_none_or(|sort| sort == "-id"),
            },
        }
    }

    /// Bounds on figures: the lower is inclusive, the upper exclusive.
    pub fn bounds(&self) -> Vec<(Metric, Option<u64>, Option<u64>)> {
        let bound = |metric: &Metric| {
            let [low, high] = ["min", "max"].map(|end| self.number(&format!("{end}_{}", metric.name())));
            (low.is_some() || high.is_some()).then_some((*metric, low, high))
        };
        Metric::ALL.iter().filter_map(bound).collect()
    }
}

#[cfg(test)]
mod tests {
    use svc_wire::reads::endpoint;

    use super::*;

    fn read(operation: &str, query: &str) -> Result<Params, ReadError> {
        Params::read(endpoint(operation).expect("an endpoint"), [], query)
    }

    #[test]
    fn every_complaint_names_the_parameter_and_what_is_allowed() {
        for (operation, query, expected) in [
            ("es.listEcosystems", "limit=0", "limit: \"0\" is not a whole number from 1 to 1024"),
            ("es.listEcosystems", "limit=1025", "limit: \"1025\" is not a whole number from 1 to 1024"),
            ("indexer.listEvents", "limit=501", "limit: \"501\" is not a whole number from 1 to 500"),
            ("es.listEcosystems", "min_id=+1", "min_id: \"1\""),
            ("es.listEcosystems", "min_id=-1", "min_id: \"-1\" is not a whole number of 0 or more"),
            ("es.listEcosystems", "sort=name", "sort: \"name\" is not one of id, +id, -id"),
            ("es.listEcosystems", "limit=1&limit=2", "limit: given more than once"),
            ("es.listEcosystems", "gf_data=some", "gf_data: \"some\" is not one of none, only_active, all"),
            ("es.listEcosystems", "archived=maybe", "archived: \"maybe\" is not true or false"),
            ("es.listEcosystems", "modified_after=now", "modified_after: \"now\" is not an RFC 3339 instant"),
            (
                "es.listEcosystems",
                "corporation_id=18446744073709551616",
                "corporation_id: \"18446744073709551616\" is not",
            ),
            ("co.listCorporations", "policy_address=a,,b", "policy_address: \"a,,b\" is not 1 to 64 values"),
            ("co.listCorporations", "did=a%00b", "did: \"a\\0b\" is not free of control characters"),
            ("pp.pendingFlat", "", "corporation_id: is required"),
            ("indexer.listEvents", "cursor=7", "cursor: \"7\" is not a cursor this indexer gave"),
            ("xr.getPrice", "base_asset_type=x", "base_asset_type: \"x\" is not one of TU, COIN, FIAT"),
            (
                "stats.countParticipants",
                "entity_kind=4&role_type=0",
                "entity_kind: \"4\" is not a whole number from 0 to 3",
            ),
        ] {
            match read(operation, query) {
                Err(error) => assert!(error.to_string().starts_with(expected), "{error}"),
                Ok(_) if query == "min_id=+1" => {} // a literal plus sign decodes to a blank, which is trimmed
                Ok(params) => panic!("{query}: {params:?}"),
            }
        }
        let long = format!("did={}", "x".repeat(MAX_TEXT + 1));
        let error = read("co.listCorporations", &long).expect_err("too long").to_string();
        assert_eq!(error, "did: longer than 2048 bytes");
    }

    #[test]
    fn a_literal_plus_empty_values_and_unknown_keys_are_tolerated() {
        let params = read("es.listEcosystems", "sort=+id&min_id=&unknown=1&min_weight=5").expect("parameters");
        let page = params.page();
        assert_eq!((page.range.is_descending, page.range.min_id, page.limit), (false, None, 64));
        assert_eq!(params.bounds(), [(Metric::Weight, Some(5), None)]);
        assert_eq!(params.text("gf_data"), Some("only_active"), "the default");
        assert_eq!(read("indexer.listEvents", "dids=").expect("parameters").list("dids"), Some(&[][..]));
        assert_eq!(read("indexer.listEvents", "").expect("parameters").list("dids"), None);
        assert_eq!(read("pp.listParticipants", "role=issuer").expect("parameters").text("role"), Some("ISSUER"));
    }
}
