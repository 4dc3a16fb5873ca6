//! The newest block of a node.

use svc_net::upstream::{NodeClient, NodeClientError};

use super::block_clock::BlockHead;

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
