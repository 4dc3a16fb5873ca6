//! Who waits for which height. Pure.

use std::collections::BTreeMap;

/// Waiters by height.
#[derive(Debug)]
pub struct Waiters<W> {
    cursor: u64,
    waiting: BTreeMap<u64, Vec<W>>,
}

impl<W> Waiters<W> {
    pub fn new(cursor: u64) -> Self {
        Self { cursor, waiting: BTreeMap::new() }
    }

    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Waits for `height`; gives the waiter back when it need not.
    pub fn wait(&mut self, height: u64, waiter: W) -> Option<W> {
        if height <= self.cursor {
            return Some(waiter);
        }
        self.waiting.entry(height).or_default().push(waiter);
        None
    }

    /// The cursor has moved; it never moves back. Yields everybody whose height is reached.
    pub fn reached(&mut self, height: u64) -> Vec<W> {
        self.cursor = self.cursor.max(height);
        let later = self.waiting.split_off(&(self.cursor + 1));
        std::mem::replace(&mut self.waiting, later).into_values().flatten().collect()
    }

    /// Drops waiters that have gone away.
    pub fn retain(&mut self, is_there: impl Fn(&W) -> bool) {
        self.waiting.retain(|_, waiters| {
            waiters.retain(&is_there);
            !waiters.is_empty()
        });
    }

    /// How far the furthest waiter that counts is ahead of the cursor.
    pub fn lag(&self, counts: impl Fn(&W) -> bool) -> u64 {
        let furthest = self.waiting.iter().rev().find(|(_, waiters)| waiters.iter().any(&counts));
        furthest.map_or(0, |(height, _)| height - self.cursor)
    }

    pub fn len(&self) -> usize {
        self.waiting.values().map(Vec::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_is_woken_once_at_his_height_or_above() {
        let mut waiters = Waiters::new(10);
        assert_eq!(waiters.wait(10, "now"), Some("now"));
        for (height, who) in [(12, "b"), (11, "a"), (12, "c"), (20, "d")] {
            assert_eq!(waiters.wait(height, who), None);
        }
        assert_eq!((waiters.lag(|_| true), waiters.lag(|who| *who != "d")), (10, 2));
        assert_eq!(waiters.reached(11), ["a"]);
        assert_eq!(waiters.reached(9), [""; 0], "the cursor never moves back");
        assert_eq!(waiters.reached(15), ["b", "c"]);
        waiters.retain(|who| *who != "d");
        assert_eq!((waiters.len(), waiters.lag(|_| true), waiters.cursor()), (0, 0, 15));
    }
}
