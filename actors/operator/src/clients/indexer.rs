//! The indexer's REST reads.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::Value;
use svc_kit::RetainedState;
use svc_net::upstream::{
    FailoverError, HttpUpstream, IndexerGuard, JsonDocument, NodeClient, UpstreamEndpoints, UpstreamError,
    UpstreamKind, UpstreamOrigins, find_better_indexer, indexer_reach,
};

use crate::barrier::IndexedHeight;

/// Client of a chain's indexers, one of which is in use.
#[derive(Clone)]
pub struct IndexerClient {
    endpoints: UpstreamEndpoints,
    /// Compares the indexers with the node.
    guard: IndexerGuard,
    /// Height that callers have been answered with. An indexer below it is not used.
    reported_height: RetainedState<IndexedHeight>,
}

impl IndexerClient {
    /// A client for the indexers at `origins`, which have to follow the chain of `node`; `told` is the height that callers have been answered
    /// with.
    pub fn new(
        origins: impl Into<UpstreamOrigins>,
        told: RetainedState<IndexedHeight>,
        node: NodeClient,
    ) -> Result<Self, UpstreamError> {
        let endpoints = UpstreamEndpoints::new(UpstreamKind::Indexer, &origins.into())?;
        let guard = IndexerGuard::new(&endpoints, node)?;
        Ok(Self { endpoints, guard, reported_height: told })
    }

    /// The comparison of the indexers with the node.
    pub fn guard(&self) -> &IndexerGuard {
        &self.guard
    }

    /// The indexers, and the one in use.
    pub fn endpoints(&self) -> &UpstreamEndpoints {
        &self.endpoints
    }

    fn reported_height(&self) -> u64 {
        self.reported_height.with(|cursor| cursor.height)
    }

    /// Compares the indexers with the node, as far as it is due, and selects another one when this one is left out, does not answer or is
    /// behind. An indexer below the reported height is not selected, nor one that alone is above `plausible_height`.
    pub async fn choose_endpoint(&self, plausible_height: Option<u64>) {
        if let Some(better) = self.find_better(plausible_height).await {
            self.endpoints.use_origin(better.current().origin());
        }
    }

    /// Compares the indexers with the node, as far as it is due. Returns the one, fixed, that should replace the one in use. It is compared
    /// with the node again.
    pub async fn find_better(&self, plausible_height: Option<u64>) -> Option<UpstreamEndpoints> {
        self.guard.compare_due().await;
        for _ in self.endpoints.origins() {
            let better = find_better_indexer(&self.endpoints, self.reported_height(), plausible_height).await?;
            self.guard.doubt(better.current().origin());
            self.guard.compare_due().await;
            // One that is left out does not answer, so that the next round finds another one.
            if better.current().left_out().is_none() {
                return Some(better);
            }
        }
        None
    }

    /// Sends a request to the indexer in use, or to another one that is high enough when it does not answer.
    async fn read_with_failover<T, A, F>(&self, ask: A) -> Result<T, UpstreamError>
    where
        A: Fn(HttpUpstream) -> F,
        F: Future<Output = Result<T, UpstreamError>>,
    {
        self.endpoints
            .read_with_failover(self.reported_height(), |endpoints| ask(endpoints.current().clone()), indexer_reach)
            .await
    }

    /// Runs several reads at one indexer: that in use, or another one that is high enough when it does not answer.
    pub async fn read_from_one<T, E, A, F>(&self, read: A) -> Result<T, E>
    where
        E: FailoverError,
        A: Fn(Self) -> F,
        F: Future<Output = Result<T, E>>,
    {
        let at_one = |endpoints| read(Self { endpoints, ..self.clone() });
        self.endpoints.read_with_failover(self.reported_height(), at_one, indexer_reach).await
    }

    /// GET `path` with `query`; `operation` is its bounded name.
    pub async fn get(
        &self,
        operation: &str,
        path: &str,
        query: &[(String, String)],
        at_block_height: Option<u64>,
    ) -> Result<Value, UpstreamError> {
        Ok(self.get_document(operation, path, query, at_block_height).await?.value)
    }

    /// GET like [`IndexerClient::get`], with the bytes of the answer.
    pub async fn get_document(
        &self,
        operation: &str,
        path: &str,
        query: &[(String, String)],
        at_block_height: Option<u64>,
    ) -> Result<JsonDocument, UpstreamError> {
        let path = path_and_query(path, query);
        self.read_with_failover(|upstream| {
            let path = path.as_str();
            async move { upstream.parse_document(&upstream.get(operation, path, height_header(at_block_height)).await?) }
        })
        .await
    }

    /// POST of `body` to `path`, with the bytes of the answer.
    pub async fn post_document(
        &self,
        operation: &str,
        path: &str,
        body: &Value,
        at_block_height: Option<u64>,
    ) -> Result<JsonDocument, UpstreamError> {
        self.read_with_failover(|upstream| async move {
            upstream.parse_document(
                &upstream.send(Method::POST, operation, path, height_header(at_block_height), Some(body)).await?,
            )
        })
        .await
    }
}

fn height_header(block_height: Option<u64>) -> HeaderMap {
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
