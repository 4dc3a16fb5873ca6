//! Reads of registry events from the indexer.

use http::HeaderMap;
use serde_json::Value;
use svc_net::upstream::UpstreamEndpoints;
use svc_wire::{block_subscription::SubscriptionScope, event_stream::EventsPage};
use url::form_urlencoded;

/// Reads a page from the indexer of the subscription: another one may not have the events of the last message.
pub(crate) async fn read_event_page(
    indexer: &UpstreamEndpoints,
    scope: &SubscriptionScope,
    after: u64,
    cursor: Option<&str>,
) -> Result<EventsPage, String> {
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(scope.page_query(after, cursor)).finish();
    let upstream = indexer.current();
    let answer = upstream.get("events", &format!("/v4/indexer/events?{query}"), HeaderMap::new()).await;
    answer.and_then(|answer| upstream.parse_json(&answer)).map_err(|error| error.to_string())
}

/// Reads the height up to which the indexer has every event.
pub(crate) async fn read_indexed_height(indexer: &UpstreamEndpoints) -> Result<u64, String> {
    let upstream = indexer.current();
    let answer = upstream.get("block-height", "/v4/indexer/block-height", HeaderMap::new()).await;
    let body: Value = answer.and_then(|answer| upstream.parse_json(&answer)).map_err(|error| error.to_string())?;
    body["height"].as_u64().ok_or_else(|| "its answer has no height".to_owned())
}
