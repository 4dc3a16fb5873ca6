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
    core.on_message(ready(subscribed_at), true);
    let effects = core.on_message(subscribed(subscribed_at), true);
    (core, effects)
}

#[test]
fn the_first_connection_starts_at_its_promise() {
    let (mut core, _) = live(None, 8);
    assert_eq!((core.phase(), core.processed_height()), (SubscriptionPhase::Live, Some(7)));
    let effects = core.on_message(block(8, vec![event(8, 0)]), true);
    assert_eq!((delivered(&effects), reached(&effects)), (vec![(8, 0)], Some(8)));
}

#[test]
fn a_reconnect_drains_and_then_applies_the_buffer_without_duplicates() {
    let (mut core, effects) = live(Some(4), 8);
    assert_eq!(effects, [SubscriptionEffect::ReadPage { after: 4, cursor: None }]);
    assert_eq!(delivered(&core.on_message(block(8, vec![event(8, 0)]), true)), [], "buffered");
    let effects = core.on_page(page(vec![event(5, 0), event(8, 0)]), false);
    assert_eq!(delivered(&effects), [(5, 0), (8, 0)]);
    assert_eq!((core.phase(), reached(&effects)), (SubscriptionPhase::Live, Some(8)));
    assert_eq!(delivered(&core.on_message(block(9, vec![event(8, 0), event(9, 0)]), true)), [(9, 0)]);
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
    let effects = core.on_message(block(10, vec![event(10, 0)]), true);
    assert_eq!(effects, [SubscriptionEffect::ReadPage { after: 7, cursor: None }]);
    let effects = core.on_page(page(vec![event(8, 0), event(9, 0), event(10, 0)]), false);
    assert_eq!(delivered(&effects), [(8, 0), (9, 0), (10, 0)]);
    assert_eq!((reached(&effects), core.phase()), (Some(10), SubscriptionPhase::Live));
}

#[test]
fn a_lower_height_is_taken_but_the_cursor_does_not_move_back() {
    let (mut core, _) = live(None, 8);
    core.on_message(block(8, vec![]), true);
    let effects = core.on_message(block(6, vec![event(6, 0)]), true);
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

#[test]
fn without_the_promise_the_height_is_read_before_it_counts() {
    for (processed, committed, read, expected) in [
        // The heights of `ready` and `subscribed` are ahead of the committed one.
        (None, 5, None, 5),
        (Some(3), 5, Some(3), 5),
        (Some(5), 5, Some(5), 5),
        // The indexer is behind an earlier one.
        (Some(6), 5, Some(6), 6),
    ] {
        let mut core = SubscriptionCore::new(processed);
        core.on_connected();
        assert_eq!(core.on_message(ready(8), false), []);
        assert_eq!(core.on_message(subscribed(8), false), [SubscriptionEffect::ReadHeight]);
        assert_eq!(core.on_silence(), [], "it is being read");
        let mut effects = core.on_height(committed);
        if let Some(after) = read {
            assert_eq!(effects, [SubscriptionEffect::ReadPage { after, cursor: None }]);
            effects = core.on_page(page(vec![]), false);
        }
        assert_eq!((reached(&effects), core.phase()), (Some(expected), SubscriptionPhase::Live), "{processed:?}");
        // A block between comes over the socket.
        let effects = core.on_message(block(expected + 1, vec![event(expected + 1, 0)]), false);
        assert_eq!((delivered(&effects), reached(&effects)), (vec![(expected + 1, 0)], Some(expected + 1)));
    }
    let (mut core, _) = live(None, 8);
    core.on_disconnected();
    core.on_connected();
    core.on_message(ready(8), false);
    core.on_message(subscribed(8), false);
    assert!(matches!(core.on_height_failure()[..], [SubscriptionEffect::Reconnect { .. }]));
}

#[test]
fn a_silence_is_followed_by_a_catch_up_where_blocks_were_lost() {
    let reconnect = SubscriptionEffect::Reconnect { reason: "the indexer has blocks that it did not send" };
    // Live, after `ready` alone, and before any message.
    for messages in [vec![ready(8), subscribed(8)], vec![ready(8)], vec![]] {
        let mut core = SubscriptionCore::new(Some(7));
        core.on_connected();
        for message in messages {
            core.on_message(message, true);
        }
        if matches!(core.phase(), SubscriptionPhase::CatchingUp { .. }) {
            assert_eq!(core.on_silence(), [], "pages are being read");
            core.on_page(page(vec![]), false);
        }
        assert_eq!(core.on_silence(), [SubscriptionEffect::ReadHeight]);
        assert_eq!((core.on_height(7), core.is_silent()), (vec![], true), "it has no newer block");
        assert_eq!(core.on_silence(), [SubscriptionEffect::ReadHeight]);
        assert_eq!(core.on_height(9), [SubscriptionEffect::ReadPage { after: 7, cursor: None }]);
        let effects = core.on_page(page(vec![event(9, 0)]), false);
        assert_eq!((delivered(&effects), reached(&effects)), (vec![(9, 0)], Some(9)));
        assert_eq!(effects.last(), Some(&reconnect));
    }
}

#[test]
fn a_message_ends_a_silence_and_its_question() {
    let (mut core, _) = live(None, 8);
    core.on_silence();
    assert_eq!((core.on_height(7), core.is_silent()), (vec![], true));
    assert_eq!(reached(&core.on_message(block(8, vec![]), true)), Some(8));
    assert!(!core.is_silent());
    // The block comes while its height is read.
    core.on_silence();
    core.on_message(block(9, vec![]), true);
    assert_eq!((core.on_height(9), core.is_silent(), core.phase()), (vec![], false, SubscriptionPhase::Live));
    assert_eq!(core.on_height_failure(), []);
    core.on_silence();
    assert!(matches!(core.on_height_failure()[..], [SubscriptionEffect::Reconnect { .. }]));
}
