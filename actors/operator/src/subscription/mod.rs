//! The subscription of one corporation: every block of the indexer in order, with the events that match.
//!
//! It owns the WebSocket to the indexer; its position is retained by the tree. Only its own connection and timers send to it. It
//! advances the indexer barrier with every block of an indexer that follows the node's chain, and requests a snapshot for registry events. When it dies, the next incarnation
//! catches up from the retained position.
//!
//! It follows the blocks as every subscriber does ([`svc_net::block_subscription`]).

mod actor;

use serde::Serialize;
use svc_kit::{RetainedState, impl_actor_message};
use svc_net::{
    block_subscription::PageError,
    websocket::{ConnectionEpoch, LinkEvent},
};
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
    /// The timer for comparing the indexers has fired.
    CompareEndpoints,
    /// The indexers have been compared with the node and with each other.
    EndpointChosen,
}

impl_actor_message!(Msg { Link, PageRead, CompareEndpoints, EndpointChosen });

/// Arguments of a subscription.
#[derive(Clone)]
pub struct Args {
    /// The corporation.
    pub corporation_id: u64,
    /// The indexer, or one of several.
    pub indexer: IndexerClient,
    /// Position of the subscription.
    pub position: RetainedState<SubscriptionPosition>,
    /// Hears of every block.
    pub barrier: BarrierHandle,
    /// Hears of registry events.
    pub refresher: RefresherHandle,
}
