//! The fetch of a block with the entities that it names.

use std::time::Duration;

use svc_net::upstream::NodeClientError;
use svc_wire::comet_rpc::BlockResults;
use tokio::{time::sleep, try_join};

use super::Args;
use crate::{
    block,
    ingest::{FetchedBlock, FirstState, IngestError, NodeReader, StartProgress},
};

/// Attempts to get the results of a block that is not executed yet, and the pause between two.
const MAX_RESULT_ATTEMPTS: u32 = 3;
const RESULT_PAUSE: Duration = Duration::from_millis(80);

/// Fetches a block, and the entities that it names. Where no node has the height any more, the error names the ways to go on.
pub(super) async fn fetch_block(
    args: &Args,
    height: u64,
    has_successor: bool,
    on_page: &(dyn Fn(StartProgress) + Send + Sync),
) -> Result<FetchedBlock, IngestError> {
    match fetch_from_nodes(args, height, has_successor, on_page).await {
        Err(IngestError::Node(error)) if error.is_pruned() => Err(args.pruned_height(height).await?.into()),
        fetched => fetched,
    }
}

/// The results of a block come some milliseconds after the block.
async fn fetch_results(args: &Args, height: u64) -> Result<BlockResults, NodeClientError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        match args.node.read_at_any(|node| async move { node.block_results(height).await }).await {
            Err(error) if error.has_no_results() && attempts < MAX_RESULT_ATTEMPTS => sleep(RESULT_PAUSE).await,
            results => return results,
        }
    }
}

/// The results of a block with a successor are there; those of the newest one are asked for after the block.
async fn fetch_from_nodes(
    args: &Args,
    height: u64,
    has_successor: bool,
    on_page: &(dyn Fn(StartProgress) + Send + Sync),
) -> Result<FetchedBlock, IngestError> {
    let block = args.node.read_at_any(|node| async move { Ok((node.origin().to_owned(), node.block(height).await?)) });
    let results = fetch_results(args, height);
    let ((origin, block), results) =
        if has_successor { try_join!(block, results)? } else { (block.await?, results.await?) };
    let mut facts =
        block::decode_block(&block, &results, &args.known_messages).ok_or(IngestError::InvalidBlockTime(height))?;
    let registry = args.messages.get();
    let reader = NodeReader { node: &args.node, registry: &registry };
    // An empty store needs the entities of earlier blocks, or of the genesis.
    if height == args.start_height.get() && args.store.checkpoint().await?.height == 0 {
        let (store, known_messages) = (&args.store, &args.known_messages);
        FirstState { source: reader, store, known_messages, facts: &facts }.write(on_page).await?;
        tracing::info!(height, "the first entities of the index are written");
    }
    if args.messages.reads_params(height) {
        facts.record_upgrade(args.messages.has_spend_cycles());
    }
    let readings = reader.read_entities(facts.entities.keys().cloned().collect(), height).await?;
    Ok(FetchedBlock { origin, facts, readings })
}
