//! The configuration of a node.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use prost_types::Timestamp;
use svc_ledger::{ChainConfig, GenesisState};

use super::chain::HeaderTimeMode;

/// Configuration of a node.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// Configuration of the chain.
    pub chain: ChainConfig,
    /// State before the first block.
    pub genesis: GenesisState,
    /// Time of the genesis; `None` is the age before now, or a fixed time with fixed steps.
    pub genesis_time: Option<Timestamp>,
    /// Time between the genesis and now, for header times of the wall clock.
    pub age: Duration,
    /// Time between blocks; with `None` only [`Node::produce_block`](super::Node::produce_block) produces one.
    pub block_time: Option<Duration>,
    /// Source of header times.
    pub header_time: HeaderTimeMode,
    /// Address of the listener; port 0 takes a free one, which a restart keeps.
    pub listen: SocketAddr,
    /// Address of REST; `None` serves none.
    pub rest_listen: Option<SocketAddr>,
    /// Address of gRPC; `None` serves none.
    pub grpc_listen: Option<SocketAddr>,
    /// Directory of the chain; `None` keeps it in memory.
    pub home: Option<PathBuf>,
    /// Time for which the node halts at an upgrade.
    pub upgrade_pause: Duration,
}
