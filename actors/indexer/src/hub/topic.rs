//! What a hub tells of, as the hub sees it.

use std::{collections::BTreeSet, fmt::Debug, future::Future, hash::Hash};

use serde_json::{Map, Value};
use svc_otel::metrics::Stream;
use svc_wire::event::{BlockMessage, Event};

use super::core::text;
use crate::store::{Checkpoint, Route, Store, StoreError};

/// What of an item a subscriber wants to see.
pub trait View: Debug + Clone + Eq + Hash + Default + Send + Sync + 'static {
    /// Reads it from the members of a `subscribe`; the error is the reason the connection is closed with.
    fn read(members: &Map<String, Value>) -> Result<Self, String>;
}

/// All of it.
impl View for () {
    fn read(_: &Map<String, Value>) -> Result<Self, String> {
        Ok(())
    }
}

/// A stream of blocks, one a height without gaps, each with items that are found by routes and written for a view.
pub trait Topic: Send + Sync + 'static {
    /// Kind and name of the hub's actor.
    const KIND: &'static str;
    /// The stream in metrics.
    const STREAM: Stream;
    /// Member of a block message that holds the items.
    const ITEMS: &'static str;
    /// A block.
    type Block: Send + Sync + 'static;
    /// One of the things a block holds.
    type Item;
    /// What of an item a subscriber may want to see.
    type View: View;

    /// Height of a block.
    fn height(block: &Self::Block) -> u64;

    /// Its time as it travels.
    fn time(block: &Self::Block) -> &str;

    /// What it holds, in order.
    fn items(block: &Self::Block) -> &[Self::Item];

    /// Every route of an item.
    fn routes(item: &Self::Item) -> BTreeSet<Route>;

    /// An item as JSON; none when there is nothing in it for this view.
    fn write(item: &Self::Item, view: &Self::View) -> Option<String>;

    /// Newest block that can be read.
    fn checkpoint(&self) -> impl Future<Output = Result<Checkpoint, StoreError>> + Send;

    /// Blocks from one height to another, as far as they can be read.
    fn blocks(&self, first: u64, last: u64) -> impl Future<Output = Result<Vec<Self::Block>, StoreError>> + Send;
}

/// Blocks with their events.
pub struct BlockTopic(pub(crate) Store);

impl Topic for BlockTopic {
    const KIND: &'static str = "hub";
    const STREAM: Stream = Stream::Blocks;
    const ITEMS: &'static str = "events";
    type Block = BlockMessage;
    type Item = Event;
    type View = ();

    fn height(block: &BlockMessage) -> u64 {
        block.block
    }

    fn time(block: &BlockMessage) -> &str {
        &block.block_time
    }

    fn items(block: &BlockMessage) -> &[Event] {
        &block.events
    }

    fn routes(event: &Event) -> BTreeSet<Route> {
        Route::all_of(event)
    }

    fn write(event: &Event, (): &()) -> Option<String> {
        Some(text(event))
    }

    async fn checkpoint(&self) -> Result<Checkpoint, StoreError> {
        self.0.checkpoint().await
    }

    async fn blocks(&self, first: u64, last: u64) -> Result<Vec<BlockMessage>, StoreError> {
        self.0.block_messages(first, last).await
    }
}
