//! The choice of the node in use, and the comparison of the nodes' blocks.

use std::{sync::PoisonError, time::Duration};

use svc_otel::metrics;

use super::{endpoints::EndpointReach, node_client::NodeClient};

/// Two nodes with different blocks at one height: one of them lies, or runs another chain of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the nodes have different blocks at height {height}: {} has {}, {} has {}", .blocks[0].0, .blocks[0].1, .blocks[1].0, .blocks[1].1)]
pub struct HistoryDispute {
    /// The height.
    pub height: u64,
    /// Origin and block hash of each node.
    pub blocks: [(String, String); 2],
}

/// A height that more than one node has, or the only one that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfirmedHeight {
    /// The height.
    pub height: u64,
    /// Whether it is the newest: no node that answers is far above it.
    pub is_newest: bool,
}

/// Blocks between nodes that count as equally high.
const MAX_TIP_DISTANCE: u64 = 2;

/// The greatest height that two nodes have, or that of the only node that is ready.
fn confirm_height(reaches: &[Option<EndpointReach>]) -> Option<ConfirmedHeight> {
    let mut ready = reaches.iter().flatten().filter(|reach| reach.is_ready);
    if let (Some(only), None) = (ready.next(), ready.next()) {
        return Some(ConfirmedHeight { height: only.height, is_newest: true });
    }
    let mut heights: Vec<u64> = reaches.iter().flatten().map(|reach| reach.height).collect();
    heights.sort_unstable_by(|one, other| other.cmp(one));
    let (highest, second) = (heights.first()?, heights.get(1)?);
    Some(ConfirmedHeight { height: *second, is_newest: second + MAX_TIP_DISTANCE >= *highest })
}

/// Longest wait for the block of one node.
const COMPARISON_TIMEOUT: Duration = Duration::from_secs(3);

/// Origin of a node and its block hash at a height; `None` when it does not answer.
async fn hash_at(node: &NodeClient, height: u64) -> Option<(String, String)> {
    let block = tokio::time::timeout(COMPARISON_TIMEOUT, node.block(height)).await.ok()?.ok()?;
    Some((node.origin().to_owned(), block.block_id.hash))
}

impl NodeClient {
    /// Replaces the current node when it does not answer or is behind, and compares the blocks of the nodes. A height above
    /// `plausible_height` counts only when another node has it too. Returns the greatest height that two
    /// nodes have, or that of the only node that is ready.
    pub async fn select_current(&self, plausible_height: Option<u64>) -> Option<ConfirmedHeight> {
        let reach = |endpoints| self.with_endpoints(endpoints).query_reach();
        let reaches = self.endpoints().select_current(0, plausible_height, reach).await;
        let confirmed = confirm_height(&reaches);
        self.compare_blocks(&reaches).await;
        confirmed
    }

    /// Compares the newest block that each two nodes should have: that of the first node that answers, and that of each other one.
    async fn compare_blocks(&self, reaches: &[Option<EndpointReach>]) {
        let nodes = self.endpoints().all().into_iter().map(|endpoints| self.with_endpoints(endpoints));
        let mut answering = nodes.zip(reaches).filter_map(|(node, reach)| Some((node, (*reach)?.height)));
        let Some((first, first_height)) = answering.next() else { return };
        let comparisons = answering.map(|(other, height)| {
            let (first, height) = (first.clone(), height.min(first_height));
            async move {
                let (mine, theirs) = tokio::join!(hash_at(&first, height), hash_at(&other, height));
                Some((height, [mine?, theirs?]))
            }
        });
        let compared = futures::future::join_all(comparisons).await;
        let pairs: Vec<(u64, [(String, String); 2])> = compared.into_iter().flatten().collect();
        let found = pairs.iter().find(|(_, [mine, theirs])| mine.1 != theirs.1);
        let found = found.map(|(height, blocks)| HistoryDispute { height: *height, blocks: blocks.clone() });
        // An earlier dispute ends when its nodes have the same block at its height or later.
        let has_agreed = |disputed: &HistoryDispute| {
            let agreeing = pairs.iter().filter(|(height, _)| *height >= disputed.height).flat_map(|(_, pair)| pair);
            let origins: Vec<&String> = agreeing.map(|(origin, _)| origin).collect();
            disputed.blocks.iter().all(|(origin, _)| origins.contains(&origin))
        };
        let mut dispute = self.dispute.lock().unwrap_or_else(PoisonError::into_inner);
        match (found, dispute.as_ref()) {
            (Some(found), earlier) => {
                if earlier.is_none() {
                    tracing::error!(%found, "nothing is written until the nodes agree");
                }
                *dispute = Some(found);
            }
            (None, Some(earlier)) if has_agreed(earlier) => {
                tracing::warn!(height = earlier.height, "the nodes have the same blocks again");
                *dispute = None;
            }
            (None, _) => {}
        }
        metrics::record_node_dispute(dispute.is_some());
    }

    /// The dispute of the nodes, if they have different blocks.
    pub fn dispute(&self) -> Option<HistoryDispute> {
        self.dispute.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_highest_node_confirms_a_height_and_the_only_ready_one_its_own() {
        let at = |height, is_ready| Some(EndpointReach { height, is_ready });
        let confirmed = |height, is_newest| Some(ConfirmedHeight { height, is_newest });
        for (reaches, expected) in [
            (vec![at(100, true), at(101, true)], confirmed(100, true)),
            (vec![at(100, true), at(160, true)], confirmed(100, false)),
            (vec![at(100, true), at(160, true), at(161, true)], confirmed(160, true)),
            (vec![None, at(160, true)], confirmed(160, true)),
            (vec![at(100, false), at(160, true)], confirmed(160, true)),
            (vec![at(100, false), at(99, false)], confirmed(99, true)),
            (vec![None, at(160, false)], None),
            (vec![None, None], None),
        ] {
            assert_eq!(confirm_height(&reaches), expected, "{reaches:?}");
        }
    }
}
