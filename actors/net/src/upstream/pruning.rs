//! Nodes that no longer have a block, or the state after it.

use svc_wire::proto::cosmos::staking::v1beta1::{QueryParamsRequest, QueryParamsResponse};

use super::node_client::{NodeClient, NodeClientError};

/// The part of a height that a reader needs. A node prunes blocks and states by rules of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptPart {
    /// The block.
    Block,
    /// The state after the block.
    State,
    /// The block and the state after it.
    BlockAndState,
}

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
        // `could not find results for height #N` — CometBFT RPC.
        let text = "could not find results for height";
        self.keeps_no_results() || matches!(self, Self::Rpc { error, .. } if error.data.contains(text))
    }

    /// Whether the node keeps the results of no block.
    pub fn keeps_no_results(&self) -> bool {
        // `node is not persisting finalize block responses` — CometBFT RPC.
        let text = "not persisting finalize block responses";
        matches!(self, Self::Rpc { error, .. } if error.data.contains(text))
    }
}

impl NodeClient {
    /// Whether the node lacks the block at a height, or its results, for good; `error` is its answer to the question for it. Any other
    /// error says nothing of the block: an internal one, or one of a node that has not reached the height.
    pub async fn lacks_block(&self, height: u64, error: &NodeClientError) -> bool {
        if error.is_pruned() || error.keeps_no_results() {
            return true;
        }
        // The results of the newest block come a moment after it.
        error.has_no_results() && self.status().await.is_ok_and(|status| status.sync_info.latest_block_height > height)
    }

    /// Asks the current node, and after an answer that it has pruned the data the other ones.
    ///
    /// # Errors
    /// The error of the current node, when no other node has it. The absence of a thing is the answer of a node that has the state.
    pub async fn read_at_any<T, A, F>(&self, ask: A) -> Result<T, NodeClientError>
    where
        A: Fn(Self) -> F,
        F: Future<Output = Result<T, NodeClientError>>,
    {
        match ask(self.pinned()).await {
            Err(error) if error.is_pruned() => self.read_at_others(error, 0, ask).await,
            answer => answer,
        }
    }

    /// Asks the nodes that are not current and have reached `at_least`. `pruned` is the answer of the current one.
    ///
    /// # Errors
    /// `pruned`, when no other node has the data, or the absence of the thing at a node that has the state.
    pub async fn read_at_others<T, A, F>(
        &self,
        pruned: NodeClientError,
        at_least: u64,
        ask: A,
    ) -> Result<T, NodeClientError>
    where
        A: Fn(Self) -> F,
        F: Future<Output = Result<T, NodeClientError>>,
    {
        for other in self.alternatives() {
            // Not one of another chain.
            let Ok(status) = other.status().await else { continue };
            if status.sync_info.latest_block_height < at_least {
                continue;
            }
            match ask(other).await {
                Ok(answer) => return Ok(answer),
                Err(error) if error.is_absence() => return Err(error),
                Err(_) => {}
            }
        }
        Err(pruned)
    }

    /// Whether one of the nodes has a part of a height.
    ///
    /// # Errors
    /// The first error, when no node answers.
    pub async fn any_has(&self, part: KeptPart, height: u64) -> Result<bool, NodeClientError> {
        let (mut failure, mut has_answer) = (None, false);
        for node in std::iter::once(self.pinned()).chain(self.alternatives()) {
            match node.has(part, height).await {
                Ok(true) => return Ok(true),
                Ok(false) => has_answer = true,
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.filter(|_| !has_answer).map_or(Ok(false), Err)
    }

    /// Returns the oldest height of which one of the nodes has a part.
    ///
    /// # Errors
    /// The first error, when no node answers.
    pub async fn oldest_height(&self, part: KeptPart) -> Result<u64, NodeClientError> {
        let nodes = std::iter::once(self.pinned()).chain(self.alternatives());
        let searches = nodes.map(|node| async move { node.find_oldest(part).await });
        let (mut oldest, mut failure) = (None, None);
        for found in futures::future::join_all(searches).await {
            match found {
                Ok(found) => oldest = Some(oldest.unwrap_or(found).min(found)),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        match (oldest, failure) {
            (Some(oldest), _) => Ok(oldest),
            (None, Some(error)) => Err(error),
            (None, None) => Ok(1),
        }
    }

    async fn find_oldest(&self, part: KeptPart) -> Result<u64, NodeClientError> {
        let status = self.status().await?.sync_info;
        let oldest_block = status.earliest_block_height.max(1);
        // A part is there from some height on. States may be older than the oldest block.
        let mut absent = match part {
            KeptPart::Block => return Ok(oldest_block),
            KeptPart::BlockAndState => oldest_block - 1,
            KeptPart::State => 0,
        };
        let mut present = status.latest_block_height.max(1);
        while present - absent > 1 {
            let middle = absent + (present - absent) / 2;
            if self.has(part, middle).await? {
                present = middle;
            } else {
                absent = middle;
            }
        }
        Ok(present)
    }

    async fn has(&self, part: KeptPart, height: u64) -> Result<bool, NodeClientError> {
        let accept_pruned = |error: NodeClientError| if error.is_pruned() { Ok(false) } else { Err(error) };
        if matches!(part, KeptPart::Block | KeptPart::BlockAndState)
            && let Err(error) = self.block(height).await
        {
            return accept_pruned(error);
        }
        if part == KeptPart::Block {
            return Ok(true);
        }
        let path = "/cosmos.staking.v1beta1.Query/Params";
        let state: Result<QueryParamsResponse, _> = self.query(path, &QueryParamsRequest {}, height).await;
        state.map_or_else(accept_pruned, |_| Ok(true))
    }
}

#[cfg(test)]
mod tests {
    use svc_wire::comet_rpc::RpcError;

    use super::*;

    #[test]
    fn an_error_says_that_a_block_is_gone_or_says_nothing_of_it() {
        let rpc = |data: &str| NodeClientError::Rpc {
            method: "block_results",
            error: RpcError { code: -32603, message: "Internal error".to_owned(), data: data.to_owned() },
        };
        for (error, is_pruned, has_no_results, keeps_none) in [
            ("height 3 is not available, lowest height is 9", true, false, false),
            ("could not find results for height #9", false, true, false),
            ("node is not persisting finalize block responses", false, true, true),
            ("height 9 must be less than or equal to the current blockchain height 8", false, false, false),
            ("leveldb: closed", false, false, false),
            ("", false, false, false),
        ] {
            let error = rpc(error);
            let found = (error.is_pruned(), error.has_no_results(), error.keeps_no_results());
            assert_eq!(found, (is_pruned, has_no_results, keeps_none), "{error}");
        }
    }
}
