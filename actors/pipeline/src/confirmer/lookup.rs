//! Lookups at the node.

use futures::StreamExt;
use svc_kit::Mailbox;
use svc_net::upstream::{NodeClient, NodeClientError};

use super::{
    Msg,
    core::{NodeFacts, PendingTx},
};
use crate::chain::account::query_account;

/// Lookups under way at once.
const MAX_CONCURRENT_LOOKUPS: usize = 8;

/// Looks transactions up and reports each result to the confirmer.
pub async fn look_up_all(node: NodeClient, address: String, due: Vec<PendingTx>, mailbox: Mailbox<Msg>) {
    // One node answers all of it: the facts that it states describe the blocks that it searches.
    let node = node.pinned();
    let facts = read_node_facts(&node, &address).await;
    let look_up = |pending: PendingTx| {
        let (node, facts, mailbox) = (&node, &facts, &mailbox);
        async move {
            let answer = match facts {
                Ok(facts) => node.tx(&pending.hash).await.map(|found| (*facts, found.map(Box::new))),
                Err(error) => Err(error.clone()),
            };
            mailbox.send(Msg::LookupFinished { pending: Box::new(pending), answer });
        }
    };
    futures::stream::iter(due.into_iter().map(look_up)).buffer_unordered(MAX_CONCURRENT_LOOKUPS).collect::<()>().await;
}

/// Facts of a node and of the account. The height is read first, so that the rest is at least as new.
pub async fn read_node_facts(node: &NodeClient, address: &str) -> Result<NodeFacts, NodeClientError> {
    let status = node.status().await?.sync_info;
    let sequence = match query_account(node, address).await {
        Ok(account) => Some(account.map_or(0, |account| account.sequence)),
        Err(_) => None,
    };
    Ok(NodeFacts { height: status.latest_block_height, earliest_height: status.earliest_block_height, sequence })
}
