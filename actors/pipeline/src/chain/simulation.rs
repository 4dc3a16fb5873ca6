//! Simulation of a transaction by the node.

use prost::Message;
use svc_net::upstream::{NodeClient, NodeClientError};
use svc_wire::{
    account_key::PublicKey,
    chain_error::{ChainError, ChainErrorKind},
    proto::cosmos::tx::v1beta1::{SimulateRequest, SimulateResponse},
    tx::UnsignedTx,
};

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
            ChainErrorKind::WrongSequence { expected, .. } => expected,
            _ => None,
        },
        Ok(_) | Err(SimulationError::NoAnswer(_)) => None,
    }
}
