//! The actor around the confirmer's decisions.

use std::{collections::HashMap, sync::Arc};

use futures::StreamExt;
use serde_json::{Value, json};
use svc_kit::{
    Behaviour, Context, Failure, Handle, Intent, Mailbox, Reply, Retained,
    upstream::{NodeClient, NodeError},
};
use svc_otel::metrics;
use svc_wire::comet::{Tx, TxResult};

use super::core::{Absence, Facts, Looks, Pending, judge};
use crate::{
    chain::account_of,
    in_flight::{Entry, InFlight, Outcome},
    journal::Journal,
    node_link::Clock,
    signer::{self, GasBook},
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
    /// A look has ended: what the node said of itself before, and what it has.
    LookedUp(Box<Pending>, Result<(Facts, Option<Box<Tx>>), NodeError>),
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
    pub address: String,
    pub table: Retained<InFlight>,
    pub clock: Retained<Clock>,
    pub gas: Retained<GasBook>,
    pub journal: Journal,
    pub signer: Handle<signer::Msg>,
}

pub struct State {
    args: Arc<Args>,
    looks: Looks,
    waiters: HashMap<String, Vec<Reply<Option<Outcome>>>>,
}

pub struct Confirmer;

/// Transactions that are looked up at once.
const LOOKS_AT_ONCE: usize = 8;

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
                    Some(None) => {
                        let waiters = state.waiters.entry(hash).or_default();
                        // Those who have gone must not pile up while no block comes.
                        waiters.retain(|waiter| !waiter.is_abandoned());
                        waiters.push(reply);
                    }
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
            Msg::LookedUp(pending, answer) => state.looked_up(&pending, answer),
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({"waiting_callers": state.waiters.values().map(Vec::len).sum::<usize>(), "looks_under_way": state.looks.under_way()})
    }
}

impl State {
    fn looked_up(&mut self, pending: &Pending, answer: Result<(Facts, Option<Box<Tx>>), NodeError>) {
        self.looks.ended(&pending.hash);
        let Ok((facts, found)) = answer else { return };
        match judge(&mut self.looks, pending, &facts, found) {
            Ok(outcome) => self.decide(&pending.hash, outcome),
            Err(Absence::Missing) => signer::notify(&self.args.signer, signer::Msg::Doubt),
            Err(_) => {}
        }
    }

    fn decide(&mut self, hash: &str, outcome: Outcome) {
        let news = self
            .args
            .table
            .with(|table| if table.decide(hash, outcome.clone()) { table.get(hash).cloned() } else { None });
        if let Some(entry) = news {
            self.note(&entry, &outcome);
            let uses_sequence = outcome.uses(entry.sequence);
            signer::notify(&self.args.signer, signer::Msg::Settled { uses_sequence });
        }
        for reply in self.waiters.remove(hash).unwrap_or_default() {
            reply.send(Some(outcome.clone()));
        }
    }

    /// Everybody who keeps a record hears of an outcome here, once.
    fn note(&self, entry: &Entry, outcome: &Outcome) {
        let (hash, msg_type) = (entry.hash.as_str(), entry.order.prepared.msg_type());
        self.args.journal.decided(entry, outcome);
        metrics::tx_outcome(msg_type, outcome.word());
        match outcome {
            Outcome::Included { height, result } => {
                self.args.gas.with(|gas| gas.learn(msg_type, result.gas_used));
                tracing::info!(tx_hash = hash, height = *height, code = result.code, "transaction is included");
            }
            Outcome::Expired { timeout_height } => {
                tracing::warn!(tx_hash = hash, timeout_height = *timeout_height, "transaction has expired");
            }
            Outcome::Displaced { height } => {
                tracing::warn!(
                    tx_hash = hash,
                    sequence = entry.sequence,
                    height = *height,
                    "another transaction used the sequence"
                );
            }
        }
    }

    fn forget_the_gone(&mut self) {
        self.waiters.retain(|_, waiters| {
            waiters.retain(|waiter| !waiter.is_abandoned());
            !waiters.is_empty()
        });
    }

    fn look_up(&mut self, context: &Context<Msg>, height: u64, is_everything: bool) {
        let pending: Vec<Pending> = self.args.table.with(|table| table.live().map(Pending::from).collect());
        let due = self.looks.due(&pending, height, is_everything);
        if !due.is_empty() {
            let (args, mailbox) = (Arc::clone(&self.args), context.mailbox());
            context.spawn(async move { look(&args, due, &mailbox).await });
        }
    }
}

impl From<&Entry> for Pending {
    fn from(entry: &Entry) -> Self {
        Self {
            hash: entry.hash.clone(),
            sequence: entry.sequence,
            timeout_height: entry.timeout_height,
            signed_height: entry.signed_height,
        }
    }
}

async fn look(args: &Args, due: Vec<Pending>, mailbox: &Mailbox<Msg>) {
    // One node for all of it: what it says of itself is about the blocks it looks into.
    let node = args.node.pinned();
    let facts = facts(&node, &args.address).await;
    let look = |pending: Pending| {
        let (node, facts) = (&node, &facts);
        async move {
            let answer = match facts {
                Ok(facts) => node.tx(&pending.hash).await.map(|found| (*facts, found.map(Box::new))),
                Err(error) => Err(error.clone()),
            };
            mailbox.send(Msg::LookedUp(Box::new(pending), answer));
        }
    };
    futures::stream::iter(due.into_iter().map(look)).buffer_unordered(LOOKS_AT_ONCE).collect::<()>().await;
}

/// What a node says of itself and of the account. The height comes first, so that what follows is at least as new.
pub(crate) async fn facts(node: &NodeClient, address: &str) -> Result<Facts, NodeError> {
    let status = node.status().await?.sync_info;
    let sequence = match account_of(node, address).await {
        Ok(account) => Some(account.map_or(0, |(_, sequence)| sequence)),
        Err(_) => None,
    };
    Ok(Facts { height: status.latest_block_height, earliest: status.earliest_block_height, sequence })
}
