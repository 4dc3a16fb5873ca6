//! Inspections of a node and a store, without an indexer.

use serde::Serialize;
use svc_net::upstream::{KeptPart, NodeClient, read_node_descriptors};
use svc_store::{free_space, sqlite_file};

use super::{
    config::IndexerConfig,
    error::IndexerError,
    node_check::{assert_same_chain, bond_denom, find_first_height},
};
use crate::{
    ingest::{NodeReader, PrunedHeight, Verification, compare_with_node},
    store::IndexStore,
};

/// The heights that an indexer with an empty store would find at its nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StartCheck {
    /// Chain id.
    pub chain_id: String,
    /// Origins of the nodes.
    pub nodes: String,
    /// Oldest block of the current node.
    pub oldest_block: u64,
    /// Oldest height of which a node has block and state.
    pub oldest_state: u64,
    /// Newest block of the current node.
    pub newest_block: u64,
    /// Height at which an empty store would begin.
    pub start: u64,
    /// Whether the node has a transaction index. The indexer needs none.
    pub transaction_index: String,
    /// Free bytes on the disk of a store in a file.
    pub free_disk: Option<u64>,
    /// Words about everything that an index of these nodes would lack.
    pub missing: Vec<String>,
}

/// Asks the nodes for the heights that they still have.
///
/// # Errors
/// When no node answers, or the configured start is pruned.
pub async fn check_start(config: &IndexerConfig) -> Result<StartCheck, IndexerError> {
    let node = NodeClient::new(&config.rpc)?;
    node.select_current(Some(0)).await;
    let status = node.status().await?;
    bond_denom(&node).await?;
    let oldest_state = node.oldest_height(KeptPart::BlockAndState).await?;
    let start = find_first_height(config, &node, (0, None), &status.sync_info).await?;
    let mut missing = Vec::new();
    if start > 1 {
        missing.push(format!("versions, events, activity and statistics of the heights below {start}"));
        missing.push("digests that were stored before that height: a read of one asks the node".to_owned());
    }
    Ok(StartCheck {
        chain_id: status.node_info.network.clone(),
        nodes: config.rpc.to_string(),
        oldest_block: status.sync_info.earliest_block_height,
        oldest_state,
        newest_block: status.sync_info.latest_block_height,
        start,
        transaction_index: status.node_info.other.tx_index.clone(),
        free_disk: sqlite_file(&config.database).and_then(|file| free_space(&file)),
        missing,
    })
}

/// Compares every entity of a store with the node, at a height or at the newest of the store. An indexer may use the store meanwhile.
///
/// # Errors
/// When node or store fail, or no node has the state of the height.
pub async fn verify_index(config: &IndexerConfig, height: Option<u64>) -> Result<Verification, IndexerError> {
    let node = NodeClient::new(&config.rpc)?;
    node.select_current(Some(0)).await;
    let status = node.status().await?;
    node.bind_to_chain(&status.node_info.network);
    let registry = read_node_descriptors(&node).await?.registry;
    let store = IndexStore::open(&config.database, &status.node_info.network).await?;
    assert_same_chain(&node, &store).await?;
    let heights = store.oldest_and_newest_block().await?;
    let (Some((oldest, _)), Some((newest, _))) = (heights.first(), heights.last()) else {
        return Err(IndexerError::NoBlock);
    };
    let height = height.unwrap_or(*newest);
    if !(*oldest..=*newest).contains(&height) {
        return Err(IndexerError::NotIndexed { height, oldest: *oldest, newest: *newest });
    }
    if !node.any_has(KeptPart::BlockAndState, height).await? {
        return Err(PrunedHeight {
            wanted: height,
            oldest: node.oldest_height(KeptPart::BlockAndState).await?,
            is_empty: true,
        }
        .into());
    }
    let verification = compare_with_node(NodeReader { node: &node, registry: &registry }, &store, height).await?;
    store.close().await;
    Ok(verification)
}
