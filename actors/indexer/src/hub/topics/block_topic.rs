//! The block stream: blocks with their events.

use std::collections::BTreeSet;

use svc_otel::metrics::SubscriptionStream;
use svc_wire::event_stream::{BlockMessage, IndexerEvent};

use super::HubTopic;
use crate::{
    hub::message_json::encode_message,
    store::{Checkpoint, EventRoute, IndexStore, IndexStoreError},
};

/// Blocks with their events.
pub struct BlockTopic(pub(crate) IndexStore);

impl HubTopic for BlockTopic {
    const KIND: &'static str = "hub";
    const STREAM: SubscriptionStream = SubscriptionStream::Blocks;
    const ITEMS_KEY: &'static str = "events";
    type Block = BlockMessage;
    type Item = IndexerEvent;
    type TopicView = ();

    fn height(block: &BlockMessage) -> u64 {
        block.block
    }

    fn time(block: &BlockMessage) -> &str {
        &block.block_time
    }

    fn items(block: &BlockMessage) -> &[IndexerEvent] {
        &block.events
    }

    fn routes(event: &IndexerEvent) -> BTreeSet<EventRoute> {
        EventRoute::list_for_event(event)
    }

    fn encode_item(event: &IndexerEvent, (): &()) -> Option<String> {
        Some(encode_message(event))
    }

    async fn checkpoint(&self) -> Result<Checkpoint, IndexStoreError> {
        self.0.checkpoint().await
    }

    async fn blocks(&self, first: u64, last: u64) -> Result<Vec<BlockMessage>, IndexStoreError> {
        self.0.block_messages(first, last).await
    }
}
