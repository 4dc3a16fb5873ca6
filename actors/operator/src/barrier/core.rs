//! Waiting callers by height. Pure.

use std::collections::BTreeMap;

/// Waiting callers by height.
#[derive(Debug)]
pub struct HeightWaiters<W> {
    height: u64,
    waiting: BTreeMap<u64, Vec<W>>,
}

impl<W> HeightWaiters<W> {
    /// No waiters, for a reader at `height`.
    pub fn new(height: u64) -> Self {
        Self { height, waiting: BTreeMap::new() }
    }

    /// Height of the reader.
    pub fn height(&self) -> u64 {
        self.height
    }

    /// Adds a waiter; returns it when the height is already reached.
    pub fn add(&mut self, height: u64, waiter: W) -> Option<W> {
        if height <= self.height {
            return Some(waiter);
        }
        self.waiting.entry(height).or_default().push(waiter);
        None
    }

    /// The reader is at a lower height than before: no waiter is answered.
    pub fn fall_back_to(&mut self, height: u64) {
        self.height = self.height.min(height);
    }

    /// Advances the reader and yields every waiter whose height is reached. A lower height changes nothing.
    pub fn advance_to(&mut self, height: u64) -> Vec<W> {
        self.height = self.height.max(height);
        let later = self.waiting.split_off(&(self.height + 1));
        std::mem::replace(&mut self.waiting, later).into_values().flatten().collect()
    }

    /// Drops the waiters for which `is_waiting` is false.
    pub fn retain(&mut self, is_waiting: impl Fn(&W) -> bool) {
        self.waiting.retain(|_, waiters| {
            waiters.retain(&is_waiting);
            !waiters.is_empty()
        });
    }

    /// Distance from the reader to the highest waiter that `counts`.
    pub fn lag(&self, counts: impl Fn(&W) -> bool) -> u64 {
        let highest = self.waiting.iter().rev().find(|(_, waiters)| waiters.iter().any(&counts));
        highest.map_or(0, |(height, _)| height - self.height)
    }

    /// Number of waiters.
    pub fn len(&self) -> usize {
        self.waiting.values().map(Vec::len).sum()
    }
}
