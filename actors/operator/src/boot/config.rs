//! Configuration of an operator, and the chain it acts on.

use std::{collections::BTreeSet, time::Duration};

use svc_net::{host_policy::HostPolicy, upstream::UpstreamOrigins};
use svc_pipeline::{ChainExpectation, FeePolicy, SetGasPrice, WindowBound};
use svc_store::MinFreeSpace;
use tokio::sync::watch;

use super::error::BootSubject;

/// Longest wait for node and indexer at the start.
pub const BOOT_TIMEOUT: Duration = Duration::from_secs(60);

/// Configuration of an operator, validated.
#[derive(Debug, Clone)]
pub struct OperatorConfig {
    /// Corporation that the operator acts for.
    pub corporation_id: u64,
    /// Node RPC origins. One is used, the others when it fails.
    pub rpc: UpstreamOrigins,
    /// Whether a node may be asked without encryption over a public network.
    pub allows_plaintext_node: bool,
    /// Whether messages and fields that only the node's descriptors have can be used.
    pub uses_live_descriptors: bool,
    /// Indexer origins. One is used, the others when it fails.
    pub indexer: UpstreamOrigins,
    /// Graph origin, if there is a graph.
    pub graph: Option<String>,
    /// Hosts that DID Documents may lead to.
    pub hosts: HostPolicy,
    /// DIDs of agents that may ask for a login signature that names no audience.
    pub unbound_logins: BTreeSet<String>,
    /// Chain id that the node must have; `None` accepts the node's.
    pub chain_id: Option<String>,
    /// Fee denom; `None` means the chain's bond denom.
    pub denom: Option<String>,
    /// Price of gas, and the ceilings of a transaction.
    pub fees: FeePolicy,
    /// The price of gas as it was set; `None` uses the node's minimum where that is higher.
    pub set_price: Option<SetGasPrice>,
    /// Longest wait of a caller for inclusion.
    pub tx_timeout: Duration,
    /// Longest wait of a caller for the indexer.
    pub indexer_timeout: Duration,
    /// Time between two reads of the snapshot without another reason.
    pub refresh_period: Duration,
    /// Transactions in flight at once.
    pub window: WindowBound,
    /// File of the journal; `None` keeps it in memory.
    pub journal: Option<String>,
    /// Free bytes on the disk of the journal below which nothing is signed.
    pub min_free_disk: MinFreeSpace,
    /// File of the audit log; `None` keeps the newest records in memory.
    pub audit: Option<String>,
    /// The wait for node and indexer at the start.
    pub patience: BootPatience,
}

/// The wait of a start for servers that do not answer.
#[derive(Debug, Clone)]
pub struct BootPatience {
    /// The longest wait; `None` waits for as long as it takes.
    pub limit: Option<Duration>,
    /// The server that the start waits for; `None` when it waits for none.
    pub waiting_for: watch::Sender<Option<MissingServer>>,
}

/// A server that a start waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingServer {
    /// Its part: the node or the indexer.
    pub subject: BootSubject,
    /// Its last error.
    pub reason: String,
}

impl BootPatience {
    /// A start that waits for at most `limit`.
    pub fn limited(limit: Option<Duration>) -> Self {
        Self { limit, waiting_for: watch::Sender::new(None) }
    }
}

impl OperatorConfig {
    /// The chain that the node must have.
    pub(super) fn chain_expectation(&self) -> ChainExpectation {
        ChainExpectation {
            chain_id: self.chain_id.clone(),
            denom: self.denom.clone(),
            set_price: self.set_price.clone(),
            fees: self.fees,
            uses_live_descriptors: self.uses_live_descriptors,
        }
    }

    /// The contract's defaults for a corporation, a node and an indexer.
    pub fn new(corporation_id: u64, rpc: impl Into<UpstreamOrigins>, indexer: impl Into<UpstreamOrigins>) -> Self {
        Self {
            corporation_id,
            rpc: rpc.into(),
            indexer: indexer.into(),
            allows_plaintext_node: false,
            uses_live_descriptors: false,
            graph: None,
            hosts: HostPolicy::PublicOnly,
            unbound_logins: BTreeSet::new(),
            chain_id: None,
            denom: None,
            fees: FeePolicy::at_price(25_000),
            set_price: None,
            tx_timeout: Duration::from_secs(30),
            indexer_timeout: Duration::from_secs(15),
            refresh_period: Duration::from_secs(60),
            window: WindowBound::Adaptive,
            journal: None,
            min_free_disk: MinFreeSpace::default(),
            audit: None,
            patience: BootPatience::limited(Some(BOOT_TIMEOUT)),
        }
    }
}
