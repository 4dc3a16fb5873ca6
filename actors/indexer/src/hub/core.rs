//! The decisions of a hub: the order of blocks, and the deliveries of a block to subscriptions. Pure.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use super::{filter::SubscriptionFilter, message_json::encode_message, topics::HubTopic};
use crate::store::EventRoute;

/// The blocks of a stream in order: the ones that wait, and the ones that are missing.
#[derive(Debug)]
pub struct BlockSequence<B> {
    /// Height of the last published block.
    height: u64,
    /// Newest height that the hub knows of.
    tip: u64,
    /// Blocks after one that is still missing.
    pending: BTreeMap<u64, B>,
    is_loading: bool,
}

/// The heights of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingBlocks {
    pub first: u64,
    pub last: u64,
}

/// Blocks of one load, and blocks that may wait for a missing one.
pub(super) const MAX_PENDING_BLOCKS: u64 = 64;

impl<B: Clone> BlockSequence<B> {
    /// Continues after the block `height`.
    pub fn new(height: u64) -> Self {
        Self { height, tip: 0, pending: BTreeMap::new(), is_loading: false }
    }

    /// Height of the last published block.
    pub fn height(&self) -> u64 {
        self.height
    }

    /// Adds a block. One that is already published is ignored; the newest is dropped when too many wait.
    pub fn insert(&mut self, height: u64, block: B) {
        self.tip = self.tip.max(height);
        if height > self.height {
            self.pending.insert(height, block);
            while self.pending.len() as u64 > MAX_PENDING_BLOCKS {
                self.pending.pop_last();
            }
        }
    }

    /// Takes the next block in order, to publish it.
    pub fn pop_next(&mut self) -> Option<B> {
        let block = self.pending.remove(&(self.height + 1))?;
        self.height += 1;
        Some(block)
    }

    /// Returns the missing blocks to load. `None` when no block is missing or a load runs.
    pub fn begin_load(&mut self) -> Option<MissingBlocks> {
        let height = self.height;
        self.pending.retain(|waiting, _| *waiting > height);
        // With no waiting block, the missing ones are those that were dropped.
        let last = self.pending.keys().next().map_or(self.tip, |first| first - 1).min(height + MAX_PENDING_BLOCKS);
        if self.is_loading || last <= height {
            return None;
        }
        self.is_loading = true;
        Some(MissingBlocks { first: height + 1, last })
    }

    /// Adds the blocks of a load that ended. False when the next block is not among them.
    pub fn finish_load(&mut self, blocks: &[(u64, B)]) -> bool {
        self.is_loading = false;
        let has_next = blocks.iter().any(|(height, _)| *height == self.height + 1);
        if has_next {
            self.pending.extend(blocks.iter().cloned());
        }
        has_next
    }
}

/// Most DIDs of all filters together; each takes about a hundred bytes.
pub(super) const MAX_FILTER_DIDS: usize = 1_000_000;

/// Connections with the same filter.
struct FilterGroup<V> {
    filter: Arc<SubscriptionFilter<V>>,
    connections: HashSet<u64>,
}

/// Subscriptions, grouped by filter and indexed by the routes of the filters. The cost of a block is the number of its
/// matches plus the number of connections, not their product with the number of items.
pub struct SubscriptionIndex<T: HubTopic> {
    next_group: u64,
    groups: HashMap<u64, FilterGroup<T::TopicView>>,
    group_by_filter: HashMap<Arc<SubscriptionFilter<T::TopicView>>, u64>,
    pub(super) groups_by_route: HashMap<EventRoute, HashSet<u64>>,
    /// Groups with a filter without routes.
    pub(super) unrouted_groups: HashSet<u64>,
    group_by_connection: HashMap<u64, u64>,
    /// DIDs of all filters.
    pub(super) did_count: usize,
}

impl<T: HubTopic> Default for SubscriptionIndex<T> {
    fn default() -> Self {
        Self {
            next_group: 0,
            groups: HashMap::new(),
            group_by_filter: HashMap::new(),
            groups_by_route: HashMap::new(),
            unrouted_groups: HashSet::new(),
            group_by_connection: HashMap::new(),
            did_count: 0,
        }
    }
}

/// The items of a block for one delivery: their indices, and the view in which they are encoded.
#[derive(PartialEq, Eq, Hash)]
struct ItemSelection<'a, V> {
    view: Option<&'a V>,
    items: &'a [usize],
}

/// A block message, and the connections that receive it.
#[derive(Debug, PartialEq, Eq)]
pub struct BlockDelivery {
    pub text: String,
    pub connections: Vec<u64>,
}

impl<T: HubTopic> SubscriptionIndex<T> {
    /// Sets or replaces the filter of a connection. False when all filters together would have too many DIDs; the
    /// connection then has no filter.
    pub fn set(&mut self, connection: u64, filter: SubscriptionFilter<T::TopicView>) -> bool {
        self.remove(connection);
        let id = match self.group_by_filter.get(&filter) {
            Some(known) => *known,
            None if self.did_count + filter.dids.len() > MAX_FILTER_DIDS => return false,
            None => self.add_group(filter),
        };
        if let Some(group) = self.groups.get_mut(&id) {
            group.connections.insert(connection);
        }
        self.group_by_connection.insert(connection, id);
        true
    }

    fn add_group(&mut self, filter: SubscriptionFilter<T::TopicView>) -> u64 {
        self.next_group += 1;
        let (id, filter) = (self.next_group, Arc::new(filter));
        self.did_count += filter.dids.len();
        let routes = filter.routes();
        if routes.is_empty() {
            self.unrouted_groups.insert(id);
        }
        for route in routes {
            self.groups_by_route.entry(route).or_default().insert(id);
        }
        self.group_by_filter.insert(Arc::clone(&filter), id);
        self.groups.insert(id, FilterGroup { filter, connections: HashSet::new() });
        id
    }

    /// Removes the filter of a connection.
    pub fn remove(&mut self, connection: u64) {
        let Some(id) = self.group_by_connection.remove(&connection) else { return };
        let Some(group) = self.groups.get_mut(&id) else { return };
        group.connections.remove(&connection);
        if !group.connections.is_empty() {
            return;
        }
        self.unrouted_groups.remove(&id);
        if let Some(FilterGroup { filter, .. }) = self.groups.remove(&id) {
            self.did_count -= filter.dids.len();
            for route in filter.routes() {
                if let Some(groups) = self.groups_by_route.get_mut(&route) {
                    groups.remove(&id);
                    if groups.is_empty() {
                        self.groups_by_route.remove(&route);
                    }
                }
            }
            self.group_by_filter.remove(&filter);
        }
    }

    /// Number of subscribed connections.
    pub fn len(&self) -> usize {
        self.group_by_connection.len()
    }

    /// Number of distinct filters.
    pub fn filter_count(&self) -> usize {
        self.groups.len()
    }

    /// Returns the indices of the items that match the filter of each group. A group without a match has no entry.
    fn find_matches(&self, items: &[T::Item]) -> HashMap<u64, Vec<usize>> {
        let mut matched: HashMap<u64, Vec<usize>> =
            self.unrouted_groups.iter().map(|id| (*id, (0..items.len()).collect())).collect();
        for (index, item) in items.iter().enumerate() {
            let routes = T::routes(item);
            let candidates: HashSet<u64> =
                routes.iter().filter_map(|route| self.groups_by_route.get(route)).flatten().copied().collect();
            for id in candidates {
                if self.groups.get(&id).is_some_and(|group| group.filter.is_match(&routes)) {
                    matched.entry(id).or_default().push(index);
                }
            }
        }
        matched
    }

    /// Returns the deliveries of a block. Each item is encoded once for each view, and each distinct message once: most
    /// connections have no match and share one message.
    pub fn encode_deliveries(&self, block: &T::Block) -> Vec<BlockDelivery> {
        let items = T::items(block);
        let mut matched = self.find_matches(items);
        let mut encoded: HashMap<&T::TopicView, Vec<OnceCell<Option<String>>>> = HashMap::new();
        for (id, indices) in &mut matched {
            let Some(FilterGroup { filter, .. }) = self.groups.get(id) else { continue };
            let (view, texts) =
                (&filter.view, encoded.entry(&filter.view).or_insert_with(|| vec![OnceCell::new(); items.len()]));
            indices.retain(|index| texts[*index].get_or_init(|| T::encode_item(&items[*index], view)).is_some());
        }
        let mut by_selection: HashMap<ItemSelection<'_, T::TopicView>, Vec<u64>> = HashMap::new();
        for (id, group) in &self.groups {
            let items = matched.get(id).map_or(&[][..], Vec::as_slice);
            // Without items the message is the same in every view.
            let view = (!items.is_empty()).then_some(&group.filter.view);
            by_selection.entry(ItemSelection { view, items }).or_default().extend(&group.connections);
        }
        let deliver = |(selection, connections): (ItemSelection<'_, T::TopicView>, Vec<u64>)| {
            let texts = selection.view.and_then(|view| encoded.get(view)).map_or(&[][..], Vec::as_slice);
            let chosen = selection.items.iter().filter_map(|index| texts[*index].get()?.as_deref());
            BlockDelivery { text: encode_block::<T>(block, &chosen.collect::<Vec<_>>()), connections }
        };
        by_selection.into_iter().map(deliver).collect()
    }
}

/// Returns a block message with items that are already encoded.
fn encode_block<T: HubTopic>(block: &T::Block, items: &[&str]) -> String {
    let (height, time, name) = (T::height(block), encode_message(&T::time(block)), T::ITEMS_KEY);
    format!(r#"{{"type":"block","block":{height},"blockTime":{time},"{name}":[{}]}}"#, items.join(","))
}
