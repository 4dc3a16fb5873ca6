//! What an operator tells of itself: links, actors, records.

use serde_json::{Value, json};

use crate::{
    audit::AuditRecord,
    journal::{JournalError, Row},
    operator::Operator,
};

impl Operator {
    /// Links and actors, as `svc://own/status` shows them.
    pub async fn status(&self) -> Value {
        let clock = self.clock();
        let position = self.position();
        let indexer_height = self.parts().cursor.with(|cursor| cursor.height);
        let graph = self.graph().map(|graph| {
            let position = graph.position.with(|position| position.clone());
            json!({
                "connected": position.is_live, "last_height": position.processed, "last_event_at": position.last_event_at,
            })
        });
        let parts = self.parts();
        let (in_flight, floor) = parts.table.with(|table| (table.live().len(), table.floor()));
        let (node, indexer) = (parts.node.endpoints(), self.indexer().endpoints());
        json!({
            "journal": {"place": parts.journal.place(), "recovered": parts.recovered.with(|recovered| recovered.clone())},
            "audit": {"place": &*parts.audit.place()},
            "writes": {"in_flight": in_flight, "sequences_used_below": floor},
            "endpoints": {
                "rpc": {"current": node.current().origin(), "all": node.origins()},
                "indexer": {"current": indexer.current().origin(), "all": indexer.origins()},
            },
            "rpc_ws": {"connected": clock.is_connected, "last_height": clock.height, "last_event_at": clock.last_event_at},
            "indexer_ws": {
                "connected": position.is_live, "last_height": indexer_height, "last_event_at": position.last_event_at,
            },
            "graph_ws": graph,
            "capability_cache_refreshed_at": self.snapshot().refreshed_at,
            "actors": self.supervisor().report().await,
        })
    }

    /// The newest transactions, newest first; at most a thousand.
    pub async fn transactions(&self) -> Result<Vec<Row>, JournalError> {
        self.parts().journal.newest(1_000).await
    }

    /// How many notes the journal has taken, and how many lines the audit: they grow with every change.
    pub fn records_made(&self) -> (u64, u64) {
        (self.parts().journal.taken(), self.parts().audit.taken())
    }

    /// The newest write attempts, newest first; at most a thousand.
    pub fn audit_records(&self) -> Vec<AuditRecord> {
        self.parts().audit.newest()
    }

    /// What the journal has of a transaction.
    pub async fn record_of(&self, hash: &str) -> Option<Row> {
        self.parts().journal.of_hash(hash).await.ok().flatten()
    }
}
