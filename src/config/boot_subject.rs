//! The settings behind the parts that an operator depends on.

use svc_operator::{BootError, BootSubject};

use crate::settings::chain;

/// The environment variable that configures a part, or the name of the part.
pub fn subject_name(subject: BootSubject) -> &'static str {
    match subject {
        BootSubject::Node => chain::SVC_RPC.name,
        BootSubject::PlaintextNode => "SVC_RPC (SVC_ALLOW_PLAINTEXT_NODE=true allows it)",
        BootSubject::Indexer => chain::SVC_INDEXER.name,
        BootSubject::Graph => chain::SVC_GRAPH.name,
        BootSubject::ChainId => chain::SVC_CHAIN_ID.name,
        BootSubject::Denom => chain::SVC_DENOM.name,
        BootSubject::GasPrice => chain::SVC_GAS_PRICE.name,
        BootSubject::Corporation => chain::SVC_CORPORATION.name,
        BootSubject::Key => chain::MCP_SVC_MNEMONIC.name,
        BootSubject::Journal => chain::SVC_JOURNAL.name,
        BootSubject::Audit => chain::SVC_AUDIT.name,
        BootSubject::Authorizations => "authorizations",
        BootSubject::Fees => "fees",
        BootSubject::Agents => "agents",
        BootSubject::Release => "release of the node",
        BootSubject::Boot => "boot",
    }
}

/// A boot error under the name of its setting.
pub fn named_boot_error(error: BootError) -> anyhow::Error {
    let name = subject_name(error.subject());
    anyhow::Error::new(error).context(name)
}
