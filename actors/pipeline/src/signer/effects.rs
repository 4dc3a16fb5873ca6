//! Effects that the signer's decisions request, and the view of the transactions in flight that they read.

use crate::write::{error::SubmitError, fee::SpentToday, outcome::TxRefusal, submission::SubmissionId};

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
    /// Ask the node for the sequence that its check state expects.
    ConfirmSequence { id: SubmissionId },
    /// Ask the node whether the fee allowance pays for a write.
    ConfirmAllowance { id: SubmissionId },
    /// Sign a write, add it to the transactions in flight, broadcast it.
    SignAndBroadcast { id: SubmissionId, sequence: u64, offer: FeeOffer },
    /// Ask the node for its minimum price of gas.
    AskPrice { id: SubmissionId },
    /// Broadcast the live transaction with this sequence again.
    Rebroadcast { sequence: u64 },
    /// The transaction was never sent: remove it.
    Retract { hash: String },
    /// The node refused the transaction: it is not live any more, and is followed until it is certain never to execute.
    Refuse { hash: String, refusal: TxRefusal },
    /// The node does not answer or is behind: compare it with the others.
    ChooseNode,
    /// Answer the callers of a write: signed, with this hash, or not signed.
    Answer { id: SubmissionId, outcome: Result<String, SubmitError> },
}

/// A view of the transactions in flight.
pub trait InFlightView {
    /// Whether a live transaction has this sequence.
    fn is_live_at(&self, sequence: u64) -> bool;
    /// Number of live transactions that take a place in the window.
    fn live_count(&self) -> usize;
    /// Every sequence below this one is used.
    fn sequence_floor(&self) -> u64;
    /// The fees of the day so far, of all and of one principal.
    fn spent_today(&self, principal: &str) -> SpentToday;
}
