//! The signer: the only holder of the key, and the owner of the account's sequence.
//!
//! It takes one write after the other through simulation, signature and hand-over to the node, on consecutive sequences, without
//! waiting for blocks; what was handed over is in the table of transactions in flight *before* it leaves. A sequence counts as
//! used only once a transaction with it has run in a block. When the signer dies, the next incarnation asks the node for the sequence, sends again
//! the very bytes that may or may not have arrived, and answers repeated submissions from the table.

mod actor;
mod core;
mod effect;
mod gas;
#[cfg(test)]
mod model;
mod perform;
mod queue;
mod window;

use std::sync::Arc;

use svc_kit::{AskError, Handle, upstream::NodeError};
use svc_wire::chain_error::ChainError;

pub(crate) use actor::notify;
pub use actor::{Args, Msg, Signer};
pub use gas::GasBook;
pub(crate) use perform::simulate_gas;
pub use window::WindowBound;

use crate::{
    in_flight::{CallId, Entry},
    order::Order,
};

/// Why a write did not come into flight. Nothing of it will execute.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The node could not be asked.
    #[error(transparent)]
    Node(NodeError),
    /// The operator's account does not exist.
    #[error("account {address} does not exist")]
    NoAccount {
        /// Its address.
        address: String,
    },
    /// The chain refused the message in simulation.
    #[error("simulation failed: {}", .0.raw_log)]
    Simulation(ChainError),
    /// The sequence stayed wrong.
    #[error("the sequence stayed wrong: {}", .0.raw_log)]
    Sequence(ChainError),
    /// CheckTx refused the transaction.
    #[error("refused: {}", .0.raw_log)]
    Rejected(ChainError),
    /// The node has not seen what is known to have happened.
    #[error("the node expects sequence {expected}, and all below {used_below} are used")]
    Behind {
        /// The node's word.
        expected: u64,
        /// What is known.
        used_below: u64,
    },
    /// What is to be sent could not be written down first.
    #[error("the journal cannot be written: {0}")]
    Journal(String),
    /// Too many writes are waiting.
    #[error("{limit} writes are waiting")]
    Overloaded {
        /// The bound.
        limit: usize,
    },
    /// The key failed.
    #[error("signing failed")]
    Signing,
}

/// An account's proof that it is who it says, base64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// Compressed public key.
    pub public_key: String,
    /// ADR-036 signature.
    pub signature: String,
}

/// A write for the signer.
#[derive(Debug, Clone)]
pub struct Submission {
    /// The call it belongs to; submitting a call again yields its first transaction.
    pub call: CallId,
    /// What was asked for.
    pub order: Arc<Order>,
    /// Least gas limit, after a transaction that ran out of gas.
    pub least_gas: u64,
    /// Who pays the fee besides the operator, and up to what; `Some((_, None))` has no limit.
    pub granter: Option<(String, Option<u128>)>,
    /// Span of the call, above the stages' spans.
    pub span: tracing::Span,
}

/// A transaction that is in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submitted {
    /// Upper-case hex.
    pub hash: String,
    /// Past this height it can never execute.
    pub timeout_height: u64,
    /// Its sequence.
    pub sequence: u64,
    /// Whether the corporation pays the fee.
    pub has_granter: bool,
}

impl From<&Entry> for Submitted {
    fn from(entry: &Entry) -> Self {
        Self {
            hash: entry.hash.clone(),
            timeout_height: entry.timeout_height,
            sequence: entry.sequence,
            has_granter: entry.has_granter,
        }
    }
}

/// The way to the signer.
#[derive(Clone)]
pub struct SignerHandle(pub(crate) Handle<Msg>);

impl SignerHandle {
    /// Brings a write into flight.
    pub async fn submit(
        &self,
        submission: Submission,
        patience: std::time::Duration,
    ) -> Result<Result<Submitted, SubmitError>, AskError> {
        self.0.ask_within(patience, |reply| Msg::Submit(Box::new(submission), reply)).await
    }

    /// Signs a login payload; `None` when it is not one or the key failed.
    pub async fn sign_login(&self, payload: String, patience: std::time::Duration) -> Result<Option<Login>, AskError> {
        self.0.ask_within(patience, |reply| Msg::SignLogin(payload, reply)).await
    }

    /// Takes a write back; yields its transaction if it has left already. After `None` it will never be signed.
    pub async fn withdraw(&self, call: CallId, patience: std::time::Duration) -> Result<Option<Submitted>, AskError> {
        self.0.ask_within(patience, |reply| Msg::Withdraw(call, reply)).await
    }
}
