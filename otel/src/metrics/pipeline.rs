//! Metrics of the write pipeline.

use std::time::Duration;

use super::instrument::instrument;

/// Records a broadcast that the node has answered.
pub fn record_tx_broadcast(msg_type: &str, outcome: &str, took: Duration) {
    instrument!(Counter, "svc_mcp_tx_broadcast_total", "Broadcasts answered by the node, by msg_type and outcome.")
        .increment([("msg_type", msg_type), ("outcome", outcome)]);
    instrument!(DurationHistogram, "svc_mcp_tx_broadcast_duration_seconds", "Seconds a broadcast took, by msg_type.")
        .record(took, [("msg_type", msg_type)]);
}

/// Counts a decided transaction.
pub fn record_tx_outcome(msg_type: &str, outcome: &str) {
    instrument!(
        Counter,
        "svc_mcp_tx_outcome_total",
        "Transactions decided, by msg_type and outcome: included, failed, expired, displaced, refused."
    )
    .increment([("msg_type", msg_type), ("outcome", outcome)]);
}

/// Counts a call that ended with `BCAST_TIMEOUT`, before its transaction was decided.
pub fn record_tx_timeout() {
    instrument!(Counter, "svc_mcp_tx_timeout_total", "Calls answered with BCAST_TIMEOUT.").increment([]);
}

/// Counts a transaction that was decided after its call had ended with `BCAST_TIMEOUT`.
pub fn record_tx_decided_late(outcome: &str) {
    instrument!(
        Counter,
        "svc_mcp_tx_late_total",
        "Writes decided after their call was answered with BCAST_TIMEOUT, by outcome."
    )
    .increment([("outcome", outcome)]);
}

/// Counts a resent transaction.
pub fn record_tx_resent(outcome: &str) {
    instrument!(Counter, "svc_mcp_tx_resent_total", "Transactions resent to a node with the same bytes, by outcome.")
        .increment([("outcome", outcome)]);
}

/// Counts a block, or the results of one, that was read to prove the outcome of a transaction: `read`, or `missing` at every node.
pub fn record_block_read(part: &str, outcome: &str) {
    instrument!(
        Counter,
        "svc_mcp_tx_proof_reads_total",
        "Blocks and block results read to prove outcomes, by part and outcome."
    )
    .increment([("part", part), ("outcome", outcome)]);
}

/// Counts a group of entries that the journal wrote, or could not write.
pub fn record_journal_write(is_written: bool) {
    instrument!(Counter, "svc_mcp_journal_writes_total", "Groups of journal entries, by outcome: written or failed.")
        .increment([("outcome", if is_written { "written" } else { "failed" })]);
}

/// Records whether the chain has another history than the journal, so that nothing is signed.
pub fn record_chain_change(has_changed: bool) {
    instrument!(
        Gauge,
        "svc_mcp_chain_changed",
        "1 while the chain has another history than the journal: nothing is signed."
    )
    .set(u64::from(has_changed), []);
}

/// Counts a transaction of an earlier process: `found` at boot, and later its outcome.
pub fn record_tx_recovered(state: &str) {
    instrument!(Counter, "svc_mcp_tx_recovered_total", "Transactions found open in the journal at boot, by state.")
        .increment([("state", state)]);
}

/// Counts a refused transaction. It is decided later.
pub fn record_tx_refused(stage: &str) {
    instrument!(
        Counter,
        "svc_mcp_tx_refused_total",
        "Transactions refused, by stage: check_tx, block. Each may execute until it is decided."
    )
    .increment([("stage", stage)]);
}

/// Records the writes that wait, the transactions in flight and the refused ones, and the number that may be in flight.
pub fn record_tx_queue(waiting: usize, in_flight: usize, refused: usize, window: usize) {
    instrument!(Gauge, "svc_mcp_tx_waiting", "Writes that wait for their signature.").set(waiting as u64, []);
    instrument!(Gauge, "svc_mcp_tx_in_flight", "Transactions that may still execute.").set(in_flight as u64, []);
    instrument!(Gauge, "svc_mcp_tx_refused_open", "Refused transactions that may still execute.")
        .set(refused as u64, []);
    instrument!(Gauge, "svc_mcp_tx_window", "Transactions that may be in flight at once.").set(window as u64, []);
}
