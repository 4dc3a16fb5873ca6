//! What is counted and measured. Labels are bounded: tool names, message types and codes come from closed lists.

use std::{sync::LazyLock, time::Duration};

use opentelemetry::{
    KeyValue, global,
    metrics::{Counter, Gauge, Histogram, UpDownCounter},
};

use crate::names::{Metric, SCOPE, metric};

/// From a local in-memory step to the longest wait a call may have.
const SECONDS: [f64; 14] = [0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

struct Instruments {
    bootstrap_complete: Gauge<u64>,
    tools_advertised: Gauge<u64>,
    tool_calls: Counter<u64>,
    tool_duration: Histogram<f64>,
    tx_broadcast: Counter<u64>,
    tx_broadcast_duration: Histogram<f64>,
    tx_outcome: Counter<u64>,
    tx_told_late: Counter<u64>,
    tx_late: Counter<u64>,
    tx_resent: Counter<u64>,
    tx_recovered: Counter<u64>,
    tx_waiting: Gauge<u64>,
    tx_in_flight: Gauge<u64>,
    tx_window: Gauge<u64>,
    endpoint_switched: Counter<u64>,
    barrier_lag: Gauge<u64>,
    barrier_outcome: Counter<u64>,
    ws_connected: Gauge<u64>,
    ws_reconnects: Counter<u64>,
    ws_last_block: Gauge<u64>,
    authz_cache_size: Gauge<u64>,
    authz_cache_refresh: Counter<u64>,
    vs_agents_known: Gauge<u64>,
    upstream_requests: Counter<u64>,
    upstream_duration: Histogram<f64>,
    did_resolutions: Counter<u64>,
    did_resolution_duration: Histogram<f64>,
    mailbox_depth: UpDownCounter<i64>,
    message_wait: Histogram<f64>,
    message_duration: Histogram<f64>,
    restarts: Counter<u64>,
    rejected: Counter<u64>,
    indexer_height: Gauge<u64>,
    indexer_tip: Gauge<u64>,
    indexer_block_duration: Histogram<f64>,
    indexer_block_failures: Counter<u64>,
    indexer_events: Counter<u64>,
    trust_height: Gauge<u64>,
    trust_to_judge: Gauge<u64>,
    trust_judged: Counter<u64>,
    trust_judge_duration: Histogram<f64>,
    subscribers: Gauge<u64>,
    subscriber_filters: Gauge<u64>,
    subscriber_closes: Counter<u64>,
    reads: Counter<u64>,
    read_duration: Histogram<f64>,
    devnet_height: Gauge<u64>,
    devnet_txs: Counter<u64>,
    devnet_block_duration: Histogram<f64>,
}

// First use must come after the meter provider is set: a meter taken earlier stays a no-op.
static INSTRUMENTS: LazyLock<Instruments> = LazyLock::new(|| {
    let meter = global::meter(SCOPE);
    let seconds = |metric: Metric| {
        let histogram = meter.f64_histogram(metric.name).with_description(metric.help);
        histogram.with_boundaries(SECONDS.to_vec()).build()
    };
    let counter = |metric: Metric| meter.u64_counter(metric.name).with_description(metric.help).build();
    let gauge = |metric: Metric| meter.u64_gauge(metric.name).with_description(metric.help).build();
    let depth = metric::MAILBOX_DEPTH;
    Instruments {
        bootstrap_complete: gauge(metric::BOOTSTRAP_COMPLETE),
        tools_advertised: gauge(metric::TOOLS_ADVERTISED),
        tool_calls: counter(metric::TOOL_CALLS),
        tool_duration: seconds(metric::TOOL_DURATION),
        tx_broadcast: counter(metric::TX_BROADCAST),
        tx_broadcast_duration: seconds(metric::TX_BROADCAST_DURATION),
        tx_outcome: counter(metric::TX_OUTCOME),
        tx_told_late: counter(metric::TX_TOLD_LATE),
        tx_late: counter(metric::TX_LATE),
        tx_resent: counter(metric::TX_RESENT),
        tx_recovered: counter(metric::TX_RECOVERED),
        tx_waiting: gauge(metric::TX_WAITING),
        tx_in_flight: gauge(metric::TX_IN_FLIGHT),
        tx_window: gauge(metric::TX_WINDOW),
        endpoint_switched: counter(metric::ENDPOINT_SWITCHED),
        barrier_lag: gauge(metric::BARRIER_LAG),
        barrier_outcome: counter(metric::BARRIER_OUTCOME),
        ws_connected: gauge(metric::WS_CONNECTED),
        ws_reconnects: counter(metric::WS_RECONNECTS),
        ws_last_block: gauge(metric::WS_LAST_BLOCK),
        authz_cache_size: gauge(metric::AUTHZ_CACHE_SIZE),
        authz_cache_refresh: counter(metric::AUTHZ_CACHE_REFRESH),
        vs_agents_known: gauge(metric::VS_AGENTS_KNOWN),
        upstream_requests: counter(metric::UPSTREAM_REQUESTS),
        upstream_duration: seconds(metric::UPSTREAM_DURATION),
        did_resolutions: counter(metric::DID_RESOLUTIONS),
        did_resolution_duration: seconds(metric::DID_RESOLUTION_DURATION),
        mailbox_depth: meter.i64_up_down_counter(depth.name).with_description(depth.help).build(),
        message_wait: seconds(metric::MESSAGE_WAIT),
        message_duration: seconds(metric::MESSAGE_DURATION),
        restarts: counter(metric::RESTARTS),
        rejected: counter(metric::REJECTED),
        indexer_height: gauge(metric::INDEXER_HEIGHT),
        indexer_tip: gauge(metric::INDEXER_TIP),
        indexer_block_duration: seconds(metric::INDEXER_BLOCK_DURATION),
        indexer_block_failures: counter(metric::INDEXER_BLOCK_FAILURES),
        indexer_events: counter(metric::INDEXER_EVENTS),
        trust_height: gauge(metric::TRUST_HEIGHT),
        trust_to_judge: gauge(metric::TRUST_TO_JUDGE),
        trust_judged: counter(metric::TRUST_JUDGED),
        trust_judge_duration: seconds(metric::TRUST_JUDGE_DURATION),
        subscribers: gauge(metric::SUBSCRIBERS),
        subscriber_filters: gauge(metric::SUBSCRIBER_FILTERS),
        subscriber_closes: counter(metric::SUBSCRIBER_CLOSES),
        reads: counter(metric::READS),
        read_duration: seconds(metric::READ_DURATION),
        devnet_height: gauge(metric::DEVNET_HEIGHT),
        devnet_txs: counter(metric::DEVNET_TXS),
        devnet_block_duration: seconds(metric::DEVNET_BLOCK_DURATION),
    }
});

fn label(key: &'static str, value: &str) -> KeyValue {
    KeyValue::new(key, value.to_owned())
}

/// The devnet has made a block; each transaction by its codespace, empty on success.
pub fn devnet_block<'a>(height: u64, codespaces: impl Iterator<Item = &'a str>, took: Duration) {
    INSTRUMENTS.devnet_height.record(height, &[]);
    INSTRUMENTS.devnet_block_duration.record(took.as_secs_f64(), &[]);
    for codespace in codespaces {
        let outcome = if codespace.is_empty() { "ok" } else { codespace };
        INSTRUMENTS.devnet_txs.add(1, &[label("codespace", outcome)]);
    }
}

/// Streams of the indexer that can be subscribed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Blocks with their events.
    Blocks,
    /// Blocks with what they changed about trust.
    Trust,
}

impl Stream {
    fn as_str(self) -> &'static str {
        match self {
            Self::Blocks => "blocks",
            Self::Trust => "trust",
        }
    }
}

/// Stages of taking a block into the indexer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockStage {
    /// The block and what it touched are read from the node.
    Fetch,
    /// What it writes is worked out.
    Gather,
    /// It is written.
    Write,
    /// Subscribers of a stream are told.
    Tell(Stream),
}

impl BlockStage {
    fn as_str(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::Gather => "gather",
            Self::Write => "write",
            Self::Tell(Stream::Blocks) => "tell",
            Self::Tell(Stream::Trust) => "tell_trust",
        }
    }
}

/// The indexer has done one stage of a block.
pub fn indexer_stage(stage: BlockStage, took: Duration) {
    INSTRUMENTS.indexer_block_duration.record(took.as_secs_f64(), &[label("stage", stage.as_str())]);
}

/// One stage of a block has failed and is repeated.
pub fn indexer_failure(stage: BlockStage) {
    INSTRUMENTS.indexer_block_failures.add(1, &[label("stage", stage.as_str())]);
}

/// The indexer has written a block; each event by its module.
pub fn indexer_block<'a>(height: u64, tip: u64, modules: impl Iterator<Item = &'a str>) {
    INSTRUMENTS.indexer_height.record(height, &[]);
    INSTRUMENTS.indexer_tip.record(tip, &[]);
    for module in modules {
        INSTRUMENTS.indexer_events.add(1, &[label("module", module)]);
    }
}

/// What judging a DID came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    /// It is trusted.
    Trusted,
    /// It is not.
    NotTrusted,
    /// It could not be judged, for a reason of our own.
    Failed,
}

impl Judged {
    /// Name in labels and attributes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trusted => "trusted",
            Self::NotTrusted => "not_trusted",
            Self::Failed => "failed",
        }
    }
}

/// A DID was judged.
pub fn trust_judged(outcome: Judged, took: Duration) {
    INSTRUMENTS.trust_judged.add(1, &[label("outcome", outcome.as_str())]);
    INSTRUMENTS.trust_judge_duration.record(took.as_secs_f64(), &[label("outcome", outcome.as_str())]);
}

/// The verdicts of a height are written; so many DIDs are still to be judged.
pub fn trust_height(height: u64, to_judge: usize) {
    INSTRUMENTS.trust_height.record(height, &[]);
    INSTRUMENTS.trust_to_judge.record(to_judge as u64, &[]);
}

/// Connections to a stream, and the distinct filters among them.
pub fn subscribers(stream: Stream, connections: usize, filters: usize) {
    INSTRUMENTS.subscribers.record(connections as u64, &[label("stream", stream.as_str())]);
    INSTRUMENTS.subscriber_filters.record(filters as u64, &[label("stream", stream.as_str())]);
}

/// The indexer has closed a connection to a stream.
pub fn subscriber_closed(stream: Stream, code: u16) {
    INSTRUMENTS.subscriber_closes.add(1, &[label("stream", stream.as_str()), label("code", &code.to_string())]);
}

/// A read of the indexer has ended.
pub fn read(operation: &str, status: u16, took: Duration) {
    INSTRUMENTS.read_duration.record(took.as_secs_f64(), &[label("operation", operation)]);
    INSTRUMENTS.reads.add(1, &[label("operation", operation), label("status", &status.to_string())]);
}

/// The server serves, or no longer does.
pub fn bootstrap_complete(complete: bool) {
    INSTRUMENTS.bootstrap_complete.record(u64::from(complete), &[]);
}

/// Tools listed on one surface.
pub fn tools_advertised(surface: &str, count: usize) {
    INSTRUMENTS.tools_advertised.record(count as u64, &[label("surface", surface)]);
}

/// One tool call has ended; `error_code` is empty on success.
pub fn tool_call(tool: &str, error_code: &str, took: Duration) {
    let outcome = if error_code.is_empty() { "ok" } else { "error" };
    let labels = [label("tool", tool), label("outcome", outcome)];
    INSTRUMENTS.tool_duration.record(took.as_secs_f64(), &labels);
    let [tool, outcome] = labels;
    INSTRUMENTS.tool_calls.add(1, &[tool, outcome, label("error_code", error_code)]);
}

/// One broadcast has been answered by the node.
pub fn tx_broadcast(msg_type: &str, outcome: &str, took: Duration) {
    INSTRUMENTS.tx_broadcast.add(1, &[label("msg_type", msg_type), label("outcome", outcome)]);
    INSTRUMENTS.tx_broadcast_duration.record(took.as_secs_f64(), &[label("msg_type", msg_type)]);
}

/// One transaction was decided.
pub fn tx_outcome(msg_type: &str, outcome: &str) {
    INSTRUMENTS.tx_outcome.add(1, &[label("msg_type", msg_type), label("outcome", outcome)]);
}

/// A caller was told that the outcome is not decided yet.
pub fn tx_told_late() {
    INSTRUMENTS.tx_told_late.add(1, &[]);
}

/// A write was decided after that.
pub fn tx_late(outcome: &str) {
    INSTRUMENTS.tx_late.add(1, &[label("outcome", outcome)]);
}

/// A transaction was handed to a node again.
pub fn tx_resent(outcome: &str) {
    INSTRUMENTS.tx_resent.add(1, &[label("outcome", outcome)]);
}

/// A transaction of an earlier process: `found` at boot, and how it ended.
pub fn tx_recovered(state: &str) {
    INSTRUMENTS.tx_recovered.add(1, &[label("state", state)]);
}

/// Writes that wait, transactions in flight, and how many may be.
pub fn tx_line(waiting: usize, in_flight: usize, window: usize) {
    INSTRUMENTS.tx_waiting.record(waiting as u64, &[]);
    INSTRUMENTS.tx_in_flight.record(in_flight as u64, &[]);
    INSTRUMENTS.tx_window.record(window as u64, &[]);
}

/// Another server of a list is used.
pub fn endpoint_switched(kind: &str) {
    INSTRUMENTS.endpoint_switched.add(1, &[label("kind", kind)]);
}

/// Blocks the indexer is behind the newest height somebody waits for.
pub fn barrier_lag(blocks: u64) {
    INSTRUMENTS.barrier_lag.record(blocks, &[]);
}

/// One barrier wait has ended: `reached` or `behind`.
pub fn barrier_outcome(outcome: &str) {
    INSTRUMENTS.barrier_outcome.add(1, &[label("outcome", outcome)]);
}

/// A WebSocket link went up or down.
pub fn ws_connected(endpoint: &str, connected: bool) {
    INSTRUMENTS.ws_connected.record(u64::from(connected), &[label("endpoint", endpoint)]);
}

/// A WebSocket link is being opened again.
pub fn ws_reconnect(endpoint: &str) {
    INSTRUMENTS.ws_reconnects.add(1, &[label("endpoint", endpoint)]);
}

/// A block was seen over a link.
pub fn ws_last_block(endpoint: &str, height: u64) {
    INSTRUMENTS.ws_last_block.record(height, &[label("endpoint", endpoint)]);
}

/// Authorizations known to the server.
pub fn authz_cache_size(count: usize) {
    INSTRUMENTS.authz_cache_size.record(count as u64, &[]);
}

/// The authorizations were read again.
pub fn authz_cache_refresh(trigger: &str) {
    INSTRUMENTS.authz_cache_refresh.add(1, &[label("trigger", trigger)]);
}

/// Agents known, by whether their admin API answered.
pub fn vs_agents_known(reachable: bool, count: usize) {
    let text = if reachable { "true" } else { "false" };
    INSTRUMENTS.vs_agents_known.record(count as u64, &[label("reachable", text)]);
}

/// One upstream request has ended.
pub fn upstream_request(kind: &str, outcome: &str, took: Duration) {
    INSTRUMENTS.upstream_requests.add(1, &[label("kind", kind), label("outcome", outcome)]);
    INSTRUMENTS.upstream_duration.record(took.as_secs_f64(), &[label("kind", kind)]);
}

/// A DID was resolved, or was not: `ok`, `cached`, or the code of the failure; and the time that took, when something was fetched.
pub fn did_resolved(method: &str, outcome: &str, took: Option<Duration>) {
    INSTRUMENTS.did_resolutions.add(1, &[label("method", method), label("outcome", outcome)]);
    if let Some(took) = took {
        INSTRUMENTS.did_resolution_duration.record(took.as_secs_f64(), &[label("method", method)]);
    }
}

/// A message entered (+1) or left (-1) a mailbox.
pub fn mailbox_depth(actor: &str, change: i64) {
    INSTRUMENTS.mailbox_depth.add(change, &[label("actor", actor)]);
}

/// A message was taken from the mailbox.
pub fn message_wait(actor: &str, waited: Duration) {
    INSTRUMENTS.message_wait.record(waited.as_secs_f64(), &[label("actor", actor)]);
}

/// A message was handled.
pub fn message_duration(actor: &str, message: &str, outcome: &str, took: Duration) {
    let labels = [label("actor", actor), label("message", message), label("outcome", outcome)];
    INSTRUMENTS.message_duration.record(took.as_secs_f64(), &labels);
}

/// An actor was restarted.
pub fn actor_restart(actor: &str, reason: &str) {
    INSTRUMENTS.restarts.add(1, &[label("actor", actor), label("reason", reason)]);
}

/// An actor's admission limit refused a message.
pub fn actor_rejected(actor: &str) {
    INSTRUMENTS.rejected.add(1, &[label("actor", actor)]);
}
