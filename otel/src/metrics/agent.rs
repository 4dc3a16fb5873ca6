//! Metrics of the agent: its admin API, its document and its store.

use std::time::Duration;

use super::instrument::instrument;

/// Records an answered request to the admin API. `route` is the path with its parameters by name.
pub fn record_admin_request(route: &str, status: u16, took: Duration) {
    instrument!(
        DurationHistogram,
        "svc_agent_request_duration_seconds",
        "Seconds a request to the admin API took, by route."
    )
    .record(took, [("route", route)]);
    instrument!(Counter, "svc_agent_requests_total", "Requests to the admin API, by route and status.")
        .increment([("route", route), ("status", &status.to_string())]);
}

/// Records a written version of the DID Document: the time from its first change, and its number of changes.
pub fn record_document_version(changes: usize, took: Duration, is_written: bool) {
    let outcome = if is_written { "written" } else { "failed" };
    instrument!(Counter, "svc_agent_document_versions_total", "Versions of the DID Document, by outcome.")
        .increment([("outcome", outcome)]);
    instrument!(Counter, "svc_agent_document_changes_total", "Changes in versions of the DID Document, by outcome.")
        .add(u64::try_from(changes).unwrap_or(u64::MAX), [("outcome", outcome)]);
    instrument!(
        DurationHistogram,
        "svc_agent_document_write_seconds",
        "Seconds a version took to be made, verified and stored."
    )
    .record(took, []);
}

/// Records the size of the log of the DID.
pub fn record_document_size(entries: u64, log_bytes: usize, fill_percent: u64) {
    instrument!(Gauge, "svc_agent_log_entries", "Entries in the log of the DID.").set(entries, []);
    instrument!(Gauge, "svc_agent_log_bytes", "Bytes of the log of the DID.")
        .set(u64::try_from(log_bytes).unwrap_or(u64::MAX), []);
    instrument!(
        Gauge,
        "svc_agent_log_fill_percent",
        "Percent of the bounds of a log that the log of the DID has reached; changes are refused at 99, deletions at 100."
    )
    .set(fill_percent, []);
}

/// Records a login to the admin API.
pub fn record_login(is_successful: bool) {
    let outcome = if is_successful { "ok" } else { "refused" };
    instrument!(Counter, "svc_agent_logins_total", "Logins to the admin API, by outcome.")
        .increment([("outcome", outcome)]);
}

/// Records whether the store of the agent can be written.
pub fn record_agent_store(is_writable: bool) {
    instrument!(Gauge, "svc_agent_store_writable", "1 while the store of the agent can be written.")
        .set(u64::from(is_writable), []);
}

/// Records an attempt to deliver an event; `None` without an answer.
pub fn record_webhook(status: Option<u16>) {
    let outcome = match status {
        Some(200..=299) => "delivered",
        Some(_) => "refused",
        None => "unanswered",
    };
    instrument!(Counter, "svc_agent_webhooks_total", "Attempts to deliver an event, by outcome.")
        .increment([("outcome", outcome)]);
}

/// Records the time of an attempt.
pub fn record_webhook_time(took: Duration) {
    instrument!(
        DurationHistogram,
        "svc_agent_webhook_duration_seconds",
        "Seconds an attempt to deliver an event took."
    )
    .record(took, []);
}

/// Records registry events that the agent has received.
pub fn record_registry_events(count: usize) {
    instrument!(Counter, "svc_agent_registry_events_total", "Registry events that the agent has received.")
        .add(u64::try_from(count).unwrap_or(u64::MAX), []);
}

/// Records the end of an attempt to have the document resolved again.
pub fn record_resolution(outcome: &'static str) {
    instrument!(Counter, "svc_agent_resolutions_total", "Attempts to have the document resolved again, by outcome.")
        .increment([("outcome", outcome)]);
}

/// Records the end of an attempt to anchor a credential: anchored, blocked or failed.
pub fn record_credential_anchor(outcome: &'static str) {
    instrument!(
        Counter,
        "svc_agent_credential_anchors_total",
        "Attempts to anchor the digest of a credential, by outcome."
    )
    .increment([("outcome", outcome)]);
}

/// Records the number of credentials that wait: for a grant, a fee, a digest or a server.
pub fn record_credentials_waiting(count: usize) {
    instrument!(Gauge, "svc_agent_credentials_waiting", "Credentials that could not be issued or anchored yet.")
        .set(u64::try_from(count).unwrap_or(u64::MAX), []);
}

/// States of the resolution of the document.
const RESOLUTION_STATES: [&str; 5] = ["off", "idle", "pending", "submitted", "blocked"];

/// Records the state of the resolution of the document.
pub fn record_resolution_state(current: &str) {
    for state in RESOLUTION_STATES {
        instrument!(Gauge, "svc_agent_resolution_state", "1 for the state that the resolution of the document is in.")
            .set(u64::from(state == current), [("state", state)]);
    }
}

/// Records a message of a peer, or one to a peer, by direction.
pub fn record_peer_message(direction: &'static str, protocol: &'static str, outcome: &'static str) {
    instrument!(
        Counter,
        "svc_agent_peer_messages_total",
        "Messages of and to peers, by direction, protocol and outcome."
    )
    .increment([("direction", direction), ("protocol", protocol), ("outcome", outcome)]);
}

/// Records a refused message of a peer, by the check that refused it.
pub fn record_peer_refusal(reason: &'static str) {
    instrument!(Counter, "svc_agent_peer_refusals_total", "Messages of peers that were refused, by reason.")
        .increment([("reason", reason)]);
}

/// Records a decision about a peer's trust that was not cached.
pub fn record_peer_verdict(outcome: &'static str, took: Duration) {
    instrument!(
        DurationHistogram,
        "svc_agent_peer_verdict_seconds",
        "Seconds a decision about a peer took, by outcome."
    )
    .record(took, [("outcome", outcome)]);
}

/// Records the resolution of a peer's document.
pub fn record_peer_resolution(outcome: &'static str, took: Duration) {
    instrument!(
        DurationHistogram,
        "svc_agent_peer_resolution_seconds",
        "Seconds the resolution of a peer's document took, by outcome."
    )
    .record(took, [("outcome", outcome)]);
}

/// Records the number of sessions with peers that run.
pub fn record_peer_sessions(count: usize) {
    instrument!(Gauge, "svc_agent_peer_sessions", "Sessions with peers that run.")
        .set(u64::try_from(count).unwrap_or(u64::MAX), []);
}

/// Records the number of messages in the outbox to peers.
pub fn record_peer_outbox(count: u64) {
    instrument!(Gauge, "svc_agent_peer_outbox", "Messages to peers that wait, or have no answer.").set(count, []);
}

/// Records the accepted sockets of peers, and the bytes of the messages that are being received.
pub fn record_peer_sockets(count: usize, bytes_in_flight: usize) {
    instrument!(Gauge, "svc_agent_peer_sockets", "WebSockets that peers have opened.")
        .set(u64::try_from(count).unwrap_or(u64::MAX), []);
    instrument!(Gauge, "svc_agent_peer_bytes_in_flight", "Bytes of messages of peers that are being received.")
        .set(u64::try_from(bytes_in_flight).unwrap_or(u64::MAX), []);
}

/// Records the number of flows in a state.
pub fn record_flows(state: &str, flows: u64) {
    instrument!(Gauge, "svc_agent_flows", "Flows of the agent, by state.").set(flows, [("state", state)]);
}

/// Records the number of flows that work now.
pub fn record_flow_sessions(sessions: usize) {
    instrument!(Gauge, "svc_agent_flow_sessions", "Flows that work now.")
        .set(u64::try_from(sessions).unwrap_or(u64::MAX), []);
}

/// Records a flow whose credential is held, and the time since its beginning.
pub fn record_flow_completed(side: &str, took: Duration) {
    instrument!(
        DurationHistogram,
        "svc_agent_flow_completion_seconds",
        "Seconds from the beginning of a flow to its credential, by side."
    )
    .record(took, [("side", side)]);
}

/// Records a flow that begins to wait for people, by its reason.
pub fn record_flow_blocked(reason: &str) {
    instrument!(Counter, "svc_agent_flow_blocks_total", "Flows that began to wait for people, by reason.")
        .increment([("reason", reason)]);
}

/// Records a step of a flow.
pub fn record_flow_step(step: &'static str, outcome: &'static str, took: Duration) {
    instrument!(
        DurationHistogram,
        "svc_agent_flow_step_seconds",
        "Seconds a step of a flow took, by step and outcome."
    )
    .record(took, [("step", step), ("outcome", outcome)]);
}

/// Records the cost of a credential's session, in base units of the denomination of fees.
pub fn record_flow_session_cost(cost: u64) {
    instrument!(
        Counter,
        "svc_agent_flow_session_cost_total",
        "Fees that beneficiaries of sessions got, in base units."
    )
    .add(cost, []);
}

/// Records the answer to a peer's request for access: `granted`, or the code of the denial.
pub fn record_access_answer(outcome: &'static str) {
    instrument!(Counter, "svc_agent_access_answers_total", "Answers to requests of peers for access, by outcome.")
        .increment([("outcome", outcome)]);
}

/// Records the number of valid grants of access.
pub fn record_access_active(grants: u64) {
    instrument!(Gauge, "svc_agent_access_grants", "Grants of access that are valid.").set(grants, []);
}

/// Records grants that were taken back.
pub fn record_access_revocations(grants: usize) {
    instrument!(Counter, "svc_agent_access_revocations_total", "Grants of access that were taken back.")
        .add(u64::try_from(grants).unwrap_or(u64::MAX), []);
}

/// Records a request of this agent for access to an endpoint of a peer.
pub fn record_access_request(outcome: &'static str, took: Duration) {
    instrument!(
        DurationHistogram,
        "svc_agent_access_request_seconds",
        "Seconds a request for access to a peer's endpoint took, by outcome."
    )
    .record(took, [("outcome", outcome)]);
}

/// Records a call of an endpoint of a peer: `ok`, or the step that failed.
pub fn record_peer_call(protocol: &'static str, outcome: &'static str, took: Duration) {
    instrument!(
        DurationHistogram,
        "svc_peer_call_seconds",
        "Seconds a call of a peer's endpoint took, by type of the endpoint and outcome."
    )
    .record(took, [("protocol", protocol), ("outcome", outcome)]);
}

/// Records a frame of a peer that was dropped, by reason.
pub fn record_access_drop(reason: &'static str) {
    instrument!(Counter, "svc_agent_access_drops_total", "Frames about access that were dropped, by reason.")
        .increment([("reason", reason)]);
}
