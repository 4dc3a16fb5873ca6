//! The nodes that have another history than the store. They are left out until they have shown the store's history for a while.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use svc_net::upstream::NodeClient;
use svc_otel::metrics;
use svc_wire::comet_rpc::NodeStatus;
use tokio::time::{Instant, timeout};

use crate::{
    ingest::{HistoryMismatch, NodeBlock, compare_block},
    store::IndexStore,
};

/// Looks one after the other at which a node that was left out shows the store's history, until it is used again. Each time that it is left
/// out doubles them, up to a number of times.
const AGREEING_LOOKS: u32 = 10;
const MAX_DOUBLINGS: u32 = 6;
/// Questions of one look at such a node. A balancer may alternate between two nodes, and an odd number hears both.
const QUESTIONS: u32 = 3;
/// Longest wait for the answers of one node.
const LOOK_TIMEOUT: Duration = Duration::from_secs(3);

/// The history of a node, beside that of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NodeHistory {
    /// It has the same block at the newest height that both have.
    Same,
    /// It has another one.
    Other(HistoryMismatch),
    /// It does not answer, or has no block that the store has.
    Unknown,
}

/// A node that is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LeftOut {
    mismatch: HistoryMismatch,
    /// Looks since the last one that did not agree.
    agreed: u32,
    /// Looks that are needed.
    needed: u32,
}

/// The nodes that are left out, by their origins.
#[derive(Debug, Default)]
struct Known {
    left_out: BTreeMap<String, LeftOut>,
    /// Times that each node was left out.
    times: BTreeMap<String, u32>,
}

impl Known {
    /// Records another history of a node. Returns whether the node was in use.
    fn note_mismatch(&mut self, origin: &str, mismatch: &HistoryMismatch) -> bool {
        if let Some(known) = self.left_out.get_mut(origin) {
            known.agreed = 0;
            return false;
        }
        let times = self.times.entry(origin.to_owned()).or_default();
        let needed = AGREEING_LOOKS << (*times).min(MAX_DOUBLINGS);
        *times += 1;
        self.left_out.insert(origin.to_owned(), LeftOut { mismatch: mismatch.clone(), agreed: 0, needed });
        true
    }

    /// Records a look at a node that is left out. Returns whether the node is used again.
    fn note_look(&mut self, origin: &str, history: &NodeHistory) -> bool {
        let Some(known) = self.left_out.get_mut(origin) else { return false };
        known.agreed = if *history == NodeHistory::Same { known.agreed + 1 } else { 0 };
        let is_used = known.agreed >= known.needed;
        if is_used {
            self.left_out.remove(origin);
        }
        is_used
    }
}

/// The nodes that have another history than the store.
#[derive(Debug, Default)]
pub struct NodeHistories(Mutex<Known>);

impl NodeHistories {
    /// Whether any node is left out.
    pub fn has_left_out(&self) -> bool {
        self.with(|known| !known.left_out.is_empty())
    }

    /// Leaves a node out that has another history.
    pub fn leave_out(&self, nodes: &NodeClient, origin: &str, mismatch: &HistoryMismatch) {
        if !self.with(|known| known.note_mismatch(origin, mismatch)) {
            return;
        }
        nodes.endpoints().leave_out(origin, true);
        let HistoryMismatch { height, stored, found } = mismatch;
        tracing::error!(origin, height, stored, found, "the node has another history than the index, and is left out");
    }

    /// Compares every node with the store. Returns the mismatch for which nothing can be taken in: a node has another history, and none
    /// the store's.
    pub async fn look(&self, nodes: &NodeClient, store: &IndexStore) -> Option<HistoryMismatch> {
        let looks = nodes.each().into_iter().map(|node| async move {
            let origin = node.origin().to_owned();
            let is_left_out = self.with(|known| known.left_out.contains_key(&origin));
            let questions = if is_left_out { QUESTIONS } else { 1 };
            let history = timeout(LOOK_TIMEOUT, read_history(&node, store, questions)).await;
            (origin, history.unwrap_or(NodeHistory::Unknown))
        });
        let histories = futures::future::join_all(looks).await;
        for (origin, history) in &histories {
            if let NodeHistory::Other(mismatch) = history {
                self.leave_out(nodes, origin, mismatch);
            } else if self.with(|known| known.note_look(origin, history)) {
                tracing::warn!(origin, "the node has the history of the index again");
                nodes.endpoints().leave_out(origin, false);
            }
        }
        let (stop, left_out) = self.with(|known| (find_stop(&known.left_out, &histories), known.left_out.len()));
        metrics::record_other_histories(left_out, stop.is_some());
        stop
    }

    fn with<R>(&self, change: impl FnOnce(&mut Known) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The mismatch of the first node that is left out, unless another one has the store's history.
fn find_stop(left_out: &BTreeMap<String, LeftOut>, histories: &[(String, NodeHistory)]) -> Option<HistoryMismatch> {
    let is_followed =
        |(origin, history): &(String, NodeHistory)| *history == NodeHistory::Same && !left_out.contains_key(origin);
    if histories.iter().any(is_followed) {
        return None;
    }
    histories.iter().find_map(|(origin, _)| left_out.get(origin)).map(|known| known.mismatch.clone())
}

/// Ends a dispute of the nodes after one side has answered nothing for a while, when the other side has the history of the store.
pub(super) async fn settle_dispute(nodes: &NodeClient, store: &IndexStore) {
    let Some(remaining) = nodes.remaining_disputant(Instant::now()) else { return };
    if timeout(LOOK_TIMEOUT, read_history(&remaining, store, 1)).await == Ok(NodeHistory::Same) {
        nodes.end_dispute_with(remaining.origin());
    }
}

/// Compares the newest block that both the node and the store have.
pub(super) async fn read_history(node: &NodeClient, store: &IndexStore, questions: u32) -> NodeHistory {
    let mut history = NodeHistory::Unknown;
    for _ in 0..questions {
        history = match read_history_once(node, store).await {
            None => return NodeHistory::Unknown,
            Some(Some(mismatch)) => return NodeHistory::Other(mismatch),
            Some(None) => NodeHistory::Same,
        };
    }
    history
}

async fn read_history_once(node: &NodeClient, store: &IndexStore) -> Option<Option<HistoryMismatch>> {
    let tip = node.status().await.ok()?.sync_info.latest_block_height;
    let height = tip.min(store.checkpoint().await.ok()?.height);
    let stored = store.stored_block(height).await.ok()??;
    let found = NodeBlock::new(&node.block(height).await.ok()?);
    Some(compare_block(&stored, &found))
}

/// Compares the newest block of a node's status with the store: `None` where the store has not reached it, or knows no hash of it.
pub(super) async fn compare_status(status: &NodeStatus, store: &IndexStore) -> Option<HistoryMismatch> {
    let sync = &status.sync_info;
    let stored = store.stored_block(sync.latest_block_height).await.ok()??;
    if stored.hash.is_none() || sync.latest_block_hash.is_empty() {
        return None;
    }
    compare_block(&stored, &NodeBlock { time: None, hash: sync.latest_block_hash.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mismatch(height: u64) -> HistoryMismatch {
        HistoryMismatch { height, stored: "A".to_owned(), found: "B".to_owned() }
    }

    fn known(origins: &[&str]) -> Known {
        let mut known = Known::default();
        for origin in origins {
            assert!(known.note_mismatch(origin, &mismatch(7)));
        }
        known
    }

    #[test]
    fn the_follower_stops_unless_a_node_has_the_history_of_the_store() {
        use NodeHistory::{Same, Unknown};
        let other = || NodeHistory::Other(mismatch(7));
        for (first, second, out, is_stopped) in [
            (Same, Same, vec![], false),
            (Unknown, Unknown, vec![], false),
            (other(), Same, vec!["a"], false),
            (Same, other(), vec!["b"], false),
            (other(), Unknown, vec!["a"], true),
            (other(), other(), vec!["a", "b"], true),
            // One that agrees now and has shown another history before: a balancer may alternate.
            (Same, Unknown, vec!["a"], true),
            (Same, Same, vec!["a"], false),
        ] {
            let histories = [("a".to_owned(), first), ("b".to_owned(), second)];
            let stop = find_stop(&known(&out).left_out, &histories);
            assert_eq!(stop.is_some(), is_stopped, "{histories:?} {out:?}");
        }
    }

    #[test]
    fn a_node_is_used_again_after_looks_that_agree_one_after_the_other() {
        let mut known = known(&["a"]);
        assert!(!known.note_look("b", &NodeHistory::Same), "it was never left out");
        for interruption in [NodeHistory::Unknown, NodeHistory::Other(mismatch(9))] {
            for _ in 1..AGREEING_LOOKS {
                assert!(!known.note_look("a", &NodeHistory::Same));
            }
            assert!(!known.note_look("a", &interruption));
        }
        assert!(
            !known.note_mismatch("a", &mismatch(9)) && known.left_out["a"].mismatch == mismatch(7),
            "the first one is named"
        );
        for look in 1..=AGREEING_LOOKS {
            assert_eq!(known.note_look("a", &NodeHistory::Same), look == AGREEING_LOOKS);
        }
        assert!(known.left_out.is_empty() && known.note_mismatch("a", &mismatch(11)));
        for look in 1..=2 * AGREEING_LOOKS {
            assert_eq!(known.note_look("a", &NodeHistory::Same), look == 2 * AGREEING_LOOKS, "the second time");
        }
    }
}
