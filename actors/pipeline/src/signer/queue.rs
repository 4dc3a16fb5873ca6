//! The queue of writes. Sessions take turns, so that a session with a thousand writes delays the first write of another session by
//! one. Pure.

use std::{collections::VecDeque, sync::Arc};

use crate::write::{
    fee::{FeeBudget, FeeLimits},
    intent::DEFAULT_PRINCIPAL,
    submission::SubmissionId,
};

/// A write in the queue, and in the signer's hands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QueuedWrite {
    /// The submission.
    pub id: SubmissionId,
    /// Session whose turn it takes.
    pub session: Arc<str>,
    /// Principal whose fees of the day it adds to.
    pub principal: Arc<str>,
    /// Ceilings of the principal.
    pub fee_limits: FeeLimits,
    /// Budget of the fee granter; `None` when the account pays itself, or the granter does not pay any more.
    pub granter: Option<FeeBudget>,
    /// Whether its gas limit was raised after CheckTx ran out of gas.
    pub has_raised_gas: bool,
    /// Fee of its newest transaction.
    pub offered_fee: u128,
    /// Whether the node was asked for its price of gas, after it took the fee for too small.
    pub has_asked_price: bool,
    /// Whether its caller withdrew it during the broadcast.
    pub is_withdrawn: bool,
    /// Number of wrong sequences that it met in simulations.
    pub setback_count: u32,
    /// Number of its simulations whose sentence the node contradicts.
    pub contradiction_count: u32,
    /// Number of its simulations without an answer.
    pub unanswered_count: u32,
    /// The only sequence that it may be signed at: that of its earlier transaction, which was refused and may still execute.
    pub required_sequence: Option<u64>,
}

impl QueuedWrite {
    /// A write that has not been tried yet.
    pub fn new(id: SubmissionId, session: Arc<str>, granter: Option<FeeBudget>) -> Self {
        Self {
            id,
            session,
            principal: DEFAULT_PRINCIPAL.into(),
            fee_limits: FeeLimits::default(),
            granter,
            has_raised_gas: false,
            offered_fee: 0,
            has_asked_price: false,
            is_withdrawn: false,
            setback_count: 0,
            contradiction_count: 0,
            unanswered_count: 0,
            required_sequence: None,
        }
    }
}

/// The waiting writes of each session. The session at the front has the next turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct WriteQueue {
    session_queues: VecDeque<VecDeque<QueuedWrite>>,
}

impl WriteQueue {
    pub fn len(&self) -> usize {
        self.session_queues.iter().map(VecDeque::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.session_queues.is_empty()
    }

    /// Adds a write behind the others of its session.
    pub fn push(&mut self, write: QueuedWrite) {
        match self.session_queue(&write.session) {
            Some(line) => line.push_back(write),
            None => self.session_queues.push_back(VecDeque::from([write])),
        }
    }

    /// Adds a write in front of everything: it had its turn and met a setback.
    pub fn push_front(&mut self, write: QueuedWrite) {
        let position =
            self.session_queues.iter().position(|line| line.front().is_some_and(|w| w.session == write.session));
        let mut line = position.and_then(|position| self.session_queues.remove(position)).unwrap_or_default();
        line.push_front(write);
        self.session_queues.push_front(line);
    }

    /// The next write; its session goes to the end.
    pub fn pop(&mut self) -> Option<QueuedWrite> {
        let mut line = self.session_queues.pop_front()?;
        let write = line.pop_front();
        if !line.is_empty() {
            self.session_queues.push_back(line);
        }
        write
    }

    /// Removes a write; false when it does not wait here.
    pub fn remove(&mut self, id: SubmissionId) -> bool {
        let before = self.len();
        for line in &mut self.session_queues {
            line.retain(|write| write.id != id);
        }
        self.session_queues.retain(|line| !line.is_empty());
        self.len() < before
    }

    /// Empties it, in the order of turns.
    pub fn drain(&mut self) -> Vec<QueuedWrite> {
        std::iter::from_fn(|| self.pop()).collect()
    }

    fn session_queue(&mut self, session: &str) -> Option<&mut VecDeque<QueuedWrite>> {
        self.session_queues.iter_mut().find(|line| line.front().is_some_and(|write| &*write.session == session))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(session: &str, id: u64) -> QueuedWrite {
        QueuedWrite::new(SubmissionId(id), session.into(), None)
    }

    fn calls(queue: &mut WriteQueue) -> Vec<u64> {
        queue.drain().into_iter().map(|write| write.id.0).collect()
    }

    #[test]
    fn sessions_take_turns_and_keep_their_own_order() {
        let mut queue = WriteQueue::default();
        for (session, id) in [("a", 1), ("a", 2), ("a", 3), ("b", 10), ("c", 20), ("b", 11)] {
            queue.push(write(session, id));
        }
        assert_eq!(queue.len(), 6);
        assert_eq!(calls(&mut queue), [1, 10, 20, 2, 11, 3]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_write_that_met_a_setback_is_next_and_a_removed_one_is_gone() {
        let mut queue = WriteQueue::default();
        queue.push(write("a", 1));
        queue.push(write("b", 10));
        let first = queue.pop().expect("one");
        queue.push(write("a", 2));
        queue.push_front(first);
        assert!(queue.remove(SubmissionId(2)) && !queue.remove(SubmissionId(2)));
        assert_eq!(calls(&mut queue), [1, 10]);
    }
}
