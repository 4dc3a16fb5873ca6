//! The heights that a node can still be indexed from: those with both the block and the state after it.

use svc_net::upstream::{NodeClient, NodeClientError};
use svc_wire::proto::cosmos::staking::v1beta1::{QueryParamsRequest, QueryParamsResponse};

/// A height that no node has any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no node has block {wanted} with its state any more, the oldest that one has is {oldest}: {}",
    if *.is_empty { "start there, or add a node to SVC_RPC that has it" } else { "add an archive node to SVC_RPC, or use a new database" }
)]
pub struct PrunedHeight {
    /// The height that is needed.
    pub wanted: u64,
    /// The oldest height that one of the nodes has.
    pub oldest: u64,
    /// Whether the store has no block yet.
    pub is_empty: bool,
}

/// Whether one of the nodes has a block and the state after it.
pub async fn has_height(nodes: &NodeClient, height: u64) -> Result<bool, NodeClientError> {
    let (mut failure, mut has_answer) = (None, false);
    for node in std::iter::once(nodes.pinned()).chain(nodes.alternatives()) {
        match node_has(&node, height).await {
            Ok(true) => return Ok(true),
            Ok(false) => has_answer = true,
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    failure.filter(|_| !has_answer).map_or(Ok(false), Err)
}

/// The oldest height that one of the nodes has with its block and the state after it.
pub async fn oldest_height(nodes: &NodeClient) -> Result<u64, NodeClientError> {
    let mut oldest = None;
    let mut failure = None;
    for node in std::iter::once(nodes.pinned()).chain(nodes.alternatives()) {
        match oldest_of_node(&node).await {
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

async fn oldest_of_node(node: &NodeClient) -> Result<u64, NodeClientError> {
    let status = node.status().await?.sync_info;
    // The state of a height is there from some height on.
    let (mut absent, mut present) =
        (status.earliest_block_height.max(1).saturating_sub(1), status.latest_block_height.max(1));
    while present - absent > 1 {
        let middle = absent + (present - absent) / 2;
        if node_has(node, middle).await? {
            present = middle;
        } else {
            absent = middle;
        }
    }
    Ok(present)
}

async fn node_has(node: &NodeClient, height: u64) -> Result<bool, NodeClientError> {
    let accept_pruned = |error: NodeClientError| if error.is_pruned() { Ok(false) } else { Err(error) };
    if let Err(error) = node.block(height).await {
        return accept_pruned(error);
    }
    let path = "/cosmos.staking.v1beta1.Query/Params";
    let state: Result<QueryParamsResponse, _> = node.query(path, &QueryParamsRequest {}, height).await;
    state.map_or_else(accept_pruned, |_| Ok(true))
}
