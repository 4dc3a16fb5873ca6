//! The block subscription of an indexer, around the core of [`svc_wire::block_subscription`].
//!
//! An actor owns a [`BlockSubscription`] and passes it the events of the link and the pages that it has read. It reads the pages itself,
//! since it may want them later or from a certain indexer, and it acts on the events and heights.
//!
//! The answer to a request of a page may come after the end of its connection. Such a page is dropped: another connection may lead to
//! another indexer, whose cursors are others.

#[cfg(test)]
mod tests;

use std::time::Duration;

use svc_kit::{ActorMessage, Mailbox};
use svc_wire::{
    block_subscription::{SubscriptionCore, SubscriptionEffect, SubscriptionPhase, SubscriptionScope, is_full_page},
    event_stream::{EventsPage, StreamMessage},
};

use crate::{
    upstream::{UpstreamEndpoints, UpstreamError, not_indexed_below},
    websocket::{ConnectionEpoch, LinkConfig, LinkEvent, Patience, Reading, StreamProtocol, WebSocketLink},
};

/// Path of the subscription.
const PATH: &str = "/v4/indexer/subscribe";
/// Reason of the end of a connection with a message that no indexer may send.
pub const OUTSIDE_CONTRACT: &str = "the indexer sent a message outside its contract";

/// Silence of an indexer that ends a connection whose socket is alive.
#[derive(Debug, Clone, Copy)]
pub struct BlockPatience {
    /// Silence before the indexer has announced its interval; the link's own limits alone when absent.
    pub initial: Option<Duration>,
    /// The silence of each interval; twice the interval when absent.
    pub fixed: Option<Duration>,
    /// Shortest silence that follows from an interval.
    pub least: Duration,
}

impl BlockPatience {
    fn after(&self, interval_ms: u64) -> Duration {
        self.fixed.unwrap_or_else(|| Duration::from_millis(interval_ms.saturating_mul(2)).max(self.least))
    }
}

/// The protocol of the block subscription.
#[derive(Debug, Clone)]
pub struct BlockStream {
    scope: SubscriptionScope,
    patience: BlockPatience,
    interval_ms: u64,
}

impl StreamProtocol for BlockStream {
    type Frame = StreamMessage;

    const SILENCE: &'static str = "the indexer sends no blocks";

    fn read(&mut self, text: &str) -> Result<Reading<StreamMessage>, String> {
        let message: StreamMessage = serde_json::from_str(text).map_err(|_| OUTSIDE_CONTRACT.to_owned())?;
        let mut reading = Reading::default();
        match &message {
            StreamMessage::Ready { block_interval_ms, .. } => {
                self.interval_ms = *block_interval_ms;
                let command = serde_json::to_string(&self.scope.command());
                reading.request = Some(command.map_err(|error| format!("no subscription can be written: {error}"))?);
                reading.patience = Some(Patience::Stream(self.patience.after(self.interval_ms)));
            }
            StreamMessage::Subscribed { .. } => reading.is_confirmed = true,
            StreamMessage::Block(_) => {
                reading.patience = Some(Patience::Stream(self.patience.after(self.interval_ms)));
            }
            StreamMessage::Unknown => {}
        }
        Ok(Reading { frame: Some(message), ..reading })
    }
}

/// A page of events that was not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageError {
    /// The indexer begins with a later block.
    NotIndexed {
        /// Its oldest block.
        oldest: u64,
    },
    /// Any other failure, in words.
    Failed(String),
}

impl From<UpstreamError> for PageError {
    fn from(error: UpstreamError) -> Self {
        match not_indexed_below(&error) {
            Some(oldest) => Self::NotIndexed { oldest },
            None => Self::Failed(error.to_string()),
        }
    }
}

/// A subscription to the blocks of an indexer, owned by an actor.
pub struct BlockSubscription {
    core: SubscriptionCore,
    link: WebSocketLink,
}

impl BlockSubscription {
    /// Opens a subscription that continues after a height, or begins with the next block. The actor receives each event of the link as a
    /// message.
    pub fn open<M: ActorMessage>(
        indexer: UpstreamEndpoints,
        scope: SubscriptionScope,
        patience: BlockPatience,
        processed: Option<u64>,
        mailbox: Mailbox<M>,
        message: fn(LinkEvent<StreamMessage>) -> M,
    ) -> Self {
        let mut config = LinkConfig::with_endpoints("indexer", indexer, PATH);
        config.stream_patience = patience.initial;
        let link = WebSocketLink::open(config, BlockStream { scope, patience, interval_ms: 0 }, mailbox, message);
        Self { core: SubscriptionCore::new(processed), link }
    }

    /// Takes an event of the link; `None` for a late one. The owner passes the message of a frame to [`BlockSubscription::on_message`].
    pub fn accept(&mut self, event: LinkEvent<StreamMessage>) -> Option<LinkEvent<StreamMessage>> {
        let event = self.link.accept(event)?;
        match &event {
            LinkEvent::Up { .. } => self.core.on_connected(),
            LinkEvent::Down { .. } => self.core.on_disconnected(),
            LinkEvent::Ready { .. } | LinkEvent::Frame { .. } => {}
        }
        Some(event)
    }

    /// Forgets the progress of a connection that has just opened, and continues after another height.
    pub fn begin_after(&mut self, processed: Option<u64>) {
        self.core = SubscriptionCore::new(processed);
        self.core.on_connected();
    }

    /// Takes a message of the indexer. Returns the effects that the owner performs.
    pub fn on_message(&mut self, message: StreamMessage) -> Vec<SubscriptionEffect> {
        self.core.on_message(message)
    }

    /// Takes a page of events, or its error. Returns the effects that the owner performs. A page that was requested during an
    /// earlier connection is dropped.
    pub fn on_page(&mut self, epoch: ConnectionEpoch, page: Result<EventsPage, PageError>) -> Vec<SubscriptionEffect> {
        if epoch != self.link.epoch() {
            return Vec::new();
        }
        match page {
            Ok(page) => {
                let is_full = is_full_page(&page);
                self.core.on_page(page, is_full)
            }
            Err(PageError::NotIndexed { oldest }) => self.core.on_page_not_indexed(oldest),
            Err(PageError::Failed(error)) => {
                tracing::warn!(error, "events could not be read");
                self.core.on_page_failure()
            }
        }
    }

    /// Ends the connection; the next one follows.
    pub fn reconnect(&mut self, reason: &'static str) {
        self.link.reconnect(reason);
    }

    /// The connection.
    pub fn epoch(&self) -> ConnectionEpoch {
        self.link.epoch()
    }

    /// The phase.
    pub fn phase(&self) -> SubscriptionPhase {
        self.core.phase()
    }

    /// Height up to which every event was delivered; `None` before the first connection.
    pub fn processed_height(&self) -> Option<u64> {
        self.core.processed_height()
    }
}
