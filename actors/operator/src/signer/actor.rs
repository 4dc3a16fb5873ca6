//! The actor around the signer's decisions.

use std::{collections::HashMap, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use prost::Message;
use serde_json::{Value, json};
use svc_kit::{
    Behaviour, Context, Failure, Handle, Intent, Reply, Retained,
    upstream::{BroadcastOutcome, NodeClient, NodeError},
};
use svc_otel::{
    metrics,
    trace::{self, Stage},
};
use svc_wire::{
    adr036,
    chain_error::ChainError,
    key::AccountKey,
    proto::cosmos::{
        base::v1beta1::Coin,
        tx::v1beta1::{SimulateRequest, SimulateResponse},
    },
    tx::{SignContext, Unsigned},
};
use tokio::time::Instant;
use tracing::Instrument;

use super::{
    GasBook, Login, Submission, SubmitError, Submitted, WindowBound,
    core::{Core, Effect, Live},
};
use crate::{
    agent_session::LOGIN_PREFIX,
    chain::{ChainParams, Identity, account_of},
    in_flight::{CallId, Entry, InFlight},
    journal::Journal,
    node_link::Clock,
};

/// What the signer is told.
pub enum Msg {
    /// Bring a write into flight.
    Submit(Box<Submission>, Reply<Result<Submitted, SubmitError>>),
    /// The caller has given up: drop the write if it has not left; answer its transaction if it has.
    Withdraw(CallId, Reply<Option<Submitted>>),
    /// Sign a login to an agent (ADR-036); nothing but logins is signed this way.
    SignLogin(String, Reply<Option<Login>>),
    /// A moment has passed: look at what is paused.
    Tick,
    /// A block has passed.
    BlockSeen,
    /// Something in flight may not be where it was sent.
    Doubt,
    /// A transaction was decided.
    Settled {
        /// Whether its sequence is used now.
        uses_sequence: bool,
    },
    /// Account number and sequence in the newest block; `None`: there is no account.
    Learned(Result<Option<(u64, u64)>, NodeError>),
    /// A simulation was answered.
    Simulated(CallId, Result<u64, Result<ChainError, NodeError>>),
    /// A hand-over was answered, or was not.
    Sent(CallId, String, Result<BroadcastOutcome, NodeError>),
    /// A transaction could not be written down, and did not leave.
    NotWritten(CallId, String, String),
    /// A repeated hand-over was answered, or was not.
    Resent(Result<BroadcastOutcome, NodeError>),
}

impl Intent for Msg {
    fn name(&self) -> &'static str {
        match self {
            Self::Submit(..) => "submit",
            Self::Withdraw(..) => "withdraw",
            Self::SignLogin(..) => "sign_login",
            Self::Tick => "tick",
            Self::BlockSeen => "block_seen",
            Self::Doubt => "doubt",
            Self::Settled { .. } => "settled",
            Self::Learned(_) => "learned",
            Self::Simulated(..) => "simulated",
            Self::Sent(..) => "sent",
            Self::NotWritten(..) => "not_written",
            Self::Resent(_) => "resent",
        }
    }
}

/// What a signer is made from.
pub struct Args {
    pub key: AccountKey,
    pub identity: Identity,
    pub chain: ChainParams,
    pub node: NodeClient,
    pub table: Retained<InFlight>,
    pub clock: Retained<Clock>,
    pub gas: Retained<GasBook>,
    pub journal: Journal,
    pub window: WindowBound,
    pub tx_timeout: Duration,
}

struct Job {
    submission: Submission,
    replies: Vec<Reply<Result<Submitted, SubmitError>>>,
}

pub struct State {
    args: Arc<Args>,
    core: Core,
    account_number: u64,
    jobs: HashMap<CallId, Job>,
}

pub struct Signer;

impl Live for InFlight {
    fn is_live_at(&self, sequence: u64) -> bool {
        self.live_at(sequence).is_some()
    }

    fn count(&self) -> usize {
        self.live().len()
    }

    fn floor(&self) -> u64 {
        InFlight::floor(self)
    }
}

/// Longest time between two looks at what is paused, when no blocks come.
const TICK: Duration = Duration::from_secs(1);

impl Behaviour for Signer {
    const KIND: &'static str = "signer";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &Context<Msg>, args: &Arc<Args>) -> Result<State, Failure> {
        let has_live = args.table.with(|table| table.count() > 0);
        context.after(Duration::ZERO, Msg::Tick);
        Ok(State {
            args: Arc::clone(args),
            core: Core::new(args.chain.gas_price_micros, args.window, has_live),
            account_number: 0,
            jobs: HashMap::new(),
        })
    }

    async fn handle(context: &Context<Msg>, message: Msg, state: &mut State) -> Result<(), Failure> {
        let table = state.args.table.clone();
        let effects = match message {
            Msg::Submit(submission, reply) => match state.known(submission.call) {
                Some(submitted) => {
                    reply.send(Ok(submitted));
                    Vec::new()
                }
                None => state.take_in(*submission, reply),
            },
            Msg::Withdraw(call, reply) => {
                let (is_withdrawn, effects) = table.with(|table| state.core.withdraw(call, table));
                if is_withdrawn {
                    state.jobs.remove(&call);
                }
                reply.send(state.known(call));
                effects
            }
            Msg::SignLogin(payload, reply) => {
                reply.send(state.sign_login(&payload));
                Vec::new()
            }
            Msg::Tick => {
                context.after(TICK, Msg::Tick);
                table.with(|table| state.core.ticked(table))
            }
            Msg::BlockSeen => table.with(|table| state.core.block_passed(table)),
            Msg::Doubt => table.with(|table| state.core.doubt(table)),
            Msg::Settled { uses_sequence } => table.with(|table| state.core.settled(uses_sequence, table)),
            Msg::Learned(answer) => {
                if let Ok(Some((account_number, _))) = answer {
                    state.account_number = account_number;
                }
                let sequence = answer.map(|account| account.map(|(_, sequence)| sequence));
                let address = state.args.identity.address.to_string();
                table.with(|table| state.core.learned(sequence, &address, table))
            }
            Msg::Simulated(call, answer) => {
                let answer = answer.map(|gas| state.gas_limit(call, gas));
                table.with(|table| state.core.simulated(call, answer, table))
            }
            Msg::Sent(call, hash, answer) => table.with(|table| state.core.sent(call, &hash, answer, table)),
            Msg::NotWritten(call, hash, reason) => {
                state.retract(&hash);
                table.with(|table| state.core.unsent(call, SubmitError::Journal(reason), table))
            }
            Msg::Resent(answer) => table.with(|table| state.core.resent(answer, table)),
        };
        for effect in effects {
            state.perform(context, effect);
        }
        let (waiting, window) = (state.core.waiting(), state.core.window());
        metrics::tx_line(waiting, state.args.table.with(|table| table.count()), window);
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({
            "expected_sequence": state.core.expected(), "waiting": state.core.waiting(), "window": state.core.window(),
            "in_flight": state.args.table.with(|table| table.count()),
        })
    }
}

impl State {
    /// The transaction of a call that was submitted before, also to an earlier incarnation.
    fn known(&self, call: CallId) -> Option<Submitted> {
        self.args.table.with(|table| table.of_call(call).map(Submitted::from))
    }

    fn sign_login(&self, payload: &str) -> Option<Login> {
        if !payload.starts_with(LOGIN_PREFIX) {
            return None;
        }
        let Args { key, identity, .. } = &*self.args;
        let signature = adr036::sign(key, payload, &identity.address).ok()?;
        Some(Login { public_key: STANDARD.encode(identity.public_key.as_bytes()), signature })
    }

    fn take_in(&mut self, submission: Submission, reply: Reply<Result<Submitted, SubmitError>>) -> Vec<Effect> {
        let (call, budget) = (submission.call, submission.granter.as_ref().map(|(_, budget)| *budget));
        let session = Arc::clone(&submission.order.asker.session);
        if let Some(job) = self.jobs.get_mut(&call) {
            job.replies.push(reply);
            return Vec::new();
        }
        self.jobs.insert(call, Job { submission, replies: vec![reply] });
        let table = self.args.table.clone();
        table.with(|table| self.core.submit(call, session, budget, table))
    }

    fn perform(&mut self, context: &Context<Msg>, effect: Effect) {
        match effect {
            Effect::Learn => self.learn(context),
            Effect::Simulate { call, sequence, with_granter } => self.simulate(context, call, sequence, with_granter),
            Effect::Send { call, sequence, with_granter, gas_limit, fee } => {
                let sent = self.send(context, call, sequence, with_granter, gas_limit, fee);
                if sent.is_none() {
                    let table = self.args.table.clone();
                    for effect in table.with(|table| self.core.unsent(call, SubmitError::Signing, table)) {
                        self.perform(context, effect);
                    }
                }
            }
            Effect::Resend { sequence } => self.resend(context, sequence),
            Effect::Retract { hash } => self.retract(&hash),
            Effect::ChooseNode => {
                let node = self.args.node.clone();
                context.spawn(async move { node.choose().await });
            }
            Effect::Answer { call, outcome } => {
                let Some(job) = self.jobs.remove(&call) else { return };
                let outcome = outcome.and_then(|_| self.known(call).ok_or(SubmitError::Signing));
                for reply in job.replies {
                    reply.send(outcome.clone());
                }
            }
        }
    }

    /// A node's refusal is final for these bytes: it does not have them, and nobody else was given them.
    fn retract(&self, hash: &str) {
        self.args.table.with(|table| table.retract(hash));
        self.args.journal.refused(hash);
    }

    /// What to sign for a simulation's answer.
    fn gas_limit(&self, call: CallId, simulated: u64) -> u64 {
        let Some(job) = self.jobs.get(&call) else { return simulated };
        let (msg_type, least) = (job.submission.order.prepared.msg_type(), job.submission.least_gas);
        self.args.gas.with(|gas| gas.limit(msg_type, simulated)).max(least)
    }

    fn learn(&self, context: &Context<Msg>) {
        let (args, mailbox) = (Arc::clone(&self.args), context.mailbox());
        context.spawn(async move {
            let answer = account_of(&args.node, &args.identity.address.to_string()).await;
            mailbox.send(Msg::Learned(answer));
        });
    }

    fn unsigned(&self, job: &Job, sequence: u64, with_granter: bool, gas_limit: u64, fee: u128) -> Unsigned {
        let args = &self.args;
        let granter = job.submission.granter.as_ref().filter(|_| with_granter).map(|(address, _)| address.clone());
        let fee = Coin { denom: args.chain.denom.clone(), amount: fee.to_string() };
        Unsigned {
            messages: vec![job.submission.order.prepared.message.clone()],
            sequence,
            fee: if gas_limit == 0 { Vec::new() } else { vec![fee] },
            gas_limit,
            granter,
            timeout_height: args.clock.with(|clock| clock.timeout_height(args.tx_timeout)),
        }
    }

    fn simulate(&self, context: &Context<Msg>, call: CallId, sequence: u64, with_granter: bool) {
        let Some(job) = self.jobs.get(&call) else { return };
        let tx_bytes = self.unsigned(job, sequence, with_granter, 0, 0).for_simulation(&self.args.identity.public_key);
        let (node, mailbox) = (self.args.node.clone(), context.mailbox());
        let span = trace::stage_span(Stage::Simulate, &job.submission.span);
        context.spawn(
            async move {
                let answer = match simulate_gas(&node, tx_bytes).await {
                    Ok(gas) => Ok(gas),
                    Err(NodeError::Query { error, .. }) => Err(Ok(error)),
                    Err(error) => Err(Err(error)),
                };
                mailbox.send(Msg::Simulated(call, answer));
            }
            .instrument(span),
        );
    }

    /// Signs, notes the transaction as in flight, writes it down, and only then hands it over. `None` when the key failed.
    fn send(
        &self,
        context: &Context<Msg>,
        call: CallId,
        sequence: u64,
        with_granter: bool,
        gas_limit: u64,
        fee: u128,
    ) -> Option<()> {
        let (args, job) = (&self.args, self.jobs.get(&call)?);
        let unsigned = self.unsigned(job, sequence, with_granter, gas_limit, fee);
        let sign_context = SignContext { chain_id: args.chain.chain_id.clone(), account_number: self.account_number };
        let span = trace::stage_span(Stage::Sign, &job.submission.span);
        let signed = span.in_scope(|| unsigned.sign(&args.key, &sign_context)).ok()?;
        trace::record_tx(&span, &signed.hash);
        drop(span);
        let msg_type = job.submission.order.prepared.msg_type().to_owned();
        let entry = Entry {
            call,
            hash: signed.hash.clone(),
            bytes: signed.bytes.clone(),
            sequence,
            timeout_height: unsigned.timeout_height,
            signed_height: args.clock.with(|clock| clock.height),
            order: Arc::clone(&job.submission.order),
            has_granter: with_granter,
            outcome: None,
        };
        args.table.with(|table| table.add(entry.clone()));
        let journal = args.journal.clone();
        let span = trace::stage_span(Stage::Broadcast, &job.submission.span);
        trace::record_tx(&span, &signed.hash);
        let (node, mailbox, timeout_height) = (args.node.clone(), context.mailbox(), unsigned.timeout_height);
        context.spawn(
            async move {
                if let Err(error) = journal.signed(entry).await {
                    mailbox.send(Msg::NotWritten(call, signed.hash, error.to_string()));
                    return;
                }
                let started = Instant::now();
                let answer = node.broadcast(&signed.bytes).await;
                let outcome = outcome_label(&answer);
                metrics::tx_broadcast(&msg_type, outcome, started.elapsed());
                tracing::info!(
                    tx_hash = signed.hash,
                    sequence,
                    timeout_height,
                    msg_type,
                    outcome,
                    "transaction is broadcast"
                );
                mailbox.send(Msg::Sent(call, signed.hash, answer));
            }
            .instrument(span),
        );
        Some(())
    }

    fn resend(&self, context: &Context<Msg>, sequence: u64) {
        let entry = self.args.table.with(|table| table.live_at(sequence).cloned());
        let (node, journal, mailbox) = (self.args.node.clone(), self.args.journal.clone(), context.mailbox());
        context.spawn(async move {
            let answer = match entry {
                Some(entry) => {
                    // An earlier incarnation may have died before it was written down. If it cannot be now either, it has
                    // not left and must not: the wait goes on until its timeout height decides.
                    let answer = match journal.signed(entry.clone()).await {
                        Ok(()) => node.broadcast(&entry.bytes).await,
                        Err(_) => {
                            mailbox.send(Msg::Resent(Err(node.unsent("the journal cannot be written"))));
                            return;
                        }
                    };
                    metrics::tx_resent(outcome_label(&answer));
                    let outcome = outcome_label(&answer);
                    tracing::info!(tx_hash = entry.hash, sequence, outcome, "transaction is broadcast again");
                    answer
                }
                // Decided meanwhile: its sequence is used.
                None => Ok(BroadcastOutcome::Accepted),
            };
            mailbox.send(Msg::Resent(answer));
        });
    }
}

/// Gas a transaction uses in the node's simulation.
pub(crate) async fn simulate_gas(node: &NodeClient, tx_bytes: Vec<u8>) -> Result<u64, NodeError> {
    let request = SimulateRequest { tx_bytes, ..SimulateRequest::default() }.encode_to_vec();
    let bytes = node.query_bytes("/cosmos.tx.v1beta1.Service/Simulate", &request, 0).await?;
    let reply = SimulateResponse::decode(bytes.as_slice()).unwrap_or_default();
    Ok(reply.gas_info.map_or(0, |info| info.gas_used))
}

fn outcome_label(answer: &Result<BroadcastOutcome, NodeError>) -> &'static str {
    match answer {
        Ok(BroadcastOutcome::Accepted) => "accepted",
        Ok(BroadcastOutcome::Refused(_)) => "refused",
        Err(_) => "unknown",
    }
}

/// The way in, for neighbours that only notify.
pub(crate) fn notify(handle: &Handle<Msg>, message: Msg) {
    // A signer that is restarting reads everything it needs from the table and the node.
    let _ = handle.tell(message);
}
