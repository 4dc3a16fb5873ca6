//! The actor around the decisions of the confirmer.

use std::{collections::HashMap, sync::Arc};

use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, ReplyPort};
use svc_net::upstream::NodeClientError;
use svc_otel::metrics;

use super::{
    Args, Msg,
    block_reader::BlockReader,
    core::{AbsenceVerdict, PendingTx, TxLookups, describe_heights},
    lookup::{LookupAnswer, look_up_all},
};
use crate::write::{in_flight::InFlightTx, outcome::WriteOutcome};

/// State of a confirmer.
pub struct State {
    args: Arc<Args>,
    lookups: TxLookups,
    blocks: BlockReader,
    waiters: HashMap<String, Vec<ReplyPort<Option<WriteOutcome>>>>,
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
        match message {
            Msg::Await { hash, reply } => state.wait(hash, reply),
            Msg::TxSeen { height, hash, result } => state.decide(&hash, WriteOutcome::Included { height, result }),
            Msg::BlockSeen { height } => {
                state.drop_abandoned_waiters();
                state.start_lookups(context, height, false);
            }
            Msg::LookUpAll => {
                let height = state.args.clock.with(|clock| clock.height);
                state.start_lookups(context, height, true);
            }
            Msg::LookupFinished { hash, answer } => state.finish_lookup(&hash, answer),
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
    fn wait(&mut self, hash: String, reply: ReplyPort<Option<WriteOutcome>>) {
        let known = self.args.table.with(|table| table.get(&hash).map(|tx| tx.outcome.clone()));
        match known {
            None => reply.send(None),
            Some(Some(outcome)) => reply.send(Some(outcome)),
            Some(None) => {
                let waiters = self.waiters.entry(hash).or_default();
                // Abandoned waiters would accumulate while the chain makes no blocks.
                waiters.retain(|waiter| !waiter.is_abandoned());
                waiters.push(reply);
            }
        }
    }

    fn finish_lookup(&mut self, hash: &str, answer: Result<LookupAnswer, NodeClientError>) {
        self.lookups.finish(hash);
        match answer {
            Ok(Ok(outcome)) => self.decide(hash, outcome),
            Ok(Err(AbsenceVerdict::Missing)) => self.args.signer.doubt(),
            Ok(Err(AbsenceVerdict::Unprovable { missing })) => {
                self.lookups.postpone(hash);
                let is_news = self.args.table.with(|table| table.note_missing_blocks(hash, missing.clone()));
                if is_news {
                    let missing = describe_heights(&missing);
                    tracing::error!(tx_hash = hash, missing, "no node has the blocks that decide the transaction");
                }
            }
            Ok(Err(AbsenceVerdict::Undetermined)) | Err(_) => {}
        }
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
        for reply in self.waiters.remove(hash).unwrap_or_default() {
            reply.send(Some(outcome.clone()));
        }
    }

    /// Writes a new outcome to the journal, the metrics, the gas history and the log.
    fn record_outcome(&self, tx: &InFlightTx, outcome: &WriteOutcome) {
        let (hash, msg_type) = (tx.hash.as_str(), tx.intent.encoded.msg_type());
        self.args.journal.record_decided(tx, outcome);
        metrics::record_tx_outcome(msg_type, outcome.label());
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
            waiters.retain(|waiter| !waiter.is_abandoned());
            !waiters.is_empty()
        });
    }

    fn start_lookups(&mut self, context: &ActorContext<Msg>, height: u64, includes_all: bool) {
        let pending: Vec<PendingTx> = self.args.table.with(|table| table.live().map(PendingTx::from).collect());
        let due = self.lookups.take_due(&pending, height, includes_all);
        if !due.is_empty() {
            let (node, address) = (self.args.node.clone(), self.args.address.clone());
            context.spawn(look_up_all(node, self.blocks.clone(), address, due, context.mailbox()));
        }
    }
}
