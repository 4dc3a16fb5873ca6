//! Parameters of a read: typed and bounded. Every error names its parameter. Pure.

use std::{collections::HashMap, ops::RangeInclusive};

use svc_wire::{
    indexer_reads::{ParamLocation, ReadEndpoint, ReadParam, ReadParamType},
    timestamp,
};
use uuid::Uuid;

use crate::{
    derive::{did_forms::did_forms, stats::StatsMetric},
    read::error::ReadError,
    store::IdRange,
};

/// Longest value of a parameter other than a list, in bytes.
const MAX_TEXT_BYTES: usize = 2_048;
/// Longest list, in bytes.
const MAX_LIST_BYTES: usize = 65_536;

#[derive(Debug, Clone, PartialEq)]
pub(in crate::read) enum ArgumentValue {
    Number(u64),
    Flag(bool),
    Instant(i128),
    Text(String),
    List(Vec<String>),
    Json(serde_json::Value),
}

/// Parameters of one read. Unknown ones are ignored.
#[derive(Debug, Default)]
pub struct ReadArguments(HashMap<&'static str, ArgumentValue>);

/// A page of a list.
#[derive(Debug, Clone, Copy)]
pub struct ListPage {
    /// Most rows.
    pub limit: usize,
    /// Ids of the page, and their order.
    pub range: IdRange,
}

/// Bounds on a measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricBounds {
    pub metric: StatsMetric,
    /// Inclusive.
    pub min: Option<u64>,
    /// Exclusive.
    pub max: Option<u64>,
}

/// Returns the error for an invalid value. It names the parameter and the allowed values.
pub(in crate::read) fn invalid_value(name: &str, value: &str, allowed: &str) -> ReadError {
    let shown: String = value.chars().take(64).collect();
    let cut = if shown.len() < value.len() { "…" } else { "" };
    ReadError::InvalidParameter(format!("{name}: {shown:?}{cut} is not {allowed}"))
}

fn parse_number(param: &ReadParam, text: &str, least: u64) -> Result<u64, ReadError> {
    let (low, high) = (param.min.unwrap_or(least), param.max.unwrap_or(u64::MAX));
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = text.parse().ok().filter(|number| is_digits && (low..=high).contains(number));
    let allowed = || match param.max {
        Some(high) => format!("a whole number from {low} to {high}"),
        None => format!("a whole number of {low} or more"),
    };
    parsed.ok_or_else(|| invalid_value(&param.name, text, &allowed()))
}

/// Returns a UUID unchanged, in any form that the ledger accepts; fails for any other text.
pub(in crate::read) fn parse_uuid(name: &str, text: &str) -> Result<String, ReadError> {
    match Uuid::try_parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(invalid_value(name, text, "a UUID")),
    }
}

/// Seconds of the years 0 to 9999 in UTC. An offset can lead out of the range that RFC 3339 can express.
const RFC3339_SECONDS: RangeInclusive<i64> = -62_167_219_200..=253_402_300_799;

/// Parses an instant, to nanoseconds since the epoch.
pub(in crate::read) fn parse_instant_param(name: &str, text: &str) -> Result<i128, ReadError> {
    let instant = timestamp::parse_rfc3339(text).filter(|instant| RFC3339_SECONDS.contains(&instant.seconds));
    instant.as_ref().map(timestamp::unix_nanos).ok_or_else(|| invalid_value(name, text, "an RFC 3339 instant"))
}

/// Parses the value of a parameter from its text.
pub(in crate::read) fn parse_value(param: &ReadParam, raw: &str) -> Result<ArgumentValue, ReadError> {
    let name = param.name.as_str();
    let is_list = matches!(param.param_type, ReadParamType::Texts | ReadParamType::Dids | ReadParamType::Ids);
    let most = if is_list { MAX_LIST_BYTES } else { MAX_TEXT_BYTES };
    if raw.len() > most {
        return Err(ReadError::InvalidParameter(format!("{name}: longer than {most} bytes")));
    }
    if raw.contains(char::is_control) {
        return Err(invalid_value(name, raw, "free of control characters"));
    }
    let text = raw.trim();
    let elements = || text.split(',').map(str::trim);
    Ok(match param.param_type {
        ReadParamType::Id => ArgumentValue::Number(parse_number(param, text, 1)?),
        ReadParamType::Uint => ArgumentValue::Number(parse_number(param, text, 0)?),
        ReadParamType::Digits if text.bytes().all(|byte| byte.is_ascii_digit()) => ArgumentValue::Text(text.to_owned()),
        ReadParamType::Digits => return Err(invalid_value(name, text, "a whole number of 0 or more")),
        ReadParamType::Flag => ArgumentValue::Flag(match text {
            "true" | "1" | "on" => true,
            "false" | "0" | "off" => false,
            _ => return Err(invalid_value(name, text, "true or false")),
        }),
        ReadParamType::Enum => {
            let found = param.allowed.iter().find(|allowed| allowed.eq_ignore_ascii_case(text));
            ArgumentValue::Text(
                found
                    .ok_or_else(|| invalid_value(name, text, &format!("one of {}", param.allowed.join(", "))))?
                    .clone(),
            )
        }
        ReadParamType::Instant => ArgumentValue::Instant(parse_instant_param(name, text)?),
        ReadParamType::Text | ReadParamType::Selector | ReadParamType::Object => ArgumentValue::Text(text.to_owned()),
        ReadParamType::Texts => {
            let most = param.max.unwrap_or(u64::MAX);
            let list: Vec<String> = elements().map(str::to_owned).collect();
            if list.iter().any(String::is_empty) || list.len() as u64 > most {
                return Err(invalid_value(name, text, &format!("1 to {most} comma-separated values, none empty")));
            }
            ArgumentValue::List(list)
        }
        ReadParamType::Dids => {
            let strict = param.min.is_some();
            if let Some(wrong) = elements().find(|element| strict && did_forms(element).next().is_none()) {
                return Err(invalid_value(name, wrong, "a DID"));
            }
            ArgumentValue::List(elements().flat_map(did_forms).collect())
        }
        ReadParamType::Ids => {
            for element in elements() {
                parse_number(param, element, 1)?;
            }
            ArgumentValue::List(elements().map(str::to_owned).collect())
        }
        ReadParamType::Uuid => ArgumentValue::Text(parse_uuid(name, text)?),
        ReadParamType::Cursor => {
            let parts = text.split_once('.');
            let is_ours = parts
                .is_some_and(|(height, position)| height.parse::<u64>().is_ok() && position.parse::<u64>().is_ok());
            if !is_ours {
                return Err(invalid_value(name, text, "a cursor this indexer gave"));
            }
            ArgumentValue::Text(text.to_owned())
        }
    })
}

impl ReadArguments {
    /// Parses the parameters of an endpoint from a path and a query. Fails when one is invalid or missing.
    pub fn from_query<'a>(
        endpoint: &'static ReadEndpoint,
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
            let raw = match param.location {
                ParamLocation::Path => path.get(name).copied(),
                ParamLocation::Query => match given.get(name).map(Vec::as_slice) {
                    None => None,
                    Some([one]) => Some(one.as_str()),
                    Some(_) => return Err(ReadError::InvalidParameter(format!("{name}: given more than once"))),
                },
                ParamLocation::Body => None,
            };
            // An empty value counts as absent, except for a list of DIDs: an empty list matches no DID.
            let raw = raw.filter(|raw| !raw.trim().is_empty() || param.param_type == ReadParamType::Dids);
            raw.map(|raw| parse_value(param, raw)).transpose()
        })
    }

    /// Collects the value of each parameter from `given`. An absent parameter takes its default. Fails when one is
    /// invalid, or required and absent.
    pub(in crate::read) fn collect(
        endpoint: &'static ReadEndpoint,
        given: impl Fn(&'static ReadParam) -> Result<Option<ArgumentValue>, ReadError>,
    ) -> Result<Self, ReadError> {
        let mut params = Self::default();
        let mut missing = None;
        for param in &endpoint.params {
            let name = param.name.as_str();
            let found = match given(param)? {
                None => param.default.as_deref().map(|raw| parse_value(param, raw)).transpose()?,
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
            Some(name) => Err(ReadError::InvalidParameter(format!("{name}: is required"))),
            None => Ok(params),
        }
    }

    /// Returns a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.0.get(name) {
            Some(ArgumentValue::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// Returns a flag.
    pub fn flag(&self, name: &str) -> Option<bool> {
        match self.0.get(name) {
            Some(ArgumentValue::Flag(flag)) => Some(*flag),
            _ => None,
        }
    }

    /// Returns an instant, in nanoseconds since the epoch.
    pub fn instant(&self, name: &str) -> Option<i128> {
        match self.0.get(name) {
            Some(ArgumentValue::Instant(instant)) => Some(*instant),
            _ => None,
        }
    }

    /// Returns a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.0.get(name) {
            Some(ArgumentValue::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns a list.
    pub fn list(&self, name: &str) -> Option<&[String]> {
        match self.0.get(name) {
            Some(ArgumentValue::List(list)) => Some(list),
            _ => None,
        }
    }

    /// Returns an object, or the `true` or `false` of a selector.
    pub fn json(&self, name: &str) -> Option<&serde_json::Value> {
        match self.0.get(name) {
            Some(ArgumentValue::Json(json)) => Some(json),
            _ => None,
        }
    }

    /// A number that must be there.
    pub fn required_number(&self, name: &str) -> Result<u64, ReadError> {
        self.number(name).ok_or_else(|| ReadError::InvalidParameter(format!("{name}: is required")))
    }

    /// Page of a list.
    pub fn page(&self) -> ListPage {
        ListPage {
            limit: usize::try_from(self.number("limit").unwrap_or(64)).unwrap_or(usize::MAX),
            range: IdRange {
                min_id: self.number("min_id"),
                max_id: self.number("max_id"),
                is_descending: self.text("sort").is_none_or(|sort| sort == "-id"),
            },
        }
    }

    /// Returns the bounds on measures.
    pub fn measure_bounds(&self) -> Vec<MetricBounds> {
        let bound = |metric: &StatsMetric| {
            let [min, max] = ["min", "max"].map(|end| self.number(&format!("{end}_{}", metric.name())));
            (min.is_some() || max.is_some()).then_some(MetricBounds { metric: *metric, min, max })
        };
        StatsMetric::ALL.iter().filter_map(bound).collect()
    }
}

#[cfg(test)]
mod tests {
    use svc_wire::indexer_reads::find_endpoint;

    use super::*;

    fn read(operation: &str, query: &str) -> Result<ReadArguments, ReadError> {
        ReadArguments::from_query(find_endpoint(operation).expect("an endpoint"), [], query)
    }

    #[test]
    fn every_error_names_the_parameter_and_the_allowed_values() {
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
            (
                "co.listCorporations",
                "policy_address=a,,b",
                "policy_address: \"a,,b\" is not 1 to 64 comma-separated values",
            ),
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
        let long = format!("did={}", "x".repeat(MAX_TEXT_BYTES + 1));
        let error = read("co.listCorporations", &long).expect_err("too long").to_string();
        assert_eq!(error, "did: longer than 2048 bytes");
    }

    #[test]
    fn a_literal_plus_empty_values_and_unknown_keys_are_accepted() {
        let params = read("es.listEcosystems", "sort=+id&min_id=&unknown=1&min_weight=5").expect("parameters");
        let page = params.page();
        assert_eq!((page.range.is_descending, page.range.min_id, page.limit), (false, None, 64));
        assert_eq!(params.measure_bounds(), [MetricBounds { metric: StatsMetric::Weight, min: Some(5), max: None }]);
        assert_eq!(params.text("gf_data"), Some("only_active"), "the default");
        assert_eq!(read("indexer.listEvents", "dids=").expect("parameters").list("dids"), Some(&[][..]));
        assert_eq!(read("indexer.listEvents", "").expect("parameters").list("dids"), None);
        assert_eq!(read("pp.listParticipants", "role=issuer").expect("parameters").text("role"), Some("ISSUER"));
    }
}
