//! One attempt to have a version of the document resolved: the reads at the node, and the transaction.

use std::{convert::Infallible, sync::Arc, time::Duration};

use prost::Message;
use prost_types::Any;
use svc_kit::wall_clock;
use svc_net::upstream::NodeClientError;
use svc_otel::trace;
use svc_pipeline::{
    DecidedWrite, EncodedMessage, EstimateError, FeeGranter, JournalError, JournalRecord, Pipeline, SigningPolicy,
    SubmitError, WriteError, WriteFailure, WriteIntent, WriteOrigin, WriteOutcome, WriteStatus, WriteTask,
    query_account, query_balance,
};
use svc_wire::{chain_error::ChainErrorKind, proto::svc::pp::v1::MsgTriggerResolver};
use tokio::time::Instant;
use tracing::Instrument;

use super::{
    core::{AttemptEnd, BlockedReason},
    grant::{TRIGGER, TriggerGrant, read_grant},
    participant::AgentAccount,
};
use crate::{
    chain_link::ChainAccess,
    journal_key::resolution_key,
    store::{AgentStore, AgentStoreError},
};

/// Blocks behind the timeout height of a transaction after which it is not waited for any more.
const GIVE_UP_BLOCKS: u64 = 100;

/// Pause between two looks at a transaction that is not decided.
const UNDECIDED_LOOK: Duration = Duration::from_secs(60);

/// An attempt that ended early.
enum Stop {
    Blocked(BlockedReason),
    Failed(String),
}

impl From<NodeClientError> for Stop {
    fn from(error: NodeClientError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<AgentStoreError> for Stop {
    fn from(error: AgentStoreError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<JournalError> for Stop {
    fn from(error: JournalError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<BlockedReason> for Stop {
    fn from(reason: BlockedReason) -> Self {
        Self::Blocked(reason)
    }
}

impl From<SubmitError> for Stop {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::AboveCeiling(_) => Self::Blocked(BlockedReason::FeeAboveCeiling),
            SubmitError::NoAccount { .. } => Self::Blocked(BlockedReason::NoFees),
            other => Self::Failed(other.to_string()),
        }
    }
}

/// The transaction of an attempt before it is signed.
struct Trigger {
    message: EncodedMessage,
    granter: Option<FeeGranter>,
}

/// The corporation's allowance pays the fee where it can.
struct Payer(Option<FeeGranter>);

impl SigningPolicy for Payer {
    type Refusal = Infallible;

    fn authorize(&self, _: &WriteIntent, _: u32) -> Result<Option<FeeGranter>, Infallible> {
        Ok(self.0.clone())
    }
}

/// An attempt for one version.
pub(super) struct Attempt {
    pub store: AgentStore,
    pub access: ChainAccess,
    pub did: String,
    pub corporation_id: u64,
    pub version: u64,
}

impl Attempt {
    /// Runs the attempt. `sent` hears of the hash of each transaction that is on its way.
    pub async fn run(&self, sent: impl Fn(String)) -> AttemptEnd {
        match self.run_to_end(&sent).await {
            Ok(tx_hash) => AttemptEnd::Done { tx_hash },
            Err(Stop::Blocked(reason)) => AttemptEnd::Blocked(reason),
            Err(Stop::Failed(reason)) => AttemptEnd::Failed(reason),
        }
    }

    async fn run_to_end(&self, sent: &impl Fn(String)) -> Result<String, Stop> {
        if let Some(tx_hash) = self.find_earlier(sent).await? {
            return Ok(tx_hash);
        }
        let trigger = self.prepare().await?;
        // An earlier incarnation may have been killed while the signer had its write.
        if let Some(tx_hash) = self.find_earlier(sent).await? {
            return Ok(tx_hash);
        }
        self.store.begin_resolution(self.version).await?;
        self.write(trigger, sent).await
    }

    fn pipeline(&self) -> &Pipeline {
        &self.access.pipeline
    }

    /// Waits until a transaction of the attempt is far behind its timeout height: the blocks that decide it may be at no node.
    async fn await_undecidable(&self) {
        let (journal, key) = (self.pipeline().journal(), resolution_key(&self.did, self.version));
        loop {
            tokio::time::sleep(UNDECIDED_LOOK).await;
            let found = journal.find_by_key(&key).await.ok().flatten();
            let is_undecided = |record: JournalRecord| {
                record.state.starts_with("open") && self.height() > record.timeout_height + GIVE_UP_BLOCKS
            };
            if found.is_some_and(is_undecided) {
                return;
            }
        }
    }

    fn height(&self) -> u64 {
        self.pipeline().clock().height
    }

    /// The transaction that an earlier process sent for this version, once a block has it.
    async fn find_earlier(&self, sent: &impl Fn(String)) -> Result<Option<String>, Stop> {
        let (journal, key) = (self.pipeline().journal(), resolution_key(&self.did, self.version));
        let is_open = |record: &JournalRecord| record.state.starts_with("open");
        let mut found = journal.find_by_key(&key).await?;
        if let Some(record) = found.as_ref().filter(|record| is_open(record)) {
            sent(record.tx_hash.clone());
            self.store.note_transaction(&record.tx_hash).await?;
            let _ = self.pipeline().await_outcome(&record.tx_hash).await;
            found = journal.find_by_key(&key).await?;
        }
        match found {
            Some(record) if record.state == "included" => Ok(Some(record.tx_hash)),
            // No node may have the blocks that decide it; a repetition changes nothing on chain.
            Some(record) if is_open(&record) && self.height() <= record.timeout_height + GIVE_UP_BLOCKS => {
                Err(Stop::Failed(format!("transaction {} is not decided yet", record.tx_hash)))
            }
            _ => Ok(None),
        }
    }

    /// Reads participant, record and payer at the node.
    async fn prepare(&self) -> Result<Trigger, Stop> {
        let (chain, node) = (&self.access.chain, self.pipeline().node());
        let address = self.pipeline().identity().address.to_string();
        let agent =
            AgentAccount { did: self.did.clone(), corporation_id: self.corporation_id, address: address.clone() };
        let now = self.pipeline().clock().time(Instant::now()).unwrap_or_else(wall_clock::now);
        let grant = read_grant(node, chain, &agent, &now).await??;
        let granter = grant.budget.map(|budget| FeeGranter { address: grant.corporation.clone(), budget });
        let TriggerGrant { corporation, participant_id: id, .. } = grant;
        let value = MsgTriggerResolver { corporation, operator: address.clone(), id }.encode_to_vec();
        let type_url = chain.registry.namespace().type_url("pp", TRIGGER);
        let message = EncodedMessage { message: Any { type_url, value }, needs_grant: true };
        let account = query_account(node, &address).await?.ok_or(BlockedReason::NoFees)?;
        let estimate = self.pipeline().estimate(&message, account.sequence, granter.clone()).await;
        let granter = match (&estimate, granter) {
            // An allowance of an account without coins pays nothing.
            (Ok(estimate), Some(granter)) if estimate.has_granter => {
                let coins = query_balance(node, &granter.address, &chain.params.denom).await?;
                Some(granter).filter(|_| coins >= estimate.fee)
            }
            _ => None,
        };
        let estimate = match (estimate, &granter) {
            (Ok(found), None) if found.has_granter => self.pipeline().estimate(&message, account.sequence, None).await,
            (estimate, _) => estimate,
        };
        match estimate {
            Ok(_) => Ok(Trigger { message, granter }),
            Err(EstimateError::InsufficientBalance { .. }) => Err(BlockedReason::NoFees.into()),
            Err(EstimateError::Submit(error)) => Err(error.into()),
            Err(EstimateError::Node(error)) => Err(error.into()),
        }
    }

    async fn write(&self, trigger: Trigger, sent: &impl Fn(String)) -> Result<String, Stop> {
        let span = trace::trigger_span(&self.did, self.version);
        let origin = WriteOrigin { tool: "resolution".into(), ..WriteOrigin::embedder("agent") };
        let key = Some(resolution_key(&self.did, self.version));
        let intent = Arc::new(WriteIntent::new(trigger.message, origin, key, &span));
        let (mut task, mut handle) = WriteTask::<()>::new(intent, span.clone());
        // The same message says the same thing again: a repetition changes nothing.
        task.allow_repetition();
        let actors = self.pipeline().actors();
        let writing = async {
            let mut written = task.run(actors, &Payer(trigger.granter)).await;
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
                        if let Err(error) = self.store.note_transaction(&hash).await {
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
            (written, ()) = both => conclude(written),
            () = self.await_undecidable() => Err(Stop::Failed("the transaction cannot be decided".to_owned())),
        }
    }
}

fn conclude(written: Result<DecidedWrite, WriteFailure<Infallible>>) -> Result<String, Stop> {
    let decided = match written {
        Ok(decided) => decided,
        Err(WriteFailure { error: WriteError::Submit(error), .. }) => return Err(error.into()),
        Err(WriteFailure { error: WriteError::Rejected { refusal, .. }, .. })
            if refusal.error.classify() == ChainErrorKind::InsufficientFees =>
        {
            return Err(BlockedReason::NoFees.into());
        }
        Err(failure) => return Err(Stop::Failed(failure.error.to_string())),
    };
    match decided.outcome {
        WriteOutcome::Included { result, .. } if result.code == 0 => Ok(decided.tx.hash),
        WriteOutcome::Included { result, .. } => {
            Err(Stop::Failed(format!("transaction {} failed: {}", decided.tx.hash, result.log)))
        }
        outcome @ (WriteOutcome::Expired { .. } | WriteOutcome::Displaced { .. }) => {
            Err(Stop::Failed(format!("transaction {} was {}", decided.tx.hash, outcome.label())))
        }
    }
}
