//! Parameters of the chain, read from the node.

use svc_net::upstream::{NodeClient, NodeClientError, query_address_prefix};
use svc_wire::proto::cosmos::staking::v1beta1::{QueryParamsRequest, QueryParamsResponse};

use crate::write::fee::FeePolicy;

/// Parameters of the chain that a transaction needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainParams {
    /// Chain id.
    pub chain_id: String,
    /// Fee denom.
    pub denom: String,
    /// Bech32 prefix of accounts.
    pub prefix: String,
    /// Price of gas, and the ceilings of a transaction.
    pub fees: FeePolicy,
}

impl ChainParams {
    /// Reads the parameters from a node. The fee denom is the chain's bond denom.
    pub async fn discover(node: &NodeClient, fees: FeePolicy) -> Result<Self, NodeClientError> {
        Ok(Self {
            chain_id: node.status().await?.node_info.network,
            denom: query_bond_denom(node).await?,
            prefix: query_address_prefix(node).await?,
            fees,
        })
    }
}

/// Bond denom of the chain; empty when the chain has none.
pub async fn query_bond_denom(node: &NodeClient) -> Result<String, NodeClientError> {
    let path = "/cosmos.staking.v1beta1.Query/Params";
    let reply = node.query::<_, QueryParamsResponse>(path, &QueryParamsRequest {}, 0).await?;
    Ok(reply.params.map(|params| params.bond_denom).unwrap_or_default())
}
