//! The event reader of onboarding services that others build: it knows no cursor.

use std::collections::BTreeSet;

use serde_json::Value;

use super::read_ok;

/// Takes a page that is shorter than the limit for the end, raises its height to the highest one that it has received, orders events by block,
/// transaction and message, and takes a second event of one message for a repetition.
pub struct OnboardingReader {
    origin: String,
    /// Another parameter of each request, with its ampersand.
    filter: String,
    limit: usize,
    height: u64,
    known: BTreeSet<(String, u64)>,
}

impl OnboardingReader {
    pub fn new(origin: &str, filter: &str, limit: usize) -> Self {
        Self { origin: origin.to_owned(), filter: filter.to_owned(), limit, height: 0, known: BTreeSet::new() }
    }

    /// Begins after a height.
    pub fn after(mut self, height: u64) -> Self {
        self.height = height;
        self
    }

    /// The number of a message in its transaction.
    pub fn message_of(event: &Value) -> (String, u64) {
        let hash = event["tx_hash"].as_str().unwrap_or_default().to_owned();
        (hash, event["payload"]["message_index"].as_u64().unwrap_or_default())
    }

    /// Reads pages up to a short one; returns the first event of each message that was not read before.
    pub async fn read(&mut self) -> Vec<Value> {
        let mut received = Vec::new();
        loop {
            let Self { filter, limit, height, .. } = &*self;
            let path = format!("/v4/indexer/events?limit={limit}&after_block_height={height}{filter}");
            let page = read_ok(&self.origin, &path).await;
            let events = page["events"].as_array().expect("events");
            self.height = events.iter().filter_map(|event| event["block_height"].as_u64()).fold(self.height, u64::max);
            received.extend(events.iter().cloned());
            if events.len() < self.limit {
                break;
            }
        }
        received.sort_by_key(|event| {
            let number = |name: &str| event["payload"][name].as_u64().unwrap_or_default();
            (event["block_height"].as_u64(), number("tx_index"), number("message_index"))
        });
        received.retain(|event| self.known.insert(Self::message_of(event)));
        received
    }
}
