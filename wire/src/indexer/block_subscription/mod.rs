//! A subscriber's side of the block subscription: subscribe, catch up by pages, then follow block by block, each event once.
//!
//! The subscriber connects first, subscribes and buffers blocks; it reads the events since its last height over REST; it applies the
//! buffer; then it is live. A block above the next height shows that blocks were lost and starts another catch-up.
//!
//! The heights of `ready` and `subscribed` count only where the indexer promises that the block below is committed. Of any other one the
//! height is read over REST. So it is after a silence: a greater one shows that blocks were lost.

#[cfg(test)]
mod tests;

use std::collections::{HashSet, VecDeque};

use super::event_stream::{BlockMessage, EventKey, EventsPage, IndexerEvent, StreamCommand, StreamMessage};

/// Most events a page may have.
const PAGE_SIZE: usize = 500;

/// The events of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubscriptionScope {
    /// Those of a DID.
    Did(String),
    /// Those of a corporation.
    Corporation(u64),
}

impl SubscriptionScope {
    /// The command that subscribes.
    pub fn command(&self) -> StreamCommand {
        match self {
            Self::Did(did) => StreamCommand::Subscribe { dids: Some(vec![did.clone()]), corporation_id: None },
            Self::Corporation(id) => StreamCommand::Subscribe { dids: None, corporation_id: Some(*id) },
        }
    }

    /// Path and parameters of a page of events after a height, or after the cursor of an earlier page. The values are not escaped.
    pub fn page_query(&self, after: u64, cursor: Option<&str>) -> Vec<(String, String)> {
        let scope = match self {
            Self::Did(did) => ("dids", did.clone()),
            Self::Corporation(id) => ("corporation_id", id.to_string()),
        };
        let fixed = [scope, ("after_block_height", after.to_string()), ("limit", PAGE_SIZE.to_string())];
        let cursor = cursor.map(|cursor| ("cursor", cursor.to_owned()));
        fixed.into_iter().chain(cursor).map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// Whether a page of events may be followed by another.
pub fn is_full_page(page: &EventsPage) -> bool {
    page.next_cursor.is_some() || page.events.len() >= PAGE_SIZE
}

/// An effect of the subscription.
#[derive(Debug, Clone, PartialEq)]
pub enum SubscriptionEffect {
    /// Read a page of events.
    ReadPage {
        /// Height after which the page begins.
        after: u64,
        /// Cursor of an earlier page, after which it begins.
        cursor: Option<String>,
    },
    /// Read the height up to which the indexer has every event.
    ReadHeight,
    /// Deliver events, in order, each once.
    Deliver {
        /// The events.
        events: Vec<IndexerEvent>,
    },
    /// The indexer has processed everything up to a height.
    PublishHeight {
        /// The height.
        height: u64,
    },
    /// End the connection and open another one.
    Reconnect {
        /// The reason.
        reason: &'static str,
    },
    /// The indexer begins with a later block: it does not have the events of these ones.
    MissBlocks {
        /// The first of them.
        first: u64,
        /// The last of them.
        last: u64,
    },
    /// A block has more events than a page, and this indexer cannot continue inside a block: its other events are lost.
    LoseEvents {
        /// The block.
        height: u64,
    },
}

/// The phase of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubscriptionPhase {
    /// There is no connection.
    Connecting,
    /// A connection is open.
    Ready,
    /// The subscription was requested.
    Subscribing,
    /// Pages of missed events are read.
    CatchingUp {
        /// Height up to which the pages go.
        target_height: u64,
    },
    /// Every block is delivered as it comes.
    Live,
}

/// Blocks that may wait for a catch-up. More show that the catch-up is slower than the chain.
const MAX_BUFFERED_BLOCKS: usize = 10_000;
/// Event keys that are remembered for duplicates: those of a catch-up and of the buffer.
const MAX_REMEMBERED_KEYS: usize = 20_000;

/// State of one subscription.
#[derive(Debug)]
pub struct SubscriptionCore {
    phase: SubscriptionPhase,
    processed_height: Option<u64>,
    buffered_blocks: VecDeque<BlockMessage>,
    seen_keys: HashSet<EventKey>,
    key_order: VecDeque<EventKey>,
    /// The page that was requested last: its height and cursor.
    requested_page: (u64, Option<String>),
    /// The reason for which the height of the indexer is being read.
    height_question: Option<HeightQuestion>,
    /// Whether the connection ends as soon as the lost blocks are caught up with.
    ends_when_live: bool,
    is_silent: bool,
}

/// The reason for which the height of an indexer is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeightQuestion {
    /// It has confirmed the subscription, and does not promise that its height is committed.
    Subscribed,
    /// It was silent for longer than announced.
    Silence,
}

impl SubscriptionCore {
    /// A subscription that continues after `processed`.
    pub fn new(processed: Option<u64>) -> Self {
        Self {
            phase: SubscriptionPhase::Connecting,
            processed_height: processed,
            buffered_blocks: VecDeque::new(),
            seen_keys: HashSet::new(),
            key_order: VecDeque::new(),
            requested_page: (0, None),
            height_question: None,
            ends_when_live: false,
            is_silent: false,
        }
    }

    /// The phase.
    pub fn phase(&self) -> SubscriptionPhase {
        self.phase
    }

    /// Height up to which every event was delivered; `None` before the first connection.
    pub fn processed_height(&self) -> Option<u64> {
        self.processed_height
    }

    /// Whether nothing comes from the indexer, which has no newer block either.
    pub fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// A connection is open.
    pub fn on_connected(&mut self) {
        self.begin(SubscriptionPhase::Ready);
    }

    /// The connection has ended.
    pub fn on_disconnected(&mut self) {
        self.begin(SubscriptionPhase::Connecting);
    }

    fn begin(&mut self, phase: SubscriptionPhase) {
        self.phase = phase;
        self.buffered_blocks.clear();
        (self.height_question, self.ends_when_live, self.is_silent) = (None, false, false);
    }

    /// The server sent a message. `commits_before_ready`: it promises that the block below the one of `ready` and `subscribed` is committed.
    pub fn on_message(&mut self, message: StreamMessage, commits_before_ready: bool) -> Vec<SubscriptionEffect> {
        self.is_silent = false;
        if self.height_question == Some(HeightQuestion::Silence) {
            self.height_question = None;
        }
        match message {
            StreamMessage::Ready { block, .. } => {
                self.phase = SubscriptionPhase::Subscribing;
                let promised = SubscriptionEffect::PublishHeight { height: block.saturating_sub(1) };
                if commits_before_ready { vec![promised] } else { Vec::new() }
            }
            StreamMessage::Subscribed { block, .. } if self.phase == SubscriptionPhase::Subscribing => {
                if commits_before_ready {
                    return self.catch_up(block.saturating_sub(1));
                }
                self.height_question = Some(HeightQuestion::Subscribed);
                vec![SubscriptionEffect::ReadHeight]
            }
            StreamMessage::Block(block) => self.on_block(block),
            StreamMessage::Subscribed { .. } | StreamMessage::Unknown => Vec::new(),
        }
    }

    /// The stream was silent for longer than announced. A block may have been lost.
    pub fn on_silence(&mut self) -> Vec<SubscriptionEffect> {
        let is_reading = matches!(self.phase, SubscriptionPhase::CatchingUp { .. }) || self.height_question.is_some();
        if is_reading || self.phase == SubscriptionPhase::Connecting {
            return Vec::new();
        }
        self.height_question = Some(HeightQuestion::Silence);
        vec![SubscriptionEffect::ReadHeight]
    }

    /// The height up to which the indexer has every event was read.
    pub fn on_height(&mut self, height: u64) -> Vec<SubscriptionEffect> {
        match self.height_question.take() {
            None => Vec::new(),
            Some(HeightQuestion::Subscribed) => self.catch_up(height),
            Some(HeightQuestion::Silence) if self.processed_height.is_some_and(|processed| processed >= height) => {
                self.is_silent = true;
                Vec::new()
            }
            Some(HeightQuestion::Silence) => {
                self.ends_when_live = true;
                self.catch_up(height)
            }
        }
    }

    /// The height of the indexer could not be read.
    pub fn on_height_failure(&mut self) -> Vec<SubscriptionEffect> {
        let reason = match self.height_question.take() {
            None => return Vec::new(),
            Some(HeightQuestion::Subscribed) => "the height of the indexer could not be read",
            Some(HeightQuestion::Silence) => "the indexer sends no blocks, and its height could not be read",
        };
        vec![SubscriptionEffect::Reconnect { reason }]
    }

    /// Reads the events up to a height that the indexer has committed. Events before the first connection are not replayed.
    fn catch_up(&mut self, height: u64) -> Vec<SubscriptionEffect> {
        self.phase = SubscriptionPhase::CatchingUp { target_height: height };
        match self.processed_height {
            Some(processed) => vec![self.request_page(processed, None)],
            None => self.go_live(),
        }
    }

    /// A block has arrived. Blocks below the `subscribed` height may still arrive and are kept; duplicates are dropped.
    fn on_block(&mut self, block: BlockMessage) -> Vec<SubscriptionEffect> {
        match self.phase {
            SubscriptionPhase::Live => self.apply_block(block),
            SubscriptionPhase::Subscribing | SubscriptionPhase::CatchingUp { .. }
                if self.buffered_blocks.len() < MAX_BUFFERED_BLOCKS =>
            {
                self.buffered_blocks.push_back(block);
                Vec::new()
            }
            SubscriptionPhase::Subscribing | SubscriptionPhase::CatchingUp { .. } => {
                vec![SubscriptionEffect::Reconnect { reason: "the catch-up is slower than the chain" }]
            }
            SubscriptionPhase::Connecting | SubscriptionPhase::Ready => Vec::new(),
        }
    }

    fn apply_block(&mut self, block: BlockMessage) -> Vec<SubscriptionEffect> {
        let processed = self.processed_height.unwrap_or(0);
        if block.block > processed.saturating_add(1) {
            // Blocks were lost: their events are read first, while this block waits.
            self.phase = SubscriptionPhase::CatchingUp { target_height: block.block - 1 };
            self.buffered_blocks.push_back(block);
            return vec![self.request_page(processed, None)];
        }
        self.processed_height = Some(processed.max(block.block));
        let mut effects = self.deliver(block.events);
        effects.push(SubscriptionEffect::PublishHeight { height: processed.max(block.block) });
        effects
    }

    /// A page of events was read. `is_full`: another page may follow.
    pub fn on_page(&mut self, page: EventsPage, is_full: bool) -> Vec<SubscriptionEffect> {
        let SubscriptionPhase::CatchingUp { .. } = self.phase else { return Vec::new() };
        let mut effects = Vec::new();
        if let Some(oldest) = page.oldest_block_height {
            effects.extend(self.miss_blocks_before(oldest));
        }
        let last = page.events.last().map(|event| event.block_height);
        let cursor = page.next_cursor.clone();
        effects.extend(self.deliver(page.events));
        match (is_full, last) {
            // Without a cursor the page may end inside a block. That block is read again, and its known events are dropped.
            (true, Some(last)) => {
                let mut next = (last.saturating_sub(1), cursor);
                if next == self.requested_page && next.1.is_none() {
                    // One block has more events than a page, and this indexer cannot continue inside a block.
                    effects.push(SubscriptionEffect::LoseEvents { height: last });
                    next.0 = last;
                }
                // A cursor that leads to the same page again would never end.
                if next == self.requested_page || next.0 < self.requested_page.0 {
                    effects.push(SubscriptionEffect::Reconnect { reason: "the pages of events repeat" });
                } else {
                    effects.push(self.request_page(next.0, next.1));
                }
                effects
            }
            _ => {
                effects.extend(self.go_live());
                effects
            }
        }
    }

    fn request_page(&mut self, after: u64, cursor: Option<String>) -> SubscriptionEffect {
        self.requested_page = (after, cursor.clone());
        SubscriptionEffect::ReadPage { after, cursor }
    }

    /// The indexer begins with block `oldest`, and does not have the page. The blocks before are missed, and the pages go on with it.
    pub fn on_page_not_indexed(&mut self, oldest: u64) -> Vec<SubscriptionEffect> {
        let SubscriptionPhase::CatchingUp { .. } = self.phase else { return Vec::new() };
        let missed = self.miss_blocks_before(oldest);
        // A page of blocks that the indexer says it has.
        if missed.is_none() {
            return vec![SubscriptionEffect::Reconnect { reason: "the indexer refuses its own blocks" }];
        }
        let next = self.request_page(oldest - 1, None);
        missed.into_iter().chain([next]).collect()
    }

    /// The blocks between the requested page and the oldest one of the indexer.
    fn miss_blocks_before(&self, oldest: u64) -> Option<SubscriptionEffect> {
        let first = self.requested_page.0.saturating_add(1);
        (first < oldest).then(|| SubscriptionEffect::MissBlocks { first, last: oldest - 1 })
    }

    /// A page of events could not be read.
    pub fn on_page_failure(&mut self) -> Vec<SubscriptionEffect> {
        vec![SubscriptionEffect::Reconnect { reason: "the events could not be read" }]
    }

    fn go_live(&mut self) -> Vec<SubscriptionEffect> {
        let mut effects = Vec::new();
        if let SubscriptionPhase::CatchingUp { target_height: until } = self.phase {
            let reached = self.processed_height.unwrap_or(0).max(until);
            self.processed_height = Some(reached);
            effects.push(SubscriptionEffect::PublishHeight { height: reached });
        }
        self.phase = SubscriptionPhase::Live;
        while let Some(block) = self.buffered_blocks.pop_front() {
            effects.extend(self.apply_block(block));
            if self.phase != SubscriptionPhase::Live {
                return effects;
            }
        }
        if std::mem::take(&mut self.ends_when_live) {
            effects.push(SubscriptionEffect::Reconnect { reason: "the indexer has blocks that it did not send" });
        }
        effects
    }

    fn deliver(&mut self, events: Vec<IndexerEvent>) -> Vec<SubscriptionEffect> {
        let fresh: Vec<IndexerEvent> = events.into_iter().filter(|event| self.remember_key(event.key())).collect();
        if fresh.is_empty() { Vec::new() } else { vec![SubscriptionEffect::Deliver { events: fresh }] }
    }

    fn remember_key(&mut self, key: EventKey) -> bool {
        if !self.seen_keys.insert(key.clone()) {
            return false;
        }
        self.key_order.push_back(key);
        if self.key_order.len() > MAX_REMEMBERED_KEYS
            && let Some(oldest) = self.key_order.pop_front()
        {
            self.seen_keys.remove(&oldest);
        }
        true
    }
}
