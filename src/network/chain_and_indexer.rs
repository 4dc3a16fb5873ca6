//! A chain and its indexers, without a tool server.

use std::{net::SocketAddr, time::Duration};

use anyhow::Context;
use svc_devnet::{Devnet, node::Node};
use svc_indexer::{EssentialSchemas, Indexer, IndexerConfig, TrustConfig};
use svc_net::{client_tls::http_client_builder, host_policy::HostPolicy};

use super::{config::LocalNetworkConfig, isolated_runtime::IsolatedRuntime};
use crate::{
    indexer,
    listener::{ListenerConfig, bind_listener},
};

/// A chain and its indexers: a network before a tool server joins it.
pub struct ChainAndIndexer {
    /// The chain.
    pub devnet: Devnet,
    pub(super) extra_nodes: Vec<Node>,
    pub(super) indexer: LocalIndexer,
    pub(super) extra_indexers: Vec<LocalIndexer>,
}

impl ChainAndIndexer {
    /// Starts the chain and the indexers, and waits until each indexer has ingested the scenario.
    pub async fn launch(config: &LocalNetworkConfig) -> anyhow::Result<Self> {
        let devnet = Devnet::launch(config.devnet.clone()).await?;
        let block_time = config.devnet.block_time;
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let extra_nodes: Result<Vec<Node>, _> =
            (0..config.extra_nodes).map(|_| devnet.node.start_replica(any_port)).collect();
        let indexer = LocalIndexer::start_at(&devnet, block_time, &config.database, config.indexer_listen).await?;
        let mut extra_indexers = Vec::new();
        for _ in 0..config.extra_indexers {
            extra_indexers.push(LocalIndexer::start_at(&devnet, block_time, "sqlite::memory:", any_port).await?);
        }
        Ok(Self { devnet, extra_nodes: extra_nodes?, indexer, extra_indexers })
    }

    /// Origin of the first indexer.
    pub fn indexer_origin(&self) -> String {
        self.indexer.origin()
    }
}

/// The essential schemas of a devnet. It relies on the ecosystem of its services.
pub fn essential_schemas(devnet: &Devnet) -> EssentialSchemas {
    EssentialSchemas::default().in_ecosystems(devnet.ecosystem_did())
}

/// Longest wait of an indexer for the verdicts of a block. A chain that makes blocks on order only has no next block that could
/// take in a late verdict.
const VERDICT_TIMEOUT: Duration = Duration::from_secs(60);

/// An indexer on a runtime of its own.
pub(super) struct LocalIndexer {
    config: IndexerConfig,
    address: SocketAddr,
    runtime: Option<IsolatedRuntime>,
}

impl LocalIndexer {
    /// Starts an indexer and waits until it has ingested the scenario.
    async fn start_at(
        devnet: &Devnet,
        block_time: Option<Duration>,
        database: &str,
        address: SocketAddr,
    ) -> anyhow::Result<Self> {
        // The devnet's services are on loopback, and its blocks may come faster than unoptimised code evaluates all DIDs.
        let trust = TrustConfig {
            hosts: HostPolicy::AllowPrivate,
            essential_schemas: essential_schemas(devnet),
            wait_limit: Some(VERDICT_TIMEOUT),
            patience: None,
        };
        let block_interval = Some(block_time.unwrap_or(Duration::from_secs(1)));
        let config =
            IndexerConfig { block_interval, trust, ..IndexerConfig::new(devnet.node.origin(), database.to_owned()) };
        let mut indexer = Self { config, address, runtime: None };
        indexer.start().await?;
        wait_until_indexed(devnet, indexer.address).await?;
        Ok(indexer)
    }

    /// Starts the indexer on its address. A restart takes the same port.
    pub(super) async fn start(&mut self) -> anyhow::Result<()> {
        let listener = bind_listener(self.address).with_context(|| format!("cannot listen on {}", self.address))?;
        self.address = listener.local_addr()?;
        let config = self.config.clone();
        let (runtime, started) = IsolatedRuntime::launch("indexer", async move {
            let indexer = Indexer::launch(config).await?;
            tokio::spawn(indexer::serve(
                listener,
                indexer::IndexerApi::new(&indexer),
                ListenerConfig::for_local_network(),
            ));
            Ok::<(), svc_indexer::IndexerError>(())
        })
        .await?;
        self.runtime = Some(runtime);
        Ok(started?)
    }

    /// Ends the indexer without a drain.
    pub(super) fn kill(&mut self) {
        self.runtime = None;
    }

    /// Waits until the indexer has the newest block with its verdicts.
    pub(super) async fn await_newest(&self, devnet: &Devnet) -> anyhow::Result<()> {
        wait_until_indexed(devnet, self.address).await
    }

    /// Origin of the indexer.
    pub(super) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Waits until the indexer has ingested the newest block and evaluated all DIDs: the tool server boots from the indexer, which must
/// have the corporation of the scenario.
async fn wait_until_indexed(devnet: &Devnet, indexer: SocketAddr) -> anyhow::Result<()> {
    let wanted = *devnet.node.watch_heights().borrow();
    let url = format!("http://{indexer}/v4/indexer/status");
    let (client, mut heights) = (http_client_builder().no_proxy().build()?, devnet.node.watch_heights());
    loop {
        let status: serde_json::Value = client.get(&url).send().await?.json().await?;
        let is_judged = status["trust"]["block_height"].as_u64().is_some_and(|height| height >= wanted);
        if is_judged && status["trust"]["dids_to_judge"] == 0 {
            return Ok(());
        }
        // The height of a chain that makes blocks on order only does not change, so the wait needs a timeout.
        let _ = tokio::time::timeout(Duration::from_millis(50), heights.changed()).await;
    }
}
