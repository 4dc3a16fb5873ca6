//! The actor around the confirmer's decisions.

use std::{collections::HashMap, sync::Arc};

use serde_json::{Value, json};
use svc_kit::{
    Behaviour, Context, Failure, Handle, Intent, Reply, Retained,
    upstream::{NodeClient, NodeError},
};
use svc_wire::comet::{Tx, TxResult};

use super::core::{Looks, is_expired};
use crate::{
    in_flight::{InFlight, Outcome},
    node_link::Clock,
    signer,
};

/// What the confirmer is told.
pub enum Msg {
    /// Answer when the transaction is decided; at once with nothing when it is unknown.
    Await {
        /// Upper-case hex.
        hash: String,
        /// The answer.
        reply: Reply<Option<Outcome>>,
    },
    /// The node told of an included transaction.
    TxSeen {
        /// Height.
        height: u64,
        /// Upper-case hex.
        hash: String,
        /// Result.
        result: Box<TxResult>,
    },
    /// The node made a block.
    BlockSeen(u64),
    /// Inclusions may have passed unseen.
    LookAllUp,
    /// A look has ended; it began at this height.
    LookedUp(String, u64, Result<Option<Box<Tx>>, NodeError>),
}

impl Intent for Msg {
    fn name(&self) -> &'static str {
        match self {
            Self::Await { .. } => "await",
            Self::TxSeen { .. } => "tx_seen",
            Self::BlockSeen(_) => "block_seen",
            Self::LookAllUp => "look_all_up",
            Self::LookedUp(..) => "looked_up",
        }
    }
}

/// What a confirmer is made from.
pub struct Args {
    pub node: NodeClient,
    pub table: Retained<InFlight>,
    pub clock: Retained<Clock>,
    pub signer: Handle<signer::Msg>,
}

pub struct State {
    args: Arc<Args>,
    looks: Looks,
    waiters: HashMap<String, Vec<Reply<Option<Outcome>>>>,
}

pub struct Confirmer;

impl Behaviour for Confirmer {
    const KIND: &'static str = "confirmer";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &Context<Msg>, args: &Arc<Args>) -> Result<State, Failure> {
        // What was included while nobody listened is found now.
        context.mailbox().send(Msg::LookAllUp);
        Ok(State { args: Arc::clone(args), looks: Looks::default(), waiters: HashMap::new() })
    }

    async fn handle(context: &Context<Msg>, message: Msg, state: &mut State) -> Result<(), Failure> {
        match message {
            Msg::Await { hash, reply } => {
                let known = state.args.table.with(|table| table.get(&hash).map(|entry| entry.outcome.clone()));
                match known {
                    None => reply.send(None),
                    Some(Some(outcome)) => reply.send(Some(outcome)),
                    Some(None) => state.waiters.entry(hash).or_default().push(reply),
                }
            }
            Msg::TxSeen { height, hash, result } => state.decide(&hash, Outcome::Included { height, result }),
            Msg::BlockSeen(height) => {
                state.forget_the_gone();
                state.look_up(context, height, false);
            }
            Msg::LookAllUp => {
                let height = state.args.clock.with(|clock| clock.height);
                state.look_up(context, height, true);
            }
            Msg::LookedUp(hash, began_at, answer) => {
                state.looks.ended(&hash);
                let timeout_height = state.args.table.with(|table| table.get(&hash).map(|entry| entry.timeout_height));
                match (answer, timeout_height) {
                    (Ok(Some(tx)), _) => {
                        state.decide(&hash, Outcome::Included { height: tx.height, result: Box::new(tx.tx_result) });
                    }
                    (Ok(None), Some(timeout_height)) if is_expired(began_at, timeout_height) => {
                        state.decide(&hash, Outcome::Expired { timeout_height });
                    }
                    (Ok(None) | Err(_), _) => {}
                }
            }
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({"waiting_callers": state.waiters.values().map(Vec::len).sum::<usize>(), "looks_under_way": state.looks.under_way()})
    }
}

impl State {
    fn decide(&mut self, hash: &str, outcome: Outcome) {
        let is_included = matches!(outcome, Outcome::Included { .. });
        let is_news = self.args.table.with(|table| table.decide(hash, outcome.clone()));
        if is_news {
            match &outcome {
                Outcome::Included { height, result } => {
                    tracing::info!(tx_hash = hash, height = *height, code = result.code, "transaction is included");
                }
                Outcome::Expired { timeout_height } => {
                    tracing::warn!(tx_hash = hash, timeout_height = *timeout_height, "transaction has expired");
                }
            }
            signer::notify(&self.args.signer, signer::Msg::Settled { is_included });
        }
        for reply in self.waiters.remove(hash).unwrap_or_default() {
            reply.send(Some(outcome.clone()));
        }
    }

    fn forget_the_gone(&mut self) {
        self.waiters.retain(|_, waiters| {
            waiters.retain(|waiter| !waiter.is_abandoned());
            !waiters.is_empty()
        });
    }

    fn look_up(&mut self, context: &Context<Msg>, height: u64, is_everything: bool) {
        let pending: Vec<(String, u64)> = self
            .args
            .table
            .with(|table| table.live().into_iter().map(|entry| (entry.hash.clone(), entry.timeout_height)).collect());
        for hash in self.looks.due(&pending, height, is_everything) {
            let (node, mailbox) = (self.args.node.clone(), context.mailbox());
            context.spawn(async move {
                let answer = node.tx(&hash).await.map(|found| found.map(Box::new));
                mailbox.send(Msg::LookedUp(hash, height, answer));
            });
        }
    }
}
