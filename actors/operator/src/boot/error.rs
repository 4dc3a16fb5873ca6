//! Reasons why an operator does not start.

use std::path::PathBuf;

use svc_kit::supervision::SupervisorError;
use svc_net::{
    fetch::HttpClientError,
    upstream::{FailoverError, NodeClientError, UpstreamError, UpstreamKind, UpstreamOrigins},
};
use svc_pipeline::{DiscoveryError, JournalError, PlaintextNode, RecoveryError};
use svc_wire::address::AddressError;

use crate::{refresher::is_unknown_corporation, write::audit::AuditError};

/// A part that an operator depends on. A front end knows the setting that configures it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootSubject {
    /// The node.
    Node,
    /// The permission to ask a node without encryption.
    PlaintextNode,
    /// The indexer.
    Indexer,
    /// The graph.
    Graph,
    /// The chain id.
    ChainId,
    /// The corporation.
    Corporation,
    /// The denom of fees.
    Denom,
    /// The price of gas.
    GasPrice,
    /// The key.
    Key,
    /// The journal.
    Journal,
    /// The audit log.
    Audit,
    /// The authorizations of the operator.
    Authorizations,
    /// The fees of the operator.
    Fees,
    /// The agents of the corporation.
    Agents,
    /// The release of the node.
    Release,
    /// Another part of the start.
    Boot,
}

/// An operator that did not start.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The node does not answer, or its chain is not the configured one.
    #[error(transparent)]
    Chain(#[from] DiscoveryError),
    /// A node would be asked without encryption over a public network.
    #[error(transparent)]
    PlaintextNode(#[from] PlaintextNode),
    /// The corporation does not exist.
    #[error("corporation {id} does not exist in the indexer at {indexer}")]
    UnknownCorporation {
        /// Configured id.
        id: u64,
        /// The indexer.
        indexer: UpstreamOrigins,
    },
    /// The indexer does not know the corporation, and lacks blocks that could have it.
    #[error("the indexer is at block {indexed}, the node at {head}: it does not know the corporation yet")]
    IndexerBehind {
        /// Height of the indexer.
        indexed: u64,
        /// Height of the node.
        head: u64,
    },
    /// The node or the indexer did not answer in time.
    #[error(transparent)]
    Unreachable(#[from] NodeClientError),
    /// The HTTP client for DID Documents cannot be built.
    #[error("no HTTP client: {0}")]
    Client(#[from] HttpClientError),
    /// An origin is unusable.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The chain's address prefix is unusable.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The journal is unusable.
    #[error(transparent)]
    Journal(#[from] RecoveryError),
    /// The file with the versions of the agents' DIDs is unusable.
    #[error("{}: {reason}; without it an older DID Document of an agent would be believed", .file.display())]
    DidVersions {
        /// The file.
        file: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The audit log is unusable.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The actors did not start.
    #[error(transparent)]
    Supervisor(#[from] SupervisorError),
}

impl BootError {
    /// Whether the server that was asked may answer later.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable(error) => error.allows_failover(),
            Self::Chain(error) => error.is_passing(),
            Self::IndexerBehind { .. } => true,
            _ => false,
        }
    }

    /// Whether no later answer of a server can be another one: a setting or a file of this machine is wrong.
    pub(super) fn is_permanent(&self) -> bool {
        match self {
            Self::Unreachable(error) => is_unknown_corporation(error),
            Self::IndexerBehind { .. } => false,
            other => !matches!(other, Self::Chain(DiscoveryError::Node(_) | DiscoveryError::Schema(_))),
        }
    }

    /// The part that the error is about.
    pub fn subject(&self) -> BootSubject {
        match self {
            Self::Chain(DiscoveryError::ChainId { .. }) => BootSubject::ChainId,
            Self::Chain(DiscoveryError::DescriptorMismatch { .. }) => BootSubject::Node,
            Self::Chain(DiscoveryError::FeeDenom { .. }) => BootSubject::Denom,
            Self::Chain(DiscoveryError::GasPriceDenom { .. }) => BootSubject::GasPrice,
            Self::Chain(DiscoveryError::Node(error)) => node_or_indexer(error),
            Self::PlaintextNode(_) => BootSubject::PlaintextNode,
            Self::UnknownCorporation { .. } => BootSubject::Corporation,
            Self::IndexerBehind { .. } => BootSubject::Indexer,
            Self::Unreachable(error) => node_or_indexer(error),
            Self::Journal(_) | Self::DidVersions { .. } => BootSubject::Journal,
            Self::Audit(_) => BootSubject::Audit,
            Self::Chain(DiscoveryError::Schema(_))
            | Self::Client(_)
            | Self::Upstream(_)
            | Self::Address(_)
            | Self::Supervisor(_) => BootSubject::Boot,
        }
    }
}

impl From<JournalError> for BootError {
    fn from(error: JournalError) -> Self {
        Self::Journal(error.into())
    }
}

fn node_or_indexer(error: &NodeClientError) -> BootSubject {
    let kind = match error {
        NodeClientError::Upstream(
            UpstreamError::Unreachable { kind, .. }
            | UpstreamError::Http { kind, .. }
            | UpstreamError::Protocol { kind, .. }
            | UpstreamError::Paused { kind, .. }
            | UpstreamError::Saturated { kind, .. },
        ) => *kind,
        NodeClientError::Rpc { .. } | NodeClientError::Disputed(_) | NodeClientError::Query { .. } => UpstreamKind::Rpc,
    };
    if kind == UpstreamKind::Indexer { BootSubject::Indexer } else { BootSubject::Node }
}
