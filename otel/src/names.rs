//! Names as constants: the only place where they are spelled.

/// Instrumentation scope of every span and metric.
pub const SCOPE: &str = "svc";

/// Span names.
pub mod span {
    /// Server span of one MCP request; exported as `<method> <target>`.
    pub const SERVER: &str = "mcp.server";
    /// Handling of one actor message; exported as `<actor> <message>`.
    pub const MESSAGE: &str = "actor.message";
    /// Simulation of a transaction.
    pub const SIMULATE: &str = "simulate";
    /// Signature of a transaction.
    pub const SIGN: &str = "sign";
    /// Hand-over of a transaction to the node.
    pub const BROADCAST: &str = "broadcast";
    /// Take one block into the indexer.
    pub const INDEX_BLOCK: &str = "index_block";
    /// Judge whether a DID is trusted.
    pub const JUDGE_DID: &str = "judge_did";
    /// Wait for inclusion in a block.
    pub const AWAIT_INCLUSION: &str = "await_inclusion";
    /// What follows after a caller was told that the outcome is not decided yet, or by another process.
    pub const RECONCILE: &str = "reconcile";
    /// Wait for the indexer to reach the block.
    pub const AWAIT_INDEX: &str = "await_index";
    /// One request to a server this one depends on.
    pub const UPSTREAM: &str = "upstream";
    /// Fetch and verification of one DID Document.
    pub const RESOLVE_DID: &str = "resolve_did";
}

/// Attribute keys of spans.
pub mod attribute {
    /// Transaction hash, upper-case hex.
    pub const TX_HASH: &str = "chain.tx.hash";
    /// Block height.
    pub const HEIGHT: &str = "chain.block.height";
    /// rpc, indexer, graph, vs-agent.
    pub const UPSTREAM_KIND: &str = "svc.upstream.kind";
    /// Seconds a message waited in the mailbox.
    pub const MAILBOX_WAIT: &str = "svc.actor.mailbox_wait_seconds";
    /// Kind of actor.
    pub const ACTOR: &str = "svc.actor.kind";
    /// Kind of message.
    pub const MESSAGE: &str = "svc.actor.message";
    /// MCP method.
    pub const MCP_METHOD: &str = "mcp.method.name";
    /// Tool name.
    pub const TOOL: &str = "gen_ai.tool.name";
    /// JSON-RPC request id.
    pub const REQUEST_ID: &str = "jsonrpc.request.id";
    /// HTTP method of an upstream request.
    pub const HTTP_METHOD: &str = "http.request.method";
    /// HTTP status of its answer.
    pub const HTTP_STATUS: &str = "http.response.status_code";
    /// Registry events of a block.
    pub const EVENTS: &str = "indexer.events";
    /// Entities a block changed.
    pub const CHANGES: &str = "indexer.changes";
    /// A DID.
    pub const DID: &str = "svc.did";
    /// Whether a DID's material is fetched again.
    pub const IS_FRESH: &str = "svc.trust.fresh";
    /// What judging a DID came to.
    pub const JUDGED: &str = "svc.trust.outcome";
    /// web, webvh, other.
    pub const DID_METHOD: &str = "svc.did.method";
    /// ok, or the code of the failure.
    pub const DID_OUTCOME: &str = "svc.did.outcome";
    /// Error code of a failed call.
    pub const ERROR_TYPE: &str = "error.type";
}

/// A metric: its name, and what it says.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name.
    pub name: &'static str,
    /// One sentence for the exposition.
    pub help: &'static str,
}

/// Metrics.
pub mod metric {
    use super::Metric;

    macro_rules! metrics {
        ($($constant:ident, $name:literal, $help:literal;)*) => {
            $(#[doc = $help] pub const $constant: Metric = Metric { name: $name, help: $help };)*
        };
    }

    metrics! {
        BOOTSTRAP_COMPLETE, "svc_mcp_bootstrap_complete", "1 once the server serves.";
        TOOLS_ADVERTISED, "svc_mcp_tools_advertised", "Tools listed, by surface.";
        TOOL_CALLS, "svc_mcp_tool_calls_total", "Tool calls ended, by tool, outcome and error_code.";
        TOOL_DURATION, "svc_mcp_tool_duration_seconds", "Seconds a tool call took, by tool and outcome.";
        TX_BROADCAST, "svc_mcp_tx_broadcast_total", "Broadcasts answered by the node, by msg_type and outcome.";
        TX_BROADCAST_DURATION, "svc_mcp_tx_broadcast_duration_seconds", "Seconds a broadcast took, by msg_type.";
        TX_OUTCOME, "svc_mcp_tx_outcome_total", "Transactions decided, by msg_type and outcome: included, failed, expired, displaced.";
        TX_TOLD_LATE, "svc_mcp_tx_timeout_total", "Callers told BCAST_TIMEOUT.";
        TX_LATE, "svc_mcp_tx_late_total", "Writes decided after a caller was told BCAST_TIMEOUT, by outcome.";
        TX_RESENT, "svc_mcp_tx_resent_total", "Transactions handed to a node again, the same bytes, by outcome.";
        TX_RECOVERED, "svc_mcp_tx_recovered_total", "Transactions found open in the journal at boot, by state.";
        TX_WAITING, "svc_mcp_tx_waiting", "Writes that wait for their signature.";
        TX_IN_FLIGHT, "svc_mcp_tx_in_flight", "Transactions that may still execute.";
        TX_WINDOW, "svc_mcp_tx_window", "Transactions that may be in flight at once.";
        ENDPOINT_SWITCHED, "svc_mcp_endpoint_switches_total", "Times another server of a list was taken into use, by kind.";
        BARRIER_LAG, "svc_mcp_barrier_lag_blocks", "Blocks the indexer is behind the newest height somebody waits for.";
        BARRIER_OUTCOME, "svc_mcp_barrier_outcome_total", "Barrier waits ended, by outcome.";
        WS_CONNECTED, "svc_mcp_ws_connected", "1 while the WebSocket is up, by endpoint.";
        WS_RECONNECTS, "svc_mcp_ws_reconnects_total", "WebSocket attempts after the first, by endpoint.";
        WS_LAST_BLOCK, "svc_mcp_ws_last_block_height", "Newest height seen over the WebSocket, by endpoint.";
        AUTHZ_CACHE_SIZE, "svc_mcp_authz_cache_size", "Authorizations known to the server.";
        AUTHZ_CACHE_REFRESH, "svc_mcp_authz_cache_refresh_total", "Times the authorizations were read, by trigger.";
        VS_AGENTS_KNOWN, "svc_mcp_vs_agents_known", "Agents known, by whether their admin API is reachable.";
        UPSTREAM_REQUESTS, "svc_mcp_upstream_requests_total", "Upstream requests ended, by kind and outcome.";
        UPSTREAM_DURATION, "svc_mcp_upstream_request_duration_seconds", "Seconds an upstream request took, by kind.";
        DID_RESOLUTIONS, "svc_did_resolutions_total", "DIDs resolved, by method and outcome: ok, cached, or the code of the failure.";
        DID_RESOLUTION_DURATION, "svc_did_resolution_duration_seconds", "Seconds to fetch and verify a DID Document, by method.";
        MAILBOX_DEPTH, "svc_actor_mailbox_depth", "Messages waiting in mailboxes, by actor.";
        MESSAGE_WAIT, "svc_actor_message_wait_seconds", "Seconds a message waited in the mailbox, by actor.";
        MESSAGE_DURATION, "svc_actor_message_duration_seconds", "Seconds a message was handled, by actor, message and outcome.";
        RESTARTS, "svc_actor_restarts_total", "Restarts, by actor and reason.";
        REJECTED, "svc_actor_rejected_total", "Messages refused by an admission limit, by actor.";
        INDEXER_HEIGHT, "svc_indexer_block_height", "Newest height the indexer has written.";
        INDEXER_TIP, "svc_indexer_tip_height", "Newest height the indexer knows the node to have.";
        INDEXER_BLOCK_DURATION, "svc_indexer_block_duration_seconds", "Seconds to take a block in, by stage: fetch, gather, write, tell, tell_trust.";
        INDEXER_BLOCK_FAILURES, "svc_indexer_block_failures_total", "Attempts at a block that failed and are repeated, by stage.";
        INDEXER_EVENTS, "svc_indexer_events_total", "Registry events written, by module.";
        TRUST_HEIGHT, "svc_trust_height", "Newest height whose verdicts are written.";
        TRUST_TO_JUDGE, "svc_trust_dids_to_judge", "DIDs that are still to be judged after that height.";
        TRUST_JUDGED, "svc_trust_judged_total", "DIDs judged, by outcome: trusted, not_trusted, failed.";
        TRUST_JUDGE_DURATION, "svc_trust_judge_duration_seconds", "Seconds judging a DID took, web servers included, by outcome.";
        SUBSCRIBERS, "svc_indexer_subscribers", "Connections to subscriptions, by stream: blocks, trust.";
        SUBSCRIBER_FILTERS, "svc_indexer_subscriber_filters", "Distinct filters among the subscriptions, by stream.";
        SUBSCRIBER_CLOSES, "svc_indexer_subscriber_closes_total", "Connections the indexer closed, by stream and close code.";
        READS, "svc_indexer_reads_total", "Reads answered, by operation and status.";
        READ_DURATION, "svc_indexer_read_duration_seconds", "Seconds a read took, by operation.";
        DEVNET_HEIGHT, "svc_devnet_block_height", "Newest height of the devnet's chain.";
        DEVNET_TXS, "svc_devnet_txs_total", "Transactions in the devnet's blocks, by codespace; ok for those without error.";
        DEVNET_BLOCK_DURATION, "svc_devnet_block_duration_seconds", "Seconds the devnet took to run, seal and store a block.";
    }
}
