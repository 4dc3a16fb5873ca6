//! Who gets what of a block. Pure.

use std::collections::{BTreeSet, HashMap, HashSet};

use svc_wire::event::BlockMessage;

use crate::store::Route;

/// What a subscriber wants to hear of; both parts must hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Filter {
    /// One of these DIDs; empty: any.
    pub dids: BTreeSet<String>,
    /// This corporation; `None`: any.
    pub corporation_id: Option<u64>,
}

impl Filter {
    fn admits(&self, routes: &BTreeSet<Route>) -> bool {
        let has_did = self.dids.is_empty() || self.dids.iter().any(|did| routes.contains(&Route::Did(did.clone())));
        let has_corporation = self.corporation_id.is_none_or(|id| routes.contains(&Route::Corporation(id)));
        has_did && has_corporation
    }

    /// Routes on which an event must come to be worth a look: the DIDs, or else the corporation.
    fn routes(&self) -> Vec<Route> {
        if self.dids.is_empty() {
            return self.corporation_id.map(Route::Corporation).into_iter().collect();
        }
        self.dids.iter().map(|did| Route::Did(did.clone())).collect()
    }
}

/// Connections that want the same.
#[derive(Debug)]
struct Group {
    filter: Filter,
    members: HashSet<u64>,
}

/// Subscriptions, grouped by filter and found by what the filters name. Telling a block costs what its events match, plus one
/// step a connection; it does not cost connections times events.
#[derive(Debug, Default)]
pub struct Subscriptions {
    next_group: u64,
    groups: HashMap<u64, Group>,
    by_filter: HashMap<Filter, u64>,
    by_route: HashMap<Route, HashSet<u64>>,
    of: HashMap<u64, u64>,
}

/// One text and who gets it.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub text: String,
    pub members: Vec<u64>,
}

impl Subscriptions {
    /// Sets or replaces a connection's filter.
    pub fn set(&mut self, connection: u64, filter: Filter) {
        self.remove(connection);
        let group = match self.by_filter.get(&filter) {
            Some(known) => *known,
            None => {
                self.next_group += 1;
                for route in filter.routes() {
                    self.by_route.entry(route).or_default().insert(self.next_group);
                }
                self.by_filter.insert(filter.clone(), self.next_group);
                self.groups.insert(self.next_group, Group { filter, members: HashSet::new() });
                self.next_group
            }
        };
        if let Some(group) = self.groups.get_mut(&group) {
            group.members.insert(connection);
        }
        self.of.insert(connection, group);
    }

    pub fn remove(&mut self, connection: u64) {
        let Some(id) = self.of.remove(&connection) else { return };
        let Some(group) = self.groups.get_mut(&id) else { return };
        group.members.remove(&connection);
        if !group.members.is_empty() {
            return;
        }
        if let Some(Group { filter, .. }) = self.groups.remove(&id) {
            for route in filter.routes() {
                if let Some(groups) = self.by_route.get_mut(&route) {
                    groups.remove(&id);
                    if groups.is_empty() {
                        self.by_route.remove(&route);
                    }
                }
            }
            self.by_filter.remove(&filter);
        }
    }

    /// Connections that are subscribed.
    pub fn len(&self) -> usize {
        self.of.len()
    }

    /// Distinct filters.
    pub fn filters(&self) -> usize {
        self.groups.len()
    }

    /// The text for everybody who is subscribed. Each event is written once, and each distinct answer is made once: those to
    /// whom nothing matches, nearly everybody, share one.
    pub fn answers(&self, block: &BlockMessage) -> Vec<Answer> {
        let mut matched: HashMap<u64, Vec<usize>> = HashMap::new();
        if let Some(everything) = self.by_filter.get(&Filter::default()) {
            matched.insert(*everything, (0..block.events.len()).collect());
        }
        for (index, event) in block.events.iter().enumerate() {
            let routes = Route::all_of(event);
            let candidates: HashSet<u64> =
                routes.iter().filter_map(|route| self.by_route.get(route)).flatten().copied().collect();
            for id in candidates {
                if self.groups.get(&id).is_some_and(|group| group.filter.admits(&routes)) {
                    matched.entry(id).or_default().push(index);
                }
            }
        }
        let written: Vec<String> =
            if matched.is_empty() { Vec::new() } else { block.events.iter().map(text).collect() };
        let mut by_choice: HashMap<&[usize], Vec<u64>> = HashMap::new();
        for (id, group) in &self.groups {
            let choice = matched.get(id).map_or(&[][..], Vec::as_slice);
            by_choice.entry(choice).or_default().extend(&group.members);
        }
        let answer = |(choice, members): (&[usize], Vec<u64>)| {
            let events: Vec<&str> = choice.iter().map(|index| written[*index].as_str()).collect();
            Answer { text: block_text(block, &events), members }
        };
        by_choice.into_iter().map(answer).collect()
    }
}

/// A block message around events that are written already.
fn block_text(block: &BlockMessage, events: &[&str]) -> String {
    let (height, time) = (block.block, text(&block.block_time));
    format!(r#"{{"type":"block","block":{height},"blockTime":{time},"events":[{}]}}"#, events.join(","))
}

/// A message as it travels.
pub fn text(message: &impl serde::Serialize) -> String {
    // Serialising these plain structs cannot fail; an empty object is ignored by clients.
    serde_json::to_string(message).unwrap_or_else(|_| "{}".to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use svc_wire::event::{Event, EventKind, Payload, ServerMessage};

    use super::*;

    fn event(dids: &[&str], corporations: &[u64]) -> Event {
        Event {
            kind: EventKind::IndexerEvent,
            event_type: "X".into(),
            did: dids.first().map(|did| (*did).to_owned()),
            block_height: 1,
            tx_hash: "AB".into(),
            timestamp: "t".into(),
            payload: Payload {
                related_dids: dids.iter().map(|did| (*did).to_owned()).collect(),
                corporation_id: corporations.first().copied(),
                related_corporation_ids: corporations.iter().skip(1).copied().collect(),
                ..Payload::default()
            },
        }
    }

    fn block(events: Vec<Event>) -> BlockMessage {
        BlockMessage { block: 1, block_time: "t\"".into(), events }
    }

    fn filter(dids: &[&str], corporation_id: Option<u64>) -> Filter {
        Filter { dids: dids.iter().map(|did| (*did).to_owned()).collect(), corporation_id }
    }

    /// What a subscription must answer, found by looking at everything.
    fn chosen<'a>(filter: &Filter, events: &'a [Event]) -> Vec<&'a Event> {
        events.iter().filter(|event| filter.admits(&Route::all_of(event))).collect()
    }

    /// Events each connection gets.
    fn told(subscriptions: &Subscriptions, block: &BlockMessage) -> HashMap<u64, Vec<Event>> {
        let mut told = HashMap::new();
        for answer in subscriptions.answers(block) {
            let message = serde_json::from_str(&answer.text).expect("JSON");
            let ServerMessage::Block(received) = message else { panic!("a block") };
            assert_eq!(
                answer.text,
                text(&ServerMessage::Block(received.clone())),
                "to the byte what serde would write"
            );
            for member in answer.members {
                assert!(told.insert(member, received.events.clone()).is_none(), "told once");
            }
        }
        told
    }

    #[test]
    fn filters_intersect_and_equal_answers_are_made_once() {
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
        let told = told(&subscriptions, &block);
        assert_eq!([1, 2, 3, 4, 5].map(|id| told[&id].len()), [2, 1, 0, 0, 2]);
        assert_eq!(subscriptions.answers(&block).len(), 3, "all, one, none");
    }

    #[test]
    fn a_subscription_that_is_replaced_or_ended_leaves_nothing_behind() {
        let mut subscriptions = Subscriptions::default();
        for _ in 0..3 {
            subscriptions.set(1, filter(&["did:web:a"], Some(1)));
            subscriptions.set(1, filter(&[], Some(2)));
        }
        assert_eq!((subscriptions.len(), subscriptions.filters(), subscriptions.by_route.len()), (1, 1, 1));
        subscriptions.remove(1);
        subscriptions.remove(1);
        assert_eq!((subscriptions.len(), subscriptions.filters(), subscriptions.by_route.len()), (0, 0, 0));
    }

    proptest! {
        /// Found by index is what would be found by looking at every filter and every event.
        #[test]
        fn the_index_finds_what_the_filters_admit(
            filters in prop::collection::vec((prop::collection::btree_set("[a-d]", 0..3), prop::option::of(1u64..4)), 0..12),
            events in prop::collection::vec((prop::collection::vec("[a-d]", 0..3), prop::collection::vec(1u64..4, 0..3)), 0..8),
        ) {
            let mut subscriptions = Subscriptions::default();
            let filters: Vec<Filter> =
                filters.into_iter().map(|(dids, corporation_id)| Filter { dids, corporation_id }).collect();
            for (id, filter) in (0u64..).zip(&filters) {
                subscriptions.set(id, filter.clone());
            }
            let events = events.iter().map(|(dids, corporations)| {
                event(&dids.iter().map(String::as_str).collect::<Vec<_>>(), corporations)
            });
            let block = block(events.collect());
            let told = told(&subscriptions, &block);
            for (id, filter) in (0u64..).zip(&filters) {
                let expected: Vec<Event> = chosen(filter, &block.events).into_iter().cloned().collect();
                prop_assert_eq!(&told[&id], &expected);
            }
        }
    }
}
