//! A running indexer.

use std::{sync::Arc, time::Duration};

use ractor::ActorCell;
use svc_kit::{
    RetainedState,
    supervision::{Supervisor, SupervisorSpec},
};
use svc_net::upstream::NodeClient;

use super::{
    config::IndexerConfig,
    error::IndexerError,
    node_check::{assert_complete, bond_denom, find_first_height},
    tree::{IndexerTree, shut_down},
};
use crate::{
    block::KnownMessages,
    follower::{self, FollowerHandle, NodeHistories, NodeMessages},
    hub::{BlockTopic, HubHandle, HubSettings, TrustTopic},
    ingest::{DigestLookup, NodeReader},
    pace::{AnnouncedInterval, PACE_BLOCKS},
    read::{IndexReader, ReadSubject},
    start_height::StartHeight,
    store::IndexStore,
    trust::{self, DidEvaluator, TrustEvaluatorHandle},
};

/// Least time without a new block, or without an answer of any node, after which the indexer does not count as running.
const LEAST_PATIENCE: Duration = Duration::from_secs(15);

/// A running indexer.
///
/// The actors run until [`Indexer::shutdown`], or until the indexer and all clones of its [reader](IndexReader) are
/// dropped. The last drop stops them on the current tokio runtime.
pub struct Indexer {
    /// The supervisor of the actors.
    pub supervisor: Supervisor,
    /// The hub of the block stream.
    pub hub: HubHandle,
    /// The hub of the trust stream.
    pub trust_hub: HubHandle<TrustTopic>,
    /// The reads.
    pub reader: IndexReader,
    tree: Arc<IndexerTree>,
}

impl Indexer {
    /// Opens the store, checks the node, and starts the actors as a tree of their own. Fails when the node or the store
    /// cannot be used.
    pub async fn launch(config: IndexerConfig) -> Result<Self, IndexerError> {
        Self::start(config, None).await
    }

    /// Starts the actors as a child of any ractor actor, which receives `ActorFailed` when the supervisor gives up.
    /// They stop when `parent` stops. Fails as [`Indexer::launch`] does.
    pub async fn start_linked(config: IndexerConfig, parent: ActorCell) -> Result<Self, IndexerError> {
        Self::start(config, Some(parent)).await
    }

    async fn start(config: IndexerConfig, parent: Option<ActorCell>) -> Result<Self, IndexerError> {
        let node = NodeClient::new(&config.rpc)?;
        node.select_current(Some(0)).await;
        let status = node.status().await?;
        node.bind_to_chain(&status.node_info.network);
        let messages = NodeMessages::read(&node).await?;
        let registry = messages.get();
        let denom = bond_denom(&node).await?;
        let store = IndexStore::open(&config.database, &status.node_info.network).await?;
        let histories = NodeHistories::default();
        // The follower says so, and reads go on.
        let is_other_history = histories.look(&node, &store).await.is_some();
        let status = if histories.has_left_out() && !is_other_history {
            node.select_current(Some(0)).await;
            node.status().await?
        } else {
            status
        };
        let checkpoint = store.checkpoint().await?.height;
        let source = NodeReader { node: &node, registry: &registry };
        if !is_other_history {
            assert_complete(source, &store, checkpoint, status.sync_info.latest_block_height).await?;
        }
        let begun = store.stored_start().await?.map(|start| start.height);
        let start_height = find_first_height(&config, &node, (checkpoint, begun), &status.sync_info).await?;
        let start_height = StartHeight::from(start_height);

        let interval = AnnouncedInterval::new(config.block_interval);
        let newest_times = store.list_block_times(checkpoint.saturating_sub(PACE_BLOCKS as u64), checkpoint).await?;
        interval.record_blocks(newest_times.into_values());
        let settings = HubSettings {
            block_interval: interval.clone(),
            first_height: start_height.clone(),
            max_buffered_bytes: config.max_buffered_bytes,
        };
        let (hub, hub_child) = HubHandle::child_spec(BlockTopic(store.clone()), settings.clone());
        let (trust_hub, trust_hub_child) = HubHandle::child_spec(TrustTopic::new(store.clone()), settings);
        let schema_prefix = format!("vpr:{}:{}:cs:", registry.namespace().as_str(), status.node_info.network);
        let digests = DigestLookup::new(store.clone(), node.clone(), Arc::clone(&registry));
        let trust_evaluator = TrustEvaluatorHandle::new();
        let trust_args = trust::Args {
            did_evaluator: Arc::new(DidEvaluator::new(&config.trust, schema_prefix, digests.clone())?),
            write_store: store.with_write_pool(),
            hub: trust_hub.clone(),
            wait_limit: config.trust.wait_limit,
            block_interval: interval.clone(),
            live_height: status.sync_info.latest_block_height,
            start_height: start_height.clone(),
        };
        let follower = FollowerHandle::new();
        let last_error = RetainedState::new(None);
        let follower_args = follower::Args {
            node,
            histories,
            known_messages: KnownMessages::compiled(registry.namespace())?,
            messages,
            store: store.with_write_pool(),
            hub: hub.clone(),
            trust_evaluator: trust_evaluator.clone(),
            start_height,
            is_start_configured: config.start_height.is_some(),
            block_interval: interval,
            least_patience: LEAST_PATIENCE,
            last_error: last_error.clone(),
        };
        let supervisor = Supervisor::new("indexer");
        let tree = Arc::new(IndexerTree { supervisor: supervisor.clone(), store });
        let subject = ReadSubject {
            node: status.node_info,
            namespace: registry.namespace().clone(),
            denom,
            rpc: config.rpc.to_string(),
        };
        let keep_alive: Arc<IndexerTree> = Arc::clone(&tree);
        let reader = IndexReader::new(digests, follower.clone(), last_error, subject, keep_alive)?;
        let children = SupervisorSpec::one_for_one(vec![
            hub_child,
            trust_hub_child,
            trust_evaluator.child_spec(trust_args),
            follower.child_spec(follower_args),
        ]);
        match parent {
            Some(parent) => supervisor.start_linked(children, parent).await?,
            None => supervisor.start(children).await?,
        };
        Ok(Self { supervisor, hub, trust_hub, reader, tree })
    }

    /// Stops the actors, which get a share of `wait_limit` each to finish, then closes the database.
    pub async fn shutdown(&self, wait_limit: Duration) {
        shut_down(&self.tree.supervisor, &self.tree.store, wait_limit).await;
    }
}
