//! Metrics of connections: the listener, upstream requests, WebSocket links and DID resolution.

use std::time::Duration;

use super::instrument::instrument;

/// Counts a switch to another server of a list.
pub fn record_endpoint_switch(kind: &str) {
    instrument!(Counter, "svc_mcp_endpoint_switches_total", "Switches to another server of a list, by kind.")
        .increment([("kind", kind)]);
}

/// Records whether the nodes have different blocks at one height.
pub fn record_node_dispute(is_disputed: bool) {
    instrument!(Gauge, "svc_mcp_node_dispute", "1 while nodes of the list have different blocks at one height.")
        .set(u64::from(is_disputed), []);
}

/// Records the number of configured indexers with a standing: `followed`, `unverified` or `left_out`.
pub fn record_indexer_standing(standing: &str, count: usize) {
    instrument!(Gauge, "svc_mcp_indexers", "Indexers of the list, by whether they follow the chain of the node.")
        .set(count as u64, [("standing", standing)]);
}

/// Records a finished upstream request.
pub fn record_upstream_request(kind: &str, outcome: &str, took: Duration) {
    instrument!(Counter, "svc_mcp_upstream_requests_total", "Upstream requests ended, by kind and outcome.")
        .increment([("kind", kind), ("outcome", outcome)]);
    instrument!(
        DurationHistogram,
        "svc_mcp_upstream_request_duration_seconds",
        "Seconds an upstream request took, by kind."
    )
    .record(took, [("kind", kind)]);
}

/// Records whether a WebSocket link is up.
pub fn record_ws_connected(endpoint: &str, connected: bool) {
    instrument!(Gauge, "svc_mcp_ws_connected", "1 while the WebSocket is up, by endpoint.")
        .set(u64::from(connected), [("endpoint", endpoint)]);
}

/// Records whether nothing comes over an open link, whose server has no newer block either.
pub fn record_ws_silent(endpoint: &str, is_silent: bool) {
    instrument!(
        Gauge,
        "svc_mcp_ws_silent",
        "1 while nothing comes over an open WebSocket and its server has no newer block, by endpoint."
    )
    .set(u64::from(is_silent), [("endpoint", endpoint)]);
}

/// Counts an attempt to reopen a WebSocket link.
pub fn record_ws_reconnect(endpoint: &str) {
    instrument!(Counter, "svc_mcp_ws_reconnects_total", "WebSocket attempts after the first, by endpoint.")
        .increment([("endpoint", endpoint)]);
}

/// Records the height of a block that came over a link.
pub fn record_ws_last_block(endpoint: &str, height: u64) {
    instrument!(Gauge, "svc_mcp_ws_last_block_height", "Newest height seen over the WebSocket, by endpoint.")
        .set(height, [("endpoint", endpoint)]);
}

/// Counts a fetch of a document.
pub fn record_document_fetch(outcome: &str) {
    instrument!(
        Counter,
        "svc_document_fetches_total",
        "Documents fetched from servers of others, by outcome: fetched, not_modified, or the code of the failure."
    )
    .increment([("outcome", outcome)]);
}

/// Records a resolution. `outcome` is `ok`, `cached` or the code of the failure; `took` is absent when nothing was fetched.
pub fn record_did_resolution(method: &str, outcome: &str, took: Option<Duration>) {
    instrument!(
        Counter,
        "svc_did_resolutions_total",
        "DIDs resolved, by method and outcome: ok, cached, or the code of the failure."
    )
    .increment([("method", method), ("outcome", outcome)]);
    if let Some(took) = took {
        instrument!(
            DurationHistogram,
            "svc_did_resolution_duration_seconds",
            "Seconds to fetch and verify a DID Document, by method."
        )
        .record(took, [("method", method)]);
    }
}

/// Records the number of open connections of a listener, without WebSockets.
pub fn record_http_connections(listener: &str, count: usize) {
    instrument!(Gauge, "svc_http_connections", "Open HTTP connections without WebSockets, by listener.")
        .set(count as u64, [("listener", listener)]);
}

/// Counts a connection or request that a listener has refused or ended.
pub fn record_http_refused(listener: &str, reason: &str) {
    instrument!(
        Counter,
        "svc_http_refused_total",
        "Connections and requests refused or ended by a listener, by listener and reason: connections, address_connections, descriptors, replaced, head_timeout, head_too_large, malformed, body_timeout, read_timeout, idle, tls, host, token."
    )
    .increment([("listener", listener), ("reason", reason)]);
}
