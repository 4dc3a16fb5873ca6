//! The signer's decisions: which write is next, at which sequence, and what an answer of the node means for it. Pure.
//!
//! `expected` is the sequence the node's check state expects next, as far as known. A live transaction of ours at that very
//! sequence is one the node does not know (any more): it is sent again, the same bytes, before anything else. So no second
//! transaction is ever signed for a sequence that may still execute.

use std::collections::VecDeque;

use svc_kit::upstream::{BroadcastOutcome, NodeError};
use svc_wire::chain_error::{ChainError, Meaning};

use super::SubmitError;
use crate::{
    chain::{fee_for, gas_limit_for},
    in_flight::CallId,
};

/// Writes that may wait.
pub const QUEUE_LIMIT: usize = 512;
/// Transactions in flight at once: grows by one per included transaction, halves when the mempool is full.
const FIRST_WINDOW: usize = 128;
const MAX_WINDOW: usize = 1_024;
/// How often one write may meet a wrong sequence or a full mempool before it is given up.
const MAX_SETBACKS: u32 = 12;

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Ask the node for the account's sequence.
    Learn,
    /// Simulate a write.
    Simulate { call: CallId, sequence: u64, with_granter: bool },
    /// Sign a write, note it as in flight, hand it to the node.
    Send { call: CallId, sequence: u64, with_granter: bool, gas_limit: u64, fee: u128 },
    /// Hand the live transaction at this sequence to the node again.
    Resend { sequence: u64 },
    /// The node refused it: it never was in flight.
    Retract { hash: String },
    /// Answer a write's caller: in flight under this hash, or not at all.
    Answer { call: CallId, outcome: Result<String, SubmitError> },
}

/// A live view of the transactions in flight.
pub trait Live {
    /// Whether a transaction that may still execute has this sequence.
    fn is_live_at(&self, sequence: u64) -> bool;
    /// How many may still execute.
    fn count(&self) -> usize;
}

#[derive(Debug, Clone)]
struct Write {
    call: CallId,
    /// Budget of the fee granter; `None`: no granter (any more).
    granter: Option<Option<u128>>,
    setbacks: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Idle,
    Learning,
    Simulating {
        sequence: u64,
    },
    Sending {
        sequence: u64,
    },
    Resending {
        sequence: u64,
    },
    /// Until the next block.
    Paused,
}

/// State of the signer.
#[derive(Debug)]
pub struct Core {
    expected: Option<u64>,
    step: Step,
    current: Option<Write>,
    queue: VecDeque<Write>,
    window: usize,
    gas_price_micros: u64,
    /// Some live transaction may not have arrived.
    is_unsure: bool,
}

impl Core {
    /// A signer that knows nothing of the node yet; with transactions of an earlier incarnation it first makes sure of them.
    pub fn new(gas_price_micros: u64, has_live: bool) -> Self {
        Self {
            expected: None,
            step: Step::Idle,
            current: None,
            queue: VecDeque::new(),
            window: FIRST_WINDOW,
            gas_price_micros,
            is_unsure: has_live,
        }
    }

    pub fn expected(&self) -> Option<u64> {
        self.expected
    }

    pub fn waiting(&self) -> usize {
        self.queue.len() + usize::from(self.current.is_some())
    }

    pub fn window(&self) -> usize {
        self.window
    }

    /// A new write; `granter` is the fee granter's budget.
    pub fn submit(&mut self, call: CallId, granter: Option<Option<u128>>, live: &dyn Live) -> Vec<Effect> {
        if self.queue.len() >= QUEUE_LIMIT {
            return vec![Effect::Answer { call, outcome: Err(SubmitError::Overloaded { limit: QUEUE_LIMIT }) }];
        }
        self.queue.push_back(Write { call, granter, setbacks: 0 });
        self.advance(live)
    }

    /// The node told the account's sequence in the newest block; `None`: there is no account.
    pub fn learned(&mut self, answer: Result<Option<u64>, NodeError>, address: &str, live: &dyn Live) -> Vec<Effect> {
        if self.step != Step::Learning {
            return Vec::new();
        }
        let error = match answer {
            Ok(Some(sequence)) => {
                self.expected = Some(sequence);
                self.step = Step::Idle;
                return self.advance(live);
            }
            Ok(None) => SubmitError::NoAccount { address: address.to_owned() },
            Err(error) => SubmitError::Node(error),
        };
        // Nobody is kept waiting for a node that does not answer; transactions in flight are looked after at the next block.
        self.step = Step::Paused;
        let waiting = self.current.take().into_iter().chain(self.queue.drain(..));
        waiting.map(|write| Effect::Answer { call: write.call, outcome: Err(error.clone()) }).collect()
    }

    /// A simulation was answered: gas used, or why not.
    pub fn simulated(
        &mut self,
        call: CallId,
        answer: Result<u64, Result<ChainError, NodeError>>,
        live: &dyn Live,
    ) -> Vec<Effect> {
        let Step::Simulating { sequence } = self.step else { return Vec::new() };
        let Some(write) = self.current.as_mut().filter(|write| write.call == call) else { return Vec::new() };
        match answer {
            Ok(gas) => {
                let gas_limit = gas_limit_for(gas);
                let fee = fee_for(gas_limit, self.gas_price_micros);
                if write.granter.flatten().is_some_and(|budget| fee > budget) {
                    write.granter = None;
                    return vec![Effect::Simulate { call, sequence, with_granter: false }];
                }
                self.step = Step::Sending { sequence };
                let with_granter = write.granter.is_some();
                vec![Effect::Send { call, sequence, with_granter, gas_limit, fee }]
            }
            Err(Err(error)) => self.give_up(SubmitError::Node(error), live),
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

    /// The key failed.
    pub fn unsigned(&mut self, live: &dyn Live) -> Vec<Effect> {
        self.give_up(SubmitError::Signing, live)
    }

    /// A hand-over was answered, or was not.
    pub fn sent(
        &mut self,
        call: CallId,
        hash: &str,
        answer: Result<BroadcastOutcome, NodeError>,
        live: &dyn Live,
    ) -> Vec<Effect> {
        let Step::Sending { sequence } = self.step else { return Vec::new() };
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
                Meaning::FeeAllowance if write.granter.is_some() => {
                    write.granter = None;
                    self.step = Step::Simulating { sequence };
                    return vec![retract, Effect::Simulate { call, sequence, with_granter: false }];
                }
                Meaning::WrongSequence { expected, .. } => {
                    let mut effects = vec![retract];
                    effects.extend(self.set_back(expected, SubmitError::Sequence(error), live));
                    return effects;
                }
                Meaning::MempoolFull | Meaning::TimeoutHeight => {
                    self.window = (self.window / 2).max(1);
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
            Some(next) => self.expected = Some(next),
            // Its outcome is the confirmer's to decide; look again at the next block.
            None => {
                self.expected = None;
                self.step = Step::Paused;
            }
        }
        self.advance(live)
    }

    /// A block has passed.
    pub fn ticked(&mut self, live: &dyn Live) -> Vec<Effect> {
        if self.step == Step::Paused {
            self.step = Step::Idle;
        }
        self.advance(live)
    }

    /// A transaction was decided: there is room for another, and after an expiry its sequence is free again.
    pub fn settled(&mut self, is_included: bool, live: &dyn Live) -> Vec<Effect> {
        if is_included {
            self.window = (self.window + 1).min(MAX_WINDOW);
        } else {
            self.is_unsure = true;
            if self.step == Step::Idle {
                self.expected = None;
            }
        }
        self.advance(live)
    }

    fn advance(&mut self, live: &dyn Live) -> Vec<Effect> {
        if self.step != Step::Idle || (self.queue.is_empty() && !self.is_unsure) {
            return Vec::new();
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
        if live.count() >= self.window {
            return Vec::new();
        }
        let Some(write) = self.queue.pop_front() else { return Vec::new() };
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
            self.queue.push_front(write);
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
        self.expected = expected;
        let setbacks = self.current.as_mut().map_or(0, |write| {
            write.setbacks += 1;
            write.setbacks
        });
        if setbacks > MAX_SETBACKS {
            return self.give_up(error, live);
        }
        self.requeue();
        self.step = Step::Idle;
        self.advance(live)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use svc_kit::upstream::{Kind, UpstreamError};

    use super::*;

    #[derive(Default)]
    struct Table(BTreeSet<u64>);

    impl Live for Table {
        fn is_live_at(&self, sequence: u64) -> bool {
            self.0.contains(&sequence)
        }
        fn count(&self) -> usize {
            self.0.len()
        }
    }

    const A: CallId = CallId(1);
    const B: CallId = CallId(2);

    fn unreachable() -> NodeError {
        NodeError::Upstream(UpstreamError::Unreachable { kind: Kind::Rpc, origin: "o".into(), reason: "r".into() })
    }

    fn refused(codespace: &str, code: u32, raw_log: &str) -> Result<BroadcastOutcome, NodeError> {
        Ok(BroadcastOutcome::Refused(error(codespace, code, raw_log)))
    }

    fn error(codespace: &str, code: u32, raw_log: &str) -> ChainError {
        ChainError { codespace: codespace.into(), code, raw_log: raw_log.into() }
    }

    fn simulate(call: CallId, sequence: u64, with_granter: bool) -> Effect {
        Effect::Simulate { call, sequence, with_granter }
    }

    fn send(call: CallId, sequence: u64, with_granter: bool) -> Effect {
        Effect::Send { call, sequence, with_granter, gas_limit: 150_000, fee: 3_750 }
    }

    fn in_flight(call: CallId, hash: &str) -> Effect {
        Effect::Answer { call, outcome: Ok(hash.into()) }
    }

    /// A signer that expects sequence 5 and has simulated write A there.
    fn sending(granter: Option<Option<u128>>, table: &Table) -> Core {
        let mut core = Core::new(25_000, false);
        assert_eq!(core.submit(A, granter, table), [Effect::Learn]);
        assert_eq!(core.learned(Ok(Some(5)), "a", table), [simulate(A, 5, granter.is_some())]);
        assert_eq!(core.simulated(A, Ok(100_000), table), [send(A, 5, granter.is_some())]);
        core
    }

    #[test]
    fn writes_go_out_on_consecutive_sequences_without_waiting_for_blocks() {
        let mut table = Table::default();
        let mut core = sending(None, &table);
        assert_eq!(core.submit(B, None, &table), []);
        table.0.insert(5);
        assert_eq!(
            core.sent(A, "H5", Ok(BroadcastOutcome::Accepted), &table),
            [in_flight(A, "H5"), simulate(B, 6, false)]
        );
        assert_eq!(core.simulated(B, Ok(100_000), &table), [send(B, 6, false)]);
    }

    #[test]
    fn a_refusal_because_of_the_allowance_is_tried_once_without_granter() {
        for (codespace, code) in [("feegrant", 2), ("feegrant", 3), ("feegrant", 7), ("sdk", 38)] {
            let table = Table::default();
            let mut core = sending(Some(None), &table);
            let retract = Effect::Retract { hash: "H".into() };
            assert_eq!(
                core.sent(A, "H", refused(codespace, code, ""), &table),
                [retract.clone(), simulate(A, 5, false)]
            );
            assert_eq!(core.simulated(A, Ok(100_000), &table), [send(A, 5, false)]);
            let answer = Effect::Answer { call: A, outcome: Err(SubmitError::Rejected(error(codespace, code, ""))) };
            assert_eq!(core.sent(A, "H", refused(codespace, code, ""), &table), [retract, answer]);
        }
    }

    #[test]
    fn the_allowance_is_not_used_when_it_fails_in_simulation_or_is_too_small() {
        let table = Table::default();
        for (budget, simulated) in
            [(Some(None), Err(Ok(error("sdk", 6, "fee allowance expired")))), (Some(Some(3_749)), Ok(100_000))]
        {
            let mut core = Core::new(25_000, false);
            core.submit(A, budget, &table);
            core.learned(Ok(Some(5)), "a", &table);
            assert_eq!(core.simulated(A, simulated, &table), [simulate(A, 5, false)]);
            assert_eq!(core.simulated(A, Ok(100_000), &table), [send(A, 5, false)]);
        }
        let enough = sending(Some(Some(3_750)), &table);
        assert_eq!(enough.step, Step::Sending { sequence: 5 });
    }

    #[test]
    fn a_wrong_sequence_resynchronises_in_both_directions() {
        let mut table = Table::default();
        let mut core = sending(None, &table);
        let ahead = "account sequence mismatch, expected 9, got 5: incorrect account sequence";
        let retract = Effect::Retract { hash: "H".into() };
        assert_eq!(core.sent(A, "H", refused("sdk", 32, ahead), &table), [retract, simulate(A, 9, false)]);
        // The node has lost our live transactions 7 and 8: they are sent again, the same bytes, before anything else.
        table.0.extend([7, 8]);
        let behind = error("sdk", 6, "account sequence mismatch, expected 7, got 9: incorrect account sequence");
        assert_eq!(core.simulated(A, Err(Ok(behind)), &table), [Effect::Resend { sequence: 7 }]);
        assert_eq!(core.resent(Ok(BroadcastOutcome::Accepted), &table), [Effect::Resend { sequence: 8 }]);
        assert_eq!(core.resent(Ok(BroadcastOutcome::Accepted), &table), [simulate(A, 9, false)]);
    }

    #[test]
    fn a_sequence_that_stays_wrong_is_given_up() {
        let table = Table::default();
        let mut core = sending(None, &table);
        let wrong = || refused("sdk", 32, "account sequence mismatch, expected 5, got 5");
        for _ in 0..MAX_SETBACKS {
            assert_eq!(core.sent(A, "H", wrong(), &table)[1], simulate(A, 5, false));
            core.simulated(A, Ok(100_000), &table);
        }
        let effects = core.sent(A, "H", wrong(), &table);
        assert!(matches!(&effects[1], Effect::Answer { outcome: Err(SubmitError::Sequence(_)), .. }), "{effects:?}");
    }

    #[test]
    fn a_hand_over_without_an_answer_is_in_flight_and_sent_again() {
        let mut table = Table::default();
        let mut core = sending(None, &table);
        table.0.insert(5);
        assert_eq!(core.sent(A, "H", Err(unreachable()), &table), [in_flight(A, "H"), Effect::Learn]);
        assert_eq!(core.learned(Err(unreachable()), "a", &table), []);
        assert_eq!(core.ticked(&table), [Effect::Learn]);
        assert_eq!(core.learned(Ok(Some(5)), "a", &table), [Effect::Resend { sequence: 5 }]);
        assert_eq!(core.resent(refused("sdk", 19, ""), &table), []);
        assert_eq!(core.expected(), Some(6));
        assert_eq!(core.submit(B, None, &table), [simulate(B, 6, false)]);
    }

    #[test]
    fn a_node_that_is_down_fails_those_who_wait_and_nobody_later() {
        let table = Table::default();
        let mut core = Core::new(25_000, false);
        core.submit(A, None, &table);
        core.submit(B, None, &table);
        let answer = |call| Effect::Answer { call, outcome: Err(SubmitError::Node(unreachable())) };
        assert_eq!(core.learned(Err(unreachable()), "a", &table), [answer(A), answer(B)]);
        assert_eq!(core.submit(A, None, &table), []);
        assert_eq!(core.ticked(&table), [Effect::Learn]);
        assert_eq!(core.learned(Ok(Some(5)), "a", &table), [simulate(A, 5, false)]);
        assert_eq!(core.simulated(A, Err(Err(unreachable())), &table), [answer(A)]);
    }

    #[test]
    fn a_new_incarnation_makes_sure_of_what_is_in_flight_before_it_signs() {
        let table = Table(BTreeSet::from([4, 5]));
        let mut core = Core::new(25_000, true);
        assert_eq!(core.ticked(&table), [Effect::Learn]);
        core.submit(A, None, &table);
        assert_eq!(core.learned(Ok(Some(4)), "a", &table), [Effect::Resend { sequence: 4 }]);
        assert_eq!(core.resent(refused("sdk", 19, ""), &table), [Effect::Resend { sequence: 5 }]);
        assert_eq!(core.resent(Ok(BroadcastOutcome::Accepted), &table), [simulate(A, 6, false)]);
    }

    #[test]
    fn a_full_mempool_pauses_until_the_next_block_and_shrinks_the_window() {
        let table = Table::default();
        let mut core = sending(None, &table);
        assert_eq!(core.sent(A, "H", refused("sdk", 20, ""), &table), [Effect::Retract { hash: "H".into() }]);
        assert_eq!(core.window(), FIRST_WINDOW / 2);
        assert_eq!(core.ticked(&table), [simulate(A, 5, false)]);
    }

    #[test]
    fn the_window_and_the_queue_are_bounded() {
        let table = Table((1000..1000 + FIRST_WINDOW as u64).collect());
        let mut core = Core::new(25_000, false);
        core.submit(A, None, &table);
        assert_eq!(core.learned(Ok(Some(5)), "a", &table), [], "the window is full");
        let smaller = Table((1001..1000 + FIRST_WINDOW as u64).collect());
        assert_eq!(core.settled(true, &smaller), [simulate(A, 5, false)]);
        for call in 0..QUEUE_LIMIT as u64 {
            assert_eq!(core.submit(CallId(10 + call), None, &smaller), []);
        }
        assert!(matches!(
            &core.submit(B, None, &smaller)[..],
            [Effect::Answer { outcome: Err(SubmitError::Overloaded { .. }), .. }]
        ));
    }

    #[test]
    fn an_expiry_frees_its_sequence_for_the_next_write() {
        let mut table = Table::default();
        let mut core = sending(None, &table);
        table.0.insert(5);
        core.sent(A, "H", Ok(BroadcastOutcome::Accepted), &table);
        table.0.remove(&5);
        assert_eq!(core.settled(false, &table), [Effect::Learn]);
        core.submit(B, None, &table);
        assert_eq!(core.learned(Ok(Some(5)), "a", &table), [simulate(B, 5, false)]);
    }
}
