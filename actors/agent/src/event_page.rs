//! A page of registry events from the indexer.

use http::HeaderMap;
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
