//! The confirmer: follows every transaction in flight to a final outcome.
//!
//! It owns the lookups under way and the callers that wait for an outcome; the table of transactions in flight is retained by the
//! tree. The node link reports inclusions and blocks, and write tasks wait here for outcomes. The confirmer looks a hash up after
//! every reconnect, every few blocks and at the timeout height. An outcome is decided once and never changes, and the journal
//! and the signer learn of it here. Absence is proven by blocks alone: every block that could contain the transaction is read. When
//! the confirmer dies, the next incarnation looks every pending hash up, and callers ask again.

pub(crate) mod account_txs;
mod actor;
pub(crate) mod block_reader;
pub(crate) mod core;
mod lookup;
#[cfg(test)]
mod tests;

use std::time::Duration;

use svc_kit::{AskError, Handle, ReplyPort, RetainedState, actor::ActorStatus, impl_actor_message};
use svc_net::upstream::{BlockClock, NodeClient, NodeClientError};
use svc_wire::comet_rpc::ExecTxResult;
use tokio::time::Instant;

pub use actor::Confirmer;
pub(crate) use lookup::{SigningAccount, look_up, read_node_facts};

use self::lookup::LookupAnswer;
use crate::{
    journal::JournalHandle,
    signer::{SignerHandle, gas_history::GasHistory},
    write::{in_flight::InFlightTable, outcome::WriteOutcome},
};

/// The next event of a pending transaction.
#[derive(Debug, Clone)]
pub enum TxNews {
    /// It was refused, and may still execute.
    Refused,
    /// It was decided.
    Decided(WriteOutcome),
}

/// Messages of the confirmer.
pub enum Msg {
    /// Answer when the transaction is decided; at once with `None` when it is unknown.
    Await {
        /// Upper-case hex.
        hash: String,
        /// Whether a refusal is news too.
        includes_refusal: bool,
        /// The answer.
        reply: ReplyPort<Option<TxNews>>,
    },
    /// The node reported an included transaction.
    TxSeen {
        /// Height of the block.
        height: u64,
        /// Upper-case hex.
        hash: String,
        /// Its result there.
        result: Box<ExecTxResult>,
    },
    /// The chain has a new block.
    BlockSeen {
        /// Its height.
        height: u64,
    },
    /// Inclusions may have passed unseen.
    LookUpAll,
    /// A lookup has ended.
    LookedUp {
        /// Upper-case hex.
        hash: String,
        /// The outcome that it proves, or the meaning of its evidence.
        answer: Result<LookupAnswer, NodeClientError>,
    },
}

impl_actor_message!(Msg { Await, TxSeen, BlockSeen, LookUpAll, LookedUp });

/// Arguments of a confirmer.
pub struct Args {
    /// The node, or one of several.
    pub node: NodeClient,
    /// The signing account.
    pub account: SigningAccount,
    /// Transactions in flight.
    pub table: RetainedState<InFlightTable>,
    /// Height of the chain.
    pub clock: RetainedState<BlockClock>,
    /// Gas that each message type has used.
    pub gas: RetainedState<GasHistory>,
    /// Records outcomes.
    pub journal: JournalHandle,
    /// Hears of outcomes, and of transactions that the node lacks.
    pub signer: SignerHandle,
}

/// The handle of the confirmer. A report that a restarting confirmer misses does no harm: it looks every pending hash up once it is
/// back.
#[derive(Clone)]
pub struct ConfirmerHandle(Handle<Msg>);

/// Longest wait of one question to the confirmer. It is asked again until there is an outcome.
const OUTCOME_TIMEOUT: Duration = Duration::from_secs(60);
/// Pause before a confirmer that is restarting or overloaded is asked again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

impl ConfirmerHandle {
    /// A handle for a confirmer that a supervisor will start.
    pub(crate) fn new(mailbox_limit: usize) -> Self {
        Self(Handle::new("confirmer", "confirmer", mailbox_limit))
    }

    /// The kit's handle, for the supervisor.
    pub(crate) fn actor(&self) -> &Handle<Msg> {
        &self.0
    }

    /// Waits for the outcome of a transaction, through restarts of the confirmer. `None` when it does not know the transaction, or
    /// has stopped for good.
    pub async fn await_outcome(&self, hash: &str) -> Option<WriteOutcome> {
        match self.await_news(hash, false).await? {
            TxNews::Decided(outcome) => Some(outcome),
            TxNews::Refused => None,
        }
    }

    /// Waits for the outcome of a transaction, and also for its refusal when `includes_refusal` is set, through restarts of the
    /// confirmer. `None` when it does not know the transaction, or has stopped for good.
    pub(crate) async fn await_news(&self, hash: &str, includes_refusal: bool) -> Option<TxNews> {
        loop {
            let deadline = Instant::now() + OUTCOME_TIMEOUT;
            let message = |reply| Msg::Await { hash: hash.to_owned(), includes_refusal, reply };
            let ask = |wait_limit| self.0.ask_within(wait_limit, message);
            match self.0.ask_through_restarts(deadline, ask).await {
                Ok(news) => return news,
                Err(AskError::TimedOut { .. }) => {}
                Err(AskError::NotDelivered { status: ActorStatus::Stopped, .. }) => return None,
                Err(AskError::MailboxFull { .. } | AskError::ActorDied { .. } | AskError::NotDelivered { .. }) => {
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    /// Reports an inclusion.
    pub(crate) fn tx_seen(&self, height: u64, hash: String, result: Box<ExecTxResult>) {
        self.0.notify(Msg::TxSeen { height, hash, result });
    }

    /// Reports a block.
    pub(crate) fn block_seen(&self, height: u64) {
        self.0.notify(Msg::BlockSeen { height });
    }

    /// Requests a lookup of every pending transaction.
    pub(crate) fn look_up_all(&self) {
        self.0.notify(Msg::LookUpAll);
    }
}
