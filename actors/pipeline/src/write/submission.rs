//! One hand-over of a write to the signer.

use std::sync::Arc;

use serde::Serialize;
use tokio::sync::Notify;

use super::{fee::FeeGranter, in_flight::InFlightTx, intent::WriteIntent};

/// Number of one hand-over to the signer, unique in the process. A write that is signed again has several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct SubmissionId(pub u64);

/// A write for the signer.
#[derive(Debug, Clone)]
pub struct SigningRequest {
    /// Submitting the same id again yields its first transaction.
    pub submission_id: SubmissionId,
    /// The write.
    pub intent: Arc<WriteIntent>,
    /// Least gas limit, after a transaction that ran out of gas.
    pub min_gas_limit: u64,
    /// The only sequence that it may be signed at, while an earlier transaction of the write was refused there and may still execute.
    pub required_sequence: Option<u64>,
    /// Account that pays the fee in place of the signing account.
    pub granter: Option<FeeGranter>,
    /// Notified when the bytes of a transaction leave; the node's answer may come much later.
    pub bytes_left: Arc<Notify>,
    /// Span of the call, parent of the spans of each stage.
    pub span: tracing::Span,
}

/// A transaction that is in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmittedTx {
    /// Upper-case hex.
    pub hash: String,
    /// Past this height it can never execute.
    pub timeout_height: u64,
    /// Its sequence.
    pub sequence: u64,
    /// Whether a fee granter pays the fee.
    pub has_granter: bool,
}

impl From<&InFlightTx> for SubmittedTx {
    fn from(tx: &InFlightTx) -> Self {
        Self {
            hash: tx.hash.clone(),
            timeout_height: tx.timeout_height,
            sequence: tx.sequence,
            has_granter: tx.has_granter,
        }
    }
}
