//! Metrics of the tool server's front end.

use std::time::Duration;

use super::instrument::instrument;

/// Records whether the server serves.
pub fn record_bootstrap(complete: bool) {
    instrument!(Gauge, "svc_mcp_bootstrap_complete", "1 once the server serves.").set(u64::from(complete), []);
}

/// Records the number of tools listed on one surface.
pub fn record_tools_advertised(surface: &str, count: usize) {
    instrument!(Gauge, "svc_mcp_tools_advertised", "Tools listed, by surface.")
        .set(count as u64, [("surface", surface)]);
}

/// Records a finished tool call; `error_code` is empty on success.
pub fn record_tool_call(tool: &str, error_code: &str, took: Duration) {
    let outcome = if error_code.is_empty() { "ok" } else { "error" };
    instrument!(DurationHistogram, "svc_mcp_tool_duration_seconds", "Seconds a tool call took, by tool and outcome.")
        .record(took, [("tool", tool), ("outcome", outcome)]);
    instrument!(Counter, "svc_mcp_tool_calls_total", "Tool calls ended, by tool, outcome and error_code.").increment([
        ("tool", tool),
        ("outcome", outcome),
        ("error_code", error_code),
    ]);
}

/// Records a token of a peer: `accepted`, `unavailable`, or the check that it did not pass.
pub fn record_peer_token(outcome: &'static str) {
    instrument!(Counter, "svc_mcp_peer_tokens_total", "Tokens of peers, by outcome.").increment([("outcome", outcome)]);
}
