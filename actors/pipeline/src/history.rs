//! The history that a journal belongs to, by pinned blocks. Two chains may have one chain id, a chain may be started a second time, and one
//! may go back and make other blocks.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use svc_net::upstream::{NodeClient, NodeClientError};
use svc_wire::{comet_rpc::CommittedBlock, tx::tx_hash};
use tokio::time::Instant;

use crate::{
    journal::{JournalHandle, error::JournalError, store::JournalStore},
    known_history::{BlockAnswer, BlockPin, ChainChange, HistoryCheck, HistoryFinding, HistoryState, MissingTx},
};

/// A comparison that proves nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ComparisonError {
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The node does not answer.
    #[error(transparent)]
    Node(#[from] NodeClientError),
    /// Another node has the block of the journal.
    #[error("{origin} has block {hash} of the journal at height {height}, and the node in use has another one")]
    NodesDiffer {
        /// The node with the block of the journal.
        origin: String,
        /// Height of the block.
        height: u64,
        /// Its hash.
        hash: String,
    },
}

/// Compares the blocks and transactions that the journal knows with the node: the known blocks, which `recent` adds to the pinned ones, the
/// newest first, and the transactions in blocks above them.
///
/// # Errors
/// When the journal fails, and when the node does not answer.
pub(crate) async fn compare_history(
    store: &JournalStore,
    node: &NodeClient,
    recent: Vec<BlockPin>,
) -> Result<HistoryFinding, ComparisonError> {
    let node_height = node.status().await?.sync_info.latest_block_height;
    let mut known: BTreeMap<u64, BlockPin> = BTreeMap::new();
    for pin in store.pins().await?.into_iter().chain(recent) {
        known.insert(pin.height, pin);
    }
    let finding = compare_pins(node, node_height, known).await?;
    if finding.change.is_some() {
        return Ok(finding);
    }
    let lowest = finding.agreed.map_or(0, |agreed| agreed + 1);
    match find_missing_tx(store, node, lowest, node_height).await? {
        Some(missing) => Ok(finding.with_missing_tx(missing)),
        None => Ok(finding),
    }
}

/// Compares known blocks with the node, the newest first, down to the first one that it has.
///
/// # Errors
/// When the node does not answer, and when the nodes have different blocks.
pub(crate) async fn compare_pins(
    node: &NodeClient,
    node_height: u64,
    known: BTreeMap<u64, BlockPin>,
) -> Result<HistoryFinding, ComparisonError> {
    let (mut answers, mut pruned) = (Vec::new(), None);
    for pin in known.into_values().rev() {
        let answer = match pin.height {
            height if height > node_height => BlockAnswer::Absent,
            height => match node.block(height).await {
                Ok(block) if block.block_id.hash == pin.hash => BlockAnswer::Same,
                Ok(block) => BlockAnswer::Other(block.block_id.hash),
                // A node that has pruned the block lacks those below it too.
                Err(error) if error.is_pruned() => {
                    pruned = Some(height);
                    break;
                }
                Err(NodeClientError::Rpc { .. }) => BlockAnswer::Absent,
                Err(error) => return Err(error.into()),
            },
        };
        let is_last = answer == BlockAnswer::Same;
        answers.push((pin, answer));
        if is_last {
            break;
        }
    }
    let finding = HistoryFinding { pruned, ..HistoryFinding::of_pins(&answers) };
    if let Some(ChainChange { height, pinned: Some(hash), .. }) = &finding.change {
        // While another node has the block, the nodes are in dispute, and no history has ended.
        for other in node.alternatives() {
            if other.block(*height).await.is_ok_and(|block| block.block_id.hash == *hash) {
                let (origin, hash) = (other.origin().to_owned(), hash.clone());
                return Err(ComparisonError::NodesDiffer { origin, height: *height, hash });
            }
        }
    }
    Ok(finding)
}

/// The lowest of the transactions of the journal in blocks from `lowest` up to `highest` that its block at the node lacks.
///
/// # Errors
/// When the journal fails, and when the node does not answer.
pub(crate) async fn find_missing_tx(
    store: &JournalStore,
    node: &NodeClient,
    lowest: u64,
    highest: u64,
) -> Result<Option<MissingTx>, ComparisonError> {
    let mut found = None;
    for record in store.used_in_blocks(lowest, highest).await? {
        let Some(height) = record.block_height else { continue };
        let block = match node.block(height).await {
            Ok(block) => block,
            Err(error) if error.is_pruned() => break,
            Err(NodeClientError::Rpc { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let has_tx =
            |block: &CommittedBlock| block.block.data.decode_txs().iter().any(|bytes| tx_hash(bytes) == record.tx_hash);
        if has_tx(&block) {
            break;
        }
        for other in node.alternatives() {
            if let Ok(block) = other.block(height).await
                && has_tx(&block)
            {
                return Err(ComparisonError::NodesDiffer {
                    origin: other.origin().to_owned(),
                    height,
                    hash: block.block_id.hash,
                });
            }
        }
        found = Some(MissingTx { height, hash: record.tx_hash, found: block.block_id.hash });
    }
    Ok(found)
}

/// Compares the journal with the node at a boot, and pins the newest block of a node that has the same history. A node that lacks the
/// known blocks, or does not answer, proves nothing. `known` is a block that the embedder knows.
///
/// # Errors
/// When the journal fails.
pub(crate) async fn check_history(
    store: &JournalStore,
    node: &NodeClient,
    known: Option<BlockPin>,
) -> Result<HistoryState, JournalError> {
    let newest = read_block(node, None).await;
    let check = match compare_history(store, node, known.clone().into_iter().collect()).await {
        Err(ComparisonError::Journal(error)) => return Err(error),
        compared => judge_comparison(compared, newest.clone()),
    };
    if let HistoryCheck::Same { newest: Some(newest), is_shown } = &check {
        if !is_shown && store.newest_pinned_height().await? > 0 {
            tracing::warn!("the node has pruned every block that the journal knows: its history is not compared");
        }
        // A journal that cannot be written does not keep the server from starting: reads go on.
        if let Err(error) = store.pin_block(newest).await {
            tracing::error!(%error, "the newest block cannot be pinned in the journal");
        }
    }
    let change = if let HistoryCheck::Changed(change) = check { Some(change) } else { None };
    let mut recent = store.pins().await?;
    recent.extend(known.filter(|known| recent.last().is_none_or(|last| last.height < known.height)));
    Ok(HistoryState::at_boot(recent, change))
}

/// A block that a running pipeline has heard of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeardBlock {
    /// Its height; `None` for the newest one of the node's status.
    pub height: Option<u64>,
    /// Whether its parent has shown that the known blocks are the same.
    pub is_continued: bool,
}

/// Compares the known blocks of a running pipeline with the node. A height above `plausible_height` is not believed.
pub(crate) async fn check_running(
    journal: &JournalHandle,
    node: &NodeClient,
    heard: HeardBlock,
    plausible_height: u64,
) -> HistoryCheck {
    // The newest block is read first: it belongs to the history that is compared afterwards.
    let newest = read_block(node, heard.height).await.filter(|newest| newest.height <= plausible_height);
    if heard.is_continued {
        return HistoryCheck::Same { newest, is_shown: true };
    }
    judge_comparison(compare_history(journal.store(), node, journal.recent_blocks()).await, newest)
}

/// The block at a height, or the newest one. A status may state any height: its block is read.
async fn read_block(node: &NodeClient, height: Option<u64>) -> Option<BlockPin> {
    let height = match height {
        Some(height) => height,
        None => node.status().await.ok()?.sync_info.latest_block_height,
    };
    let hash = node.block(height).await.ok()?.block_id.hash;
    Some(BlockPin { height, hash }).filter(|newest| newest.height > 0 && !newest.hash.is_empty())
}

fn judge_comparison(compared: Result<HistoryFinding, ComparisonError>, newest: Option<BlockPin>) -> HistoryCheck {
    match compared {
        Err(error) => {
            tracing::warn!(%error, "the journal is not compared with the history of the node");
            HistoryCheck::Unproven
        }
        Ok(HistoryFinding { change: Some(change), .. }) => HistoryCheck::Changed(change),
        Ok(HistoryFinding { absent: Some(absent), .. }) => {
            tracing::info!(
                absent,
                "the node lacks the newest block that the journal knows: its history is not compared"
            );
            HistoryCheck::Unproven
        }
        Ok(HistoryFinding { agreed, .. }) => HistoryCheck::Same { newest, is_shown: agreed.is_some() },
    }
}

/// Ends a dispute of the nodes after one side has answered nothing for a while, when the other side has the newest pinned block. While
/// nodes have different blocks nothing is pinned, so that the pin is older than the discovery of the dispute: a node that follows it goes on, and
/// one that does not is refused until a person decides.
pub(crate) async fn settle_dispute(node: &NodeClient, journal: &JournalHandle) {
    let Some(remaining) = node.remaining_disputant(Instant::now()) else { return };
    let Some(pin) = journal.pins().await.pop() else { return };
    match remaining.block(pin.height).await {
        Ok(block) if block.block_id.hash == pin.hash => node.end_dispute_with(remaining.origin()),
        Ok(block) => {
            let (origin, found) = (remaining.origin(), block.block_id.hash);
            tracing::error!(
                origin,
                height = pin.height,
                pinned = pin.hash,
                found,
                "the only node of the dispute that answers has another block than the journal: nothing is written"
            );
        }
        Err(error) => tracing::warn!(%error, height = pin.height, "the pinned block cannot be compared with the node"),
    }
}
