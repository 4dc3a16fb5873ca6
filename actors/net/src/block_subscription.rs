//! The block subscription of an indexer, around the core of [`svc_wire::block_subscription`].
//!
//! An actor owns a [`BlockSubscription`] and passes it the events of the link, and the pages and heights that it has read. It reads them itself,
//! since it may want them later, from the [indexer of the connection](BlockSubscription::indexer), and it acts on the events and heights.
//!
//! The answer to a request may come after the end of its connection. Such an answer is dropped: another connection may lead to another
//! indexer, whose cursors are others.

#[cfg(test)]
mod tests;

use std::time::Duration;

use svc_kit::{ActorMessage, Mailbox};
use svc_otel::metrics;
use svc_wire::{
    block_subscription::{SubscriptionCore, SubscriptionEffect, SubscriptionPhase, SubscriptionScope, is_full_page},
    event_stream::{EventsPage, StreamMessage},
};

use crate::{
    upstream::{UpstreamEndpoints, UpstreamError, not_indexed_below},
    websocket::{ConnectionEpoch, LinkConfig, LinkEvent, Patience, REPLACED, Reading, StreamProtocol, WebSocketLink},
};

/// Path of the subscription.
const PATH: &str = "/v4/indexer/subscribe";
/// Time in which an indexer is expected to speak first.
const READY_SILENCE: Duration = Duration::from_secs(10);
/// Shortest silence that follows from an interval.
const MIN_SILENCE: Duration = Duration::from_secs(1);
/// Reason of the end of a connection with a message that no indexer may send.
pub const OUTSIDE_CONTRACT: &str = "the indexer sent a message outside its contract";

/// Silence of an indexer whose socket is alive, after which it is asked for its height.
#[derive(Debug, Clone, Copy)]
pub struct BlockPatience {
    /// Silence before the indexer has announced its interval.
    pub initial: Duration,
    /// The silence of each interval; twice the interval when absent.
    pub fixed: Option<Duration>,
    /// Shortest silence that follows from an interval.
    pub least: Duration,
}

impl BlockPatience {
    /// Twice the announced interval, or a fixed silence.
    pub fn new(fixed: Option<Duration>) -> Self {
        Self { initial: fixed.unwrap_or(READY_SILENCE), fixed, least: MIN_SILENCE }
    }

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

    const REPORTS_SILENCE: bool = true;

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
            StreamMessage::Subscribed { .. } | StreamMessage::Block(_) => {
                reading.is_confirmed = matches!(message, StreamMessage::Subscribed { .. });
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
    indexers: UpstreamEndpoints,
    /// The indexer of the last connection, fixed.
    indexer: UpstreamEndpoints,
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
        let mut config = LinkConfig::with_endpoints("indexer", indexer.clone(), PATH);
        config.stream_patience = Some(patience.initial);
        let link = WebSocketLink::open(config, BlockStream { scope, patience, interval_ms: 0 }, mailbox, message);
        let pinned = indexer.pinned();
        Self { core: SubscriptionCore::new(processed), link, indexers: indexer, indexer: pinned }
    }

    /// Takes an event of the link; `None` for a late one. The owner passes the message of a frame to [`BlockSubscription::on_message`], and
    /// follows a silence with [`BlockSubscription::on_silence`].
    pub fn accept(&mut self, event: LinkEvent<StreamMessage>) -> Option<LinkEvent<StreamMessage>> {
        let event = self.link.accept(event)?;
        match &event {
            LinkEvent::Up { origin, .. } => {
                if let Some(indexer) = self.indexers.at_origin(origin) {
                    self.indexer = indexer;
                }
                self.core.on_connected();
                // The indexer in use may have been replaced since the connection began.
                self.follow_current();
            }
            LinkEvent::Down { .. } => {
                self.core.on_disconnected();
                metrics::record_ws_silent("indexer", false);
            }
            LinkEvent::Ready { .. } | LinkEvent::Frame { .. } | LinkEvent::Silent { .. } => {}
        }
        Some(event)
    }

    /// Ends a connection that leads to another indexer than the one in use, or to one that is left out: heights, events and reads come from
    /// one indexer.
    pub fn follow_current(&mut self) {
        let (current, connected) = (self.indexers.current(), self.indexer.current());
        if current.origin() != connected.origin() {
            self.link.reconnect(REPLACED);
        } else if connected.left_out().is_some() {
            self.link.reconnect("the indexer is left out");
        }
    }

    /// Replaces the indexer in use, whose connection ends before.
    pub fn switch_to(&mut self, indexer: &UpstreamEndpoints) {
        self.link.reconnect(REPLACED);
        self.indexers.use_origin(indexer.current().origin());
    }

    /// Forgets the progress of a connection that has just opened, and continues after another height.
    pub fn begin_after(&mut self, processed: Option<u64>) {
        self.core = SubscriptionCore::new(processed);
        self.core.on_connected();
    }

    /// Takes a message of the indexer. Returns the effects that the owner performs.
    /// `commits_before_ready`: it promises that the block below the one of `ready` and `subscribed` is committed.
    pub fn on_message(&mut self, message: StreamMessage, commits_before_ready: bool) -> Vec<SubscriptionEffect> {
        let was_silent = self.core.is_silent();
        let effects = self.core.on_message(message, commits_before_ready);
        if was_silent {
            metrics::record_ws_silent("indexer", false);
        }
        effects
    }

    /// The indexer was silent for longer than its patience. Returns the effects that the owner performs.
    pub fn on_silence(&mut self) -> Vec<SubscriptionEffect> {
        self.core.on_silence()
    }

    /// Takes the height of the indexer, or the error in words. Returns the effects that the owner performs. A height that was requested
    /// during an earlier connection is dropped.
    pub fn on_height(&mut self, epoch: ConnectionEpoch, height: Result<u64, String>) -> Vec<SubscriptionEffect> {
        if !self.is_current(epoch) {
            return Vec::new();
        }
        let was_silent = self.core.is_silent();
        let effects = match height {
            Ok(height) => self.core.on_height(height),
            Err(error) => {
                tracing::warn!(error, "the height of the indexer could not be read");
                self.core.on_height_failure()
            }
        };
        if self.core.is_silent() && !was_silent {
            let (origin, height) = (self.indexer.current().origin(), self.core.processed_height());
            tracing::warn!(origin, height, "nothing comes from the indexer, which has no newer block");
            metrics::record_ws_silent("indexer", true);
        }
        effects
    }

    /// Takes a page of events, or its error. Returns the effects that the owner performs. A page that was requested during an
    /// earlier connection is dropped.
    pub fn on_page(&mut self, epoch: ConnectionEpoch, page: Result<EventsPage, PageError>) -> Vec<SubscriptionEffect> {
        if !self.is_current(epoch) {
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

    /// Whether an answer belongs to the connection of now.
    pub fn is_current(&self, epoch: ConnectionEpoch) -> bool {
        epoch == self.link.epoch() && self.link.is_open()
    }

    /// The indexer of the last connection, fixed: pages and heights are read from it.
    pub fn indexer(&self) -> &UpstreamEndpoints {
        &self.indexer
    }

    /// Whether the connection is open, and nothing comes from the indexer, which has no newer block either.
    pub fn is_silent(&self) -> bool {
        self.core.is_silent()
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
