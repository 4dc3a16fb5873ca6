//! Bodies that servers named with an entity tag: the next request asks only whether they are still the same (RFC 9110, section 13).

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue,
    header::{CACHE_CONTROL, ETAG},
};
use moka::future::Cache;
use url::Url;

use super::freshness::Freshness;

/// Memory of all kept bodies.
const MAX_BYTES: u64 = 32 * 1024 * 1024;
/// Longest validator that is kept: it goes into each request.
const MAX_VALIDATOR_BYTES: usize = 256;

/// Kept bodies by URL, the last used ones. A body is never used without a server's word that it is still the same.
#[derive(Debug)]
pub(super) struct KnownBodies(Cache<Url, KnownBody>);

/// A body with the tag that asks for another one.
#[derive(Debug, Clone)]
pub(super) struct KnownBody {
    pub validator: HeaderValue,
    pub body: Bytes,
    freshness: Freshness,
}

impl KnownBody {
    /// The cache time after a server's word that the body is the same: as it says now, else as it said before.
    pub fn freshness_after(&self, headers: &HeaderMap) -> Freshness {
        match Freshness::from_headers(headers) {
            Freshness::Unspecified => self.freshness,
            stated => stated,
        }
    }
}

impl KnownBodies {
    pub fn new() -> Self {
        let weigh = |url: &Url, known: &KnownBody| {
            u32::try_from(url.as_str().len() + known.validator.len() + known.body.len()).unwrap_or(u32::MAX)
        };
        Self(Cache::builder().max_capacity(MAX_BYTES).weigher(weigh).build())
    }

    pub async fn get(&self, url: &Url) -> Option<KnownBody> {
        self.0.get(url).await
    }

    /// Keeps a body that its server named, and forgets an earlier one of a server that names its bodies no longer.
    pub async fn keep(&self, url: &Url, headers: &HeaderMap, body: &Bytes) {
        match find_validator(headers) {
            Some(validator) => {
                let freshness = Freshness::from_headers(headers);
                self.0.insert(url.clone(), KnownBody { validator, body: body.clone(), freshness }).await;
            }
            None => self.0.invalidate(url).await,
        }
    }
}

/// Returns the entity tag. A time of the last change is no condition: two bodies of one second have the same.
fn find_validator(headers: &HeaderMap) -> Option<HeaderValue> {
    let is_private =
        |value: &HeaderValue| value.to_str().map_or(true, |text| text.to_ascii_lowercase().contains("no-store"));
    if headers.get_all(CACHE_CONTROL).iter().any(is_private) {
        return None;
    }
    headers.get(ETAG).filter(|tag| (1..=MAX_VALIDATOR_BYTES).contains(&tag.len())).cloned()
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    #[test]
    fn a_condition_comes_from_the_entity_tag_alone() {
        let (tag, time) = (("etag", "\"a\""), ("last-modified", "Mon, 05 Jan 2026 00:00:00 GMT"));
        let long = "\"".repeat(300);
        for (given, expected) in [
            (vec![tag], Some(tag.1)),
            (vec![time, tag], Some(tag.1)),
            (vec![time], None),
            (vec![tag, ("cache-control", "no-cache")], Some(tag.1)),
            (vec![tag, ("cache-control", "max-age=5, No-Store")], None),
            (vec![("etag", "")], None),
            (vec![("etag", &long)], None),
            (vec![], None),
        ] {
            let pairs = given.iter().map(|(name, value)| {
                let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
                (name, HeaderValue::from_str(value).expect("a value"))
            });
            let found = find_validator(&pairs.collect());
            let expected = expected.map(|value| HeaderValue::from_str(value).expect("a value"));
            assert_eq!(found, expected, "{given:?}");
        }
    }

    #[tokio::test]
    async fn the_memory_of_kept_bodies_is_bounded() {
        let known = KnownBodies::new();
        let headers: HeaderMap = [(ETAG, HeaderValue::from_static("\"a\""))].into_iter().collect();
        for number in 0..100 {
            let url = Url::parse(&format!("https://{number}.example")).expect("a URL");
            known.keep(&url, &headers, &Bytes::from(vec![b'x'; 1024 * 1024])).await;
        }
        known.0.run_pending_tasks().await;
        assert!(known.0.weighted_size() <= MAX_BYTES, "{}", known.0.weighted_size());
    }
}
