//! The subscription's decisions. Pure.

use std::collections::{HashSet, VecDeque};

use svc_wire::event::{BlockMessage, Event, EventKey, EventsPage, ServerMessage};

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Send `subscribe`.
    Subscribe,
    /// Read a page of events behind a height, or behind an earlier page's cursor.
    Drain { after: u64, cursor: Option<String> },
    /// Events of the corporation, in order, each once.
    Deliver(Vec<Event>),
    /// The indexer has taken everything in up to this height.
    Reached(u64),
    /// Give the connection up.
    Reconnect(&'static str),
    /// Expect a message within `2 × interval`.
    Expect { interval_ms: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Connecting,
    Ready,
    Subscribing,
    CatchingUp { until: u64 },
    Live,
}

/// Blocks that may wait for a drain; more means that draining does not keep up.
const BUFFER: usize = 10_000;
/// Keys remembered to recognise duplicates: those of a drain and the buffer beside it.
const KEYS: usize = 20_000;

/// State of one subscription.
#[derive(Debug)]
pub struct Core {
    phase: Phase,
    processed: Option<u64>,
    buffer: VecDeque<BlockMessage>,
    seen: HashSet<EventKey>,
    order: VecDeque<EventKey>,
    interval_ms: u64,
}

impl Core {
    /// Continues behind `processed`.
    pub fn new(processed: Option<u64>) -> Self {
        Self {
            phase: Phase::Connecting,
            processed,
            buffer: VecDeque::new(),
            seen: HashSet::new(),
            order: VecDeque::new(),
            interval_ms: 0,
        }
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    pub fn processed(&self) -> Option<u64> {
        self.processed
    }

    /// A connection is open.
    pub fn connected(&mut self) -> Vec<Effect> {
        self.phase = Phase::Ready;
        self.buffer.clear();
        Vec::new()
    }

    /// The connection is gone.
    pub fn disconnected(&mut self) {
        self.phase = Phase::Connecting;
        self.buffer.clear();
    }

    /// The server sent a message.
    pub fn received(&mut self, message: ServerMessage) -> Vec<Effect> {
        match message {
            ServerMessage::Ready { block, block_interval_ms, .. } => {
                self.interval_ms = block_interval_ms;
                self.phase = Phase::Subscribing;
                vec![
                    Effect::Expect { interval_ms: block_interval_ms },
                    Effect::Reached(block.saturating_sub(1)),
                    Effect::Subscribe,
                ]
            }
            ServerMessage::Subscribed { block, .. } if self.phase == Phase::Subscribing => {
                let until = block.saturating_sub(1);
                match self.processed {
                    Some(processed) => {
                        self.phase = Phase::CatchingUp { until };
                        vec![Effect::Drain { after: processed, cursor: None }]
                    }
                    // Nothing was promised before the first connection: history is read, not replayed.
                    None => {
                        self.processed = Some(until);
                        self.go_live()
                    }
                }
            }
            ServerMessage::Block(block) => self.block(block),
            ServerMessage::Subscribed { .. } | ServerMessage::Unknown => Vec::new(),
        }
    }

    /// Blocks below `subscribed` may still come and are not thrown away; duplicates are.
    fn block(&mut self, block: BlockMessage) -> Vec<Effect> {
        let mut effects = vec![Effect::Expect { interval_ms: self.interval_ms }];
        match self.phase {
            Phase::Live => effects.extend(self.apply(block)),
            Phase::Subscribing | Phase::CatchingUp { .. } if self.buffer.len() < BUFFER => self.buffer.push_back(block),
            Phase::Subscribing | Phase::CatchingUp { .. } => {
                effects.push(Effect::Reconnect("the drain does not keep up"))
            }
            Phase::Connecting | Phase::Ready => {}
        }
        effects
    }

    fn apply(&mut self, block: BlockMessage) -> Vec<Effect> {
        let processed = self.processed.unwrap_or(0);
        if block.block > processed + 1 {
            // Blocks were lost: read what they held, with this one waiting.
            self.phase = Phase::CatchingUp { until: block.block - 1 };
            self.buffer.push_back(block);
            return vec![Effect::Drain { after: processed, cursor: None }];
        }
        self.processed = Some(processed.max(block.block));
        let mut effects = self.deliver(block.events);
        effects.push(Effect::Reached(processed.max(block.block)));
        effects
    }

    /// A page of a drain came; `is_full`: another may follow.
    pub fn drained(&mut self, page: EventsPage, is_full: bool) -> Vec<Effect> {
        let Phase::CatchingUp { .. } = self.phase else { return Vec::new() };
        let last = page.events.last().map(|event| event.block_height);
        let cursor = page.next_cursor.clone();
        let mut effects = self.deliver(page.events);
        match (is_full, last) {
            // Without a cursor the page may end inside a block: the block is read again, and the known part dropped.
            (true, Some(last)) => {
                effects.push(Effect::Drain { after: last.saturating_sub(1), cursor });
                effects
            }
            _ => {
                effects.extend(self.go_live());
                effects
            }
        }
    }

    /// A page of a drain did not come.
    pub fn drain_failed(&mut self) -> Vec<Effect> {
        vec![Effect::Reconnect("the events could not be read")]
    }

    /// No message within the time that was set.
    pub fn silent(&self) -> Vec<Effect> {
        match self.phase {
            Phase::Connecting => Vec::new(),
            Phase::Ready | Phase::Subscribing | Phase::CatchingUp { .. } | Phase::Live => {
                vec![Effect::Reconnect("the indexer is silent")]
            }
        }
    }

    fn go_live(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let Phase::CatchingUp { until } = self.phase {
            let reached = self.processed.unwrap_or(0).max(until);
            self.processed = Some(reached);
            effects.push(Effect::Reached(reached));
        }
        self.phase = Phase::Live;
        while let Some(block) = self.buffer.pop_front() {
            effects.extend(self.apply(block));
            if self.phase != Phase::Live {
                break;
            }
        }
        effects
    }

    fn deliver(&mut self, events: Vec<Event>) -> Vec<Effect> {
        let fresh: Vec<Event> = events.into_iter().filter(|event| self.remember(event.key())).collect();
        if fresh.is_empty() { Vec::new() } else { vec![Effect::Deliver(fresh)] }
    }

    fn remember(&mut self, key: EventKey) -> bool {
        if !self.seen.insert(key.clone()) {
            return false;
        }
        self.order.push_back(key);
        if self.order.len() > KEYS
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use svc_wire::event::{EventKind, Payload};

    use super::*;

    fn event(height: u64, index: u32) -> Event {
        Event {
            kind: EventKind::IndexerEvent,
            event_type: "X".into(),
            did: None,
            block_height: height,
            tx_hash: format!("{height}"),
            timestamp: "t".into(),
            payload: Payload { message_index: index, ..Payload::default() },
        }
    }

    fn block(height: u64, events: Vec<Event>) -> ServerMessage {
        ServerMessage::Block(BlockMessage { block: height, block_time: "t".into(), events })
    }

    fn ready(block: u64) -> ServerMessage {
        ServerMessage::Ready { block, block_time: "t".into(), block_interval_ms: 1000 }
    }

    fn subscribed(block: u64) -> ServerMessage {
        ServerMessage::Subscribed { block, block_time: "t".into() }
    }

    fn page(events: Vec<Event>) -> EventsPage {
        EventsPage { count: events.len(), events, after_block_height: 0, next_cursor: None }
    }

    fn delivered(effects: &[Effect]) -> Vec<(u64, u32)> {
        effects
            .iter()
            .flat_map(|effect| match effect {
                Effect::Deliver(events) => events.iter().map(|e| (e.block_height, e.payload.message_index)).collect(),
                _ => Vec::new(),
            })
            .collect()
    }

    fn reached(effects: &[Effect]) -> Option<u64> {
        effects.iter().rev().find_map(|effect| if let Effect::Reached(height) = effect { Some(*height) } else { None })
    }

    fn live(processed: Option<u64>, subscribed_at: u64) -> (Core, Vec<Effect>) {
        let mut core = Core::new(processed);
        core.connected();
        core.received(ready(subscribed_at));
        let effects = core.received(subscribed(subscribed_at));
        (core, effects)
    }

    #[test]
    fn the_first_connection_starts_at_its_promise() {
        let (mut core, _) = live(None, 8);
        assert_eq!((core.phase(), core.processed()), (Phase::Live, Some(7)));
        let effects = core.received(block(8, vec![event(8, 0)]));
        assert_eq!((delivered(&effects), reached(&effects)), (vec![(8, 0)], Some(8)));
    }

    #[test]
    fn a_reconnect_drains_and_then_applies_the_buffer_without_duplicates() {
        let (mut core, effects) = live(Some(4), 8);
        assert_eq!(effects, [Effect::Drain { after: 4, cursor: None }]);
        assert_eq!(delivered(&core.received(block(8, vec![event(8, 0)]))), [], "buffered");
        let effects = core.drained(page(vec![event(5, 0), event(8, 0)]), false);
        assert_eq!(delivered(&effects), [(5, 0), (8, 0)]);
        assert_eq!((core.phase(), reached(&effects)), (Phase::Live, Some(8)));
        assert_eq!(delivered(&core.received(block(9, vec![event(8, 0), event(9, 0)]))), [(9, 0)]);
    }

    #[test]
    fn full_pages_are_followed_from_inside_the_block_they_end_in() {
        let (mut core, _) = live(Some(4), 8);
        let effects = core.drained(page(vec![event(5, 0), event(6, 0)]), true);
        assert_eq!(effects.last(), Some(&Effect::Drain { after: 5, cursor: None }));
        let effects = core.drained(page(vec![event(6, 0), event(6, 1)]), false);
        assert_eq!(delivered(&effects), [(6, 1)]);
        assert_eq!(reached(&effects), Some(7));
    }

    #[test]
    fn a_lost_block_starts_a_drain_and_nothing_is_delivered_twice() {
        let (mut core, _) = live(None, 8);
        let effects = core.received(block(10, vec![event(10, 0)]));
        assert_eq!(effects[1], Effect::Drain { after: 7, cursor: None });
        let effects = core.drained(page(vec![event(8, 0), event(9, 0), event(10, 0)]), false);
        assert_eq!(delivered(&effects), [(8, 0), (9, 0), (10, 0)]);
        assert_eq!((reached(&effects), core.phase()), (Some(10), Phase::Live));
    }

    #[test]
    fn a_lower_height_is_taken_but_the_cursor_does_not_move_back() {
        let (mut core, _) = live(None, 8);
        core.received(block(8, vec![]));
        let effects = core.received(block(6, vec![event(6, 0)]));
        assert_eq!((delivered(&effects), reached(&effects)), (vec![(6, 0)], Some(8)));
    }

    #[test]
    fn silence_and_a_failed_drain_reconnect() {
        let (mut core, _) = live(Some(4), 8);
        assert!(matches!(core.silent()[..], [Effect::Reconnect(_)]));
        assert!(matches!(core.drain_failed()[..], [Effect::Reconnect(_)]));
        core.disconnected();
        assert_eq!(core.silent(), []);
        assert_eq!(core.processed(), Some(4), "nothing was delivered, nothing counts as processed");
    }
}
