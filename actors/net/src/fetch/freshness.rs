//! The time that a cache may keep an answer.

use std::time::Duration;

use http::{
    HeaderMap,
    header::{AGE, CACHE_CONTROL},
};

/// The time that a server allows caches to keep its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// The headers state no time.
    Unspecified,
    /// No cache may keep the answer.
    Uncacheable,
    /// Remaining time from now.
    Lifetime(Duration),
}

impl Freshness {
    /// Reads `Cache-Control` and `Age`. Unreadable values count as stale, as RFC 9111 advises.
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let mut max_age: Option<u64> = None;
        for value in headers.get_all(CACHE_CONTROL) {
            let Ok(text) = value.to_str() else { return Self::Uncacheable };
            for directive in text.split(',') {
                let (name, argument) = directive.split_once('=').unwrap_or((directive, ""));
                let name = name.trim();
                if name.eq_ignore_ascii_case("no-store") || name.eq_ignore_ascii_case("no-cache") {
                    return Self::Uncacheable;
                }
                if name.eq_ignore_ascii_case("max-age") {
                    let Some(seconds) = seconds(argument.trim().trim_matches('"')) else { return Self::Uncacheable };
                    max_age = Some(max_age.map_or(seconds, |earlier| earlier.min(seconds)));
                }
            }
        }
        let Some(max_age) = max_age else { return Self::Unspecified };
        let age = headers.get(AGE).and_then(|value| seconds(value.to_str().ok()?.trim())).unwrap_or(0);
        match max_age.saturating_sub(age) {
            0 => Self::Uncacheable,
            left => Self::Lifetime(Duration::from_secs(left)),
        }
    }
}

fn seconds(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn freshness_follows_cache_control_and_age() {
        let lifetime = |seconds| Freshness::Lifetime(Duration::from_secs(seconds));
        for (control, age, expected) in [
            (&[][..], None, Freshness::Unspecified),
            (&["public"], None, Freshness::Unspecified),
            (&["public, must-revalidate"], Some("5"), Freshness::Unspecified),
            (&["max-age=60"], None, lifetime(60)),
            (&["public, Max-Age = 60"], None, lifetime(60)),
            (&["max-age=\"60\""], None, lifetime(60)),
            (&["max-age=60"], Some("20"), lifetime(40)),
            (&["max-age=60"], Some("sometime"), lifetime(60)),
            (&["max-age=60"], Some("60"), Freshness::Uncacheable),
            (&["max-age=60"], Some("99999999999999999999"), Freshness::Uncacheable),
            (&["max-age=0"], None, Freshness::Uncacheable),
            (&["max-age=-1"], None, Freshness::Uncacheable),
            (&["max-age"], None, Freshness::Uncacheable),
            (&["max-age=soon"], None, Freshness::Uncacheable),
            (&["max-age=99999999999999999999"], None, lifetime(u64::MAX)),
            (&["max-age=60, max-age=30"], None, lifetime(30)),
            (&["max-age=60", "max-age=30"], None, lifetime(30)),
            (&["max-age=60", "no-store"], None, Freshness::Uncacheable),
            (&["No-Cache"], None, Freshness::Uncacheable),
            (&["no-cache=\"Set-Cookie\", max-age=60"], None, Freshness::Uncacheable),
        ] {
            let mut headers = HeaderMap::new();
            for value in control {
                headers.append(CACHE_CONTROL, HeaderValue::from_static(value));
            }
            if let Some(age) = age {
                headers.insert(AGE, HeaderValue::from_static(age));
            }
            assert_eq!(Freshness::from_headers(&headers), expected, "{control:?} {age:?}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(CACHE_CONTROL, HeaderValue::from_bytes(b"max-age=60, \xff").expect("a value"));
        assert_eq!(Freshness::from_headers(&headers), Freshness::Uncacheable);
    }
}
