//! What is fixed once the server has booted.

use std::{sync::Arc, time::Duration};

use svc_kit::{
    hosts::HostPolicy,
    upstream::{NodeClient, NodeError, Origins},
};
use svc_wire::{
    account::Address,
    key::PublicKey,
    proto::cosmos::auth::v1beta1::{QueryAccountInfoRequest, QueryAccountInfoResponse},
    schema::Registry,
};

use crate::signer::WindowBound;

/// Settings of an operator, validated.
#[derive(Debug, Clone)]
pub struct OperatorConfig {
    /// Corporation the operator acts for.
    pub corporation_id: u64,
    /// Node RPC origins; one is used, the others when it fails.
    pub rpc: Origins,
    /// Indexer origins, likewise.
    pub indexer: Origins,
    /// Graph origin, if there is a graph.
    pub graph: Option<String>,
    /// Hosts that DID Documents may lead to.
    pub hosts: HostPolicy,
    /// Chain id the node must have; `None` takes the node's.
    pub chain_id: Option<String>,
    /// Fee denom; `None` takes the chain's bond denom.
    pub denom: Option<String>,
    /// Price of one unit of gas in millionths of the fee denom.
    pub gas_price_micros: u64,
    /// How long a caller waits for inclusion.
    pub tx_timeout: Duration,
    /// How long a caller waits for the indexer.
    pub indexer_timeout: Duration,
    /// Period of re-discovery.
    pub refresh_period: Duration,
    /// Transactions in flight at once.
    pub window: WindowBound,
    /// File of the journal; `None` keeps it in memory.
    pub journal: Option<String>,
    /// File of the audit records; `None` keeps the newest in memory.
    pub audit: Option<String>,
}

impl OperatorConfig {
    /// The contract's defaults, for a corporation, a node and an indexer.
    pub fn new(corporation_id: u64, rpc: impl Into<Origins>, indexer: impl Into<Origins>) -> Self {
        Self {
            corporation_id,
            rpc: rpc.into(),
            indexer: indexer.into(),
            graph: None,
            hosts: HostPolicy::PublicOnly,
            chain_id: None,
            denom: None,
            gas_price_micros: 25_000,
            tx_timeout: Duration::from_secs(30),
            indexer_timeout: Duration::from_secs(15),
            refresh_period: Duration::from_secs(60),
            window: WindowBound::Adaptive,
            journal: None,
            audit: None,
        }
    }
}

/// What the node says of its chain.
#[derive(Debug, Clone)]
pub struct ChainParams {
    /// Chain id.
    pub chain_id: String,
    /// Fee denom.
    pub denom: String,
    /// Bech32 prefix of accounts.
    pub prefix: String,
    /// All messages, under the chain's own namespace word.
    pub registry: Arc<Registry>,
    /// Price of one unit of gas in millionths of the fee denom.
    pub gas_price_micros: u64,
}

/// Who the operator is.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Account address.
    pub address: Address,
    /// Public key.
    pub public_key: PublicKey,
}

/// Account number and sequence in the newest block; `None`: there is no account.
pub(crate) async fn account_of(node: &NodeClient, address: &str) -> Result<Option<(u64, u64)>, NodeError> {
    let request = QueryAccountInfoRequest { address: address.to_owned() };
    match node.query::<_, QueryAccountInfoResponse>("/cosmos.auth.v1beta1.Query/AccountInfo", &request, 0).await {
        Ok(reply) => Ok(reply.info.map(|info| (info.account_number, info.sequence))),
        Err(NodeError::Query { error, .. }) if (error.codespace.as_str(), error.code) == ("sdk", 22) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Fee of a gas limit: the smallest amount that is not below the price.
pub fn fee_for(gas_limit: u64, gas_price_micros: u64) -> u128 {
    (u128::from(gas_limit) * u128::from(gas_price_micros)).div_ceil(1_000_000)
}

/// Gas limit from simulated gas: half as much again.
pub fn gas_limit_for(simulated: u64) -> u64 {
    simulated.saturating_mul(3).div_ceil(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fees_round_up_and_gas_gets_half_as_much_again() {
        for (gas, price, fee) in [(200_000, 25_000, 5_000), (1, 25_000, 1), (0, 25_000, 0), (3, 500_000, 2)] {
            assert_eq!(fee_for(gas, price), fee);
        }
        assert_eq!(
            fee_for(u64::MAX, u64::MAX / 1_000_000),
            (u128::from(u64::MAX) * u128::from(u64::MAX / 1_000_000)).div_ceil(1_000_000)
        );
        assert_eq!(gas_limit_for(100_001), 150_002);
    }
}
