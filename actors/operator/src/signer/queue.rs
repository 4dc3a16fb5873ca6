//! Writes that wait for the signer, taken from one session after the other, so that a session with a thousand of them delays
//! another's first by one. Pure.

use std::{collections::VecDeque, sync::Arc};

use crate::in_flight::CallId;

/// A write as the signer's decisions know it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Write {
    pub call: CallId,
    /// Whose turn it counts for.
    pub session: Arc<str>,
    /// Budget of the fee granter; `None`: no granter (any more).
    pub granter: Option<Option<u128>>,
    /// Whether CheckTx found its gas too little before.
    pub has_more_gas: bool,
    /// Whether its caller has given up while it was being handed over.
    pub is_withdrawn: bool,
    /// How often it met a wrong sequence or a full mempool.
    pub setbacks: u32,
}

/// The waiting writes of each session, the session whose turn it is in front.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Queue {
    sessions: VecDeque<VecDeque<Write>>,
}

impl Queue {
    pub fn len(&self) -> usize {
        self.sessions.iter().map(VecDeque::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Behind everything of its session.
    pub fn push(&mut self, write: Write) {
        match self.line_of(&write.session) {
            Some(line) => line.push_back(write),
            None => self.sessions.push_back(VecDeque::from([write])),
        }
    }

    /// Before everything else: it has had its turn and was set back.
    pub fn push_first(&mut self, write: Write) {
        let position = self.sessions.iter().position(|line| line.front().is_some_and(|w| w.session == write.session));
        let mut line = position.and_then(|position| self.sessions.remove(position)).unwrap_or_default();
        line.push_front(write);
        self.sessions.push_front(line);
    }

    /// The next write; its session goes to the end.
    pub fn pop(&mut self) -> Option<Write> {
        let mut line = self.sessions.pop_front()?;
        let write = line.pop_front();
        if !line.is_empty() {
            self.sessions.push_back(line);
        }
        write
    }

    /// Takes a write out; false when it does not wait here.
    pub fn remove(&mut self, call: CallId) -> bool {
        let before = self.len();
        for line in &mut self.sessions {
            line.retain(|write| write.call != call);
        }
        self.sessions.retain(|line| !line.is_empty());
        self.len() < before
    }

    /// Empties it, in the order of turns.
    pub fn drain(&mut self) -> Vec<Write> {
        std::iter::from_fn(|| self.pop()).collect()
    }

    fn line_of(&mut self, session: &str) -> Option<&mut VecDeque<Write>> {
        self.sessions.iter_mut().find(|line| line.front().is_some_and(|write| &*write.session == session))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(session: &str, call: u64) -> Write {
        Write {
            call: CallId(call),
            session: session.into(),
            granter: None,
            has_more_gas: false,
            is_withdrawn: false,
            setbacks: 0,
        }
    }

    fn calls(queue: &mut Queue) -> Vec<u64> {
        queue.drain().into_iter().map(|write| write.call.0).collect()
    }

    #[test]
    fn sessions_take_turns_and_keep_their_own_order() {
        let mut queue = Queue::default();
        for (session, call) in [("a", 1), ("a", 2), ("a", 3), ("b", 10), ("c", 20), ("b", 11)] {
            queue.push(write(session, call));
        }
        assert_eq!(queue.len(), 6);
        assert_eq!(calls(&mut queue), [1, 10, 20, 2, 11, 3]);
        assert!(queue.is_empty());
    }

    #[test]
    fn what_was_set_back_is_next_again_and_what_is_taken_out_is_gone() {
        let mut queue = Queue::default();
        queue.push(write("a", 1));
        queue.push(write("b", 10));
        let first = queue.pop().expect("one");
        queue.push(write("a", 2));
        queue.push_first(first);
        assert!(queue.remove(CallId(2)) && !queue.remove(CallId(2)));
        assert_eq!(calls(&mut queue), [1, 10]);
    }
}
