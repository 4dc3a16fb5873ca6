//! What the signer's decisions ask for, and what they look at.

use super::SubmitError;
use crate::in_flight::CallId;

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Ask the node for the account's sequence.
    Learn,
    /// Simulate a write.
    Simulate { call: CallId, sequence: u64, with_granter: bool },
    /// Sign a write, note it as in flight, hand it to the node.
    Send { call: CallId, sequence: u64, with_granter: bool, gas_limit: u64, fee: u128 },
    /// Hand the live transaction at this sequence to the node again.
    Resend { sequence: u64 },
    /// The node refused it: it never was in flight.
    Retract { hash: String },
    /// The node does not answer, or is behind: another may be better.
    ChooseNode,
    /// Answer a write's caller: in flight under this hash, or not at all.
    Answer { call: CallId, outcome: Result<String, SubmitError> },
}

/// A live view of the transactions in flight.
pub trait Live {
    /// Whether a transaction that may still execute has this sequence.
    fn is_live_at(&self, sequence: u64) -> bool;
    /// How many may still execute.
    fn count(&self) -> usize;
    /// Every sequence below this one is used for certain.
    fn floor(&self) -> u64;
}
