//! Checks of the node and the store before the actors start.

use svc_net::upstream::NodeClient;
use svc_wire::{
    comet_rpc::NodeStatus,
    proto::cosmos::staking::v1beta1::{QueryParamsRequest, QueryParamsResponse},
    timestamp,
};

use super::{config::IndexerConfig, error::IndexerError};
use crate::store::{IndexStore, IndexStoreError};

/// Returns the denom of trust deposits: the bond denom of the chain, which no entity contains. Fails when the node has
/// none.
pub async fn bond_denom(node: &NodeClient) -> Result<String, IndexerError> {
    let path = "/cosmos.staking.v1beta1.Query/Params";
    let answer: QueryParamsResponse = node.query(path, &QueryParamsRequest {}, 0).await?;
    let denom = answer.params.map(|params| params.bond_denom).filter(|denom| !denom.is_empty());
    denom.ok_or(IndexerError::MissingBondDenom)
}

/// Returns the next height to index: the one after `checkpoint`, or the start of an empty store. Fails when the node
/// has pruned it; `oldest` is the oldest height of the node.
pub fn first_height(config: &IndexerConfig, checkpoint: u64, oldest: u64) -> Result<u64, IndexerError> {
    let oldest = oldest.max(1);
    let (wanted, advice) = if checkpoint > 0 {
        (checkpoint + 1, "use a node that has it, or a new database")
    } else {
        (config.start_height.unwrap_or(oldest).max(1), "start there, or use a node that has it")
    };
    if wanted < oldest { Err(IndexerError::Pruned { wanted, oldest, advice }) } else { Ok(wanted) }
}

/// Compares the oldest and the newest stored block with the node. Fails for a chain that was restarted under the same
/// chain id: its blocks must not be mixed with the stored ones.
pub async fn assert_same_chain(node: &NodeClient, store: &IndexStore, status: &NodeStatus) -> Result<(), IndexerError> {
    for (height, time) in store.oldest_and_newest_block().await? {
        // The node may have pruned a block, or may not have reached it yet.
        if !(status.sync_info.earliest_block_height..=status.sync_info.latest_block_height).contains(&height) {
            continue;
        }
        let header = node.block(height).await?.block.header;
        let is_same = timestamp::parse_rfc3339(&header.time).as_ref().map(timestamp::unix_nanos) == Some(time);
        if !is_same {
            let chain_id = status.node_info.network.clone();
            return Err(IndexStoreError::BlockMismatch { chain_id, height }.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pruned_height_is_an_error_with_the_oldest_height_of_the_node() {
        let config = |start| IndexerConfig { start_height: start, ..IndexerConfig::new("http://n", "sqlite::memory:") };
        for (start, checkpoint, oldest, expected) in
            [(None, 0, 0, 1), (None, 0, 50, 50), (Some(70), 0, 50, 70), (None, 49, 50, 50), (Some(1), 80, 50, 81)]
        {
            let first = first_height(&config(start), checkpoint, oldest).expect("a height");
            assert_eq!(first, expected, "{start:?} {checkpoint} {oldest}");
        }
        for (start, checkpoint, text) in [
            (Some(7), 0, "the node has pruned block 7; its oldest block is 50: start there, or use a node that has it"),
            (
                None,
                20,
                "the node has pruned block 21; its oldest block is 50: use a node that has it, or a new database",
            ),
        ] {
            let error = first_height(&config(start), checkpoint, 50).expect_err("pruned");
            assert_eq!(error.to_string(), text);
        }
    }
}
