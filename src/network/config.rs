//! The configuration of a local network.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use svc_devnet::DevnetConfig;
use svc_operator::WindowBound;

use super::local_agent::LocalAgentConfig;
use crate::mcp::{SessionLimits, ToolSelection};

/// The parts of a local network and their limits.
#[derive(Debug, Clone)]
pub struct LocalNetworkConfig {
    /// The chain.
    pub devnet: DevnetConfig,
    /// Database URL of the indexer.
    pub database: String,
    /// Address of the indexer.
    pub indexer_listen: SocketAddr,
    /// Address of the tool server.
    pub mcp_listen: SocketAddr,
    /// Bearer token of the tool server; `None` generates one.
    pub bearer_token: Option<String>,
    /// File of further principals of the tool server.
    pub principals: Option<PathBuf>,
    /// Longest wait of a write for its inclusion in a block.
    pub tx_timeout: Duration,
    /// Longest wait of a write for the indexer.
    pub indexer_timeout: Duration,
    /// Origin of the graph, if the tool server has one.
    pub graph: Option<String>,
    /// Number of further nodes of the chain, as fallbacks of the tool server.
    pub extra_nodes: usize,
    /// Number of further indexers, as fallbacks of the tool server.
    pub extra_indexers: usize,
    /// Transactions in flight at once.
    pub window: WindowBound,
    /// File of the tool server's journal; `None` keeps the journal in memory.
    pub journal: Option<String>,
    /// File of the tool server's audit; `None` keeps the newest records in memory.
    pub audit: Option<String>,
    /// Tools of the tool server.
    pub selection: ToolSelection,
    /// Limits of the tool server's sessions.
    pub sessions: SessionLimits,
    /// The agent, where the scenario has one.
    pub agent: LocalAgentConfig,
}

impl Default for LocalNetworkConfig {
    fn default() -> Self {
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            devnet: DevnetConfig::default(),
            database: "sqlite::memory:".to_owned(),
            indexer_listen: any_port,
            mcp_listen: any_port,
            bearer_token: None,
            principals: None,
            tx_timeout: Duration::from_secs(30),
            indexer_timeout: Duration::from_secs(15),
            graph: None,
            extra_nodes: 0,
            extra_indexers: 0,
            window: WindowBound::Adaptive,
            journal: None,
            audit: None,
            selection: ToolSelection::default(),
            sessions: SessionLimits::default(),
            agent: LocalAgentConfig::default(),
        }
    }
}
