//! Who gets what of a block. Pure.

use std::{
    cell::OnceCell,
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use super::Topic;
use crate::store::Route;

/// What a subscriber wants to hear of; both the DIDs and the corporation must hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Filter<V = ()> {
    /// One of these DIDs; empty: any.
    pub dids: BTreeSet<String>,
    /// This corporation; `None`: any.
    pub corporation_id: Option<u64>,
    /// What of it is to be seen.
    pub view: V,
}

impl<V> Filter<V> {
    fn admits(&self, routes: &BTreeSet<Route>) -> bool {
        // An item has few routes, a filter may have thousands of DIDs.
        let is_of = |route: &Route| matches!(route, Route::Did(did) if self.dids.contains(did));
        let has_did = self.dids.is_empty() || routes.iter().any(is_of);
        let has_corporation = self.corporation_id.is_none_or(|id| routes.contains(&Route::Corporation(id)));
        has_did && has_corporation
    }

    /// Routes on which an item must come to be worth a look: the DIDs, or else the corporation; none means every item.
    fn routes(&self) -> Vec<Route> {
        if self.dids.is_empty() {
            return self.corporation_id.map(Route::Corporation).into_iter().collect();
        }
        self.dids.iter().map(|did| Route::Did(did.clone())).collect()
    }
}

/// DIDs that filters name, those of all together: some hundred bytes each.
const MOST_DIDS: usize = 1_000_000;

/// Connections that want the same.
struct Group<V> {
    filter: Arc<Filter<V>>,
    members: HashSet<u64>,
}

/// Subscriptions, grouped by filter and found by what the filters name. Telling a block costs what its items match, plus one
/// step a connection; it does not cost connections times items.
pub struct Subscriptions<T: Topic> {
    next_group: u64,
    groups: HashMap<u64, Group<T::View>>,
    by_filter: HashMap<Arc<Filter<T::View>>, u64>,
    by_route: HashMap<Route, HashSet<u64>>,
    /// Groups whose filters name no route.
    everything: HashSet<u64>,
    of: HashMap<u64, u64>,
    /// DIDs of all filters.
    dids: usize,
}

impl<T: Topic> Default for Subscriptions<T> {
    fn default() -> Self {
        Self {
            next_group: 0,
            groups: HashMap::new(),
            by_filter: HashMap::new(),
            by_route: HashMap::new(),
            everything: HashSet::new(),
            of: HashMap::new(),
            dids: 0,
        }
    }
}

/// What is seen of a block: items by their place, written for a view.
#[derive(PartialEq, Eq, Hash)]
struct Choice<'a, V> {
    view: Option<&'a V>,
    items: &'a [usize],
}

/// One text and who gets it.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub text: String,
    pub members: Vec<u64>,
}

impl<T: Topic> Subscriptions<T> {
    /// Sets or replaces a connection's filter. False when there is no room for its DIDs; then the connection has none.
    pub fn set(&mut self, connection: u64, filter: Filter<T::View>) -> bool {
        self.remove(connection);
        let id = match self.by_filter.get(&filter) {
            Some(known) => *known,
            None if self.dids + filter.dids.len() > MOST_DIDS => return false,
            None => self.add(filter),
        };
        if let Some(group) = self.groups.get_mut(&id) {
            group.members.insert(connection);
        }
        self.of.insert(connection, id);
        true
    }

    fn add(&mut self, filter: Filter<T::View>) -> u64 {
        self.next_group += 1;
        let (id, filter) = (self.next_group, Arc::new(filter));
        self.dids += filter.dids.len();
        let routes = filter.routes();
        if routes.is_empty() {
            self.everything.insert(id);
        }
        for route in routes {
            self.by_route.entry(route).or_default().insert(id);
        }
        self.by_filter.insert(Arc::clone(&filter), id);
        self.groups.insert(id, Group { filter, members: HashSet::new() });
        id
    }

    pub fn remove(&mut self, connection: u64) {
        let Some(id) = self.of.remove(&connection) else { return };
        let Some(group) = self.groups.get_mut(&id) else { return };
        group.members.remove(&connection);
        if !group.members.is_empty() {
            return;
        }
        self.everything.remove(&id);
        if let Some(Group { filter, .. }) = self.groups.remove(&id) {
            self.dids -= filter.dids.len();
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

    /// Items each group's filter admits, by their place in the block; none of a group is no entry.
    fn matches(&self, items: &[T::Item]) -> HashMap<u64, Vec<usize>> {
        let mut matched: HashMap<u64, Vec<usize>> =
            self.everything.iter().map(|id| (*id, (0..items.len()).collect())).collect();
        for (index, item) in items.iter().enumerate() {
            let routes = T::routes(item);
            let candidates: HashSet<u64> =
                routes.iter().filter_map(|route| self.by_route.get(route)).flatten().copied().collect();
            for id in candidates {
                if self.groups.get(&id).is_some_and(|group| group.filter.admits(&routes)) {
                    matched.entry(id).or_default().push(index);
                }
            }
        }
        matched
    }

    /// The text for everybody who is subscribed. Each item is written once a view, and each distinct answer is made once:
    /// those to whom nothing matches, nearly everybody, share one.
    pub fn answers(&self, block: &T::Block) -> Vec<Answer> {
        let items = T::items(block);
        let mut matched = self.matches(items);
        let mut written: HashMap<&T::View, Vec<OnceCell<Option<String>>>> = HashMap::new();
        for (id, choice) in &mut matched {
            let Some(Group { filter, .. }) = self.groups.get(id) else { continue };
            let (view, texts) =
                (&filter.view, written.entry(&filter.view).or_insert_with(|| vec![OnceCell::new(); items.len()]));
            choice.retain(|index| texts[*index].get_or_init(|| T::write(&items[*index], view)).is_some());
        }
        let mut by_choice: HashMap<Choice<'_, T::View>, Vec<u64>> = HashMap::new();
        for (id, group) in &self.groups {
            let items = matched.get(id).map_or(&[][..], Vec::as_slice);
            // Who sees nothing sees it the same in every view.
            let view = (!items.is_empty()).then_some(&group.filter.view);
            by_choice.entry(Choice { view, items }).or_default().extend(&group.members);
        }
        let answer = |(choice, members): (Choice<'_, T::View>, Vec<u64>)| {
            let texts = choice.view.and_then(|view| written.get(view)).map_or(&[][..], Vec::as_slice);
            let chosen = choice.items.iter().filter_map(|index| texts[*index].get()?.as_deref());
            Answer { text: block_text::<T>(block, &chosen.collect::<Vec<_>>()), members }
        };
        by_choice.into_iter().map(answer).collect()
    }
}

/// A block message around items that are written already.
fn block_text<T: Topic>(block: &T::Block, items: &[&str]) -> String {
    let (height, time, name) = (T::height(block), text(&T::time(block)), T::ITEMS);
    format!(r#"{{"type":"block","block":{height},"blockTime":{time},"{name}":[{}]}}"#, items.join(","))
}

/// A message as it travels.
pub fn text(message: &impl serde::Serialize) -> String {
    // Serialising these plain structs cannot fail; an empty object is ignored by clients.
    serde_json::to_string(message).unwrap_or_else(|_| "{}".to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use svc_wire::event::{BlockMessage, Event, EventKind, Payload, ServerMessage};

    use super::{super::BlockTopic, *};

    type Subscriptions = super::Subscriptions<BlockTopic>;

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
        Filter { dids: dids.iter().map(|did| (*did).to_owned()).collect(), corporation_id, view: () }
    }

    /// What a subscription must answer, found by looking at everything.
    fn chosen<'a>(filter: &Filter, events: &'a [Event]) -> Vec<&'a Event> {
        events.iter().filter(|event| filter.admits(&Route::all_of(event))).collect()
    }

    /// Events each connection gets.
    fn told(subscriptions: &Subscriptions, block: &BlockMessage) -> HashMap<u64, Vec<Event>> {
        let mut told = HashMap::new();
        for answer in subscriptions.answers(block) {
            let message: ServerMessage = serde_json::from_str(&answer.text).expect("JSON");
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
            subscriptions.set(1, filter(&[], None));
            subscriptions.set(1, filter(&[], Some(2)));
        }
        assert_eq!((subscriptions.len(), subscriptions.filters(), subscriptions.by_route.len()), (1, 1, 1));
        assert!(subscriptions.everything.is_empty());
        subscriptions.remove(1);
        subscriptions.remove(1);
        assert_eq!((subscriptions.len(), subscriptions.filters(), subscriptions.by_route.len()), (0, 0, 0));
        assert_eq!(subscriptions.dids, 0);
    }

    #[test]
    fn there_is_room_for_so_many_dids_and_no_more() {
        let mut subscriptions = Subscriptions::default();
        let many = |of: u64| Filter {
            dids: (0..MOST_DIDS / 2).map(|index| format!("{of}.{index}")).collect(),
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
        /// Found by index is what would be found by looking at every filter and every event.
        #[test]
        fn the_index_finds_what_the_filters_admit(
            filters in prop::collection::vec((prop::collection::btree_set("[a-d]", 0..3), prop::option::of(1u64..4)), 0..12),
            events in prop::collection::vec((prop::collection::vec("[a-d]", 0..3), prop::collection::vec(1u64..4, 0..3)), 0..8),
        ) {
            let mut subscriptions = Subscriptions::default();
            let filters: Vec<Filter> =
                filters.into_iter().map(|(dids, corporation_id)| Filter { dids, corporation_id, view: () }).collect();
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
