//! The answers of the nodes over time: heights that are believed, and silence. Pure.

use std::time::Duration;

use svc_net::upstream::{BlockClock, BlockHead, ConfirmedHeight};
use tokio::time::Instant;

/// The heights that nodes state, within the bounds of the chain's clock.
#[derive(Debug, Default)]
pub(super) struct StatedHeights {
    clock: BlockClock,
    /// Whether a node has stated a height.
    has_height: bool,
}

impl StatedHeights {
    /// The greatest height that is believed of one node alone. None is before the first answer.
    pub fn plausible_height(&self, now: Instant) -> u64 {
        if self.has_height { self.clock.plausible_height(now) } else { 0 }
    }

    /// Whether the height of a header is believed. With one node there is nothing to compare it with.
    pub fn believes(&self, height: u64, is_only_node: bool, now: Instant) -> bool {
        is_only_node || height <= self.plausible_height(now)
    }

    /// Records the newest block of the node in use, and the height that the nodes have in common. Returns whether the node is believed.
    pub fn record(
        &mut self,
        head: BlockHead,
        confirmed: Option<ConfirmedHeight>,
        is_only_node: bool,
        now: Instant,
    ) -> bool {
        if let Some(confirmed) = confirmed {
            self.clock.confirm(confirmed, now);
        }
        // The first node in use was chosen among heights that two nodes have.
        if is_only_node || !std::mem::replace(&mut self.has_height, true) {
            self.clock.confirm(ConfirmedHeight { height: head.height, is_newest: true }, now);
        }
        if head.height > self.clock.plausible_height(now) {
            return false;
        }
        self.clock.block_seen(head, now);
        true
    }
}

/// The silence of all nodes.
#[derive(Debug)]
pub(super) struct NodeSilence {
    answered_at: Instant,
    is_too_long: bool,
}

impl NodeSilence {
    /// Begins now.
    pub fn new(now: Instant) -> Self {
        Self { answered_at: now, is_too_long: false }
    }

    /// Whether no node has answered for longer than the limit.
    pub fn is_too_long(&self) -> bool {
        self.is_too_long
    }

    /// Records the answer of a node. Returns whether it ends a silence that was too long.
    pub fn end(&mut self, now: Instant) -> bool {
        self.answered_at = now;
        std::mem::take(&mut self.is_too_long)
    }

    /// Returns whether the silence has just become longer than a follower that counts as running may see.
    pub fn check(&mut self, now: Instant, limit: Duration) -> bool {
        let is_too_long = now.saturating_duration_since(self.answered_at) >= limit;
        is_too_long && !std::mem::replace(&mut self.is_too_long, true)
    }
}

/// Seconds since a block, both times in nanoseconds since the epoch; 0 for a block that is later than our clock.
pub(super) fn block_age(block: i128, now: i128) -> u64 {
    u64::try_from((now - block) / 1_000_000_000).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use svc_wire::timestamp;

    use super::*;

    fn head(height: u64) -> BlockHead {
        BlockHead { height, time: timestamp::from_unix_nanos(i128::from(height) * 1_000_000_000) }
    }

    #[test]
    fn a_height_counts_by_a_second_node_by_the_pace_or_of_the_only_node() {
        let start = Instant::now();
        let shared = |height, is_newest| Some(ConfirmedHeight { height, is_newest });
        for (confirmed, is_only_node, height, seconds, expected) in [
            (None, false, 110, 0, true),
            (None, false, 121, 0, false),
            // Twice the pace of the chain explains it.
            (None, false, 159, 20, true),
            (None, false, 162, 20, false),
            // A second node has it, or one that lags.
            (shared(1_000, true), false, 1_001, 0, true),
            (shared(101, false), false, 1_001, 0, false),
            (None, true, 1_000_000, 0, true),
        ] {
            let mut heights = StatedHeights::default();
            assert_eq!(heights.plausible_height(start), 0, "nothing is believed of one node before the first answer");
            assert!(heights.record(head(99), shared(90, false), false, start));
            let second = start + Duration::from_secs(1);
            assert!(heights.record(head(100), shared(100, true), false, second));
            let now = second + Duration::from_secs(seconds);
            assert_eq!(
                heights.record(head(height), confirmed, is_only_node, now),
                expected,
                "{height} after {seconds} s"
            );
            assert!(!heights.believes(1_000_000_000, false, now) && heights.believes(1_000_000_000, true, now));
        }
    }

    #[test]
    fn a_height_that_the_only_node_takes_back_raises_no_bound() {
        let (start, mut heights) = (Instant::now(), StatedHeights::default());
        assert!(heights.record(head(1_000_000), None, true, start));
        assert!(heights.record(head(100), None, true, start));
        assert!(heights.plausible_height(start) < 200);
    }

    #[test]
    fn a_silence_is_too_long_once_and_each_answer_begins_it_again() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let (mut silence, limit) = (NodeSilence::new(start), Duration::from_secs(15));
        // Seconds, whether a node answers, and the result.
        for (seconds, answers, expected) in [
            (14, false, false),
            (14, true, false),
            (28, false, false),
            (29, false, true),
            (30, false, false),
            (31, true, true),
            (32, true, false),
            (46, false, false),
            (47, false, true),
        ] {
            let changed = if answers { silence.end(after(seconds)) } else { silence.check(after(seconds), limit) };
            assert_eq!(changed, expected, "after {seconds} s");
        }
        assert!(silence.is_too_long());
    }

    #[test]
    fn the_age_of_a_block_is_that_of_our_clock() {
        for (block, now, seconds) in [(0, 7_999_999_999, 7), (7_000_000_000, 7_000_000_000, 0), (9_000_000_000, 0, 0)] {
            assert_eq!(block_age(block, now), seconds, "{block} {now}");
        }
    }
}
