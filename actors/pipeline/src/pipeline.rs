//! The pipeline of one account: its actors behind one handle.
//!
//! ```text
//! pipeline (one-for-one, gives up after 10 restarts in 10 s)
//! ├── journal     every signed transaction, on disk before it is sent
//! ├── signer      the key and the sequence
//! ├── confirmer   transactions in flight, to a final outcome
//! └── node_link   the node's WebSocket and the block clock
//! ```

mod assembly;

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use ractor::ActorCell;
use svc_kit::{
    RetainedState, TaskGroup, TaskLimitError,
    supervision::{ChildSpec, Supervisor, SupervisorError, SupervisorSpec},
};
use svc_net::upstream::{BlockClock, BlockHead, NodeClient, NodeClientError};
use svc_wire::{
    account_key::AccountKey, address::AddressError, comet_rpc::ExecTxResult, proto_registry::ProtoRegistry,
};
use tracing::Span;

use crate::{
    chain::{
        account::AccountIdentity,
        gas_price::GasPriceWatch,
        head::query_head,
        node_release::{NodeRelease, ReleaseWatch},
        params::ChainParams,
    },
    config::PipelineConfig,
    confirmer::block_reader::read_result,
    decided_write::DecidedWrite,
    estimate::{CostEstimator, EstimateError, TxEstimate},
    journal::{JournalHandle, core::RecoverySummary, error::RecoveryError},
    recovery::RecoveredJournal,
    signer::{SignerHandle, gas_history::GasHistory},
    write::{
        error::WriteFailure,
        fee::{FeeGranter, FeeLimits},
        in_flight::{InFlightTable, InFlightTx},
        intent::{WriteIntent, WriteOrigin},
        message::EncodedMessage,
        outcome::WriteOutcome,
        policy::OwnAccount,
        status::WriteHandle,
        submission::SubmissionId,
    },
    write_task::{WriteActors, WriteTask},
};

/// A pipeline that did not start.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// The key has no address on the chain.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The journal cannot be recovered.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// The node did not answer.
    #[error(transparent)]
    Node(#[from] NodeClientError),
    /// The actors did not start.
    #[error(transparent)]
    Supervisor(#[from] SupervisorError),
}

/// Time for the actors to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// The answer to a write of [`Pipeline::execute`].
pub type WriteAnswer = Result<DecidedWrite, Arc<WriteFailure<Infallible>>>;

/// A running pipeline. Clones share it. When the last one is dropped, its active writes end and its actors stop.
#[derive(Clone)]
pub struct Pipeline(Arc<PipelineRuntime>);

struct PipelineRuntime {
    chain: ChainParams,
    prices: GasPriceWatch,
    release: ReleaseWatch,
    identity: AccountIdentity,
    node: NodeClient,
    clock: RetainedState<BlockClock>,
    gas: RetainedState<GasHistory>,
    journal: JournalHandle,
    actors: WriteActors,
    tasks: TaskGroup,
    /// The supervisor of a pipeline that stands alone; `None` when a larger tree supervises the actors.
    supervisor: Option<Supervisor>,
}

/// The actors of a pipeline for a larger tree to supervise.
pub struct PipelineParts {
    /// The handle.
    pub pipeline: Pipeline,
    /// The actors, in start order.
    pub children: Vec<ChildSpec>,
}

impl Pipeline {
    /// Recovers the journal and starts the actors under a supervisor of their own.
    pub async fn start(config: PipelineConfig, key: AccountKey, node: NodeClient) -> Result<Self, PipelineError> {
        let (pipeline, supervisor, spec) = Self::prepare(config, key, node).await?;
        supervisor.start(spec).await?;
        pipeline.follow_recovered();
        Ok(pipeline)
    }

    /// Recovers the journal and starts the actors under a supervisor that is linked to `parent`: any ractor actor of a larger
    /// platform can supervise the pipeline.
    ///
    /// A `parent` that starts a killed pipeline again drops the supervision event first: ractor puts the dead supervisor's state
    /// into it, and with it the journal, which has one owner at a time.
    pub async fn start_linked(
        config: PipelineConfig,
        key: AccountKey,
        node: NodeClient,
        parent: ActorCell,
    ) -> Result<Self, PipelineError> {
        let (pipeline, supervisor, spec) = Self::prepare(config, key, node).await?;
        supervisor.start_linked(spec, parent).await?;
        pipeline.follow_recovered();
        Ok(pipeline)
    }

    async fn prepare(
        config: PipelineConfig,
        key: AccountKey,
        node: NodeClient,
    ) -> Result<(Self, Supervisor, SupervisorSpec), PipelineError> {
        let identity = AccountIdentity::new(&key, &config.chain.prefix)?;
        // No clock knows a height yet: one that only a single node has is not believed.
        node.select_current(Some(0)).await;
        let head = query_head(&node).await?;
        let recovered = RecoveredJournal::open(&config.journal, &config.chain, &identity, &node, None).await?;
        let supervisor = Supervisor::new("pipeline");
        let owned = Some(supervisor.clone());
        let PipelineParts { pipeline, children } = Self::build(config, key, identity, node, head, recovered, owned);
        Ok((pipeline, supervisor, SupervisorSpec::one_for_one(children)))
    }

    /// The actors of a pipeline, not started, for a larger tree that supervises them. `head` is the newest block.
    pub fn embed(
        config: PipelineConfig,
        key: AccountKey,
        identity: AccountIdentity,
        node: NodeClient,
        head: BlockHead,
        recovered: RecoveredJournal,
    ) -> PipelineParts {
        Self::build(config, key, identity, node, head, recovered, None)
    }

    /// Starts a write that pays its own fee. It goes on when the handle is dropped.
    ///
    /// The journal records the idempotency key with each transaction of the write; the pipeline itself does not compare keys. A
    /// caller that repeats a write after the death of a pipeline asks the journal of the next one first
    /// ([`JournalHandle::find_by_key`]): without a record, nothing of the write was sent.
    pub fn execute(
        &self,
        message: EncodedMessage,
        origin: WriteOrigin,
        idempotency_key: Option<String>,
    ) -> Result<WriteHandle<WriteAnswer>, TaskLimitError> {
        let span = Span::current();
        let intent = Arc::new(WriteIntent::new(message, origin, idempotency_key, &span));
        let (mut task, handle) = WriteTask::new(intent, span);
        // The task holds the pipeline, which therefore outlives its active writes.
        let pipeline = self.clone();
        self.0.tasks.spawn(async move {
            let actors = &pipeline.0.actors;
            let mut answer = task.run(actors, &OwnAccount).await.map_err(Arc::new);
            if answer.as_ref().is_err_and(|failure| failure.may_execute) {
                task.answer_early(answer.clone());
                // The place among the active writes is kept until none of the transactions can execute.
                if let Some(decided) = task.follow(actors).await.filter(DecidedWrite::has_executed) {
                    answer = Ok(decided);
                }
            }
            task.finish(actors, answer);
        })?;
        Ok(handle)
    }

    /// The result of a transaction in the block at a height, which is read from the block and not from an index. `None` when no
    /// node has the block, or when the block does not contain the transaction.
    pub async fn read_result(&self, height: u64, hash: &str) -> Result<Option<ExecTxResult>, NodeClientError> {
        read_result(&self.0.node, height, hash).await
    }

    /// Waits for the outcome of a transaction that is in the table, at most as long as a caller waits for inclusion. `None` when it
    /// stays undecided or is unknown.
    pub async fn await_outcome(&self, hash: &str) -> Option<WriteOutcome> {
        let actors = &self.0.actors;
        tokio::time::timeout(actors.tx_timeout, actors.confirmer.await_outcome(hash)).await.ok().flatten()
    }

    /// Estimates the cost of a write without signing it, at first with the given sequence and fee granter.
    pub async fn estimate(
        &self,
        message: &EncodedMessage,
        sequence: u64,
        granter: Option<FeeGranter>,
        (principal, fee_limits): (&str, FeeLimits),
    ) -> Result<TxEstimate, EstimateError> {
        let runtime = &self.0;
        if let Some(refusal) = runtime.release.get().refusal_of(message.msg_type()) {
            return Err(refusal.into());
        }
        let estimator = CostEstimator {
            chain: &runtime.chain,
            fees: runtime.prices.fees(),
            identity: &runtime.identity,
            node: &runtime.node,
            clock: &runtime.clock,
            gas: &runtime.gas,
            tx_timeout: runtime.actors.tx_timeout,
            spent_today: self.with_table(|table| table.daily_fees().spent(principal)),
            fee_limits,
        };
        estimator.estimate(message, sequence, granter).await
    }

    /// Records the outcomes that the recovery decided, and yields the transactions of each recovered write. Call it once the actors are
    /// started; an embedder follows the writes with [`WriteTask::resume`].
    pub fn recovered_writes(&self) -> Vec<Vec<InFlightTx>> {
        let mut writes = BTreeMap::<SubmissionId, Vec<InFlightTx>>::new();
        self.with_table(|table| {
            for submission_id in table.all().map(|tx| tx.submission_id) {
                let transactions = || table.transactions_of(submission_id).cloned().collect();
                writes.entry(submission_id).or_insert_with(transactions);
            }
        });
        for tx in writes.values().flatten() {
            if let Some(outcome) = &tx.outcome {
                self.0.journal.record_decided(tx, outcome);
            }
        }
        writes.into_values().collect()
    }

    /// Follows the transactions of an earlier process to their outcomes. An embedder that has no answers to give calls it once the
    /// actors are started.
    pub fn follow_recovered(&self) {
        for transactions in self.recovered_writes() {
            let Some(intent) = transactions.first().map(|tx| Arc::clone(&tx.intent)) else { continue };
            let (mut task, _) = WriteTask::<()>::new(intent, Span::none());
            let actors = self.0.actors.clone();
            // A full group leaves the transactions to the confirmer, which follows them all the same.
            let _ = self.0.tasks.spawn(async move {
                let _ = task.resume::<Infallible>(&actors, &transactions).await;
                task.finish(&actors, ());
            });
        }
    }

    /// The release of the node, as it was last read.
    pub fn release(&self) -> Arc<NodeRelease> {
        self.0.release.get()
    }

    /// Whether `known` is the release of the node in use. It is not after the end of a connection, until the release was read again.
    pub fn is_release_of_node(&self, known: &NodeRelease) -> bool {
        self.0.release.is_current(&self.0.node) && *self.0.release.get() == *known
    }

    /// Waits until another release of the node than `known` was read, and returns it: the messages that it takes may be others.
    pub async fn await_other_release(&self, known: &NodeRelease) -> Arc<NodeRelease> {
        self.0.release.await_other(known).await
    }

    /// The messages as the node describes them, as they were last read; `None` before the first answer.
    pub fn served_messages(&self) -> Option<Arc<ProtoRegistry>> {
        self.0.release.served()
    }

    /// The price of gas.
    pub fn prices(&self) -> &GasPriceWatch {
        &self.0.prices
    }

    /// Parameters of the chain.
    pub fn chain(&self) -> &ChainParams {
        &self.0.chain
    }

    /// Address and public key of the account.
    pub fn identity(&self) -> &AccountIdentity {
        &self.0.identity
    }

    /// The node, or one of several.
    pub fn node(&self) -> &NodeClient {
        &self.0.node
    }

    /// Height and pace of the chain.
    pub fn clock(&self) -> BlockClock {
        self.0.clock.with(|clock| clock.clone())
    }

    /// The clock that [`Pipeline::clock`] reads. It keeps no pipeline running.
    pub fn shared_clock(&self) -> RetainedState<BlockClock> {
        self.0.clock.clone()
    }

    /// The journal.
    pub fn journal(&self) -> &JournalHandle {
        &self.0.journal
    }

    /// The signer.
    pub fn signer(&self) -> &SignerHandle {
        &self.0.actors.signer
    }

    /// The actors that a write task works with.
    pub fn actors(&self) -> &WriteActors {
        &self.0.actors
    }

    /// Reads the table of transactions in flight.
    pub fn with_table<R>(&self, read: impl FnOnce(&InFlightTable) -> R) -> R {
        self.0.actors.table.with(|table| read(table))
    }

    /// Transactions that the recovery found open, and their outcomes so far.
    pub fn recovery(&self) -> RecoverySummary {
        self.0.actors.recovery.with(|summary| summary.clone())
    }

    /// Longest wait of a caller for inclusion.
    pub fn tx_timeout(&self) -> Duration {
        self.0.actors.tx_timeout
    }

    /// The supervisor of a pipeline that stands alone, for embedding and for tests that crash actors.
    pub fn supervisor(&self) -> Option<&Supervisor> {
        self.0.supervisor.as_ref()
    }

    /// Refuses new writes, lets active ones end within `wait_limit`, writes the journal and stops the actors. The next process
    /// finds undecided transactions in the journal.
    pub async fn shutdown(&self, wait_limit: Duration) {
        self.0.tasks.drain(wait_limit).await;
        self.0.journal.pin_known().await;
        self.0.journal.flush(STOP_TIMEOUT).await;
        if let Some(supervisor) = &self.0.supervisor {
            supervisor.shutdown(STOP_TIMEOUT).await;
        }
    }
}

impl Drop for PipelineRuntime {
    fn drop(&mut self) {
        let Some(supervisor) = self.supervisor.take() else { return };
        // Without a runtime there are no actors either.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let journal = self.journal.clone();
        runtime.spawn(async move {
            journal.flush(STOP_TIMEOUT).await;
            supervisor.shutdown(STOP_TIMEOUT).await;
        });
    }
}
