//! Query parameters: typed, bounded, and named in every complaint.

use std::collections::HashMap;

use serde_json::Value;
use svc_indexer::{Framework, Page, ReadError, Show, Sort};
use svc_wire::instant;

/// Parameters of one request. Unknown ones are ignored, as the contract says.
pub struct Params(HashMap<String, Vec<String>>);

fn bad(name: &str, value: &str, allowed: &str) -> ReadError {
    ReadError::Parameter(format!("{name}: {value:?} is not {allowed}"))
}

impl Params {
    /// Parses the query string.
    pub fn parse(query: Option<&str>) -> Self {
        let mut params: HashMap<String, Vec<String>> = HashMap::new();
        for (name, value) in url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            params.entry(name.into_owned()).or_default().push(value.into_owned());
        }
        Self(params)
    }

    /// A text; empty counts as absent, a repeated key is refused.
    pub fn text(&self, name: &str) -> Result<Option<&str>, ReadError> {
        match self.0.get(name).map(Vec::as_slice) {
            None => Ok(None),
            Some([one]) => Ok(Some(one.trim()).filter(|text| !text.is_empty())),
            Some(_) => Err(ReadError::Parameter(format!("{name}: given more than once"))),
        }
    }

    /// A whole number of at least `low`.
    pub fn number(&self, name: &str, low: u64) -> Result<Option<u64>, ReadError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let allowed = if low == 0 { "a whole number of 0 or more" } else { "a whole number of 1 or more" };
        text.parse().ok().filter(|number| *number >= low).map(Some).ok_or_else(|| bad(name, text, allowed))
    }

    /// A boolean in any of the accepted spellings.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, ReadError> {
        match self.text(name)? {
            None => Ok(None),
            Some("true" | "1" | "on") => Ok(Some(true)),
            Some("false" | "0" | "off") => Ok(Some(false)),
            Some(other) => Err(bad(name, other, "true or false")),
        }
    }

    /// Page of a list.
    pub fn page(&self) -> Result<Page, ReadError> {
        let limit = self.number("limit", 1)?.unwrap_or(64);
        if limit > 1024 {
            return Err(bad("limit", &limit.to_string(), "between 1 and 1024"));
        }
        let sort = match self.text("sort")? {
            None | Some("-id") => Sort::Descending,
            // A literal plus sign decodes to a blank, which is trimmed.
            Some("id" | "+id") => Sort::Ascending,
            Some(other) => return Err(bad("sort", other, "id, +id or -id")),
        };
        Ok(Page {
            limit: usize::try_from(limit).unwrap_or(1024),
            min_id: self.number("min_id", 0)?,
            max_id: self.number("max_id", 0)?,
            sort,
        })
    }

    /// Which framework versions to nest; the legacy flags are aliases.
    pub fn framework(&self) -> Result<Framework, ReadError> {
        if self.flag("active_gf_only")? == Some(true) {
            return Ok(Framework::Active);
        }
        Framework::parse(self.text("gf_data")?)
    }

    /// What of the governance framework to show.
    pub fn show(&self) -> Result<Show<'_>, ReadError> {
        Ok(Show { framework: self.framework()?, language: self.text("preferred_language")? })
    }

    /// A test for `modified_after`: strictly newer.
    pub fn modified_after(&self) -> Result<impl Fn(&Value) -> bool + use<>, ReadError> {
        let after = match self.text("modified_after")? {
            None => None,
            Some(text) => {
                let instant = instant::parse_rfc3339(text);
                Some(instant::nanos(&instant.ok_or_else(|| bad("modified_after", text, "an RFC 3339 instant"))?))
            }
        };
        Ok(move |body: &Value| {
            let modified = body["modified"].as_str().and_then(instant::parse_rfc3339).as_ref().map(instant::nanos);
            after.is_none_or(|after| modified.is_some_and(|modified| modified > after))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(query: &str, read: impl Fn(&Params) -> Option<ReadError>) -> String {
        read(&Params::parse(Some(query))).map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn every_complaint_names_the_parameter() {
        for (query, name) in [
            ("limit=0", "limit"),
            ("limit=1025", "limit"),
            ("sort=name", "sort"),
            ("min_id=x", "min_id"),
            ("limit=1&limit=2", "limit"),
        ] {
            let text = message(query, |params| params.page().err());
            assert!(text.starts_with(name), "{query}: {text}");
        }
        assert!(message("gf_data=some", |params| params.framework().err()).starts_with("gf_data"));
        assert!(message("archived=maybe", |params| params.flag("archived").err()).starts_with("archived"));
        assert!(message("modified_after=now", |params| params.modified_after().err()).starts_with("modified_after"));
    }

    #[test]
    fn a_literal_plus_and_empty_values_are_tolerated() {
        let page = Params::parse(Some("sort=+id&min_id=&unknown=1")).page().expect("a page");
        assert_eq!((page.sort, page.min_id, page.limit), (Sort::Ascending, None, 64));
    }
}
