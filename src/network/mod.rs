//! A whole network in one process: devnet node, indexer and tool server, connected over real sockets on loopback. `svc devnet`
//! and the tests run it.

mod chain_and_indexer;
mod config;
mod isolated_runtime;
mod local_agent;
mod local_network;

pub use chain_and_indexer::{ChainAndIndexer, essential_schemas};
pub use config::LocalNetworkConfig;
pub use isolated_runtime::IsolatedRuntime;
pub(crate) use local_agent::await_credential;
pub use local_agent::{LocalAgent, LocalAgentConfig, ReceiverConfig, received_claims};
pub use local_network::LocalNetwork;
