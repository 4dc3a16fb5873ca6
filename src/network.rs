//! The whole network in one process: devnet node, indexer, tool server, over real sockets on loopback.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context;
use svc_devnet::{Devnet, DevnetConfig, GAS_PRICE_MICROS, Seat, node::Node};
use svc_indexer::{Indexer, IndexerConfig, TrustConfig};
use svc_kit::{hosts::HostPolicy, upstream::Origins};
use svc_operator::{Operator, OperatorConfig, WindowBound};
use svc_wire::{key::AccountKey, secret::Secret};

use crate::{
    blocks,
    mcp::{Front, HttpServer, HttpServerConfig, Selection, SessionLimits},
    process::{self, Process},
};

/// How a network is made.
#[derive(Debug, Clone)]
pub struct NetworkConfig {
    /// The chain.
    pub devnet: DevnetConfig,
    /// Store of the indexer.
    pub database: String,
    /// Where the indexer listens.
    pub indexer_listen: SocketAddr,
    /// Where the tool server listens.
    pub mcp_listen: SocketAddr,
    /// Token of the tool server; `None` makes one.
    pub bearer: Option<String>,
    /// How long a write waits for inclusion.
    pub tx_timeout: Duration,
    /// How long a write waits for the indexer.
    pub indexer_timeout: Duration,
    /// Graph of the tool server, if there is one.
    pub graph: Option<String>,
    /// Further nodes of the chain, for the tool server to fall back on.
    pub replicas: usize,
    /// Further indexers.
    pub more_indexers: usize,
    /// Transactions in flight at once.
    pub window: WindowBound,
    /// File of the tool server's journal; `None` keeps it in memory.
    pub journal: Option<String>,
    /// File of its audit; `None` keeps the newest records in memory.
    pub audit: Option<String>,
    /// Which tools the tool server has.
    pub selection: Selection,
    /// Bounds of its sessions.
    pub sessions: SessionLimits,
}

impl Default for NetworkConfig {
    fn default() -> Self {
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            devnet: DevnetConfig::default(),
            database: "sqlite::memory:".to_owned(),
            indexer_listen: any_port,
            mcp_listen: any_port,
            bearer: None,
            tx_timeout: Duration::from_secs(30),
            indexer_timeout: Duration::from_secs(15),
            graph: None,
            replicas: 0,
            more_indexers: 0,
            window: WindowBound::Adaptive,
            journal: None,
            audit: None,
            selection: Selection::default(),
            sessions: SessionLimits::default(),
        }
    }
}

/// A running network.
pub struct Network {
    /// The chain.
    pub devnet: Devnet,
    /// Whose place the tool server takes.
    pub seat: Seat,
    /// The operator behind the tool server.
    pub operator: Operator,
    /// The tool server's front.
    pub front: Arc<Front>,
    /// Token of the tool server.
    pub bearer: String,
    /// Further nodes of the chain, behind the first in the tool server's list.
    pub replicas: Vec<Node>,
    server: HttpServer,
    indexer: IndexerProcess,
    more_indexers: Vec<IndexerProcess>,
}

/// A chain and its indexer: a network before anybody takes a place in it.
pub struct Grounds {
    /// The chain.
    pub devnet: Devnet,
    replicas: Vec<Node>,
    indexer: IndexerProcess,
    more_indexers: Vec<IndexerProcess>,
}

impl Grounds {
    /// Starts both, and waits until the indexer knows what the scenario did.
    pub async fn launch(config: &NetworkConfig) -> anyhow::Result<Self> {
        let devnet = Devnet::launch(config.devnet.clone()).await?;
        let pace = config.devnet.block_time;
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let replicas: Result<Vec<Node>, _> = (0..config.replicas).map(|_| devnet.node.replica(any_port)).collect();
        let indexer = IndexerProcess::start_at(&devnet, pace, &config.database, config.indexer_listen).await?;
        let mut more_indexers = Vec::new();
        for _ in 0..config.more_indexers {
            more_indexers.push(IndexerProcess::start_at(&devnet, pace, "sqlite::memory:", any_port).await?);
        }
        Ok(Self { devnet, replicas: replicas?, indexer, more_indexers })
    }

    /// Origin of the indexer.
    pub fn indexer_origin(&self) -> String {
        format!("http://{}", self.indexer.address)
    }
}

/// How long a devnet's verdicts are waited for: where blocks are made on order, no next one takes in what was too slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// The indexer on a runtime of its own.
struct IndexerProcess {
    config: IndexerConfig,
    address: SocketAddr,
    process: Option<Process>,
}

impl IndexerProcess {
    /// Starts one, and waits until it knows what the scenario did.
    async fn start_at(
        devnet: &Devnet,
        pace: Option<Duration>,
        database: &str,
        address: SocketAddr,
    ) -> anyhow::Result<Self> {
        // The devnet's services are on loopback, and its blocks may come faster than unoptimised code judges all of them.
        let trust = TrustConfig { hosts: HostPolicy::AllowPrivate, patience: Some(PATIENCE), ..TrustConfig::default() };
        let block_interval = pace.unwrap_or(Duration::from_secs(1));
        let config =
            IndexerConfig { block_interval, trust, ..IndexerConfig::new(devnet.node.origin(), database.to_owned()) };
        let mut indexer = Self { config, address, process: None };
        indexer.start().await?;
        wait_until_indexed(devnet, indexer.address).await?;
        Ok(indexer)
    }

    async fn start(&mut self) -> anyhow::Result<()> {
        let listener = process::bind(self.address).with_context(|| format!("cannot listen on {}", self.address))?;
        self.address = listener.local_addr()?;
        let config = self.config.clone();
        let (process, started) = Process::launch("indexer", async move {
            let indexer = Indexer::launch(config).await?;
            tokio::spawn(blocks::serve(listener, blocks::Front::new(&indexer)));
            Ok::<(), svc_indexer::IndexerError>(())
        })
        .await?;
        self.process = Some(process);
        Ok(started?)
    }
}

impl Network {
    /// Starts everything and waits until the tool server serves.
    pub async fn launch(config: NetworkConfig) -> anyhow::Result<Self> {
        let Grounds { devnet, replicas, indexer, more_indexers } = Grounds::launch(&config).await?;
        let rpc = replicas.iter().fold(Origins::from(devnet.node.origin()), |all, node| all.and(node.origin()));
        let first = Origins::from(format!("http://{}", indexer.address));
        let indexers = more_indexers.iter().fold(first, |all, one| all.and(format!("http://{}", one.address)));
        let seat = devnet.seat.clone().context("the scenario has no seat for a tool server")?;
        let account = devnet.accounts.get(&seat.operator_name).context("the seat's operator has no account")?;
        let key = AccountKey::from_mnemonic(&account.phrase)?;
        let operator_config = OperatorConfig {
            graph: config.graph.clone(),
            hosts: HostPolicy::AllowPrivate,
            gas_price_micros: GAS_PRICE_MICROS,
            tx_timeout: config.tx_timeout,
            indexer_timeout: config.indexer_timeout,
            window: config.window,
            journal: config.journal.clone(),
            audit: config.audit.clone(),
            ..OperatorConfig::new(seat.corporation_id, rpc, indexers)
        };
        let operator = Operator::boot(operator_config, key).await?;
        let front = Front::new(operator.clone(), &config.selection)?;
        let bearer = config.bearer.unwrap_or_else(|| uuid::Uuid::new_v4().simple().to_string());
        let listener =
            process::bind(config.mcp_listen).with_context(|| format!("cannot listen on {}", config.mcp_listen))?;
        let http = HttpServerConfig {
            bearer: Secret::new(bearer.clone()),
            allowed_hosts: Vec::new(),
            sessions: config.sessions,
        };
        let server = HttpServer::start(listener, Arc::clone(&front), http)?;
        Ok(Self { devnet, seat, operator, front, bearer, replicas, server, indexer, more_indexers })
    }

    /// URL of the MCP endpoint.
    pub fn mcp_url(&self) -> String {
        format!("http://{}/mcp", self.server.address)
    }

    /// Origin of the tool server.
    pub fn server_origin(&self) -> String {
        format!("http://{}", self.server.address)
    }

    /// Origin of the indexer.
    pub fn indexer_origin(&self) -> String {
        format!("http://{}", self.indexer.address)
    }

    /// Origins of the further indexers.
    pub fn more_indexer_origins(&self) -> Vec<String> {
        self.more_indexers.iter().map(|indexer| format!("http://{}", indexer.address)).collect()
    }

    /// Ends the indexer as a kill would.
    pub fn stop_indexer(&mut self) {
        self.indexer.process = None;
    }

    /// Starts the indexer again on the same port.
    pub async fn start_indexer(&mut self) -> anyhow::Result<()> {
        self.indexer.start().await
    }

    /// Stops everything, letting writes end.
    pub async fn shutdown(self, patience: Duration) {
        self.front.drain();
        self.operator.shutdown(patience).await;
        self.server.stop(Duration::from_secs(2)).await;
    }
}

/// The corporation exists on chain; the tool server boots from the indexer, so it must be there too.
async fn wait_until_indexed(devnet: &Devnet, indexer: SocketAddr) -> anyhow::Result<()> {
    let wanted = *devnet.node.heights().borrow();
    let url = format!("http://{indexer}/v4/indexer/status");
    let mut heights = devnet.node.heights();
    loop {
        let status: serde_json::Value = reqwest::get(&url).await?.json().await?;
        let is_judged = status["trust"]["block_height"].as_u64().is_some_and(|height| height >= wanted);
        if is_judged && status["trust"]["dids_to_judge"] == 0 {
            return Ok(());
        }
        // On a chain that makes blocks on order only, no height will change.
        let _ = tokio::time::timeout(Duration::from_millis(50), heights.changed()).await;
    }
}
