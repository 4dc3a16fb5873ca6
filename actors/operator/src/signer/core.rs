//! The signer's decisions: which write is next, at which sequence, and what an answer of the node means for it. Pure.
//!
//! `expected` is the sequence the node's check state expects next, as far as known. A live transaction of ours at that very
//! sequence is one the node does not know (any more): it is sent again, the same bytes, before anything else. So no second
//! transaction is ever signed for a sequence that may still execute. A node that expects a sequence which is known to be used
//! is behind the chain, and nothing is signed by its word.

use std::sync::Arc;

use svc_kit::upstream::{BroadcastOutcome, NodeError};
use svc_wire::chain_error::{ChainError, Meaning};

use super::{
    SubmitError,
    effect::{Effect, Live},
    queue::{Queue, Write},
    window::{Window, WindowBound},
};
use crate::{chain::fee_for, in_flight::CallId};

/// Writes that may wait.
pub const QUEUE_LIMIT: usize = 2_048;
/// How often a node may turn out to be behind before those who wait are told.
const MAX_BEHIND: u32 = 30;
/// How often one write may meet a wrong sequence or a full mempool before it is given up.
const MAX_SETBACKS: u32 = 12;

/// What becomes of a write whose caller has given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withdrawal {
    /// It will never be signed.
    Taken,
    /// It is being handed over: it leaves now or never, and its answer says which.
    Leaving,
    /// It has left before, or is unknown.
    Gone,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Step {
    Idle,
    Learning,
    Simulating {
        sequence: u64,
    },
    Sending {
        sequence: u64,
        gas_limit: u64,
    },
    Resending {
        sequence: u64,
    },
    /// Until the next block.
    Paused,
}

/// State of the signer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Core {
    expected: Option<u64>,
    step: Step,
    current: Option<Write>,
    queue: Queue,
    window: Window,
    gas_price_micros: u64,
    /// Some live transaction may not have arrived.
    is_unsure: bool,
    /// What the node expects has to be asked anew, whatever is under way.
    is_stale: bool,
    /// How often in a row the node was behind.
    behind: u32,
}

impl Core {
    /// A signer that knows nothing of the node yet; with transactions of an earlier incarnation it first makes sure of them.
    pub fn new(gas_price_micros: u64, bound: WindowBound, has_live: bool) -> Self {
        Self {
            expected: None,
            step: Step::Idle,
            current: None,
            queue: Queue::default(),
            window: Window::new(bound),
            gas_price_micros,
            is_unsure: has_live,
            is_stale: false,
            behind: 0,
        }
    }

    pub fn expected(&self) -> Option<u64> {
        self.expected
    }

    pub fn waiting(&self) -> usize {
        self.queue.len() + usize::from(self.current.is_some())
    }

    pub fn window(&self) -> usize {
        self.window.size()
    }

    /// A new write; `granter` is the fee granter's budget.
    pub fn submit(
        &mut self,
        call: CallId,
        session: Arc<str>,
        granter: Option<Option<u128>>,
        live: &dyn Live,
    ) -> Vec<Effect> {
        if self.queue.len() >= QUEUE_LIMIT {
            return vec![Effect::Answer { call, outcome: Err(SubmitError::Overloaded { limit: QUEUE_LIMIT }) }];
        }
        self.queue.push(Write { call, session, granter, has_more_gas: false, is_withdrawn: false, setbacks: 0 });
        self.advance(live)
    }

    /// A caller has given up.
    pub fn withdraw(&mut self, call: CallId, live: &dyn Live) -> (Withdrawal, Vec<Effect>) {
        if self.queue.remove(call) {
            return (Withdrawal::Taken, Vec::new());
        }
        let Some(write) = self.current.as_mut().filter(|write| write.call == call) else {
            return (Withdrawal::Gone, Vec::new());
        };
        if matches!(self.step, Step::Simulating { .. }) {
            // The answer of its simulation names this call, and is ignored.
            self.finish();
            return (Withdrawal::Taken, self.advance(live));
        }
        write.is_withdrawn = true;
        (Withdrawal::Leaving, Vec::new())
    }

    /// The node told the account's sequence in the newest block; `None`: there is no account.
    pub fn learned(&mut self, answer: Result<Option<u64>, NodeError>, address: &str, live: &dyn Live) -> Vec<Effect> {
        if self.step != Step::Learning {
            return Vec::new();
        }
        let error = match answer {
            Ok(Some(sequence)) => {
                self.step = Step::Idle;
                return self.expect(sequence, live);
            }
            Ok(None) => SubmitError::NoAccount { address: address.to_owned() },
            Err(error) => SubmitError::Node(error),
        };
        // Nobody is kept waiting for a node that does not answer; transactions in flight are looked after at the next block.
        self.refuse_all(&error)
    }

    fn refuse_all(&mut self, error: &SubmitError) -> Vec<Effect> {
        self.step = Step::Paused;
        let waiting = self.current.take().into_iter().chain(self.queue.drain());
        let answer = |write: Write| Effect::Answer { call: write.call, outcome: Err(error.clone()) };
        let is_node = !matches!(error, SubmitError::NoAccount { .. });
        waiting.map(answer).chain(is_node.then_some(Effect::ChooseNode)).collect()
    }

    /// The node expects this sequence. One that is used already shows that it is behind.
    fn expect(&mut self, sequence: u64, live: &dyn Live) -> Vec<Effect> {
        if sequence >= live.floor() {
            (self.expected, self.behind) = (Some(sequence), 0);
            return self.advance(live);
        }
        (self.expected, self.is_unsure) = (None, true);
        self.behind += 1;
        if self.behind > MAX_BEHIND {
            self.behind = 0;
            return self.refuse_all(&SubmitError::Behind { expected: sequence, used_below: live.floor() });
        }
        self.step = Step::Paused;
        vec![Effect::ChooseNode]
    }

    /// A simulation was answered: the gas limit to sign with, or why not.
    pub fn simulated(
        &mut self,
        call: CallId,
        answer: Result<u64, Result<ChainError, NodeError>>,
        live: &dyn Live,
    ) -> Vec<Effect> {
        let Step::Simulating { sequence } = self.step else { return Vec::new() };
        let Some(write) = self.current.as_mut().filter(|write| write.call == call) else { return Vec::new() };
        match answer {
            Ok(gas_limit) => {
                let fee = fee_for(gas_limit, self.gas_price_micros);
                if write.granter.flatten().is_some_and(|budget| fee > budget) {
                    write.granter = None;
                    return vec![Effect::Simulate { call, sequence, with_granter: false }];
                }
                self.step = Step::Sending { sequence, gas_limit };
                let with_granter = write.granter.is_some();
                vec![Effect::Send { call, sequence, with_granter, gas_limit, fee }]
            }
            Err(Err(error)) => {
                let mut effects = vec![Effect::ChooseNode];
                effects.extend(self.give_up(SubmitError::Node(error), live));
                effects
            }
            Err(Ok(error)) => match error.simulated_meaning() {
                Meaning::WrongSequence { expected, .. } => self.set_back(expected, SubmitError::Sequence(error), live),
                Meaning::FeeAllowance if write.granter.is_some() => {
                    write.granter = None;
                    vec![Effect::Simulate { call, sequence, with_granter: false }]
                }
                _ => self.give_up(SubmitError::Simulation(error), live),
            },
        }
    }

    /// The key or the journal failed: nothing has left.
    pub fn unsent(&mut self, call: CallId, error: SubmitError, live: &dyn Live) -> Vec<Effect> {
        let is_current = self.current.as_ref().is_some_and(|write| write.call == call);
        if is_current && matches!(self.step, Step::Sending { .. }) { self.give_up(error, live) } else { Vec::new() }
    }

    /// A hand-over was answered, or was not.
    pub fn sent(
        &mut self,
        call: CallId,
        hash: &str,
        answer: Result<BroadcastOutcome, NodeError>,
        live: &dyn Live,
    ) -> Vec<Effect> {
        let Step::Sending { sequence, gas_limit } = self.step else { return Vec::new() };
        let Some(write) = self.current.as_mut().filter(|write| write.call == call) else { return Vec::new() };
        let in_flight = Effect::Answer { call, outcome: Ok(hash.to_owned()) };
        let retract = Effect::Retract { hash: hash.to_owned() };
        let mut effects = match answer {
            Ok(BroadcastOutcome::Accepted) => {
                self.expected = Some(sequence + 1);
                self.finish();
                vec![in_flight]
            }
            // It may have arrived: it is in flight, and sent again until the node says which.
            Err(_) => {
                self.expected = None;
                self.is_unsure = true;
                self.finish();
                vec![in_flight]
            }
            Ok(BroadcastOutcome::Refused(error)) => match error.meaning() {
                Meaning::AlreadyInMempool => {
                    self.expected = Some(sequence + 1);
                    self.finish();
                    vec![in_flight]
                }
                // Nobody waits for another attempt.
                _ if write.is_withdrawn => {
                    let mut effects = vec![retract];
                    effects.extend(self.give_up(SubmitError::Rejected(error), live));
                    return effects;
                }
                Meaning::FeeAllowance if write.granter.is_some() => {
                    write.granter = None;
                    self.step = Step::Simulating { sequence };
                    return vec![retract, Effect::Simulate { call, sequence, with_granter: false }];
                }
                // It ran dry before its messages: nothing of it is anywhere, so it may be signed with more, once.
                Meaning::OutOfGas if !write.has_more_gas => {
                    write.has_more_gas = true;
                    let gas_limit = gas_limit.saturating_mul(2);
                    self.step = Step::Sending { sequence, gas_limit };
                    let (with_granter, fee) = (write.granter.is_some(), fee_for(gas_limit, self.gas_price_micros));
                    return vec![retract, Effect::Send { call, sequence, with_granter, gas_limit, fee }];
                }
                Meaning::WrongSequence { expected, .. } => {
                    let mut effects = vec![retract];
                    effects.extend(self.set_back(expected, SubmitError::Sequence(error), live));
                    return effects;
                }
                Meaning::MempoolFull | Meaning::TimeoutHeight => {
                    self.window.set_back();
                    write.setbacks += 1;
                    if write.setbacks > MAX_SETBACKS {
                        let mut effects = vec![retract];
                        effects.extend(self.give_up(SubmitError::Rejected(error), live));
                        return effects;
                    }
                    self.requeue();
                    self.step = Step::Paused;
                    return vec![retract];
                }
                _ => {
                    let mut effects = vec![retract];
                    effects.extend(self.give_up(SubmitError::Rejected(error), live));
                    return effects;
                }
            },
        };
        effects.extend(self.advance(live));
        effects
    }

    /// A repeated hand-over was answered, or was not.
    pub fn resent(&mut self, answer: Result<BroadcastOutcome, NodeError>, live: &dyn Live) -> Vec<Effect> {
        let Step::Resending { sequence } = self.step else { return Vec::new() };
        self.step = Step::Idle;
        let next = match answer {
            Ok(BroadcastOutcome::Accepted) => Some(sequence + 1),
            Ok(BroadcastOutcome::Refused(error)) => match error.meaning() {
                Meaning::AlreadyInMempool => Some(sequence + 1),
                Meaning::WrongSequence { expected: Some(expected), .. } if expected > sequence => Some(expected),
                _ => None,
            },
            Err(_) => None,
        };
        match next {
            Some(next) => self.expect(next, live),
            // Its outcome is the confirmer's to decide; look again at the next block.
            None => {
                (self.expected, self.step) = (None, Step::Paused);
                Vec::new()
            }
        }
    }

    /// A moment has passed.
    pub fn ticked(&mut self, live: &dyn Live) -> Vec<Effect> {
        if self.step == Step::Paused {
            self.step = Step::Idle;
        }
        self.advance(live)
    }

    /// A block has passed.
    pub fn block_passed(&mut self, live: &dyn Live) -> Vec<Effect> {
        self.window.block();
        self.ticked(live)
    }

    /// A transaction was decided: there is room for another, and unless it has used its sequence that may be free again.
    pub fn settled(&mut self, uses_sequence: bool, live: &dyn Live) -> Vec<Effect> {
        if uses_sequence {
            self.window.included();
            return self.advance(live);
        }
        self.doubt(live)
    }

    /// Something in flight may not be where it was sent: the node was restarted or changed, or does not show it.
    pub fn doubt(&mut self, live: &dyn Live) -> Vec<Effect> {
        (self.is_unsure, self.is_stale) = (true, true);
        self.advance(live)
    }

    fn advance(&mut self, live: &dyn Live) -> Vec<Effect> {
        if self.step != Step::Idle || (self.queue.is_empty() && !self.is_unsure) {
            return Vec::new();
        }
        if std::mem::take(&mut self.is_stale) {
            self.expected = None;
        }
        let Some(sequence) = self.expected else {
            self.step = Step::Learning;
            return vec![Effect::Learn];
        };
        if live.is_live_at(sequence) {
            self.step = Step::Resending { sequence };
            return vec![Effect::Resend { sequence }];
        }
        self.is_unsure = false;
        if live.count() >= self.window.size() {
            return Vec::new();
        }
        let Some(write) = self.queue.pop() else { return Vec::new() };
        let (call, with_granter) = (write.call, write.granter.is_some());
        self.current = Some(write);
        self.step = Step::Simulating { sequence };
        vec![Effect::Simulate { call, sequence, with_granter }]
    }

    fn finish(&mut self) {
        self.current = None;
        self.step = Step::Idle;
    }

    fn requeue(&mut self) {
        if let Some(write) = self.current.take() {
            self.queue.push_first(write);
        }
    }

    fn give_up(&mut self, error: SubmitError, live: &dyn Live) -> Vec<Effect> {
        let call = self.current.as_ref().map(|write| write.call);
        self.finish();
        let mut effects: Vec<_> =
            call.into_iter().map(|call| Effect::Answer { call, outcome: Err(error.clone()) }).collect();
        effects.extend(self.advance(live));
        effects
    }

    /// The sequence was wrong: go on with the one the node expects, or ask for it.
    fn set_back(&mut self, expected: Option<u64>, error: SubmitError, live: &dyn Live) -> Vec<Effect> {
        self.expected = None;
        self.window.set_back();
        let setbacks = self.current.as_mut().map_or(0, |write| {
            write.setbacks += 1;
            write.setbacks
        });
        if setbacks > MAX_SETBACKS {
            return self.give_up(error, live);
        }
        self.requeue();
        self.step = Step::Idle;
        match expected {
            Some(expected) => self.expect(expected, live),
            None => self.advance(live),
        }
    }
}

#[cfg(test)]
mod tests;
