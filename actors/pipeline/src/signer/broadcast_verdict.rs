//! The meaning of a node's answer to a broadcast. Pure.

use svc_net::upstream::{BroadcastOutcome, NodeClientError};
use svc_wire::chain_error::ChainErrorKind;

use crate::write::outcome::TxRefusal;

/// The meaning of an answer to a broadcast.
#[derive(Debug, Clone, PartialEq)]
pub enum BroadcastVerdict {
    /// The transaction is in the mempool.
    Accepted,
    /// The sequence is used, or not yet due; with the one that the node expects. Only a block shows which.
    WrongSequence { expected: Option<u64> },
    /// The node cannot take the bytes before its next block: its mempool is full, or it has just started.
    NotNow,
    /// The node refused the transaction. It may have passed the bytes on all the same.
    Refused { refusal: TxRefusal, kind: ChainErrorKind },
    /// No byte of the request left.
    Unsent(NodeClientError),
    /// The node may have the transaction.
    Unknown,
}

/// The meaning of an answer to a broadcast.
pub fn judge_broadcast(answer: Result<BroadcastOutcome, NodeClientError>) -> BroadcastVerdict {
    let error = match answer {
        Ok(BroadcastOutcome::Accepted) => return BroadcastVerdict::Accepted,
        Ok(BroadcastOutcome::Refused(error)) => error,
        Err(error) if error.is_unsent() => return BroadcastVerdict::Unsent(error),
        Err(_) => return BroadcastVerdict::Unknown,
    };
    match error.classify() {
        ChainErrorKind::AlreadyInMempool => BroadcastVerdict::Accepted,
        ChainErrorKind::WrongSequence { expected, .. } => BroadcastVerdict::WrongSequence { expected },
        ChainErrorKind::NodeStarting | ChainErrorKind::MempoolFull => BroadcastVerdict::NotNow,
        kind => BroadcastVerdict::Refused { refusal: TxRefusal { error, block_height: None }, kind },
    }
}
