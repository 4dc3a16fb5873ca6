//! The indexer's REST reads.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::Value;
use svc_kit::upstream::{Kind, Upstream, UpstreamError};
use svc_wire::event::EventsPage;

/// Client of one indexer.
#[derive(Clone)]
pub struct IndexerClient {
    upstream: Upstream,
}

/// Most events a page may have.
const EVENTS_PAGE: usize = 500;

impl IndexerClient {
    /// A client for the indexer at `origin`.
    pub fn new(origin: &str) -> Result<Self, UpstreamError> {
        Ok(Self { upstream: Upstream::new(Kind::Indexer, origin)? })
    }

    /// Where the indexer is.
    pub fn origin(&self) -> &str {
        self.upstream.origin()
    }

    /// GET `path` with `query`; `operation` is its bounded name.
    pub async fn get(
        &self,
        operation: &str,
        path: &str,
        query: &[(String, String)],
        at_block_height: Option<u64>,
    ) -> Result<Value, UpstreamError> {
        let answer = self.upstream.get(operation, &path_and_query(path, query), at(at_block_height)).await?;
        self.upstream.json(&answer)
    }

    /// POST of `body` to `path`.
    pub async fn post(
        &self,
        operation: &str,
        path: &str,
        body: &Value,
        at_block_height: Option<u64>,
    ) -> Result<Value, UpstreamError> {
        let answer = self.upstream.send(Method::POST, operation, path, at(at_block_height), Some(body)).await?;
        self.upstream.json(&answer)
    }

    /// One page of events behind a height, or behind an earlier page's cursor.
    pub async fn events(
        &self,
        corporation_id: u64,
        after_block_height: u64,
        cursor: Option<&str>,
    ) -> Result<EventsPage, UpstreamError> {
        let mut query = vec![
            ("corporation_id".to_owned(), corporation_id.to_string()),
            ("after_block_height".to_owned(), after_block_height.to_string()),
            ("limit".to_owned(), EVENTS_PAGE.to_string()),
        ];
        query.extend(cursor.map(|cursor| ("cursor".to_owned(), cursor.to_owned())));
        let path = path_and_query("/v4/indexer/events", &query);
        let answer = self.upstream.get("events", &path, HeaderMap::new()).await?;
        self.upstream.json(&answer)
    }

    /// Whether a page of events may be followed by another.
    pub fn is_full(page: &EventsPage) -> bool {
        page.count >= EVENTS_PAGE
    }
}

fn at(block_height: Option<u64>) -> HeaderMap {
    block_height
        .map(|height| (HeaderName::from_static("at-block-height"), HeaderValue::from(height)))
        .into_iter()
        .collect()
}

/// A path with an encoded query.
pub(crate) fn path_and_query(path: &str, query: &[(String, String)]) -> String {
    if query.is_empty() {
        return path.to_owned();
    }
    let mut encoded = url::form_urlencoded::Serializer::new(String::new());
    encoded.extend_pairs(query);
    format!("{path}?{}", encoded.finish())
}
