//! The comparison of the configured indexers with the node: one that follows another chain is left out.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::HeaderMap;
use serde::Serialize;
use serde_json::Value;
use svc_otel::metrics;
use svc_wire::index_identity::{BlockMark, IndexStanding, IndexStatement, NodeStatement, is_leading};
use tokio::time::{Instant, timeout};

use super::{
    endpoints::UpstreamEndpoints,
    http_client::HttpUpstream,
    indexer_reads::read_indexed_height,
    node_client::{NodeClient, NodeClientError},
    upstream_error::UpstreamError,
};

/// Longest comparison of one indexer.
const COMPARISON_TIMEOUT: Duration = Duration::from_secs(5);
/// Newest blocks of an indexer in which a message is looked for first.
const RECENT_BLOCKS: u64 = 1_000;

/// An indexer and its standing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IndexReport {
    /// Origin of the indexer.
    pub origin: String,
    /// Its standing.
    #[serde(flatten)]
    pub standing: IndexStanding,
}

impl IndexReport {
    /// The standing in words, where the indexer is not one of the node's chain for sure.
    pub fn problem(&self) -> Option<String> {
        let Self { origin, standing } = self;
        match standing {
            IndexStanding::Followed => None,
            IndexStanding::Unverified(reason) => {
                Some(format!("{origin} could not be compared with the node: {reason}"))
            }
            IndexStanding::LeftOut(reason) => Some(format!("{origin} is left out: {reason}")),
        }
    }
}

/// The last comparison of an indexer.
struct Comparison {
    standing: IndexStanding,
    /// Time of the last comparison; `None` before the first, and when it has to be repeated.
    at: Option<Instant>,
    /// Since when the indexer is far above the node.
    leads_since: Option<Instant>,
    /// Whether the block below the one that `ready` names is committed.
    commits_before_ready: bool,
}

/// Compares indexers with the node. Clones share the standings.
#[derive(Clone)]
pub struct IndexerGuard(Arc<GuardInner>);

struct GuardInner {
    endpoints: UpstreamEndpoints,
    /// The same servers, also where they are left out.
    direct: Vec<UpstreamEndpoints>,
    node: NodeClient,
    known: Mutex<Vec<Comparison>>,
}

impl IndexerGuard {
    /// Makes a guard of the servers of `endpoints`, of which none has been compared yet.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn new(endpoints: &UpstreamEndpoints, node: NodeClient) -> Result<Self, UpstreamError> {
        let direct = endpoints.with_own_connections()?.all();
        let first = || Comparison {
            standing: IndexStanding::Unverified("it has not been compared with the node yet".to_owned()),
            at: None,
            leads_since: None,
            commits_before_ready: false,
        };
        let known = Mutex::new(direct.iter().map(|_| first()).collect());
        Ok(Self(Arc::new(GuardInner { endpoints: endpoints.clone(), direct, node, known })))
    }

    fn with_known<R>(&self, change: impl FnOnce(&mut Vec<Comparison>) -> R) -> R {
        change(&mut self.0.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Compares each indexer whose standing is no longer good. An indexer or node that does not answer changes no standing.
    pub async fn compare_due(&self) {
        let now = Instant::now();
        let is_due = |one: &Comparison| one.at.is_none_or(|at| now.duration_since(at) >= one.standing.lasts());
        let due: Vec<usize> =
            self.with_known(|known| (0..known.len()).filter(|index| is_due(&known[*index])).collect());
        futures::future::join_all(due.into_iter().map(|index| self.compare(index))).await;
        self.publish();
    }

    /// Has an indexer compared again before its next heights count: another server may answer at its origin.
    pub fn doubt(&self, origin: &str) {
        let index = self.0.direct.iter().position(|one| one.current().origin() == origin);
        self.with_known(|known| {
            if let Some(one) = index.and_then(|index| known.get_mut(index)) {
                one.at = None;
            }
        });
    }

    async fn compare(&self, index: usize) {
        let upstream = self.0.direct[index].current();
        let leads_since = self.with_known(|known| known[index].leads_since);
        let compared = timeout(COMPARISON_TIMEOUT, self.judge(upstream, leads_since)).await;
        let failure = match compared {
            Ok(Ok(comparison)) => return self.record(index, comparison),
            Ok(Err(error)) => error,
            Err(_) => format!("no answer within {COMPARISON_TIMEOUT:?}"),
        };
        self.with_known(|known| {
            let one = &mut known[index];
            match &one.standing {
                IndexStanding::LeftOut(_) => {}
                // It has been compared, and nothing has happened since.
                IndexStanding::Followed if one.at.is_some() => {}
                IndexStanding::Followed | IndexStanding::Unverified(_) => {
                    one.standing = IndexStanding::Unverified(failure)
                }
            }
        });
    }

    async fn judge(&self, upstream: &HttpUpstream, leads_since: Option<Instant>) -> Result<Comparison, String> {
        let version = read_version(upstream, None).await.map_err(|error| error.to_string())?;
        let unanswered = |error: NodeClientError| format!("the node does not answer: {error}");
        let status = self.0.node.status().await.map_err(unanswered)?;
        let node_height = status.sync_info.latest_block_height;
        let (height, block) =
            find_common_block(upstream, &version, node_height).await.map_err(|error| error.to_string())?;
        let leads_since = is_leading(height, node_height).then(|| leads_since.unwrap_or_else(Instant::now));
        let chain_id = version["environment"]["network"]["chain_id"].as_str().filter(|id| !id.is_empty());
        let statement = IndexStatement {
            chain_id: chain_id.map(str::to_owned),
            height,
            leads_for: leads_since.map_or(Duration::ZERO, |since| since.elapsed()),
            block,
        };
        let block = match &statement.block {
            Some(block) => self.read_block(block.height).await.map_err(unanswered)?,
            None => None,
        };
        let node = NodeStatement { chain_id: status.node_info.network, height: node_height, block };
        Ok(Comparison {
            standing: IndexStanding::judge(&statement, &node),
            at: Some(Instant::now()),
            leads_since,
            commits_before_ready: version.get("newest_block").is_some(),
        })
    }

    /// A block of the node; `None` when no node has it any more.
    async fn read_block(&self, height: u64) -> Result<Option<BlockMark>, NodeClientError> {
        match self.0.node.read_at_any(|node| async move { node.block(height).await }).await {
            Ok(block) => {
                let hash = Some(block.block_id.hash).filter(|hash| !hash.is_empty());
                Ok(Some(BlockMark { height, hash, time: Some(block.block.header.time) }))
            }
            Err(error) if error.is_pruned() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn record(&self, index: usize, comparison: Comparison) {
        let standing = comparison.standing.clone();
        let origin = self.0.direct[index].current().origin();
        let left_out = match &standing {
            IndexStanding::LeftOut(reason) => Some(reason.clone()),
            IndexStanding::Followed | IndexStanding::Unverified(_) => None,
        };
        self.with_known(|known| {
            let before = &known[index].standing;
            match &standing {
                _ if *before == standing => {}
                IndexStanding::LeftOut(reason) => tracing::error!(origin, reason, "the indexer is left out"),
                IndexStanding::Unverified(reason) => {
                    tracing::warn!(origin, reason, "the indexer could not be compared with the node");
                }
                IndexStanding::Followed => tracing::info!(origin, "the indexer follows the node's chain"),
            }
            known[index] = comparison;
        });
        for one in self.0.endpoints.all().iter().map(UpstreamEndpoints::current).filter(|one| one.origin() == origin) {
            one.leave_out(left_out.clone());
        }
    }

    fn publish(&self) {
        let counts = self.with_known(|known| {
            ["followed", "unverified", "left_out"]
                .map(|label| (label, known.iter().filter(|one| one.standing.as_str() == label).count()))
        });
        for (standing, count) in counts {
            metrics::record_indexer_standing(standing, count);
        }
    }

    /// The indexers with their standings, in the order of the configuration.
    pub fn reports(&self) -> Vec<IndexReport> {
        let origins = self.0.direct.iter().map(|one| one.current().origin().to_owned());
        self.with_known(|known| {
            let standings = known.iter().map(|one| one.standing.clone());
            origins.zip(standings).map(|(origin, standing)| IndexReport { origin, standing }).collect()
        })
    }

    /// Whether the heights of the indexer at `origin` count: it follows the node's chain, and nothing has happened since it was compared.
    pub fn is_followed(&self, origin: &str) -> bool {
        let index = self.0.direct.iter().position(|one| one.current().origin() == origin);
        self.with_known(|known| {
            let one = index.and_then(|index| known.get(index));
            one.is_some_and(|one| one.at.is_some() && one.standing == IndexStanding::Followed)
        })
    }

    /// Whether the indexer at `origin` promises that the block before `ready.block` is committed. Another indexer may stand there since the
    /// last connection, so that the promise counts only after a comparison.
    pub fn commits_before_ready(&self, origin: &str) -> bool {
        let index = self.0.direct.iter().position(|one| one.current().origin() == origin);
        self.with_known(|known| {
            index.and_then(|index| known.get(index)).is_some_and(|one| one.at.is_some() && one.commits_before_ready)
        })
    }

    /// Whether every indexer is left out.
    pub fn has_none_left(&self) -> bool {
        self.with_known(|known| known.iter().all(|one| matches!(one.standing, IndexStanding::LeftOut(_))))
    }

    /// The reason for which the indexer in use could not be compared with the node.
    pub fn doubt_about_current(&self) -> Option<String> {
        let origin = self.0.endpoints.current().origin();
        let reports = self.reports();
        let current = reports.iter().find(|report| report.origin == origin)?;
        match &current.standing {
            IndexStanding::Unverified(reason) => Some(reason.clone()),
            IndexStanding::Followed | IndexStanding::LeftOut(_) => None,
        }
    }
}

/// Reads the version of an indexer, with a block where a height is given; `Null` where the route or the height is not there.
async fn read_version(upstream: &HttpUpstream, height: Option<u64>) -> Result<Value, UpstreamError> {
    let query = height.map_or_else(String::new, |height| format!("?block_height={height}"));
    match upstream.get("version", &format!("/v4/indexer/version{query}"), HeaderMap::new()).await {
        Ok(answer) => upstream.parse_json(&answer),
        Err(UpstreamError::Http { status: 400..=499, .. }) => Ok(Value::Null),
        Err(error) => Err(error),
    }
}

fn read_mark(block: &Value) -> Option<BlockMark> {
    let text = |name: &str| block[name].as_str().map(str::to_owned);
    let height = block["height"].as_u64().filter(|height| *height > 0)?;
    Some(BlockMark { height, hash: text("hash"), time: text("time") })
}

/// The newest height of an indexer, and a block of it that the node should have: of the version, or of a message where the indexer is of
/// another make.
async fn find_common_block(
    upstream: &HttpUpstream,
    version: &Value,
    node_height: u64,
) -> Result<(u64, Option<BlockMark>), UpstreamError> {
    if let Some(newest) = version.get("newest_block") {
        let height = newest["height"].as_u64().unwrap_or(0);
        if height <= node_height {
            return Ok((height, read_mark(newest)));
        }
        let at_node = read_version(upstream, Some(node_height)).await?;
        return Ok((height, read_mark(&at_node["block"])));
    }
    let height = read_indexed_height(upstream).await?;
    let newest_common = height.min(node_height);
    for after in [newest_common.saturating_sub(RECENT_BLOCKS), 0] {
        let path = format!("/v4/indexer/events?after_block_height={after}&limit=1");
        let answer = upstream.get("events", &path, HeaderMap::new()).await?;
        let page: Value = upstream.parse_json(&answer)?;
        let event = &page["events"][0];
        if let (Some(at), Some(time)) = (event["block_height"].as_u64(), event["timestamp"].as_str())
            && at <= node_height
        {
            return Ok((height, Some(BlockMark { height: at, hash: None, time: Some(time.to_owned()) })));
        }
    }
    Ok((height, None))
}
