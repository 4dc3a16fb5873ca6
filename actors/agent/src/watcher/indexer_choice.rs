//! The choice of the indexer: one that follows the node's chain, answers, and has the blocks that are stored.

use svc_kit::ActorFailure;
use svc_net::upstream::{IndexerGuard, UpstreamEndpoints, find_better_indexer};
use svc_pipeline::Pipeline;
use tokio::time::Instant;

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

    /// Whether the indexer at `origin` promises that the block below the one of its `ready` is committed.
    pub fn commits_before_ready(&self, origin: &str) -> bool {
        self.guard.commits_before_ready(origin)
    }

    /// Compares the indexers with the node, as far as it is due. Returns the successor of an indexer that is left out.
    pub async fn compare(self, stored: Option<u64>) -> Option<UpstreamEndpoints> {
        self.guard.compare_due().await;
        self.indexers.current().left_out()?;
        self.find_better(stored).await
    }

    /// Returns the indexer that replaces the one in use, when this one is left out, does not answer, or lacks blocks that are stored.
    /// `connected` has ended its connection: another server may answer there now.
    pub async fn select(self, connected: UpstreamEndpoints, stored: Option<u64>) -> Option<UpstreamEndpoints> {
        self.guard.doubt(connected.current().origin());
        self.guard.compare_due().await;
        self.find_better(stored).await
    }

    async fn find_better(&self, stored: Option<u64>) -> Option<UpstreamEndpoints> {
        let plausible = self.pipeline.clock().plausible_height(Instant::now());
        find_better_indexer(&self.indexers, stored.unwrap_or(0), Some(plausible)).await
    }
}
