//! The events that are not stored yet: blocks are stored whole, and each event once. Pure.

use std::collections::{BTreeMap, BTreeSet};

use svc_agent_store::EVERY_EVENT;
use svc_wire::event_stream::IndexerEvent;

/// Blocks that one transaction stores.
const MAX_BATCH_BLOCKS: usize = 256;
/// Events that may wait for the store.
pub(super) const MAX_PENDING_EVENTS: usize = 20_000;

/// A block that can be stored.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CompleteBlock {
    pub height: u64,
    pub events: Vec<IndexerEvent>,
}

/// The events between the cursor and the newest block.
pub(super) struct EventCollector {
    /// Height up to which every event is stored.
    cursor: Option<u64>,
    /// Ids of the stored events at the cursor: an indexer may send further ones of the same block.
    ids_at_cursor: BTreeSet<String>,
    pending: BTreeMap<u64, Vec<IndexerEvent>>,
    pending_events: usize,
    /// Height up to which no further event comes.
    complete: Option<u64>,
    skipped: u64,
}

impl EventCollector {
    /// Continues after the cursor of the store.
    pub fn new(cursor: Option<u64>, ids_at_cursor: impl IntoIterator<Item = String>) -> Self {
        Self {
            cursor,
            ids_at_cursor: ids_at_cursor.into_iter().collect(),
            pending: BTreeMap::new(),
            pending_events: 0,
            complete: None,
            skipped: 0,
        }
    }

    /// Forgets everything that is not stored: a new connection reads it again.
    pub fn begin_again(&mut self) {
        self.pending.clear();
        (self.pending_events, self.complete) = (0, None);
    }

    /// Height up to which every event is stored.
    pub fn cursor(&self) -> Option<u64> {
        self.cursor
    }

    /// Events that were skipped.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Whether the store is so far behind that nothing more should be read.
    pub fn is_full(&self) -> bool {
        self.pending_events >= MAX_PENDING_EVENTS
    }

    /// Takes events in their order. Those that are stored already, or were taken before, are skipped. A page or a block comes in order
    /// of heights, so that all heights below the newest of these are complete.
    pub fn take(&mut self, events: Vec<IndexerEvent>, id: impl Fn(&IndexerEvent) -> String) {
        let newest = events.iter().map(|event| event.block_height).max();
        for event in events {
            let height = event.block_height;
            let is_stored = match self.cursor {
                Some(cursor) if height < cursor => true,
                Some(cursor) if height == cursor => {
                    self.ids_at_cursor.contains(&id(&event)) || self.ids_at_cursor.contains(EVERY_EVENT)
                }
                _ => false,
            };
            let block = self.pending.entry(height).or_default();
            if is_stored || block.iter().any(|known| known.key() == event.key()) {
                self.skipped += 1;
                if block.is_empty() {
                    self.pending.remove(&height);
                }
                continue;
            }
            block.push(event);
            self.pending_events += 1;
        }
        if let Some(below) = newest.and_then(|newest| newest.checked_sub(1)) {
            self.complete = self.complete.max(Some(below));
        }
    }

    /// No further event comes up to a height.
    pub fn complete(&mut self, height: u64) {
        self.complete = self.complete.max(Some(height));
    }

    /// The next blocks to store; the last of them is the cursor afterwards. The same until they are stored.
    pub fn next_blocks(&self) -> Vec<CompleteBlock> {
        let Some(complete) = self.complete else { return Vec::new() };
        let mut blocks: Vec<CompleteBlock> = self
            .pending
            .range(..=complete)
            .take(MAX_BATCH_BLOCKS)
            .map(|(height, events)| CompleteBlock { height: *height, events: events.clone() })
            .collect();
        for block in &mut blocks {
            block.events.sort_by_key(|event| (event.payload.tx_index, event.payload.message_index));
        }
        // The last heights may have no events, and are stored all the same.
        let is_last = blocks.len() < MAX_BATCH_BLOCKS;
        let newest = blocks.last().map(|block| block.height).max(self.cursor);
        if is_last && newest.is_none_or(|newest| newest < complete) {
            blocks.push(CompleteBlock { height: complete, events: Vec::new() });
        }
        blocks
    }

    /// Blocks were stored, with the ids of the events of the last one.
    pub fn stored(&mut self, blocks: &[CompleteBlock], id: impl Fn(&IndexerEvent) -> String) {
        for block in blocks {
            // Events that came meanwhile stay.
            let Some(pending) = self.pending.get_mut(&block.height) else { continue };
            let before = pending.len();
            pending.retain(|event| !block.events.iter().any(|stored| stored.key() == event.key()));
            self.pending_events = self.pending_events.saturating_sub(before - pending.len());
            if pending.is_empty() {
                self.pending.remove(&block.height);
            }
        }
        let Some(last) = blocks.last() else { return };
        if self.cursor.is_none_or(|cursor| cursor < last.height) {
            self.cursor = Some(last.height);
            self.ids_at_cursor.clear();
        }
        if self.cursor == Some(last.height) {
            self.ids_at_cursor.extend(last.events.iter().map(id));
        }
    }
}
