//! Reasons why an operator does not start.

use svc_kit::supervision::SupervisorError;
use svc_net::{
    fetch::HttpClientError,
    upstream::{NodeClientError, UpstreamError, UpstreamKind, UpstreamOrigins},
};
use svc_pipeline::{JournalError, RecoveryError};
use svc_wire::{
    address::AddressError,
    proto_registry::{DescriptorDifference, ProtoRegistryError},
};

use crate::write::audit::AuditError;

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
    /// Another part of the start.
    Boot,
}

/// An operator that did not start.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The node is on another chain.
    #[error("the chain id is configured as {expected:?}, the node at {rpc} runs {found:?}")]
    ChainId {
        /// Configured chain id.
        expected: String,
        /// Chain id of the node.
        found: String,
        /// The node.
        rpc: UpstreamOrigins,
    },
    /// A node would be asked without encryption over a public network.
    #[error("{origin} is a public address without encryption: what it answers can be changed on the way")]
    PlaintextNode {
        /// Origin of the node.
        origin: String,
    },
    /// The node describes known fields otherwise: the bytes that this server shows and signs would mean something else there.
    #[error("the node at {origin} describes messages otherwise than this release: {}", describe_differences(.differences))]
    DescriptorMismatch {
        /// Origin of the node.
        origin: String,
        /// The fields, sorted.
        differences: Vec<DescriptorDifference>,
    },
    /// The gas price is in another denom than fees.
    #[error("the gas price is in {priced:?}, fees are paid in {denom:?}")]
    GasPriceDenom {
        /// Denom of the gas price.
        priced: String,
        /// The fee denom.
        denom: String,
    },
    /// The corporation does not exist.
    #[error("corporation {id} does not exist in the indexer at {indexer}")]
    UnknownCorporation {
        /// Configured id.
        id: u64,
        /// The indexer.
        indexer: UpstreamOrigins,
    },
    /// The node or the indexer did not answer in time.
    #[error(transparent)]
    Unreachable(NodeClientError),
    /// The HTTP client for DID Documents cannot be built.
    #[error("no HTTP client: {0}")]
    Client(#[from] HttpClientError),
    /// An origin is unusable.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The chain's messages are unusable.
    #[error(transparent)]
    Schema(#[from] ProtoRegistryError),
    /// The chain's address prefix is unusable.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The journal is unusable.
    #[error(transparent)]
    Journal(#[from] RecoveryError),
    /// The audit log is unusable.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The actors did not start.
    #[error(transparent)]
    Supervisor(#[from] SupervisorError),
}

impl BootError {
    /// The part that the error is about.
    pub fn subject(&self) -> BootSubject {
        match self {
            Self::ChainId { .. } => BootSubject::ChainId,
            Self::PlaintextNode { .. } => BootSubject::PlaintextNode,
            Self::DescriptorMismatch { .. } => BootSubject::Node,
            Self::GasPriceDenom { .. } => BootSubject::GasPrice,
            Self::UnknownCorporation { .. } => BootSubject::Corporation,
            Self::Unreachable(error) => node_or_indexer(error),
            Self::Journal(_) => BootSubject::Journal,
            Self::Audit(_) => BootSubject::Audit,
            Self::Client(_) | Self::Upstream(_) | Self::Schema(_) | Self::Address(_) | Self::Supervisor(_) => {
                BootSubject::Boot
            }
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

/// Differences in one line; a message names only the first ones.
fn describe_differences(differences: &[DescriptorDifference]) -> String {
    let mut named: Vec<String> = differences.iter().take(MAX_NAMED_DIFFERENCES).map(ToString::to_string).collect();
    if differences.len() > MAX_NAMED_DIFFERENCES {
        named.push(format!("and {} more", differences.len() - MAX_NAMED_DIFFERENCES));
    }
    named.join("; ")
}

const MAX_NAMED_DIFFERENCES: usize = 5;
