//! The order of the events of a block, and the places by which readers tell them apart. Pure.

use std::collections::{BTreeMap, HashSet};

use super::{BlockFacts, EventPosition, RawEvent, event_catalog::EventRank};

impl EventPosition {
    /// The place of the message of the transaction.
    fn outer_place(&self) -> (u32, u32) {
        (self.tx_index, self.message_index)
    }

    /// The place of the message itself, which may stand inside that of the transaction.
    fn place(&self) -> (u32, u32, &[u32]) {
        (self.tx_index, self.message_index, &self.nested_at)
    }
}

impl BlockFacts {
    /// Sorts the events by place and removes duplicates: clients distinguish events by place, type and entity. Of one message its
    /// own event comes first, and then those that it caused: a reader that keeps one event of each message keeps its own.
    pub fn order_events(&mut self) {
        let order = |one: &RawEvent, other: &RawEvent| {
            let rank = |event: &RawEvent| event.event_type.rank();
            one.position.place().cmp(&other.position.place()).then_with(|| rank(one).cmp(&rank(other)))
        };
        self.events.sort_by(order);
        let with_proposals = self.places_with_proposals();
        let mut seen = HashSet::new();
        self.events.retain(|event| {
            let position = &event.position;
            // Two messages of a proposal can do the same to one entity.
            if with_proposals.contains(&position.outer_place()) && event.event_type.rank() != EventRank::Effect {
                return true;
            }
            // An event of a group names the group by its id or its policy; the corporation is resolved later.
            let names = [event.event_type.entity_id_key, "group_id", "address"];
            let entity = names.into_iter().find_map(|name| event.text(name)).map(str::to_owned);
            seen.insert((position.outer_place(), position.nested_at.clone(), event.event_type.name.clone(), entity))
        });
    }

    /// Gives messages inside another message an index of their own, after those of the transaction's messages: a reader that keeps one event of
    /// each index would lose all of them but one. The chain says which message of a MsgExec an event belongs to, so that the events of one such
    /// message share its index; it does not say so of the messages of a proposal, of which each event has its own. The first keeps the index of
    /// the outer message. Call it once, when all events are ordered.
    pub fn separate_nested_events(&mut self) {
        let with_proposals = self.places_with_proposals();
        let mut next: BTreeMap<u32, u32> = (0u32..).zip(self.message_counts.iter().copied()).collect();
        for event in &self.events {
            let free = next.entry(event.position.tx_index).or_default();
            *free = (*free).max(event.position.message_index.saturating_add(1));
        }
        let mut before: Option<EventPosition> = None;
        let mut index = 0;
        for event in &mut self.events {
            let position = event.position.clone();
            let is_in_same = |same: &EventPosition| same.outer_place() == position.outer_place();
            let in_same = before.as_ref().filter(|before| is_in_same(before));
            let has_own_events = with_proposals.contains(&position.outer_place());
            index = match in_same {
                None => position.message_index,
                Some(same) if !has_own_events && same.nested_at == position.nested_at => index,
                Some(_) => {
                    let free = next.entry(position.tx_index).or_default();
                    std::mem::replace(free, free.saturating_add(1))
                }
            };
            event.position.message_index = index;
            before = Some(position);
        }
        self.events.sort_by_key(|event| event.position.outer_place());
    }

    /// The places of messages that have run a proposal.
    fn places_with_proposals(&self) -> HashSet<(u32, u32)> {
        let is_execution = |event: &&RawEvent| event.chain_event.event_type == "cosmos.group.v1.EventExec";
        self.events.iter().filter(is_execution).map(|event| event.position.outer_place()).collect()
    }
}
