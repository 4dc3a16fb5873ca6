//! The signer: the only holder of the key, and the owner of the account's sequence.
//!
//! It owns the queue of writes, the expected sequence and the window of transactions in flight. Write tasks submit writes and
//! withdraw them; the confirmer and the node link report outcomes, blocks and doubts. The signer takes one write after the other
//! through simulation, signature, journal and broadcast, on consecutive sequences, without waiting for blocks. A transaction is in
//! the table of transactions in flight and in the journal *before* it is sent. A sequence is used only once a block contains a
//! transaction with it. When the signer dies, the next incarnation asks the node for the sequence, sends the bytes that the node
//! may not have received once more, and answers repeated submissions from the table.

mod actor;
mod broadcast_verdict;
pub(crate) mod core;
pub(crate) mod effects;
pub mod gas_history;
#[cfg(test)]
mod model;
mod perform;
pub(crate) mod queue;
#[cfg(test)]
mod tests;
pub mod window;

use std::time::Duration;

use svc_kit::{AskError, CallError, Handle, ReplyPort, RetainedState, impl_actor_message};
use svc_net::upstream::{BlockClock, BroadcastOutcome, NodeClient, NodeClientError};
use svc_wire::account_key::AccountKey;
use tokio::time::Instant;

pub use actor::Signer;

use self::{gas_history::GasHistory, window::WindowBound};
use crate::{
    chain::{
        account::{AccountIdentity, AccountState},
        gas_price::GasPriceWatch,
        node_release::ReleaseWatch,
        params::ChainParams,
        simulation::SimulationError,
    },
    journal::JournalHandle,
    write::{
        error::SubmitError,
        in_flight::InFlightTable,
        submission::{SigningRequest, SubmissionId, SubmittedTx},
    },
};

/// A signature over a text that is no transaction (ADR-036), base64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextSignature {
    /// Compressed public key.
    pub public_key: String,
    /// The signature.
    pub signature: String,
}

/// Messages of the signer.
pub enum Msg {
    /// Bring a write into flight.
    Submit {
        /// The write.
        request: Box<SigningRequest>,
        /// Its transaction, or the reason why there is none.
        reply: ReplyPort<Result<SubmittedTx, SubmitError>>,
    },
    /// Withdraw a write that has not been sent. The answer is its transaction, if there is one.
    Withdraw {
        /// The submission.
        id: SubmissionId,
        /// Its transaction; `None` when it will never be signed.
        reply: ReplyPort<Option<SubmittedTx>>,
    },
    /// Sign a text that begins with one of the allowed prefixes.
    SignText {
        /// The text.
        text: String,
        /// `None` when the text is not allowed or the key failed.
        reply: ReplyPort<Option<TextSignature>>,
    },
    /// The timer for a paused signer has fired.
    Tick,
    /// The chain has a new block.
    BlockSeen,
    /// The node may lack a transaction in flight.
    Doubt,
    /// A transaction was decided.
    Settled {
        /// Whether it used its sequence.
        uses_sequence: bool,
    },
    /// The node answered for the account; `None`: the account does not exist.
    AccountRead {
        /// The answer.
        answer: Result<Option<AccountState>, NodeClientError>,
    },
    /// The node answered a simulation with the gas used.
    Simulated {
        /// The submission.
        id: SubmissionId,
        /// The answer.
        answer: Result<u64, SimulationError>,
    },
    /// The sequence that the node's check state expects.
    SequenceConfirmed {
        /// The submission.
        id: SubmissionId,
        /// The answer.
        expected: Result<u64, NodeClientError>,
    },
    /// Whether the fee allowance at the node pays for a write.
    AllowanceConfirmed {
        /// The submission.
        id: SubmissionId,
        /// The answer.
        pays: Result<bool, NodeClientError>,
    },
    /// The node answered a broadcast, or did not.
    Sent {
        /// The submission.
        id: SubmissionId,
        /// Upper-case hex.
        hash: String,
        /// The answer.
        answer: Result<BroadcastOutcome, NodeClientError>,
    },
    /// The node was asked for its price of gas.
    PriceRead {
        /// The submission.
        id: SubmissionId,
    },
    /// A transaction was signed and not sent.
    NotSent {
        /// The submission.
        id: SubmissionId,
        /// Upper-case hex.
        hash: String,
        /// The reason: the journal could not record it, or the node's release does not take it.
        failure: SubmitError,
    },
    /// The node answered a repeated broadcast, or did not.
    Resent {
        /// Upper-case hex; `None` when the transaction was decided meanwhile and nothing was sent.
        hash: Option<String>,
        /// The answer.
        answer: Result<BroadcastOutcome, NodeClientError>,
    },
}

impl_actor_message!(Msg {
    Submit,
    Withdraw,
    SignText,
    Tick,
    BlockSeen,
    Doubt,
    Settled,
    AccountRead,
    Simulated,
    PriceRead,
    SequenceConfirmed,
    AllowanceConfirmed,
    Sent,
    NotSent,
    Resent,
});

/// Arguments of a signer.
pub struct Args {
    /// The key. It never leaves the signer.
    pub key: AccountKey,
    /// Address and public key of the key.
    pub identity: AccountIdentity,
    /// Parameters of the chain.
    pub chain: ChainParams,
    /// The node, or one of several.
    pub node: NodeClient,
    /// The price of gas.
    pub prices: GasPriceWatch,
    /// Its release, with the messages of this program that it takes.
    pub release: ReleaseWatch,
    /// Transactions in flight.
    pub table: RetainedState<InFlightTable>,
    /// Height and pace of the chain.
    pub clock: RetainedState<BlockClock>,
    /// Gas that each message type has used.
    pub gas: RetainedState<GasHistory>,
    /// Records transactions before they are sent.
    pub journal: JournalHandle,
    /// Bound of the transactions in flight at once.
    pub window: WindowBound,
    /// Longest wait of a caller for inclusion; timeout heights are derived from it.
    pub tx_timeout: Duration,
    /// Prefixes of the texts that may be signed. Nothing else is signed off-chain.
    pub text_prefixes: Vec<&'static str>,
}

/// The handle of the signer. A report that a restarting signer misses does no harm: it reads the table and the node once it is back.
#[derive(Clone)]
pub struct SignerHandle(Handle<Msg>);

impl SignerHandle {
    /// A handle for a signer that a supervisor will start.
    pub(crate) fn new(mailbox_limit: usize) -> Self {
        Self(Handle::new("signer", "signer", mailbox_limit))
    }

    /// The kit's handle, for the supervisor.
    pub(crate) fn actor(&self) -> &Handle<Msg> {
        &self.0
    }

    /// Brings a write into flight, through restarts of the signer, until `deadline`.
    pub async fn submit(
        &self,
        request: &SigningRequest,
        deadline: Instant,
    ) -> Result<SubmittedTx, CallError<SubmitError>> {
        let submitted = self
            .0
            .ask_through_restarts(deadline, |wait_limit| {
                let request = Box::new(request.clone());
                self.0.ask_within(wait_limit, |reply| Msg::Submit { request, reply })
            })
            .await?;
        submitted.map_err(CallError::Refused)
    }

    /// Withdraws a write, through restarts of the signer, until `deadline`; yields its transaction if it was sent already. After
    /// `None` it will never be signed.
    pub async fn withdraw(&self, id: SubmissionId, deadline: Instant) -> Result<Option<SubmittedTx>, AskError> {
        self.0
            .ask_through_restarts(deadline, |wait_limit| {
                self.0.ask_within(wait_limit, |reply| Msg::Withdraw { id, reply })
            })
            .await
    }

    /// Signs a text that begins with an allowed prefix; `None` when it does not, or the key failed.
    pub async fn sign_text(&self, text: String, wait_limit: Duration) -> Result<Option<TextSignature>, AskError> {
        self.0.ask_within(wait_limit, |reply| Msg::SignText { text, reply }).await
    }

    /// Reports a block.
    pub(crate) fn block_seen(&self) {
        self.0.notify(Msg::BlockSeen);
    }

    /// Reports that the node may lack a transaction in flight.
    pub(crate) fn doubt(&self) {
        self.0.notify(Msg::Doubt);
    }

    /// Reports that a transaction was decided.
    pub(crate) fn settled(&self, uses_sequence: bool) {
        self.0.notify(Msg::Settled { uses_sequence });
    }
}
