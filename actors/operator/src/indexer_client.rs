//! The indexer's REST reads.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde::Deserialize;
use serde_json::Value;
use svc_kit::{
    Retained,
    upstream::{Endpoints, Kind, Origins, Reach, Upstream, UpstreamError},
};
use svc_wire::event::EventsPage;

use crate::barrier::Cursor;

/// Client of a chain's indexers, one of which is in use.
#[derive(Clone)]
pub struct IndexerClient {
    endpoints: Endpoints,
    /// How far what is told to clients is: an indexer that is behind it is not asked.
    told: Retained<Cursor>,
}

#[derive(Deserialize)]
struct BlockHeight {
    height: u64,
}

/// Most events a page may have.
const EVENTS_PAGE: usize = 500;

impl IndexerClient {
    /// A client for the indexers at `origins`; `told` is the height that clients have been told of.
    pub fn new(origins: impl Into<Origins>, told: Retained<Cursor>) -> Result<Self, UpstreamError> {
        Ok(Self { endpoints: Endpoints::new(Kind::Indexer, &origins.into())?, told })
    }

    /// The indexers, and which of them is in use.
    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    fn told(&self) -> u64 {
        self.told.with(|cursor| cursor.height)
    }

    /// Takes another indexer into use when this one does not answer or is behind. One that is behind what clients have been
    /// told is not taken.
    pub async fn choose(&self) {
        self.endpoints.choose(self.told(), reach).await;
    }

    /// Asks the indexer in use; when it does not answer, another one that is far enough.
    async fn read<T, A, F>(&self, ask: A) -> Result<T, UpstreamError>
    where
        A: Fn(Upstream) -> F,
        F: Future<Output = Result<T, UpstreamError>>,
    {
        self.endpoints.read(self.told(), |endpoints| ask(endpoints.current().clone()), reach).await
    }

    /// GET `path` with `query`; `operation` is its bounded name.
    pub async fn get(
        &self,
        operation: &str,
        path: &str,
        query: &[(String, String)],
        at_block_height: Option<u64>,
    ) -> Result<Value, UpstreamError> {
        let path = path_and_query(path, query);
        self.read(|upstream| {
            let path = path.as_str();
            async move { upstream.json(&upstream.get(operation, path, at(at_block_height)).await?) }
        })
        .await
    }

    /// POST of `body` to `path`.
    pub async fn post(
        &self,
        operation: &str,
        path: &str,
        body: &Value,
        at_block_height: Option<u64>,
    ) -> Result<Value, UpstreamError> {
        self.read(|upstream| async move {
            upstream.json(&upstream.send(Method::POST, operation, path, at(at_block_height), Some(body)).await?)
        })
        .await
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
        // The one the subscription is with: another may not have what was just told.
        let upstream = self.endpoints.current();
        upstream.json(&upstream.get("events", &path, HeaderMap::new()).await?)
    }

    /// Whether a page of events may be followed by another.
    pub fn is_full(page: &EventsPage) -> bool {
        page.count >= EVENTS_PAGE
    }
}

async fn reach(endpoints: Endpoints) -> Option<Reach> {
    let upstream = endpoints.current();
    let answer = upstream.get("block-height", "/v4/indexer/block-height", HeaderMap::new()).await.ok()?;
    let height = upstream.json::<BlockHeight>(&answer).ok()?.height;
    Some(Reach { height, is_ready: true })
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
