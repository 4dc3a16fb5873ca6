//! The subscription's decisions, message by message.

use super::*;
use crate::event_stream::{EventPayload, IndexerEventTag};

fn event(height: u64, index: u32) -> IndexerEvent {
    IndexerEvent {
        type_tag: IndexerEventTag::IndexerEvent,
        event_type: "X".into(),
        did: None,
        block_height: height,
        tx_hash: format!("{height}"),
        timestamp: "t".into(),
        payload: EventPayload { message_index: index, ..EventPayload::default() },
    }
}

fn block(height: u64, events: Vec<IndexerEvent>) -> StreamMessage {
    StreamMessage::Block(BlockMessage { block: height, block_time: "t".into(), events })
}

fn ready(block: u64) -> StreamMessage {
    StreamMessage::Ready { block, block_time: "t".into(), block_interval_ms: 1000 }
}

fn subscribed(block: u64) -> StreamMessage {
    StreamMessage::Subscribed { block, block_time: "t".into() }
}

fn page(events: Vec<IndexerEvent>) -> EventsPage {
    EventsPage { count: events.len(), events, after_block_height: 0, oldest_block_height: None, next_cursor: None }
}

fn delivered(effects: &[SubscriptionEffect]) -> Vec<(u64, u32)> {
    effects
        .iter()
        .flat_map(|effect| match effect {
            SubscriptionEffect::Deliver { events } => {
                events.iter().map(|e| (e.block_height, e.payload.message_index)).collect()
            }
            _ => Vec::new(),
        })
        .collect()
}

fn reached(effects: &[SubscriptionEffect]) -> Option<u64> {
    effects
        .iter()
        .rev()
        .find_map(|effect| if let SubscriptionEffect::PublishHeight { height } = effect { Some(*height) } else { None })
}

fn live(processed: Option<u64>, subscribed_at: u64) -> (SubscriptionCore, Vec<SubscriptionEffect>) {
    let mut core = SubscriptionCore::new(processed);
    core.on_connected();
    core.on_message(ready(subscribed_at));
    let effects = core.on_message(subscribed(subscribed_at));
    (core, effects)
}

#[test]
fn the_first_connection_starts_at_its_promise() {
    let (mut core, _) = live(None, 8);
    assert_eq!((core.phase(), core.processed_height()), (SubscriptionPhase::Live, Some(7)));
    let effects = core.on_message(block(8, vec![event(8, 0)]));
    assert_eq!((delivered(&effects), reached(&effects)), (vec![(8, 0)], Some(8)));
}

#[test]
fn a_reconnect_drains_and_then_applies_the_buffer_without_duplicates() {
    let (mut core, effects) = live(Some(4), 8);
    assert_eq!(effects, [SubscriptionEffect::ReadPage { after: 4, cursor: None }]);
    assert_eq!(delivered(&core.on_message(block(8, vec![event(8, 0)]))), [], "buffered");
    let effects = core.on_page(page(vec![event(5, 0), event(8, 0)]), false);
    assert_eq!(delivered(&effects), [(5, 0), (8, 0)]);
    assert_eq!((core.phase(), reached(&effects)), (SubscriptionPhase::Live, Some(8)));
    assert_eq!(delivered(&core.on_message(block(9, vec![event(8, 0), event(9, 0)]))), [(9, 0)]);
}

#[test]
fn full_pages_are_followed_from_inside_the_block_they_end_in() {
    let (mut core, _) = live(Some(4), 8);
    let effects = core.on_page(page(vec![event(5, 0), event(6, 0)]), true);
    assert_eq!(effects.last(), Some(&SubscriptionEffect::ReadPage { after: 5, cursor: None }));
    let effects = core.on_page(page(vec![event(6, 0), event(6, 1)]), false);
    assert_eq!(delivered(&effects), [(6, 1)]);
    assert_eq!(reached(&effects), Some(7));
}

#[test]
fn a_lost_block_starts_a_drain_and_nothing_is_delivered_twice() {
    let (mut core, _) = live(None, 8);
    let effects = core.on_message(block(10, vec![event(10, 0)]));
    assert_eq!(effects, [SubscriptionEffect::ReadPage { after: 7, cursor: None }]);
    let effects = core.on_page(page(vec![event(8, 0), event(9, 0), event(10, 0)]), false);
    assert_eq!(delivered(&effects), [(8, 0), (9, 0), (10, 0)]);
    assert_eq!((reached(&effects), core.phase()), (Some(10), SubscriptionPhase::Live));
}

#[test]
fn a_lower_height_is_taken_but_the_cursor_does_not_move_back() {
    let (mut core, _) = live(None, 8);
    core.on_message(block(8, vec![]));
    let effects = core.on_message(block(6, vec![event(6, 0)]));
    assert_eq!((delivered(&effects), reached(&effects)), (vec![(6, 0)], Some(8)));
}

#[test]
fn a_failed_drain_reconnects() {
    let (mut core, _) = live(Some(4), 8);
    assert!(matches!(core.on_page_failure()[..], [SubscriptionEffect::Reconnect { .. }]));
    core.on_disconnected();
    assert_eq!(core.processed_height(), Some(4), "nothing was delivered, nothing counts as processed");
}

#[test]
fn pages_inside_one_block_never_repeat() {
    let read =
        |after: u64, cursor: Option<&str>| SubscriptionEffect::ReadPage { after, cursor: cursor.map(str::to_owned) };
    // An indexer without cursors cannot give the rest of a block that fills a page: it is named, and the next block follows.
    let (mut core, _) = live(Some(4), 8);
    let effects = core.on_page(page(vec![event(5, 0), event(6, 0)]), true);
    assert_eq!(effects.last(), Some(&read(5, None)));
    let lost = |effects: &[SubscriptionEffect]| {
        let lost = |effect: &SubscriptionEffect| matches!(effect, SubscriptionEffect::LoseEvents { height: 6 });
        effects.iter().filter(|effect| lost(effect)).count()
    };
    assert_eq!(lost(&effects), 0);
    let effects = core.on_page(page(vec![event(6, 0), event(6, 1)]), true);
    assert_eq!((delivered(&effects), effects.last()), (vec![(6, 1)], Some(&read(6, None))));
    assert_eq!(lost(&effects), 1);
    let effects = core.on_page(page(vec![event(7, 0)]), false);
    assert_eq!((delivered(&effects), core.phase()), (vec![(7, 0)], SubscriptionPhase::Live));
    // With cursors a block of any size is read to its end.
    let (mut core, _) = live(Some(4), 8);
    let with_cursor = |cursor: &str, events| EventsPage { next_cursor: Some(cursor.to_owned()), ..page(events) };
    let effects = core.on_page(with_cursor("5.1", vec![event(5, 0), event(5, 1)]), true);
    assert_eq!(effects.last(), Some(&read(4, Some("5.1"))));
    let effects = core.on_page(with_cursor("5.3", vec![event(5, 2), event(5, 3)]), true);
    assert_eq!(effects.last(), Some(&read(4, Some("5.3"))));
    // A cursor that leads back would never end.
    let effects = core.on_page(with_cursor("5.3", vec![event(5, 2), event(5, 3)]), true);
    assert!(matches!(effects[..], [SubscriptionEffect::Reconnect { .. }]), "{effects:?}");
}

#[test]
fn blocks_that_an_indexer_does_not_have_are_named_and_its_oldest_block_is_next() {
    let missed = |first, last| SubscriptionEffect::MissBlocks { first, last };
    let read = |after| SubscriptionEffect::ReadPage { after, cursor: None };
    let (mut core, _) = live(Some(4), 20);
    assert_eq!(core.on_page_not_indexed(10), [missed(5, 9), read(9)]);
    let effects = core.on_page(page(vec![event(10, 0)]), false);
    assert_eq!((delivered(&effects), core.phase()), (vec![(10, 0)], SubscriptionPhase::Live));
    // An indexer that refuses a block it has would be asked for ever.
    for oldest in [0, 1, 5] {
        let (mut core, _) = live(Some(4), 20);
        assert!(matches!(core.on_page_not_indexed(oldest)[..], [SubscriptionEffect::Reconnect { .. }]), "{oldest}");
    }
    // The start of all events stands for the oldest block.
    for (processed, oldest, expected) in [(0, 10, Some(missed(1, 9))), (0, 1, None), (9, 10, None)] {
        let (mut core, _) = live(Some(processed), 20);
        let late = EventsPage { oldest_block_height: Some(oldest), ..page(vec![event(10, 0)]) };
        let effects = core.on_page(late, false);
        assert_eq!(
            effects.iter().find(|effect| matches!(effect, SubscriptionEffect::MissBlocks { .. })),
            expected.as_ref()
        );
        assert_eq!(delivered(&effects), [(10, 0)]);
    }
}
