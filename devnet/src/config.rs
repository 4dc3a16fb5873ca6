//! The configuration of a devnet.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use svc_ledger::UpgradePlan;
use svc_wire::proto_registry::NodeGeneration;

use crate::genesis_file::GenesisFile;

/// Usual time for which a devnet halts at an upgrade.
const DEFAULT_UPGRADE_PAUSE: Duration = Duration::from_secs(3);

/// Configuration of a devnet.
#[derive(Debug, Clone)]
pub struct DevnetConfig {
    /// Namespace of the protobuf packages, and bech32 prefix of accounts.
    pub namespace: String,
    /// Chain id.
    pub chain_id: String,
    /// Fee and bond denom.
    pub denom: String,
    /// Time between blocks. With `None` a block is produced on request only, and header times are one second apart.
    pub block_time: Option<Duration>,
    /// Address of the node's listener; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Name of a shipped scenario, or path of a file.
    pub scenario: String,
    /// Texts of essential schemas in the place of the devnet's own.
    pub essential_texts: Vec<String>,
    /// Directory of the chain; `None` keeps it in memory.
    pub home: Option<PathBuf>,
    /// Port of the control endpoint on loopback; 0 takes a free one, `None` disables the endpoint.
    pub control_port: Option<u16>,
    /// Loopback address of the scenario's services. A home keeps its first address, because the DIDs contain it.
    pub services_listen: SocketAddr,
    /// Number of newest heights whose state the node has once the scenario is there; 0 for all.
    pub kept_states: u64,
    /// Address of REST; `None` serves none.
    pub rest_listen: Option<SocketAddr>,
    /// Address of gRPC; `None` serves none.
    pub grpc_listen: Option<SocketAddr>,
    /// Whether the node has the weaknesses of a real one: after a start it refuses transactions until its next block, and the results of a
    /// block come behind it.
    pub is_like_a_node: bool,
    /// Generation of the node.
    pub generation: NodeGeneration,
    /// Upgrade at which the chain halts, and then goes on as a later generation. Its height is one after the scenario.
    pub upgrade: Option<UpgradePlan>,
    /// Time for which the node halts at an upgrade.
    pub upgrade_pause: Duration,
    /// Genesis of another chain, with which this one begins: it has that chain's id, namespace and denom.
    pub genesis: Option<GenesisFile>,
}

impl Default for DevnetConfig {
    fn default() -> Self {
        Self {
            namespace: "svc".to_owned(),
            chain_id: "svc-devnet-1".to_owned(),
            denom: "usvc".to_owned(),
            block_time: Some(Duration::from_secs(1)),
            listen: ([127, 0, 0, 1], 0).into(),
            scenario: "corporation".to_owned(),
            essential_texts: Vec::new(),
            home: None,
            control_port: None,
            services_listen: ([127, 0, 0, 1], 0).into(),
            kept_states: 0,
            rest_listen: None,
            grpc_listen: None,
            is_like_a_node: false,
            generation: NodeGeneration::N0,
            upgrade: None,
            upgrade_pause: DEFAULT_UPGRADE_PAUSE,
            genesis: None,
        }
    }
}

impl DevnetConfig {
    pub(crate) fn with_names_of_genesis(mut self) -> Self {
        if let Some(file) = &self.genesis {
            self.chain_id.clone_from(&file.chain_id);
            self.namespace.clone_from(&file.namespace);
            self.denom.clone_from(&file.denom);
        }
        self
    }
}
