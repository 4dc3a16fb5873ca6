//! The decisions of the signer: the next write, its sequence, and the meaning of the node's answers. Pure.
//!
//! `expected_sequence` is the sequence that the node's check state expects next, as far as known. A live transaction with that very
//! sequence is missing in the node's mempool: the signer broadcasts its bytes again before anything else. So it never signs a second
//! transaction for the sequence of a live one. A transaction that the node refused is not live any more: other writes may have its
//! sequence, and its own write is signed again at no other one until the chain has decided it. A node that expects a used sequence
//! is behind the chain, and the signer signs nothing on its word.

mod confirmation;
mod price;
mod sequence;

use svc_net::upstream::{BroadcastOutcome, NodeClientError};
use svc_wire::chain_error::{ChainError, ChainErrorKind};

#[cfg(test)]
pub(super) use sequence::{MAX_BEHIND, MAX_SETBACKS, MAX_UNANSWERED, MAX_UNANSWERED_SIMULATIONS};

use super::{
    broadcast_verdict::{BroadcastVerdict, judge_broadcast},
    effects::{FeeOffer, InFlightView, SignerEffect},
    queue::{QueuedWrite, WriteQueue},
    window::{InFlightWindow, WindowBound},
};
use crate::{
    chain::simulation::SimulationError,
    write::{error::SubmitError, fee::FeePolicy, submission::SubmissionId},
};

/// Capacity of the queue.
pub const MAX_QUEUED_WRITES: usize = 2_048;

/// The result of a withdrawal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithdrawalOutcome {
    /// The write will never be signed.
    Withdrawn,
    /// The write is being broadcast. The answer of the broadcast decides it.
    Broadcasting,
    /// The write was sent before, or is unknown.
    NotQueued,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum SignerPhase {
    Idle,
    ReadingAccount,
    Simulating {
        sequence: u64,
    },
    /// A sentence of a refused simulation is compared with the account or the allowance at the node.
    Confirming {
        sequence: u64,
        error: ChainError,
    },
    Broadcasting {
        sequence: u64,
        gas_limit: u64,
    },
    /// The node took the fee of the transaction `hash` for too small, and is asked for its price.
    AskingPrice {
        sequence: u64,
        gas_limit: u64,
        hash: String,
    },
    Rebroadcasting {
        sequence: u64,
    },
    /// Until the next block or tick.
    Paused,
}

/// State of the signer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SignerCore {
    expected_sequence: Option<u64>,
    pub(super) phase: SignerPhase,
    current_write: Option<QueuedWrite>,
    queue: WriteQueue,
    window: InFlightWindow,
    fees: FeePolicy,
    /// The node may lack some live transaction.
    has_doubt: bool,
    /// The expected sequence must be read again before it is used.
    is_sequence_stale: bool,
    /// Answers in a row that showed the node behind.
    behind_count: u32,
    /// Questions for the account in a row without an answer.
    unanswered_count: u32,
    /// Wrong sequences of simulations since the last block.
    resynchronizations: u32,
}

impl SignerCore {
    /// A signer that knows nothing of the node yet. With live transactions of an earlier incarnation it checks these first.
    pub fn new(fees: FeePolicy, bound: WindowBound, has_live: bool) -> Self {
        Self {
            expected_sequence: None,
            phase: SignerPhase::Idle,
            current_write: None,
            queue: WriteQueue::default(),
            window: InFlightWindow::new(bound),
            fees,
            has_doubt: has_live,
            is_sequence_stale: false,
            behind_count: 0,
            unanswered_count: 0,
            resynchronizations: 0,
        }
    }

    /// The sequence that the node expects next; `None` when it must be read.
    pub fn expected_sequence(&self) -> Option<u64> {
        self.expected_sequence
    }

    /// Writes that wait for their signature.
    pub fn waiting_count(&self) -> usize {
        self.queue.len() + usize::from(self.current_write.is_some())
    }

    /// Transactions that may be in flight at once.
    pub fn window_size(&self) -> usize {
        self.window.size()
    }

    /// A new write.
    pub fn submit(&mut self, write: QueuedWrite, live: &dyn InFlightView) -> Vec<SignerEffect> {
        if self.queue.len() >= MAX_QUEUED_WRITES {
            let outcome = Err(SubmitError::Overloaded { limit: MAX_QUEUED_WRITES });
            return vec![SignerEffect::Answer { id: write.id, outcome }];
        }
        self.queue.push(write);
        self.advance(live)
    }

    /// The callers of a write withdraw it.
    pub fn withdraw(&mut self, id: SubmissionId, live: &dyn InFlightView) -> (WithdrawalOutcome, Vec<SignerEffect>) {
        if self.queue.remove(id) {
            return (WithdrawalOutcome::Withdrawn, Vec::new());
        }
        let Some(write) = self.current_write.as_mut().filter(|write| write.id == id) else {
            return (WithdrawalOutcome::NotQueued, Vec::new());
        };
        if matches!(self.phase, SignerPhase::Simulating { .. } | SignerPhase::Confirming { .. }) {
            // The answer of the simulation names this submission and is ignored.
            self.clear_current();
            return (WithdrawalOutcome::Withdrawn, self.advance(live));
        }
        write.is_withdrawn = true;
        (WithdrawalOutcome::Broadcasting, Vec::new())
    }

    /// The node answered a simulation: the gas limit to sign with, or an error.
    pub fn on_simulation(
        &mut self,
        id: SubmissionId,
        answer: Result<u64, SimulationError>,
        live: &dyn InFlightView,
    ) -> Vec<SignerEffect> {
        let SignerPhase::Simulating { sequence } = self.phase else { return Vec::new() };
        let Some(write) = self.current_write.as_mut().filter(|write| write.id == id) else { return Vec::new() };
        match answer {
            Ok(gas_limit) => {
                self.unanswered_count = 0;
                let fee = match self.fees.fee_below_ceiling(
                    gas_limit,
                    live.spent_today(&write.principal),
                    write.fee_limits,
                ) {
                    Ok(fee) => fee,
                    Err(exceeded) => return self.refuse_current(SubmitError::AboveCeiling(exceeded), live),
                };
                if write.granter.is_some_and(|budget| !budget.covers(fee)) {
                    write.granter = None;
                    return vec![SignerEffect::Simulate { id, sequence, with_granter: false }];
                }
                write.offered_fee = fee;
                self.phase = SignerPhase::Broadcasting { sequence, gas_limit };
                let offer = FeeOffer { gas_limit, fee, with_granter: write.granter.is_some() };
                vec![SignerEffect::SignAndBroadcast { id, sequence, offer }]
            }
            Err(SimulationError::NoAnswer(error)) => self.on_unanswered_simulation(error, live),
            Err(SimulationError::Refused(error)) => self.on_refused_simulation(id, sequence, error, live),
        }
    }

    /// The key or the journal failed, and nothing was sent.
    pub fn on_send_failure(
        &mut self,
        id: SubmissionId,
        error: SubmitError,
        live: &dyn InFlightView,
    ) -> Vec<SignerEffect> {
        let is_current = self.current_write.as_ref().is_some_and(|write| write.id == id);
        if is_current && matches!(self.phase, SignerPhase::Broadcasting { .. }) {
            self.refuse_current(error, live)
        } else {
            Vec::new()
        }
    }

    /// The node answered a broadcast, or did not.
    pub fn on_broadcast(
        &mut self,
        id: SubmissionId,
        hash: &str,
        answer: Result<BroadcastOutcome, NodeClientError>,
        live: &dyn InFlightView,
    ) -> Vec<SignerEffect> {
        let SignerPhase::Broadcasting { sequence, gas_limit } = self.phase else { return Vec::new() };
        if self.current_write.as_ref().is_none_or(|write| write.id != id) {
            return Vec::new();
        }
        match judge_broadcast(answer) {
            BroadcastVerdict::Accepted => {
                self.expected_sequence = Some(sequence + 1);
                self.answer_signed(hash, live)
            }
            BroadcastVerdict::WrongSequence { expected } => {
                self.window.record_setback();
                (self.expected_sequence, self.has_doubt) = (None, true);
                self.clear_current();
                let mut effects = vec![SignerEffect::Answer { id, outcome: Ok(hash.to_owned()) }];
                effects.extend(match expected {
                    Some(expected) => self.adopt_sequence(expected, live),
                    None => self.advance(live),
                });
                effects
            }
            // The bytes are in flight and are sent again after the next block.
            BroadcastVerdict::NotNow => {
                self.window.record_setback();
                (self.expected_sequence, self.has_doubt) = (None, true);
                self.clear_current();
                self.phase = SignerPhase::Paused;
                vec![SignerEffect::Answer { id, outcome: Ok(hash.to_owned()) }]
            }
            BroadcastVerdict::Refused { refusal, kind } => {
                let is_price = refusal.error.is_below_minimum_price();
                let mut effects = vec![SignerEffect::Refuse { hash: hash.to_owned(), refusal }];
                effects.extend(match self.current_write.as_ref() {
                    Some(write) if is_price && !write.has_asked_price && !write.is_withdrawn => {
                        self.ask_price(hash, sequence, gas_limit)
                    }
                    _ => self.after_refusal(hash, sequence, gas_limit, kind, live),
                });
                effects
            }
            BroadcastVerdict::Unsent(error) => {
                let mut effects = vec![SignerEffect::Retract { hash: hash.to_owned() }, SignerEffect::ChooseNode];
                effects.extend(self.refuse_current(SubmitError::Node(error), live));
                effects
            }
            // The transaction is in flight, and broadcast again until the node says whether it has it.
            BroadcastVerdict::Unknown => {
                (self.expected_sequence, self.has_doubt) = (None, true);
                self.answer_signed(hash, live)
            }
        }
    }

    /// The current write has a transaction, and the signer goes on.
    fn answer_signed(&mut self, hash: &str, live: &dyn InFlightView) -> Vec<SignerEffect> {
        let id = self.current_write.as_ref().map(|write| write.id);
        self.clear_current();
        let answer = |id| SignerEffect::Answer { id, outcome: Ok(hash.to_owned()) };
        let mut effects: Vec<_> = id.into_iter().map(answer).collect();
        effects.extend(self.advance(live));
        effects
    }

    /// The transaction of the current write was refused. The write is signed again only at the same sequence.
    fn after_refusal(
        &mut self,
        hash: &str,
        sequence: u64,
        gas_limit: u64,
        kind: ChainErrorKind,
        live: &dyn InFlightView,
    ) -> Vec<SignerEffect> {
        let Some(write) = self.current_write.as_mut() else { return Vec::new() };
        let id = write.id;
        match kind {
            // No caller waits for another attempt, or a block has used the sequence before the node has answered.
            _ if write.is_withdrawn || live.sequence_floor() > sequence => self.answer_signed(hash, live),
            ChainErrorKind::FeeAllowanceUnusable if write.granter.is_some() => {
                (write.granter, write.required_sequence) = (None, Some(sequence));
                self.phase = SignerPhase::Simulating { sequence };
                vec![SignerEffect::Simulate { id, sequence, with_granter: false }]
            }
            ChainErrorKind::OutOfGas if !write.has_raised_gas => {
                (write.has_raised_gas, write.required_sequence) = (true, Some(sequence));
                let (gas_limit, with_granter) = (gas_limit.saturating_mul(2), write.granter.is_some());
                let fee = match self.fees.fee_below_ceiling(
                    gas_limit,
                    live.spent_today(&write.principal),
                    write.fee_limits,
                ) {
                    Ok(fee) => fee,
                    Err(exceeded) => return self.refuse_current(SubmitError::AboveCeiling(exceeded), live),
                };
                if let Some(write) = self.current_write.as_mut() {
                    write.offered_fee = fee;
                }
                self.phase = SignerPhase::Broadcasting { sequence, gas_limit };
                let offer = FeeOffer { gas_limit, fee, with_granter };
                vec![SignerEffect::SignAndBroadcast { id, sequence, offer }]
            }
            _ => self.answer_signed(hash, live),
        }
    }

    /// The node answered a repeated broadcast, or did not. `hash` is the transaction, unless it was decided meanwhile.
    pub fn on_rebroadcast(
        &mut self,
        hash: Option<&str>,
        answer: Result<BroadcastOutcome, NodeClientError>,
        live: &dyn InFlightView,
    ) -> Vec<SignerEffect> {
        let SignerPhase::Rebroadcasting { sequence } = self.phase else { return Vec::new() };
        self.phase = SignerPhase::Idle;
        let refusal = match judge_broadcast(answer) {
            BroadcastVerdict::Accepted => return self.adopt_sequence(sequence + 1, live),
            BroadcastVerdict::WrongSequence { expected: Some(expected) } if expected > sequence => {
                return self.adopt_sequence(expected, live);
            }
            BroadcastVerdict::Refused { refusal, .. } => Some(refusal),
            BroadcastVerdict::WrongSequence { .. }
            | BroadcastVerdict::NotNow
            | BroadcastVerdict::Unsent(_)
            | BroadcastVerdict::Unknown => None,
        };
        // The next block checks the sequence again: that of a refused transaction is free for other writes.
        (self.expected_sequence, self.phase) = (None, SignerPhase::Paused);
        let refuse = |(hash, refusal): (&str, _)| SignerEffect::Refuse { hash: hash.to_owned(), refusal };
        hash.zip(refusal).map(refuse).into_iter().collect()
    }

    /// The timer has fired: a paused signer goes on.
    pub fn on_tick(&mut self, live: &dyn InFlightView) -> Vec<SignerEffect> {
        if self.phase == SignerPhase::Paused {
            (self.phase, self.resynchronizations) = (SignerPhase::Idle, 0);
        }
        self.advance(live)
    }

    /// The chain has a new block.
    pub fn on_block(&mut self, live: &dyn InFlightView) -> Vec<SignerEffect> {
        self.window.on_block();
        self.resynchronizations = 0;
        self.on_tick(live)
    }

    /// A transaction was decided. The window has room for another one. A sequence that was not used may be free again.
    pub fn on_tx_decided(&mut self, uses_sequence: bool, live: &dyn InFlightView) -> Vec<SignerEffect> {
        if uses_sequence {
            self.window.record_inclusion();
            return self.advance(live);
        }
        self.recheck_in_flight(live)
    }

    /// The node may lack a transaction in flight: it was restarted or replaced, or does not show the transaction.
    pub fn recheck_in_flight(&mut self, live: &dyn InFlightView) -> Vec<SignerEffect> {
        (self.has_doubt, self.is_sequence_stale) = (true, true);
        self.advance(live)
    }

    fn clear_current(&mut self) {
        self.current_write = None;
        self.phase = SignerPhase::Idle;
    }

    fn requeue(&mut self) {
        if let Some(write) = self.current_write.take() {
            self.queue.push_front(write);
        }
    }

    fn refuse_current(&mut self, error: SubmitError, live: &dyn InFlightView) -> Vec<SignerEffect> {
        let id = self.current_write.as_ref().map(|write| write.id);
        self.clear_current();
        let mut effects: Vec<_> =
            id.into_iter().map(|id| SignerEffect::Answer { id, outcome: Err(error.clone()) }).collect();
        effects.extend(self.advance(live));
        effects
    }
}
