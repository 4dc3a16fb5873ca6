//! The history of the node beside that of the store: the node has the block at the cursor, by its hash.
//!
//! The journal decides whether the chain has changed. Until it has noticed, nothing is stored on top of a block that the node does not have.

use svc_agent_store::{AgentStore, AgentStoreError};
use svc_net::upstream::{NodeClient, NodeClientError};
use svc_wire::comet_rpc::CommittedBlock;

/// A history that is not proven.
#[derive(Debug)]
pub(super) enum HistoryDoubt {
    /// The store failed.
    Store(AgentStoreError),
    /// The node does not have the block yet.
    NodeBehind,
    /// The node does not answer.
    Unanswered(String),
    /// The node has another block at the cursor than the store.
    Other {
        /// The height.
        height: u64,
        /// Hash of the block of the store.
        known: String,
        /// Hash of the block of the node.
        found: String,
    },
}

/// The hash of a block of the node, which has the block at the cursor too. `None` where the node has pruned the block.
pub(super) async fn prove_history(
    store: &AgentStore,
    node: &NodeClient,
    height: u64,
) -> Result<Option<String>, HistoryDoubt> {
    let cursor = store.cursor_block().await.map_err(HistoryDoubt::Store)?;
    let Some(block) = find_block(node, height).await? else { return Ok(None) };
    let hash = Some(block.block_id.hash).filter(|hash| !hash.is_empty());
    let Some((stored, known)) = cursor else { return Ok(hash) };
    let found = match height.checked_sub(stored) {
        Some(0) => hash.clone(),
        Some(1) => Some(block.block.header.last_block_id.hash).filter(|hash| !hash.is_empty()),
        _ => find_block(node, stored).await?.map(|block| block.block_id.hash),
    };
    match found {
        Some(found) if found != known => Err(HistoryDoubt::Other { height: stored, known, found }),
        _ => Ok(hash),
    }
}

/// A block of the node; `None` when the node has pruned it.
async fn find_block(node: &NodeClient, height: u64) -> Result<Option<CommittedBlock>, HistoryDoubt> {
    match node.block(height).await {
        Ok(block) => Ok(Some(block)),
        Err(error) if error.is_pruned() => Ok(None),
        Err(NodeClientError::Rpc { .. }) => Err(HistoryDoubt::NodeBehind),
        Err(error) => Err(HistoryDoubt::Unanswered(format!("block {height} of the node: {error}"))),
    }
}
