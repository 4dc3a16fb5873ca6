//! One write of the agent's account: known by its name in the journal, sent once, and paid by the corporation where it can be.

#[cfg(test)]
mod tests;

use std::{borrow::Cow, convert::Infallible, sync::Arc, time::Duration};

use prost_types::Timestamp;
use svc_agent_core::grant::{AgentAccount, BlockedReason, WantedGrant};
use svc_agent_store::{AgentStore, AgentStoreError};
use svc_net::upstream::NodeClientError;
use svc_pipeline::{
    DEFAULT_PRINCIPAL, DecidedWrite, EncodedMessage, EstimateError, FeeGranter, FeeLimits, JournalError, JournalRecord,
    Pipeline, SigningPolicy, SubmitError, WriteError, WriteFailure, WriteIntent, WriteOrigin, WriteOutcome,
    WriteStatus, WriteTask, query_account, query_balance,
};
use svc_wire::{
    chain_error::{ChainErrorKind, PARTICIPANT_NOT_ACTIVE},
    timestamp,
};
use tracing::{Instrument, Span};

use crate::{
    chain_link::ChainAccess,
    grant::{AgentGrant, GrantError, read_grant},
};

/// Blocks behind the timeout height of a transaction after which it is not waited for any more.
const GIVE_UP_BLOCKS: u64 = 100;
/// Pause between two looks at a transaction that is not decided.
const UNDECIDED_LOOK: Duration = Duration::from_secs(60);

/// Registered texts of sdk/5 and de/1108. A simulation has the code of the query instead. The agent's messages have ids, addresses and digests alone,
/// so that no argument can quote these texts.
const LACKS_FUNDS: [&str; 2] = ["insufficient funds", "operator authorization spend limit exceeded"];
/// Registered text of de/1106.
const RECORD_HAS_ENDED: &str = "operator authorization has expired";

/// The reason for which nothing is sent before something changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The lack, or the fields that the node describes otherwise.
    pub reason: BlockedReason,
    /// Time of the chain at which the allowance that pays the fee refills, where that is the lack.
    pub refills_at: Option<Timestamp>,
}

/// A write that ended without its effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteStop {
    /// It cannot be sent before grants, fees, funds or the node's release change.
    Blocked(Block),
    /// The chain has refused it, or it cannot be made as it is.
    Failed(String),
    /// Node, signer or journal have not answered. Nothing is known against it: a later attempt may succeed.
    Unanswered(String),
}

impl WriteStop {
    /// The reason, as logs and callers read it.
    pub fn reason(&self) -> Cow<'_, str> {
        match self {
            Self::Blocked(block) => block.reason.describe(),
            Self::Failed(reason) | Self::Unanswered(reason) => Cow::Borrowed(reason),
        }
    }

    /// Whether the chain has refused nothing: the same write may succeed once the node answers or runs another release, or the agent is
    /// rebased.
    pub fn is_of_node(&self) -> bool {
        match self {
            Self::Unanswered(_) => true,
            Self::Blocked(block) => {
                matches!(block.reason, BlockedReason::SignedFieldDiffers(_) | BlockedReason::ChainChanged(_))
            }
            Self::Failed(_) => false,
        }
    }
}

impl From<NodeClientError> for WriteStop {
    fn from(error: NodeClientError) -> Self {
        Self::Unanswered(error.to_string())
    }
}

impl From<AgentStoreError> for WriteStop {
    fn from(error: AgentStoreError) -> Self {
        Self::Unanswered(error.to_string())
    }
}

impl From<JournalError> for WriteStop {
    fn from(error: JournalError) -> Self {
        Self::Unanswered(error.to_string())
    }
}

impl From<GrantError> for WriteStop {
    fn from(error: GrantError) -> Self {
        match error {
            GrantError::Blocked(reason) => reason.into(),
            GrantError::Node(error) => error.into(),
        }
    }
}

impl From<BlockedReason> for WriteStop {
    fn from(reason: BlockedReason) -> Self {
        Self::Blocked(Block { reason, refills_at: None })
    }
}

impl From<SubmitError> for WriteStop {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::AboveCeiling(_) => BlockedReason::FeeAboveCeiling.into(),
            SubmitError::NoAccount { .. } => BlockedReason::NoFees.into(),
            // A simulation takes no fee: the coins are those of the message.
            SubmitError::Simulation(error) if LACKS_FUNDS.iter().any(|text| error.raw_log.contains(text)) => {
                BlockedReason::NoFunds.into()
            }
            // The oldest nodes take a record without an end for one that has ended, and later ones look at its participant first.
            SubmitError::Simulation(error) if error.raw_log.contains(RECORD_HAS_ENDED) => BlockedReason::NoGrant.into(),
            SubmitError::Simulation(error) if error.raw_log.contains(PARTICIPANT_NOT_ACTIVE) => {
                BlockedReason::NoParticipant.into()
            }
            SubmitError::NotTaken { .. } => BlockedReason::SignedFieldDiffers(error.to_string()).into(),
            SubmitError::ChainChanged(ref change) => BlockedReason::ChainChanged(change.to_string()).into(),
            SubmitError::Simulation(_) => Self::Failed(error.to_string()),
            // Nothing was sent. Of a write that was restored a block is known, which the next attempt finds at the node.
            SubmitError::Node(_)
            | SubmitError::Sequence(_)
            | SubmitError::SequenceMoved { .. }
            | SubmitError::NodeBehind { .. }
            | SubmitError::Journal(_)
            | SubmitError::Unrecorded(_)
            | SubmitError::Restored { .. }
            | SubmitError::Overloaded { .. }
            | SubmitError::SigningFailed => Self::Unanswered(error.to_string()),
        }
    }
}

/// The payer of a fee: the corporation's allowance where it can pay, and the account itself without a granter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    granter: Option<FeeGranter>,
    /// Time of the chain at which the allowance refills, where that is ahead.
    refills_at: Option<Timestamp>,
}

impl SigningPolicy for Payment {
    type Refusal = Infallible;

    fn authorize(&self, _: &WriteIntent, _: u32) -> Result<Option<FeeGranter>, Infallible> {
        Ok(self.granter.clone())
    }
}

/// The account on its chain, and the store that knows its transactions.
#[derive(Clone)]
pub struct WritingAccount {
    /// Has each transaction before it is sent.
    pub store: AgentStore,
    /// The chain, as it was found.
    pub access: ChainAccess,
    /// The DID of the agent.
    pub did: String,
    /// The corporation that the account belongs to.
    pub corporation_id: u64,
}

impl WritingAccount {
    /// The pipeline.
    pub fn pipeline(&self) -> &Pipeline {
        &self.access.pipeline
    }

    /// The time of the chain.
    pub fn chain_time(&self) -> Timestamp {
        self.access.time()
    }

    /// The account as participants and records name it.
    pub fn agent(&self) -> AgentAccount {
        AgentAccount {
            did: self.did.clone(),
            corporation_id: self.corporation_id,
            address: self.pipeline().identity().address.to_string(),
        }
    }

    /// Reads a grant of the account at the node. While the chain has another history than the agent, nothing is signed.
    pub async fn read_grant(&self, wanted: &WantedGrant) -> Result<AgentGrant, WriteStop> {
        if let Some(change) = self.pipeline().journal().chain_change() {
            return Err(BlockedReason::ChainChanged(change.to_string()).into());
        }
        let agent = self.agent();
        let (node, release) = (self.pipeline().node(), self.pipeline().release());
        // The node judges by its newest block: an allowance that refills between two blocks pays with the next one.
        let now = self.pipeline().clock().head_time().unwrap_or_else(|| self.chain_time());
        Ok(read_grant(node, (&self.access.chain, &release), &agent, wanted, &now).await?)
    }
}

/// The knowledge of the journal about a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decided {
    /// A block has this transaction.
    Included(String),
    /// A block may still take this transaction.
    Open(String),
    /// No block has one, and none will have one that was sent.
    NotSent,
}

/// One write of the account.
pub struct AccountWrite<'a> {
    /// The account that signs and pays.
    pub account: &'a WritingAccount,
    /// Name in the journal.
    pub key: String,
    /// Name of the origin in the journal and in telemetry.
    pub origin: &'static str,
    /// Whether a transaction that nothing decides may be followed by another: a repetition has no effect of its own.
    pub allows_repetition: bool,
}

impl AccountWrite<'_> {
    fn pipeline(&self) -> &Pipeline {
        self.account.pipeline()
    }

    fn height(&self) -> u64 {
        self.pipeline().clock().height
    }

    /// Waits until a transaction of the write is far behind its timeout height: the blocks that decide it may be at no node.
    async fn await_undecidable(&self) {
        loop {
            tokio::time::sleep(UNDECIDED_LOOK).await;
            let found = self.pipeline().journal().find_by_key(DEFAULT_PRINCIPAL, &self.key).await.ok().flatten();
            let is_undecided =
                |record: JournalRecord| is_open(&record) && self.height() > record.timeout_height + GIVE_UP_BLOCKS;
            if found.is_some_and(is_undecided) {
                return;
            }
        }
    }

    /// The knowledge of the journal about this write. Nothing is waited for.
    pub async fn find_decided(&self) -> Result<Decided, WriteStop> {
        let found = self.pipeline().journal().find_by_key(DEFAULT_PRINCIPAL, &self.key).await?;
        Ok(match found {
            Some(record) if record.state == "included" => Decided::Included(record.tx_hash),
            // No node may have the blocks that decide it. Behind its timeout height no block takes it any more.
            Some(record) if is_open(&record) && self.height() <= record.timeout_height + GIVE_UP_BLOCKS => {
                Decided::Open(record.tx_hash)
            }
            // The bytes of a history that has ended may come into a block of this one until then.
            Some(record) if record.is_abandoned() && self.height() <= record.timeout_height => {
                Decided::Open(record.tx_hash)
            }
            _ => Decided::NotSent,
        })
    }

    /// The transaction that an earlier process sent for this write, once a block has it.
    pub async fn find_earlier(&self, sent: &impl Fn(String)) -> Result<Option<String>, WriteStop> {
        let journal = self.pipeline().journal();
        let found = journal.find_by_key(DEFAULT_PRINCIPAL, &self.key).await?;
        if let Some(record) = found.as_ref().filter(|record| is_open(record)) {
            sent(record.tx_hash.clone());
            self.account.store.note_transaction(&record.tx_hash).await?;
            let _ = self.pipeline().await_outcome(&record.tx_hash).await;
        }
        match self.find_decided().await? {
            Decided::Included(hash) => Ok(Some(hash)),
            Decided::Open(hash) => Err(WriteStop::Unanswered(format!("transaction {hash} is not decided yet"))),
            Decided::NotSent => Ok(None),
        }
    }

    /// The refill of the allowance, where the newest block is before that.
    fn refill_ahead(&self, grant: &AgentGrant) -> Option<Timestamp> {
        let head = self.pipeline().clock().head_time();
        let is_ahead = |at: &Timestamp| head.as_ref().is_none_or(|head| !timestamp::is_at_or_before(at, head));
        grant.refills_at.filter(is_ahead)
    }

    /// Chooses the payer of the fee, and shows by a simulation that the message would succeed.
    pub async fn choose_payer(&self, message: &EncodedMessage, grant: &AgentGrant) -> Result<Payment, WriteStop> {
        let granter = grant.granter();
        let (chain, node) = (&self.account.access.chain, self.pipeline().node());
        let own = (DEFAULT_PRINCIPAL, FeeLimits::default());
        let release = self.pipeline().release();
        let address = self.pipeline().identity().address.to_string();
        let account = query_account(node, &address).await?.ok_or(BlockedReason::NoFees)?;
        let estimate = self.pipeline().estimate(message, account.sequence, granter.clone(), own).await;
        let granter = match (&estimate, granter) {
            // An allowance of an account without coins pays nothing.
            (Ok(estimate), Some(granter)) if estimate.has_granter => {
                let coins = query_balance(node, &granter.address, &chain.params.denom).await?;
                Some(granter).filter(|_| coins >= estimate.fee)
            }
            _ => None,
        };
        let estimate = match (estimate, &granter) {
            (Ok(found), None) if found.has_granter => {
                self.pipeline().estimate(message, account.sequence, None, own).await
            }
            (estimate, _) => estimate,
        };
        match estimate {
            Ok(_) => Ok(Payment { granter, refills_at: self.refill_ahead(grant) }),
            Err(EstimateError::InsufficientBalance { .. }) => Err(without_fees(self.refill_ahead(grant))),
            // A node that was upgraded meanwhile may have judged another message.
            Err(EstimateError::Submit(error @ SubmitError::Simulation(_)))
                if !self.pipeline().is_release_of_node(&release) =>
            {
                Err(WriteStop::Unanswered(error.to_string()))
            }
            Err(EstimateError::Submit(error)) => Err(error.into()),
            Err(EstimateError::Node(error)) => Err(error.into()),
        }
    }

    /// Sends the message and waits for its outcome. `sent` hears of the hash of each transaction that is on its way.
    pub async fn send(
        &self,
        message: EncodedMessage,
        payment: Payment,
        span: &Span,
        sent: &impl Fn(String),
    ) -> Result<String, WriteStop> {
        let origin = WriteOrigin { tool: self.origin.into(), ..WriteOrigin::embedder("agent") };
        let intent = Arc::new(WriteIntent::new(message, origin, Some(self.key.clone()), span));
        let (mut task, mut handle) = WriteTask::<()>::new(intent, span.clone());
        if self.allows_repetition {
            task.allow_repetition();
        }
        let actors = self.pipeline().actors();
        let writing = async {
            let mut written = task.run(actors, &payment).await;
            if written.as_ref().is_err_and(|failure| failure.may_execute)
                && let Some(decided) = task.follow(actors).await.filter(DecidedWrite::has_executed)
            {
                written = Ok(decided);
            }
            task.finish(actors, ());
            written
        };
        let watching = async {
            let mut last = None;
            while let Ok(status) = handle.changed().await {
                match status {
                    WriteStatus::InFlight { hash, .. } if last.as_ref() != Some(&hash) => {
                        sent(hash.clone());
                        // The journal has it too: one of the two is enough to know it again.
                        if let Err(error) = self.account.store.note_transaction(&hash).await {
                            tracing::warn!(%error, hash, "the store has not noted a transaction of the agent");
                        }
                        last = Some(hash);
                    }
                    WriteStatus::Ended(()) => break,
                    _ => {}
                }
            }
        };
        let both = async { tokio::join!(writing, watching) }.instrument(span.clone());
        tokio::select! {
            (written, ()) = both => conclude(written, payment.refills_at),
            () = self.await_undecidable() => Err(WriteStop::Failed("the transaction cannot be decided".to_owned())),
        }
    }
}

fn is_open(record: &JournalRecord) -> bool {
    record.state.starts_with("open")
}

/// The lack of a payer, until a refill where one is ahead.
fn without_fees(refills_at: Option<Timestamp>) -> WriteStop {
    WriteStop::Blocked(Block { reason: BlockedReason::NoFees, refills_at })
}

/// The end of a write whose allowance refills at a time.
fn conclude(
    written: Result<DecidedWrite, WriteFailure<Infallible>>,
    refills_at: Option<Timestamp>,
) -> Result<String, WriteStop> {
    let decided = match written {
        Ok(decided) => decided,
        Err(WriteFailure { error: WriteError::Submit(error), .. }) => return Err(error.into()),
        Err(WriteFailure { error: WriteError::Rejected { refusal, .. }, .. })
            if refusal.error.classify() == ChainErrorKind::InsufficientFees =>
        {
            return Err(without_fees(refills_at));
        }
        Err(WriteFailure { error: error @ WriteError::Rejected { .. }, .. }) => {
            return Err(WriteStop::Failed(error.to_string()));
        }
        Err(failure) => return Err(WriteStop::Unanswered(failure.error.to_string())),
    };
    match decided.outcome {
        WriteOutcome::Included { result, .. } if result.code == 0 => Ok(decided.tx.hash),
        WriteOutcome::Included { result, .. } => {
            Err(WriteStop::Failed(format!("transaction {} failed: {}", decided.tx.hash, result.log)))
        }
        outcome @ (WriteOutcome::Expired { .. } | WriteOutcome::Displaced { .. }) => {
            Err(WriteStop::Failed(format!("transaction {} was {}", decided.tx.hash, outcome.label())))
        }
    }
}
