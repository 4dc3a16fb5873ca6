//! Simulation of a transaction by the node.

use prost::Message;
use svc_net::upstream::{NodeClient, NodeClientError};
use svc_wire::{
    account_key::PublicKey,
    chain_error::{ChainError, ChainErrorKind},
    proto::cosmos::{
        bank::v1beta1::MsgSend,
        base::v1beta1::Coin,
        tx::v1beta1::{SimulateRequest, SimulateResponse},
    },
    tx::UnsignedTx,
};

use super::account::{AccountIdentity, query_account};

/// A simulation without a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// The chain refused the transaction.
    #[error("{}", .0.sentence())]
    Refused(ChainError),
    /// The node did not answer.
    #[error(transparent)]
    NoAnswer(NodeClientError),
}

/// Gas that a transaction uses in the node's simulation.
pub async fn simulate_gas(node: &NodeClient, tx_bytes: Vec<u8>) -> Result<u64, SimulationError> {
    let request = SimulateRequest { tx_bytes, ..SimulateRequest::default() }.encode_to_vec();
    match node.query_bytes("/cosmos.tx.v1beta1.Service/Simulate", &request, 0).await {
        Ok(bytes) => {
            let reply = SimulateResponse::decode(bytes.as_slice()).unwrap_or_default();
            Ok(reply.gas_info.map_or(0, |info| info.gas_used))
        }
        Err(NodeClientError::Query { error, .. }) => Err(SimulationError::Refused(error)),
        Err(error) => Err(SimulationError::NoAnswer(error)),
    }
}

/// The sequence that the node's check state expects next, which counts the transactions in its mempool. A simulation at a sequence that
/// is certainly wrong names it. `None` when the node does not.
pub async fn query_check_sequence(node: &NodeClient, message: prost_types::Any, key: &PublicKey) -> Option<u64> {
    let unsigned = UnsignedTx {
        messages: vec![message],
        sequence: u64::MAX,
        fee: Vec::new(),
        gas_limit: 0,
        fee_granter: None,
        timeout_height: 0,
    };
    match simulate_gas(node, unsigned.simulation_bytes(key)).await {
        Err(SimulationError::Refused(error)) => match error.classify_simulation() {
            // A sentence about another sequence answers another question.
            ChainErrorKind::WrongSequence { expected, actual } if actual.is_none_or(|actual| actual == u64::MAX) => {
                expected
            }
            _ => None,
        },
        Ok(_) | Err(SimulationError::NoAnswer(_)) => None,
    }
}

/// The sequence that the node's check state expects next, by a message of our own that no rule of a module refuses before the sequence is
/// compared; that of the newest block, where the node does not name it.
///
/// # Errors
/// When the node does not answer, or does not have the account.
pub async fn query_expected_sequence(
    node: &NodeClient,
    identity: &AccountIdentity,
    denom: &str,
) -> Result<u64, NodeClientError> {
    let address = identity.address.to_string();
    let amount = vec![Coin { denom: denom.to_owned(), amount: "1".to_owned() }];
    let send = MsgSend { from_address: address.clone(), to_address: address.clone(), amount };
    let type_url = "/cosmos.bank.v1beta1.MsgSend".to_owned();
    let message = prost_types::Any { type_url, value: send.encode_to_vec() };
    if let Some(expected) = query_check_sequence(node, message, &identity.public_key).await {
        return Ok(expected);
    }
    let account = query_account(node, &address).await?;
    account
        .map(|account| account.sequence)
        .ok_or_else(|| NodeClientError::unreadable(format!("the node does not have the account {address}")))
}
