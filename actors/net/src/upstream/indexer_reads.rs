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

/// The reason in a 410 of an indexer that does not have the height, as opposed to a price that has expired.
const HEIGHT_NOT_INDEXED: &str = "HEIGHT_NOT_INDEXED";

#[derive(Deserialize)]
struct NotIndexedBody {
    reason: String,
    oldest_block_height: u64,
}

/// The oldest height of an indexer, where an error says that an answer lies below it: the thing itself may be there.
pub fn not_indexed_below(error: &UpstreamError) -> Option<u64> {
    let UpstreamError::Http { status: 410, body, .. } = error else { return None };
    let body: NotIndexedBody = serde_json::from_str(body).ok()?;
    (body.reason == HEIGHT_NOT_INDEXED).then_some(body.oldest_block_height)
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

/// The indexer, fixed, that replaces the one in use by the rules of [`select_indexer`].
pub async fn find_better_indexer(
    endpoints: &UpstreamEndpoints,
    at_least: u64,
    plausible_height: Option<u64>,
) -> Option<UpstreamEndpoints> {
    endpoints.find_better(at_least, plausible_height, indexer_reach).await
}

/// Replaces the indexer in use when it does not answer or is behind the others. One below `at_least` is not selected, nor one that alone is
/// above `plausible_height`.
pub async fn select_indexer(endpoints: &UpstreamEndpoints, at_least: u64, plausible_height: Option<u64>) {
    endpoints.select_current(at_least, plausible_height, indexer_reach).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::UpstreamKind;

    #[test]
    fn only_a_410_with_the_reason_is_about_a_height_that_is_not_indexed() {
        let body = r#"{"error": "t", "code": 410, "reason": "HEIGHT_NOT_INDEXED", "oldest_block_height": 7}"#;
        for (status, body, oldest) in [
            (410, body, Some(7)),
            (404, body, None),
            (410, r#"{"error": "the rate has expired", "code": 410}"#, None),
            (410, r#"{"reason": "GONE", "oldest_block_height": 7}"#, None),
            (410, r#"{"reason": "HEIGHT_NOT_INDEXED"}"#, None),
            (410, "HEIGHT_NOT_INDEXED", None),
        ] {
            let error = UpstreamError::Http { kind: UpstreamKind::Indexer, status, body: body.to_owned() };
            assert_eq!(not_indexed_below(&error), oldest, "{status} {body}");
        }
    }
}
