//! The settings behind the parts that an operator depends on.

use svc_operator::{BootError, BootSubject};

/// The environment variable that configures a part, or the name of the part.
pub fn subject_name(subject: BootSubject) -> &'static str {
    match subject {
        BootSubject::Node => "SVC_RPC",
        BootSubject::PlaintextNode => "SVC_RPC (SVC_ALLOW_PLAINTEXT_NODE=true allows it)",
        BootSubject::Indexer => "SVC_INDEXER",
        BootSubject::Graph => "SVC_GRAPH",
        BootSubject::ChainId => "SVC_CHAIN_ID",
        BootSubject::GasPrice => "SVC_GAS_PRICE",
        BootSubject::Corporation => "SVC_CORPORATION",
        BootSubject::Key => "MCP_SVC_MNEMONIC",
        BootSubject::Journal => "SVC_JOURNAL",
        BootSubject::Audit => "SVC_AUDIT",
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
