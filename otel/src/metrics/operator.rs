//! Metrics of the operator: barrier, authorizations and agents.

use super::instrument::instrument;

/// Records the number of blocks between the indexer and the newest awaited height.
pub fn record_barrier_lag(blocks: u64) {
    instrument!(Gauge, "svc_mcp_barrier_lag_blocks", "Blocks the indexer is behind the newest awaited height.")
        .set(blocks, []);
}

/// Counts a finished barrier wait: `reached` or `behind`.
pub fn record_barrier_outcome(outcome: &str) {
    instrument!(Counter, "svc_mcp_barrier_outcome_total", "Barrier waits ended, by outcome.")
        .increment([("outcome", outcome)]);
}

/// Records the number of authorizations in the cache.
pub fn record_authz_cache_size(count: usize) {
    instrument!(Gauge, "svc_mcp_authz_cache_size", "Authorizations known to the server.").set(count as u64, []);
}

/// Counts a read of the authorizations.
pub fn record_authz_cache_refresh(trigger: &str) {
    instrument!(Counter, "svc_mcp_authz_cache_refresh_total", "Times the authorizations were read, by trigger.")
        .increment([("trigger", trigger)]);
}

/// Records the number of known agents whose admin API is, or is not, reachable.
pub fn record_vs_agents_known(reachable: bool, count: usize) {
    let reachable = if reachable { "true" } else { "false" };
    instrument!(Gauge, "svc_mcp_vs_agents_known", "Agents known, by whether their admin API is reachable.")
        .set(count as u64, [("reachable", reachable)]);
}
