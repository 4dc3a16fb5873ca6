//! The decisions of the signer: the next write, its sequence, and the meaning of the node's answers. Pure.
//!
//! `expected_sequence` is the sequence that the node's check state expects next, as far as known. A live transaction with that very
//! sequence is missing in the node's mempool: the signer broadcasts its bytes again before anything else. So it never signs a second
//! transaction for a sequence that may still execute. A node that expects a used sequence is behind the chain, and the signer signs
//! nothing on its word.

use svc_net::upstream::{BroadcastOutcome, NodeClientError};
use svc_wire::chain_error::{ChainError, ChainErrorKind};

use super::{
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
/// Answers in a row that show the node behind before the waiting writes are refused.
pub(super) const MAX_BEHIND: u32 = 30;
/// Wrong sequences and full mempools that one write may meet before it is refused.
pub(super) const MAX_SETBACKS: u32 = 12;

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
    Broadcasting {
        sequence: u64,
        gas_limit: u64,
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
        if matches!(self.phase, SignerPhase::Simulating { .. }) {
            // The answer of the simulation names this submission and is ignored.
            self.clear_current();
            return (WithdrawalOutcome::Withdrawn, self.advance(live));
        }
        write.is_withdrawn = true;
        (WithdrawalOutcome::Broadcasting, Vec::new())
    }

    /// The node answered with the account's sequence in the newest block; `None`: the account does not exist.
    pub fn on_account(
        &mut self,
        answer: Result<Option<u64>, NodeClientError>,
        address: &str,
        live: &dyn InFlightView,
    ) -> Vec<SignerEffect> {
        if self.phase != SignerPhase::ReadingAccount {
            return Vec::new();
        }
        let error = match answer {
            Ok(Some(sequence)) => {
                self.phase = SignerPhase::Idle;
                return self.adopt_sequence(sequence, live);
            }
            Ok(None) => SubmitError::NoAccount { address: address.to_owned() },
            Err(error) => SubmitError::Node(error),
        };
        // No caller waits for a node that does not answer. The next block or tick checks the transactions in flight.
        self.refuse_all(&error)
    }

    fn refuse_all(&mut self, error: &SubmitError) -> Vec<SignerEffect> {
        self.phase = SignerPhase::Paused;
        let waiting = self.current_write.take().into_iter().chain(self.queue.drain());
        let answer = |write: QueuedWrite| SignerEffect::Answer { id: write.id, outcome: Err(error.clone()) };
        let is_node_error = !matches!(error, SubmitError::NoAccount { .. });
        waiting.map(answer).chain(is_node_error.then_some(SignerEffect::ChooseNode)).collect()
    }

    /// The node expects this sequence. A used one shows that the node is behind.
    fn adopt_sequence(&mut self, sequence: u64, live: &dyn InFlightView) -> Vec<SignerEffect> {
        if sequence >= live.sequence_floor() {
            (self.expected_sequence, self.behind_count) = (Some(sequence), 0);
            return self.advance(live);
        }
        (self.expected_sequence, self.has_doubt) = (None, true);
        self.behind_count += 1;
        if self.behind_count > MAX_BEHIND {
            self.behind_count = 0;
            let used_below = live.sequence_floor();
            return self.refuse_all(&SubmitError::NodeBehind { expected_sequence: sequence, used_below });
        }
        self.phase = SignerPhase::Paused;
        vec![SignerEffect::ChooseNode]
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
                let fee = match self.fees.fee_below_ceiling(gas_limit) {
                    Ok(fee) => fee,
                    Err(exceeded) => return self.refuse_current(SubmitError::AboveCeiling(exceeded), live),
                };
                if write.granter.is_some_and(|budget| !budget.covers(fee)) {
                    write.granter = None;
                    return vec![SignerEffect::Simulate { id, sequence, with_granter: false }];
                }
                self.phase = SignerPhase::Broadcasting { sequence, gas_limit };
                let offer = FeeOffer { gas_limit, fee, with_granter: write.granter.is_some() };
                vec![SignerEffect::SignAndBroadcast { id, sequence, offer }]
            }
            Err(SimulationError::NoAnswer(error)) => {
                let mut effects = vec![SignerEffect::ChooseNode];
                effects.extend(self.refuse_current(SubmitError::Node(error), live));
                effects
            }
            Err(SimulationError::Refused(error)) => match error.classify_simulation() {
                ChainErrorKind::WrongSequence { expected, .. } => {
                    self.resynchronize(expected, SubmitError::Sequence(error), live)
                }
                ChainErrorKind::FeeAllowanceUnusable if write.granter.is_some() => {
                    write.granter = None;
                    vec![SignerEffect::Simulate { id, sequence, with_granter: false }]
                }
                _ => self.refuse_current(SubmitError::Simulation(error), live),
            },
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
        match answer {
            Ok(BroadcastOutcome::Accepted) => self.expected_sequence = Some(sequence + 1),
            Ok(BroadcastOutcome::Refused(error)) if error.classify() == ChainErrorKind::AlreadyInMempool => {
                self.expected_sequence = Some(sequence + 1);
            }
            // The node cannot judge a signature before its next block. The bytes are in flight and are handed over again.
            Ok(BroadcastOutcome::Refused(error)) if error.classify() == ChainErrorKind::NodeStarting => {
                (self.expected_sequence, self.has_doubt) = (None, true);
                self.clear_current();
                self.phase = SignerPhase::Paused;
                return vec![SignerEffect::Answer { id, outcome: Ok(hash.to_owned()) }];
            }
            Ok(BroadcastOutcome::Refused(error)) => {
                let mut effects = vec![SignerEffect::Retract { hash: hash.to_owned() }];
                effects.extend(self.on_check_tx_refusal(sequence, gas_limit, error, live));
                return effects;
            }
            Err(error) if error.is_unsent() => {
                let mut effects = vec![SignerEffect::Retract { hash: hash.to_owned() }, SignerEffect::ChooseNode];
                effects.extend(self.refuse_current(SubmitError::Node(error), live));
                return effects;
            }
            // The node may have the transaction: it is in flight, and broadcast again until the node says which.
            Err(_) => (self.expected_sequence, self.has_doubt) = (None, true),
        }
        self.clear_current();
        let mut effects = vec![SignerEffect::Answer { id, outcome: Ok(hash.to_owned()) }];
        effects.extend(self.advance(live));
        effects
    }

    /// CheckTx refused the transaction of the current write.
    fn on_check_tx_refusal(
        &mut self,
        sequence: u64,
        gas_limit: u64,
        error: ChainError,
        live: &dyn InFlightView,
    ) -> Vec<SignerEffect> {
        let Some(write) = self.current_write.as_mut() else { return Vec::new() };
        let id = write.id;
        match error.classify() {
            // No caller waits for another attempt.
            _ if write.is_withdrawn => self.refuse_current(SubmitError::Rejected(error), live),
            ChainErrorKind::FeeAllowanceUnusable if write.granter.is_some() => {
                write.granter = None;
                self.phase = SignerPhase::Simulating { sequence };
                vec![SignerEffect::Simulate { id, sequence, with_granter: false }]
            }
            // The ante handler ran out of gas. No node has the transaction, so it may be signed with more gas, once.
            ChainErrorKind::OutOfGas if !write.has_raised_gas => {
                write.has_raised_gas = true;
                let gas_limit = gas_limit.saturating_mul(2);
                let with_granter = write.granter.is_some();
                let fee = match self.fees.fee_below_ceiling(gas_limit) {
                    Ok(fee) => fee,
                    Err(exceeded) => return self.refuse_current(SubmitError::AboveCeiling(exceeded), live),
                };
                self.phase = SignerPhase::Broadcasting { sequence, gas_limit };
                let offer = FeeOffer { gas_limit, fee, with_granter };
                vec![SignerEffect::SignAndBroadcast { id, sequence, offer }]
            }
            ChainErrorKind::WrongSequence { expected, .. } => {
                self.resynchronize(expected, SubmitError::Sequence(error), live)
            }
            ChainErrorKind::MempoolFull | ChainErrorKind::TimeoutHeightPassed => {
                self.window.record_setback();
                write.setback_count += 1;
                if write.setback_count > MAX_SETBACKS {
                    return self.refuse_current(SubmitError::Rejected(error), live);
                }
                self.requeue();
                self.phase = SignerPhase::Paused;
                Vec::new()
            }
            _ => self.refuse_current(SubmitError::Rejected(error), live),
        }
    }

    /// The node answered a repeated broadcast, or did not.
    pub fn on_rebroadcast(
        &mut self,
        answer: Result<BroadcastOutcome, NodeClientError>,
        live: &dyn InFlightView,
    ) -> Vec<SignerEffect> {
        let SignerPhase::Rebroadcasting { sequence } = self.phase else { return Vec::new() };
        self.phase = SignerPhase::Idle;
        let next = match answer {
            Ok(BroadcastOutcome::Accepted) => Some(sequence + 1),
            Ok(BroadcastOutcome::Refused(error)) => match error.classify() {
                ChainErrorKind::AlreadyInMempool => Some(sequence + 1),
                ChainErrorKind::WrongSequence { expected: Some(expected), .. } if expected > sequence => Some(expected),
                _ => None,
            },
            Err(_) => None,
        };
        match next {
            Some(next) => self.adopt_sequence(next, live),
            // The confirmer decides the outcome. The next block checks the transaction again.
            None => {
                (self.expected_sequence, self.phase) = (None, SignerPhase::Paused);
                Vec::new()
            }
        }
    }

    /// The timer has fired: a paused signer goes on.
    pub fn on_tick(&mut self, live: &dyn InFlightView) -> Vec<SignerEffect> {
        if self.phase == SignerPhase::Paused {
            self.phase = SignerPhase::Idle;
        }
        self.advance(live)
    }

    /// The chain has a new block.
    pub fn on_block(&mut self, live: &dyn InFlightView) -> Vec<SignerEffect> {
        self.window.on_block();
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

    fn advance(&mut self, live: &dyn InFlightView) -> Vec<SignerEffect> {
        if self.phase != SignerPhase::Idle || (self.queue.is_empty() && !self.has_doubt) {
            return Vec::new();
        }
        if std::mem::take(&mut self.is_sequence_stale) {
            self.expected_sequence = None;
        }
        let Some(sequence) = self.expected_sequence else {
            self.phase = SignerPhase::ReadingAccount;
            return vec![SignerEffect::ReadAccount];
        };
        if live.is_live_at(sequence) {
            self.phase = SignerPhase::Rebroadcasting { sequence };
            return vec![SignerEffect::Rebroadcast { sequence }];
        }
        self.has_doubt = false;
        if live.live_count() >= self.window.size() {
            return Vec::new();
        }
        let Some(write) = self.queue.pop() else { return Vec::new() };
        let (id, with_granter) = (write.id, write.granter.is_some());
        self.current_write = Some(write);
        self.phase = SignerPhase::Simulating { sequence };
        vec![SignerEffect::Simulate { id, sequence, with_granter }]
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

    /// The sequence was wrong: the signer goes on with the sequence that the node expects, or reads it.
    fn resynchronize(
        &mut self,
        expected: Option<u64>,
        error: SubmitError,
        live: &dyn InFlightView,
    ) -> Vec<SignerEffect> {
        self.expected_sequence = None;
        self.window.record_setback();
        let setback_count = self.current_write.as_mut().map_or(0, |write| {
            write.setback_count += 1;
            write.setback_count
        });
        if setback_count > MAX_SETBACKS {
            return self.refuse_current(error, live);
        }
        self.requeue();
        self.phase = SignerPhase::Idle;
        match expected {
            Some(expected) => self.adopt_sequence(expected, live),
            None => self.advance(live),
        }
    }
}
