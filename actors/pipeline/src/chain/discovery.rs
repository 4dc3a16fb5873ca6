//! The chain behind a node: its parameters, and the messages that it takes.

use std::sync::Arc;

use svc_net::{
    plaintext::PlaintextReach,
    upstream::{
        FailoverError, NodeClient, NodeClientError, NodeDescriptorsError, UpstreamOrigins, query_address_prefix,
    },
};
use svc_wire::{
    comet_rpc::NodeInfo,
    proto_registry::{DescriptorDifference, ProtoRegistry, ProtoRegistryError, describe_differences},
};

use super::{
    fee_denom::{DenomVerdict, judge_denom, query_denom_facts},
    gas_price::GasPriceWatch,
    node_release::{FoundRelease, NodeRelease, find_release},
    params::{ChainParams, query_bond_denom},
};
use crate::write::fee::FeePolicy;

/// The chain of the registry: parameters of its transactions, and its messages.
#[derive(Debug, Clone)]
pub struct RegistryChain {
    /// Parameters of the chain.
    pub params: ChainParams,
    /// All messages as this program signs them, under the chain's own namespace word.
    pub registry: Arc<ProtoRegistry>,
    /// All messages as the node describes them, for its answers; the same where its descriptors cannot be used.
    pub served: Arc<ProtoRegistry>,
    /// The release of the node when it was discovered, with the messages of this program that it took.
    pub release: Arc<NodeRelease>,
    /// The price of gas, as it was when the chain was discovered and as it is now.
    pub prices: GasPriceWatch,
    /// The reason why the node does not confirm the configured fee denom, although nothing contradicts it.
    pub denom_doubt: Option<String>,
}

/// The configured price of gas.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SetGasPrice {
    /// Denom that it was given in; it must be the fee denom.
    pub denom: Option<String>,
}

/// The configuration of a chain that is still to be discovered.
#[derive(Debug, Clone)]
pub struct ChainExpectation {
    /// Chain id that the node must have; `None` accepts the node's.
    pub chain_id: Option<String>,
    /// Fee denom; `None` means the chain's bond denom.
    pub denom: Option<String>,
    /// The price of gas as it was set; `None` uses the node's minimum where that is higher.
    pub set_price: Option<SetGasPrice>,
    /// Price of gas, and the ceilings of a transaction.
    pub fees: FeePolicy,
    /// Whether messages and fields that only the node's descriptors have can be used.
    pub uses_live_descriptors: bool,
}

/// A chain that cannot be used, or a node that does not answer.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    /// The node is on another chain.
    #[error("the chain id is configured as {expected:?}, the node at {origin} runs {found:?}")]
    ChainId {
        /// Configured chain id.
        expected: String,
        /// Chain id of the node.
        found: String,
        /// The node.
        origin: String,
    },
    /// The node describes the envelope of transactions otherwise: every signed transaction would mean something else there.
    #[error("the node at {origin} describes the parts that every signature covers otherwise than this release: {}", describe_differences(.differences))]
    DescriptorMismatch {
        /// Origin of the node.
        origin: String,
        /// The fields, sorted.
        differences: Vec<DescriptorDifference>,
    },
    /// No fee can be paid in the configured denom.
    #[error("fees are configured in {denom:?}, and {reason}; {}", describe_allowed(.allowed))]
    FeeDenom {
        /// The configured denom.
        denom: String,
        /// The contradiction of the node.
        reason: String,
        /// The denoms of fees, as the node states them.
        allowed: Vec<String>,
    },
    /// The gas price is in another denom than fees.
    #[error("the gas price is in {priced:?}, fees are paid in {denom:?}")]
    GasPriceDenom {
        /// Denom of the gas price.
        priced: String,
        /// The fee denom.
        denom: String,
    },
    /// The chain's messages are unusable.
    #[error(transparent)]
    Schema(#[from] ProtoRegistryError),
    /// The node did not answer.
    #[error(transparent)]
    Node(#[from] NodeClientError),
}

fn describe_allowed(allowed: &[String]) -> String {
    match allowed {
        [] => "the node names no other denom".to_owned(),
        allowed => format!("allowed: {}", allowed.join(", ")),
    }
}

impl From<NodeDescriptorsError> for DiscoveryError {
    fn from(error: NodeDescriptorsError) -> Self {
        match error {
            NodeDescriptorsError::Node(error) => error.into(),
            NodeDescriptorsError::Registry(error) => error.into(),
        }
    }
}

impl DiscoveryError {
    /// Whether the node, or another one, may answer later. Every other error stays.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Node(error) if error.allows_failover())
    }
}

/// A node that would be asked without encryption over a public network.
#[derive(Debug, thiserror::Error)]
#[error("{origin} is a public address without encryption: what it answers can be changed on the way")]
pub struct PlaintextNode {
    /// Origin of the node.
    pub origin: String,
}

/// Refuses a node without encryption at a public address, unless the configuration allows it.
///
/// # Errors
/// The first such node.
pub async fn check_encryption(origins: &UpstreamOrigins, allows_plaintext: bool) -> Result<(), PlaintextNode> {
    for origin in origins.iter() {
        match PlaintextReach::of_origin(origin).await {
            PlaintextReach::Encrypted | PlaintextReach::Loopback => {}
            PlaintextReach::PublicNetwork if !allows_plaintext => {
                return Err(PlaintextNode { origin: origin.to_owned() });
            }
            PlaintextReach::PublicNetwork | PlaintextReach::PrivateNetwork => {
                tracing::warn!(origin, "the node is asked without encryption: its answers can be changed on the way");
            }
        }
    }
    Ok(())
}

/// The state of a node's transaction index in words.
pub fn describe_index(node: &NodeInfo) -> &'static str {
    if node.is_index_off() {
        "its transaction index is off: outcomes of writes are read from blocks, and transactions of others cannot be looked up"
    } else {
        "its transaction index is on"
    }
}

/// Reads the chain from a node, and binds the client to this chain. A node that does not answer is replaced by another one of the list,
/// for the next attempt.
///
/// # Errors
/// When the node does not answer, or its chain is not the one that was configured.
pub async fn discover_chain(node: &NodeClient, expected: &ChainExpectation) -> Result<RegistryChain, DiscoveryError> {
    let status = match node.status().await {
        Ok(status) => status,
        Err(error) => {
            node.select_current(Some(0)).await;
            return Err(error.into());
        }
    };
    if status.node_info.is_index_off() {
        tracing::warn!(origin = node.origin(), "{}", describe_index(&status.node_info));
    }
    let chain_id = status.node_info.network;
    if let Some(configured) = expected.chain_id.as_ref().filter(|configured| **configured != chain_id) {
        let origin = node.origin().to_owned();
        return Err(DiscoveryError::ChainId { expected: configured.clone(), found: chain_id, origin });
    }
    node.bind_to_chain(&chain_id);
    let prefix = query_address_prefix(node).await?;
    let mut found = find_release(node, None).await?;
    // One long answer that broke off is no reason to sign without a comparison.
    if !found.release.is_compared {
        found = find_release(node, None).await?;
    }
    let FoundRelease { served, release } = found;
    if !release.envelope.is_empty() {
        let origin = node.origin().to_owned();
        return Err(DiscoveryError::DescriptorMismatch { origin, differences: release.envelope });
    }
    if !release.is_compared {
        tracing::warn!("the node is of {}: its messages are signed without a comparison", release.description);
    }
    let registry = match expected.uses_live_descriptors && release.is_compared {
        true => Arc::clone(&served),
        false => Arc::new(ProtoRegistry::compiled(served.namespace())?),
    };
    let (denom, denom_doubt) = match &expected.denom {
        Some(denom) => (denom.clone(), check_denom(node, denom).await?),
        None => (query_bond_denom(node).await?, None),
    };
    let set_denom = expected.set_price.as_ref().and_then(|price| price.denom.as_ref());
    if let Some(priced) = set_denom.filter(|priced| **priced != denom) {
        return Err(DiscoveryError::GasPriceDenom { priced: priced.clone(), denom });
    }
    let prices = GasPriceWatch::new(expected.fees, expected.set_price.is_some(), &denom);
    prices.refresh(node).await;
    let params = ChainParams { chain_id, denom, prefix, fees: prices.fees() };
    Ok(RegistryChain { params, registry, served, release: Arc::new(release), prices, denom_doubt })
}

/// The doubt that stays about a configured fee denom.
async fn check_denom(node: &NodeClient, denom: &str) -> Result<Option<String>, DiscoveryError> {
    match judge_denom(denom, &query_denom_facts(node, denom).await) {
        DenomVerdict::Confirmed => Ok(None),
        DenomVerdict::Unconfirmed(doubt) => {
            tracing::warn!(origin = node.origin(), "{doubt}");
            Ok(Some(doubt))
        }
        DenomVerdict::Contradicted { reason, allowed } => {
            Err(DiscoveryError::FeeDenom { denom: denom.to_owned(), reason, allowed })
        }
    }
}
