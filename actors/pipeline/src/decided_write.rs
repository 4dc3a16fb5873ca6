//! A write that the chain has decided.

use tokio::time::Instant;

use crate::write::{
    in_flight::InFlightTx,
    outcome::{TxRefusal, WriteOutcome},
    submission::SubmittedTx,
};

/// A write that the chain has decided.
#[derive(Debug, Clone)]
pub struct DecidedWrite {
    /// Its transaction in a block, or the last one.
    pub tx: SubmittedTx,
    /// Outcome of the transaction.
    pub outcome: WriteOutcome,
    /// The refusal of a transaction that never executed.
    pub refusal: Option<TxRefusal>,
    /// Times of the last transaction.
    pub times: WriteTimes,
}

/// Times of a transaction.
#[derive(Debug, Clone, Copy)]
pub struct WriteTimes {
    /// The signer was asked for it.
    pub requested: Instant,
    /// The node had it.
    pub sent: Instant,
    /// It was decided.
    pub decided: Instant,
}

impl DecidedWrite {
    /// Whether its transaction has used its sequence in a block.
    pub fn has_executed(&self) -> bool {
        self.outcome.uses_sequence(self.tx.sequence)
    }

    /// A write that has ended with the outcome of a transaction; `None` when it has none.
    pub(crate) fn new(tx: &InFlightTx, times: WriteTimes) -> Option<Self> {
        let (outcome, refusal) = (tx.outcome.clone()?, tx.final_refusal().cloned());
        Some(Self { tx: SubmittedTx::from(tx), outcome, refusal, times })
    }
}
