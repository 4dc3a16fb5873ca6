//! The actor around the signer's decisions.

use std::{collections::HashMap, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use svc_kit::{
    Behaviour, Context, Failure, Handle, Intent, Reply, Retained,
    upstream::{BroadcastOutcome, NodeClient, NodeError},
};
use svc_otel::metrics;
use svc_wire::{adr036, chain_error::ChainError, key::AccountKey};

use super::{
    GasBook, Login, Submission, SubmitError, Submitted, WindowBound,
    core::{Core, Withdrawal},
    effect::{Effect, Live},
};
use crate::{
    agent_session::LOGIN_PREFIX,
    chain::{ChainParams, Identity},
    in_flight::{CallId, InFlight},
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

/// A write that was taken in, and who waits for it.
pub(super) struct Job {
    pub(super) submission: Submission,
    pub(super) replies: Vec<Reply<Result<Submitted, SubmitError>>>,
    /// Who has given up while it was being handed over.
    pub(super) withdrawals: Vec<Reply<Option<Submitted>>>,
}

pub struct State {
    pub(super) args: Arc<Args>,
    pub(super) core: Core,
    pub(super) account_number: u64,
    pub(super) jobs: HashMap<CallId, Job>,
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
                let (withdrawal, effects) = table.with(|table| state.core.withdraw(call, table));
                match (withdrawal, state.jobs.get_mut(&call)) {
                    (Withdrawal::Leaving, Some(job)) => job.withdrawals.push(reply),
                    (Withdrawal::Taken, _) => {
                        state.jobs.remove(&call);
                        reply.send(None);
                    }
                    (Withdrawal::Leaving | Withdrawal::Gone, _) => reply.send(state.known(call)),
                }
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
    pub(super) fn known(&self, call: CallId) -> Option<Submitted> {
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
        self.jobs.insert(call, Job { submission, replies: vec![reply], withdrawals: Vec::new() });
        let table = self.args.table.clone();
        table.with(|table| self.core.submit(call, session, budget, table))
    }
}

/// The way in, for neighbours that only notify.
pub(crate) fn notify(handle: &Handle<Msg>, message: Msg) {
    // A signer that is restarting reads everything it needs from the table and the node.
    let _ = handle.tell(message);
}
