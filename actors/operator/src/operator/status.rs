//! The status of an operator: links, actors, records.

use prost_types::Timestamp;
use serde_json::{Value, json};
use svc_pipeline::{JournalError, JournalRecord};

use super::Operator;
use crate::write::audit::{AuditLog, AuditRecord};

/// Records that a list contains at most.
const MAX_RECORDS: u32 = 1_000;

/// State of the links to the upstreams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkStatus {
    /// Whether the node's WebSocket is up.
    pub node: bool,
    /// Whether the indexer's blocks arrive.
    pub indexer: bool,
    /// Whether the graph's progress arrives; `false` without a graph.
    pub graph: bool,
}

impl Operator {
    /// Links, actors and records as JSON.
    pub async fn status(&self) -> Value {
        let (pipeline, context) = (self.pipeline(), self.context());
        let (clock, journal) = (pipeline.clock(), pipeline.journal());
        let position = self.0.position.with(|position| position.clone());
        let graph = self.graph().map(|graph| {
            let position = graph.position.with(|position| position.clone());
            json!({
                "connected": position.is_live, "last_height": position.processed, "last_event_at": position.last_event_at,
            })
        });
        let (in_flight, refused, floor) =
            pipeline.with_table(|table| (table.live().len(), table.refused().len(), table.sequence_floor()));
        let dispute = pipeline.node().dispute().map(|dispute| dispute.to_string());
        let (node, indexer) = (pipeline.node().endpoints(), self.indexer().endpoints());
        json!({
            "journal": {
                "place": journal.location(), "recovered": pipeline.recovery(), "failure": journal.failure(), "loss": journal.loss(),
                "chain_change": journal.chain_change(),
            },
            "audit": {"place": &*context.audit.location(), "problem": context.audit.problem()},
            "writes": {"in_flight": in_flight, "refused": refused, "sequences_used_below": floor},
            "endpoints": {
                "rpc": {"current": node.current().origin(), "all": node.origins(), "dispute": dispute},
                "indexer": {
                    "current": indexer.current().origin(), "all": indexer.origins(),
                    "standings": self.indexer().guard().reports(),
                },
            },
            "rpc_ws": {"connected": clock.is_connected, "last_height": clock.height, "last_event_at": clock.last_event_at},
            "indexer_ws": {
                "connected": position.is_live, "silent": position.is_silent, "last_height": context.barrier.height(),
                "last_event_at": position.last_event_at,
            },
            "graph_ws": graph,
            "capability_cache_refreshed_at": self.snapshot().refreshed_at,
            "actors": self.supervisor().report().await,
        })
    }

    /// Time of the chain. Authorizations expire by it.
    pub fn chain_time(&self) -> Timestamp {
        self.context().chain_time()
    }

    /// State of the links.
    pub fn links(&self) -> LinkStatus {
        let graph = self.graph();
        LinkStatus {
            node: self.pipeline().clock().is_connected,
            indexer: self.0.position.with(|position| position.is_live),
            graph: graph.is_some_and(|graph| graph.position.with(|position| position.is_live)),
        }
    }

    /// Whether every actor runs. A link that is down is a fault of another server, which a restart of this one does not mend.
    pub fn is_healthy(&self) -> bool {
        self.supervisor().is_up()
    }

    /// Whether nothing can be recorded at present, or the chain has another history, so that writes are refused and reads go on.
    pub fn is_degraded(&self) -> bool {
        let journal = self.pipeline().journal();
        journal.failure().is_some() || journal.chain_change().is_some()
    }

    /// The newest transactions, newest first, at most a thousand.
    pub async fn transactions(&self) -> Result<Vec<JournalRecord>, JournalError> {
        self.pipeline().journal().newest_records(MAX_RECORDS).await
    }

    /// Number of journal entries and of audit lines of this process. Each grows with every change.
    pub fn record_counts(&self) -> (u64, u64) {
        (self.pipeline().journal().entry_count(), self.context().audit.line_count())
    }

    /// The audit.
    pub fn audit(&self) -> &AuditLog {
        &self.context().audit
    }

    /// The newest write attempts, newest first, at most a thousand.
    pub fn audit_records(&self) -> Vec<AuditRecord> {
        self.context().audit.newest_records()
    }

    /// Hashes of the transactions of this process that are still known.
    pub fn recent_hashes(&self) -> Vec<String> {
        self.pipeline().with_table(|table| table.hashes())
    }
}
