//! The configuration, read from the environment. One error names all bad variables.

mod agent;
mod boot_subject;
mod dids;
mod environment;
mod essential;
mod indexer;
mod journal;
mod listener;
mod peer;
mod serve;
#[cfg(test)]
mod tests;
mod tool_selection;

pub use agent::{AgentPaths, AgentSettings, StoppedAgent, WithFormerNames, read_agent, read_paths, read_stopped_agent};
pub use boot_subject::{named_boot_error, subject_name};
pub use environment::{ConfigError, Environment, ProcessEnvironment, VariableProblem, read_hosts};
pub use indexer::{IndexerServerConfig, read_indexer};
pub use journal::{JournalNode, read_journal_node};
pub use peer::{PeerCommandConfig, read_peer};
pub use serve::{HttpTransportConfig, MIN_TOKEN_CHARACTERS, ServeConfig, TransportConfig, read_log_level, read_serve};
