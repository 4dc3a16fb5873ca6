//! The line of the log and the metrics of a flow that has changed.

use std::time::Duration;

use svc_agent_core::peer_tag::peer_tag;
use svc_agent_store::WrittenFlow;
use svc_didcomm::flow::FlowState;
use svc_otel::metrics;

/// The log line and the numbers of a flow that has changed.
pub(super) fn note_changes(written: &WrittenFlow) {
    let WrittenFlow { record, changes, blocked, .. } = written;
    for state in changes {
        let (flow, side, state) = (&record.id, record.side.as_str(), state.as_str());
        tracing::info!(flow, side, state, peer = peer_tag(&record.peer_did), "a flow has another state");
    }
    if changes.contains(&FlowState::Completed) {
        let took = record.last_event_at.saturating_sub(record.created_at);
        metrics::record_flow_completed(record.side.as_str(), Duration::from_millis(took.max(0) as u64));
    }
    if let Some(reason) = blocked {
        tracing::warn!(flow = record.id, side = record.side.as_str(), reason, "a flow waits");
        metrics::record_flow_blocked(reason);
    }
}
