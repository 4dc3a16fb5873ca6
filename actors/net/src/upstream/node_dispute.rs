//! The dispute of nodes that have different blocks at one height.

use std::{sync::PoisonError, time::Duration};

use svc_otel::metrics;
use tokio::time::Instant;

use super::node_client::NodeClient;

/// Two nodes with different blocks at one height: one of them lies, or runs another chain of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the nodes have different blocks at height {height}: {} has {}, {} has {}", .blocks[0].0, .blocks[0].1, .blocks[1].0, .blocks[1].1)]
pub struct HistoryDispute {
    /// The height.
    pub height: u64,
    /// Origin and block hash of each node.
    pub blocks: [(String, String); 2],
}

/// A height, and origin and block hash of two nodes there.
pub(super) type ComparedBlocks = (u64, [(String, String); 2]);

/// Silence of one side after which the other side may go on alone.
const SIDE_SILENCE: Duration = Duration::from_secs(600);

/// A dispute that has not ended.
#[derive(Debug)]
pub(super) struct OpenDispute {
    found: HistoryDispute,
    /// The last answer of each node.
    answered_at: [Instant; 2],
}

impl OpenDispute {
    fn new(found: HistoryDispute, now: Instant) -> Self {
        Self { found, answered_at: [now; 2] }
    }

    fn note_answers(&mut self, answering: &[&str], now: Instant) {
        for ((origin, _), answered_at) in self.found.blocks.iter().zip(&mut self.answered_at) {
            if answering.contains(&origin.as_str()) {
                *answered_at = now;
            }
        }
    }

    /// The node that answers while the other one has been silent for a long time.
    fn remaining(&self, now: Instant) -> Option<&str> {
        let [first, second] = self.answered_at.map(|at| now.saturating_duration_since(at) >= SIDE_SILENCE);
        let [(one, _), (other, _)] = &self.found.blocks;
        match (first, second) {
            (true, false) => Some(other),
            (false, true) => Some(one),
            (true, true) | (false, false) => None,
        }
    }

    /// Whether both nodes have the same block at the height of the dispute or later.
    fn has_agreed(&self, compared: &[ComparedBlocks]) -> bool {
        let agreeing = compared.iter().filter(|(height, _)| *height >= self.found.height).flat_map(|(_, pair)| pair);
        let origins: Vec<&String> = agreeing.map(|(origin, _)| origin).collect();
        self.found.blocks.iter().all(|(origin, _)| origins.contains(&origin))
    }
}

impl NodeClient {
    fn with_dispute<R>(&self, change: impl FnOnce(&mut Option<OpenDispute>) -> R) -> R {
        let mut dispute = self.dispute.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut dispute);
        metrics::record_node_dispute(dispute.is_some());
        result
    }

    /// Records the nodes that have answered just now.
    pub(super) fn note_disputants(&self, answering: &[&str]) {
        self.with_dispute(|dispute| {
            if let Some(dispute) = dispute {
                dispute.note_answers(answering, Instant::now());
            }
        });
    }

    /// Records a comparison of blocks, and the difference that it has found. An earlier dispute ends when its nodes agree.
    pub(super) fn record_comparison(&self, found: Option<HistoryDispute>, compared: &[ComparedBlocks]) {
        self.with_dispute(|dispute| match (found, dispute.as_ref()) {
            (Some(found), earlier) => {
                if earlier.is_none() {
                    tracing::error!(%found, "nothing is written until the nodes agree");
                }
                *dispute = Some(OpenDispute::new(found, Instant::now()));
            }
            (None, Some(earlier)) if earlier.has_agreed(compared) => {
                tracing::warn!(height = earlier.found.height, "the nodes have the same blocks again");
                *dispute = None;
            }
            (None, _) => {}
        });
    }

    /// The dispute of the nodes, if they have different blocks.
    pub fn dispute(&self) -> Option<HistoryDispute> {
        let dispute = self.dispute.lock().unwrap_or_else(PoisonError::into_inner);
        dispute.as_ref().map(|dispute| dispute.found.clone())
    }

    /// The node of the dispute that answers, fixed, after the other one has answered nothing for ten minutes. The caller ends the dispute
    /// when this node continues a history that is known from before it.
    pub fn remaining_disputant(&self, now: Instant) -> Option<Self> {
        let dispute = self.dispute.lock().unwrap_or_else(PoisonError::into_inner);
        let origin = dispute.as_ref()?.remaining(now)?.to_owned();
        drop(dispute);
        self.each().into_iter().find(|node| node.origin() == origin)
    }

    /// Ends the dispute: the node at `origin` goes on alone.
    pub fn end_dispute_with(&self, origin: &str) {
        self.with_dispute(|dispute| {
            if let Some(ended) = dispute.take() {
                let height = ended.found.height;
                tracing::warn!(origin, height, "the dispute ends: the other node has answered nothing for ten minutes");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dispute(now: Instant) -> OpenDispute {
        let side = |origin: &str| (origin.to_owned(), format!("hash of {origin}"));
        OpenDispute::new(HistoryDispute { height: 7, blocks: [side("a"), side("b")] }, now)
    }

    #[test]
    fn a_side_goes_on_alone_after_ten_minutes_of_silence_of_the_other_one() {
        let start = Instant::now();
        let minutes = |count: u64| Duration::from_secs(60 * count);
        // The nodes that answer within each minute, and the node that may go on afterwards.
        for (answers, minute, expected) in [
            (vec!["a"], 9, None),
            (vec!["a"], 10, Some("a")),
            (vec!["b"], 10, Some("b")),
            (vec!["b", "c"], 30, Some("b")),
            (vec!["a", "b"], 30, None),
            (vec![], 30, None),
            (vec!["c"], 30, None),
        ] {
            let mut dispute = dispute(start);
            for passed in 1..=minute {
                dispute.note_answers(&answers, start + minutes(passed));
            }
            assert_eq!(dispute.remaining(start + minutes(minute)), expected, "{answers:?} for {minute} minutes");
        }
        // One answer of the silent side begins its ten minutes again.
        let mut dispute = dispute(start);
        dispute.note_answers(&["b"], start + minutes(9));
        dispute.note_answers(&["a"], start + minutes(18));
        assert_eq!(dispute.remaining(start + minutes(18)), None);
        assert_eq!(dispute.remaining(start + minutes(19)), Some("a"));
    }

    #[test]
    fn a_dispute_ends_when_both_sides_have_one_block_at_its_height_or_later() {
        let dispute = dispute(Instant::now());
        let pair = |one: &str, other: &str| [(one.to_owned(), "h".to_owned()), (other.to_owned(), "h".to_owned())];
        for (compared, expected) in [
            (vec![(7, pair("a", "b"))], true),
            (vec![(9, pair("c", "a")), (8, pair("c", "b"))], true),
            (vec![(6, pair("a", "b"))], false),
            (vec![(9, pair("a", "c"))], false),
            (vec![], false),
        ] {
            assert_eq!(dispute.has_agreed(&compared), expected, "{compared:?}");
        }
    }
}
