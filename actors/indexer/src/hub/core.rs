//! Who gets what of a block. Pure.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use svc_wire::event::{BlockMessage, Event, ServerMessage};

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
}

/// Subscriptions by connection.
#[derive(Debug, Default)]
pub struct Subscriptions(BTreeMap<u64, Filter>);

impl Subscriptions {
    pub fn set(&mut self, id: u64, filter: Filter) {
        self.0.insert(id, filter);
    }

    pub fn remove(&mut self, id: u64) {
        self.0.remove(&id);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The text for each subscriber. Each distinct answer is made once: with one event or none, nearly everybody shares one
    /// buffer.
    pub fn answers(&self, block: &BlockMessage) -> Vec<(u64, Arc<str>)> {
        let routed: Vec<(&Event, BTreeSet<Route>)> =
            block.events.iter().map(|event| (event, Route::all_of(event))).collect();
        let mut texts: HashMap<Vec<usize>, Arc<str>> = HashMap::new();
        let mut by_filter: HashMap<&Filter, Arc<str>> = HashMap::new();
        let mut answers = Vec::with_capacity(self.0.len());
        for (id, filter) in &self.0 {
            let text = by_filter.entry(filter).or_insert_with(|| {
                let chosen: Vec<usize> = (0..routed.len()).filter(|index| filter.admits(&routed[*index].1)).collect();
                Arc::clone(texts.entry(chosen).or_insert_with_key(|chosen| {
                    let events = chosen.iter().map(|index| routed[*index].0.clone()).collect();
                    text(&ServerMessage::Block(BlockMessage { events, ..block.clone() }))
                }))
            });
            answers.push((*id, Arc::clone(text)));
        }
        answers
    }
}

/// A message as it travels.
pub fn text(message: &ServerMessage) -> Arc<str> {
    // Serialising these plain structs cannot fail; an empty object is ignored by clients.
    serde_json::to_string(message).unwrap_or_else(|_| "{}".to_owned()).into()
}

#[cfg(test)]
mod tests {
    use svc_wire::event::{EventKind, Payload};

    use super::*;

    fn event(did: &str, corporation_id: u64) -> Event {
        Event {
            kind: EventKind::IndexerEvent,
            event_type: "X".into(),
            did: Some(did.into()),
            block_height: 1,
            tx_hash: "AB".into(),
            timestamp: "t".into(),
            payload: Payload { corporation_id: Some(corporation_id), ..Payload::default() },
        }
    }

    #[test]
    fn filters_intersect_and_equal_answers_share_one_buffer() {
        let mut subscriptions = Subscriptions::default();
        let filter = |dids: &[&str], corporation_id| Filter {
            dids: dids.iter().map(|did| (*did).into()).collect(),
            corporation_id,
        };
        for (id, filter) in [
            (1, filter(&[], None)),
            (2, filter(&["did:web:a"], None)),
            (3, filter(&["did:web:a"], Some(2))),
            (4, filter(&[], Some(9))),
            (5, filter(&["did:web:a", "did:web:b"], None)),
        ] {
            subscriptions.set(id, filter);
        }
        let block = BlockMessage {
            block: 1,
            block_time: "t".into(),
            events: vec![event("did:web:a", 1), event("did:web:b", 2)],
        };
        let answers: BTreeMap<_, _> = subscriptions.answers(&block).into_iter().collect();
        let count = |id: u64| match serde_json::from_str(&answers[&id]).expect("JSON") {
            ServerMessage::Block(block) => block.events.len(),
            _ => panic!("a block"),
        };
        assert_eq!([1, 2, 3, 4, 5].map(count), [2, 1, 0, 0, 2]);
        assert!(Arc::ptr_eq(&answers[&3], &answers[&4]));
        assert!(Arc::ptr_eq(&answers[&1], &answers[&5]));
    }
}
