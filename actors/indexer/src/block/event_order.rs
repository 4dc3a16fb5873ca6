//! The order of the events of a block, and the places by which readers tell them apart. Pure.

use std::collections::{BTreeMap, HashSet};

use super::{BlockFacts, EventPosition, RawEvent, event_catalog::EventRank};

impl EventPosition {
    /// The place of the message in its block.
    fn place(&self) -> (u32, u32) {
        (self.tx_index, self.message_index)
    }
}

impl BlockFacts {
    /// Sorts the events by place and removes duplicates: clients distinguish events by place, type and entity. Of one message its
    /// own event comes first, and then those that it caused: a reader that keeps one event of each message keeps its own.
    pub fn order_events(&mut self) {
        self.events.sort_by_key(|event| (event.position.place(), event.event_type.rank()));
        let with_proposals = self.places_with_proposals();
        let mut seen = HashSet::new();
        self.events.retain(|event| {
            let place = event.position.place();
            // Two messages of a proposal can do the same to one entity.
            if with_proposals.contains(&place) && event.event_type.rank() != EventRank::Effect {
                return true;
            }
            // An event of a group names the group by its id or its policy; the corporation is resolved later.
            let names = [event.event_type.entity_id_key, "group_id", "address"];
            let entity = names.into_iter().find_map(|name| event.text(name)).map(str::to_owned);
            seen.insert((place, event.event_type.name.clone(), entity))
        });
    }

    /// Gives each event of the messages in a proposal an index of its own, after those of the transaction's messages: a reader that keeps one
    /// event of each index would lose all messages of the proposal but one. The chain does not say which of the messages an event belongs to.
    /// The message that ran the proposal keeps its index for its own event. Call it once, when all events are ordered.
    pub fn separate_events_of_proposals(&mut self) {
        let with_proposals = self.places_with_proposals();
        let mut next: BTreeMap<u32, u32> = (0u32..).zip(self.message_counts.iter().copied()).collect();
        for event in &self.events {
            let free = next.entry(event.position.tx_index).or_default();
            *free = (*free).max(event.position.message_index.saturating_add(1));
        }
        let mut last = None;
        for event in &mut self.events {
            let place = event.position.place();
            let is_first = last.replace(place) != Some(place);
            if is_first || !with_proposals.contains(&place) {
                continue;
            }
            let free = next.entry(place.0).or_default();
            event.position.message_index = *free;
            *free = free.saturating_add(1);
        }
        self.events.sort_by_key(|event| event.position.place());
    }

    /// The places of messages that have run a proposal.
    fn places_with_proposals(&self) -> HashSet<(u32, u32)> {
        let is_execution = |event: &&RawEvent| event.chain_event.event_type == "cosmos.group.v1.EventExec";
        self.events.iter().filter(is_execution).map(|event| event.position.place()).collect()
    }
}
