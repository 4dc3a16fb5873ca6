//! Tests of the events that are not stored yet, then of the actor with an indexer over a real socket.

use svc_agent_store::EVERY_EVENT;
use svc_wire::event_stream::{EventPayload, IndexerEvent, IndexerEventTag};

use super::core::{CompleteBlock, EventCollector};

fn event(height: u64, message_index: u32) -> IndexerEvent {
    IndexerEvent {
        type_tag: IndexerEventTag::IndexerEvent,
        event_type: "X".to_owned(),
        did: None,
        block_height: height,
        tx_hash: format!("{height}"),
        timestamp: "t".to_owned(),
        payload: EventPayload { message_index, ..EventPayload::default() },
    }
}

fn id(event: &IndexerEvent) -> String {
    format!("{}.{}", event.block_height, event.payload.message_index)
}

/// Stores everything that can be stored, and returns it.
fn store_all(collector: &mut EventCollector) -> Vec<(u64, Vec<u32>)> {
    let blocks = collector.next_blocks();
    collector.stored(&blocks, id);
    let indexes = |block: &CompleteBlock| block.events.iter().map(|event| event.payload.message_index).collect();
    blocks.iter().map(|block| (block.height, indexes(block))).collect()
}

#[test]
fn blocks_are_stored_whole_also_when_a_page_ends_inside_of_one() {
    let mut collector = EventCollector::new(Some(3), []);
    collector.take(vec![event(4, 0), event(6, 0), event(6, 1)], id);
    assert_eq!(store_all(&mut collector), [(4, vec![0]), (5, vec![])]);
    collector.take(vec![event(6, 2), event(8, 0)], id);
    assert_eq!(store_all(&mut collector), [(6, vec![0, 1, 2]), (7, vec![])]);
    assert_eq!(store_all(&mut collector), []);
    collector.complete(9);
    assert_eq!(store_all(&mut collector), [(8, vec![0]), (9, vec![])]);
    assert_eq!((collector.cursor(), collector.skipped()), (Some(9), 0));
}

#[test]
fn repeated_and_lower_heights_are_skipped_and_further_events_of_the_newest_block_are_not() {
    let mut collector = EventCollector::new(Some(5), ["5.0".to_owned()]);
    collector.take(vec![event(4, 0), event(5, 0), event(5, 1)], id);
    collector.complete(5);
    assert_eq!(store_all(&mut collector), [(5, vec![1])]);
    collector.take(vec![event(5, 0), event(5, 1), event(6, 0), event(6, 0)], id);
    collector.complete(6);
    assert_eq!(store_all(&mut collector), [(6, vec![0])]);
    assert_eq!((collector.cursor(), collector.skipped()), (Some(6), 5));
    // A second message of the same block brings the rest of it.
    collector.take(vec![event(6, 0), event(6, 1)], id);
    assert_eq!(store_all(&mut collector), [(6, vec![1])]);
    assert_eq!(store_all(&mut collector), []);
}

#[test]
fn after_a_rebase_no_event_of_the_block_at_the_cursor_is_stored_once_more() {
    let mut collector = EventCollector::new(Some(5), [EVERY_EVENT.to_owned()]);
    collector.take(vec![event(5, 0), event(5, 1), event(6, 0)], id);
    collector.complete(6);
    assert_eq!(store_all(&mut collector), [(6, vec![0])]);
    // The next block has its own ids again.
    collector.take(vec![event(6, 0), event(6, 1)], id);
    assert_eq!(store_all(&mut collector), [(6, vec![1])]);
}

#[test]
fn a_failure_of_the_store_loses_nothing() {
    let mut collector = EventCollector::new(None, []);
    collector.take(vec![event(1, 0)], id);
    collector.complete(1);
    let first = collector.next_blocks();
    assert_eq!(collector.next_blocks(), first, "the same until they are stored");
    // The page is read again after a disconnection.
    collector.take(vec![event(2, 0), event(3, 0)], id);
    collector.take(vec![event(2, 0), event(3, 0), event(3, 1)], id);
    assert_eq!(store_all(&mut collector), [(1, vec![0]), (2, vec![0])]);
    collector.complete(3);
    assert_eq!(store_all(&mut collector), [(3, vec![0, 1])]);
}

#[test]
fn events_of_a_block_are_in_the_order_of_their_messages() {
    let mut collector = EventCollector::new(Some(1), []);
    collector.take(vec![event(2, 3), event(2, 1), event(2, 2)], id);
    collector.complete(2);
    assert_eq!(store_all(&mut collector), [(2, vec![1, 2, 3])]);
}
