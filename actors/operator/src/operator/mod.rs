//! The operator: one handle over the supervised actors of one corporation.

mod agent_calls;
pub mod reads;
pub mod status;
mod tree;
mod tx_status;
mod writes;

use std::{sync::Arc, time::Duration};

use ractor::ActorCell;
use svc_kit::{
    RetainedState,
    supervision::{Supervisor, SupervisorSpec},
};
use svc_net::upstream::NodeClient;
use svc_pipeline::{AccountIdentity, NodeRelease, Pipeline, RegistryChain};
use svc_wire::account_key::AccountKey;
use tokio::{sync::watch, time::Instant};

use crate::{
    agent_directory::AgentDirectory,
    boot::{
        config::{BOOT_TIMEOUT, OperatorConfig},
        error::BootError,
    },
    clients::indexer::IndexerClient,
    graph_watch::GraphService,
    refresher::RefreshTrigger,
    snapshot::{CorporationSnapshot, publisher::SnapshotVersions},
    subscription::SubscriptionPosition,
    write::{admission::ActiveWrites, context::WriteContext},
};

/// A running operator. Clones share it. When the last one is dropped, its active writes end and its actors stop.
#[derive(Clone)]
pub struct Operator(Arc<OperatorRuntime>);

struct OperatorRuntime {
    context: WriteContext,
    chain: RegistryChain,
    corporation_id: u64,
    indexer: IndexerClient,
    position: RetainedState<SubscriptionPosition>,
    graph: Option<GraphService>,
    directory: AgentDirectory,
    supervisor: Supervisor,
    writes: ActiveWrites,
}

/// Time for the journal and for the actors to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest wait of [`Operator::refresh_snapshot`].
const REFRESH_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two looks at the links at the start.
const LINK_POLL_INTERVAL: Duration = Duration::from_millis(20);

impl Operator {
    /// Discovers the chain and the corporation, and starts the actors under a supervisor of their own. The key goes to the signer and
    /// nowhere else.
    pub async fn boot(config: OperatorConfig, key: AccountKey) -> Result<Self, BootError> {
        let (operator, spec) = tree::build(config, key).await?;
        operator.0.supervisor.start(spec).await?;
        operator.begin().await;
        Ok(operator)
    }

    /// Like [`Operator::boot`], with the supervisor linked to `parent`: any ractor actor of a larger platform can supervise the
    /// operator.
    pub async fn start_linked(config: OperatorConfig, key: AccountKey, parent: ActorCell) -> Result<Self, BootError> {
        let (operator, spec): (Self, SupervisorSpec) = tree::build(config, key).await?;
        operator.0.supervisor.start_linked(spec, parent).await?;
        operator.begin().await;
        Ok(operator)
    }

    /// Resumes the writes of an earlier process and waits for the links.
    async fn begin(&self) {
        for transactions in self.pipeline().recovered_writes() {
            self.resume_write(transactions);
        }
        self.await_links().await;
    }

    /// Waits until the links are up, at most [`BOOT_TIMEOUT`]. A server with a link down serves, and its status says so.
    async fn await_links(&self) {
        let deadline = Instant::now() + BOOT_TIMEOUT;
        let are_up = || {
            let links = self.links();
            links.node && links.indexer && (links.graph || !self.has_graph())
        };
        while !are_up() && Instant::now() < deadline {
            tokio::time::sleep(LINK_POLL_INTERVAL).await;
        }
        if !are_up() {
            tracing::warn!("a link is still down at the end of the start; the operator serves without it");
        }
    }

    /// Corporation that the operator acts for.
    pub fn corporation_id(&self) -> u64 {
        self.0.corporation_id
    }

    /// The operator's account.
    pub fn identity(&self) -> &AccountIdentity {
        self.pipeline().identity()
    }

    /// The chain and its messages.
    pub fn chain(&self) -> &RegistryChain {
        &self.0.chain
    }

    /// The release of the node, with the messages of this program that it takes.
    pub fn node_release(&self) -> Arc<NodeRelease> {
        self.pipeline().release()
    }

    /// The newest snapshot of the corporation.
    pub fn snapshot(&self) -> Arc<CorporationSnapshot> {
        self.0.context.publisher.current()
    }

    /// Watches for changes of the snapshot.
    pub fn snapshot_changes(&self) -> watch::Receiver<SnapshotVersions> {
        self.0.context.publisher.subscribe()
    }

    /// Reads the snapshot again and waits until it is published.
    pub async fn refresh_snapshot(&self) {
        let _ = self.0.context.refresher.refresh(RefreshTrigger::WriteMismatch, REFRESH_TIMEOUT).await;
    }

    /// Whether a graph is configured.
    pub fn has_graph(&self) -> bool {
        self.0.graph.is_some()
    }

    /// The agents of the corporation.
    pub fn agent_directory(&self) -> &AgentDirectory {
        &self.0.directory
    }

    /// The supervision tree, for embedding and for tests that crash actors.
    pub fn supervisor(&self) -> &Supervisor {
        &self.0.supervisor
    }

    /// Refuses new writes, lets active ones end within `wait_limit`, writes the journal and stops the actors.
    pub async fn shutdown(&self, wait_limit: Duration) {
        self.0.writes.drain(wait_limit).await;
        self.context().audit.close();
        self.pipeline().shutdown(STOP_TIMEOUT).await;
        self.0.supervisor.shutdown(STOP_TIMEOUT).await;
    }

    fn context(&self) -> &WriteContext {
        &self.0.context
    }

    fn pipeline(&self) -> &Pipeline {
        &self.0.context.pipeline
    }

    fn node(&self) -> &NodeClient {
        self.pipeline().node()
    }

    fn indexer(&self) -> &IndexerClient {
        &self.0.indexer
    }

    fn graph(&self) -> Option<&GraphService> {
        self.0.graph.as_ref()
    }
}

impl Drop for OperatorRuntime {
    fn drop(&mut self) {
        // Without a runtime there are no actors either.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (supervisor, journal) = (self.supervisor.clone(), self.context.pipeline.journal().clone());
        runtime.spawn(async move {
            journal.flush(STOP_TIMEOUT).await;
            supervisor.shutdown(STOP_TIMEOUT).await;
        });
    }
}
