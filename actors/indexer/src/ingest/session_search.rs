//! Sessions as the index of transactions names them: every message that creates or changes one has an event. It is another way than the list
//! of the node, and shows one that the list hides.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::json;
use svc_net::upstream::{NodeClient, NodeClientError};
use svc_wire::comet_rpc::IncludedTx;

use super::node_reader::NodeReader;
use crate::block::{EntityRef, named_entities};

/// Transactions of a page, the most that a node gives.
const PAGE_SIZE: usize = 100;

/// A page of `tx_search`.
#[derive(Debug, Deserialize)]
struct FoundTxs {
    txs: Vec<IncludedTx>,
    total_count: String,
}

/// Finds the sessions that transactions up to a height name, at the first node that searches its transactions. Fails as the last node does:
/// with an error of its RPC where it has no index, or does not show it.
pub async fn search_sessions(source: NodeReader<'_>, height: u64) -> Result<BTreeSet<EntityRef>, NodeClientError> {
    let mut found = search_at(source.node, height).await;
    for node in source.node.alternatives() {
        if !matches!(found, Err(NodeClientError::Rpc { .. })) {
            break;
        }
        found = search_at(&node, height).await;
    }
    found
}

async fn search_at(node: &NodeClient, height: u64) -> Result<BTreeSet<EntityRef>, NodeClientError> {
    let query = format!("create_update_csps.session_id EXISTS AND tx.height<={height}");
    let mut found = BTreeSet::new();
    for page in 1_usize.. {
        let params = json!({
            "query": query, "page": page.to_string(), "per_page": PAGE_SIZE.to_string(), "order_by": "asc", "prove": false,
        });
        let answer = node.call_raw("tx_search", params).await?;
        let answer: FoundTxs = serde_json::from_value(answer)
            .map_err(|error| NodeClientError::unreadable(format!("tx_search: {error}")))?;
        let total: usize = answer.total_count.parse().unwrap_or(0);
        found.extend(answer.txs.iter().flat_map(sessions_of));
        if answer.txs.is_empty() || page * PAGE_SIZE >= total {
            break;
        }
    }
    Ok(found)
}

/// The sessions that a transaction has created or changed.
fn sessions_of(tx: &IncludedTx) -> impl Iterator<Item = EntityRef> + '_ {
    let named = tx.tx_result.events.iter().filter(|_| tx.tx_result.code == 0).flat_map(named_entities);
    named.filter(|entity| matches!(entity, EntityRef::Session(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_names_the_sessions_that_it_changed() {
        let event =
            |id: &str| json!({"type": "create_update_csps", "attributes": [{"key": "session_id", "value": id}]});
        let other = json!({"type": "store_digest", "attributes": [{"key": "digest", "value": "d"}]});
        let names = |code: u32, events: serde_json::Value| {
            let tx = json!({"hash": "A", "height": "7", "tx_result": {"code": code, "events": events}});
            let tx: IncludedTx = serde_json::from_value(tx).expect("a transaction");
            sessions_of(&tx).collect::<Vec<_>>()
        };
        let session = |id: &str| EntityRef::Session(id.to_owned());
        assert_eq!(names(0, json!([event("a"), other, event("b")])), [session("a"), session("b")]);
        assert_eq!(names(5, json!([event("a")])), [], "a transaction that has failed changes nothing");
        assert_eq!(names(0, json!([])), []);
    }
}
