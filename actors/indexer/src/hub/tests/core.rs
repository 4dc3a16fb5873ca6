//! Tests of the hub's decisions.

use std::collections::HashMap;

use proptest::prelude::*;
use svc_wire::event_stream::{BlockMessage, EventPayload, IndexerEvent, IndexerEventTag, StreamMessage};

use crate::{
    hub::{
        BlockTopic, SubscriptionFilter,
        core::{BlockSequence, MAX_FILTER_DIDS, MAX_PENDING_BLOCKS, MissingBlocks, SubscriptionIndex},
        message_json::encode_message,
    },
    store::EventRoute,
};

type Subscriptions = SubscriptionIndex<BlockTopic>;

fn event(dids: &[&str], corporations: &[u64]) -> IndexerEvent {
    IndexerEvent {
        type_tag: IndexerEventTag::IndexerEvent,
        event_type: "X".into(),
        did: dids.first().map(|did| (*did).to_owned()),
        block_height: 1,
        tx_hash: "AB".into(),
        timestamp: "t".into(),
        payload: EventPayload {
            related_dids: dids.iter().map(|did| (*did).to_owned()).collect(),
            corporation_id: corporations.first().copied(),
            related_corporation_ids: corporations.iter().skip(1).copied().collect(),
            ..EventPayload::default()
        },
    }
}

fn block(events: Vec<IndexerEvent>) -> BlockMessage {
    BlockMessage { block: 1, block_time: "t\"".into(), events }
}

fn filter(dids: &[&str], corporation_id: Option<u64>) -> SubscriptionFilter {
    SubscriptionFilter { dids: dids.iter().map(|did| (*did).to_owned()).collect(), corporation_id, view: () }
}

/// Returns the events that a filter matches, without the index.
fn matching_events<'a>(filter: &SubscriptionFilter, events: &'a [IndexerEvent]) -> Vec<&'a IndexerEvent> {
    events.iter().filter(|event| filter.is_match(&EventRoute::list_for_event(event))).collect()
}

/// Returns the events of each connection.
fn deliveries(subscriptions: &Subscriptions, block: &BlockMessage) -> HashMap<u64, Vec<IndexerEvent>> {
    let mut received = HashMap::new();
    for delivery in subscriptions.encode_deliveries(block) {
        let message: StreamMessage = serde_json::from_str(&delivery.text).expect("JSON");
        let StreamMessage::Block(block) = message else { panic!("a block") };
        assert_eq!(
            delivery.text,
            encode_message(&StreamMessage::Block(block.clone())),
            "byte for byte as serde encodes it"
        );
        for connection in delivery.connections {
            assert!(received.insert(connection, block.events.clone()).is_none(), "delivered once");
        }
    }
    received
}

#[test]
fn filters_intersect_and_equal_messages_are_encoded_once() {
    let mut subscriptions = Subscriptions::default();
    for (id, filter) in [
        (1, filter(&[], None)),
        (2, filter(&["did:web:a"], None)),
        (3, filter(&["did:web:a"], Some(2))),
        (4, filter(&[], Some(9))),
        (5, filter(&["did:web:a", "did:web:b"], None)),
    ] {
        subscriptions.set(id, filter);
    }
    let block = block(vec![event(&["did:web:a"], &[1]), event(&["did:web:b"], &[2])]);
    let received = deliveries(&subscriptions, &block);
    assert_eq!([1, 2, 3, 4, 5].map(|id| received[&id].len()), [2, 1, 0, 0, 2]);
    assert_eq!(subscriptions.encode_deliveries(&block).len(), 3, "all events, one event, none");
}

#[test]
fn a_removed_subscription_leaves_no_entry_in_the_index() {
    let mut subscriptions = Subscriptions::default();
    for _ in 0..3 {
        subscriptions.set(1, filter(&["did:web:a"], Some(1)));
        subscriptions.set(1, filter(&[], None));
        subscriptions.set(1, filter(&[], Some(2)));
    }
    assert_eq!((subscriptions.len(), subscriptions.filter_count(), subscriptions.groups_by_route.len()), (1, 1, 1));
    assert!(subscriptions.unrouted_groups.is_empty());
    subscriptions.remove(1);
    subscriptions.remove(1);
    assert_eq!((subscriptions.len(), subscriptions.filter_count(), subscriptions.groups_by_route.len()), (0, 0, 0));
    assert_eq!(subscriptions.did_count, 0);
}

#[test]
fn the_dids_of_all_filters_are_bounded() {
    let mut subscriptions = Subscriptions::default();
    let many = |of: u64| SubscriptionFilter {
        dids: (0..MAX_FILTER_DIDS / 2).map(|index| format!("{of}.{index}")).collect(),
        corporation_id: None,
        view: (),
    };
    assert!(subscriptions.set(1, many(1)) && subscriptions.set(2, many(2)) && subscriptions.set(3, many(2)));
    assert!(!subscriptions.set(3, filter(&["did:web:a"], None)));
    assert_eq!(subscriptions.len(), 2);
    subscriptions.remove(1);
    assert!(subscriptions.set(3, filter(&["did:web:a"], None)));
}

proptest! {
    /// The index returns the events that each filter matches.
    #[test]
    fn the_index_finds_the_events_that_filters_match(
        filters in prop::collection::vec((prop::collection::btree_set("[a-d]", 0..3), prop::option::of(1u64..4)), 0..12),
        events in prop::collection::vec((prop::collection::vec("[a-d]", 0..3), prop::collection::vec(1u64..4, 0..3)), 0..8),
    ) {
        let mut subscriptions = Subscriptions::default();
        let filters: Vec<SubscriptionFilter> =
            filters.into_iter().map(|(dids, corporation_id)| SubscriptionFilter { dids, corporation_id, view: () }).collect();
        for (id, filter) in (0u64..).zip(&filters) {
            subscriptions.set(id, filter.clone());
        }
        let events = events.iter().map(|(dids, corporations)| {
            event(&dids.iter().map(String::as_str).collect::<Vec<_>>(), corporations)
        });
        let block = block(events.collect());
        let received = deliveries(&subscriptions, &block);
        for (id, filter) in (0u64..).zip(&filters) {
            let expected: Vec<IndexerEvent> = matching_events(filter, &block.events).into_iter().cloned().collect();
            prop_assert_eq!(&received[&id], &expected);
        }
    }
}

#[test]
fn blocks_leave_the_sequence_in_order_and_missing_ones_are_loaded_once() {
    let mut blocks = BlockSequence::new(5);
    assert_eq!((blocks.pop_next(), blocks.begin_load()), (None, None));
    blocks.insert(5, "published");
    blocks.insert(8, "eight");
    assert_eq!(blocks.pop_next(), None);
    assert_eq!(blocks.begin_load(), Some(MissingBlocks { first: 6, last: 7 }));
    assert_eq!(blocks.begin_load(), None, "a load runs");
    assert!(!blocks.finish_load(&[(7, "seven")]), "the next block is missing");
    assert_eq!(blocks.begin_load(), Some(MissingBlocks { first: 6, last: 7 }));
    assert!(blocks.finish_load(&[(6, "six"), (7, "seven")]));
    let published: Vec<_> = std::iter::from_fn(|| blocks.pop_next()).collect();
    assert_eq!((published, blocks.height()), (vec!["six", "seven", "eight"], 8));
    assert_eq!(blocks.begin_load(), None);
}

#[test]
fn a_sequence_bounds_its_waiting_blocks_and_its_loads() {
    let mut blocks = BlockSequence::new(0);
    for height in 2..=200 {
        blocks.insert(height, height);
    }
    assert_eq!(blocks.begin_load(), Some(MissingBlocks { first: 1, last: 1 }));
    assert!(blocks.finish_load(&[(1, 1)]));
    while blocks.pop_next().is_some() {}
    let first = MAX_PENDING_BLOCKS + 2;
    assert_eq!(blocks.begin_load(), Some(MissingBlocks { first, last: first + MAX_PENDING_BLOCKS - 1 }));
}
