//! Which blocks to fetch and which to write next. Pure.

use std::collections::{BTreeMap, BTreeSet};

/// Blocks fetched ahead of the one being written.
const AHEAD: u64 = 32;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect<B> {
    /// Fetch a block.
    Fetch(u64),
    /// Read what a block touched, and write it.
    Write(B),
}

/// Progress of the follower; `B` is a fetched block.
#[derive(Debug)]
pub struct Progress<B> {
    committed: u64,
    tip: u64,
    fetching: BTreeSet<u64>,
    fetched: BTreeMap<u64, B>,
    is_writing: bool,
    /// After a failure one block at a time is asked for, until one comes: a crowd at the door of a node that is just back
    /// keeps out whoever would find it open.
    is_cautious: bool,
}

impl<B: Clone> Progress<B> {
    /// Continues behind `committed`.
    pub fn new(committed: u64) -> Self {
        Self {
            committed,
            tip: committed,
            fetching: BTreeSet::new(),
            fetched: BTreeMap::new(),
            is_writing: false,
            is_cautious: false,
        }
    }

    pub fn committed(&self) -> u64 {
        self.committed
    }

    pub fn tip(&self) -> u64 {
        self.tip
    }

    /// The node has this height. Heights that were jumped over are fetched like any other.
    pub fn tip_seen(&mut self, height: u64) -> Vec<Effect<B>> {
        self.tip = self.tip.max(height);
        self.advance()
    }

    /// A block came.
    pub fn fetched(&mut self, height: u64, block: B) -> Vec<Effect<B>> {
        self.fetching.remove(&height);
        self.is_cautious = false;
        if height > self.committed {
            self.fetched.insert(height, block);
        }
        self.advance()
    }

    /// A block did not come; it is fetched again with the next call.
    pub fn fetch_failed(&mut self, height: u64) {
        self.fetching.remove(&height);
        self.is_cautious = true;
    }

    /// The block being written is written.
    pub fn written(&mut self) -> Vec<Effect<B>> {
        self.is_writing = false;
        self.committed += 1;
        self.fetched.remove(&self.committed);
        self.advance()
    }

    /// The block being written was not; it is written again with the next call.
    pub fn write_failed(&mut self) {
        self.is_writing = false;
    }

    /// Everything that can be done now.
    pub fn advance(&mut self) -> Vec<Effect<B>> {
        let mut effects = Vec::new();
        let next = self.committed + 1;
        if !self.is_writing
            && let Some(block) = self.fetched.get(&next)
        {
            self.is_writing = true;
            effects.push(Effect::Write(block.clone()));
        }
        for height in next..=self.tip.min(self.committed + AHEAD) {
            if self.is_cautious && !self.fetching.is_empty() {
                break;
            }
            if !self.fetched.contains_key(&height) && self.fetching.insert(height) {
                effects.push(Effect::Fetch(height));
            }
        }
        effects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_fetched_and_blocks_are_written_in_order_whatever_order_they_come_in() {
        let mut progress: Progress<u64> = Progress::new(4);
        assert_eq!(progress.tip_seen(7), [Effect::Fetch(5), Effect::Fetch(6), Effect::Fetch(7)]);
        assert_eq!(progress.fetched(7, 7), []);
        assert_eq!(progress.fetched(6, 6), []);
        assert_eq!(progress.fetched(5, 5), [Effect::Write(5)]);
        assert_eq!(progress.tip_seen(6), [], "an old tip changes nothing");
        assert_eq!(progress.written(), [Effect::Write(6)]);
        assert_eq!(progress.written(), [Effect::Write(7)]);
        assert_eq!(progress.written(), []);
        assert_eq!(progress.committed(), 7);
    }

    #[test]
    fn failures_are_tried_again_and_nothing_is_written_twice_at_once() {
        let mut progress: Progress<u64> = Progress::new(0);
        assert_eq!(progress.tip_seen(1), [Effect::Fetch(1)]);
        progress.fetch_failed(1);
        assert_eq!(progress.advance(), [Effect::Fetch(1)]);
        assert_eq!(progress.fetched(1, 1), [Effect::Write(1)]);
        assert_eq!(progress.advance(), []);
        progress.write_failed();
        assert_eq!(progress.advance(), [Effect::Write(1)]);
    }

    #[test]
    fn after_a_failure_one_block_is_asked_for_until_one_comes() {
        let mut progress: Progress<u64> = Progress::new(0);
        assert_eq!(progress.tip_seen(3).len(), 3);
        for height in [1, 2, 3] {
            progress.fetch_failed(height);
        }
        assert_eq!(progress.advance(), [Effect::Fetch(1)]);
        assert_eq!(progress.tip_seen(4), []);
        assert_eq!(progress.fetched(1, 1), [Effect::Write(1), Effect::Fetch(2), Effect::Fetch(3), Effect::Fetch(4)]);
    }

    #[test]
    fn fetching_ahead_is_bounded() {
        let mut progress: Progress<u64> = Progress::new(0);
        assert_eq!(progress.tip_seen(1000).len() as u64, AHEAD);
        assert_eq!(progress.advance(), []);
    }
}
