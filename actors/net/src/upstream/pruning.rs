//! Nodes that no longer have a block, or the state after it.

use super::node_client::{NodeClient, NodeClientError};

impl NodeClientError {
    /// Whether the node has pruned the block or the state.
    pub fn is_pruned(&self) -> bool {
        match self {
            Self::Query { error, .. } => error.is_pruned_state(),
            // `height N is not available, lowest height is M` — CometBFT RPC.
            Self::Rpc { error, .. } => error.data.contains("is not available, lowest height is"),
            Self::Upstream(_) | Self::Disputed(_) => false,
        }
    }

    /// Whether the node has the block, and no results of it: it has not executed it yet, or keeps no results.
    pub fn has_no_results(&self) -> bool {
        // `could not find results for height #N`, `node is not persisting finalize block responses` — CometBFT RPC.
        let texts = ["could not find results for height", "not persisting finalize block responses"];
        matches!(self, Self::Rpc { error, .. } if texts.iter().any(|text| error.data.contains(text)))
    }
}

impl NodeClient {
    /// Asks the current node, and after an answer that it has pruned the data the other ones.
    ///
    /// # Errors
    /// The error of the current node, when no other node has it.
    pub async fn read_at_any<T, A, F>(&self, ask: A) -> Result<T, NodeClientError>
    where
        A: Fn(Self) -> F,
        F: Future<Output = Result<T, NodeClientError>>,
    {
        let error = match ask(self.pinned()).await {
            Err(error) if error.is_pruned() => error,
            answer => return answer,
        };
        for other in self.alternatives() {
            // Not one of another chain.
            if other.status().await.is_ok()
                && let Ok(answer) = ask(other).await
            {
                return Ok(answer);
            }
        }
        Err(error)
    }
}
