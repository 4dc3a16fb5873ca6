//! Topics: the streams that hubs publish.

pub mod block_topic;
pub mod trust_topic;

use std::{collections::BTreeSet, fmt::Debug, future::Future, hash::Hash};

use serde_json::{Map, Value};
use svc_otel::metrics::SubscriptionStream;

use crate::store::{Checkpoint, EventRoute, IndexStoreError};

/// The parts of an item that a subscriber requests.
pub trait View: Debug + Clone + Eq + Hash + Default + Send + Sync + 'static {
    /// Parses the view from the members of a `subscribe` message. The error is the reason with which the connection is
    /// closed.
    fn read(members: &Map<String, Value>) -> Result<Self, String>;
}

/// The view of a stream that always sends whole items.
impl View for () {
    fn read(_: &Map<String, Value>) -> Result<Self, String> {
        Ok(())
    }
}

/// A stream of blocks, one for each height without gaps. Each block has items, which filters find by routes.
pub trait HubTopic: Send + Sync + 'static {
    /// Kind and name of the hub's actor.
    const KIND: &'static str;
    /// The stream in metrics.
    const STREAM: SubscriptionStream;
    /// Member of a block message that holds the items.
    const ITEMS_KEY: &'static str;
    /// A block.
    type Block: Send + Sync + 'static;
    /// An item of a block.
    type Item;
    /// The parts of an item that a subscriber can request.
    type TopicView: View;

    /// Returns the height of a block.
    fn height(block: &Self::Block) -> u64;

    /// Returns the time of a block in the form of its message.
    fn time(block: &Self::Block) -> &str;

    /// Returns the items of a block, in order.
    fn items(block: &Self::Block) -> &[Self::Item];

    /// Returns every route of an item.
    fn routes(item: &Self::Item) -> BTreeSet<EventRoute>;

    /// Returns an item as JSON; `None` when the view contains no part of it.
    fn encode_item(item: &Self::Item, view: &Self::TopicView) -> Option<String>;

    /// Returns the newest block that can be read. Fails when the store fails.
    fn checkpoint(&self) -> impl Future<Output = Result<Checkpoint, IndexStoreError>> + Send;

    /// Returns the blocks from `first` to `last`, as far as they can be read. Fails when the store fails.
    fn blocks(&self, first: u64, last: u64) -> impl Future<Output = Result<Vec<Self::Block>, IndexStoreError>> + Send;
}
