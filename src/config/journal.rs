//! The node of `svc journal rebase`.

use svc_net::upstream::UpstreamOrigins;

use super::environment::{ConfigError, Environment, EnvironmentReader};
use crate::settings::chain::{SVC_ALLOW_PLAINTEXT_NODE, SVC_RPC};

/// The node, or one of several, that a journal is compared with.
#[derive(Debug)]
pub struct JournalNode {
    /// Its origin.
    pub origins: UpstreamOrigins,
    /// Whether it may be asked without encryption over a public network.
    pub allows_plaintext: bool,
}

/// Reads the node of a journal. Fails with the problems of all variables at once.
pub fn read_journal_node(environment: &impl Environment) -> Result<JournalNode, ConfigError> {
    let mut reader = EnvironmentReader::new(environment);
    let (origins, allows_plaintext) = (reader.read_origins(SVC_RPC), reader.read_flag(SVC_ALLOW_PLAINTEXT_NODE));
    match (origins, allows_plaintext) {
        (Some(origins), Some(allows_plaintext)) => Ok(JournalNode { origins, allows_plaintext }),
        _ => Err(ConfigError::Variables(reader.problems)),
    }
}
