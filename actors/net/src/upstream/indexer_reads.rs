//! The reads of an indexer that a subscriber to its blocks needs.

use http::HeaderMap;
use serde::Deserialize;
use svc_wire::{block_subscription::SubscriptionScope, event_stream::EventsPage};
use url::form_urlencoded;

use super::{
    endpoints::{EndpointReach, UpstreamEndpoints},
    http_client::HttpUpstream,
    upstream_error::UpstreamError,
};

#[derive(Deserialize)]
struct BlockHeightResponse {
    height: u64,
}

/// Reads a page of events after a height, or after the cursor of an earlier page. `indexer` is that of the subscription: another one may
/// not have the events of the last message.
///
/// # Errors
/// Every [`UpstreamError`].
pub async fn read_event_page(
    indexer: &HttpUpstream,
    scope: &SubscriptionScope,
    after: u64,
    cursor: Option<&str>,
) -> Result<EventsPage, UpstreamError> {
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(scope.page_query(after, cursor)).finish();
    let answer = indexer.get("events", &format!("/v4/indexer/events?{query}"), HeaderMap::new()).await?;
    indexer.parse_json(&answer)
}

/// Reads the height up to which an indexer has every event.
///
/// # Errors
/// Every [`UpstreamError`].
pub async fn read_indexed_height(indexer: &HttpUpstream) -> Result<u64, UpstreamError> {
    let answer = indexer.get("block-height", "/v4/indexer/block-height", HeaderMap::new()).await?;
    Ok(indexer.parse_json::<BlockHeightResponse>(&answer)?.height)
}

/// Reads how far an indexer has come; `None` when it does not answer.
pub async fn indexer_reach(endpoints: UpstreamEndpoints) -> Option<EndpointReach> {
    let height = read_indexed_height(endpoints.current()).await.ok()?;
    Some(EndpointReach { height, is_ready: true })
}

/// Replaces the indexer in use when it does not answer or is behind the others. One below `at_least` is not selected, nor one that alone is
/// above `plausible_height`.
pub async fn select_indexer(endpoints: &UpstreamEndpoints, at_least: u64, plausible_height: Option<u64>) {
    endpoints.select_current(at_least, plausible_height, indexer_reach).await;
}
