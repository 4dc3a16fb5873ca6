//! The order of a session's work. Pure.

use std::collections::{BTreeSet, VecDeque};

/// Messages of the peer that may wait, while one is judged and stored.
pub(super) const MAX_WAITING: usize = 100;

/// The work of a session. `T` is a message of the peer with its reply port.
pub(super) struct SessionCore<T> {
    waiting: VecDeque<T>,
    is_taking: bool,
    /// Connections that may have a message which is due, in order.
    due: VecDeque<String>,
    /// The connection whose message is being read or sent.
    sending: Option<String>,
    /// Connections that became due again while one of their messages was being sent.
    again: BTreeSet<String>,
}

/// The next step of the shell.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SessionEffect<T> {
    /// Judges and stores a message.
    Take(T),
    /// Refuses one: too many wait.
    Refuse(T),
    /// Reads the next message of a connection.
    ReadNext(String),
}

impl<T> Default for SessionCore<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), is_taking: false, due: VecDeque::new(), sending: None, again: BTreeSet::new() }
    }
}

impl<T> SessionCore<T> {
    /// A message has come.
    pub fn arrived(&mut self, message: T) -> Option<SessionEffect<T>> {
        if !self.is_taking {
            self.is_taking = true;
            return Some(SessionEffect::Take(message));
        }
        if self.waiting.len() >= MAX_WAITING {
            return Some(SessionEffect::Refuse(message));
        }
        self.waiting.push_back(message);
        None
    }

    /// A message was stored, or refused.
    pub fn taken(&mut self) -> Option<SessionEffect<T>> {
        let next = self.waiting.pop_front();
        self.is_taking = next.is_some();
        next.map(SessionEffect::Take)
    }

    /// Takes the messages that wait.
    pub fn drain(&mut self) -> Vec<T> {
        self.waiting.drain(..).collect()
    }

    /// A connection may have a message that is due.
    pub fn due(&mut self, connection_id: String) -> Option<SessionEffect<T>> {
        if self.sending.as_ref() == Some(&connection_id) {
            self.again.insert(connection_id);
            return None;
        }
        if !self.due.contains(&connection_id) {
            self.due.push_back(connection_id);
        }
        self.read_next()
    }

    /// Nothing of a connection is due any more.
    pub fn nothing_due(&mut self) -> Option<SessionEffect<T>> {
        if let Some(done) = self.sending.take()
            && self.again.remove(&done)
        {
            self.due.push_back(done);
        }
        self.read_next()
    }

    fn read_next(&mut self) -> Option<SessionEffect<T>> {
        if self.sending.is_some() {
            return None;
        }
        let next = self.due.pop_front()?;
        self.sending = Some(next.clone());
        Some(SessionEffect::ReadNext(next))
    }

    /// Whether nothing is being done and nothing waits.
    pub fn is_idle(&self) -> bool {
        !self.is_taking && self.sending.is_none() && self.due.is_empty()
    }

    /// Messages that wait to be stored.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_is_taken_at_a_time_and_the_queue_has_a_bound() {
        let mut core = SessionCore::default();
        assert_eq!(core.arrived(0), Some(SessionEffect::Take(0)));
        for message in 1..=MAX_WAITING {
            assert_eq!(core.arrived(message), None);
        }
        assert_eq!(core.arrived(1_000), Some(SessionEffect::Refuse(1_000)));
        for message in 1..=MAX_WAITING {
            assert_eq!(core.taken(), Some(SessionEffect::Take(message)));
        }
        assert_eq!((core.taken(), core.is_idle()), (None, true));
        assert_eq!(core.arrived(7), Some(SessionEffect::Take(7)));
    }

    #[test]
    fn one_connection_is_served_at_a_time_and_none_is_forgotten() {
        let mut core: SessionCore<()> = SessionCore::default();
        let read = |id: &str| Some(SessionEffect::ReadNext(id.to_owned()));
        assert_eq!(core.due("a".into()), read("a"));
        assert_eq!(core.due("b".into()), None);
        assert_eq!(core.due("b".into()), None);
        assert_eq!(core.due("a".into()), None, "it became due again while it was served");
        assert_eq!(core.nothing_due(), read("b"));
        assert_eq!(core.nothing_due(), read("a"));
        assert!(!core.is_idle());
        assert_eq!((core.nothing_due(), core.is_idle()), (None, true));
    }
}
