//! The indexer: follows a node, keeps the registry's entities with their history, and tells subscribers of every block.
//!
//! The follower takes each block once and in order, reads every entity the block touched from the node **at that height**
//! instead of re-implementing the ledger's rules, and writes entities, events and checkpoint in one database transaction.
//! Only then does the hub tell the subscribers, so what a subscriber hears of, anybody can read.

mod block;
mod derive;
mod follower;
mod gather;
mod hub;
mod project;
mod read;
mod store;
mod trust;

use std::{sync::Arc, time::Duration};

use svc_kit::{
    Handle, Retained,
    fetch::ClientError,
    supervise::{ChildSpec, SuperviseError, Supervisor, SupervisorSpec},
    upstream::{NodeClient, NodeError, UpstreamError},
};
use svc_wire::{
    comet::Status,
    instant,
    proto::cosmos::staking::v1beta1::{QueryParamsRequest, QueryParamsResponse},
    schema::{Registry, SchemaError},
};

pub use follower::{FollowerState, LastError};
pub use hub::{
    BlockTopic, Control, Filter, HubHandle, HubSettings, Join, MAX_CONTROL_BYTES, Queue, Topic, TrustSource,
    TrustTopic, View, normal_did,
};
pub use read::{Answer, MAX_BODY_BYTES, Params, ReadError, Reader, endpoints, openapi};
pub use store::Checkpoint;
pub use store::StoreError;
pub use svc_trust::EssentialSchemas;
pub use trust::TrustConfig;

/// How an indexer is made.
#[derive(Debug, Clone)]
pub struct IndexerConfig {
    /// RPC origin of the node to follow.
    pub rpc: String,
    /// `sqlite::memory:`, `sqlite://path?mode=rwc`, or `postgres://user@host/database`.
    pub database: String,
    /// Expected time between blocks, announced to subscribers.
    pub block_interval: Duration,
    /// First height of an empty store; the node's oldest when left out.
    pub start: Option<u64>,
    /// Bytes that may wait for one subscriber.
    pub max_buffered_bytes: usize,
    /// What the evaluation of trust goes by.
    pub trust: TrustConfig,
}

impl IndexerConfig {
    /// Bytes that may wait for one subscriber unless said otherwise.
    pub const MAX_BUFFERED_BYTES: usize = 8 * 1024 * 1024;

    /// For a node and a database, with what is usual for the rest.
    pub fn new(rpc: impl Into<String>, database: impl Into<String>) -> Self {
        Self {
            rpc: rpc.into(),
            database: database.into(),
            block_interval: Duration::from_secs(6),
            start: None,
            max_buffered_bytes: Self::MAX_BUFFERED_BYTES,
            trust: TrustConfig::default(),
        }
    }
}

/// Why an indexer did not start.
#[derive(Debug, thiserror::Error)]
pub enum IndexerError {
    /// The node cannot be used.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The node's origin cannot be used.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The node's descriptors cannot be used.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The node no longer has the block to go on with.
    #[error("the node has pruned block {wanted}; its oldest block is {oldest}: {advice}")]
    Pruned {
        /// First block that is needed.
        wanted: u64,
        /// First block the node has.
        oldest: u64,
        /// What helps.
        advice: &'static str,
    },
    /// Deposits are told with their denom.
    #[error("the node's staking parameters name no bond denom, in which trust deposits are held")]
    Denom,
    /// The client for DID Documents and credentials could not be made.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The actors did not start.
    #[error(transparent)]
    Supervise(#[from] SuperviseError),
}

/// A running indexer.
pub struct Indexer {
    /// The actors.
    pub supervisor: Supervisor,
    /// Where subscribers of blocks join.
    pub hub: HubHandle,
    /// Where subscribers of verdicts join.
    pub trust_hub: HubHandle<TrustTopic>,
    /// The reads.
    pub reader: Reader,
    store: store::Store,
}

impl Indexer {
    /// Opens the store, learns the node's namespace, and starts the actors.
    pub async fn launch(config: IndexerConfig) -> Result<Self, IndexerError> {
        let node = NodeClient::new(&config.rpc)?;
        let status = node.status().await?;
        let descriptors = node.query_bytes("/cosmos.reflection.v1.ReflectionService/FileDescriptors", &[], 0).await?;
        let registry = Arc::new(Registry::from_live(&descriptors)?);
        let denom = bond_denom(&node).await?;
        let store = store::Store::open(&config.database, &status.node_info.network).await?;
        assert_same_chain(&node, &store, &status).await?;
        let checkpoint = store.checkpoint().await?.height;
        let start = first_height(&config, checkpoint, status.sync_info.earliest_block_height)?;

        let supervisor = Supervisor::new("indexer");
        let last_error = Retained::new(None);
        let follower = Handle::new("follower", "follower", FOLLOWER_MAILBOX);
        let settings =
            HubSettings { block_interval: config.block_interval, start, max_buffered_bytes: config.max_buffered_bytes };
        let (hub, hub_child) = HubHandle::child(BlockTopic(store.clone()), settings.clone());
        let (trust_hub, trust_hub_child) = HubHandle::child(TrustTopic::new(store.clone()), settings);
        let arbiter = Handle::new("arbiter", "arbiter", ARBITER_MAILBOX);
        let prefix = format!("vpr:{}:{}:cs:", registry.namespace().as_str(), status.node_info.network);
        let judging = trust::Judging::new(&config.trust, prefix, store.clone())?;
        let arbiter_args = trust::Args {
            judging: Arc::new(judging),
            writing: store.for_writing(),
            hub: trust_hub.clone(),
            patience: config.trust.patience(config.block_interval),
            live: status.sync_info.latest_block_height,
        };
        let follower_args = follower::Args {
            node: node.clone(),
            knowledge: block::Knowledge::of(registry.namespace())?,
            registry: Arc::clone(&registry),
            store: store.for_writing(),
            hub: hub.clone(),
            arbiter: arbiter.clone(),
            rpc: config.rpc.clone(),
            start,
            last_error: last_error.clone(),
        };
        supervisor
            .start(SupervisorSpec::one_for_one(vec![
                hub_child,
                trust_hub_child,
                ChildSpec::worker::<trust::Arbiter>(&arbiter, arbiter_args),
                ChildSpec::worker::<follower::Follower>(&follower, follower_args),
            ]))
            .await?;
        let reader = Reader::new(
            store.clone(),
            follower,
            last_error,
            status.node_info,
            registry.namespace().clone(),
            denom,
            config.rpc,
        );
        Ok(Self { supervisor, hub, trust_hub, reader, store })
    }

    /// Stops the actors, then closes the database.
    pub async fn shutdown(&self, patience: Duration) {
        self.supervisor.shutdown(patience).await;
        self.store.close().await;
    }
}

/// The denom of trust deposits: the chain's own coin, which no entity names.
async fn bond_denom(node: &NodeClient) -> Result<String, IndexerError> {
    let path = "/cosmos.staking.v1beta1.Query/Params";
    let answer: QueryParamsResponse = node.query(path, &QueryParamsRequest {}, 0).await?;
    let denom = answer.params.map(|params| params.bond_denom).filter(|denom| !denom.is_empty());
    denom.ok_or(IndexerError::Denom)
}

/// Where an empty store begins. The block after `checkpoint` must still be there.
fn first_height(config: &IndexerConfig, checkpoint: u64, oldest: u64) -> Result<u64, IndexerError> {
    let oldest = oldest.max(1);
    let (wanted, advice) = if checkpoint > 0 {
        (checkpoint + 1, "use a node that has it, or a new database")
    } else {
        (config.start.unwrap_or(oldest).max(1), "start there, or use a node that has it")
    };
    if wanted < oldest { Err(IndexerError::Pruned { wanted, oldest, advice }) } else { Ok(wanted) }
}

/// A chain that was started anew under its old name must not be mixed with what the store holds.
async fn assert_same_chain(node: &NodeClient, store: &store::Store, status: &Status) -> Result<(), IndexerError> {
    for (height, time) in store.ends().await? {
        // A node that has pruned a block cannot be asked for it, nor one that is still behind.
        if !(status.sync_info.earliest_block_height..=status.sync_info.latest_block_height).contains(&height) {
            continue;
        }
        let header = node.block(height).await?.block.header;
        let is_same = instant::parse_rfc3339(&header.time).as_ref().map(instant::nanos) == Some(time);
        if !is_same {
            let chain_id = status.node_info.network.clone();
            return Err(StoreError::OtherRun { chain_id, height }.into());
        }
    }
    Ok(())
}

/// The arbiter is told of blocks; of those it misses it hears with the next.
const ARBITER_MAILBOX: usize = 1_024;
/// The follower is only ever asked for its state.
const FOLLOWER_MAILBOX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_height_the_node_has_pruned_is_named_with_the_oldest_it_has() {
        let config = |start| IndexerConfig { start, ..IndexerConfig::new("http://n", "sqlite::memory:") };
        for (start, checkpoint, oldest, expected) in
            [(None, 0, 0, 1), (None, 0, 50, 50), (Some(70), 0, 50, 70), (None, 49, 50, 50), (Some(1), 80, 50, 81)]
        {
            let first = first_height(&config(start), checkpoint, oldest).expect("a height");
            assert_eq!(first, expected, "{start:?} {checkpoint} {oldest}");
        }
        for (start, checkpoint, text) in [
            (Some(7), 0, "the node has pruned block 7; its oldest block is 50: start there, or use a node that has it"),
            (
                None,
                20,
                "the node has pruned block 21; its oldest block is 50: use a node that has it, or a new database",
            ),
        ] {
            let error = first_height(&config(start), checkpoint, 50).expect_err("pruned");
            assert_eq!(error.to_string(), text);
        }
    }
}
