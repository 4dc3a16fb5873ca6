//! A chain, its indexers and a tool server.

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use svc_devnet::{Devnet, OperatorSlot, node::Node, scenario::GAS_PRICE_MICROS};
use svc_net::{host_policy::HostPolicy, upstream::UpstreamOrigins};
use svc_operator::{FeePolicy, Operator, OperatorConfig};
use svc_wire::{account_key::AccountKey, secret::SecretString};

use super::{
    chain_and_indexer::{ChainAndIndexer, LocalIndexer},
    config::LocalNetworkConfig,
    local_agent::{self, LocalAgent},
};
use crate::{
    listener::{ListenerConfig, bind_listener},
    mcp::{HttpServer, HttpServerConfig, ToolNames, ToolServer},
    principals::{PeerConfig, PeerVerifier, PrincipalDirectory},
};

/// A running network.
pub struct LocalNetwork {
    /// The chain.
    pub devnet: Devnet,
    /// The corporation and the operator account of the tool server.
    pub operator_slot: OperatorSlot,
    /// The operator behind the tool server.
    pub operator: Operator,
    /// The tool server.
    pub tool_server: Arc<ToolServer>,
    /// Bearer token of the tool server.
    pub bearer_token: String,
    /// Further nodes of the chain, in the order in which the tool server falls back on them.
    pub extra_nodes: Vec<Node>,
    /// The agents of the corporation, in the order of the scenario.
    pub agents: Vec<LocalAgent>,
    http_server: HttpServer,
    indexer: LocalIndexer,
    extra_indexers: Vec<LocalIndexer>,
}

impl LocalNetwork {
    /// Starts every part and waits until the tool server serves. Fails when a part cannot start, or when the scenario has no seat
    /// for a tool server.
    pub async fn launch(config: LocalNetworkConfig) -> anyhow::Result<Self> {
        let ChainAndIndexer { devnet, extra_nodes, indexer, extra_indexers } = ChainAndIndexer::launch(&config).await?;
        let rpc = extra_nodes
            .iter()
            .fold(UpstreamOrigins::from(devnet.node.origin()), |all, node| all.with_origin(node.origin()));
        let first = UpstreamOrigins::from(indexer.origin());
        let indexers = extra_indexers.iter().fold(first, |all, one| all.with_origin(one.origin()));
        let mut agent_config = config.agent.clone();
        agent_config.block_time = config.devnet.block_time;
        let agents = local_agent::launch(&agent_config, &devnet, (rpc.clone(), indexers.clone())).await?;
        if !agents.is_empty() {
            // The tool server finds the agents in the indexer.
            indexer.await_newest(&devnet).await?;
        }
        let seat = devnet.operator_slot.clone().context("the scenario has no seat for a tool server")?;
        let account = devnet.accounts.get(&seat.operator_name).context("the seat's operator has no account")?;
        let key = AccountKey::from_mnemonic(&account.mnemonic)?;
        let operator_config = OperatorConfig {
            graph: config.graph.clone(),
            hosts: HostPolicy::AllowPrivate,
            fees: FeePolicy::at_price(GAS_PRICE_MICROS),
            tx_timeout: config.tx_timeout,
            indexer_timeout: config.indexer_timeout,
            window: config.window,
            journal: config.journal.clone(),
            audit: config.audit.clone(),
            ..OperatorConfig::new(seat.corporation_id, rpc, indexers)
        };
        let operator = Operator::boot(operator_config, key).await?;
        let tool_server = ToolServer::start(operator.clone(), &config.selection)?;
        let bearer = config.bearer_token.unwrap_or_else(|| uuid::Uuid::new_v4().simple().to_string());
        let listener =
            bind_listener(config.mcp_listen).with_context(|| format!("cannot listen on {}", config.mcp_listen))?;
        let secret = SecretString::new(bearer.clone());
        let principals = PrincipalDirectory::open(&secret, config.principals.clone(), ToolNames::load()?)?;
        // The peers of the first agent may call the tool server where its conditions are configured.
        let has_conditions = config.agent.access.first().is_some_and(|access| access.terms_file.is_some());
        let peers = match agents.first().filter(|_| has_conditions) {
            None => None,
            Some(agent) => {
                let (issuer, audience) = (agent.server.did(), format!("http://{}/mcp", listener.local_addr()?));
                let peers = PeerConfig { issuer, audience, hosts: HostPolicy::AllowPrivate };
                Some(PeerVerifier::new(peers, Arc::clone(&principals), true)?)
            }
        };
        let http = HttpServerConfig {
            principals,
            oauth: None,
            peers,
            allowed_hosts: Vec::new(),
            sessions: config.sessions,
            listener: ListenerConfig::for_local_network(),
        };
        let http_server = HttpServer::start(listener, Arc::clone(&tool_server), http)?;
        Ok(Self {
            devnet,
            operator_slot: seat,
            operator,
            tool_server,
            bearer_token: bearer,
            extra_nodes,
            agents,
            http_server,
            indexer,
            extra_indexers,
        })
    }

    /// URL of the MCP endpoint.
    pub fn mcp_url(&self) -> String {
        format!("http://{}/mcp", self.http_server.address)
    }

    /// Origin of the tool server.
    pub fn server_origin(&self) -> String {
        format!("http://{}", self.http_server.address)
    }

    /// Origin of the first indexer.
    pub fn indexer_origin(&self) -> String {
        self.indexer.origin()
    }

    /// Origins of the further indexers.
    pub fn extra_indexer_origins(&self) -> Vec<String> {
        self.extra_indexers.iter().map(LocalIndexer::origin).collect()
    }

    /// Ends the first indexer without a drain.
    pub fn kill_indexer(&mut self) {
        self.indexer.kill();
    }

    /// Starts the first indexer again on the same port.
    pub async fn restart_indexer(&mut self) -> anyhow::Result<()> {
        self.indexer.start().await
    }

    /// Stops the tool server; running writes end within `timeout`.
    pub async fn shutdown(mut self, timeout: Duration) {
        self.tool_server.drain();
        self.operator.shutdown(timeout).await;
        self.http_server.stop(Duration::from_secs(2)).await;
        futures::future::join_all(self.agents.into_iter().map(|agent| agent.server.stop(Duration::from_secs(3)))).await;
        // Before their node, whose end they would report.
        self.indexer.kill();
        self.extra_indexers.iter_mut().for_each(LocalIndexer::kill);
    }
}
