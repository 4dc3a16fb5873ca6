//! Discovery: the chain, the operator's account on it, and the corporation.

use svc_kit::{RetainedState, backoff::Backoff};
use svc_net::upstream::{MAX_LEAD, NodeClient, NodeClientError, UpstreamError, UpstreamKind};
use svc_pipeline::{AccountIdentity, BlockHead, RegistryChain, check_encryption, discover_chain, query_head};
use svc_wire::account_key::AccountKey;
use tokio::time::{Instant, sleep};

use super::{
    config::{BootPatience, MissingServer, OperatorConfig},
    error::BootError,
};
use crate::{
    barrier::IndexedHeight,
    clients::indexer::IndexerClient,
    refresher::{SnapshotSources, is_unknown_corporation, read_snapshot},
    snapshot::CorporationSnapshot,
};

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

/// The patience of one start.
struct BootWait<'a> {
    patience: &'a BootPatience,
    deadline: Option<Instant>,
}

/// Repeats a request until it is answered or the deadline has passed. An answer is final; a missing or unreadable one is retried.
async fn retry_until_deadline<T, E, F>(wait: &BootWait<'_>, mut request: impl FnMut() -> F) -> Result<T, BootError>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BootError> + std::fmt::Display,
{
    let mut attempt = 0_u32;
    loop {
        match request().await {
            Ok(answer) => {
                wait.patience.waiting_for.send_replace(None);
                return Ok(answer);
            }
            Err(error) => {
                let error = error.into();
                // A start with a limit ends at an answer that is an error, so that a supervisor sees it. One without a limit goes on
                // while another answer is possible: a node may be overloaded for a while.
                let is_final = match wait.deadline {
                    Some(deadline) => !error.is_passing() || Instant::now() >= deadline,
                    None => error.is_permanent(),
                };
                if is_final {
                    return Err(error);
                }
                if attempt == 0 {
                    let budget_s = wait.patience.limit.map(|limit| limit.as_secs() as i64);
                    tracing::warn!(%error, budget_s, "waiting for a server to come up");
                }
                let missing = MissingServer { subject: error.subject(), reason: error.to_string() };
                wait.patience.waiting_for.send_replace(Some(missing));
                sleep(Backoff::STARTUP.delay(attempt, 0.5)).await;
                attempt = attempt.saturating_add(1);
            }
        }
    }
}

/// Discovers the chain, the operator's account and the corporation.
pub async fn discover(config: &OperatorConfig, key: &AccountKey) -> Result<BootDiscovery, BootError> {
    let patience = &config.patience;
    let deadline = patience.limit.map(|limit| Instant::now() + limit);
    let wait = &BootWait { patience, deadline };
    check_encryption(&config.rpc, config.allows_plaintext_node).await?;
    let node = NodeClient::new(&config.rpc)?;
    // No clock knows a height yet: one that only a single node has is not believed.
    node.select_current(Some(0)).await;
    let expected = config.chain_expectation();
    let chain = retry_until_deadline(wait, || discover_chain(&node, &expected)).await?;
    let identity = AccountIdentity::new(key, &chain.params.prefix)?;
    tracing::info!(
        address = %identity.address, chain_id = chain.params.chain_id, denom = chain.params.denom,
        namespace = %chain.registry.namespace(), "operator account is derived"
    );
    let indexed_height = RetainedState::new(IndexedHeight::default());
    let indexer = IndexerClient::new(&config.indexer, indexed_height.clone(), node.clone())?;
    let snapshot = CorporationSnapshot::default();
    let head = retry_until_deadline(wait, || query_head(&node)).await?;
    let mut discovery = BootDiscovery { chain, identity, node, indexer, indexed_height, snapshot, head };
    discovery.snapshot = discover_snapshot(config, &discovery, wait).await?;
    // The snapshot may have waited for the indexer.
    discovery.head = retry_until_deadline(wait, || query_head(&discovery.node)).await?;
    Ok(discovery)
}

/// Height of the newest block that the indexer has.
pub(super) async fn indexer_height(indexer: &IndexerClient) -> Result<u64, UpstreamError> {
    let answer = indexer.get("block-height", "/v4/indexer/block-height", &[], None).await?;
    answer["height"].as_u64().ok_or_else(|| UpstreamError::Protocol {
        kind: UpstreamKind::Indexer,
        reason: "its block-height has no height".to_owned(),
        body: answer.to_string(),
    })
}

async fn read_first_snapshot(
    sources: &SnapshotSources,
    none: &CorporationSnapshot,
    discovery: &BootDiscovery,
) -> Result<CorporationSnapshot, BootError> {
    match read_snapshot(sources, none).await {
        Err(error) if is_unknown_corporation(&error) => {
            // An indexer that has just begun may not have reached the block that founds it.
            let indexed = indexer_height(&discovery.indexer).await.map_err(NodeClientError::from)?;
            let head = discovery.head.height;
            Err(if indexed < head { BootError::IndexerBehind { indexed, head } } else { error.into() })
        }
        read => read.map_err(BootError::from),
    }
}

async fn discover_snapshot(
    config: &OperatorConfig,
    discovery: &BootDiscovery,
    wait: &BootWait<'_>,
) -> Result<CorporationSnapshot, BootError> {
    let sources = discovery.sources(config.corporation_id);
    let none = CorporationSnapshot::default();
    let read = async || {
        // Nothing is read from an indexer before it is compared with the node.
        discovery.indexer.choose_endpoint(Some(discovery.head.height.saturating_add(MAX_LEAD))).await;
        read_first_snapshot(&sources, &none, discovery).await
    };
    let snapshot = match retry_until_deadline(wait, read).await {
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
