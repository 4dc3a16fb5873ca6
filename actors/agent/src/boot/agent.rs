//! The handle of a running agent: its parts, whether they work, and its end.

use std::{sync::Arc, time::Duration};

use svc_agent_core::error::{AgentPart, Refusal, RefusalCode};
use svc_agent_flows::FlowService;
use svc_agent_identity::{
    chain_link::{ChainAccess, ChainLinkHandle},
    credentials::CredentialHandle,
    keeper::KeeperHandle,
    resolution::ResolutionHandle,
    rotation::RotationHandle,
    token::TokenIssuerHandle,
};
use svc_agent_peers::{AccessGranterHandle, DeliveryHandle, PeerService};
use svc_agent_store::{
    AgentStore, AgentStoreError, ResolutionProgress,
    guard::{StoreGuardHandle, StoreState},
};
use svc_kit::supervision::Supervisor;
use svc_pipeline::ChainChange;

use crate::watcher::WatcherHandle;

/// Time that the actors get to finish when the last handle is dropped.
pub(super) const DROP_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest wait for the store to give its lease back.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A running agent. Clones share it; the drop of the last one stops it.
#[derive(Clone)]
pub struct Agent(pub(super) Arc<AgentTree>);

pub(super) struct AgentTree {
    pub(super) supervisor: Supervisor,
    pub(super) store: AgentStore,
    pub(super) guard: StoreGuardHandle,
    pub(super) keeper: KeeperHandle,
    pub(super) tokens: Option<TokenIssuerHandle>,
    pub(super) watcher: WatcherHandle,
    pub(super) delivery: DeliveryHandle,
    pub(super) resolution: ResolutionHandle,
    pub(super) credentials: CredentialHandle,
    pub(super) rotation: RotationHandle,
    pub(super) chain: ChainLinkHandle,
    pub(super) peers: PeerService,
    pub(super) flows: FlowService,
}

impl Agent {
    /// The document keeper.
    pub fn keeper(&self) -> &KeeperHandle {
        &self.0.keeper
    }

    /// The token issuer; `None` while no external caller is served.
    pub fn tokens(&self) -> Option<&TokenIssuerHandle> {
        self.0.tokens.as_ref()
    }

    /// The state of the registry watcher.
    pub fn watcher(&self) -> &WatcherHandle {
        &self.0.watcher
    }

    /// The events that are to be delivered.
    pub fn delivery(&self) -> &DeliveryHandle {
        &self.0.delivery
    }

    /// The resolution of the document.
    pub fn resolution(&self) -> &ResolutionHandle {
        &self.0.resolution
    }

    /// The credentials of the DID.
    pub fn credentials(&self) -> &CredentialHandle {
        &self.0.credentials
    }

    /// The rotation of keys.
    pub fn rotation(&self) -> &RotationHandle {
        &self.0.rotation
    }

    /// The peers.
    pub fn peers(&self) -> &PeerService {
        &self.0.peers
    }

    /// The grants of access to endpoints of the agent.
    pub fn access(&self) -> &AccessGranterHandle {
        self.0.peers.access()
    }

    /// The flows.
    pub fn flows(&self) -> &FlowService {
        &self.0.flows
    }

    /// The credentials in the store.
    pub fn store(&self) -> &AgentStore {
        &self.0.store
    }

    /// Returns the versions that were resolved, and those that were not.
    pub async fn resolution_progress(&self) -> Result<ResolutionProgress, AgentStoreError> {
        self.0.store.resolution_progress().await
    }

    /// The chain.
    pub fn chain(&self) -> &ChainLinkHandle {
        &self.0.chain
    }

    /// The difference between the histories of the chain and the agent, while there is one: nothing is signed before a rebase.
    pub fn chain_change(&self) -> Option<ChainChange> {
        self.0.chain.access()?.pipeline.journal().chain_change()
    }

    /// The supervisor, for embedding and for tests that crash actors.
    pub fn supervisor(&self) -> &Supervisor {
        &self.0.supervisor
    }

    /// Whether every part works; otherwise the refusal names those that do not.
    pub fn check_ready(&self) -> Result<(), Refusal> {
        let mut waiting = Vec::new();
        if self.0.guard.state() != StoreState::Writable {
            waiting.push(AgentPart::Store);
        }
        if !self.0.keeper.is_up() {
            waiting.push(AgentPart::Document);
        }
        let is_connected = |access: ChainAccess| access.pipeline.clock().is_connected;
        if !self.0.chain.access().is_some_and(is_connected) {
            waiting.push(AgentPart::Node);
        }
        let watcher = self.0.watcher.state();
        if !watcher.is_connected {
            waiting.push(AgentPart::Indexer);
        } else if !watcher.is_live {
            waiting.push(AgentPart::CatchUp);
        }
        if waiting.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = waiting.iter().map(|part| part.as_str()).collect();
        let message = format!("these parts do not work now: {}", names.join(", "));
        Err(Refusal { waiting, retry_after: Some(5), ..Refusal::new(RefusalCode::NotReady, message) })
    }

    /// Waits until the agent must end, and returns the reason: another process has taken the store over, the store is older than the
    /// account's transactions, or the supervisor has given up.
    pub async fn wait_until_ended(&self) -> String {
        tokio::select! {
            () = self.0.guard.wait_until_lost() => AgentStoreError::Lost.to_string(),
            error = self.0.chain.wait_until_refused() => error.to_string(),
            reason = self.0.supervisor.wait_until_ended() => reason,
        }
    }

    /// Settles the last deliveries, stops the actors, then closes the store.
    pub async fn shutdown(&self, wait_limit: Duration) {
        let begun = tokio::time::Instant::now();
        let writes = async {
            if let Some(access) = self.0.chain.access() {
                access.pipeline.shutdown(wait_limit).await;
            }
        };
        tokio::join!(self.0.delivery.finish(wait_limit), writes);
        self.0.supervisor.shutdown(wait_limit.saturating_sub(begun.elapsed()).max(DROP_TIMEOUT)).await;
        // A database that does not answer keeps the lease until it ends by itself.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.0.store.close()).await;
    }
}

impl Drop for AgentTree {
    fn drop(&mut self) {
        // Without a runtime there is no actor: their tasks ended with it.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (supervisor, store) = (self.supervisor.clone(), self.store.clone());
        runtime.spawn(async move {
            supervisor.shutdown(DROP_TIMEOUT).await;
            store.close().await;
        });
    }
}
