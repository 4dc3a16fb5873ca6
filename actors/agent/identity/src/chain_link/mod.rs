//! The chain link: finds the chain behind the node once, with the agent's account on it, and starts everything that needs them.
//!
//! It owns the search; the tree retains its result. Until the chain is found the document and the admin API are served without it. The
//! search may also show that the agent must not go on: another chain, or a store that is older than the account's transactions.

mod actor;
mod anchor_form;
mod discovery;
mod older_store;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use prost_types::Timestamp;
use svc_agent_store::{AgentStore, AgentStoreError};
use svc_kit::{
    Handle, impl_actor_message,
    supervision::{ChildSpec, Supervisor, SupervisorError},
    wall_clock,
};
use svc_net::upstream::{UpstreamError, UpstreamOrigins};
use svc_pipeline::{
    ChainExpectation, DiscoveryError, JournalError, JournalPlace, Pipeline, PlaintextNode, RecoveryError, RegistryChain,
};
use svc_wire::{account_key::AccountKey, address::AddressError};
use tokio::{
    sync::{Mutex, watch},
    time::Instant,
};

pub use anchor_form::AnchorForm;
pub use older_store::OlderStore;
pub use older_store::OwnWrites;

/// The chain of an agent, and its account there.
pub struct ChainConfig {
    /// The corporation that the agent belongs to.
    pub corporation_id: u64,
    /// Node RPC origins. One is used, the others when it fails.
    pub rpc: UpstreamOrigins,
    /// Whether a node may be asked without encryption over a public network.
    pub allows_plaintext_node: bool,
    /// The chain that the node must have.
    pub expected: ChainExpectation,
    /// The key of the agent's account.
    pub key: AccountKey,
    /// Place of the write pipeline's journal.
    pub journal: JournalPlace,
    /// Longest wait for inclusion.
    pub tx_timeout: Duration,
    /// Gas limit of a simulated transaction, in percent of its gas.
    pub gas_adjustment: u32,
    /// Whether a changed document is resolved again by a transaction.
    pub resolves_changes: bool,
    /// Form of the digests that are anchored.
    pub anchors: AnchorForm,
}

/// The chain, and the account's pipeline.
#[derive(Clone)]
pub struct ChainAccess {
    /// The chain.
    pub chain: RegistryChain,
    /// The pipeline of the agent's account.
    pub pipeline: Pipeline,
    /// Form of the digests that are anchored.
    pub anchors: AnchorForm,
}

impl ChainAccess {
    /// A digest as it is anchored at the node in use.
    pub fn anchored(&self, digest: &str) -> String {
        self.anchors.of(self.pipeline.release().generation, digest)
    }

    /// The time of the chain; that of this machine while no block was seen.
    pub(crate) fn time(&self) -> Timestamp {
        self.pipeline.clock().time(Instant::now()).unwrap_or_else(wall_clock::now)
    }
}

/// The reason for which the chain is not in use. Some pass; the others end the agent.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    /// The node does not answer, or its chain is not the configured one.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// A node would be asked without encryption over a public network.
    #[error(transparent)]
    PlaintextNode(#[from] PlaintextNode),
    /// An origin is unusable.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The chain's address prefix is unusable.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The journal is unusable.
    #[error(transparent)]
    Journal(#[from] RecoveryError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] AgentStoreError),
    /// The store was made for another chain.
    #[error("the store was made on chain {stored:?}, and the node runs {found:?}")]
    OtherChain {
        /// Chain id of the store.
        stored: String,
        /// Chain id of the node.
        found: String,
    },
    /// The indexer is one of another chain.
    #[error(
        "the indexer at {indexer} and the node at {node} have different blocks at height {height}: they are of two chains"
    )]
    OtherIndexer {
        /// Origin of the indexer.
        indexer: String,
        /// Origin of the node.
        node: String,
        /// Height of the blocks.
        height: u64,
    },
    /// An actor that needs the chain did not start.
    #[error(transparent)]
    Supervisor(#[from] SupervisorError),
    /// The store is older than the account's transactions.
    #[error(transparent)]
    OlderStore(#[from] OlderStore),
}

impl From<JournalError> for ChainError {
    fn from(error: JournalError) -> Self {
        Self::Journal(error.into())
    }
}

impl ChainError {
    /// Whether a later attempt may succeed.
    fn is_passing(&self) -> bool {
        match self {
            // A node that answers with an error is not the end of an agent that serves: it may be starting, or busy.
            // A client that cannot be made lacks descriptors for a moment: the origins were checked with the settings.
            Self::Discovery(DiscoveryError::Node(_)) | Self::Upstream(_) | Self::Store(_) => true,
            Self::Journal(RecoveryError::NotRestored { .. }) => true,
            Self::Journal(RecoveryError::Journal(JournalError::Database { .. })) => true,
            _ => false,
        }
    }
}

/// The state of the search.
#[derive(Clone, Default)]
pub enum ChainLinkState {
    /// The first attempt has not ended.
    #[default]
    Searching,
    /// The last attempt failed, and another follows.
    Unreachable(String),
    /// The chain is in use.
    Found(ChainAccess),
    /// The agent must end.
    Refused(Arc<ChainError>),
}

/// Messages of the chain link.
pub enum Msg {
    /// An attempt has ended.
    Attempted(Result<Box<discovery::FoundChain>, ChainError>),
    /// The pause after a failure is over.
    Retry,
}

impl_actor_message!(Msg { Attempted, Retry });

/// Describes the actors that need the chain, and hears that they were started.
pub trait ChainUsers: Send + Sync + 'static {
    /// Returns the actors.
    fn describe(&self, access: &ChainAccess, own_writes: OwnWrites) -> Vec<ChildSpec>;
    /// Hears that they were started.
    fn started(&self, access: &ChainAccess);
}

/// Arguments of the actor.
pub struct Args {
    store: AgentStore,
    did: String,
    config: discovery::SearchSettings,
    /// The key until the pipeline has it.
    key: Mutex<Option<AccountKey>>,
    supervisor: Supervisor,
    users: Box<dyn ChainUsers>,
    link: ChainLinkHandle,
}

/// Messages that may wait; only the actor itself sends to it.
const MAILBOX: usize = 4;

/// The state of the chain link. Clones share it.
#[derive(Clone)]
pub struct ChainLinkHandle(Arc<watch::Sender<ChainLinkState>>);

impl Default for ChainLinkHandle {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(ChainLinkState::Searching)))
    }
}

impl ChainLinkHandle {
    /// Returns the child specification that starts the actor, which adds the actors of `users` to `supervisor`.
    pub fn child_spec(
        &self,
        config: ChainConfig,
        (store, did): (AgentStore, String),
        supervisor: Supervisor,
        users: Box<dyn ChainUsers>,
    ) -> ChildSpec {
        let ChainConfig {
            rpc, allows_plaintext_node, expected, key, journal, tx_timeout, gas_adjustment, anchors, ..
        } = config;
        let config = discovery::SearchSettings {
            rpc,
            allows_plaintext_node,
            expected,
            journal,
            tx_timeout,
            gas_adjustment,
            anchors,
        };
        let args = Args { store, did, config, key: Mutex::new(Some(key)), supervisor, users, link: self.clone() };
        ChildSpec::worker::<actor::ChainLink>(&Handle::new("chain_link", "chain_link", MAILBOX), args)
    }

    /// Returns the state of the search.
    pub fn state(&self) -> ChainLinkState {
        self.0.borrow().clone()
    }

    /// Returns the chain, once it is found.
    pub fn access(&self) -> Option<ChainAccess> {
        match &*self.0.borrow() {
            ChainLinkState::Found(access) => Some(access.clone()),
            _ => None,
        }
    }

    /// Ends the agent.
    pub fn refuse(&self, error: ChainError) {
        tracing::error!(%error, "the agent must not go on");
        self.0.send_replace(ChainLinkState::Refused(Arc::new(error)));
    }

    fn set(&self, state: ChainLinkState) {
        // A refusal is final.
        self.0.send_if_modified(|current| {
            let is_open = !matches!(current, ChainLinkState::Refused(_));
            if is_open {
                *current = state;
            }
            is_open
        });
    }

    /// Waits for the end of the first attempt.
    pub async fn first_attempt(&self) -> ChainLinkState {
        let mut states = self.0.subscribe();
        let attempted = states.wait_for(|state| !matches!(state, ChainLinkState::Searching)).await;
        attempted.map(|state| state.clone()).unwrap_or_default()
    }

    /// Waits until the agent must end, and returns the reason.
    pub async fn wait_until_refused(&self) -> Arc<ChainError> {
        let mut states = self.0.subscribe();
        loop {
            if let ChainLinkState::Refused(error) = &*states.borrow_and_update() {
                return Arc::clone(error);
            }
            if states.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
