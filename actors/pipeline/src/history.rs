//! The history that a journal belongs to, by two pinned blocks. Two chains may have one chain id, and a chain may be started a second time.

use svc_net::upstream::NodeClient;

use tokio::time::Instant;

use crate::journal::{
    JournalHandle,
    error::RecoveryError,
    store::{BlockPin, HistoryPins, JournalStore},
};

/// Compares the blocks that the journal has pinned with those of the node, then pins the newest block of the node.
///
/// The first pinned block decides, or the newest where the node no longer has the first one. A node that has neither, or does not
/// answer, proves nothing.
///
/// # Errors
/// When the node has another block at a pinned height, and when the journal fails.
pub(crate) async fn check_history(store: &JournalStore, node: &NodeClient) -> Result<(), RecoveryError> {
    let Ok(status) = node.status().await else { return Ok(()) };
    let newest = BlockPin { height: status.sync_info.latest_block_height, hash: status.sync_info.latest_block_hash };
    if let Some(HistoryPins { first, newest }) = store.history_pins().await? {
        let is_first_known = compare(store, node, &first).await?;
        let is_newest_known = first == newest || compare(store, node, &newest).await?;
        match (is_first_known, is_newest_known) {
            (true, _) => {}
            (false, true) if first != newest => {
                let (first, newest) = (first.height, newest.height);
                tracing::info!(
                    first,
                    newest,
                    "the node no longer has the first block of the journal; the newest one agrees"
                );
            }
            (false, _) => {
                let (first, newest) = (first.height, newest.height);
                tracing::warn!(
                    first,
                    newest,
                    "the node has no block that the journal knows: its history is not compared"
                );
            }
        }
    }
    if newest.height > 0 && !newest.hash.is_empty() {
        // A journal that cannot be written does not keep the server from starting: reads go on.
        if let Err(error) = store.pin_block(&newest).await {
            tracing::error!(%error, "the newest block cannot be pinned in the journal");
        }
    }
    Ok(())
}

/// Ends a dispute of the nodes after one side has answered nothing for a while, when the other side has the newest pinned block. While
/// nodes have different blocks nothing is pinned, so that the pin is older than the discovery of the dispute: a node that follows it goes on, and
/// one that does not is refused until a person decides.
pub(crate) async fn settle_dispute(node: &NodeClient, journal: &JournalHandle) {
    let Some(remaining) = node.remaining_disputant(Instant::now()) else { return };
    let Some(pin) = journal.newest_pin().await else { return };
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

/// Whether the node has the block; an error when it has another one at that height.
async fn compare(store: &JournalStore, node: &NodeClient, pin: &BlockPin) -> Result<bool, RecoveryError> {
    match node.block(pin.height).await {
        Ok(block) if block.block_id.hash == pin.hash => Ok(true),
        Ok(block) => Err(RecoveryError::OtherHistory {
            location: store.location().to_owned(),
            height: pin.height,
            pinned: pin.hash.clone(),
            found: block.block_id.hash,
        }),
        Err(_) => Ok(false),
    }
}
