//! The choice of the indexer: one that follows the node's chain, answers, and has the blocks that are stored.

use std::time::Duration;

use svc_kit::ActorFailure;
use svc_net::upstream::{IndexerGuard, UpstreamEndpoints, select_indexer};
use svc_pipeline::Pipeline;
use tokio::time::{Instant, sleep};

/// Time between two looks for an indexer that has to be compared with the node.
const COMPARISON_INTERVAL: Duration = Duration::from_secs(2);

/// Selects the indexer of a watcher. Clones share the comparisons.
#[derive(Clone)]
pub(super) struct IndexerChoice {
    indexers: UpstreamEndpoints,
    pipeline: Pipeline,
    guard: IndexerGuard,
}

impl IndexerChoice {
    /// A choice among indexers, of which none has been compared with the node of the pipeline.
    pub fn new(indexers: &UpstreamEndpoints, pipeline: &Pipeline) -> Result<Self, ActorFailure> {
        let guard = IndexerGuard::new(indexers, pipeline.node().clone());
        let guard = guard.map_err(|error| ActorFailure(error.to_string()))?;
        Ok(Self { indexers: indexers.clone(), pipeline: pipeline.clone(), guard })
    }

    /// Compares the indexers with the node, as far as it is due, and replaces one that is left out. Ends when the next comparison may be due.
    pub async fn compare(self, stored: Option<u64>) {
        self.guard.compare_due().await;
        if self.indexers.current().left_out().is_some() {
            self.replace(stored).await;
        }
        sleep(COMPARISON_INTERVAL).await;
    }

    /// Replaces the indexer in use by another one when it is left out, does not answer, or lacks blocks that are stored. `connected` has
    /// ended its connection: another server may answer there now.
    pub async fn select(self, connected: UpstreamEndpoints, stored: Option<u64>) {
        self.guard.doubt(connected.current().origin());
        self.guard.compare_due().await;
        self.replace(stored).await;
    }

    async fn replace(&self, stored: Option<u64>) {
        let plausible = self.pipeline.clock().plausible_height(Instant::now());
        select_indexer(&self.indexers, stored.unwrap_or(0), Some(plausible)).await;
    }
}
