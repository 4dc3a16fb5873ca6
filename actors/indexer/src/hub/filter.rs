//! Filters of subscriptions. Pure.

use std::collections::BTreeSet;

use crate::store::EventRoute;

/// The filter of a subscription. An item must match both the DIDs and the corporation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct SubscriptionFilter<V = ()> {
    /// The item must have one of these DIDs; any when empty.
    pub dids: BTreeSet<String>,
    /// The item must have this corporation; any when absent.
    pub corporation_id: Option<u64>,
    /// The parts of an item to send.
    pub view: V,
}

impl<V> SubscriptionFilter<V> {
    /// Whether an item with these routes matches.
    pub(super) fn is_match(&self, routes: &BTreeSet<EventRoute>) -> bool {
        // An item has few routes, and a filter may have thousands of DIDs.
        let is_wanted_did = |route: &EventRoute| matches!(route, EventRoute::Did(did) if self.dids.contains(did));
        let has_did = self.dids.is_empty() || routes.iter().any(is_wanted_did);
        let has_corporation = self.corporation_id.is_none_or(|id| routes.contains(&EventRoute::Corporation(id)));
        has_did && has_corporation
    }

    /// Returns the routes one of which a matching item has: the DIDs, or else the corporation. Empty when every item
    /// matches.
    pub(super) fn routes(&self) -> Vec<EventRoute> {
        if self.dids.is_empty() {
            return self.corporation_id.map(EventRoute::Corporation).into_iter().collect();
        }
        self.dids.iter().map(|did| EventRoute::Did(did.clone())).collect()
    }
}
