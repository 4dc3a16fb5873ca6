//! The actor around the decisions of the confirmer.

use std::{collections::HashMap, sync::Arc};

use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, ReplyPort};
use svc_net::upstream::NodeClientError;
use svc_otel::metrics;
use svc_wire::comet_rpc::ExecTxResult;

use super::{
    Args, Msg, TxNews,
    block_reader::BlockReader,
    core::{PendingTx, PendingVerdict, TxLookups, describe_heights},
    lookup::{LookupAnswer, look_up_all, look_up_failure},
};
use crate::write::{
    in_flight::InFlightTx,
    outcome::{TxRefusal, WriteOutcome},
};

/// State of a confirmer.
pub struct State {
    args: Arc<Args>,
    lookups: TxLookups,
    blocks: BlockReader,
    waiters: HashMap<String, Vec<Waiter>>,
}

/// A caller that waits for news of a transaction.
struct Waiter {
    includes_refusal: bool,
    reply: ReplyPort<Option<TxNews>>,
}

/// The actor that decides outcomes.
pub struct Confirmer;

impl ActorBehaviour for Confirmer {
    const KIND: &'static str = "confirmer";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<State, ActorFailure> {
        // Finds the inclusions that the node reported while no confirmer was running.
        context.mailbox().send(Msg::LookUpAll);
        let (lookups, blocks) = (TxLookups::default(), BlockReader::default());
        Ok(State { args: Arc::clone(args), lookups, blocks, waiters: HashMap::new() })
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        // The blocks of another history decide no transaction of this one.
        let is_other_history = state.args.journal.has_chain_changed();
        match message {
            Msg::Await { hash, includes_refusal, reply } => state.wait(hash, Waiter { includes_refusal, reply }),
            Msg::TxSeen { .. } | Msg::LookUpAll if is_other_history => {}
            Msg::LookedUp { hash, .. } if is_other_history => state.lookups.finish(&hash),
            Msg::TxSeen { height, hash, result } => state.record_seen(context, height, &hash, result),
            Msg::BlockSeen { height } => {
                state.drop_abandoned_waiters();
                state.report_refusals();
                if !is_other_history {
                    state.start_lookups(context, height, false);
                }
            }
            Msg::LookUpAll => {
                let height = state.args.clock.with(|clock| clock.height);
                state.start_lookups(context, height, true);
            }
            Msg::LookedUp { hash, answer } => state.finish_lookup(&hash, answer),
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({
            "waiting_callers": state.waiters.values().map(Vec::len).sum::<usize>(),
            "looks_under_way": state.lookups.in_progress_count(),
        })
    }
}

impl State {
    fn wait(&mut self, hash: String, waiter: Waiter) {
        let known = self.args.table.with(|table| table.get(&hash).map(|tx| (tx.outcome.clone(), tx.refusal.is_some())));
        match known {
            None => waiter.reply.send(None),
            Some((Some(outcome), _)) => waiter.reply.send(Some(TxNews::Decided(outcome))),
            Some((None, true)) if waiter.includes_refusal => waiter.reply.send(Some(TxNews::Refused)),
            Some((None, _)) => {
                let waiters = self.waiters.entry(hash).or_default();
                // Abandoned waiters would accumulate while the chain makes no blocks.
                waiters.retain(|waiter| !waiter.reply.is_abandoned());
                waiters.push(waiter);
            }
        }
    }

    /// Answers the callers that wait for a refusal. The signer records refusals in the table.
    fn report_refusals(&mut self) {
        let table = &self.args.table;
        for (hash, waiters) in &mut self.waiters {
            if table.with(|table| table.get(hash).is_some_and(|tx| tx.refusal.is_some())) {
                for waiter in waiters.extract_if(.., |waiter| waiter.includes_refusal) {
                    waiter.reply.send(Some(TxNews::Refused));
                }
            }
        }
    }

    fn finish_lookup(&mut self, hash: &str, answer: Result<LookupAnswer, NodeClientError>) {
        self.lookups.finish(hash);
        match answer {
            Ok(Ok(outcome)) => self.decide(hash, outcome),
            Ok(Err(PendingVerdict::Missing)) => self.args.signer.doubt(),
            Ok(Err(PendingVerdict::AnteFailure(refusal))) => self.refuse(hash, &refusal),
            Ok(Err(PendingVerdict::Unprovable { missing })) => {
                self.lookups.postpone(hash);
                let is_news = self.args.table.with(|table| table.note_missing_blocks(hash, missing.clone()));
                if is_news {
                    let missing = describe_heights(&missing);
                    tracing::error!(tx_hash = hash, missing, "no node has the blocks that decide the transaction");
                }
            }
            Ok(Err(PendingVerdict::Undetermined)) | Err(_) => {}
        }
    }

    /// The node reported a transaction of the account in a block.
    fn record_seen(&mut self, context: &ActorContext<Msg>, height: u64, hash: &str, result: Box<ExecTxResult>) {
        if result.code == 0 {
            self.decide(hash, WriteOutcome::Included { height, result });
            return;
        }
        let pending =
            self.args.table.with(|table| table.get(hash).filter(|tx| tx.outcome.is_none()).map(PendingTx::from));
        if let Some(pending) = pending {
            let node = self.args.node.clone();
            context.spawn(look_up_failure(node, pending, (height, result), context.mailbox()));
        }
    }

    /// A block has the transaction, refused by the ante handler: its sequence is free, and only its timeout height ends it.
    fn refuse(&mut self, hash: &str, refusal: &TxRefusal) {
        if !self.args.table.with(|table| table.refuse(hash, refusal.clone())) {
            return;
        }
        self.args.journal.record_refused(hash, refusal);
        metrics::record_tx_refused("block");
        let (height, reason) = (refusal.block_height, refusal.error.raw_log.as_str());
        tracing::warn!(tx_hash = hash, height, reason, "transaction failed before its messages");
        self.args.signer.settled(false);
        self.report_refusals();
    }

    fn decide(&mut self, hash: &str, outcome: WriteOutcome) {
        let decided = self
            .args
            .table
            .with(|table| if table.decide(hash, outcome.clone()) { table.get(hash).cloned() } else { None });
        if let Some(tx) = decided {
            self.record_outcome(&tx, &outcome);
            self.args.signer.settled(outcome.uses_sequence(tx.sequence));
        }
        for waiter in self.waiters.remove(hash).unwrap_or_default() {
            waiter.reply.send(Some(TxNews::Decided(outcome.clone())));
        }
    }

    /// Writes a new outcome to the journal, the metrics, the gas history and the log.
    fn record_outcome(&self, tx: &InFlightTx, outcome: &WriteOutcome) {
        let (hash, msg_type) = (tx.hash.as_str(), tx.intent.encoded.msg_type());
        self.args.journal.record_decided(tx, outcome);
        metrics::record_tx_outcome(msg_type, tx.outcome_label().unwrap_or(outcome.label()));
        match outcome {
            WriteOutcome::Included { height, result } => {
                self.args.gas.with(|gas| gas.record_usage(msg_type, result.gas_used));
                tracing::info!(tx_hash = hash, height = *height, code = result.code, "transaction is included");
            }
            WriteOutcome::Expired { timeout_height } => {
                tracing::warn!(tx_hash = hash, timeout_height = *timeout_height, "transaction has expired");
            }
            WriteOutcome::Displaced { height } => {
                tracing::warn!(
                    tx_hash = hash,
                    sequence = tx.sequence,
                    height = *height,
                    "another transaction used the sequence"
                );
            }
        }
    }

    fn drop_abandoned_waiters(&mut self) {
        self.waiters.retain(|_, waiters| {
            waiters.retain(|waiter| !waiter.reply.is_abandoned());
            !waiters.is_empty()
        });
    }

    fn start_lookups(&mut self, context: &ActorContext<Msg>, height: u64, includes_all: bool) {
        let pending: Vec<PendingTx> =
            self.args.table.with(|table| table.live().chain(table.refused()).map(PendingTx::from).collect());
        let due = self.lookups.take_due(&pending, height, includes_all);
        if !due.is_empty() {
            let (node, account) = (self.args.node.clone(), self.args.account.clone());
            context.spawn(look_up_all(node, self.blocks.clone(), account, due, context.mailbox()));
        }
    }
}
