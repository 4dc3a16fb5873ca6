//! Metrics of the indexer: blocks, trust evaluations, subscriptions and reads.

use std::time::Duration;

use super::instrument::instrument;

/// A stream of the indexer that clients can subscribe to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubscriptionStream {
    /// Blocks with their events.
    Blocks,
    /// Blocks with the verdicts that they changed.
    Trust,
}

impl SubscriptionStream {
    fn as_str(self) -> &'static str {
        match self {
            Self::Blocks => "blocks",
            Self::Trust => "trust",
        }
    }
}

/// A stage of a block's way through the indexer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockStage {
    /// Reads the block and the entities it touched from the node.
    Fetch,
    /// Computes the rows.
    Gather,
    /// Writes the rows.
    Write,
    /// Publishes the block to the subscribers of a stream.
    Publish(SubscriptionStream),
}

impl BlockStage {
    fn as_str(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::Gather => "gather",
            Self::Write => "write",
            Self::Publish(SubscriptionStream::Blocks) => "tell",
            Self::Publish(SubscriptionStream::Trust) => "tell_trust",
        }
    }
}

/// Outcome of the evaluation of one DID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustOutcome {
    /// The DID is trusted.
    Trusted,
    /// The DID is not trusted.
    NotTrusted,
    /// The outcome depends on a web server that may answer later.
    Open,
    /// The evaluation failed for a reason of our own.
    Failed,
}

/// Outcome of a try of an open evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TryOutcome {
    /// It is finished, and the DID is trusted.
    Trusted,
    /// It is finished, and the DID is not trusted.
    NotTrusted,
    /// It still waits for a web server.
    Open,
    /// The try failed for a reason of our own.
    Failed,
}

impl TryOutcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Trusted => "trusted",
            Self::NotTrusted => "not_trusted",
            Self::Open => "open",
            Self::Failed => "failed",
        }
    }
}

impl TrustOutcome {
    /// Name in labels and attributes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trusted => "trusted",
            Self::NotTrusted => "not_trusted",
            Self::Open => "open",
            Self::Failed => "failed",
        }
    }
}

/// Records the time of one finished stage of a block.
pub fn record_indexer_stage(stage: BlockStage, took: Duration) {
    instrument!(
        DurationHistogram,
        "svc_indexer_block_duration_seconds",
        "Seconds to index a block, by stage: fetch, gather, write, tell, tell_trust."
    )
    .record(took, [("stage", stage.as_str())]);
}

/// Counts a failed stage of a block; the indexer repeats it.
pub fn record_indexer_failure(stage: BlockStage) {
    instrument!(
        Counter,
        "svc_indexer_block_failures_total",
        "Attempts at a block that failed and are repeated, by stage."
    )
    .increment([("stage", stage.as_str())]);
}

/// Counts the entities of a page of the first state of an index.
pub fn record_start_page(entries: usize) {
    instrument!(
        Counter,
        "svc_indexer_start_entities_total",
        "Entities and votes of the first state of the index that are written, page by page."
    )
    .add(u64::try_from(entries).unwrap_or(u64::MAX), []);
}

/// Records the height that is written, the node's height, and the time since the indexer last had all blocks or wrote a new one.
pub fn record_indexer_progress(height: u64, tip: u64, idle: Duration) {
    instrument!(Gauge, "svc_indexer_block_height", "Newest height the indexer has written.").set(height, []);
    instrument!(Gauge, "svc_indexer_tip_height", "Newest height the indexer knows the node to have.").set(tip, []);
    instrument!(
        Gauge,
        "svc_indexer_idle_seconds",
        "Seconds since the indexer wrote a block while the node has more; 0 when it has them all."
    )
    .set(idle.as_secs(), []);
}

/// Records the number of nodes that have another history than the index, and whether it has stopped for want of one with its own.
pub fn record_other_histories(nodes: usize, is_stopped: bool) {
    instrument!(
        Gauge,
        "svc_indexer_nodes_left_out",
        "Nodes that are not used because they have another history than the index."
    )
    .set(nodes as u64, []);
    record_stopped("other_history", is_stopped);
}

/// Records whether no node has answered for too long.
pub fn record_nodes_away(is_away: bool) {
    record_stopped("no_answer", is_away);
}

fn record_stopped(reason: &str, is_stopped: bool) {
    instrument!(
        Gauge,
        "svc_indexer_stopped",
        "1 while the indexer takes no blocks in, by reason: other_history, no_answer."
    )
    .set(u64::from(is_stopped), [("reason", reason)]);
}

/// Records the age of the newest block that is written. It grows while the chain is quiet too.
pub fn record_block_age(seconds: u64) {
    instrument!(Gauge, "svc_indexer_block_age_seconds", "Seconds since the time of the newest block that is written.")
        .set(seconds, []);
}

/// Records the module of each event of a written block.
pub fn record_indexer_events<'a>(modules: impl Iterator<Item = &'a str>) {
    let events = instrument!(Counter, "svc_indexer_events_total", "Registry events written, by module.");
    for module in modules {
        events.increment([("module", module)]);
    }
}

/// Records the evaluation of one DID.
pub fn record_trust_evaluation(outcome: TrustOutcome, took: Duration) {
    instrument!(Counter, "svc_trust_judged_total", "DIDs evaluated, by outcome: trusted, not_trusted, open, failed.")
        .increment([("outcome", outcome.as_str())]);
    instrument!(
        DurationHistogram,
        "svc_trust_judge_duration_seconds",
        "Seconds the evaluation of a DID took, web servers included, by outcome."
    )
    .record(took, [("outcome", outcome.as_str())]);
}

/// Records the newest height with written verdicts, and the number of DIDs that still have to be evaluated.
pub fn record_trust_height(height: u64, to_judge: usize) {
    instrument!(Gauge, "svc_trust_height", "Newest height whose verdicts are written.").set(height, []);
    instrument!(Gauge, "svc_trust_dids_to_judge", "DIDs that are still to be evaluated after that height.")
        .set(to_judge as u64, []);
}

/// Records the number of evaluations that wait for a web server.
pub fn record_open_evaluations(count: usize) {
    instrument!(Gauge, "svc_trust_evaluations_open", "Evaluations of DIDs that wait for a web server.")
        .set(count as u64, []);
}

/// Counts a try of an evaluation that waits for a web server.
pub fn record_trust_try(outcome: TryOutcome) {
    instrument!(
        Counter,
        "svc_trust_tries_total",
        "Tries of evaluations that wait for a web server, by outcome: trusted, not_trusted, open, failed."
    )
    .increment([("outcome", outcome.as_str())]);
}

/// Records the connections to a stream, and the distinct filters among them.
pub fn record_subscribers(stream: SubscriptionStream, connections: usize, filters: usize) {
    instrument!(Gauge, "svc_indexer_subscribers", "Connections to subscriptions, by stream: blocks, trust.")
        .set(connections as u64, [("stream", stream.as_str())]);
    instrument!(Gauge, "svc_indexer_subscriber_filters", "Distinct filters among the subscriptions, by stream.")
        .set(filters as u64, [("stream", stream.as_str())]);
}

/// Counts a connection to a stream that the indexer closed.
pub fn record_subscriber_close(stream: SubscriptionStream, code: u16) {
    instrument!(
        Counter,
        "svc_indexer_subscriber_closes_total",
        "Connections the indexer closed, by stream and close code."
    )
    .increment([("stream", stream.as_str()), ("code", &code.to_string())]);
}

/// Records a finished read.
pub fn record_indexer_read(operation: &str, status: u16, took: Duration) {
    instrument!(DurationHistogram, "svc_indexer_read_duration_seconds", "Seconds a read took, by operation.")
        .record(took, [("operation", operation)]);
    instrument!(Counter, "svc_indexer_reads_total", "Reads answered, by operation and status.")
        .increment([("operation", operation), ("status", &status.to_string())]);
}
