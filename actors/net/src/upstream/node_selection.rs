//! The choice of the node in use, and the comparison of the nodes' blocks.

use std::time::Duration;

use super::{
    endpoints::EndpointReach,
    node_client::NodeClient,
    node_dispute::{ComparedBlocks, HistoryDispute},
};

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
        // A node that is left out is not asked here: nothing is known of its silence.
        let is_heard =
            |index: usize, reach: &Option<EndpointReach>| reach.is_some() || self.endpoints().is_left_out(index);
        let origins = self.endpoints().origins().into_iter().zip(reaches).enumerate();
        let heard = origins.filter(|(index, (_, reach))| is_heard(*index, reach)).map(|(_, (origin, _))| origin);
        self.note_disputants(&heard.collect::<Vec<_>>());
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
        let pairs: Vec<ComparedBlocks> = compared.into_iter().flatten().collect();
        let found = pairs.iter().find(|(_, [mine, theirs])| mine.1 != theirs.1);
        let found = found.map(|(height, blocks)| HistoryDispute { height: *height, blocks: blocks.clone() });
        self.record_comparison(found, &pairs);
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
