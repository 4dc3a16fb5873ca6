//! The events of the model: everything that can happen next in a state.

use super::{
    answers::NodeLie,
    callers::CallerPhase,
    chain::{BlockContent, TxResult},
    state::{MAX_HEIGHT, ModelLookup, ModelRequest, ModelState, NODE_LAG},
};

/// Wrong sequences, an account without funds, too little gas, a full mempool, a timeout height that has passed, an allowance that has
/// ended.
const LIES: [NodeLie; 7] = [
    NodeLie::HighSequence,
    NodeLie::CommittedSequence,
    NodeLie::RelayedRefusal(5),
    NodeLie::RelayedRefusal(11),
    NodeLie::RelayedRefusal(20),
    NodeLie::RelayedRefusal(30),
    NodeLie::RelayedRefusal(38),
];
/// Failures in a block: of the account without funds, of the allowance that has ended, for too little gas.
const FAILURES: [TxResult; 3] = [TxResult::AnteFailure(5), TxResult::AnteFailure(38), TxResult::OutOfGas];

/// The successors of a state.
struct Successors<'a> {
    state: &'a ModelState,
    all: Vec<(String, ModelState)>,
}

impl Successors<'_> {
    /// An event that uses up `cost` faults.
    fn add(&mut self, label: String, cost: u32, act: impl FnOnce(&mut ModelState)) {
        if cost <= self.state.faults_left {
            let mut next = self.state.clone();
            next.faults_left -= cost;
            act(&mut next);
            next.advance_callers();
            self.all.push((label, next));
        }
    }
}

impl ModelState {
    /// Everything that can happen next.
    pub(super) fn successors(&self) -> Vec<(String, Self)> {
        let mut events = Successors { state: self, all: Vec::new() };
        if let Some(request) = &self.request {
            self.add_answers(request, &mut events);
        }
        for hash in &self.chain.delayed {
            events.add(format!("late arrival {hash}"), 0, |next| {
                next.chain.delayed.remove(hash);
                next.chain.check_tx(hash, 0);
            });
            events.add(format!("late arrival elsewhere {hash}"), 0, |next| {
                next.chain.delayed.remove(hash);
                next.chain.other_mempools.insert(hash.clone());
            });
        }
        if self.chain.height() < MAX_HEIGHT {
            self.add_blocks(&mut events);
        }
        for entry in self.table.live().chain(self.table.refused()) {
            self.add_lookups(&entry.hash, &mut events);
        }
        if !self.chain.mempool.is_empty() {
            events.add("the node forgets".to_owned(), 1, Self::forget_mempool);
        }
        for (index, caller) in self.callers.iter().enumerate() {
            if caller.phase == CallerPhase::Submitting {
                events.add(format!("caller {} gives up", index + 1), 1, |next| next.withdraw_caller(index));
            }
            if caller.phase == CallerPhase::Following && !caller.has_timed_out {
                events.add(format!("caller {} waits no longer", index + 1), 1, |next| {
                    next.callers[index].has_timed_out = true
                });
            }
            if caller.may_repeat() {
                events.add(format!("caller {} repeats its call", index + 1), 1, |next| next.repeat_call(index));
            }
        }
        events.add("the signer dies".to_owned(), 1, Self::crash_signer);
        events.add("the process dies".to_owned(), 1, Self::crash_process);
        events.all
    }

    fn add_answers(&self, request: &ModelRequest, events: &mut Successors<'_>) {
        let taken = |next: &mut Self| next.request.take().unwrap_or(ModelRequest::ReadAccount);
        events.add(format!("answer {request:?}"), 0, |next| {
            let request = taken(next);
            next.answer(request, 0);
        });
        if let ModelRequest::Simulate { .. } = request {
            events.add(format!("answer, with a clock ahead of the chain {request:?}"), 1, |next| {
                let request = taken(next);
                next.is_clock_ahead = true;
                next.answer(request, 0);
            });
        }
        events.add(format!("answer from behind {request:?}"), 1, |next| {
            let request = taken(next);
            next.answer(request, NODE_LAG);
        });
        events.add(format!("lose {request:?}"), 1, |next| {
            let request = taken(next);
            next.lose_answer(request);
        });
        if request.sent_hash().is_some() {
            events.add(format!("no byte leaves {request:?}"), 1, |next| {
                let request = taken(next);
                next.send_nothing(&request);
            });
        }
        for lie in LIES {
            events.add(format!("{lie:?} {request:?}"), 1, |next| {
                let request = taken(next);
                if !next.answer_with_lie(request.clone(), lie) {
                    next.request = Some(request);
                }
            });
        }
    }

    fn add_blocks(&self, events: &mut Successors<'_>) {
        let (has_waiting, has_two) = self.chain.waiting();
        let full = BlockContent::Full { prefers_last: false };
        events.add("block".to_owned(), 0, |next| next.append_block(full));
        if has_waiting {
            events.add("empty block".to_owned(), 0, |next| next.append_block(BlockContent::Empty));
            for failure in FAILURES {
                events
                    .add(format!("block with {failure:?}"), 1, |next| next.append_block(BlockContent::First(failure)));
            }
        }
        if has_two {
            let last = BlockContent::Full { prefers_last: true };
            events.add("block with the last of two".to_owned(), 0, |next| next.append_block(last));
        }
        events.add("foreign transaction".to_owned(), 1, |next| next.append_block(BlockContent::Foreign));
    }

    fn add_lookups(&self, hash: &str, events: &mut Successors<'_>) {
        let between = ModelLookup { lag: 1, ..ModelLookup::default() };
        let in_index = ModelLookup { is_indexed: true, ..ModelLookup::default() };
        let behind = ModelLookup { lag: NODE_LAG, account_lag: NODE_LAG, ..ModelLookup::default() };
        let lie = ModelLookup { is_lie: true, ..ModelLookup::default() };
        let low_state = ModelLookup { has_low_state: true, ..lie };
        for (label, cost, lookup) in [
            ("look", 0, ModelLookup::default()),
            ("look between two blocks", 0, between),
            ("look in the index", 0, in_index),
            ("look behind", 1, behind),
            ("look, with a lie about height and sequence", 1, lie),
            ("look, with a lie about sequence and its state", 1, low_state),
        ] {
            events.add(format!("{label} {hash}"), cost, |next| next.look_up(hash, lookup));
        }
    }
}
