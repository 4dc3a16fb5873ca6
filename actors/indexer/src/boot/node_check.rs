//! Checks of the node and the store before the actors start.

use svc_net::upstream::{KeptPart, NodeClient};
use svc_wire::{
    comet_rpc::SyncInfo,
    proto::cosmos::staking::v1beta1::{QueryParamsRequest, QueryParamsResponse},
};

use super::{config::IndexerConfig, error::IndexerError};
use crate::{
    follower::NodeHistories,
    ingest::{NodeReader, PrunedHeight, find_missing_corporation, start_of_empty_store},
    store::IndexStore,
};

/// Returns the denom of trust deposits: the bond denom of the chain, which no entity contains. Fails when the node has
/// none.
pub async fn bond_denom(node: &NodeClient) -> Result<String, IndexerError> {
    let path = "/cosmos.staking.v1beta1.Query/Params";
    let answer: QueryParamsResponse = node.query(path, &QueryParamsRequest {}, 0).await?;
    let denom = answer.params.map(|params| params.bond_denom).filter(|denom| !denom.is_empty());
    denom.ok_or(IndexerError::MissingBondDenom)
}

/// Returns the next height to index: the one after `checkpoint`, or the start of an empty store, which goes on where it was begun while a
/// node has that height. Fails when no node has that start.
pub async fn find_first_height(
    config: &IndexerConfig,
    node: &NodeClient,
    (checkpoint, begun): (u64, Option<u64>),
    sync: &SyncInfo,
) -> Result<u64, IndexerError> {
    let newest = sync.latest_block_height;
    if checkpoint > 0 {
        // Blocks that change nothing need no state, so that only the follower can say whether the store can go on.
        return Ok(checkpoint + 1);
    }
    if let Some(begun) = begun.filter(|begun| config.start_height.is_none_or(|wanted| wanted == *begun))
        && node.any_has(KeptPart::BlockAndState, begun).await?
    {
        return Ok(begun);
    }
    if let Some(wanted) = config.start_height
        && (wanted > newest || node.any_has(KeptPart::BlockAndState, wanted).await?)
    {
        return Ok(wanted);
    }
    let oldest = node.oldest_height(KeptPart::BlockAndState).await?;
    if let Some(wanted) = config.start_height {
        return Err(PrunedHeight { wanted, oldest, is_empty: true }.into());
    }
    let start = start_of_empty_store(oldest, newest);
    if start > 1 {
        tracing::warn!(
            start,
            oldest_with_state = oldest,
            oldest_block = sync.earliest_block_height,
            "the index begins in the middle of the chain: no node has earlier heights with their state"
        );
    }
    Ok(start)
}

/// Fails when no node has the history of the store, and one has another.
pub async fn assert_same_chain(nodes: &NodeClient, store: &IndexStore) -> Result<(), IndexerError> {
    match NodeHistories::default().look(nodes, store).await {
        Some(mismatch) => Err(mismatch.into()),
        None => Ok(()),
    }
}

/// Refuses a store of an earlier release that lacks entities from before its first height: it took pruned state for an empty registry.
pub async fn assert_complete(
    source: NodeReader<'_>,
    store: &IndexStore,
    checkpoint: u64,
    newest: u64,
) -> Result<(), IndexerError> {
    if store.is_complete().await? {
        return Ok(());
    }
    if checkpoint > 0 {
        if checkpoint > newest || !source.node.any_has(KeptPart::BlockAndState, checkpoint).await? {
            // The next start may find a node that has the height.
            return Ok(());
        }
        if let Some(corporation) = find_missing_corporation(source, store, checkpoint).await? {
            return Err(IndexerError::Incomplete { corporation, height: checkpoint });
        }
    }
    Ok(store.mark_complete().await?)
}
