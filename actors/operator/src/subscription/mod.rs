//! The subscription of one corporation: every block of the indexer in order, with the events that match.
//!
//! It owns the WebSocket to the indexer; its position is retained by the tree. Only its own connection and timers send to it. It
//! advances the indexer barrier with every block of an indexer that follows the node's chain, and requests a snapshot for registry events. When it dies, the next incarnation
//! catches up from the retained position.
//!
//! Heights, events and reads come from one indexer: the connection to it ends before another one is used.
//!
//! It follows the blocks as every subscriber does ([`svc_net::block_subscription`]).

mod actor;

use serde::Serialize;
use svc_kit::{RetainedState, impl_actor_message};
use svc_net::{
    block_subscription::PageError,
    upstream::UpstreamEndpoints,
    websocket::{ConnectionEpoch, LinkEvent},
};
use svc_pipeline::BlockClock;
use svc_wire::event_stream::{EventsPage, StreamMessage};

pub use actor::IndexerSubscription;

use crate::{barrier::BarrierHandle, clients::indexer::IndexerClient, refresher::RefresherHandle};

/// Position of a subscription. The supervision tree retains it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SubscriptionPosition {
    /// Height up to which every event was delivered; `None` before the first connection.
    pub processed: Option<u64>,
    /// Whether blocks arrive.
    pub is_live: bool,
    /// Whether the connection is open, and nothing comes from the indexer, which has no newer block either.
    pub is_silent: bool,
    /// Time of the last message, RFC 3339.
    pub last_event_at: Option<String>,
}

/// Messages of the subscription's own connection, tasks and timers.
pub enum Msg {
    /// The WebSocket connected, disconnected or received a message.
    Link(LinkEvent<StreamMessage>),
    /// A page of events was read, or could not be.
    PageRead {
        /// Connection during which the read began.
        epoch: ConnectionEpoch,
        /// The page, or the error in words.
        page: Result<EventsPage, PageError>,
    },
    /// The height of the indexer was read, or could not be.
    HeightRead {
        /// Connection during which the read began.
        epoch: ConnectionEpoch,
        /// The height, or the error in words.
        height: Result<u64, String>,
    },
    /// The timer for comparing the indexers has fired.
    CompareEndpoints,
    /// The indexers have been compared with the node and with each other: the one, fixed, that replaces the one in use.
    EndpointChosen {
        /// `None` while the one in use is good enough.
        better: Option<UpstreamEndpoints>,
    },
}

impl_actor_message!(Msg { Link, PageRead, HeightRead, CompareEndpoints, EndpointChosen });

/// Arguments of a subscription.
#[derive(Clone)]
pub struct Args {
    /// The corporation.
    pub corporation_id: u64,
    /// The indexer, or one of several.
    pub indexer: IndexerClient,
    /// The clock of the chain, which bounds the heights of the indexers.
    pub clock: RetainedState<BlockClock>,
    /// Position of the subscription.
    pub position: RetainedState<SubscriptionPosition>,
    /// Hears of every block.
    pub barrier: BarrierHandle,
    /// Hears of registry events.
    pub refresher: RefresherHandle,
}
