//! The actor around the decisions of the signer.

use std::{collections::HashMap, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, ReplyPort, wall_clock};
use svc_otel::metrics;
use svc_wire::adr036;

use super::{
    Args, Msg, TextSignature,
    core::{SignerCore, WithdrawalOutcome},
    effects::{InFlightView, SignerEffect},
    queue::QueuedWrite,
};
use crate::write::{
    daily_fees::UtcDay,
    error::SubmitError,
    fee::SpentToday,
    in_flight::InFlightTable,
    submission::{SigningRequest, SubmissionId, SubmittedTx},
};

/// A write that the signer has accepted, and its callers.
pub(super) struct SigningJob {
    pub(super) request: SigningRequest,
    pub(super) replies: Vec<ReplyPort<Result<SubmittedTx, SubmitError>>>,
    /// Callers that withdrew the write while it was being broadcast.
    pub(super) withdrawals: Vec<ReplyPort<Option<SubmittedTx>>>,
}

/// State of a signer.
pub struct State {
    pub(super) args: Arc<Args>,
    pub(super) core: SignerCore,
    pub(super) account_number: u64,
    pub(super) jobs: HashMap<SubmissionId, SigningJob>,
}

/// The actor that signs.
pub struct Signer;

impl InFlightView for InFlightTable {
    fn is_live_at(&self, sequence: u64) -> bool {
        self.live_at(sequence).is_some()
    }

    fn live_count(&self) -> usize {
        self.window_count()
    }

    fn sequence_floor(&self) -> u64 {
        InFlightTable::sequence_floor(self)
    }

    fn spent_today(&self, principal: &str) -> SpentToday {
        self.daily_fees().spent(principal)
    }
}

/// Longest time that a paused signer waits while the chain makes no blocks.
const TICK_INTERVAL: Duration = Duration::from_secs(1);

impl ActorBehaviour for Signer {
    const KIND: &'static str = "signer";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<State, ActorFailure> {
        let has_live = args.table.with(|table| table.live_count() > 0);
        context.send_after(Duration::ZERO, Msg::Tick);
        Ok(State {
            args: Arc::clone(args),
            core: SignerCore::new(args.prices.fees(), args.window, has_live),
            account_number: 0,
            jobs: HashMap::new(),
        })
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        let today = UtcDay::of(&wall_clock::now());
        state.args.table.with(|table| table.begin_day(today));
        state.core.set_fees(state.args.prices.fees());
        let change = state.args.journal.chain_change().map(|change| SubmitError::ChainChanged(Box::new(change)));
        let effects = match (message, change) {
            (Msg::Submit { request, reply }, Some(change)) if state.is_new(request.submission_id) => {
                reply.send(Err(change));
                Vec::new()
            }
            (Msg::Tick, Some(change)) => {
                context.send_after(TICK_INTERVAL, Msg::Tick);
                state.core.stop(&change)
            }
            // The node has nothing to say about the account of the journal's history.
            (Msg::BlockSeen | Msg::Doubt | Msg::Settled { .. }, Some(_)) => Vec::new(),
            (message, _) => state.decide(context, message),
        };
        for effect in effects {
            state.perform(context, effect);
        }
        let (waiting, window) = (state.core.waiting_count(), state.core.window_size());
        let (in_flight, refused) = state.args.table.with(|table| (table.live_count(), table.refused().len()));
        metrics::record_tx_queue(waiting, in_flight, refused, window);
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({
            "expected_sequence": state.core.expected_sequence(), "waiting": state.core.waiting_count(),
            "window": state.core.window_size(), "in_flight": state.args.table.with(|table| table.live_count()),
        })
    }
}

impl State {
    /// Whether no incarnation knows the submission.
    fn is_new(&self, id: SubmissionId) -> bool {
        !self.jobs.contains_key(&id) && self.submitted_tx(id).is_none()
    }

    /// The effects of a message.
    fn decide(&mut self, context: &ActorContext<Msg>, message: Msg) -> Vec<SignerEffect> {
        let table = self.args.table.clone();
        match message {
            Msg::Submit { request, reply } => match self.submitted_tx(request.submission_id) {
                Some(submitted) => {
                    reply.send(Ok(submitted));
                    Vec::new()
                }
                None => self.accept_request(*request, reply),
            },
            Msg::Withdraw { id, reply } => self.withdraw(id, reply),
            Msg::SignText { text, reply } => {
                reply.send(self.sign_text(&text));
                Vec::new()
            }
            Msg::Tick => {
                context.send_after(TICK_INTERVAL, Msg::Tick);
                table.with(|table| self.core.on_tick(table))
            }
            Msg::BlockSeen => table.with(|table| self.core.on_block(table)),
            Msg::Doubt => table.with(|table| self.core.recheck_in_flight(table)),
            Msg::Settled { uses_sequence } => table.with(|table| self.core.on_tx_decided(uses_sequence, table)),
            Msg::AccountRead { answer } => {
                if let Ok(Some(account)) = answer {
                    self.account_number = account.number;
                }
                let sequence = answer.map(|account| account.map(|account| account.sequence));
                let address = self.args.identity.address.to_string();
                table.with(|table| self.core.on_account(sequence, &address, table))
            }
            Msg::Simulated { id, answer } => {
                let answer = answer.map(|gas| self.gas_limit(id, gas));
                table.with(|table| self.core.on_simulation(id, answer, table))
            }
            Msg::SequenceConfirmed { id, expected } => {
                table.with(|table| self.core.on_sequence_confirmation(id, expected, table))
            }
            Msg::AllowanceConfirmed { id, pays } => {
                table.with(|table| self.core.on_allowance_confirmation(id, pays, table))
            }
            Msg::PriceRead { id } => table.with(|table| self.core.on_price(id, table)),
            Msg::Sent { id, hash, answer } => table.with(|table| self.core.on_broadcast(id, &hash, answer, table)),
            Msg::NotSent { id, hash, failure } => {
                self.retract(&hash);
                table.with(|table| self.core.on_send_failure(id, failure, table))
            }
            Msg::Resent { hash, answer } => {
                table.with(|table| self.core.on_rebroadcast(hash.as_deref(), answer, table))
            }
        }
    }

    /// The transaction of an earlier submission with this id, also to an earlier incarnation.
    pub(super) fn submitted_tx(&self, id: SubmissionId) -> Option<SubmittedTx> {
        self.args.table.with(|table| table.find_by_submission(id).map(SubmittedTx::from))
    }

    fn sign_text(&self, text: &str) -> Option<TextSignature> {
        let Args { key, identity, text_prefixes, .. } = &*self.args;
        if !text_prefixes.iter().any(|prefix| text.starts_with(prefix)) {
            return None;
        }
        let signature = adr036::sign_arbitrary(key, text, &identity.address).ok()?;
        Some(TextSignature { public_key: STANDARD.encode(identity.public_key.as_bytes()), signature })
    }

    fn accept_request(
        &mut self,
        request: SigningRequest,
        reply: ReplyPort<Result<SubmittedTx, SubmitError>>,
    ) -> Vec<SignerEffect> {
        let id = request.submission_id;
        if let Some(job) = self.jobs.get_mut(&id) {
            job.replies.push(reply);
            return Vec::new();
        }
        let intent = &request.intent;
        let budget = request.granter.as_ref().map(|granter| granter.budget);
        let write = QueuedWrite {
            principal: Arc::clone(&intent.origin.principal),
            fee_limits: intent.fee_limits,
            required_sequence: request.required_sequence,
            ..QueuedWrite::new(id, Arc::clone(&intent.origin.session), budget)
        };
        self.jobs.insert(id, SigningJob { request, replies: vec![reply], withdrawals: Vec::new() });
        let table = self.args.table.clone();
        table.with(|table| self.core.submit(write, table))
    }

    fn withdraw(&mut self, id: SubmissionId, reply: ReplyPort<Option<SubmittedTx>>) -> Vec<SignerEffect> {
        let table = self.args.table.clone();
        let (withdrawal, effects) = table.with(|table| self.core.withdraw(id, table));
        match (withdrawal, self.jobs.get_mut(&id)) {
            (WithdrawalOutcome::Broadcasting, Some(job)) => job.withdrawals.push(reply),
            (WithdrawalOutcome::Withdrawn, _) => {
                self.jobs.remove(&id);
                reply.send(None);
            }
            (WithdrawalOutcome::Broadcasting | WithdrawalOutcome::NotQueued, _) => reply.send(self.submitted_tx(id)),
        }
        effects
    }
}
