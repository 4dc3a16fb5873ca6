//! Effects that the signer's decisions request, and the view of the transactions in flight that they read.

use crate::write::{error::SubmitError, submission::SubmissionId};

/// Gas limit and fee of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeeOffer {
    /// Gas limit.
    pub gas_limit: u64,
    /// Fee in the fee denom.
    pub fee: u128,
    /// Whether the fee granter pays it.
    pub with_granter: bool,
}

/// An effect of the signer.
#[derive(Debug, Clone, PartialEq)]
pub enum SignerEffect {
    /// Read the account's sequence from the node.
    ReadAccount,
    /// Simulate a write.
    Simulate { id: SubmissionId, sequence: u64, with_granter: bool },
    /// Sign a write, add it to the transactions in flight, broadcast it.
    SignAndBroadcast { id: SubmissionId, sequence: u64, offer: FeeOffer },
    /// Broadcast the live transaction with this sequence again.
    Rebroadcast { sequence: u64 },
    /// The node refused a transaction: remove it, since it never was in flight.
    Retract { hash: String },
    /// The node does not answer or is behind: compare it with the others.
    ChooseNode,
    /// Answer the callers of a write: in flight under this hash, or refused.
    Answer { id: SubmissionId, outcome: Result<String, SubmitError> },
}

/// A view of the transactions in flight.
pub trait InFlightView {
    /// Whether a transaction that may still execute has this sequence.
    fn is_live_at(&self, sequence: u64) -> bool;
    /// Number of transactions that may still execute.
    fn live_count(&self) -> usize;
    /// Every sequence below this one is used.
    fn sequence_floor(&self) -> u64;
}
