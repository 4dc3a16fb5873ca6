//! The newest block of a node.

use svc_kit::RetainedState;
use svc_net::upstream::{BlockClock, BlockHead, NodeClient, NodeClientError};
use tokio::time::Instant;

/// The newest block of the node in use.
///
/// # Errors
/// When the node does not answer, or states a time that is none.
pub async fn query_head(node: &NodeClient) -> Result<BlockHead, NodeClientError> {
    let sync_info = node.status().await?.sync_info;
    BlockHead::of_status(&sync_info).ok_or_else(|| {
        let reason = format!("status: {:?} is no time", sync_info.latest_block_time);
        node.endpoints().current().protocol_error(reason, &[]).into()
    })
}

/// Replaces the node in use when it does not answer or is behind. A height that only one node has must fit the clock of the chain.
pub async fn select_node(node: &NodeClient, clock: &RetainedState<BlockClock>) {
    let plausible_height = clock.with(|clock| clock.plausible_height(Instant::now()));
    if let Some(confirmed) = node.select_current(Some(plausible_height)).await {
        clock.with(|clock| clock.confirm(confirmed, Instant::now()));
    }
}
