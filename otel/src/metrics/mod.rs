//! Metrics: one function per event. The function that records a metric also declares it: instrument kind, name, help text and
//! labels stand there and nowhere else.
//!
//! Label values are bounded: tool names, message types and codes come from closed lists.
//!
//! Every instrument is made at its first use, from the global meter provider. The first use must come after
//! [`Telemetry::start`](crate::Telemetry::start): an instrument that is made earlier records nothing.

mod actors;
mod agent;
mod devnet;
mod indexer;
mod instrument;
mod mcp;
mod net;
mod operator;
mod pipeline;

pub use actors::{
    record_actor_restart, record_mailbox_depth, record_message_duration, record_message_rejected, record_message_wait,
};
pub use agent::{
    record_access_active, record_access_answer, record_access_drop, record_access_request, record_access_revocations,
    record_admin_request, record_agent_store, record_credential_anchor, record_credentials_waiting,
    record_document_size, record_document_version, record_flow_blocked, record_flow_completed,
    record_flow_session_cost, record_flow_sessions, record_flow_step, record_flows, record_login, record_peer_call,
    record_peer_message, record_peer_outbox, record_peer_refusal, record_peer_resolution, record_peer_sessions,
    record_peer_sockets, record_peer_verdict, record_registry_events, record_resolution, record_resolution_state,
    record_webhook, record_webhook_time,
};
pub use devnet::record_devnet_block;
pub use indexer::{
    BlockStage, SubscriptionStream, TrustOutcome, TryOutcome, record_block_age, record_indexer_events,
    record_indexer_failure, record_indexer_progress, record_indexer_read, record_indexer_stage, record_nodes_away,
    record_open_evaluations, record_other_histories, record_start_page, record_subscriber_close, record_subscribers,
    record_trust_evaluation, record_trust_height, record_trust_try,
};
pub use mcp::{record_bootstrap, record_peer_token, record_tool_call, record_tools_advertised};
pub use net::{
    record_did_resolution, record_document_fetch, record_endpoint_switch, record_http_connections, record_http_refused,
    record_indexer_standing, record_node_dispute, record_upstream_request, record_ws_connected, record_ws_last_block,
    record_ws_reconnect, record_ws_silent,
};
pub use operator::{
    record_authz_cache_refresh, record_authz_cache_size, record_barrier_lag, record_barrier_outcome,
    record_vs_agents_known,
};
pub use pipeline::{
    record_block_read, record_chain_change, record_journal_write, record_tx_broadcast, record_tx_decided_late,
    record_tx_outcome, record_tx_queue, record_tx_recovered, record_tx_refused, record_tx_resent, record_tx_timeout,
};
