//! Discovery: the chain, the operator's account on it, and the corporation.

use std::{sync::Arc, time::Duration};

use svc_kit::RetainedState;
use svc_net::{
    plaintext::PlaintextReach,
    upstream::{FailoverError, NodeClient, NodeClientError},
};
use svc_pipeline::{AccountIdentity, BlockHead, ChainParams, query_address_prefix, query_bond_denom, query_head};
use svc_wire::{
    account_key::AccountKey,
    comet_rpc::NodeInfo,
    proto_registry::{DescriptorComparison, Namespace, ProtoRegistry, ProtoRegistryError},
};
use tokio::time::{Instant, sleep};

use super::{
    config::{OperatorConfig, RegistryChain},
    error::BootError,
};
use crate::{
    barrier::IndexedHeight,
    clients::indexer::IndexerClient,
    refresher::{SnapshotSources, is_unknown_corporation, read_snapshot},
    snapshot::CorporationSnapshot,
};

/// Longest wait for node and indexer at the start.
pub const BOOT_TIMEOUT: Duration = Duration::from_secs(60);
/// Pause before a server that did not answer is asked again.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// The result of the discovery.
pub struct BootDiscovery {
    pub chain: RegistryChain,
    pub identity: AccountIdentity,
    pub node: NodeClient,
    pub indexer: IndexerClient,
    /// Height of the indexer.
    pub indexed_height: RetainedState<IndexedHeight>,
    pub snapshot: CorporationSnapshot,
    /// Newest block at the end of the discovery. Timeout heights count from it until the first block.
    pub head: BlockHead,
}

impl BootDiscovery {
    /// Sources of the following snapshots.
    pub fn sources(&self, corporation_id: u64) -> SnapshotSources {
        SnapshotSources {
            corporation_id,
            identity: self.identity.clone(),
            chain: self.chain.clone(),
            node: self.node.clone(),
            indexer: self.indexer.clone(),
        }
    }
}

/// Repeats a request until it is answered or the deadline has passed. An answer is final; a missing or unreadable one is retried.
async fn retry_until_deadline<T, F>(deadline: Instant, mut request: impl FnMut() -> F) -> Result<T, BootError>
where
    F: Future<Output = Result<T, NodeClientError>>,
{
    let mut has_logged = false;
    loop {
        match request().await {
            Ok(answer) => return Ok(answer),
            Err(error) if error.allows_failover() && Instant::now() < deadline => {
                if !has_logged {
                    tracing::warn!(%error, budget_s = BOOT_TIMEOUT.as_secs() as i64, "waiting for a server to come up");
                    has_logged = true;
                }
                sleep(RETRY_DELAY).await;
            }
            Err(error) => return Err(BootError::Unreachable(error)),
        }
    }
}

/// Discovers the chain, the operator's account and the corporation.
pub async fn discover(config: &OperatorConfig, key: &AccountKey) -> Result<BootDiscovery, BootError> {
    let deadline = Instant::now() + BOOT_TIMEOUT;
    check_encryption(config).await?;
    let node = NodeClient::new(&config.rpc)?;
    // No clock knows a height yet: one that only a single node has is not believed.
    node.select_current(Some(0)).await;
    let chain = discover_chain(config, &node, deadline).await?;
    let identity = AccountIdentity::new(key, &chain.params.prefix)?;
    tracing::info!(
        address = %identity.address, chain_id = chain.params.chain_id, denom = chain.params.denom,
        namespace = %chain.registry.namespace(), "operator account is derived"
    );
    let indexed_height = RetainedState::new(IndexedHeight::default());
    let indexer = IndexerClient::new(&config.indexer, indexed_height.clone())?;
    indexer.choose_endpoint().await;
    let snapshot = CorporationSnapshot::default();
    let head = retry_until_deadline(deadline, || query_head(&node)).await?;
    let mut discovery = BootDiscovery { chain, identity, node, indexer, indexed_height, snapshot, head };
    discovery.snapshot = discover_snapshot(config, &discovery, deadline).await?;
    // The snapshot may have waited for the indexer.
    discovery.head = retry_until_deadline(deadline, || query_head(&discovery.node)).await?;
    Ok(discovery)
}

/// Refuses a node without encryption at a public address, unless the configuration allows it.
async fn check_encryption(config: &OperatorConfig) -> Result<(), BootError> {
    for origin in config.rpc.iter() {
        match PlaintextReach::of_origin(origin).await {
            PlaintextReach::Encrypted | PlaintextReach::Loopback => {}
            PlaintextReach::PublicNetwork if !config.allows_plaintext_node => {
                return Err(BootError::PlaintextNode { origin: origin.to_owned() });
            }
            PlaintextReach::PublicNetwork | PlaintextReach::PrivateNetwork => {
                tracing::warn!(origin, "the node is asked without encryption: its answers can be changed on the way");
            }
        }
    }
    Ok(())
}

/// The state of a node's transaction index in words.
pub(super) fn describe_index(node: &NodeInfo) -> &'static str {
    if node.is_index_off() {
        "its transaction index is off: outcomes of writes are read from blocks, and transactions of others cannot be looked up"
    } else {
        "its transaction index is on"
    }
}

async fn discover_chain(
    config: &OperatorConfig,
    node: &NodeClient,
    deadline: Instant,
) -> Result<RegistryChain, BootError> {
    let status = retry_until_deadline(deadline, || async {
        let status = node.status().await;
        if status.is_err() {
            node.select_current(Some(0)).await;
        }
        status
    })
    .await?;
    if status.node_info.is_index_off() {
        tracing::warn!(origin = node.origin(), "{}", describe_index(&status.node_info));
    }
    let chain_id = status.node_info.network;
    if let Some(expected) = config.chain_id.as_ref().filter(|expected| **expected != chain_id) {
        return Err(BootError::ChainId { expected: expected.clone(), found: chain_id, rpc: config.rpc.clone() });
    }
    node.bind_to_chain(&chain_id);
    let prefix = retry_until_deadline(deadline, || query_address_prefix(node)).await?;
    let registry = Arc::new(discover_registry(node, &prefix, config.uses_live_descriptors).await?);
    let denom = match &config.denom {
        Some(denom) => denom.clone(),
        None => retry_until_deadline(deadline, || query_bond_denom(node)).await?,
    };
    if let Some(priced) = config.gas_price_denom.as_ref().filter(|priced| **priced != denom) {
        return Err(BootError::GasPriceDenom { priced: priced.clone(), denom });
    }
    let params = ChainParams { chain_id, denom, prefix, fees: config.fees };
    Ok(RegistryChain { params, registry })
}

async fn discover_snapshot(
    config: &OperatorConfig,
    discovery: &BootDiscovery,
    deadline: Instant,
) -> Result<CorporationSnapshot, BootError> {
    let sources = discovery.sources(config.corporation_id);
    let none = CorporationSnapshot::default();
    let snapshot = match retry_until_deadline(deadline, || read_snapshot(&sources, &none)).await {
        Err(BootError::Unreachable(error)) if is_unknown_corporation(&error) => {
            return Err(BootError::UnknownCorporation { id: config.corporation_id, indexer: config.indexer.clone() });
        }
        other => other?,
    };
    if snapshot.authorizations.is_empty() && snapshot.own_vs_records().next().is_none() {
        tracing::warn!(
            corporation = config.corporation_id,
            "no authorization for this operator: reads work, writes do not"
        );
    }
    Ok(snapshot)
}

/// The compiled-in descriptors under the chain's namespace word, after a comparison with those that the node serves: the signer signs
/// the messages that were compiled. Those of the node are used only when the configuration says so.
async fn discover_registry(
    node: &NodeClient,
    prefix: &str,
    uses_live_descriptors: bool,
) -> Result<ProtoRegistry, BootError> {
    let served = node.query_bytes("/cosmos.reflection.v1.ReflectionService/FileDescriptors", &[], 0).await;
    let live = served
        .map_err(|error| error.to_string())
        .and_then(|bytes| ProtoRegistry::from_live(&bytes).map_err(|error| error.to_string()));
    let live = match live {
        Ok(live) => live,
        Err(reason) => {
            tracing::warn!(
                reason,
                "the node's descriptors are unusable, and are not compared with the compiled-in ones"
            );
            let word = Namespace::new(prefix).map_err(|error| ProtoRegistryError::Descriptors(error.to_string()))?;
            return Ok(ProtoRegistry::compiled(&word)?);
        }
    };
    let compiled = ProtoRegistry::compiled(live.namespace())?;
    let DescriptorComparison { differences, unknown } = live.compare_with_compiled(&compiled);
    if !differences.is_empty() {
        return Err(BootError::DescriptorMismatch { origin: node.origin().to_owned(), differences });
    }
    if !unknown.is_empty() {
        let fields = unknown.join(", ");
        tracing::info!(
            fields,
            used = uses_live_descriptors,
            "the chain has messages or fields that this release does not know"
        );
    }
    Ok(if uses_live_descriptors { live } else { compiled })
}
