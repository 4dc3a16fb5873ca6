//! From settings to a running operator: learn the chain, find the corporation, start the actors.

use std::{sync::Arc, time::Duration};

use svc_kit::{
    Retained,
    did::DidClientError,
    supervise::SuperviseError,
    upstream::{Kind, NoAnswer, NodeClient, NodeError, Origins, UpstreamError},
};
use svc_wire::{
    account::AddressError,
    key::AccountKey,
    proto::cosmos::{
        auth::v1beta1::{Bech32PrefixRequest, Bech32PrefixResponse},
        staking::v1beta1::{QueryParamsRequest, QueryParamsResponse},
    },
    schema::{Namespace, Registry, SchemaError},
};
use tokio::time::{Instant, sleep};

use crate::{
    barrier::Cursor,
    chain::{ChainParams, Identity, OperatorConfig},
    indexer_client::IndexerClient,
    recovery::RecoveryError,
    refresher::{self, Sources},
    snapshot::Snapshot,
};

/// Why an operator did not start.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The node is on another chain.
    #[error("SVC_CHAIN_ID is {expected:?}, the node at {rpc} runs {found:?}")]
    ChainId {
        /// From the settings.
        expected: String,
        /// The node's.
        found: String,
        /// Which node.
        rpc: Origins,
    },
    /// There is no such corporation.
    #[error("SVC_CORPORATION {id} does not exist in the indexer at {indexer}")]
    UnknownCorporation {
        /// From the settings.
        id: u64,
        /// Which indexer.
        indexer: Origins,
    },
    /// The node or the indexer did not answer within the boot budget.
    #[error("{variable}: {cause}")]
    Unreachable {
        /// The setting that names the server.
        variable: &'static str,
        /// The last failure; silence was asked again for the whole boot budget.
        cause: NodeError,
    },
    /// The client for DID Documents could not be made.
    #[error("no HTTP client: {0}")]
    Client(#[from] DidClientError),
    /// An origin is not usable.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The chain's messages are not usable.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The chain's prefix is not usable.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Journal or audit cannot be used.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// The actors did not start.
    #[error(transparent)]
    Supervise(#[from] SuperviseError),
}

/// How long links may stay down at boot.
pub const BOOT_BUDGET: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_millis(500);

/// What the boot has learnt.
pub struct Learnt {
    pub chain: ChainParams,
    pub identity: Identity,
    pub node: NodeClient,
    pub indexer: IndexerClient,
    /// How far the indexer is.
    pub cursor: Retained<Cursor>,
    pub snapshot: Snapshot,
    /// Height of the chain when all else was known: timeout heights count from it until a block is heard.
    pub height: u64,
}

/// Asks until it is answered or the budget is used up. What the other side answers is final; silence, and what cannot be read,
/// is asked again.
async fn within_budget<T, F>(deadline: Instant, mut ask: impl FnMut() -> F) -> Result<T, BootError>
where
    F: Future<Output = Result<T, NodeError>>,
{
    let mut was_told = false;
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) if error.is_no_answer() && Instant::now() < deadline => {
                if !was_told {
                    tracing::warn!(%error, budget_s = BOOT_BUDGET.as_secs() as i64, "waiting for a server to come up");
                    was_told = true;
                }
                sleep(RETRY).await;
            }
            Err(cause) => return Err(BootError::Unreachable { variable: variable_of(&cause), cause }),
        }
    }
}

/// The setting that names the server a failure is about.
fn variable_of(error: &NodeError) -> &'static str {
    let kind = match error {
        NodeError::Upstream(
            UpstreamError::Unreachable { kind, .. }
            | UpstreamError::Http { kind, .. }
            | UpstreamError::Protocol { kind, .. }
            | UpstreamError::Saturated { kind, .. },
        ) => *kind,
        NodeError::Rpc { .. } | NodeError::Query { .. } => Kind::Rpc,
    };
    if kind == Kind::Indexer { "SVC_INDEXER" } else { "SVC_RPC" }
}

/// Learns the chain, the operator's place on it, and the corporation.
pub async fn learn(config: &OperatorConfig, key: &AccountKey) -> Result<Learnt, BootError> {
    let deadline = Instant::now() + BOOT_BUDGET;
    let node = NodeClient::new(&config.rpc)?;
    let status = within_budget(deadline, || async {
        let status = node.status().await;
        if status.is_err() {
            node.choose().await;
        }
        status
    })
    .await?;
    let chain_id = status.node_info.network;
    if let Some(expected) = config.chain_id.as_ref().filter(|expected| **expected != chain_id) {
        return Err(BootError::ChainId { expected: expected.clone(), found: chain_id, rpc: config.rpc.clone() });
    }
    node.bind_to_chain(&chain_id);
    let prefix = within_budget(deadline, || async {
        let path = "/cosmos.auth.v1beta1.Query/Bech32Prefix";
        node.query::<_, Bech32PrefixResponse>(path, &Bech32PrefixRequest {}, 0).await
    })
    .await?
    .bech32_prefix;
    let registry = learn_registry(&node, &prefix).await?;
    let denom = match &config.denom {
        Some(denom) => denom.clone(),
        None => {
            let params = within_budget(deadline, || async {
                let path = "/cosmos.staking.v1beta1.Query/Params";
                node.query::<_, QueryParamsResponse>(path, &QueryParamsRequest {}, 0).await
            });
            params.await?.params.map(|params| params.bond_denom).unwrap_or_default()
        }
    };
    let identity = Identity { address: key.public_key().address(&prefix)?, public_key: key.public_key() };
    tracing::info!(
        address = %identity.address, chain_id, denom, namespace = %registry.namespace(), "operator account is derived"
    );
    let chain = ChainParams {
        chain_id,
        denom,
        prefix,
        registry: Arc::new(registry),
        gas_price_micros: config.gas_price_micros,
    };
    let cursor = Retained::new(Cursor::default());
    let indexer = IndexerClient::new(&config.indexer, cursor.clone())?;
    indexer.choose().await;
    let sources = Sources {
        corporation_id: config.corporation_id,
        identity: identity.clone(),
        chain: chain.clone(),
        node: node.clone(),
        indexer: indexer.clone(),
    };
    let unknown = || BootError::UnknownCorporation { id: config.corporation_id, indexer: config.indexer.clone() };
    let nothing = Snapshot::default();
    let snapshot = match within_budget(deadline, || refresher::read(&sources, &nothing)).await {
        Err(BootError::Unreachable { cause, .. }) if refresher::is_unknown_corporation(&cause) => {
            return Err(unknown());
        }
        other => other?,
    };
    if snapshot.authorizations.is_empty() && snapshot.own_records().next().is_none() {
        tracing::warn!(
            corporation = config.corporation_id,
            "no authorization for this operator: reads serve, writes do not"
        );
    }
    let height = within_budget(deadline, || node.status()).await?.sync_info.latest_block_height;
    Ok(Learnt { chain, identity, node, indexer, cursor, snapshot, height })
}

/// The node's own descriptors when it serves them, the compiled-in ones under the chain's word otherwise.
async fn learn_registry(node: &NodeClient, prefix: &str) -> Result<Registry, BootError> {
    let served = node.query_bytes("/cosmos.reflection.v1.ReflectionService/FileDescriptors", &[], 0).await;
    let live = served
        .map_err(|error| error.to_string())
        .and_then(|bytes| Registry::from_live(&bytes).map_err(|error| error.to_string()));
    match live {
        Ok(live) => {
            let compiled = Registry::compiled(live.namespace())?;
            for addition in live.additions_over(&compiled) {
                tracing::info!(field = addition, "the chain has a field this release does not know; it can be used");
            }
            Ok(live)
        }
        Err(reason) => {
            tracing::warn!(reason, "the node's descriptors cannot be used, the compiled-in ones are");
            let word = Namespace::new(prefix).map_err(|error| SchemaError::Descriptors(error.to_string()))?;
            Ok(Registry::compiled(&word)?)
        }
    }
}
