//! Reasons why a write has no outcome in a block.

use svc_kit::AskError;
use svc_net::upstream::NodeClientError;
use svc_wire::chain_error::ChainError;

use super::{fee::CeilingExceeded, outcome::TxRefusal, submission::SubmittedTx};
use crate::known_history::ChainChange;

/// The reason why the signer signed nothing more for a submission.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The node did not answer.
    #[error(transparent)]
    Node(NodeClientError),
    /// The signing account does not exist on chain.
    #[error("account {address} does not exist")]
    NoAccount {
        /// Its address.
        address: String,
    },
    /// The chain refused the message in simulation.
    #[error("simulation failed: {}", .0.sentence())]
    Simulation(ChainError),
    /// The node refused every sequence that was tried.
    #[error("the sequence stayed wrong: {}", .0.sentence())]
    Sequence(ChainError),
    /// The sequence that the write required has gone to another transaction.
    #[error("sequence {required} is required, and {expected} is the next")]
    SequenceMoved {
        /// Sequence of the earlier transaction.
        required: u64,
        /// Sequence that the node expects.
        expected: u64,
    },
    /// The node has not seen transactions that are known to have executed.
    #[error("the node expects sequence {expected_sequence}, and all below {used_below} are used")]
    NodeBehind {
        /// Sequence that the node expects.
        expected_sequence: u64,
        /// Every sequence below this one is used.
        used_below: u64,
    },
    /// Gas or fee would be above its ceiling. Nothing was signed.
    #[error(transparent)]
    AboveCeiling(#[from] CeilingExceeded),
    /// The journal could not record the transaction, so it was not sent.
    #[error("the journal cannot be written: {0}")]
    Journal(String),
    /// The journal could not record that the transaction was not sent, so that the next process may send it.
    #[error("the journal cannot be written: {0}; the next process may still send the transaction")]
    Unrecorded(String),
    /// The journal had lost its records, and a block of the last day has a transaction with the same message.
    #[error("the same message was executed as {hash} in block {height}, before the journal lost its records")]
    Restored {
        /// Upper-case hex.
        hash: String,
        /// Height of its block.
        height: u64,
    },
    /// The chain has another history than the journal. Nothing is signed until a person has rebased the journal.
    #[error("{0}")]
    ChainChanged(Box<ChainChange>),
    /// The queue of the signer is full.
    #[error("{limit} writes are waiting")]
    Overloaded {
        /// Capacity of the queue.
        limit: usize,
    },
    /// The node's release has no such message, or reads its bytes otherwise. Nothing was signed.
    #[error("the node does not take {msg_type} as this release means it: {reason}")]
    NotTaken {
        /// Type URL.
        msg_type: String,
        /// The fields that differ, in words.
        reason: String,
    },
    /// The key failed.
    #[error("signing failed")]
    SigningFailed,
}

/// The reason why a write ended without an outcome in a block.
#[derive(Debug, thiserror::Error)]
pub enum WriteError<R> {
    /// The embedder's policy refused the signature. Nothing was signed for this attempt.
    #[error("the signing policy refused the write")]
    Refused(R),
    /// The signer signed nothing.
    #[error(transparent)]
    Submit(SubmitError),
    /// The transaction was refused. It may still execute until its timeout height.
    #[error("transaction {} was refused: {}", .tx.hash, .refusal.error.sentence())]
    Rejected {
        /// The transaction.
        tx: SubmittedTx,
        /// The reason.
        refusal: Box<TxRefusal>,
    },
    /// The signer did not answer, and the write was withdrawn: nothing of it will be signed.
    #[error("the signer did not answer and the write was withdrawn: {0}")]
    Withdrawn(AskError),
    /// The signer answers neither the write nor its withdrawal: a transaction may still leave. Once the next pipeline has opened the
    /// journal, none leaves that is not in it.
    #[error("the signer does not answer: {0}")]
    SignerUnavailable(AskError),
    /// The pipeline stopped before the chain decided the transaction. The next pipeline follows it from the journal; a transaction
    /// that is not in the journal was never sent.
    #[error("the pipeline stopped before transaction {hash} was decided")]
    Undecided {
        /// Upper-case hex.
        hash: String,
        /// Past this height it can never execute.
        timeout_height: u64,
    },
}

/// A write that ended without an outcome.
#[derive(Debug)]
pub struct WriteFailure<R> {
    /// The last transaction that was signed for it.
    pub last_tx: Option<SubmittedTx>,
    /// Whether a transaction of the write may still execute. [`WriteTask::follow`](crate::write_task::WriteTask::follow) waits for the
    /// decision; until then the write must not be made a second time.
    pub may_execute: bool,
    /// The reason.
    pub error: WriteError<R>,
}
