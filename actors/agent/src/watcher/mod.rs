//! The registry watcher: the registry events of the agent's DID or corporation, each stored once and in order.
//!
//! It owns the WebSocket to the indexer, and the events that are not stored yet. Cursor, effects and webhooks of a block are one
//! transaction of the store, after which the courier hears of them. While the store fails, nothing is lost: the events wait, and a
//! subscription that runs too far ahead begins again from the cursor. When it dies, the next incarnation catches up from the cursor.
//!
//! It also watches the release of the node: a message that one release does not take, the next one may.

mod actor;
mod core;
mod cursor;
mod history;
mod indexer_choice;
mod proof;
mod reactions;
mod release;
#[cfg(test)]
mod tests;

use std::time::Duration;

use svc_agent_core::notification::NotificationMaker;
use svc_agent_flows::FlowDirectory;
use svc_agent_identity::{
    chain_link::{ChainLinkHandle, OwnWrites},
    credentials::CredentialHandle,
    resolution::ResolutionHandle,
};
use svc_agent_peers::CourierHandle;
use svc_agent_store::{AgentStore, guard::StoreGuardHandle};
use svc_kit::{Handle, RetainedState, impl_actor_message, supervision::ChildSpec};
use svc_net::{
    block_subscription::PageError,
    upstream::UpstreamEndpoints,
    websocket::{ConnectionEpoch, LinkEvent},
};
use svc_pipeline::Pipeline;
use svc_wire::{
    block_subscription::SubscriptionScope,
    event_stream::{EventsPage, StreamMessage},
};

use self::proof::StoreFailure;
pub use self::reactions::HandledEvents;

/// The state of a watcher, for readers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatcherState {
    /// Height up to which every event is stored; `None` before the first block.
    pub stored_height: Option<u64>,
    /// Whether blocks arrive.
    pub is_live: bool,
    /// Whether nothing comes from the indexer, which has no newer block either.
    pub is_silent: bool,
    /// Whether the indexer was reached since the last disconnection.
    pub is_connected: bool,
    /// Events that were skipped: their heights are below the cursor, or they were stored before.
    pub skipped: u64,
}

/// Messages of the watcher's own connection, tasks and timers.
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
    /// Blocks were stored, or could not be.
    Stored {
        /// Connection during which they came.
        epoch: ConnectionEpoch,
        /// The end.
        result: Result<(), StoreFailure>,
    },
    /// The pause after a failure of the store is over.
    StoreAgain,
    /// The timer for comparing the indexers with the node has fired.
    CompareIndexers,
    /// The indexers have been compared with each other: the one, fixed, that replaces the one in use.
    IndexerFound {
        /// The indexer.
        better: UpstreamEndpoints,
    },
}

impl_actor_message!(Msg { Link, PageRead, HeightRead, Stored, StoreAgain, CompareIndexers, IndexerFound });

/// Arguments of the watcher.
pub(crate) struct WatcherArgs {
    /// The indexers, one of which is in use.
    pub indexer: UpstreamEndpoints,
    /// The events.
    pub scope: SubscriptionScope,
    /// First height whose events are stored, while the store is empty; the next block when absent.
    pub start_height: Option<u64>,
    /// Silence after which the indexer is asked for its height; derived from the announced interval when absent.
    pub silence: Option<Duration>,
    /// The store.
    pub store: AgentStore,
    /// Hears of writes.
    pub guard: StoreGuardHandle,
    /// The event types that the agent acts on.
    pub handled: HandledEvents,
    /// Hears of events about grants and participants, and of another release of the node.
    pub resolution: ResolutionHandle,
    /// Hears of the same events.
    pub credentials: CredentialHandle,
    /// Hears of the participants that events name.
    pub flows: FlowDirectory,
    /// Knows the transactions of the agent's account.
    pub own_writes: OwnWrites,
    /// The pipeline's node and clock, which show whether the indexer is one of the same chain, and the node's release.
    pub pipeline: Pipeline,
    /// Ends the agent when its store is older than its account.
    pub chain: ChainLinkHandle,
    /// Makes webhooks, and the courier that delivers them; `None` without a receiver.
    pub courier: Option<CourierHandle>,
    /// Makes ids and bodies.
    pub notifications: NotificationMaker,
    /// Most events that are stored.
    pub max_stored: u64,
}

/// Arguments of the actor.
pub struct Args {
    watcher: WatcherArgs,
    state: RetainedState<WatcherState>,
}

/// Messages that may wait; only the watcher itself sends to it.
const MAILBOX: usize = 16;

/// The state of the registry watcher.
#[derive(Clone)]
pub struct WatcherHandle {
    state: RetainedState<WatcherState>,
}

impl WatcherHandle {
    /// Returns the handle of a watcher that is still to be described.
    pub(crate) fn new() -> Self {
        Self { state: RetainedState::default() }
    }

    /// Returns the child specification that starts the actor.
    pub(crate) fn child_spec(&self, watcher: WatcherArgs) -> ChildSpec {
        let args = Args { watcher, state: self.state.clone() };
        let actor = Handle::new("registry_watcher", "registry_watcher", MAILBOX);
        ChildSpec::worker::<actor::RegistryWatcher>(&actor, args)
    }

    /// Returns the state of the watcher.
    pub fn state(&self) -> WatcherState {
        self.state.with(|state| state.clone())
    }
}
