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
    /// Wait for inclusion in a block.
    pub const AWAIT_INCLUSION: &str = "await_inclusion";
    /// Wait for the indexer to reach the block.
    pub const AWAIT_INDEX: &str = "await_index";
    /// One request to a server this one depends on.
    pub const UPSTREAM: &str = "upstream";
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
    /// Error code of a failed call.
    pub const ERROR_TYPE: &str = "error.type";
}

/// Metric names.
pub mod metric {
    /// Gauge, 1 once the server serves.
    pub const BOOTSTRAP_COMPLETE: &str = "svc_mcp_bootstrap_complete";
    /// Gauge by surface.
    pub const TOOLS_ADVERTISED: &str = "svc_mcp_tools_advertised";
    /// Counter by tool, outcome, error_code.
    pub const TOOL_CALLS: &str = "svc_mcp_tool_calls_total";
    /// Histogram by tool, outcome.
    pub const TOOL_DURATION: &str = "svc_mcp_tool_duration_seconds";
    /// Counter by msg_type, outcome.
    pub const TX_BROADCAST: &str = "svc_mcp_tx_broadcast_total";
    /// Histogram by msg_type.
    pub const TX_BROADCAST_DURATION: &str = "svc_mcp_tx_broadcast_duration_seconds";
    /// Gauge: blocks between the newest write and the indexer.
    pub const BARRIER_LAG: &str = "svc_mcp_barrier_lag_blocks";
    /// Counter by outcome.
    pub const BARRIER_OUTCOME: &str = "svc_mcp_barrier_outcome_total";
    /// Gauge by endpoint.
    pub const WS_CONNECTED: &str = "svc_mcp_ws_connected";
    /// Counter by endpoint.
    pub const WS_RECONNECTS: &str = "svc_mcp_ws_reconnects_total";
    /// Gauge by endpoint.
    pub const WS_LAST_BLOCK: &str = "svc_mcp_ws_last_block_height";
    /// Gauge: authorizations known.
    pub const AUTHZ_CACHE_SIZE: &str = "svc_mcp_authz_cache_size";
    /// Counter by trigger.
    pub const AUTHZ_CACHE_REFRESH: &str = "svc_mcp_authz_cache_refresh_total";
    /// Gauge by reachable.
    pub const VS_AGENTS_KNOWN: &str = "svc_mcp_vs_agents_known";
    /// Counter by kind, outcome.
    pub const UPSTREAM_REQUESTS: &str = "svc_mcp_upstream_requests_total";
    /// Histogram by kind.
    pub const UPSTREAM_DURATION: &str = "svc_mcp_upstream_request_duration_seconds";
    /// Gauge by actor.
    pub const MAILBOX_DEPTH: &str = "svc_actor_mailbox_depth";
    /// Histogram by actor.
    pub const MESSAGE_WAIT: &str = "svc_actor_message_wait_seconds";
    /// Histogram by actor, message, outcome.
    pub const MESSAGE_DURATION: &str = "svc_actor_message_duration_seconds";
    /// Counter by actor, reason.
    pub const RESTARTS: &str = "svc_actor_restarts_total";
    /// Counter by actor.
    pub const REJECTED: &str = "svc_actor_rejected_total";
}
